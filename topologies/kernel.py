# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What the fabric asks of the kernel: veth pairs, hosts' addresses and routes, shapers, link state.

All of it goes through netlink in this process; a command for each interface would cost seconds on a large fabric.
Every interface of a run is in one interface group, so that one request deletes them all and no other.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from topologies import addresses
from topologies.errors import FailureError
from topologies.model import Fabric, Host, Link

_CLONE_NEWNET = 0x40000000
_SIOCETHTOOL = 0x8946
_SIOCGIFFLAGS = 0x8913
_IFF_UP = 0x1
_IFF_RUNNING = 0x40
_ETHTOOL_STXCSUM = 0x17
_NUD_PERMANENT = 0x80
_RTNH_F_ONLINK = 4
_IFA_F_NODAD = 2
_ADDRESS_MODE_NONE = 1  # no link-local address by itself, hence no solicitations

_SHAPER = 0x10000  # tc's handle 1:, whose only class is 1:1
_BURST_SECONDS = 0.002
_SMALLEST_BURST = 2 * 1514
_NIC_QUEUE_BYTES = 4 << 20
_FASTEST_SHAPER = (1 << 32) - 1  # bytes/s: tc's rate has 32 bits

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Placement:
    """Where a fabric stands: the group of its interfaces, and the pid in whose namespace each host lives."""

    group: int
    host_pids: Mapping[str, int]


@contextmanager
def namespace(pid: int) -> Iterator[None]:
    """Put this thread into the network namespace of a process; sockets opened meanwhile stay there."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        target = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _enter(target)
        finally:
            os.close(target)
        try:
            yield
        finally:
            _enter(home)
    finally:
        os.close(home)


def interface_names() -> set[str]:
    """Return the names of the interfaces in this namespace."""
    return {name for _, name in socket.if_nameindex()}


def create_links(fabric: Fabric, placement: Placement) -> None:
    """Create the veth pairs of all links, down; hosts' ends in their namespaces. Raises FailureError on a clash."""
    with IPRoute() as netlink:
        for link in fabric.links:
            ends = [_end(fabric, link, node, placement) for node in (link.a.node, link.b.node)]
            try:
                netlink.link("add", kind="veth", **ends[0], peer=ends[1])
            except NetlinkError as error:
                name = ends[0]["ifname"]
                reason = "it exists already" if error.code == errno.EEXIST else os.strerror(error.code)
                raise FailureError(f"cannot create link {link.name} (interface {name}): {reason}") from None


def raise_switch_ports(fabric: Fabric) -> None:
    """Silence the kernel on every switch port (no IPv6, no ARP answers), then set the port up."""
    names = [port.interface for switch in fabric.switches for port in fabric.ports(switch.name)]
    for name in names:
        _sysctl(f"ipv6/conf/{name}/disable_ipv6", 1)
        _sysctl(f"ipv4/conf/{name}/arp_ignore", 8)  # answer for no address
    set_links_up(names, True)


def set_links_up(names: Iterable[str], up: bool) -> None:
    """Set interfaces of this namespace up or down."""
    with IPRoute() as netlink:
        for name in names:
            netlink.link("set", index=socket.if_nametoindex(name), state="up" if up else "down")


def configure_host(fabric: Fabric, host: Host, pid: int) -> None:
    """Give a host its addresses, its gateway as a static neighbour, its routes, and its NIC's rate.

    Raises FailureError if the kernel refuses one of them.
    """
    try:
        _configure_host(fabric, host, pid)
    except NetlinkError as error:
        raise FailureError(f"cannot configure host {host.name}: {os.strerror(error.code)}") from None


def _configure_host(fabric: Fabric, host: Host, pid: int) -> None:
    link = fabric.link(host.name, host.switch)
    name = fabric.interface(host.name, 0)
    gateway = fabric.switch(host.switch).mac
    with namespace(pid):
        for setting, value in {
            "accept_ra": 0,
            "accept_dad": 0,
            "dad_transmits": 0,
            "router_solicitations": 0,
            "addr_gen_mode": _ADDRESS_MODE_NONE,
            "keep_addr_on_down": 1,
        }.items():
            _sysctl(f"ipv6/conf/{name}/{setting}", value)
        turn_off_checksum_offload(name)
        index = socket.if_nametoindex(name)
        with IPRoute() as netlink:
            netlink.link("set", index=socket.if_nametoindex("lo"), state="up")
            netlink.addr("add", index=index, address=host.ipv4, prefixlen=32)
            netlink.addr("add", index=index, address=host.ipv6, prefixlen=128, flags=_IFA_F_NODAD)
            netlink.link("set", index=index, state="up")
            for family, via, source in (
                (socket.AF_INET, addresses.GATEWAY_IPV4, host.ipv4),
                (socket.AF_INET6, addresses.GATEWAY_IPV6, host.ipv6),
            ):
                netlink.neigh("add", family=family, ifindex=index, dst=via, lladdr=gateway, state=_NUD_PERMANENT)
                netlink.route(
                    "add", family=family, dst="default", gateway=via, oif=index, prefsrc=source, flags=_RTNH_F_ONLINK
                )
            if rate := link.rate_from(host.name):
                _shape(netlink, index, rate, fabric.mtu)


def shape_switch_ports(fabric: Fabric) -> None:
    """Put the links' rates behind the switches' ports, for switches that have no shaper of their own."""
    with IPRoute() as netlink:
        for switch in fabric.switches:
            for port in fabric.ports(switch.name):
                if port.rate_bps is not None:
                    _shape(netlink, socket.if_nametoindex(port.interface), port.rate_bps, fabric.mtu)


def delay_links(fabric: Fabric, placement: Placement) -> None:
    """Delay both directions of every link that asks for it, behind the shapers of both its ends.

    Raises FailureError if the kernel has no netem queue.
    """
    for link in fabric.links:
        if link.delay_ns:
            for node in link.ends:
                _delay(fabric, link, node, placement, shaped=link.rate_from(node) is not None)


def delete_group(group: int) -> None:
    """Delete every interface of this namespace that belongs to `group`, which must not be 0, the default group."""
    if group == 0:
        raise ValueError("group 0 holds every interface that nobody put elsewhere")
    with IPRoute() as netlink:
        try:
            netlink.link("del", index=0, group=group)
        except NetlinkError as error:
            if error.code != errno.ENODEV:
                raise


def group_of(name: str) -> int:
    """Return the group of an interface of this namespace; 0, the default group, also if there is no such one."""
    with IPRoute() as netlink:
        try:
            (interface,) = netlink.link("get", ifname=name)
        except NetlinkError:
            return 0
        return int(interface.get("group") or 0)


def interfaces_with_carrier(names: Iterable[str]) -> set[str]:
    """Return those of the named interfaces that are up and whose peer is up too."""
    found = set()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for name in names:
            request = struct.pack("16sH", name.encode(), 0).ljust(40, b"\0")
            with suppress(OSError):  # it is gone
                (flags,) = struct.unpack_from("16xH", fcntl.ioctl(control, _SIOCGIFFLAGS, request))
                if flags & _IFF_RUNNING and flags & _IFF_UP:
                    found.add(name)
    return found


def turn_off_checksum_offload(name: str) -> None:
    """Make the kernel compute checksums, and cut segments, before packets enter `name`; as `ethtool -K NAME tx off`.

    A veth leaves both to hardware that is not there, and a switch would forward what it got.
    """
    value = struct.pack("II", _ETHTOOL_STXCSUM, 0)
    buffer = ctypes.create_string_buffer(value, len(value))
    request = struct.pack("16sP", name.encode(), ctypes.addressof(buffer))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCETHTOOL, request.ljust(40, b"\0"))


def _end(fabric: Fabric, link: Link, node: str, placement: Placement) -> dict[str, Any]:
    """Describe one end of a veth pair. One queue each way: a switch's receive socket is bound to a single queue."""
    described: dict[str, Any] = {
        "ifname": fabric.interface(node, link.end(node).port),
        "mtu": fabric.mtu,
        "group": placement.group,
        "num_tx_queues": 1,
        "num_rx_queues": 1,
    }
    if fabric.is_host(node):
        described |= {"address": fabric.host(node).mac, "net_ns_pid": placement.host_pids[node]}
    return described


def _shape(netlink: Any, index: int, rate_bps: int, mtu: int) -> None:
    """Give an interface a token bucket; none to a rate beyond what tc counts, which no veth pair reaches."""
    if rate_bps // 8 > _FASTEST_SHAPER:
        return
    burst = max(_SMALLEST_BURST, 2 * (mtu + 14), int(rate_bps / 8 * _BURST_SECONDS))
    netlink.tc("add", "tbf", index, handle=_SHAPER, rate=rate_bps // 8, burst=burst, limit=_NIC_QUEUE_BYTES)


def _delay(fabric: Fabric, link: Link, node: str, placement: Placement, shaped: bool) -> None:
    name = fabric.interface(node, link.end(node).port)
    pid = placement.host_pids.get(node, os.getpid())
    with namespace(pid), IPRoute() as netlink:
        index = socket.if_nametoindex(name)
        place = {"parent": _SHAPER + 1} if shaped else {}
        try:
            netlink.tc("add", "netem", index, delay=link.delay_ns // 1000, **place)
        except NetlinkError as error:
            if error.code in (errno.ENOENT, errno.EOPNOTSUPP):
                raise FailureError(
                    f"link {link.name} has a delay, and this kernel has no netem queue to make one "
                    "(CONFIG_NET_SCH_NETEM, module sch_netem); leave `delay` out to run without it"
                ) from None
            raise FailureError(f"cannot delay link {link.name}: {os.strerror(error.code)}") from None


def _enter(descriptor: int) -> None:
    if _libc.setns(descriptor, _CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot enter a network namespace: {os.strerror(number)}")


def _sysctl(name: str, value: int) -> None:
    """Write one setting under net/ of this thread's namespace; a kernel without it (no IPv6) needs none."""
    path = Path("/proc/sys/net") / name
    if path.exists():
        path.write_text(str(value))
