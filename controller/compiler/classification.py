# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Classes, path modes, parser faults and punted packets: the entries that are equal on every switch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from controller.p4rt.entities import Between, Call, Entity, Exact, FieldMatch, Masked, TableEntry
from controller.policy import ANY_JOB, LAST_LAYER, Fault, Policy
from controller.quantities import CLASSES

_TRIMMED_TYPE: Final = Masked(2, 0xF)
_CONTROL_TYPES: Final = (Masked(3, 0xF), Masked(4, 0xC), Masked(8, 0xF))  # START; FINISH..ACK; REPORT
_FAULT_CODES: Final[dict[Fault, int]] = {
    "truncated_ipv4": 1,
    "truncated_ipv6": 2,
    "truncated_l4": 3,
    "truncated_gradient": 4,
    "unknown_version": 5,
    "unknown_type": 6,
    "bad_length": 7,
    "bad_ipv4": 8,
    "truncated_other": 9,
    "bad_ipv6": 10,
}
_PUNT_ACTIONS: Final = {"send": "send_to_cpu", "copy": "copy_to_cpu", "drop": "drop_by_policy"}


def classes(policy: Policy) -> Iterator[Entity]:
    """Yield which class carries what: control above all, then named jobs, then every other job, then the rest."""
    classes = policy.classes

    def gradient(class_: int, priority: int, **match: FieldMatch) -> TableEntry:
        return TableEntry("gradient_class", tuple(match.items()), Call("set_class", (("class", class_),)), priority)

    for type_ in _CONTROL_TYPES:
        yield gradient(classes.control, 4, type=type_)
    yield gradient(classes.trimmed, 4, type=_TRIMMED_TYPE)
    for name, job in policy.jobs.items():
        for low, high, class_ in job.layer_classes(classes.data):
            match: dict[str, FieldMatch] = {}
            if name != ANY_JOB:
                match["job"] = Masked(policy.job_id(name), 0xFFFF)
            if (low, high) != (0, LAST_LAYER):
                match["layer"] = Between(low, high)
            yield gradient(class_, 2 if name == ANY_JOB else 3, **match)
    if classes.ordinary:
        yield gradient(classes.ordinary, 1)
    for dscp in range(64):
        class_ = classes.dscp.get(dscp, classes.ordinary)
        if class_:
            yield TableEntry("dscp_class", (("dscp", Exact(dscp)),), Call("set_class", (("class", class_),)))


def path_modes(policy: Policy) -> Iterator[Entity]:
    """Yield how each class chooses among equal paths."""
    for class_ in range(CLASSES):
        yield TableEntry("path_mode", (("class", Exact(class_)),), Call(policy.paths.of_class(class_)))


def faults(policy: Policy) -> Iterator[Entity]:
    """Yield the parser faults that are dropped; the program forwards the others as ordinary traffic."""
    faults = policy.parser_faults
    for name, code in _FAULT_CODES.items():
        if faults.by_fault.get(name, faults.default) == "drop":
            yield TableEntry("parser_fault", (("fault", Exact(code)),), Call("drop_malformed"))


def punts(policy: Policy) -> Iterator[Entity]:
    """Yield what ordinary traffic the controller receives or forbids; the rule written first wins."""
    for number, punt in enumerate(policy.punt):
        match: list[tuple[str, FieldMatch]] = []
        if punt.ether_type is not None:
            match.append(("ether_type", Masked(punt.ether_type, 0xFFFF)))
        if punt.protocol is not None:
            match.append(("protocol", Masked(punt.protocol, 0xFF)))
        yield TableEntry("punt", tuple(match), Call(_PUNT_ACTIONS[punt.action]), len(policy.punt) - number)
