# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Random and damaged frames through gradlane: none is lost without an account, whatever it is."""

from __future__ import annotations

from random import Random

import pytest

from tests.pipeline import packets, policies
from tests.pipeline.bench import Bench
from tests.pipeline.targets import PORTS

LONGEST = 1600  # beyond it a frame is refused as oversize, which is counted too


def damaged(random: Random, frame: bytes) -> bytes:
    """Flip, cut, insert, repeat or replace at random."""
    out = bytearray(frame)
    for _ in range(random.randrange(1, 4)):
        place = random.randrange(len(out)) if out else 0
        match random.randrange(6):
            case 0:
                out[place : place + 1] = bytes([random.getrandbits(8)])
            case 1:
                del out[place:]
            case 2:
                out[place:place] = random.randbytes(random.randrange(1, 40))
            case 3:
                del out[place : place + random.randrange(1, 8)]
            case 4 if out:
                out[place] ^= 1 << random.randrange(8)
            case _:
                out += random.randbytes(random.randrange(64))
    return bytes(out[:LONGEST])


def frames(random: Random) -> list[bytes]:
    """Return frames of every kind, in one and in another IP version, tagged or not."""
    gradients = [
        packets.gradient(packets.Gradient(type=kind, importance=random.randrange(256), layer=random.randrange(64)))
        for kind in range(10)
    ]
    plain = [packets.Frame(random.randbytes(40), protocol=protocol) for protocol in (1, packets.TCP, packets.UDP)]
    everything = [frame.but(version=version, vlan=tag) for frame in gradients + plain
                  for version in (4, 6) for tag in (None, 7)]  # fmt: skip
    return [*map(bytes, everything), packets.arp_request(1), b""]


@pytest.mark.parametrize("count", [5_000, pytest.param(1_000_000, marks=[pytest.mark.long, pytest.mark.timeout(3000)])])
def test_every_damaged_frame_is_accounted_for(softswitch_bench: Bench, count: int) -> None:
    random = Random(count)
    softswitch_bench.target.write(policies.ROUTED)
    switch, whole, left = softswitch_bench.target.switch, frames(random), 0
    for _ in range(count):
        kind = random.random()
        frame = random.choice(whole) if kind < 0.1 else damaged(random, random.choice(whole))
        if kind > 0.95:
            frame = random.randbytes(random.randrange(200))
        left += len(switch.inject(random.choice(PORTS), frame)) + len(switch.packets_in())
    account = switch.account()
    assert account.received == count and account.queued == 0
    assert account.received + account.copied == account.sent + account.dropped
    assert account.sent == left and account.dropped == sum(switch.drops().values())
    assert switch.drops()["no_buffer"] == 0  # a frame's memory comes back, whatever became of it
