# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Run p4c's packet tests (simple test framework) on an embedded switch: `python -m softswitch.stf prog.json test.stf`.

A test is a list of lines: `packet PORT HEX`, `expect PORT [HEX]` (`*` for any digit, `$` where the packet must end),
`add TABLE [PRIORITY] KEY:VALUE ... ACTION(NAME:VALUE, ...)`, `setdefault TABLE ACTION(...)`, and the commands of
simple_switch_CLI for multicast, mirroring, registers and meters. Every port must send exactly what it is expected to;
one that is expected without data may send anything.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from softswitch.build import load_json
from softswitch.errors import StfError, SwitchError
from softswitch.objects import Match, ObjectError, Objects, TableView
from softswitch.switch import Switch

PORTS = 511
LOW_PORTS = 16
_ACTION = re.compile(r"(?P<name>[^\s():]+)\s*\((?P<arguments>[^)]*)\)\s*(=.*)?$")
_COUNTER = re.compile(r"(?P<name>\S+?)\s*\(\s*(?P<index>\d+)\s*\)\s*(?:(?P<unit>packets|bytes)\s*(?P<op>[=!<>]+)\s*(?P<number>\d+))?$")  # fmt: skip  # noqa: E501
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "==": int.__eq__, "!=": int.__ne__, "<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__,
}  # fmt: skip


@dataclass(frozen=True)
class Command:
    """A line of a test."""

    line: int
    name: str
    rest: str


@dataclass
class Expectation:
    """What a port is expected to send; `anything` accepts whatever it sends."""

    anything: bool = False
    packets: list[tuple[int, str]] = field(default_factory=list)


def parse_stf(text: str) -> list[Command]:
    """Split a test into commands."""
    commands = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split("#", 1)[0].strip()
        if line:
            name, _, rest = line.partition(" ")
            commands.append(Command(number, name.strip().lower(), rest.strip()))
    return commands


def number(text: str) -> int:
    """Read a number: decimal, 0x, 0b or 0o."""
    text = text.strip()
    if re.fullmatch(r"0[0-9]+", text):
        return int(text, 10)
    try:
        return int(text, 0)
    except ValueError:
        raise StfError(f"no number: '{text}'") from None


def pattern(text: str) -> tuple[int, int]:
    """Read a number whose digits may be `*`: value and mask."""
    match = re.fullmatch(r"0([xXbBoO])([0-9a-fA-F*]+)", text)
    if not match:
        raise StfError(f"a ternary value needs a prefix such as 0x: '{text}'")
    bits = {"x": 4, "b": 1, "o": 3}[match[1].lower()]
    value = mask = 0
    for digit in match[2]:
        value, mask = value << bits, mask << bits
        if digit != "*":
            value |= int(digit, 1 << bits)
            mask |= (1 << bits) - 1
    return value, mask


def differs(expected: str, packet: bytes) -> str | None:
    """Compare a packet with what is expected of it; return how it differs."""
    digits = "".join(expected.split()).lower()
    exact = digits.endswith("$")
    digits = digits.rstrip("$")
    got = packet.hex()
    if len(got) < len(digits):
        return f"shorter than expected: {got}, not {digits}"
    if exact and len(got) > len(digits):
        return f"longer than expected: {got}, not {digits}"
    if any(want not in ("*", have) for want, have in zip(digits, got, strict=False)):
        return f"{got}, not {digits}"
    return None


class Stf:
    """Run one test on one switch."""

    def __init__(self, switch: Switch, json_path: Path) -> None:
        self.switch = switch
        self.objects = Objects(switch)
        self.parameters = {
            action["name"]: [p["name"] for p in action.get("runtime_data", [])]
            for action in load_json(json_path).get("actions", [])  # type: ignore[attr-defined]
        }
        self.expected: dict[int, Expectation] = {}
        self.sent: dict[int, list[bytes]] = {}
        self.nodes: list[list[tuple[int, int]]] = []
        self.groups: dict[int, list[tuple[int, int]]] = {}
        self.sessions: dict[int, tuple[int | None, int | None]] = {}
        self._run: dict[str, Callable[[str], None]] = {
            "packet": self._packet, "add": self._add, "setdefault": self._set_default, "wait": self._nothing,
            "mc_mgrp_create": self._group, "mc_node_create": self._node, "mc_node_associate": self._associate,
            "mirroring_add": self._mirror, "mirroring_add_mc": self._mirror_group, "mirroring_get": self._nothing,
            "mirroring_delete": self._mirror_end,
            "register_read": self._register_read, "register_write": self._register_write,
            "register_reset": self._register_reset, "counter_read": self._counter_read,
            "meter_get_rates": self._nothing, "meter_set_rates": self._meter, "meter_array_set_rates": self._meters,
            "check_counter": self._check_counter,
        }  # fmt: skip

    def run(self, text: str) -> list[str]:
        """Run a test and return what went wrong, one line each."""
        failures: list[str] = []
        commands = parse_stf(text)
        for command in commands:
            try:
                if command.name == "expect":
                    self._expect(command)
                elif command.name in self._run:
                    self._run[command.name](command.rest)
                elif command.name != "no_packet":
                    raise StfError(f"unknown command '{command.name}'")
            except ObjectError as error:
                failures.append(f"line {command.line}: {error}")
            except (StfError, ValueError, IndexError) as error:
                raise StfError(f"line {command.line}: {error}") from error
        return failures + self._compare()

    def _expect(self, command: Command) -> None:
        port, _, data = command.rest.partition(" ")
        expectation = self.expected.setdefault(number(port), Expectation())
        if data.strip():
            expectation.packets.append((command.line, data))
        else:
            expectation.anything = True

    def _compare(self) -> list[str]:
        failures = []
        for port in sorted(set(self.expected) | set(self.sent)):
            expectation = self.expected.get(port, Expectation())
            packets = self.sent.get(port, [])
            if expectation.anything:
                continue
            if len(packets) != len(expectation.packets):
                listed = " ".join(packet.hex() for packet in packets)
                failures.append(
                    f"port {port}: sent {len(packets)} packets, not {len(expectation.packets)} ({listed or 'none'})"
                )
            for (line, data), packet in zip(expectation.packets, packets, strict=False):
                difference = differs(data, packet)
                if difference:
                    failures.append(f"line {line}: port {port}: {difference}")
        return failures

    # ---- packets ----

    def _packet(self, rest: str) -> None:
        port, _, data = rest.partition(" ")
        digits = "".join(data.split())
        for out, packet in self.switch.inject(number(port), bytes.fromhex(digits)):
            self.sent.setdefault(out, []).append(packet)

    def _nothing(self, rest: str) -> None:
        pass

    # ---- tables ----

    def _call(self, text: str) -> tuple[str, str, dict[str, int]]:
        """Split "... ACTION(NAME:VALUE, ...)" into what precedes the action, its name and its arguments."""
        match = _ACTION.search(text)
        if not match:
            raise StfError(f"no action in '{text}'")
        arguments = {}
        for argument in match["arguments"].split(","):
            if argument.strip():
                name, _, value = argument.partition(":")
                arguments[name.strip()] = number(value)
        return text[: match.start()].strip(), match["name"], arguments

    def _ordered(self, table: TableView, action: str, arguments: dict[str, int]) -> tuple[str, list[int]]:
        names = [self.objects.action_names[i] for i in table.actions]
        full = [name for name in names if name == action] or [name for name in names if name.endswith(action)]
        if len(full) != 1:
            raise StfError(f"{'more than one' if full else 'no'} action '{action}' in table '{table.name}'")
        try:
            return full[0], [arguments[name] for name in self.parameters[full[0]]]
        except KeyError as error:
            raise StfError(f"action '{action}' lacks argument {error}") from None

    def _add(self, rest: str) -> None:
        head, action, arguments = self._call(rest)
        words = head.split()
        table = self.objects.table(words[0])
        priority = 0
        keys = words[1:]
        if keys and re.fullmatch(r"\d+", keys[0]):
            priority = int(keys.pop(0))
        matches: dict[str, Match] = {}
        for key in keys:
            name, _, value = key.partition(":")
            place = self._field(table, name)
            matches[table.fields[place].name] = self._match(table, place, value)
        for key_field in table.fields:
            if key_field.kind == "exact":
                matches.setdefault(key_field.name, 0)
        called, parameters = self._ordered(table, action, arguments)
        table.insert(matches, called, parameters, priority=priority + 1)

    @staticmethod
    def _field(table: TableView, name: str) -> int:
        wanted = re.sub(r"\$(\d+)", r"[\1]", name)
        names = [field.name for field in table.fields]
        spellings = [wanted, wanted + "$", wanted + ".$valid$", re.sub(r"valid$", "$valid$", wanted)]
        for spelling in spellings:
            if spelling in names:
                return names.index(spelling)
        for spelling in spellings:
            ending = [place for place, known in enumerate(names) if known.endswith("." + spelling)]
            if ending:
                return ending[0]
        raise StfError(f"table '{table.name}' has no key '{name}'")

    @staticmethod
    def _match(table: TableView, place: int, value: str) -> Match:
        key = table.fields[place]
        if "&&&" in value:
            low, mask = value.split("&&&")
            return number(low), number(mask)
        if key.kind == "lpm":
            if "/" in value:
                low, length = value.split("/")
                return number(low), int(length)
            if "*" in value:
                prefix, ones = pattern(value)
                return prefix, bin(ones).count("1")
            return number(value), key.bits
        if key.kind in ("ternary", "optional"):
            if "*" in value:
                return pattern(value)
            return number(value), (1 << key.bits) - 1
        if key.kind == "range" and ".." in value:
            low, high = value.split("..")
            return number(low), number(high)
        return number(value)

    def _set_default(self, rest: str) -> None:
        head, action, arguments = self._call(rest)
        table = self.objects.table(head.split()[0])
        table.set_default(*self._ordered(table, action, arguments))

    # ---- replication ----

    def _group(self, rest: str) -> None:
        self.groups.setdefault(int(rest), [])

    def _node(self, rest: str) -> None:
        instance, *ports = map(int, rest.split())
        self.nodes.append([(port, instance) for port in ports])

    def _associate(self, rest: str) -> None:
        group, node = map(int, rest.split())
        self.groups.setdefault(group, []).extend(self.nodes[node])
        self.switch.set_multicast(group, self.groups[group])
        self._set_sessions()

    def _mirror(self, rest: str) -> None:
        session, port = map(int, rest.split())
        self.sessions[session] = (port, self.sessions.get(session, (None, None))[1])
        self._set_sessions()

    def _mirror_group(self, rest: str) -> None:
        session, group = map(int, rest.split())
        self.sessions[session] = (self.sessions.get(session, (None, None))[0], group)
        self._set_sessions()

    def _mirror_end(self, rest: str) -> None:
        del self.sessions[int(rest)]
        self.switch.remove_clone(int(rest))

    def _set_sessions(self) -> None:
        for session, (port, group) in self.sessions.items():
            replicas = list(self.groups.get(group, [])) if group is not None else []
            if port is not None:
                replicas.append((port, 0))
            self.switch.set_clone(session, replicas)

    # ---- counters, meters, registers ----

    def _register_read(self, rest: str) -> None:
        name, index = rest.split()
        print(f"{name}[{index}] = {self.objects.register(name, int(index))}")

    def _register_write(self, rest: str) -> None:
        name, index, value = rest.split()
        self.objects.set_register(name, int(index), number(value))

    def _register_reset(self, rest: str) -> None:
        for index in range(self.objects.register_size(rest)):
            self.objects.set_register(rest, index, 0)

    def _counter_read(self, rest: str) -> None:
        name, index = rest.split()
        packets, octets = self.objects.counter(name, int(index))
        print(f"{name}[{index}] = {packets} packets, {octets} bytes")

    def _rates(self, words: Sequence[str]) -> list[int]:
        """Read "rate:burst rate:burst", in units per microsecond, the committed rate first."""
        if len(words) != 2:
            raise StfError("a meter takes two rates")
        rates: list[int] = []
        for word in words:
            rate, burst = word.split(":")
            rates += [round(float(rate) * 1_000_000), int(burst)]
        return rates

    def _meter(self, rest: str) -> None:
        name, index, *words = rest.split()
        self.objects.set_meter(name, int(index), *self._rates(words))

    def _meters(self, rest: str) -> None:
        name, *words = rest.split()
        for index in range(self.objects.meter_size(name)):
            self.objects.set_meter(name, index, *self._rates(words))

    def _check_counter(self, rest: str) -> None:
        match = _COUNTER.match(rest)
        if not match:
            raise StfError(f"malformed check_counter: '{rest}'")
        packets, octets = self.objects.counter(match["name"], int(match["index"]))
        value = octets if match["unit"] == "bytes" else packets
        operator, wanted = match["op"] or "==", int(match["number"] or 0)
        if operator not in _COMPARE:
            raise StfError(f"unknown comparison '{operator}'")
        if not _COMPARE[operator](value, wanted):
            raise ObjectError(f"counter '{match['name']}'({match['index']}) is {value}, not {operator} {wanted}")


def ports_of(commands: Sequence[Command]) -> set[int]:
    """Find the ports that a test speaks of, and the low ones, on which a packet may pass egress unseen."""
    ports = set(range(LOW_PORTS))
    for command in commands:
        words = command.rest.split()
        if command.name in ("packet", "expect") and words:
            try:
                ports.add(number(words[0]))
            except StfError as error:
                raise StfError(f"line {command.line}: {error}") from error
        elif command.name == "mirroring_add":
            ports.add(int(words[1]))
        elif command.name == "mc_node_create":
            ports |= {int(word) for word in words[1:]}
    return ports


def run_stf(json_path: Path, stf_path: Path) -> list[str]:
    """Run a test file on a fresh switch and return what went wrong."""
    try:
        text = stf_path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise StfError(f"{stf_path}: {error}") from error
    try:
        with Switch(name=json_path.stem, frames=1024) as switch:
            switch.load(json_path)
            for port in sorted(ports_of(parse_stf(text))):
                if port < PORTS:
                    switch.add_port(port)
            return Stf(switch, json_path).run(text)
    except StfError as error:
        raise StfError(f"{stf_path}: {error}") from error


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one test from the command line: 0 when it passes, 1 when it fails, 2 when it cannot be run."""
    parser = argparse.ArgumentParser(prog="softswitch.stf", description="Run a packet test on a BMv2 JSON program.")
    parser.add_argument("program", type=Path, help="what p4c-bm2-ss wrote")
    parser.add_argument("test", type=Path, help="the .stf file")
    options = parser.parse_args(arguments)
    try:
        failures = run_stf(options.program, options.test)
    except SwitchError as error:
        print(f"softswitch.stf: {error}", file=sys.stderr)
        return 2
    for failure in failures:
        print(f"{options.test}: {failure}")
    print(f"{options.test}: {'failed' if failures else 'passed'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
