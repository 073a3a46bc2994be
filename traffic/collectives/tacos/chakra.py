# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Schedules as Chakra execution traces (MLCommons, et_def.proto): a file for each NPU, for ASTRA-sim and its kin.

A file is a sequence of messages, each after its length: a GlobalMetadata, then Nodes. Of every send the source has a
COMM_SEND_NODE and the destination a COMM_RECV_NODE of the same tag, and, where it reduces, a COMP_NODE that adds.
Data dependencies say what a chunk is made of; control dependencies keep a link's order, and a chunk unharmed until it
has been sent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from traffic.collectives.tacos.files import whole
from traffic.collectives.tacos.play import dependencies
from traffic.collectives.tacos.schedule import Schedule

COMP, SEND, RECEIVE = 4, 5, 6
"""NodeType of et_def.proto."""
INT32, INT64, UINT64, BOOL = 7, 9, 13, 27
"""Fields of AttributeProto; readers look for a name in one of them only (Chakra's et_feeder_node.cpp)."""
VERSION = "0.0.4"


def write_chakra(schedule: Schedule, prefix: Path) -> list[Path]:
    """Write PREFIX.0.et, PREFIX.1.et, ... and return their names. Raises UsageError where that fails."""
    files = []
    for npu, nodes in enumerate(traces(schedule)):
        file = prefix.with_name(f"{prefix.name}.{npu}.et")
        parts = (_text(1, VERSION), *nodes)
        with whole(file) as draft:
            draft.write_bytes(b"".join(_varint(len(part)) + part for part in parts))
        files.append(file)
    return files


def traces(schedule: Schedule) -> list[list[bytes]]:
    """Return each NPU's nodes, encoded, in the order of time.

    Send i is node 3 i at its source, its receipt node 3 i + 1 at its destination, the sum node 3 i + 2.
    """
    network, bytes_each = schedule.network, max(1, round(schedule.demand.chunk_bytes))
    made_of: defaultdict[int, list[int]] = defaultdict(list)
    for arrival, send in zip(*(part.tolist() for part in dependencies(network, schedule)), strict=True):
        made_of[send].append(3 * arrival + (2 if schedule.reduces[arrival] else 1))
    files: list[list[bytes]] = [[] for _ in range(network.npus)]
    last: dict[tuple[int, str], int] = {}
    reads: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    sums: dict[tuple[int, int], int] = {}
    source, destination = schedule.source.tolist(), schedule.destination.tolist()
    for i, begins in _moments(schedule):
        chunk, link, a, b = int(schedule.chunk[i]), int(schedule.link[i]), source[i], destination[i]
        pair = (
            _number("comm_src", INT32, a) + _number("comm_dst", INT32, b) + _number("comm_tag", INT32, i & 0x7FFFFFFF)
        )
        pair += _number("comm_size", INT64, bytes_each) + _number("is_cpu_op", BOOL, 0)
        if begins:
            order = [last[link, "send"]] if (link, "send") in last else []
            files[a].append(_node(3 * i, f"send chunk {chunk} to {b}", SEND, order, made_of[i], pair))
            last[link, "send"] = 3 * i
            reads[a, chunk].append(3 * i)
            continue
        order = [last[link, "receive"]] if (link, "receive") in last else []
        if not schedule.reduces[i]:
            order += reads.pop((b, chunk), [])
        files[b].append(_node(3 * i + 1, f"receive chunk {chunk} from {a}", RECEIVE, order, [], pair))
        last[link, "receive"] = 3 * i + 1
        if schedule.reduces[i]:
            # Sums of one chunk are added one after the other, and not to what is still being sent.
            order = reads.pop((b, chunk), []) + [sums[part] for part in [(b, chunk)] if part in sums]
            work = _number("num_ops", INT64, max(1, bytes_each // 4)) + _number("is_cpu_op", BOOL, 0)
            work += _number("tensor_size", UINT64, bytes_each)
            files[b].append(_node(3 * i + 2, f"add chunk {chunk}", COMP, order, [3 * i + 1], work))
            sums[b, chunk] = 3 * i + 2
    return files


def _moments(schedule: Schedule) -> Iterator[tuple[int, bool]]:
    """Yield every send's begin (True) and end in the order of time, ends before begins."""
    count = len(schedule.chunk)
    times = np.concatenate((schedule.end, schedule.start))
    for at in np.lexsort((np.arange(2 * count) >= count, times)).tolist():
        yield at % count, at >= count


def _node(number: int, name: str, kind: int, after: list[int], needs: list[int], attributes: bytes) -> bytes:
    packed = b"".join(
        _message(field, b"".join(map(_varint, sorted(set(ids))))) for field, ids in ((4, after), (5, needs)) if ids
    )
    return _uint(1, number) + _text(2, name) + _uint(3, kind) + packed + attributes


def _number(name: str, field: int, value: int) -> bytes:
    return _message(10, _text(1, name) + _uint(field, value))


def _uint(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _text(field: int, value: str) -> bytes:
    return _message(field, value.encode())


def _message(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
