# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Tables ingress_port, gradient_class and dscp_class: which class serves a packet, and where it is counted."""

from __future__ import annotations

import pytest

from tests.pipeline.bench import NO_INDEX, Bench, cell
from tests.pipeline.packets import ACK, DATA, REPORT, START, TRIMMED, Frame, Gradient, gradient
from tests.pipeline.policies import ANY, ROUTED, dscp_class, gradient_class
from tests.pipeline.reference import Range, Ternary


def test_a_port_without_an_index_is_counted_under_the_last_one(bench: Bench) -> None:
    bench.install(ROUTED)
    bench.send(1, bytes(gradient()))
    bench.send(4, bytes(gradient()))
    bench.check_counts()
    assert bench.counts()["received"] == {cell(1, 0): 1, cell(NO_INDEX, 0): 1}


def test_front_layers_get_the_class_that_their_range_names(bench: Bench) -> None:
    bench.install(
        ROUTED.with_rows(
            gradient_class(6, priority=2, layer=Range(0, 3)),
            gradient_class(5, priority=1, layer=Range(2, 9)),
        )
    )
    for layer, expected in ((0, 6), (3, 6), (4, 5), (9, 5), (10, 0)):
        before = bench.counts()["kept"].get(cell(2, expected), 0)
        bench.send(1, bytes(gradient(Gradient(layer=layer))))
        assert bench.counts()["kept"][cell(2, expected)] == before + 1, f"layer {layer}"
    bench.check_counts()


def test_a_job_has_rows_of_its_own(bench: Bench) -> None:
    bench.install(
        ROUTED.with_rows(
            gradient_class(3, priority=5, job=Ternary(7, 0xFFFF)),
            gradient_class(1, priority=1, job=Ternary(0x0100, 0xFF00)),
        )
    )
    for job in (7, 0x0107, 8):
        bench.send(1, bytes(gradient(Gradient(job=job))))
    bench.check_counts()
    assert bench.counts()["kept"] == {cell(2, 3): 1, cell(2, 1): 1, cell(2, 0): 1}


@pytest.mark.parametrize("kind", [TRIMMED, START, ACK, REPORT])
def test_control_messages_ride_above_data(bench: Bench, kind: int) -> None:
    rows = [gradient_class(7, priority=9, type=Ternary(kind, 0xF)), gradient_class(4, priority=1, type=ANY)]
    bench.install(ROUTED.with_rows(*rows))
    bench.send(1, bytes(gradient(Gradient(type=kind))))
    bench.send(1, bytes(gradient(Gradient(type=DATA))))
    bench.check_counts()
    assert bench.counts()["kept"] == {cell(2, 7): 1, cell(2, 4): 1}


def test_ordinary_traffic_is_classified_by_dscp_over_both_versions(bench: Bench) -> None:
    bench.install(ROUTED.with_rows(dscp_class(46, 6), dscp_class(8, 1), gradient_class(3)))
    bench.send(1, bytes(Frame(b"voice", destination_port=5060, dscp=46)))
    bench.send(1, bytes(Frame(b"voice", destination_port=5060, dscp=46, version=6)))
    bench.send(1, bytes(Frame(b"bulk", destination_port=5001, dscp=8, protocol=6)))
    bench.send(1, bytes(Frame(b"other", destination_port=5001)))
    bench.send(1, bytes(gradient(dscp=46)))
    bench.check_counts()
    assert bench.counts()["kept"] == {cell(2, 6): 2, cell(2, 1): 1, cell(2, 0): 1, cell(2, 3): 1}
