# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Put a program's C file together: declarations, functions, objects and the table of entry points."""

from __future__ import annotations

import hashlib

from softswitch.compiler.calculations import Calculations
from softswitch.compiler.control import Control
from softswitch.compiler.deparser import Deparser
from softswitch.compiler.expressions import Expressions
from softswitch.compiler.model import Action, FieldList, Json, ValueSet, hexstr, member, refuse
from softswitch.compiler.parser import Parser
from softswitch.compiler.phv import words
from softswitch.compiler.primitives import ActionScope, Primitives
from softswitch.compiler.tables import Tables, profile_actions
from softswitch.compiler.unit import Unit, action_data, c_string, indent

HEAD = """\
/* Written by softswitch.compiler from {source}. */
{wide}#include "checksum.h"
#include "primitives.h"
#include "arithmetic.h"

#include <stdlib.h>

#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wunused-const-variable"
#pragma GCC diagnostic ignored "-Wunused-label"
#pragma GCC diagnostic ignored "-Wunused-parameter"

struct ss_state;
"""


def write_program(unit: Unit, source_name: str) -> str:
    """Write the whole C file."""
    calculations = Calculations(unit)
    tables = Tables(unit, calculations)
    parser = Parser(unit, calculations)
    deparser = Deparser(unit, calculations)
    actions = [line for action in unit.program.actions for line in _action(unit, calculations, action)]
    applications = [line for table in unit.program.tables for line in tables.function(table)]
    parsing = parser.function()
    around = [*deparser.verify(), *deparser.update(), *deparser.function()]
    controls = [
        *Control(unit, unit.program.pipelines["ingress"]).function("run_ingress"),
        *Control(unit, unit.program.pipelines["egress"]).function("run_egress"),
    ]
    digests = _digests(unit)
    lists = _copy_list(unit)
    objects = _objects(unit, tables, parser, calculations)
    sections = [
        unit.layout.declare(unit.carried),
        "\n".join(unit.declare_data(a) for a in unit.program.actions if a.parameters) + "\n",
        *("\n".join(part) for part in objects.declarations), "\n".join(calculations.functions),
        "\n".join(actions), "\n".join(applications), "\n".join(parsing), "\n".join(around), "\n".join(controls),
        "\n".join(digests), "\n".join(lists), "\n".join(objects.functions),
        "\n".join(_entry_points(unit, deparser)),
    ]  # fmt: skip
    text = "\n".join(sections)
    wide = ""
    if "ss_wide" in text or "_wide(" in text:
        widest = max([f.bits for t in unit.program.header_types.values() for f in t.fields if not f.varbit] or [64])
        widest = max([widest, *(r.bits for r in unit.program.registers.values())])
        widest = max([widest, *(p.bits for a in unit.program.actions for p in a.parameters)])
        wide = f"#define SS_WIDE_WORDS {max(2 * ((widest + 63) // 64) + 1, 5)}\n"
    digest = hashlib.sha256(text.encode()).hexdigest()
    name = source_name.rpartition("/")[2]  # its folder may be a temporary one: the library is cached by this text
    head = HEAD.format(source=name.replace("*/", ""), wide=wide)
    return head + "\n" + text.replace("@SOURCE_HASH@", digest)


def _action(unit: Unit, calculations: Calculations, action: Action) -> list[str]:
    expressions = Expressions(unit.layout, ActionScope(unit, action.parameters))
    primitives = Primitives(unit, calculations, expressions)
    data = f", const {unit.data(action)} *d" if action.parameters else ""
    name = unit.action(action)
    lines = [f"static inline void {name}(struct ss_state *s, struct ss_packet *p, struct phv *h{data})", "{"]
    lines.append("    (void)s; (void)p; (void)h;" + (" (void)d;" if action.parameters else ""))
    lines += indent(primitives.statements(action.primitives, action.place))
    return [*lines, "}", ""]


# ---- digests and field lists ----


def _element_bytes(unit: Unit, element: Json, place: str) -> tuple[int, list[str]]:
    """Return the width of a digest's element, and the expressions of its bytes."""
    kind = member(element, "type", place)
    if kind == "hexstr":
        bits = int(element.get("bitwidth") or max(hexstr(element["value"], place).bit_length(), 1))
        value = hexstr(element["value"], place) & (1 << bits) - 1
        return bits, [f"0x{byte:02x}" for byte in value.to_bytes((bits + 7) // 8, "big")]
    if kind != "field":
        refuse(f"digest element '{kind}' is unknown", place)
    field = unit.layout.field(element["value"], place)
    if field.varbit:
        refuse("a digest holds a varbit", place)
    size = (field.bits + 7) // 8
    codes = []
    for position in range(size):
        shift = 8 * (size - 1 - position)
        if field.bits > 128:
            codes.append(f"(uint8_t)({field.code}[{shift // 64}] >> {shift % 64})")
        else:
            codes.append(f"(uint8_t)({field.code} >> {shift})")
    return field.bits, codes


def _digests(unit: Unit) -> list[str]:
    lines: list[str] = []
    for learn in unit.program.learn_lists.values():
        widths = [_element_bytes(unit, element, learn.place)[0] for element in learn.elements]
        listed = ", ".join(map(str, widths)) or "0"
        lines.append(f"static const uint32_t digest_bits_{learn.id}[] = {{{listed}}};")
    if unit.program.learn_lists:
        lines.append("static const struct ss_digest_info digests[] = {")
        for learn in unit.program.learn_lists.values():
            widths = [_element_bytes(unit, element, learn.place)[0] for element in learn.elements]
            size = sum((bits + 7) // 8 for bits in widths)
            lines.append(f"    {{{c_string(learn.name)}, {learn.id}, {len(widths)}, digest_bits_{learn.id}, {size}}},")
        lines.append("};")
    lines += ["static void send_digest(struct ss_state *s, struct ss_packet *p, struct phv *h)", "{"]
    lines += ["    const struct ss_engine_services *services = s->head.services;", "    (void)h;"]
    lines.append("    switch (p->digest_list) {")
    for learn in unit.program.learn_lists.values():
        codes = [code for element in learn.elements for code in _element_bytes(unit, element, learn.place)[1]]
        lines.append(f"    case {learn.id}: {{")
        lines.append(f"        const uint8_t bytes[] = {{{', '.join(codes) or '0'}}};")
        lines.append(f"        services->digest(services->engine, {learn.id}, bytes, {len(codes)});")
        lines.append("        break; }")
    lines += ["    default: (void)services; break;", "    }", "    p->digest_list = SS_NO_LIST;", "}", ""]
    return lines


def _copy_list(unit: Unit) -> list[str]:
    lines = [
        "static void program_copy_list(struct ss_state *s, uint32_t list, struct ss_packet *to, "
        "const struct ss_packet *from)", "{",
        "    struct phv *h = to->phv;", "    struct ss_packet *p = to;", "    (void)s; (void)p; (void)from;",
        "    memset(h, 0, offsetof(struct phv, parsed));", "    switch (list) {",
    ]  # fmt: skip
    for fields in unit.program.field_lists.values():
        lines.append(f"    case {fields.id}: {{")
        lines += _copy_fields(unit, fields)
        lines.append("        break; }")
    return [*lines, "    default: break;", "    }", "}", ""]


def _copy_fields(unit: Unit, fields: FieldList) -> list[str]:
    lines = ["        const struct phv *g = from->phv; (void)g;"]
    for element in fields.elements:
        kind = member(element, "type", fields.place)
        if kind != "field":
            refuse(f"element '{kind}' is unknown", fields.place)
        target = unit.layout.field(element["value"], fields.place)
        if target.code == "1" or element["value"][1] == "$valid$":
            continue
        source = target.code.replace("h->", "g->", 1).replace("p->", "from->", 1)
        if target.varbit:
            length = target.length.replace("h->", "g->", 1)
            lines.append(f"        {target.length} = {length};")
        if target.varbit or target.bits > 128:
            lines.append(f"        memcpy({target.code}, {source}, sizeof {target.code});")
        else:
            lines.append(f"        {target.code} = {source};")
    return lines


# ---- objects ----


class _Objects:
    def __init__(self) -> None:
        self.declarations: list[list[str]] = []
        self.functions: list[str] = []


def _objects(unit: Unit, tables: Tables, parser: Parser, calculations: Calculations) -> _Objects:
    program = unit.program
    result = _Objects()
    layouts: list[str] = []
    for action in program.actions:
        widths = ", ".join(str(p.bits) for p in action.parameters) or "0"
        offsets = ", ".join(map(str, action_data(action.parameters).offsets)) or "0"
        layouts.append(f"static const uint32_t action_bits_{action.index}[] = {{{widths}}};")
        layouts.append(f"static const uint16_t action_offsets_{action.index}[] = {{{offsets}}};")
    layouts.append("static const struct ss_action_info action_infos[] = {")
    for action in program.actions:
        size = sum((p.bits + 7) // 8 for p in action.parameters)
        layouts.append(
            f"    {{{c_string(action.name)}, {action.id}, {len(action.parameters)}, {size}, "
            f"action_bits_{action.index}}},"
        )
    layouts += ["    {0}", "};", "static const struct ss_native_action native_actions[] = {"]
    for action in program.actions:
        layouts.append(f"    {{{action_data(action.parameters).size}, action_offsets_{action.index}}},")
    layouts += ["    {0}", "};"]
    for table in program.tables:
        layouts += tables.describe(table)
    for profile in program.profiles.values():
        actions = profile_actions(unit, profile)
        sizes = [action_data(action.parameters).size for action in actions]
        numbers = ", ".join(str(action.index) for action in actions) or "0"
        layouts.append(f"static const uint32_t profile_actions_{profile.index}[] = {{{numbers}}};")
        layouts.append(
            f"static const struct ss_profile_layout profile_layout_{profile.index} = {{{{{c_string(profile.name)}, "
            f"{'true' if profile.selector else 'false'}, {profile.size}, 0, {len(actions)}, "
            f"profile_actions_{profile.index}}}, {max(sizes, default=0)}}};"
        )
    for value_set in program.value_sets.values():
        layouts += _value_set(value_set, parser.set_keys.get(value_set.name, [value_set.bits]))
    counts = {
        "tables": len(program.tables), "profiles": len(program.profiles), "counters": len(program.counters),
        "meters": len(program.meters), "registers": len(program.registers), "value_sets": len(program.value_sets),
    }  # fmt: skip
    kinds = {
        "tables": "table", "profiles": "profile", "counters": "counter", "meters": "meter", "registers": "register",
        "value_sets": "value_set",
    }  # fmt: skip
    state = ["struct ss_state {", "    struct ss_state_head head;", "    struct ss_objects objects;"]
    for name, count in counts.items():
        state.append(f"    struct ss_{kinds[name]} {name}[{max(count, 1)}];")
    for name in ("tables", "profiles", "value_sets"):
        state.append(f"    struct ss_{kinds[name]} *{name}_list[{max(counts[name], 1)}];")
    state += ["    uint64_t turns[@TURNS@];", "};", ""]
    # Round-robin hashes are known only once every action is written.
    state = [line.replace("@TURNS@", str(max(calculations.turns, 1))) for line in state]
    result.declarations = [layouts, state]
    result.functions = [*_create(unit, counts), *_destroy(counts)]
    return result


def _value_set(value_set: ValueSet, bits: list[int]) -> list[str]:
    """Describe a value set: its fields stand one after the other without gaps, the last one lowest."""
    infos = []
    slots = []
    offset, left = 0, sum(bits)
    for number, width in enumerate(bits):
        left -= width
        infos.append(f'{{"field{number}", SS_TERNARY, {width}, {(width + 7) // 8}, {offset}}}')
        slots.append(f"{{{left // 64}, {left % 64}}}")
        offset += (width + 7) // 8
    index = value_set.index
    return [
        f"static const struct ss_field_info set_fields_{index}[] = {{{', '.join(infos)}}};",
        f"static const struct ss_slot set_slots_{index}[] = {{{', '.join(slots)}}};",
        f"static const struct ss_value_set_layout set_layout_{index} = {{{{{c_string(value_set.name)}, {len(bits)}, "
        f"set_fields_{index}, {offset}, SS_VALUE_SET_SIZE}}, {words(sum(bits))}, set_slots_{index}, NULL}};",
    ]


def _create(unit: Unit, counts: dict[str, int]) -> list[str]:
    program = unit.program
    lines = [
        "static void program_destroy(struct ss_state *s);", "",
        "static struct ss_state *program_create(const struct ss_engine_services *services)", "{",
        "    struct ss_state *s = ss_zeroed(1, sizeof *s);",
        "    s->head = (struct ss_state_head){&s->objects, services};",
        "    s->objects = (struct ss_objects){",
        f"        {counts['tables']}, s->tables_list, {counts['profiles']}, s->profiles_list, "
        f"{len(program.actions)}, action_infos,",
        f"        {counts['counters']}, s->counters, {counts['meters']}, s->meters, {counts['registers']}, "
        f"s->registers,",
        f"        {len(program.learn_lists)}, {'digests' if program.learn_lists else 'NULL'}, "
        f"{counts['value_sets']}, s->value_sets_list,",
        "    };",
    ]  # fmt: skip
    for counter in program.counters.values():
        lines.append(
            f"    s->counters[{counter.index}] = (struct ss_counter){{{c_string(counter.name)}, {counter.size}, "
            f"ss_zeroed({counter.size}, sizeof(struct ss_count))}};"
        )
    for meter in program.meters.values():
        lines.append(
            f"    s->meters[{meter.index}] = (struct ss_meter){{{c_string(meter.name)}, {meter.size}, "
            f"{str(meter.in_bytes).lower()}, {str(meter.direct).lower()}, "
            f"ss_zeroed({meter.size}, sizeof(struct ss_meter_rates)), NULL}};"
        )
    for register in program.registers.values():
        size = (register.bits + 7) // 8
        lines.append(
            f"    s->registers[{register.index}] = (struct ss_register){{{c_string(register.name)}, {register.size}, "
            f"{register.bits}, {size}, ss_zeroed({register.size}, ss_native_bytes({register.bits})), false, 0}};"
        )
    for value_set in program.value_sets.values():
        lines.append(f"    s->value_sets[{value_set.index}].layout = &set_layout_{value_set.index};")
        lines.append(f"    s->value_sets_list[{value_set.index}] = &s->value_sets[{value_set.index}];")
    for profile in program.profiles.values():
        actions = profile_actions(unit, profile)
        size = max((sum((p.bits + 7) // 8 for p in action.parameters) for action in actions), default=0)
        lines.append(f"    s->profiles_list[{profile.index}] = &s->profiles[{profile.index}];")
        lines.append(
            f"    ss_profile_open(&s->profiles[{profile.index}], &profile_layout_{profile.index}, s, services, "
            f"action_infos, native_actions, {size});"
        )
    lines.append("    enum ss_status status = SS_OK;")
    for table in program.tables:
        reference = f"&s->profiles[{table.profile.index}]" if table.profile else "NULL"
        lines.append(f"    s->tables_list[{table.index}] = &s->tables[{table.index}];")
        lines.append(
            f"    status |= ss_table_open(&s->tables[{table.index}], &layout_{unit.table(table)}, s, {reference}, "
            f"action_infos, native_actions);"
        )
    lines += ["    if (status != SS_OK) {", "        program_destroy(s);", "        return NULL;", "    }"]
    return [*lines, "    return s;", "}", ""]


def _destroy(counts: dict[str, int]) -> list[str]:
    close = {
        "tables": "ss_table_close(&s->tables[i]);", "profiles": "ss_profile_close(&s->profiles[i]);",
        "counters": "free(s->counters[i].cells);",
        "meters": "{ free(s->meters[i].rates); free(s->meters[i].buckets); }",
        "registers": "free(s->registers[i].cells);", "value_sets": "ss_value_set_close(&s->value_sets[i]);",
    }  # fmt: skip
    lines = ["static void program_destroy(struct ss_state *s)", "{"]
    for name, count in counts.items():
        if count:
            lines.append(f"    for (uint32_t i = 0; i < {count}; i++) {close[name]}")
    return [*lines, "    free(s);", "}", ""]


ENTRY_POINTS = """\
static const struct ss_objects *program_objects(struct ss_state *s) { return &s->objects; }

static void clear_requests(struct ss_packet *p)
{
    p->clone_list = p->resubmit_list = p->recirculate_list = p->digest_list = SS_NO_LIST;
    p->clone_session = 0;
}

/* Of the standard metadata, what the engine fills stays. */
static void clear_standard(struct ss_packet *p)
{
    p->std = (struct ss_standard){
        .ingress_port = p->std.ingress_port, .packet_length = p->std.packet_length,
        .instance_type = p->std.instance_type, .ingress_global_timestamp = p->std.ingress_global_timestamp,
    };
}

static void program_reset(struct ss_state *s, struct ss_packet *p)
{
    (void)s;
    memset(p->phv, 0, sizeof(struct phv));
    clear_standard(p);
    clear_requests(p);
    p->truncate_to = SS_NO_TRUNCATE;
}

static void program_ingress(struct ss_state *s, struct ss_packet *p)
{
    struct phv *h = p->phv;
    if (p->prepared) {
        p->prepared = false;
        memset((char *)h + offsetof(struct phv, parsed), 0, sizeof *h - offsetof(struct phv, parsed));
        clear_requests(p);
        p->truncate_to = SS_NO_TRUNCATE;
    } else {
        program_reset(s, p);
    }
    parse_packet(s, p, h);
    verify_checksums(s, p, h);
    run_ingress(s, p, h);
    h->exited = 0;
    if (p->digest_list != SS_NO_LIST)
        send_digest(s, p, h);
}

static void program_egress(struct ss_state *s, struct ss_packet *p)
{
    struct phv *h = p->phv;
    clear_requests(p);
    p->std.packet_length = p->length + (uint32_t)h->growth;
    p->std.egress_spec = (ss_drop_port(s->head.services) + 1) & 511;
@QUEUE_ID@    run_egress(s, p, h);
    h->exited = 0;
}

static bool program_deparse(struct ss_state *s, struct ss_packet *p)
{
    return deparse_packet(s, p, p->phv);
}

static void program_parse(struct ss_state *s, struct ss_packet *p)
{
    program_reset(s, p);
    parse_packet(s, p, p->phv);
    verify_checksums(s, p, p->phv);
}

static void program_copy_phv(struct ss_state *s, struct ss_packet *to, const struct ss_packet *from)
{
    (void)s;
    memcpy(to->phv, from->phv, sizeof(struct phv));
}

const struct ss_program ss_program = {
    .abi = SS_PROGRAM_ABI,
    .source_hash = "@SOURCE_HASH@",
    .phv_bytes = sizeof(struct phv),
    .max_header_growth = @GROWTH@,
    .create = program_create,
    .destroy = program_destroy,
    .reset = program_reset,
    .ingress = program_ingress,
    .egress = program_egress,
    .deparse = program_deparse,
    .parse = program_parse,
    .copy_phv = program_copy_phv,
    .copy_list = program_copy_list,
    .objects = program_objects,
};
"""


def _entry_points(unit: Unit, deparser: Deparser) -> list[str]:
    queue_id = ""
    if unit.layout.has_field(unit.layout.queue_id):
        field = unit.layout.field(unit.layout.queue_id, "queueing_metadata.qid")
        queue_id = f"    {field.code} = (uint8_t)p->std.priority;\n"
    text = ENTRY_POINTS.replace("@QUEUE_ID@", queue_id).replace("@GROWTH@", str(deparser.growth()))
    return [text]
