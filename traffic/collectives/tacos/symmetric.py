# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The symmetric engine: one source's chunk is scheduled, every other chunk is its translation (symmetric.c)."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from topologies.errors import FailureError, UsageError
from traffic.collectives.tacos.compact import Translated, translate
from traffic.collectives.tacos.compiled import packed, pointer, symmetric
from traffic.collectives.tacos.network import Network
from traffic.collectives.tacos.schedule import Collective, Demand, Ticks, ticks

KINDS = (Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.ALL_REDUCE)
RULES = {"first": 0, "random": 1, "yield": 2, "patient": 3, "scarce": 4}


def fits(network: Network, demand: Demand) -> bool:
    """Tell whether the engine can serve this demand."""
    return (
        network.shape is not None
        and network.ports is None
        and demand.collective in KINDS
        and demand.group == tuple(range(network.npus))
        and demand.chunks % network.npus == 0
    )


def synthesise_symmetric(
    network: Network, demand: Demand, *, seed: int = 0, restarts: int = 16, budget: float | None = None
) -> Translated:
    """Return the best of seeded restarts; with a `budget` in seconds, as many restarts as fit into it.

    Raises UsageError where the network or the demand is not symmetric.
    """
    if not fits(network, demand):
        raise UsageError(
            f"{network.name} is no product of rings, full and switch dimensions, or the group is not whole"
        )
    shape = network.shape
    assert shape is not None
    links = network.out_links[network.first_out[0] : network.first_out[1]]
    duration = packed(ticks(network, demand.chunk_bytes)[links], np.int64)
    offsets = network.destination[links].astype(np.int64)
    one = translate(shape, np.arange(network.npus)[None, :], offsets[:, None])
    parts = demand.chunks // network.npus
    places = demand.chunks
    neighbour = packed(np.concatenate([one + part * network.npus for part in range(parts)], axis=1), np.uint32)
    first = np.arange(len(links) + 1, dtype=np.uint32)
    ffi, library = symmetric()
    target, class_of = np.zeros(places, np.uint32), np.zeros(places, np.uint32)
    start = np.zeros(places, np.int64)

    def p(array: npt.NDArray[Any]) -> Any:
        return pointer(ffi, array)

    best: tuple[int, str, npt.NDArray[np.uint32], npt.NDArray[np.uint32], Ticks] | None = None
    ideal = _ideal(places - parts, duration)
    rules = ["first", "random"] if len(np.unique(duration)) < 2 else ["scarce", "patient", "yield"]
    if places > 4096:
        rules = ["first"]
    deadline = None if budget is None else time.process_time() + budget
    turn = 0
    while turn < restarts if deadline is None else time.process_time() < deadline or turn == 0:
        rule = rules[turn % len(rules)]
        end = library.symmetric(
            places,
            parts,
            len(links),
            len(links),
            p(first),
            p(neighbour),
            p(duration),
            seed + turn,
            RULES[rule],
            p(target),
            p(class_of),
            p(start),
        )
        turn += 1
        if end == -1:
            raise FailureError("not enough memory for the symmetric engine")
        if end >= 0 and (best is None or end < best[0]):
            best = (end, rule, target.copy(), class_of.copy(), start.copy())
            if end <= ideal:
                break
    if best is None:
        raise UsageError(f"{network.name}: NPU 0 does not reach every NPU")
    count = places - parts
    _, rule, target, class_of, start = best
    used = class_of[:count].astype(np.int64)
    return Translated(
        network,
        demand,
        f"symmetric ({rule})",
        target[:count].astype(np.int64) // network.npus,
        target[:count].astype(np.int64) % network.npus,
        offsets[used],
        start[:count],
        duration[used],
    )


def _ideal(sends: int, duration: Ticks) -> int:
    """Return the least time in which these links bring so many chunks, start to end, in ticks."""
    low, high = 0, int(duration.max(initial=1)) * (sends + 1)
    while low < high:
        middle = (low + high) // 2
        if int((middle // duration).sum()) >= sends:
            high = middle
        else:
            low = middle + 1
    return low
