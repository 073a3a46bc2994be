# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The policies of the demo: a plain network, and Gradlane's steps one at a time.

Background stands in the class of the job's front layer under every policy, so no method gains by setting it back.
"""

from __future__ import annotations

from typing import Any

from controller.policy import Policy
from traffic.exchanges.background import BACKGROUND_JOB, DSCP

FRONT_CLASS = 6
RANGES = [
    {"layers": 0, "class": 6},
    {"layers": 1, "class": 5},
    {"layers": "2-3", "class": 4},
    {"layers": "4-7", "class": 3},
    {"layers": "8-15", "class": 2},
    {"layers": "16-65535", "class": 1},
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
        "classes": {"control": 7, "trimmed": 7, "data": "1-6", "ordinary": 0, "dscp": {DSCP: FRONT_CLASS}},
        "jobs": {
            "any": {"ranges": RANGES} if priority else {"class": FRONT_CLASS},
            "background": {"id": BACKGROUND_JOB, "class": FRONT_CLASS},
        },
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


def _rows(depths: tuple[int, ...]) -> list[dict[str, Any]]:
    return [{"bands": band, "above": f"{depth} packets", "action": "drop"} for band, depth in enumerate(depths)]
