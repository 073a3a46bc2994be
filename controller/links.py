# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Which links of a running fabric carry nothing at this moment, as far as this machine can see."""

from __future__ import annotations

import socket

from topologies.model import Fabric


def failed_links(fabric: Fabric) -> frozenset[frozenset[str]]:
    """Return the links with an interface that is down, each as its two ends.

    A link whose interfaces are not of this machine's network namespace counts as whole: nothing is known of it.
    """
    from topologies import kernel  # here, so that verbs that need no links do not wait for the netlink library

    here = {name for _, name in socket.if_nameindex()}
    ends = {
        link.ends: [fabric.interface(end.node, end.port) for end in (link.a, link.b) if not fabric.is_host(end.node)]
        for link in fabric.links
    }
    up = kernel.interfaces_with_carrier(name for names in ends.values() for name in names if name in here)
    return frozenset(link for link, names in ends.items() if any(name in here and name not in up for name in names))
