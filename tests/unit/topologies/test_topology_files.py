# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Topology files: what they may say, and that a mistake names file, line and field in one line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import topologies
from controller import policy
from topologies import UsageError
from topologies.errors import FailureError, GradlaneError
from topologies.loading import loads
from topologies.schema import KINDS, json_schema

MISTAKES = {
    "empty": ("", "t.yaml:1: must be a mapping"),
    "not YAML": ("kind: [single", "t.yaml:1: not valid YAML"),
    "a tab": ("kind: single\n\tx: 1\n", "t.yaml:2: not valid YAML"),
    "not text": ("\0", "t.yaml: not valid YAML"),
    "a Python object": ("a: !!python/object:os.system x\n", "t.yaml:1: not valid YAML"),
    "no truth": ("kind: !!bool maybe\n", "t.yaml: not valid YAML: 'maybe'"),
    "an empty number": ('kind: !!int ""\n', "t.yaml: not valid YAML: string index out of range"),
    "no date": ("kind: !!timestamp soon\n", "t.yaml: not valid YAML: "),
    "a field over two lines": ('kind: single\n"a\\nb": 1\n', r"t.yaml:2: 'a\\nb': there is no such field"),
    "a list": ("- single\n", "t.yaml:1: must be a mapping"),
    "no kind": ("hosts: 3\n", "t.yaml:1: kind: missing; it is one of single, dumbbell"),
    "unknown kind": ("# x\nkind: clos\n", "t.yaml:2: kind: there is no kind 'clos'"),
    "unknown field": ("kind: single\nhost: 3\n", "t.yaml:2: host: there is no such field"),
    "a key twice, in two ways of writing": (
        "kind: leaf_spine\nfabric_link:\n  queue:\n    classes:\n      3: {packets: 9}\n      0x3: {packets: 8}\n",
        "t.yaml:6: fabric_link.queue.classes\\[3\\]: given twice, first in line 5",
    ),
    "a field twice": ("kind: single\nhosts: 3\nhosts: 4\n", "t.yaml:3: hosts: given twice, first in line 2"),
    "text for a number": ("kind: single\nhosts: many\n", "t.yaml:2: hosts: .*integer, not 'many'"),
    "true for a number": ("kind: single\nhosts: true\n", "t.yaml:2: hosts: .*integer, not True"),
    "too many hosts": ("kind: single\nhosts: 63\n", "t.yaml:2: hosts: .*62, not 63"),
    "odd k": ("kind: fat_tree\nk: 3\n", "t.yaml:2: k: .*multiple of 2, not 3"),
    "no rate": ("kind: single\nhost_link:\n  rate: fast\n", "t.yaml:3: host_link.rate: 'fast' is not a rate"),
    "rate 0": ("kind: single\nhost_link: {rate: 0}\n", "t.yaml:2: host_link.rate: .*above zero"),
    "rate 3999": ("kind: single\nhost_link: {rate: 3999}\n", "t.yaml:2: host_link.rate: .*at least 4kbit/s, not 3999"),
    "a rate of no link": ("kind: single\nhost_link:\n  rate: 2000T\n", "t.yaml:3: host_link.rate: .*above 1000T"),
    "bytes of no queue": ("kind: single\nhost_link:\n  queue: {bytes: 4294967296}\n", "t.yaml:3: .*4294967295"),
    "no duration": ("kind: single\nhost_link:\n  delay: 5\n", "t.yaml:3: host_link.delay: 5 is not a duration"),
    "class 8": (
        "kind: single\nhost_link:\n  queue:\n    classes:\n      8: {packets: 3}\n",
        "t.yaml:5: host_link.queue.classes\\[8\\]: .*7, not 8",
    ),
    "not an address": ("kind: single\naddresses:\n  h1:\n    ipv4: 10.0.0.256\n", "t.yaml:4: addresses.h1.ipv4: "),
    "not IPv6": ("kind: single\naddresses:\n  h1: {ipv6: 10.0.0.1}\n", "t.yaml:3: addresses.h1.ipv6: "),
    "a group MAC": ("kind: single\naddresses:\n  h1: {mac: '01:00:5e:00:00:01'}\n", "addresses.h1.mac: .*group"),
    "no MAC": (
        "kind: single\naddresses:\n  h1: {mac: '00:00:00:00:00:00'}\n",
        "t.yaml:3: addresses.h1.mac: .*cannot be",
    ),
    "broadcast": (
        "kind: single\naddresses:\n  h1: {ipv4: 255.255.255.255}\n",
        "t.yaml:3: addresses.h1.ipv4: .*cannot be",
    ),
    "address of nobody": ("kind: single\naddresses:\n  h9: {ipv4: 10.1.1.1}\n", "t.yaml:3: addresses.h9: there is no"),
    "address taken": ("kind: single\n\naddresses:\n  h1: {ipv4: 10.0.1.2}\n", "t.yaml:4: addresses.h1.ipv4: .* both"),
    "gateway's MAC": ("kind: single\naddresses:\n  h1: {mac: '02:00:00:00:fe:01'}\n", "t.yaml:3: addresses.h1.mac: "),
    "too many ports": ("kind: leaf_spine\nspines: 60\n", "switch leaf1 has more than 63 ports"),
    "gRPC ports run out": ("kind: leaf_spine\nfirst_grpc_port: 65533\n", "t.yaml:2: first_grpc_port: switch spine2"),
    "no such link": (
        "kind: leaf_spine\nlinks:\n  - {between: [leaf1, spine1], rate: 1M}\n  - between: [leaf1, leaf2]\n",
        "t.yaml:4: links\\[1\\].between: there is no link between 'leaf1' and 'leaf2'",
    ),
    "custom without switches": ("kind: custom\n", "t.yaml:1: switches: missing"),
    "unknown role": ("kind: custom\nswitches:\n  s1: {role: root}\n", "t.yaml:3: switches.s1.role: 'root' is not"),
    "host on no switch": (
        "kind: custom\nswitches: {s1: }\nhosts:\n  h1: {switch: s2}\n",
        "t.yaml:4: hosts.h1.switch: there is no switch 's2'",
    ),
    "two links": (
        "kind: custom\nswitches: {s1: , s2: }\nlinks:\n  - between: [s1, s2]\n  - between: [s2, s1]\n",
        "t.yaml:5: links\\[1\\].between: two links between s2 and s1",
    ),
    "a loop": ("kind: custom\nswitches: {s1: }\nlinks:\n  - between: [s1, s1]\n", "t.yaml:4: .*s1 is linked to itself"),
    "two halves": (
        "kind: custom\nswitches: {s1: , s2: }\nhosts:\n  h1: {switch: s1}\n  h2: {switch: s2}\n",
        "t.yaml:5: hosts.h2.switch: no links join s2 and s1: h2 cannot reach h1",
    ),
    "a long name": (
        "kind: custom\nswitches: {switchnumb01: }\nhosts: {h1: {switch: switchnumb01}}\n",
        "switchnumb01: interface switchnumb01-eth1 has 17 characters",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_is_one_line_with_file_line_and_field(case: str) -> None:
    text, expected = MISTAKES[case]
    with pytest.raises(UsageError, match=expected) as caught:
        loads(text, "t.yaml")
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_the_topmost_of_several_mistakes_is_named_and_the_others_counted() -> None:
    with pytest.raises(UsageError, match=r"t.yaml:2: leaves: .* \(and 1 more\)"):
        loads("kind: leaf_spine\nleaves: two\nspines: two\n", "t.yaml")


def test_aliases_cannot_blow_a_file_up() -> None:
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 20)}]\n" for n in range(1, 12))
    with pytest.raises(UsageError, match="t.yaml:5: too much: more than 100000 values, aliases written out"):
        loads(bomb, "t.yaml")


MERGED = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}\n" for n in range(1, 40))


@pytest.mark.parametrize("load_text", [loads, policy.loads], ids=["topology", "policy"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 5000, "t.yaml:1: too much: nested deeper than 32 levels"),
        ("kind: " + "{a: " * 5000, "t.yaml:1: too much: nested deeper than 32 levels"),
        ("- " * 5000, "t.yaml:1: too much: nested deeper than 32 levels"),
        ("name: &a [*a]\n", "t.yaml:1: too much: an alias of what it stands in"),
        (MERGED, "too much: more than 100000 values"),
        ("name: x\nmtu: " + ":".join(["59"] * 50000), "t.yaml:2: too much: a number of more than 64 characters"),
        ("name: x\nmtu: 0x" + "f" * 5000, "t.yaml:2: too much: a number of more than 64 characters"),
        ("#" * (1 << 20) + "\n", "t.yaml: too much: more than 1048576 characters"),
    ],
    ids=["lists", "mappings", "blocks", "alias of itself", "merge keys", "sexagesimal", "hexadecimal", "long"],
)
def test_a_text_beyond_the_limits_is_refused_in_one_line(
    load_text: Callable[[str, str], object], text: str, message: str
) -> None:
    with pytest.raises(UsageError) as caught:
        load_text(text, "t.yaml")
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_an_endless_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    endless = tmp_path / "t.yaml"
    endless.symlink_to("/dev/zero")
    for load in (topologies.load, policy.load):
        with pytest.raises(UsageError, match=r"t.yaml: too much: more than 1048576 characters"):
            load(endless)


def test_an_unknown_name_is_answered_with_the_closest_known_one() -> None:
    with pytest.raises(UsageError, match="unknown topology 'leafspine'; did you mean 'leaf_spine'?"):
        topologies.load("leafspine")


def test_a_missing_or_unreadable_file_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no topology file"):
        topologies.load(tmp_path / "none.yaml")
    with pytest.raises(UsageError, match="cannot read the topology: Is a directory"):
        topologies.load(tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"binary.yaml: cannot read the topology: it is not UTF-8"):
        topologies.load(tmp_path / "binary.yaml")


def test_a_file_may_change_single_links_and_addresses(tmp_path: Path) -> None:
    file = tmp_path / "slow_spine.yaml"
    file.write_text(
        """
kind: leaf_spine
host_link: {rate: 1G, queue: {packets: 64}}
links:
  - {between: [spine2, leaf1], rate: 10M, reverse_rate: 20M, delay: 5us}
addresses:
  h3: {ipv4: 192.0.2.7, ipv6: "2001:db8::0007", mac: 02-00-00-00-00-AA}
"""
    )
    fabric = topologies.load(file)
    assert fabric.name == "slow_spine"
    link = fabric.link("leaf1", "spine2")
    assert (link.a.node, link.rate_from("spine2"), link.rate_from("leaf1")) == ("leaf1", 10_000_000, 20_000_000)
    assert link.delay_ns == 5000
    assert fabric.link("leaf1", "spine1").rate_from("spine1") == 200_000_000
    assert fabric.ports("leaf1")[0].queues[0].packets == 64
    host = fabric.host("h3")
    assert (host.ipv4, host.ipv6, host.mac) == ("192.0.2.7", "2001:db8::7", "02:00:00:00:00:aa")


def test_a_custom_fabric_is_given_node_by_node() -> None:
    fabric = loads(
        """
kind: custom
name: triangle
switches:
  a: {role: leaf}
  b:
  c:
hosts:
  client: {switch: a}
  server: {switch: c, rate: 1G}
links:
  - between: [a, b]
  - {between: [b, c], rate: 10M}
  - {between: [a, c], rate: null}
""",
        "t.yaml",
    )
    assert fabric.name == "triangle"
    assert fabric.neighbours("a") == ("client", "b", "c")
    assert fabric.link("server", "c").rate_from("c") == 1_000_000_000
    assert fabric.link("client", "a").rate_from("a") == 100_000_000
    assert fabric.link("a", "b").rate_from("b") == 200_000_000
    assert fabric.link("a", "c").rate_from("c") is None


def test_the_json_schema_knows_every_kind() -> None:
    schema = json_schema()
    json.dumps(schema)
    assert set(schema["discriminator"]["mapping"]) == set(KINDS)


def test_errors_are_one_tree_with_exit_codes() -> None:
    assert issubclass(UsageError, GradlaneError) and issubclass(FailureError, GradlaneError)
    assert (UsageError("x").exit_code, FailureError("x").exit_code) == (2, 1)
