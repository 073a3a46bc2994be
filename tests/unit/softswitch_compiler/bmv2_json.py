# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Write small BMv2 JSON programs by hand, in p4c's dialect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Json = dict[str, Any]

STANDARD_FIELDS = [
    ["ingress_port", 9], ["egress_spec", 9], ["egress_port", 9], ["instance_type", 32], ["packet_length", 32],
    ["enq_timestamp", 32], ["enq_qdepth", 19], ["deq_timedelta", 32], ["deq_qdepth", 19],
    ["ingress_global_timestamp", 48], ["egress_global_timestamp", 48], ["mcast_grp", 16], ["egress_rid", 16],
    ["checksum_error", 1], ["parser_error", 32], ["priority", 3], ["_padding", 3],
]  # fmt: skip
ALIASES = [
    ["queueing_metadata.enq_timestamp", ["standard_metadata", "enq_timestamp"]],
    ["queueing_metadata.enq_qdepth", ["standard_metadata", "enq_qdepth"]],
    ["queueing_metadata.deq_timedelta", ["standard_metadata", "deq_timedelta"]],
    ["queueing_metadata.deq_qdepth", ["standard_metadata", "deq_qdepth"]],
    ["intrinsic_metadata.ingress_global_timestamp", ["standard_metadata", "ingress_global_timestamp"]],
    ["intrinsic_metadata.egress_global_timestamp", ["standard_metadata", "egress_global_timestamp"]],
    ["intrinsic_metadata.mcast_grp", ["standard_metadata", "mcast_grp"]],
    ["intrinsic_metadata.egress_rid", ["standard_metadata", "egress_rid"]],
    ["intrinsic_metadata.priority", ["standard_metadata", "priority"]],
]
ERRORS = ["NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "HeaderTooShort", "ParserTimeout",
          "ParserInvalidArgument"]  # fmt: skip


def hexstr(value: int) -> Json:
    return {"type": "hexstr", "value": f"-0x{-value:x}" if value < 0 else f"0x{value:x}"}


def field(header: str, name: str) -> Json:
    return {"type": "field", "value": [header, name]}


def header(name: str) -> Json:
    return {"type": "header", "value": name}


def param(number: int) -> Json:
    return {"type": "runtime_data", "value": number}


def local(number: int) -> Json:
    return {"type": "local", "value": number}


def op(operator: str, left: Json | None, right: Json | None, **more: Any) -> Json:
    return {"type": "expression", "value": {"op": operator, "left": left, "right": right, **more}}


def wrapped(expression: Json) -> Json:
    return {"type": "expression", "value": expression}


def call(name: str, *parameters: Any) -> Json:
    return {"op": name, "parameters": list(parameters)}


def assign(target: Json, value: Json) -> Json:
    return call("assign", target, value)


EGRESS_SPEC = field("standard_metadata", "egress_spec")


class ProgramBuilder:
    """A program that parses what it is told and sends packets to port 1 unless an action says otherwise."""

    def __init__(self) -> None:
        self.types: list[Json] = []
        self.headers: list[Json] = []
        self.stacks: list[Json] = []
        self.states: list[Json] = []
        self.actions: list[Json] = []
        self.sections: dict[str, list[Json]] = {
            key: []
            for key in (
                "header_union_types", "header_unions", "header_union_stacks", "field_lists", "calculations",
                "learn_lists", "meter_arrays", "counter_arrays", "register_arrays", "checksums", "parse_vsets",
            )
        }  # fmt: skip
        self.pipelines: dict[str, Json] = {
            name: {"tables": [], "conditionals": [], "action_calls": [], "action_profiles": []}
            for name in ("ingress", "egress")
        }
        self.order: list[str] = []
        self.errors = [[name, number] for number, name in enumerate(ERRORS)]
        self.add_type("standard_metadata", STANDARD_FIELDS)
        self.add_header("standard_metadata", "standard_metadata", metadata=True)

    # ---- headers ----

    def add_type(self, name: str, fields: list[list[Any]], **more: Any) -> None:
        if all(isinstance(f[1], int) for f in fields):
            spare = -sum(f[1] for f in fields) % 8
            if spare:
                fields = [*fields, ["_pad", spare]]
        self.types.append({"name": name, "id": len(self.types), "fields": fields, **more})

    def add_header(self, name: str, type_name: str, *, metadata: bool = False) -> int:
        number = len(self.headers)
        self.headers.append({"name": name, "id": number, "header_type": type_name, "metadata": metadata})
        return number

    def metadata(self, fields: list[list[Any]], name: str = "meta") -> None:
        self.add_type(name + "_t", fields)
        self.add_header(name, name + "_t", metadata=True)

    def header(self, name: str, fields: list[list[Any]], **more: Any) -> None:
        self.add_type(name + "_t", fields, **more)
        self.add_header(name, name + "_t")
        self.order.append(name)

    def stack(self, name: str, type_name: str, size: int) -> None:
        numbers = []
        for index in range(size):
            numbers.append(self.add_header(f"{name}[{index}]", type_name))
            self.order.append(f"{name}[{index}]")
        self.stacks.append(
            {"name": name, "id": len(self.stacks), "header_type": type_name, "size": size, "header_ids": numbers}
        )

    # ---- parser ----

    def state(
        self,
        name: str,
        *operations: Json,
        key: list[Json] | None = None,
        cases: list[tuple[Any, ...]] | None = None,
        default: str | None = None,
    ) -> None:
        transitions = []
        for case in cases or []:
            value, mask, following = case if len(case) == 3 else (case[0], None, case[1])
            kind = "parse_vset" if isinstance(value, str) and not value.startswith("0x") else "hexstr"
            transitions.append({"type": kind, "value": value, "mask": mask, "next_state": following})
        transitions.append({"type": "default", "value": None, "mask": None, "next_state": default})
        self.states.append(
            {"name": name, "id": len(self.states), "parser_ops": list(operations), "transition_key": key or [],
             "transitions": transitions}
        )  # fmt: skip

    @staticmethod
    def extract(name: str, kind: str = "regular") -> Json:
        return {"op": "extract", "parameters": [{"type": kind, "value": name}]}

    # ---- controls ----

    def action(self, name: str, parameters: list[tuple[str, int]], *primitives: Json) -> int:
        number = len(self.actions)
        self.actions.append(
            {"name": name, "id": number, "primitives": list(primitives),
             "runtime_data": [{"name": n, "bitwidth": bits} for n, bits in parameters]}
        )  # fmt: skip
        return number

    def action_id(self, name: str) -> int:
        return next(action["id"] for action in self.actions if action["name"] == name)

    def table(
        self,
        name: str,
        keys: list[tuple[str, Json]],
        actions: list[str],
        *,
        default: tuple[str, list[int]] | None = None,
        const_default: bool = False,
        pipeline: str = "ingress",
        following: Any = None,
        size: int = 1024,
        **more: Any,
    ) -> None:
        kinds = [kind for kind, _ in keys]
        match_type = next((kind for kind in ("range", "ternary", "lpm") if kind in kinds), "exact")
        entry: Json = {
            "name": name,
            "id": sum(len(p["tables"]) for p in self.pipelines.values()),
            "key": [
                {"match_type": kind, "name": ".".join(target["value"]), "target": target["value"], "mask": None}
                for kind, target in keys
            ],
            "match_type": match_type,
            "type": "simple",
            "max_size": size,
            "with_counters": False,
            "support_timeout": False,
            "direct_meters": None,
            "action_ids": [self.action_id(action) for action in actions],
            "actions": actions,
            "base_default_next": following if not isinstance(following, dict) else None,
            "next_tables": following if isinstance(following, dict) else dict.fromkeys(actions, following),
        }
        if default is not None:
            entry["default_entry"] = {
                "action_id": self.action_id(default[0]), "action_const": const_default,
                "action_data": [f"0x{value:x}" for value in default[1]], "action_entry_const": const_default,
            }  # fmt: skip
        self.pipelines[pipeline]["tables"].append({**entry, **more})

    def run(self, action: str, *, name: str = "", pipeline: str = "ingress", following: str | None = None) -> None:
        """Apply an action unconditionally, through a table without key as p4c does."""
        self.table(name or f"tbl_{action}", [], [action], default=(action, []), const_default=True, pipeline=pipeline,
                   following=following)  # fmt: skip

    def condition(
        self, name: str, expression: Json, yes: str | None, no: str | None, pipeline: str = "ingress"
    ) -> None:
        conditionals = self.pipelines[pipeline]["conditionals"]
        conditionals.append(
            {"name": name, "id": len(conditionals), "expression": expression, "true_next": yes, "false_next": no}
        )

    def document(self, first: str | None = None, egress: str | None = None) -> Json:
        if not self.states:
            self.state("start")
        pipelines = []
        for number, (name, content) in enumerate(self.pipelines.items()):
            wanted = first if name == "ingress" else egress
            if wanted is None and content["tables"]:
                wanted = content["tables"][0]["name"]
            pipelines.append({"name": name, "id": number, "init_table": wanted, **content})
        return {
            "header_types": self.types,
            "headers": self.headers,
            "header_stacks": self.stacks,
            "errors": self.errors,
            "enums": [],
            "parsers": [{"name": "parser", "id": 0, "init_state": self.states[0]["name"], "parse_states": self.states}],
            "deparsers": [{"name": "deparser", "id": 0, "order": self.order, "primitives": []}],
            "actions": self.actions,
            "pipelines": pipelines,
            "force_arith": [],
            "extern_instances": [],
            "field_aliases": ALIASES,
            "program": "test.p4",
            "__meta__": {"version": [2, 23], "compiler": "tests"},
            **self.sections,
        }

    def write(self, directory: Path, first: str | None = None, egress: str | None = None) -> Path:
        path = directory / "program.json"
        path.write_text(json.dumps(self.document(first, egress)))
        return path
