# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The check of Tofino assembly finds what some compilers lose."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from p4src.assembly import AssemblyError, check_assembly, check_stages, read_selects

ROOT = Path(__file__).resolve().parents[3]

HEADERS = """
header frame_t {
    bit<16> kind;
    bit<8> number;
    bit<3> flags;
}
"""
TYPES = "enum bit<16> kind_t { ONE = 0x0800, TWO = 0x86dd }\nconst bit<8> LAST = 17;\n"
PARSER = """
parser GradlaneIngressParser(packet_in packet) {
    state start {
        transition select(hdr.frame.kind) {     // a comment; with: punctuation
            kind_t.ONE: one;
            kind_t.TWO: two;
            default: accept;
        }
    }

    state one {
        transition select(hdr.frame.number, hdr.frame.flags) {
            (LAST, 0 &&& 1): two;
            default: accept;
        }
    }

    state two {
        transition accept;
    }
}

parser GradlaneEgressParser(packet_in packet) {
    state start {
        transition select(packet.lookahead<bit<8>>()) {
            0x46 &&& 0xfe: accept;
            default: accept;
        }
    }
}
"""
BEFORE_ONE = """parser GradlaneIngressParser(packet_in packet) {
    state before {
        packet.extract(hdr.frame);
        transition one;
    }
"""
ASSEMBLY = """\
version:
  target: Tofino
parser ingress:
  start: start
  states:
    start:
      match: [ half ]
      0x0800:
        0..1: H1  # kind
        next: one
      0x86dd:
        next: two
      0x****:
        next: end
    one.$split_0:
      match: [ byte0, byte1 ]
      0b00010001*******0:
        next: two
      0x****:
        next: end
    two:
      *:
        next: end
parser egress:
  start: start
  states:
    start:
      match: [ byte0 ]
      0b0100011*:
        next: end
      0x**:
        next: end
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """A small program's sources."""
    for name, text in {"shared/headers.p4": HEADERS, "shared/types.p4": TYPES, "tna/parser.p4": PARSER}.items():
        path = tmp_path / "p4src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_every_select_value_is_found(sources: Path) -> None:
    assert check_assembly(sources, ASSEMBLY) == 4


def test_a_select_reduced_to_its_first_branch_is_noticed(sources: Path) -> None:
    shortened = ASSEMBLY.replace("      0x86dd:\n        next: two\n", "")
    with pytest.raises(AssemblyError, match=r"ingress parser: state start has lost its branch kind_t\.TWO"):
        check_assembly(sources, shortened)


def test_a_select_that_always_takes_its_first_branch_is_noticed(sources: Path) -> None:
    unconditional = ASSEMBLY.replace("      match: [ half ]\n      0x0800:", "      *:")
    with pytest.raises(AssemblyError, match=r"state start has lost its branch kind_t\.ONE"):
        check_assembly(sources, unconditional.replace("      0x86dd:\n        next: two\n", "      0x86dd:\n"))
    with pytest.raises(AssemblyError, match="state start does not branch"):
        check_assembly(sources, unconditional.replace("      0x86dd:\n        next: two\n", ""))


def test_a_mask_is_part_of_the_value(sources: Path) -> None:
    with pytest.raises(AssemblyError, match="egress parser: state start has lost its branch 0x46"):
        check_assembly(sources, ASSEMBLY.replace("0b0100011*", "0x46"))


def test_a_key_of_several_is_noticed(sources: Path) -> None:
    with pytest.raises(AssemblyError, match="state one has lost its branch"):
        check_assembly(sources, ASSEMBLY.replace("0b00010001*******0", "0b00010001********"))


def test_an_empty_parser_is_noticed(sources: Path) -> None:
    with pytest.raises(AssemblyError, match="no states in the egress parser"):
        check_assembly(sources, ASSEMBLY[: ASSEMBLY.index("parser egress")] + "parser egress:\n  states:\n")
    with pytest.raises(AssemblyError, match="no states in the ingress parser"):
        check_assembly(sources, "")


def test_a_state_is_found_under_the_name_that_the_compiler_gave_it(sources: Path) -> None:
    entry = ASSEMBLY.replace("    start:\n", "    $entry_point.start:\n")
    assert check_assembly(sources, entry) == 4
    # Merged into the state that always goes to it; a state that only may go there is not looked at.
    parser = sources / "p4src/tna/parser.p4"
    always = PARSER.replace("parser GradlaneIngressParser(packet_in packet) {", BEFORE_ONE)
    parser.write_text(always)
    merged = ASSEMBLY.replace("one.$split_0", "before.$split_0")
    assert check_assembly(sources, merged) == 4
    parser.write_text(PARSER)
    with pytest.raises(AssemblyError, match="ingress parser: state one does not branch"):
        check_assembly(sources, merged)


def test_slices_of_keys_and_constants_are_read(sources: Path) -> None:
    parser = sources / "p4src/tna/parser.p4"
    sliced = PARSER.replace("packet.lookahead<bit<8>>()", "packet.lookahead<bit<64>>()[15:8]").replace(
        "0x46 &&& 0xfe", "WORD[15:8]"
    )
    parser.write_text("const bit<16> WORD = 0x4711;\n" + sliced)
    assert check_assembly(sources, ASSEMBLY.replace("0b0100011*", "0x47")) == 4
    with pytest.raises(AssemblyError, match=r"has lost its branch WORD\[15:8\]"):
        check_assembly(sources, ASSEMBLY.replace("0b0100011*", "0x11"))


def test_matches_in_octal_are_read(sources: Path) -> None:
    (sources / "p4src/tna/parser.p4").write_text(PARSER.replace("0x46 &&& 0xfe", "0x48 &&& 0xf8"))
    assert check_assembly(sources, ASSEMBLY.replace("0b0100011*", "0o11*")) == 4
    with pytest.raises(AssemblyError, match="has lost its branch 0x48 &&& 0xf8"):
        check_assembly(sources, ASSEMBLY.replace("0b0100011*", "0o12*"))


def test_a_value_that_nobody_can_tell_is_an_error(sources: Path) -> None:
    parser = sources / "p4src/tna/parser.p4"
    parser.write_text(PARSER.replace("0x46 &&& 0xfe", "NOWHERE"))
    with pytest.raises(AssemblyError, match=r"parser\.p4: cannot tell the value of NOWHERE"):
        check_assembly(sources, ASSEMBLY)


def test_the_programs_own_parsers_can_be_read() -> None:
    selects = {(thread, state): cases for thread, state, cases in read_selects(ROOT)}
    assert len(selects[("ingress", "check_gradient")]) == 9
    assert [case.keys[0].value for case in selects[("ingress", "check_arp_request")]] == [0x06040001]
    assert ("egress", "bridge") not in selects
    with pytest.raises(AssemblyError, match="no states in the ingress parser"):
        check_assembly(ROOT, "")


def test_more_stages_than_the_chip_has_are_refused() -> None:
    twelve = "".join(f"stage {stage} ingress:\n  dependency: match\n" for stage in range(12)) + "stage 3 egress:\n"
    assert check_stages(twelve) == 12
    assert check_stages("parser ingress:\n") == 0
    with pytest.raises(AssemblyError, match="^needs 13 stages; Tofino 1 has 12$"):
        check_stages(f"{twelve}stage 12 ingress:\n")


EGRESS_INTRINSIC_BYTES = 27
LEAST_EGRESS_BYTES = 65


def bytes_of(header: str) -> int:
    """Count a header's bytes; fields that are no bit<N> are looked up among the types."""
    sources = [*(ROOT / "p4src/shared").glob("*.p4"), *(ROOT / "p4src/tna").glob("*.p4")]
    text = "\n".join(file.read_text() for file in sources)
    types = {name: int(bits) for bits, name in re.findall(r"typedef bit<(\d+)> (\w+);", text)}
    types |= {name: int(bits) for bits, name in re.findall(r"enum bit<(\d+)> (\w+) ", text)}
    body = re.search(rf"header {header}_t \{{(.*?)\n\}}", text, re.DOTALL)
    assert body is not None
    declared = re.findall(r"^ +(?:@padding )?(bit<\d+>|\w+) \w+;", body[1], re.MULTILINE)
    bits = sum(int(kind[4:-1]) if kind.startswith("bit<") else types[kind] for kind in declared)
    assert bits % 8 == 0
    return bits // 8


def test_every_way_through_the_egress_parser_reads_as_much_as_tofino_asks_for() -> None:
    """Where one reads less, p4c adds states that read on, and warns of them."""
    source = (ROOT / "p4src/tna/parser.p4").read_text()
    parser = source[source.index("parser GradlaneEgressParser") :]
    states = {
        name: (
            sum(map(bytes_of, re.findall(r"extract\(hdr\.(\w+)\)", body)))
            + sum(int(bits) // 8 for bits in re.findall(r"advance\((\d+)\)", body)),
            set(re.findall(r"(?:transition|:) (\w+);", body)),
        )
        for name, body in re.findall(r"state (\w+) \{(.*?)\n    \}", parser, re.DOTALL)
    }

    def least(state: str) -> int:
        if state == "accept":
            return 0
        read, following = states[state]
        return read + min(map(least, following))

    assert EGRESS_INTRINSIC_BYTES + least("start") >= LEAST_EGRESS_BYTES
