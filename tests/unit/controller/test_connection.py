# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Connections to switches that take their time, and to none."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from controller.p4rt.client import Connection
from controller.p4rt.errors import SwitchFailure
from tests.unit.controller.fake_switch import FakeSwitch

HANDSHAKE_SECONDS = 0.6


def copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)


@contextmanager
def slow_relay(port: int) -> Iterator[int]:
    """Accept a connection at once, and pass bytes to `port` and back only a while later, as a busy switch does."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(("127.0.0.1", port)) as far:

        def relay() -> None:
            near, _ = listener.accept()
            with near:
                threading.Event().wait(HANDSHAKE_SECONDS)
                back = threading.Thread(target=copy, args=(far, near), daemon=True)
                back.start()
                copy(near, far)
                far.shutdown(socket.SHUT_RDWR)
                back.join()

        thread = threading.Thread(target=relay, daemon=True)
        thread.start()
        yield int(listener.getsockname()[1])
        thread.join(60)


def test_a_switch_that_is_slow_to_shake_hands_is_waited_for() -> None:
    with (
        FakeSwitch() as switch,
        slow_relay(switch.port) as port,
        Connection("s1", f"127.0.0.1:{port}", 1, deadline=60.0) as connection,
    ):
        assert connection.api_version()


def test_where_nobody_listens_is_told_at_once() -> None:
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{reserved.getsockname()[1]}"
        with Connection("s1", address, 1, deadline=60.0) as connection, pytest.raises(SwitchFailure) as caught:
            connection.api_version()
    assert str(caught.value) == f"s1: no switch answers at {address}"
