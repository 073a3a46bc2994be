# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Which way a switch's queues and rates are set, by what runs it."""

from __future__ import annotations

import shutil

from controller import thrift
from controller.compiler import DesiredState
from controller.control import ControlChannel
from controller.device import SettingsChannel
from controller.p4rt.client import Connection
from topologies.state import RunningFabric


def settings_channel(
    running: RunningFabric, name: str, connection: Connection, former: DesiredState | None
) -> SettingsChannel | None:
    """Return the way to a switch's settings; None where there is none. `former` is what the switch was given last."""
    if running.target == "softswitch":
        return ControlChannel(connection)
    port = running.switches[name].thrift_port
    if port is None:
        return None
    return thrift.ThriftChannel(name, port, former.queues if former else (), connection.deadline)


def notices(running: RunningFabric) -> tuple[str, ...]:
    """Return what the user must know of settings that cannot be made."""
    if running.target == "bmv2" and shutil.which(thrift.CLIENT) is None:
        return (thrift.MISSING,)
    return ()
