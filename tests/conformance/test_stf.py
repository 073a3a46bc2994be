# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Packet tests of our own making under the STF runner, and what the runner says of tests that fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from softswitch.stf import main

TESTS = Path(__file__).parent
PROGRAMS = {
    "router": TESTS.parent / "benchmarks/p4/router.json",
    "filter": TESTS.parent / "benchmarks/p4/filter.json",
    "state": TESTS.parent / "differential/compiled/state.json",
    "passes": TESTS.parent / "differential/compiled/passes.json",
}
UDP = "000000000002 000000000001 0800 4500001c 00000000 4011 0000 c0a80101 0a000001 0001 1388 0008 0000"


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_packet_test_passes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(PROGRAMS[name]), str(TESTS / f"{name}.stf")]) == 0, capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"packet 1 {UDP}\nexpect 2 {UDP}", "port 2: sent 0 packets, not 1 (none)"),
        (f"add filter 1 forward(port:2)\npacket 1 {UDP}", "port 2: sent 1 packets, not 0 ("),
        (f"add filter 1 forward(port:2)\npacket 1 {UDP}\nexpect 2 0000000000ff", "line 3: port 2: 000000000002"),
        (f"add filter 1 forward(port:2)\npacket 1 {UDP}\nexpect 2 0000 $", "line 3: port 2: longer than expected"),
        ("add filter 1 forward(port:2)\nadd filter 1 forward(port:3)", "line 2:"),
    ],
)
def test_what_differs_is_told(text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    test = tmp_path / "test.stf"
    test.write_text(text + "\n")
    assert main([str(PROGRAMS["filter"]), str(test)]) == 1
    out = capsys.readouterr().out
    assert said in out and out.endswith("failed\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("paket 1 00", "line 1: unknown command 'paket'"),
        ("add filter 1 leave()", "no action 'leave' in table"),
        ("add filter 1 forward()", "action 'forward' lacks argument 'port'"),
        ("add filter 1 h.ipv6.source:1 forward(port:2)", "has no key 'h.ipv6.source'"),
        ("packet one 00", "line 1: no number: 'one'"),
    ],
)
def test_a_test_that_cannot_run_names_its_line(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    test = tmp_path / "test.stf"
    test.write_text(text + "\n")
    assert main([str(PROGRAMS["filter"]), str(test)]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
