# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The switch benchmark at its smallest: it runs, removes what it made, and writes what it promises."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.fabric
ROOT = Path(__file__).parents[2]


def test_the_switch_benchmark_writes_rows_and_ratios(tmp_path: Path) -> None:
    output = tmp_path / "switch.json"
    short = [
        "--rounds",
        "1",
        "--seconds",
        "0.05",
        "--sizes",
        "128",
        "--programs",
        "wire",
        "router",
        "--output",
        str(output),
    ]
    short += ["--growth", "1", "10"]
    command = [sys.executable, "-m", "tests.benchmarks.switch", *short, "--engines", "raw", "raw:xdp", "softswitch"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            printed = process.communicate(timeout=100)[0]
        finally:
            process.terminate()
    assert process.returncode == 0, printed
    result = json.loads(output.read_text())
    assert {row["engine"] for row in result["rows"]} == {"raw", "raw:xdp", "softswitch", "pipeline"}
    for row in result["rows"]:
        assert row["pps"]["min"] <= row["pps"]["median"] <= row["pps"]["max"]
        assert row["cpu_us_per_packet"]["median"] > 0 and set(row["latency_us"]) == {"p50", "p99"}
    assert {(row["program"], row["size"]) for row in result["rows"]} == {("wire", 128), ("router", 128)}
    assert set(result["ratios"]) == {
        f"{program}.128.softswitch/{base}" for program in ("wire", "router") for base in ("raw", "raw:xdp")
    }
    assert [(row["match"], row["entries"]) for row in result["growth"]] == [
        (match, entries) for match in ("exact", "lpm", "ternary") for entries in (1, 10)
    ]
    [compiled] = result["compile"]  # "wire" is C by hand
    assert compiled["program"] == "router" and 0 < compiled["cached"] < compiled["seconds"]
    namespaces = subprocess.run(["ip", "netns"], check=True, capture_output=True, text=True).stdout
    assert f"process{process.pid}." not in namespaces
