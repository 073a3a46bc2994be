# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""From a policy and a fabric to what every switch should hold: a pure function, equal input giving equal output.

Conventions of the compiled state, which every reader of a switch may rely on:

    next hop id        the port that leads there (each port has one neighbour), for hosts and switches alike
    member id          the same number
    group id           the device id of the destination switch, so that a reroute changes members and no routes
    path k of a group  its k-th next hop in port order, weights aside
"""

from __future__ import annotations

from controller.compiler import classification, forwarding, judgement
from controller.compiler.state import DesiredState, PortRate, QueueLimit, Target
from controller.p4rt.entities import Entity
from controller.policy import Policy
from controller.quantities import CLASSES
from topologies.model import Fabric
from topologies.routes import FailedLinks, next_hops

__all__ = ["DesiredState", "PortRate", "QueueLimit", "Target", "compile_policy"]


def compile_policy(
    policy: Policy, fabric: Fabric, targets: Target | dict[str, Target] = "softswitch", failed: FailedLinks = ()
) -> dict[str, DesiredState]:
    """Return what every switch of `fabric` should hold under `policy`.

    `targets` says what runs the switches: one target for all, or one for each by name. `failed` names links that
    carry nothing, each by its two ends; what the policy takes out of service joins them.

    Raises:
        UsageError: the policy names what the fabric lacks, or a depth that the target cannot express.
    """
    failed = [*map(frozenset, failed), *forwarding.out_of_service(policy, fabric)]
    forwarding.check_weights(policy, fabric)
    hops = next_hops(fabric, failed)
    states = {}
    for switch in fabric.switches:
        target = targets if isinstance(targets, str) else targets[switch.name]
        rate = judgement.slowest(policy, fabric.ports(switch.name))
        limits = [judgement.Limit.of(policy, class_, rate, fabric.ports(switch.name)) for class_ in range(CLASSES)]
        entities: list[Entity] = [
            *forwarding.adjacency(fabric, switch.name),
            *forwarding.paths(policy, fabric, switch.name, hops[switch.name]),
            *forwarding.routes(policy, fabric, switch.name, hops[switch.name]),
            *forwarding.ports_of(fabric, switch.name),
            *classification.faults(policy),
            *classification.punts(policy),
            *classification.classes(policy),
            *classification.path_modes(policy),
            *judgement.rows(policy, limits, rate, target),
        ]
        states[switch.name] = DesiredState(
            switch=switch.name,
            target=target,
            entities=tuple(entities),
            queues=tuple(
                limits[class_].on(target, port.number, class_, policy.packet_bytes)
                for port in fabric.ports(switch.name)
                for class_ in range(CLASSES)
            ),
            # BMv2 has no shaper of its own: the runner puts the links' rates into the kernel.
            rates=tuple(
                PortRate(port.number, port.rate_bps or 0) for port in fabric.ports(switch.name) if target != "bmv2"
            ),
        )
    return states
