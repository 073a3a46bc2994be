# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Tables: how a key is packed into words, what the runtime must know of a table, and its lookup and dispatch in C."""

from __future__ import annotations

from dataclasses import dataclass

from softswitch.compiler.calculations import Calculations, selector_calculation
from softswitch.compiler.model import Action, Json, Key, Profile, Table, hexstr, member, refuse
from softswitch.compiler.phv import FieldReference
from softswitch.compiler.unit import Unit, action_data, c_bytes, c_string

INDEX_BITS = 16  # keys up to here index an array
FEW_CHUNKS = 8  # up to here a lookup in a table's only block looks at all of them
PAGED_BITS = 16  # ranges up to here are looked up by their bytes
KINDS = {"exact": "SS_EXACT", "lpm": "SS_LPM", "ternary": "SS_TERNARY", "range": "SS_RANGE", "optional": "SS_OPTIONAL"}
MAX_WORDS = 64


@dataclass(frozen=True)
class Packed:
    """A key packed into words: the place of each field, and the chunks that bit vectors look at."""

    words: int
    slots: tuple[tuple[int, int], ...]
    chunks: tuple[tuple[int, int, int, bool], ...]
    ranges: tuple[int, ...]


def pack(fields: list[tuple[int, str]]) -> Packed:
    """Place fields of (bits, kind): the widest first, none across a word; ranges apart, each in bytes of its own."""
    slots: list[tuple[int, int]] = [(0, 0)] * len(fields)
    used: list[int] = []
    chunks: list[tuple[int, int, int, bool]] = []
    ordered = sorted(range(len(fields)), key=lambda i: -fields[i][0])
    for ranges in (False, True):
        first = len(used)
        for number in ordered:
            bits, kind = fields[number]
            if (kind == "range") != ranges:
                continue
            if bits > 64:
                slots[number] = (len(used), 0)
                used += [64] * (bits // 64) + ([bits % 64] if bits % 64 else [])
                continue
            space = -(-bits // 8) * 8 if ranges else bits
            word = next((w for w in range(first, len(used)) if used[w] + space <= 64), len(used))
            if word == len(used):
                used.append(0)
            slots[number] = (word, used[word])
            used[word] += space
        if ranges:
            for number in ordered:
                if fields[number][1] == "range" and fields[number][0] <= 8:
                    chunks.append((*slots[number], fields[number][0], True))
        else:
            for word in range(first, len(used)):
                chunks += [(word, shift, min(8, used[word] - shift), False) for shift in range(0, used[word], 8)]
    return Packed(
        len(used), tuple(slots), tuple(chunks), tuple(i for i in range(len(fields)) if fields[i][1] == "range")
    )


class Tables:
    """Write every table of a program."""

    def __init__(self, unit: Unit, calculations: Calculations) -> None:
        self.unit = unit
        self.calculations = calculations
        self.packed: dict[int, Packed] = {}
        self.fields: dict[int, list[FieldReference]] = {}
        for table in unit.program.tables:
            references = [unit.layout.field(key.target, key.place) for key in table.keys]
            for reference, key in zip(references, table.keys, strict=True):
                if reference.varbit:
                    refuse("a varbit is no key", key.place)
            self.fields[table.index] = references
            self.packed[table.index] = pack([(r.bits, k.kind) for r, k in zip(references, table.keys, strict=True)])
            if self.packed[table.index].words > MAX_WORDS:
                refuse("its key has more than 4096 bits", table.place)

    def method(self, table: Table) -> str:
        """Choose how a table is looked up."""
        kinds = {key.kind for key in table.keys}
        if not kinds:
            return "SS_METHOD_NONE"
        if kinds & {"ternary", "range", "optional"} or sum(key.kind == "lpm" for key in table.keys) > 1:
            return "SS_METHOD_RULES"
        if "lpm" in kinds:
            return "SS_METHOD_PREFIX"
        bits = sum(reference.bits for reference in self.fields[table.index])
        return "SS_METHOD_INDEX" if bits <= INDEX_BITS else "SS_METHOD_HASH"

    # ---- descriptions ----

    def describe(self, table: Table) -> list[str]:
        """Write a table's layout for the runtime."""
        name = self.unit.table(table)
        packed = self.packed[table.index]
        references = self.fields[table.index]
        method = self.method(table)
        lines: list[str] = []
        offset = 0
        infos = []
        for key, reference in zip(table.keys, references, strict=True):
            size = (reference.bits + 7) // 8
            infos.append(f"{{{c_string(key.name)}, {KINDS[key.kind]}, {reference.bits}, {size}, {offset}}}")
            offset += size
        if infos:
            lines.append(f"static const struct ss_field_info fields_{name}[] = {{{', '.join(infos)}}};")
            slots = ", ".join(f"{{{word}, {shift}}}" for word, shift in packed.slots)
            lines.append(f"static const struct ss_slot slots_{name}[] = {{{slots}}};")
        if table.actions:
            numbers = ", ".join(str(action.index) for action in table.actions)
            lines.append(f"static const uint32_t actions_{name}[] = {{{numbers}}};")
        static_mask = self._static_mask(table)
        if static_mask is not None:
            limbs = ", ".join(f"0x{limb:x}ull" for limb in static_mask)
            lines.append(f"static const uint64_t mask_{name}[] = {{{limbs}}};")
        if method in ("SS_METHOD_RULES", "SS_METHOD_PREFIX"):
            chunks = ", ".join(f"{{{w}, {s}, {b}, {int(r)}}}" for w, s, b, r in packed.chunks)
            lines.append(f"static const struct ss_chunk chunks_{name}[] = {{{chunks or '{0}'}}};")
            numbers = ", ".join(map(str, packed.ranges))
            lines.append(f"static const uint16_t ranges_{name}[] = {{{numbers or '0'}}};")
        entries = self._entries(table, lines)
        default_action, default_parameters = "SS_NO_ACTION", "NULL"
        if table.default is not None:
            action, values = table.default
            default_action = str(action.index)
            lines.append(f"static const uint8_t default_{name}[] = {{{self._data(action, values, table.place)}}};")
            default_parameters = f"default_{name}"
        prefix = next((i for i, key in enumerate(table.keys) if key.kind == "lpm"), 0)
        has_priority = method == "SS_METHOD_RULES"
        profile = -1 if table.profile is None else table.profile.index
        meter = -1 if table.direct_meter is None else table.direct_meter.index
        lines += [
            f"static const struct ss_table_layout layout_{name} = {{",
            f"    .info = {{{c_string(table.name)}, {len(infos)}, {f'fields_{name}' if infos else 'NULL'}, {offset}, "
            f"{table.size}, {_flag(has_priority)}, {_flag(table.entries is not None)}, {_flag(table.with_counters)}, "
            f"{_flag(table.supports_timeout)}, {profile}, {meter}, {len(table.actions)}, "
            f"{f'actions_{name}' if table.actions else 'NULL'}}},",
            f"    .method = {method}, .words = {packed.words}, .slots = {f'slots_{name}' if infos else 'NULL'},",
            f"    .static_mask = {'NULL' if static_mask is None else f'mask_{name}'}, "
            f".index_bits = {sum(r.bits for r in references)}, .prefix_field = {prefix},",
        ]
        if method in ("SS_METHOD_RULES", "SS_METHOD_PREFIX"):
            lines.append(
                f"    .chunk_count = {len(packed.chunks)}, .chunks = chunks_{name}, "
                f".range_count = {len(packed.ranges)}, .ranges = ranges_{name},"
            )
        lines += [
            f"    .data_bytes = {self._data_bytes(table)}, .default_action = {default_action}, "
            f".default_parameters = {default_parameters},",
            f"    .default_is_const = {_flag(table.default_entry_const)}, "
            f".default_action_is_const = {_flag(table.default_action_const)},",
            f"    .entry_count = {len(table.entries or [])}, .entries = {entries},",
            "};",
        ]
        return lines

    def _static_mask(self, table: Table) -> list[int] | None:
        if all(key.mask is None for key in table.keys):
            return None
        packed = self.packed[table.index]
        limbs = [(1 << 64) - 1] * packed.words
        for key, reference, (word, shift) in zip(table.keys, self.fields[table.index], packed.slots, strict=True):
            if key.mask is None:
                continue
            gone = ~key.mask & ((1 << reference.bits) - 1)
            for position in range((reference.bits + 63) // 64):
                limbs[word + position] &= ~((gone >> 64 * position & (1 << 64) - 1) << shift) & (1 << 64) - 1
        return limbs

    @staticmethod
    def _data(action: Action, values: list[int], place: str) -> str:
        data: list[str] = []
        if len(values) != len(action.parameters):
            refuse(f"action '{action.name}' takes {len(action.parameters)} parameters", place)
        for parameter, value in zip(action.parameters, values, strict=True):
            data += c_bytes(value & (1 << parameter.bits) - 1, (parameter.bits + 7) // 8)
        return ", ".join(data) or "0"

    def _entries(self, table: Table, lines: list[str]) -> str:
        if not table.entries:
            return "NULL"
        name = self.unit.table(table)
        rows = []
        priorities = [int(entry.get("priority", 0)) for entry in table.entries]
        top = max(priorities) + 1
        for number, (entry, priority) in enumerate(zip(table.entries, priorities, strict=True)):
            place = f"{table.place}/entries[{number}]"
            keys = member(entry, "match_key", place)
            if len(keys) != len(table.keys):
                refuse(f"has {len(keys)} keys, the table {len(table.keys)}", place)
            value: list[str] = []
            mask: list[str] = []
            for key, reference, item in zip(table.keys, self.fields[table.index], keys, strict=True):
                low, high = self._match(key, reference.bits, item, place)
                size = (reference.bits + 7) // 8
                value += c_bytes(low, size)
                mask += c_bytes(high, size)
            action_entry = member(entry, "action_entry", place)
            action = self.unit.program.action_with_id(member(action_entry, "action_id", place), place)
            data = [hexstr(text, place) for text in action_entry.get("action_data", [])]
            lines.append(f"static const uint8_t entry_{name}_{number}[] = {{{', '.join(value + mask)}, "
                         f"{self._data(action, data, place)}}};")  # fmt: skip
            rows.append(
                f"    {{entry_{name}_{number}, entry_{name}_{number} + {len(value)}, {top - priority}, "
                f"{action.index}, entry_{name}_{number} + {2 * len(value)}}}"
            )
        lines.append(f"static const struct ss_const_entry entries_{name}[] = {{")
        lines.append(",\n".join(rows))
        lines.append("};")
        return f"entries_{name}"

    @staticmethod
    def _match(key: Key, bits: int, item: Json, place: str) -> tuple[int, int]:
        """Return a const entry's value, and its mask or upper bound."""
        full = (1 << bits) - 1
        kind = member(item, "match_type", place)
        if kind == "range":
            return hexstr(member(item, "start", place), place) & full, hexstr(member(item, "end", place), place) & full
        value = member(item, "key", place)
        value = int(value) if isinstance(value, bool) else hexstr(value, place) & full
        if kind == "lpm":
            mask = full & ~((1 << (bits - int(member(item, "prefix_length", place)))) - 1)
        elif kind in ("ternary", "optional"):
            mask = hexstr(member(item, "mask", place), place) & full
        else:
            mask = full
        if key.kind == "range":
            refuse(f"a key of the kind '{kind}' stands for a range", place)
        return value & mask, mask

    # ---- lookup and dispatch ----

    def key_words(self, table: Table) -> list[str]:
        """Write the expression of each word of a packed key."""
        packed = self.packed[table.index]
        parts: list[list[str]] = [[] for _ in range(packed.words)]
        for key, reference, (word, shift) in zip(table.keys, self.fields[table.index], packed.slots, strict=True):
            for position, code in enumerate(key_limbs(reference)):
                if key.mask is not None:
                    limb = key.mask >> 64 * position & (1 << 64) - 1
                    code = f"({code} & 0x{limb:x}ull)"
                parts[word + position].append(f"{code} << {shift}" if shift else code)
        return [" | ".join(part) or "0" for part in parts]

    def function(self, table: Table) -> list[str]:
        """Write a table's application: what runs is returned as hit << 31 | action, SS_NO_ACTION if nothing."""
        name = self.unit.table(table)
        head = f"static inline uint32_t apply_{name}(struct ss_state *s, struct ss_packet *p, struct phv *h)"
        lines = [*self._search(table), head, "{"]
        body = self._fixed(table)
        if body is None:
            body = self._lookup(table)
        return [*lines, *("    " + line for line in body), "}", ""]

    def _fixed(self, table: Table) -> list[str] | None:
        """Call the only thing that a table without key and with a constant default can do."""
        if table.keys or table.default is None or not table.default_entry_const or table.with_counters:
            return None
        action, values = table.default
        data = action_data(action.parameters)
        lines: list[str] = []
        if action.parameters:
            initial = []
            for number, (parameter, value) in enumerate(zip(action.parameters, values, strict=True)):
                limbs = [f"0x{value >> s & (1 << 64) - 1:x}ull" for s in range(0, max(parameter.bits, 1), 64)]
                if parameter.bits > 128:
                    code = f"{{{', '.join(limbs)}}}"
                elif parameter.bits > 64:
                    code = f"(ss_u128){limbs[1]} << 64 | {limbs[0]}"
                else:
                    code = limbs[0]
                initial.append(f".p{number} = {code}")
            lines.append(f"static const {self.unit.data(action)} d = {{{', '.join(initial)}}};")
            assert data.size
        argument = ", &d" if action.parameters else ""
        return [*lines, f"{self.unit.action(action)}(s, p, h{argument});", f"return {action.index};"]

    def _search(self, table: Table) -> list[str]:
        """Write the search of a table whose rows are not all in one block of bit vectors."""
        find = {"SS_METHOD_PREFIX": "ss_find_prefix", "SS_METHOD_RULES": "ss_find_rule"}.get(self.method(table))
        if find is None:
            return []
        head = f"static __attribute__((noinline)) uint32_t search_{self.unit.table(table)}"
        return [
            f"{head}(struct ss_table *t, const uint64_t *key)", "{",
            f"    return {find}(t, key, {self.packed[table.index].words});", "}", "",
        ]  # fmt: skip

    def _accepts(self, table: Table) -> list[str]:
        """Write what the only block of a table accepts by each chunk and range of the key; none if those are many."""
        packed = self.packed[table.index]
        references = self.fields[table.index]
        long = [(r, number) for r, number in enumerate(packed.ranges) if references[number].bits > 8]
        too_long = any(references[number].bits > PAGED_BITS for _, number in long)
        if self.method(table) not in ("SS_METHOD_PREFIX", "SS_METHOD_RULES") or too_long:
            return []
        if len(packed.chunks) > FEW_CHUNKS:
            return []
        accepts = []
        for c, (word, shift, _, _) in enumerate(packed.chunks):
            accepts.append(f"ss_chunk_accepts(v, {c}, key[{word}] >> {shift})")
        for r, number in long:
            word, shift = packed.slots[number]
            accepts.append(f"ss_page_accepts(v, {r}, key[{word}] >> {shift})")
        return accepts

    @staticmethod
    def _data_bytes(table: Table) -> int:
        return max((action_data(action.parameters).size for action in table.actions), default=0)

    def _lookup(self, table: Table) -> list[str]:
        method = self.method(table)
        lines = [f"struct ss_table *t = &s->tables[{table.index}];", "struct ss_row *row, *run;", "uint32_t hit = 0;"]
        words = self.packed[table.index].words
        if method == "SS_METHOD_NONE":
            lines += ["row = run = t->default_row;"]
        else:
            find = {
                "SS_METHOD_INDEX": "ss_find_index(t, key)",
                "SS_METHOD_HASH": f"ss_find_hash(t, key, {words})",
            }.get(method, f"search_{self.unit.table(table)}(t, key)")
            lines.append(f"const uint64_t key[{words}] = {{{', '.join(self.key_words(table))}}};")
            accepts = self._accepts(table)
            if accepts:
                lines += [
                    "const struct ss_vectors *v = t->only;", "uint32_t number;",
                    "if (__builtin_expect(v != NULL, 1)) {",
                    f"    uint64_t accepted = {' & '.join(['v->all', *accepts])};",
                    "    number = accepted ? v->rows[__builtin_ctzll(accepted)] : SS_NO_ROW;", "} else {",
                    f"    number = {find};", "}",
                ]  # fmt: skip
            else:
                lines.append(f"uint32_t number = {find};")
            stride = f"SS_ROW_STRIDE({0 if table.profile else self._data_bytes(table)})"
            lines.append(
                f"row = run = number == SS_NO_ROW ? t->default_row"
                f" : (struct ss_row *)(t->rows + (size_t)number * {stride});"
            )
            lines.append("if (number != SS_NO_ROW) {")
            lines.append("    hit = 1u << 31;")
            if table.profile is not None:
                lines += ["    " + line for line in self._select(table)]
            if table.supports_timeout:
                lines.append("    t->last_hit[number] = p->arrival_ns;")
            if table.direct_meter is not None and table.direct_meter.result is not None:
                target = self.unit.layout.field(table.direct_meter.result, table.place)
                mask = f" & 0x{(1 << target.bits) - 1:x}" if target.bits < 8 else ""
                lines.append(
                    f"    {target.code} = ss_meter_execute(s, &s->meters[{table.direct_meter.index}], number, "
                    f"p->length){mask};"
                )
            lines.append("}")
        if table.with_counters:
            lines += ["row->count.packets++;", "row->count.bytes += p->length;"]
        lines.append("switch (run->action) {")
        for action in dispatched(self.unit, table):
            argument = f", (const {self.unit.data(action)} *)run->data" if action.parameters else ""
            call = f"{self.unit.action(action)}(s, p, h{argument});"
            lines.append(f"case {action.index}: {call} break;")
        lines += ["default: break;", "}", "(void)row; (void)h; (void)p;", "return run->action | hit;"]
        return lines

    def _select(self, table: Table) -> list[str]:
        profile = table.profile
        assert profile is not None
        lines = []
        if profile.selector is None:
            lines.append(f"run = ss_resolve(&s->profiles[{profile.index}], row, 0);")
        else:
            call = self.calculations.call(selector_calculation(profile.name, profile.selector))
            lines.append(f"run = ss_resolve(&s->profiles[{profile.index}], row, row->kind == SS_GROUP ? {call} : 0);")
        lines.append("if (!run) { row = run = t->default_row; hit = 0; }")
        return lines


def profile_actions(unit: Unit, profile: Profile) -> list[Action]:
    """List the actions of all tables that use a profile."""
    found = {
        action.index: action for table in unit.program.tables if table.profile is profile for action in table.actions
    }
    return list(found.values())


def dispatched(unit: Unit, table: Table) -> list[Action]:
    """List the actions that a table may run: a shared profile's members may name another table's copy of one."""
    shared = [] if table.profile is None else profile_actions(unit, table.profile)
    return [*table.actions, *(action for action in shared if action not in table.actions)]


def key_limbs(reference: FieldReference) -> list[str]:
    """Write a field's 64-bit words, the lowest first."""
    if reference.bits <= 64:
        return [f"(uint64_t){reference.code}"]
    if reference.bits <= 128:
        return [f"(uint64_t){reference.code}", f"(uint64_t)({reference.code} >> 64)"]
    return [f"{reference.code}[{limb}]" for limb in range((reference.bits + 63) // 64)]


def _flag(value: bool) -> str:
    return "true" if value else "false"
