# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The same protocol over UDP sockets on the loopback interface."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from tests.unit.transport.world import gradient
from topologies.errors import FailureError
from traffic.packer import TensorId, pack
from traffic.transport.control import Control, Feedback, Opening, Status, key_of
from traffic.transport.endpoint import Peer
from traffic.transport.errors import Cancelled, PeerLost
from traffic.transport.receiver import Expectation
from traffic.transport.settings import Settings
from traffic.transport.sockets import SocketEndpoint
from traffic.transport.timing import SECOND
from traffic.wire import GradientType, version_type

LONG = 60
CE = 3


@contextmanager
def two(settings: Settings | None = None, address: str = "127.0.0.1") -> Iterator[list[tuple[SocketEndpoint, Peer]]]:
    """Two endpoints that know each other."""
    with SocketEndpoint(address, 0, settings) as one, SocketEndpoint(address, 0, settings) as other:
        yield [(one, one.peer(*other.address)), (other, other.peer(*one.address))]


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
@pytest.mark.parametrize("segment", [1, 0])
def test_messages_of_many_sizes_cross_both_ways(address: str, segment: int) -> None:
    with two(address=address) as ends:
        results = []
        for side, (end, peer) in enumerate(ends):
            end._segment[0] = segment
            other, back = ends[1 - side]
            for number, size in enumerate((1, 359, 360, 361, 5761, 200_001)):
                ids, values = TensorId(rank=side, tensor=number), gradient(size, number)
                receiving = other.receive(back, ids, Expectation(values=size))
                results.append((values, receiving.result, end.send(peer, values, ids)))
        for values, received, sent in results:
            np.testing.assert_array_equal(received.result(LONG).values, values)
            assert not len(sent.result(LONG).missing)


def test_packets_in_vain_are_counted_by_reason() -> None:
    with two() as ((one, to_other), (other, to_one)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.sendto(b"no header", other.address)
        for _ in range(2):
            stranger.sendto(bytes([version_type(GradientType.ACK)]) + bytes(60), other.address)
        receiving = other.receive(to_one, TensorId())
        one.send(to_other, gradient(1000), TensorId()).result(LONG)
        receiving.result.result(LONG)
        assert (one.ignored(), other.ignored()) == ({}, {"malformed": 1, "foreign": 2})


def test_a_job_with_a_key_and_values_placed_where_the_user_wants_them() -> None:
    values = gradient(100_000)
    out = np.zeros_like(values)
    with two(Settings(key=bytes(32))) as ((one, to_other), (other, to_one)):
        receiving = other.receive(to_one, TensorId(), Expectation(out=out))
        one.send(to_other, values, TensorId()).result(LONG)
        assert receiving.result.result(LONG).values is out
    np.testing.assert_array_equal(out, values)


def test_marks_of_congestion_are_counted_and_told_to_the_sender() -> None:
    values, ids = gradient(3600), TensorId()
    with SocketEndpoint("127.0.0.1", 0) as end, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plain:
        plain.bind(("127.0.0.1", 0))
        plain.settimeout(LONG)
        peer = end.peer(*plain.getsockname())
        receiving = end.receive(peer, ids)
        packets = pack(values, ids)
        body = Opening(values.size, 0, 0, 0, 10, 0, 0, 360).pack()
        plain.sendto(Control(GradientType.START, key_of(ids), 0, 1, 1, 99, 0, 0, body).pack(), end.address)
        answer = Control.parse(plain.recv(2048))
        assert Feedback.parse(answer.body).status is Status.FLOWING
        for number, row in enumerate(packets.rows()):
            plain.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, CE if number < 4 else 2)
            plain.sendto(row, end.address)
        assert receiving.result.result(LONG).marked == 4


def test_what_strangers_send_is_ignored() -> None:
    with two() as ((one, to_other), (other, to_one)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        receiving = other.receive(to_one, TensorId())
        for packet in (b"", b"x", bytes(2000), bytes([0x13]) + bytes(80), bytes([0x11]) + bytes(1471)):
            stranger.sendto(packet, other.address)
        values = gradient(1000)
        one.send(to_other, values, TensorId()).result(LONG)
        np.testing.assert_array_equal(receiving.result.result(LONG).values, values)
        assert other.endpoint.counts.foreign == 2
        assert other.endpoint.core.struct.malformed == 3


def test_a_peer_that_went_away_is_an_error_and_no_hang() -> None:
    settings = Settings(patience=SECOND // 2)
    with SocketEndpoint("127.0.0.1", 0, settings) as one:
        other = SocketEndpoint("127.0.0.1", 0, settings)
        peer = one.peer(*other.address)
        other.close()
        sending, receiving = one.send(peer, gradient(100_000), TensorId()), one.receive(peer, TensorId(tensor=1))
        for result in (sending, receiving.result):
            with pytest.raises(PeerLost):
                result.result(LONG)


def test_closing_ends_the_thread_and_cancels_what_runs() -> None:
    before = set(threading.enumerate())
    end = SocketEndpoint("127.0.0.1", 0)
    waiting = end.receive(end.peer("127.0.0.1", 9), TensorId()).result
    end.close()
    end.close()
    assert set(threading.enumerate()) <= before
    with pytest.raises(Cancelled):
        waiting.result(0)
    with pytest.raises(Cancelled):
        end.peer("127.0.0.1", 10)


def test_a_port_in_use_is_told_in_one_line() -> None:
    with SocketEndpoint("127.0.0.1", 0) as end, pytest.raises(FailureError, match="cannot use UDP port"):
        SocketEndpoint(*end.address)


def test_an_address_that_is_none_is_the_users_mistake() -> None:
    with SocketEndpoint("127.0.0.1", 0) as end, pytest.raises(ValueError, match="no IPv4 address"):
        end.peer("nowhere")
