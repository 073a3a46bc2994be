# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The address rule: everything is routed, so a host's address says behind which switch it stands.

Host n (from 1) behind the switch with device id s (from 1) has

    IPv4  10.<s / 256>.<s % 256>.<n>/32        default route via 169.254.1.1, on-link
    IPv6  fd00:0:0:<s in hex>::<n in hex>/128  default route via fe80::1, on-link
    MAC   02:00:<the four bytes of the rule's IPv4 address>

and the switch answers for both gateways with one MAC, 02:00:00:<s / 256>:fe:<s % 256>.
Hosts share no subnet, so they never resolve one another; the gateway is a static neighbour.
"""

from __future__ import annotations

GATEWAY_IPV4 = "169.254.1.1"
GATEWAY_IPV6 = "fe80::1"
MAX_DEVICE_ID = 0xFFFF
MAX_HOSTS_PER_SWITCH = 62


def ipv4_of(device_id: int, number: int) -> str:
    """Return the IPv4 address of host `number` behind switch `device_id`."""
    return f"10.{device_id >> 8}.{device_id & 255}.{number}"


def ipv6_of(device_id: int, number: int) -> str:
    """Return the IPv6 address of host `number` behind switch `device_id`, in its shortest form."""
    return f"fd00:0:0:{device_id:x}::{number:x}"


def mac_of(device_id: int, number: int) -> str:
    """Return the MAC address of host `number` behind switch `device_id`."""
    return f"02:00:0a:{device_id >> 8:02x}:{device_id & 255:02x}:{number:02x}"


def gateway_mac_of(device_id: int) -> str:
    """Return the MAC address with which switch `device_id` routes."""
    return f"02:00:00:{device_id >> 8:02x}:fe:{device_id & 255:02x}"
