# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from controller.compiler import compile_policy
from gradlane.demo import plan as plans
from gradlane.demo import tuner
from gradlane.demo.__main__ import main
from gradlane.demo.bed import Roles, TcpTuning, load_fabric, renumbered
from traffic.exchanges.background import Trace
from traffic.exchanges.methods import Wiring


def test_the_tuner_tries_every_setting_and_takes_the_fastest() -> None:
    fastest = TcpTuning("bbr", 5, 1000)
    chosen, trials = tuner.tune(lambda t, _, rounds: [1.0 if t == fastest else 2.0] * rounds, plans.SHORT.tunings, 1)
    assert chosen == fastest
    assert len(trials) == 2 * 2 * 3
    assert sorted(len(rounds) for rounds in trials.values()) == [1] * 8 + [3] * 2 + [7] * 2


def test_one_lucky_trial_does_not_win() -> None:
    lucky, steady = TcpTuning("bbr", 5, 64), TcpTuning("cubic", 5, 64)

    def trial(tuning: TcpTuning, turn: int, rounds: int) -> list[float]:
        return [{lucky: 0.5 if turn == 0 else 9.0, steady: 1.0}.get(tuning, 5.0)] * rounds

    assert tuner.tune(trial, plans.SHORT.tunings, 1)[0] == steady


def test_the_best_two_are_judged_by_rounds_in_every_draw() -> None:
    """A setting that leads until the last turn loses to one that is quicker over all rounds."""
    leads, quicker = TcpTuning("bbr", 5, 64), TcpTuning("cubic", 5, 64)
    draws: list[tuple[int, int]] = []

    def trial(tuning: TcpTuning, turn: int, rounds: int) -> list[float]:
        draws.append((turn, rounds))
        return [{leads: (1.0, 1.0, 3.0), quicker: (1.5, 1.5, 1.5)}.get(tuning, (5.0,) * 3)[turn]] * rounds

    assert tuner.tune(trial, plans.SHORT.tunings, 2)[0] == quicker
    assert draws == [(0, 2)] * 12 + [(1, 4)] * 4 + [(2, 8)] * 2


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
    assert sum(plans.SHORT.seconds(part) for part in plans.SHORT.parts) < 360


def test_the_full_run_has_what_its_figures_need() -> None:
    full = plans.FULL
    seeds = {part.seed for part in full.parts if part.model == "mlp"}
    assert full.rounds * len(seeds) >= 300
    assert len(seeds) >= 3
    assert full.draws >= 8
    assert {(part.level, part.model) for part in full.parts} >= {
        (level, model) for level in ("light", "heavy") for model in ("mlp", "cnn")
    }
    assert {part.compute for part in full.parts if part.model == "deep"} == {0.25, 0.5, 1.0}
    assert len({part.name for part in full.parts}) == len(full.parts)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--part", "heavy/mlp/1"], "--part is of --full"),
        (["--full", "--part", "heavy/mlp/9"], "there is no 'heavy/mlp/9'"),
        (["--methods", "p4"], "there is no 'p4'"),
        (["--rate", "fast"], "--rate"),
    ],
)
def test_a_wrong_option_is_one_line(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
