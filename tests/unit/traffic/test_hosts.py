# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Hosts of a running fabric, as those who start programs in them find them."""

import pytest

import topologies
from topologies.errors import FailureError, UsageError
from topologies.processes import ProcessId
from topologies.state import HostState, RunningFabric
from traffic.hosts import site_of

FABRIC = topologies.load("leaf_spine")
ME = ProcessId(1, 0)


def test_a_host_is_entered_through_its_process() -> None:
    running = RunningFabric(1, FABRIC, "softswitch", False, ME, hosts={"h1": HostState("h1", ProcessId(4711, 0))})
    site = site_of(running, "h1")
    assert "--target=4711" in site.enter
    assert (site.interface, site.station.ipv4, site.line_rate) == ("h1-eth0", "10.0.1.1", 100_000_000)


def test_a_host_that_a_starting_fabric_has_not_got_yet_is_one_line() -> None:
    """The state file is written before anything is made, hosts included."""
    starting = RunningFabric(1, FABRIC, "softswitch", False, ME)
    with pytest.raises(FailureError, match="^fabric leaf_spine is starting and has no host h1 yet; try again"):
        site_of(starting, "h1")
    with pytest.raises(UsageError, match="no host 'h99'"):
        site_of(starting, "h99")
