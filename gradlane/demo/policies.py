# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The policies of the demo: a plain network, and Gradlane's steps one at a time.

Background is a second job, in the same classes as the first under every policy, layer by layer: no method gains by
setting it back.
"""

from __future__ import annotations

from typing import Any

from controller.policy import Policy
from traffic.exchanges.background import DSCP_LAYERS, FIRST_DSCP

FRONT_CLASS = 6
FIRST_LAYERS = {6: 0, 5: 1, 4: 2, 3: 4, 2: 8, 1: 16}
"""By class: the first layer in it."""
LAST_LAYER = 65535
RANGES = [
    {"layers": f"{first}-{LAST_LAYER if number == 1 else FIRST_LAYERS[number - 1] - 1}", "class": number}
    for number, first in FIRST_LAYERS.items()
]
# Packets in the queue above which an eighth of a tensor's packets is dropped, the least important first. A burst of
# each of four senders is no congestion.
FRONT_DEPTHS = (16, 24, 36, 52, 72, 100)
BACK_DEPTHS = (24, 36, 52, 72, 100, 160)


def fifo(queue_packets: int) -> Policy:
    """Return the plain network: one class, drop-tail, a path for each flow."""
    return Policy.model_validate(
        {
            "name": f"fifo-{queue_packets}",
            "classes": {"control": 0, "trimmed": 0, "data": "0", "ordinary": 0},
            "queues": {"default": {"packets": queue_packets, "full": "off"}},
            "paths": {"default": "flow_hash", "pinned": True},
        }
    )


def gradlane(queue_packets: int, *, priority: bool = True, drop: bool = True) -> Policy:
    """Return Gradlane's policy: every packet takes a path of its own; classes by layer and selective drop, if asked.

    Queues are as deep as the plain network's, so that background meets the same.
    """
    values: dict[str, Any] = {
        "name": "-".join(["spray", *["priority"] * priority, *["drop"] * drop]),
        "classes": {
            "control": 7,
            "trimmed": 7,
            "data": "1-6",
            "ordinary": 0,
            "dscp": {FIRST_DSCP - layer: _class(layer) if priority else FRONT_CLASS for layer in range(DSCP_LAYERS)},
        },
        "jobs": {"any": {"ranges": RANGES} if priority else {"class": FRONT_CLASS}},
        "queues": {"default": {"packets": queue_packets, "full": "off"}},
        "paths": {
            "default": "flow_hash",
            "per_class": [{"classes": "1-7", "mode": "shallower_of_two"}],
            "pinned": True,
        },
    }
    if drop:
        values["judgement"] = [
            {"classes": classes, "rows": _rows(depths)}
            for classes, depths in (("5-6", FRONT_DEPTHS), ("1-4", BACK_DEPTHS))
        ]
    return Policy.model_validate(values)


def _class(layer: int) -> int:
    return min(number for number, first in FIRST_LAYERS.items() if layer >= first)


def _rows(depths: tuple[int, ...]) -> list[dict[str, Any]]:
    return [{"bands": band, "above": f"{depth} packets", "action": "drop"} for band, depth in enumerate(depths)]
