# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Schedules as MSCCL XML: one thread block per link end, steps in the order of the schedule.

The runtime takes so much: BLOCKS of a channel of a GPU, STEPS of a block.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from xml.etree import ElementTree

from topologies.errors import UsageError
from traffic.collectives.tacos.network import Network
from traffic.collectives.tacos.schedule import Collective, Schedule

BLOCKS, STEPS = 32, 256
COLLECTIVES = {
    Collective.ALL_GATHER: "allgather",
    Collective.ALL_REDUCE: "allreduce",
    Collective.REDUCE_SCATTER: "reduce_scatter",
}


@dataclass
class _Block:
    """A thread block: sends over one link, or receives from one."""

    gpu: int
    number: int
    send: int
    receive: int
    channel: int
    steps: list[dict[str, str]] = field(default_factory=list)


def msccl(schedule: Schedule, *, minimum: int = 0, maximum: int = 0) -> str:
    """Return the XML of an in-place schedule over all NPUs; sizes in bytes for which it is meant, 0: any.

    A step that needs one of another block names it as its dependency (`depid`, `deps`); where it needs several, steps
    that do nothing (`nop`) name the rest. Raises UsageError for collectives and groups that MSCCL does not name.
    """
    demand, network = schedule.demand, schedule.network
    if demand.collective not in COLLECTIVES:
        raise UsageError(f"MSCCL XML knows {', '.join(c.value for c in COLLECTIVES)}, not {demand.collective.value}")
    if demand.group != tuple(range(network.npus)):
        raise UsageError("MSCCL XML is for all NPUs, not for a process group")
    if not len(schedule.chunk):
        raise UsageError("MSCCL XML wants a schedule that sends something")
    blocks: dict[tuple[str, int], _Block] = {}
    channel = channels(network)
    per_gpu: defaultdict[int, list[_Block]] = defaultdict(list)
    made: defaultdict[tuple[int, int], list[tuple[_Block, int]]] = defaultdict(list)
    read: defaultdict[tuple[int, int], list[tuple[_Block, int]]] = defaultdict(list)

    def block(side: str, link: int) -> _Block:
        if (side, link) not in blocks:
            a, b = int(network.source[link]), int(network.destination[link])
            gpu, send, receive = (a, b, -1) if side == "s" else (b, -1, a)
            blocks[side, link] = _Block(gpu, len(per_gpu[gpu]), send, receive, channel[link])
            per_gpu[gpu].append(blocks[side, link])
        return blocks[side, link]

    def step(into: _Block, kind: str, chunk: int, needs: list[tuple[_Block, int]]) -> int:
        latest: dict[int, tuple[_Block, int]] = {}
        for other, at in needs:
            if other is not into and (other.number not in latest or latest[other.number][1] < at):
                latest[other.number] = (other, at)
        waits = list(latest.values())
        for other, at in waits[:-1]:
            _append(into, "nop", 0, other, at)
        last = waits[-1] if waits else None
        for other, at in waits:
            other.steps[at]["hasdep"] = "1"
        return _append(into, kind, chunk, *(last or (None, -1)))

    # Starts and ends in the order of time: an arrival counts for what starts when it ends.
    moments = [(int(t), 1, i) for i, t in enumerate(schedule.start)] + [
        (int(t), 0, i) for i, t in enumerate(schedule.end)
    ]
    source, destination = schedule.source.tolist(), schedule.destination.tolist()
    for _, begins, i in sorted(moments):
        chunk, link, a, b = int(schedule.chunk[i]), int(schedule.link[i]), source[i], destination[i]
        if begins:
            into = block("s", link)
            read[a, chunk].append((into, step(into, "s", chunk, made[a, chunk])))
        else:
            into = block("r", link)
            kind = "rrc" if schedule.reduces[i] else "r"
            made[b, chunk] = [(into, step(into, kind, chunk, made[b, chunk] + read[b, chunk]))]
            read[b, chunk] = []
    if (longest := max(len(one.steps) for one in blocks.values())) > STEPS:
        raise UsageError(f"MSCCL runs {STEPS} steps of a link, and this schedule has {longest}: use fewer chunks")
    busiest, most = Counter((one.gpu, one.channel) for one in blocks.values()).most_common(1)[0]
    if most > BLOCKS:
        raise UsageError(f"MSCCL runs {BLOCKS} blocks on a GPU, and {busiest[0]} would have {most}: one a link's end")
    root = ElementTree.Element(
        "algo",
        name=f"gradlane_{network.name}",
        proto="Simple",
        nchannels=str(max(channel) + 1),
        nchunksperloop=str(demand.chunks),
        ngpus=str(network.npus),
        coll=COLLECTIVES[demand.collective],
        inplace="1",
        outofplace="0",
        minBytes=str(minimum),
        maxBytes=str(maximum),
    )
    each = demand.chunks // network.npus
    reduction = demand.collective is Collective.ALL_REDUCE
    for gpu in range(network.npus):
        ins = demand.chunks if demand.collective is not Collective.ALL_GATHER else each
        outs = demand.chunks if demand.collective is not Collective.REDUCE_SCATTER else each
        inner = ElementTree.SubElement(
            root, "gpu", id=str(gpu), i_chunks=str(ins), o_chunks=str(0 if reduction else outs), s_chunks="0"
        )
        for made_block in per_gpu[gpu]:
            element = ElementTree.SubElement(
                inner,
                "tb",
                id=str(made_block.number),
                send=str(made_block.send),
                recv=str(made_block.receive),
                chan=str(made_block.channel),
            )
            buffer = "o" if demand.collective is Collective.ALL_GATHER else "i"
            for number, values in enumerate(made_block.steps):
                names = {"srcbuf": buffer, "dstbuf": buffer, **values}
                ElementTree.SubElement(element, "step", {"s": str(number), **names})
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode") + "\n"


def channels(network: Network) -> list[int]:
    """Return for each link how many others before it join the same two NPUs: a block's peer is unique in a channel."""
    seen: Counter[tuple[int, int]] = Counter()
    numbers = []
    for pair in zip(network.source.tolist(), network.destination.tolist(), strict=True):
        numbers.append(seen[pair])
        seen[pair] += 1
    return numbers


def _append(into: _Block, kind: str, chunk: int, other: _Block | None, at: int) -> int:
    into.steps.append(
        {
            "type": kind,
            "srcoff": str(chunk),
            "dstoff": str(chunk),
            "cnt": "0" if kind == "nop" else "1",
            "depid": "-1" if other is None else str(other.number),
            "deps": str(at),
            "hasdep": "0",
        }
    )
    return len(into.steps) - 1
