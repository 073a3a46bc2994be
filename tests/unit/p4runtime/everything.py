# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A program that has one of everything P4Runtime can reach, as BMv2 JSON and P4Info.

It is written here so that no P4 compiler is needed. Its tables are applied one after the other;
`forward` sets the egress port, so the last hit decides.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from p4.config.v1 import p4info_pb2

CPU_PORT = 510
MatchField = p4info_pb2.MatchField

FORWARD, DROP, LEARN, BROADCAST, COPY, LIMIT, COUNT, NO_ACTION, METER_CELL, STORE = range(0x01000001, 0x0100000B)
EXACT, LPM, TERNARY, RANGE, OPTIONAL, METERED, CONSTANT, INDIRECT, GROUPED, TIMED, MIXED, KEYLESS = range(
    0x02000001, 0x0200000D
)
VALUE_SET = 0x03000001
PROFILE, SELECTOR = 0x11000001, 0x11000002
HITS, TERNARY_HITS = 0x12000001, 0x13000001
LIMITS, ENTRY_LIMIT = 0x14000001, 0x15000001
CELLS, NARROW, SIGNED = 0x16000001, 0x16000002, 0x16000003
LEARNED = 0x17000001

_KINDS = {
    "exact": MatchField.EXACT,
    "lpm": MatchField.LPM,
    "ternary": MatchField.TERNARY,
    "range": MatchField.RANGE,
    "optional": MatchField.OPTIONAL,
}
_WIDTHS = {"destination": 48, "source": 48, "ether_type": 16, "ingress_port": 9}


def _field(header: str, name: str) -> dict[str, Any]:
    return {"type": "field", "value": [header, name]}


def _number(value: int) -> dict[str, Any]:
    return {"type": "hexstr", "value": hex(value)}


def _argument(place: int) -> dict[str, Any]:
    return {"type": "runtime_data", "value": place}


def _assign(left: dict[str, Any], right: dict[str, Any]) -> dict[str, Any]:
    return {"op": "assign", "parameters": [left, right]}


_EGRESS = _field("standard_metadata", "egress_spec")
# name, P4Info id, parameters, primitives
_ACTIONS: list[tuple[str, int, list[tuple[str, int]], list[dict[str, Any]]]] = [
    ("forward", FORWARD, [("port", 9)], [_assign(_EGRESS, _argument(0))]),
    ("drop", DROP, [], [{"op": "mark_to_drop", "parameters": [{"type": "header", "value": "standard_metadata"}]}]),
    ("learn", LEARN, [], [{"op": "generate_digest", "parameters": [_number(1), _number(1)]}]),
    ("broadcast", BROADCAST, [("group", 16)], [_assign(_field("standard_metadata", "mcast_grp"), _argument(0))]),
    (
        "copy",
        COPY,
        [("session", 32)],
        [{"op": "clone_ingress_pkt_to_egress", "parameters": [_argument(0), _number(1)]}],
    ),
    ("limit", LIMIT, [("port", 9)], [_assign(_EGRESS, _argument(0))]),
    (
        "count",
        COUNT,
        [("cell", 32)],
        [{"op": "count", "parameters": [{"type": "counter_array", "value": "Ingress.hits"}, _argument(0)]}],
    ),
    ("NoAction", NO_ACTION, [], []),
    (
        "meter_cell",
        METER_CELL,
        [("cell", 32)],
        [
            {
                "op": "execute_meter",
                "parameters": [
                    {"type": "meter_array", "value": "Ingress.limits"},
                    _argument(0),
                    _field("scalars", "color"),
                ],
            }
        ],
    ),
    (
        "store",
        STORE,
        [("cell", 32), ("value", 32)],
        [
            {
                "op": "register_write",
                "parameters": [{"type": "register_array", "value": "Ingress.cells"}, _argument(0), _argument(1)],
            }
        ],
    ),
]

# name, id, keys, actions, size, options
_TABLES: list[tuple[str, int, list[tuple[str, str]], list[str], int, dict[str, Any]]] = [
    (
        "exact_table",
        EXACT,
        [("destination", "exact")],
        ["forward", "drop", "learn", "broadcast", "copy", "count", "meter_cell", "store", "NoAction"],
        20000,
        {},
    ),
    ("lpm_table", LPM, [("source", "lpm")], ["forward", "drop", "NoAction"], 1024, {}),
    (
        "ternary_table",
        TERNARY,
        [("destination", "ternary"), ("ether_type", "ternary")],
        ["forward", "drop", "NoAction"],
        1024,
        {"counter": True},
    ),
    ("range_table", RANGE, [("ether_type", "range")], ["forward", "NoAction"], 64, {}),
    (
        "optional_table",
        OPTIONAL,
        [("ether_type", "optional"), ("ingress_port", "exact")],
        ["forward", "NoAction"],
        64,
        {},
    ),
    ("metered", METERED, [("ingress_port", "exact")], ["limit", "NoAction"], 64, {"meter": True}),
    ("constant", CONSTANT, [("ether_type", "exact")], ["forward", "NoAction"], 4, {"const": [(0x8899, 7)]}),
    ("indirect", INDIRECT, [("ether_type", "exact")], ["forward", "drop", "NoAction"], 64, {"profile": "members"}),
    ("grouped", GROUPED, [("source", "exact")], ["forward", "NoAction"], 64, {"profile": "selector"}),
    ("timed", TIMED, [("source", "exact")], ["forward", "NoAction"], 64, {"timeout": True}),
    (
        "mixed",
        MIXED,
        [("ingress_port", "exact"), ("destination", "lpm"), ("ether_type", "ternary")],
        ["forward", "NoAction"],
        64,
        {},
    ),
    ("keyless", KEYLESS, [], ["forward", "NoAction"], 1, {}),
]


def _targets(name: str) -> list[str]:
    return ["standard_metadata", name] if name == "ingress_port" else ["ethernet", name]


def _standard_fields() -> list[list[Any]]:
    widths = {
        "ingress_port": 9, "egress_spec": 9, "egress_port": 9, "instance_type": 32, "packet_length": 32,
        "enq_timestamp": 32, "enq_qdepth": 19, "deq_timedelta": 32, "deq_qdepth": 19, "ingress_global_timestamp": 48,
        "egress_global_timestamp": 48, "mcast_grp": 16, "egress_rid": 16, "checksum_error": 1, "parser_error": 32,
        "priority": 3, "_padding": 3,
    }  # fmt: skip
    return [[name, width, False] for name, width in widths.items()]


def program() -> dict[str, Any]:
    """Return the program as p4c-bm2-ss would write it."""
    actions = [
        {
            "name": name if name == "NoAction" else f"Ingress.{name}",
            "id": place,
            "runtime_data": [{"name": parameter, "bitwidth": width} for parameter, width in parameters],
            "primitives": primitives,
        }
        for place, (name, _, parameters, primitives) in enumerate(_ACTIONS)
    ]
    place_of = {name: place for place, (name, *_) in enumerate(_ACTIONS)}
    tables = []
    for place, (name, _, keys, allowed, size, options) in enumerate(_TABLES):
        following = f"Ingress.{_TABLES[place + 1][0]}" if place + 1 < len(_TABLES) else None
        kinds = [kind for _, kind in keys]
        matching = next((kind for kind in ("range", "ternary", "optional", "lpm") if kind in kinds), "exact")
        table: dict[str, Any] = {
            "name": f"Ingress.{name}",
            "id": place,
            "key": [
                {"match_type": kind, "name": f"hdr.{field}", "target": _targets(field), "mask": None}
                for field, kind in keys
            ],
            "match_type": {"optional": "ternary"}.get(matching, matching),
            "type": {"members": "indirect", "selector": "indirect_ws"}.get(options.get("profile", ""), "simple"),
            "max_size": size,
            "with_counters": bool(options.get("counter")),
            "support_timeout": bool(options.get("timeout")),
            "direct_meters": "Ingress.entry_limit" if options.get("meter") else None,
            "action_ids": [place_of[each] for each in allowed],
            "actions": [actions[place_of[each]]["name"] for each in allowed],
            "base_default_next": following,
            "next_tables": {str(actions[place_of[each]]["name"]): following for each in allowed},
        }
        if "profile" in options:
            table["action_profile"] = f"Ingress.{options['profile']}"
        else:
            table["default_entry"] = {
                "action_id": place_of["NoAction"],
                "action_const": False,
                "action_data": [],
                "action_entry_const": False,
            }
        if "const" in options:
            table["entries"] = [
                {
                    "match_key": [{"match_type": "exact", "key": hex(value)}],
                    "action_entry": {"action_id": place_of["forward"], "action_data": [hex(port)]},
                    "priority": rank,
                }
                for rank, (value, port) in enumerate(options["const"], 1)
            ]
        tables.append(table)
    ethernet = [["destination", 48, False], ["source", 48, False], ["ether_type", 16, False]]
    names = ("scalars_t", "standard_metadata", "ethernet_t", "packet_in_t", "packet_out_t")
    fields = (
        [["color", 8, False], ["special", 8, False]],
        _standard_fields(),
        ethernet,
        [["ingress_port", 9, False], ["reason", 7, False]],
        [["egress_port", 9, False], ["pad", 7, False]],
    )
    headers = ("scalars", "standard_metadata", "ethernet", "packet_in", "packet_out")
    return {
        "program": "everything",
        "__meta__": {"version": [2, 23], "compiler": "tests/unit/p4runtime/everything.py"},
        "header_types": [{"name": n, "id": i, "fields": f} for i, (n, f) in enumerate(zip(names, fields, strict=True))],
        "headers": [
            {"name": header, "id": i, "header_type": name, "metadata": i < 2, "pi_omit": True}
            for i, (header, name) in enumerate(zip(headers, names, strict=True))
        ],
        "header_stacks": [],
        "header_union_types": [],
        "header_unions": [],
        "header_union_stacks": [],
        "field_lists": [{"id": 1, "name": "fl", "elements": []}],
        "errors": [["NoError", 0], ["PacketTooShort", 1], ["NoMatch", 2], ["StackOutOfBounds", 3]],
        "enums": [],
        "parsers": [_parser()],
        "parse_vsets": [{"name": "Parser.special", "id": 0, "compressed_bitwidth": 16, "max_size": 4}],
        "deparsers": [{"name": "deparser", "id": 0, "order": ["packet_in", "ethernet"], "primitives": []}],
        "meter_arrays": [
            {"name": "Ingress.limits", "id": 0, "is_direct": False, "size": 16, "rate_count": 2, "type": "packets"},
            {
                "name": "Ingress.entry_limit",
                "id": 1,
                "is_direct": True,
                "size": 64,
                "rate_count": 2,
                "type": "packets",
                "binding": "Ingress.metered",
                "result_target": ["scalars", "color"],
            },
        ],
        "counter_arrays": [
            {"name": "Ingress.hits", "id": 0, "is_direct": False, "size": 512},
            {"name": "Ingress.ternary_hits", "id": 1, "is_direct": True, "binding": "Ingress.ternary_table"},
        ],
        "register_arrays": [
            {"name": "Ingress.cells", "id": 0, "bitwidth": 32, "size": 64},
            {"name": "Ingress.narrow", "id": 1, "bitwidth": 5, "size": 8},
            {"name": "Ingress.signed", "id": 2, "bitwidth": 12, "size": 8},
        ],
        "calculations": [],
        "learn_lists": [
            {
                "id": 1,
                "name": "learned_t",
                "elements": [_field("ethernet", "source"), _field("standard_metadata", "ingress_port")],
            }
        ],
        "actions": actions,
        "pipelines": [
            {
                "name": "ingress",
                "id": 0,
                "init_table": "from_controller",
                "tables": tables,
                "action_profiles": [
                    {"name": "Ingress.members", "id": 0, "max_size": 16},
                    {
                        "name": "Ingress.selector",
                        "id": 1,
                        "max_size": 64,
                        "selector": {"algo": "crc16", "input": [_field("ethernet", "ether_type")]},
                    },
                ],
                "conditionals": [
                    {
                        "name": "from_controller",
                        "id": 0,
                        "expression": {
                            "type": "expression",
                            "value": {"op": "d2b", "left": None, "right": _field("packet_out", "$valid$")},
                        },
                        "true_next": "direct_out",
                        "false_next": "Ingress.exact_table",
                    }
                ],
            },
            {"name": "egress", "id": 1, "init_table": None, "tables": [], "action_profiles": [], "conditionals": []},
        ],
        "checksums": [],
        "force_arith": [],
        "extern_instances": [],
        "field_aliases": [
            [f"queueing_metadata.{name}", ["standard_metadata", name]]
            for name in ("enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth")
        ]
        + [["intrinsic_metadata.mcast_grp", ["standard_metadata", "mcast_grp"]]],
    }


def _parser() -> dict[str, Any]:
    def extract(header: str) -> dict[str, Any]:
        return {"op": "extract", "parameters": [{"type": "regular", "value": header}]}

    def otherwise(state: str | None) -> dict[str, Any]:
        return {"type": "default", "value": None, "mask": None, "next_state": state}

    special = {
        "op": "set",
        "parameters": [_field("scalars", "special"), _number(1)],
    }
    return {
        "name": "parser",
        "id": 0,
        "init_state": "start",
        "parse_states": [
            {
                "name": "start",
                "id": 0,
                "parser_ops": [],
                "transition_key": [_field("standard_metadata", "ingress_port")],
                "transitions": [
                    {"type": "hexstr", "value": f"0x{CPU_PORT:04x}", "mask": None, "next_state": "parse_packet_out"},
                    otherwise("parse_ethernet"),
                ],
            },
            {
                "name": "parse_packet_out",
                "id": 1,
                "parser_ops": [extract("packet_out")],
                "transition_key": [],
                "transitions": [otherwise("parse_ethernet")],
            },
            {
                "name": "parse_ethernet",
                "id": 2,
                "parser_ops": [extract("ethernet")],
                "transition_key": [_field("ethernet", "ether_type")],
                "transitions": [
                    {"type": "parse_vset", "value": "Parser.special", "mask": None, "next_state": "mark_special"},
                    otherwise(None),
                ],
            },
            {
                "name": "mark_special",
                "id": 3,
                "parser_ops": [special],
                "transition_key": [],
                "transitions": [otherwise(None)],
            },
        ],
    }


def _finish(document: dict[str, Any]) -> dict[str, Any]:
    """Add the tables without keys that p4c makes of bare statements: packet-out, and the packet-in header at egress."""
    ingress, egress = document["pipelines"]
    actions = document["actions"]

    def statement(pipeline: dict[str, Any], name: str, primitives: list[dict[str, Any]], following: str | None) -> None:
        action = {"name": name, "id": len(actions), "runtime_data": [], "primitives": primitives}
        actions.append(action)
        pipeline["tables"].append(
            {
                "name": name,
                "id": 100 + len(actions),
                "key": [],
                "match_type": "exact",
                "type": "simple",
                "max_size": 1,
                "with_counters": False,
                "support_timeout": False,
                "direct_meters": None,
                "action_ids": [action["id"]],
                "actions": [name],
                "base_default_next": following,
                "next_tables": {name: following},
                "default_entry": {
                    "action_id": action["id"],
                    "action_const": True,
                    "action_data": [],
                    "action_entry_const": True,
                },
            }
        )

    statement(
        ingress,
        "direct_out",
        [
            _assign(_EGRESS, _field("packet_out", "egress_port")),
            {"op": "remove_header", "parameters": [{"type": "header", "value": "packet_out"}]},
        ],
        None,
    )
    statement(
        egress,
        "to_controller",
        [
            {"op": "add_header", "parameters": [{"type": "header", "value": "packet_in"}]},
            _assign(_field("packet_in", "ingress_port"), _field("standard_metadata", "ingress_port")),
            _assign(_field("packet_in", "reason"), _field("scalars", "special")),
        ],
        None,
    )
    egress["conditionals"].append(
        {
            "name": "is_for_controller",
            "id": 1,
            "expression": {
                "type": "expression",
                "value": {
                    "op": "==",
                    "left": _field("standard_metadata", "egress_port"),
                    "right": _number(CPU_PORT),
                },
            },
            "true_next": "to_controller",
            "false_next": None,
        }
    )
    egress["init_table"] = "is_for_controller"
    return document


def p4info() -> p4info_pb2.P4Info:
    """Return the program's P4Info."""
    info = p4info_pb2.P4Info()
    info.pkg_info.arch = "v1model"
    for name, identifier, parameters, _ in _ACTIONS:
        action = info.actions.add()
        _preamble(action, identifier, name if name == "NoAction" else f"Ingress.{name}")
        for place, (parameter, width) in enumerate(parameters, 1):
            action.params.add(id=place, name=parameter, bitwidth=width)
    by_name = {name: identifier for name, identifier, *_ in _ACTIONS}
    for name, identifier, keys, allowed, size, options in _TABLES:
        table = info.tables.add(size=size)
        _preamble(table, identifier, f"Ingress.{name}")
        for place, (field, kind) in enumerate(keys, 1):
            table.match_fields.add(id=place, name=f"hdr.{field}", bitwidth=_WIDTHS[field], match_type=_KINDS[kind])
        for each in allowed:
            scope = p4info_pb2.ActionRef.TABLE_AND_DEFAULT
            if each == "learn":
                scope = p4info_pb2.ActionRef.TABLE_ONLY
            if each == "NoAction" and name == "lpm_table":
                scope = p4info_pb2.ActionRef.DEFAULT_ONLY
            table.action_refs.add(id=by_name[each], scope=scope)
        if options.get("counter"):
            table.direct_resource_ids.append(TERNARY_HITS)
        if options.get("meter"):
            table.direct_resource_ids.append(ENTRY_LIMIT)
        if "const" in options:
            table.is_const_table = True
        if "profile" in options:
            table.implementation_id = {"members": PROFILE, "selector": SELECTOR}[options["profile"]]
        if options.get("timeout"):
            table.idle_timeout_behavior = p4info_pb2.Table.NOTIFY_CONTROL
        if name == "range_table":
            table.const_default_action_id = NO_ACTION
    _preamble(info.action_profiles.add(table_ids=[INDIRECT], size=16), PROFILE, "Ingress.members")
    selector = info.action_profiles.add(table_ids=[GROUPED], size=64, with_selector=True, max_group_size=16)
    _preamble(selector, SELECTOR, "Ingress.selector")
    both = p4info_pb2.CounterSpec(unit=p4info_pb2.CounterSpec.BOTH)
    _preamble(info.counters.add(spec=both, size=512), HITS, "Ingress.hits")
    direct = info.direct_counters.add(spec=both, direct_table_id=TERNARY)
    _preamble(direct, TERNARY_HITS, "Ingress.ternary_hits")
    packets = p4info_pb2.MeterSpec(unit=p4info_pb2.MeterSpec.PACKETS)
    _preamble(info.meters.add(spec=packets, size=16), LIMITS, "Ingress.limits")
    _preamble(info.direct_meters.add(spec=packets, direct_table_id=METERED), ENTRY_LIMIT, "Ingress.entry_limit")
    for name, identifier, width, size in (("cells", CELLS, 32, 64), ("narrow", NARROW, 5, 8)):
        register = info.registers.add(size=size)
        _preamble(register, identifier, f"Ingress.{name}")
        register.type_spec.bitstring.bit.bitwidth = width
    signed = info.registers.add(size=8)
    _preamble(signed, SIGNED, "Ingress.signed")
    signed.type_spec.bitstring.int.bitwidth = 12
    value_set = info.value_sets.add(size=4)
    _preamble(value_set, VALUE_SET, "Parser.special")
    value_set.match.add(id=1, name="ether_type", bitwidth=16, match_type=MatchField.EXACT)
    digest = info.digests.add()
    _preamble(digest, LEARNED, "learned_t")
    digest.type_spec.struct.name = "learned_t"
    members = info.type_info.structs["learned_t"].members
    for name, width in (("source", 48), ("port", 9)):
        member = members.add(name=name)
        member.type_spec.bitstring.bit.bitwidth = width
    for name, fields in (
        ("packet_in", [("ingress_port", 9), ("reason", 7)]),
        ("packet_out", [("egress_port", 9), ("pad", 7)]),
    ):
        header = info.controller_packet_metadata.add()
        _preamble(header, 0x04000001 + (name == "packet_out"), name)
        for place, (field, width) in enumerate(fields, 1):
            header.metadata.add(id=place, name=field, bitwidth=width)
    return info


def _preamble(item: Any, identifier: int, name: str) -> None:
    item.preamble.id = identifier
    item.preamble.name = name
    item.preamble.alias = name.rpartition(".")[2]


def write(directory: Path) -> tuple[Path, Path]:
    """Write the program and its P4Info beside each other; returns their paths."""
    document, info = directory / "everything.json", directory / "everything.p4info.txtpb"
    document.write_text(json.dumps(_finish(program())))
    info.write_text(text_format.MessageToString(p4info()))
    return document, info
