# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from controller.compiler import compile_policy
from gradlane.demo import plan as plans
from gradlane.demo import tuner
from gradlane.demo.__main__ import GUESS_SECONDS
from gradlane.demo.bed import Roles, TcpTuning, load_fabric, renumbered
from traffic.training.background import Trace
from traffic.training.methods import Wiring


def test_the_tuner_tries_every_setting_and_takes_the_fastest() -> None:
    fastest = TcpTuning("bbr", 5, 1000)
    chosen, trials = tuner.tune(lambda t: 1.0 if t == fastest else 2.0, plans.SHORT.tunings)
    assert chosen == fastest
    assert len(trials) == 2 * 2 * 3


def test_every_hash_draw_gives_every_host_another_address() -> None:
    fabric = load_fabric()
    seen = {host.ipv4 for draw in range(4) for host in renumbered(fabric, draw).hosts}
    assert len(seen) == 4 * len(fabric.hosts)
    with pytest.raises(ValueError, match="254 draws"):
        renumbered(fabric, 254)


@pytest.mark.parametrize("method", plans.METHODS.values(), ids=lambda method: method.name)
def test_every_method_has_a_policy_that_fits_the_fabric_and_settings_that_travel(method: plans.Method) -> None:
    fabric = load_fabric()
    for queue in tuner.QUEUE_PACKETS:
        desired = compile_policy(method.policy(TcpTuning("cubic", 5, queue)), fabric, "softswitch", ())
        assert set(desired) == {switch.name for switch in fabric.switches}
    wiring = Wiring(method.kind(1e8), ("10.1.1.1", "10.1.1.2"), ("10.1.1.3",), method.largest_piece)
    assert Wiring.from_dict(wiring.as_dict()) == wiring


def test_background_is_the_same_for_the_same_seed_and_survives_its_file(tmp_path: Path) -> None:
    load = plans.LEVELS["heavy"]
    trace = load.trace(Roles(), 1e8, seed=7)
    assert trace == load.trace(Roles(), 1e8, seed=7) != load.trace(Roles(), 1e8, seed=8)
    trace.save(tmp_path / "trace.json")
    assert Trace.load(tmp_path / "trace.json") == trace
    hot = sum(burst.bytes for burst in trace.bursts if burst.path and burst.source == Roles().hot[0])
    assert hot * 8 / trace.seconds == pytest.approx(load.hot * 1e8 * plans.PAYLOAD_SHARE, rel=0.01)


def test_the_default_run_says_that_it_takes_less_than_six_minutes() -> None:
    assert plans.SHORT.seconds(GUESS_SECONDS) < 360
    assert plans.FULL.rounds * len(plans.FULL.seeds) >= 300
    assert plans.FULL.draws >= 8
