# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What a replay wants to know from whoever controls the fabric; the traffic part itself knows no controller."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from topologies.state import RunningFabric
from traffic.replay.summary import Classifier

PathShares = Mapping[str, Mapping[str, float]]
"""For every switch that chose between next hops, the share of packets, 0..1, that each neighbour got."""


@dataclass(frozen=True)
class Observation:
    """What a controller tells of a running fabric from the moment that the observation began."""

    classify: Classifier
    paths: Callable[[str], PathShares]
    """Takes the receiving host; returns the shares of the paths to it since the observation began."""


Observe = Callable[[RunningFabric], Observation]
"""Begins an observation."""
