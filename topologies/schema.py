# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What a topology file may say, as pydantic models, and as a JSON schema."""

from __future__ import annotations

import ipaddress
import json
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    WithJsonSchema,
    field_validator,
)

from topologies.addresses import MAX_HOSTS_PER_SWITCH
from topologies.model import DEFAULT_FIRST_GRPC_PORT, DEFAULT_MTU, MAX_PORTS
from topologies.units import format_rate, parse_duration, parse_rate

MIN_RATE = 4000
"""Of a link: below it the kernel's token bucket cannot hold two of the largest frames, also at BMv2's lower rates."""


def _link_rate(rate: int) -> int:
    if rate < MIN_RATE:
        raise ValueError(f"a link's rate is at least {format_rate(MIN_RATE)}bit/s, not {rate} bit/s")
    return rate


Rate = Annotated[
    int,
    BeforeValidator(parse_rate),
    AfterValidator(_link_rate),
    WithJsonSchema(
        {"type": ["integer", "string"], "description": "bit/s, or text such as 100M or 1.5G", "examples": ["100M"]}
    ),
]
Duration = Annotated[
    int,
    BeforeValidator(parse_duration),
    WithJsonSchema({"type": "string", "description": "a number with ns, us, ms or s", "examples": ["5us"]}),
]
NodeName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=12)]
HostCount = Annotated[int, Field(ge=0, le=MAX_HOSTS_PER_SWITCH)]
QueueClass = Annotated[int, Field(ge=0, le=7)]


def _unicast_mac(value: str) -> str:
    octets = value.replace("-", ":").split(":")
    if len(octets) != 6 or not all(len(octet) == 2 and set(octet) <= set("0123456789abcdefABCDEF") for octet in octets):
        raise ValueError(f"{value!r} is not a MAC address; write six bytes, such as 02:00:0a:00:01:01")
    if int(octets[0], 16) & 1:
        raise ValueError(f"{value!r} is a group address; a host needs a unicast one")
    if not any(int(octet, 16) for octet in octets):
        raise ValueError(f"{value!r} cannot be a host's address")
    return ":".join(octets).lower()


def _ipv4(value: str) -> str:
    try:
        address = ipaddress.IPv4Address(value)
    except ValueError:
        raise ValueError(f"{value!r} is not an IPv4 address") from None
    if (
        address.is_multicast
        or address.is_unspecified
        or address.is_loopback
        or address.is_link_local
        or address.is_reserved
    ):
        raise ValueError(f"{value!r} cannot be a host's address")
    return str(address)


def _ipv6(value: str) -> str:
    try:
        address = ipaddress.IPv6Address(value)
    except ValueError:
        raise ValueError(f"{value!r} is not an IPv6 address") from None
    if address.is_multicast or address.is_unspecified or address.is_loopback or address.is_link_local:
        raise ValueError(f"{value!r} cannot be a host's address")
    return str(address)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Depth(_Strict):
    """How much one queue holds."""

    packets: int = Field(default=256, ge=1, le=65535, description="packets a queue holds")
    bytes: int = Field(default=0, ge=0, le=2**32 - 1, description="bytes a queue holds; 0: packets alone decide")


class Queue(Depth):
    """The queues of a port: one depth for all eight classes, and exceptions by class."""

    classes: dict[QueueClass, Depth] = Field(default_factory=dict, description="exceptions, by class 0..7")


class LinkSettings(_Strict):
    """What a link can do; the plain fields hold toward the second end, the `reverse_` ones for the way back."""

    rate: Rate | None = Field(default=None, description="left out or null: unlimited")
    reverse_rate: Rate | None = Field(default=None, description="left out: as `rate`")
    delay: Duration | None = Field(
        default=None, description="one-way propagation delay; emulation needs the kernel's netem"
    )
    queue: Queue = Field(default=Queue(), description="queues of the switch port that sends this way")
    reverse_queue: Queue | None = Field(default=None, description="left out: as `queue`")


class NamedLink(LinkSettings):
    """One link, by its two ends: adds it to a custom fabric, or changes what a rule gave it."""

    between: tuple[NodeName, NodeName] = Field(description="the two nodes; the plain fields hold from first to second")

    @field_validator("between", mode="before")
    @classmethod
    def _two_nodes(cls, value: object) -> object:
        return tuple(value) if isinstance(value, list) else value


class HostAddresses(_Strict):
    """Addresses given by hand; what is left out follows the rule."""

    ipv4: Annotated[str, AfterValidator(_ipv4)] | None = None
    ipv6: Annotated[str, AfterValidator(_ipv6)] | None = None
    mac: Annotated[str, AfterValidator(_unicast_mac)] | None = None


class Topology(_Strict):
    """What every kind of topology has."""

    name: str | None = Field(
        default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", description="left out: the file's name"
    )
    description: str = ""
    mtu: int = Field(default=DEFAULT_MTU, ge=1280, le=9000, description="of every interface; IPv6 needs 1280")
    first_grpc_port: int = Field(default=DEFAULT_FIRST_GRPC_PORT, ge=1024, le=65535, description="of the first switch")
    host_link: LinkSettings = Field(
        default_factory=lambda: LinkSettings(rate=100_000_000), description="from the switch toward the host"
    )
    fabric_link: LinkSettings = Field(
        default_factory=lambda: LinkSettings(rate=200_000_000), description="between switches, lower to upper"
    )
    addresses: dict[NodeName, HostAddresses] = Field(default_factory=dict, description="by hand, by host")
    links: list[NamedLink] = Field(default_factory=list, description="single links that differ from the rule")


class Single(Topology):
    """One switch, s1, with all hosts on it."""

    kind: Literal["single"] = "single"
    hosts: HostCount = 4


class Dumbbell(Topology):
    """Two switches, s1 and s2, joined by the bottleneck `fabric_link`."""

    kind: Literal["dumbbell"] = "dumbbell"
    left: HostCount = Field(default=4, description="hosts on s1")
    right: HostCount = Field(default=4, description="hosts on s2")


class LeafSpine(Topology):
    """Leaves with hosts, each cabled to every spine."""

    kind: Literal["leaf_spine"] = "leaf_spine"
    leaves: int = Field(default=2, ge=1, le=MAX_PORTS)
    spines: int = Field(default=2, ge=1, le=MAX_PORTS)
    hosts_per_leaf: HostCount = 4


class FatTree(Topology):
    """The k-ary fat tree: k pods of k/2 edge and k/2 aggregation switches, (k/2)^2 cores."""

    kind: Literal["fat_tree"] = "fat_tree"
    k: int = Field(default=4, ge=2, le=32, multiple_of=2)
    hosts_per_edge: HostCount | None = Field(default=None, description="left out: k/2")


class Ring(Topology):
    """Switches s1..sn in a ring."""

    kind: Literal["ring"] = "ring"
    switches: int = Field(default=4, ge=3, le=1024)
    hosts_per_switch: HostCount = 1


class Mesh(Topology):
    """A grid of switches s1..sn, numbered with the last dimension fastest, without wrap-around."""

    kind: Literal["mesh"] = "mesh"
    dimensions: list[Annotated[int, Field(ge=1, le=64)]] = Field(default=[3, 3], min_length=1, max_length=3)
    hosts_per_switch: HostCount = 1


class Torus(Topology):
    """A grid of switches s1..sn whose rows and columns close into rings."""

    kind: Literal["torus"] = "torus"
    dimensions: list[Annotated[int, Field(ge=1, le=64)]] = Field(default=[3, 3], min_length=1, max_length=3)
    hosts_per_switch: HostCount = 1


class CustomSwitch(_Strict):
    """A switch of a custom fabric."""

    role: Literal["leaf", "spine", "edge", "aggregation", "core", "switch"] = "switch"


class CustomHost(LinkSettings):
    """A host of a custom fabric, and its link to its switch; what is left out follows `host_link`."""

    switch: NodeName


class Custom(Topology):
    """A fabric given node by node and link by link."""

    kind: Literal["custom"] = "custom"
    switches: dict[NodeName, CustomSwitch] = Field(min_length=1)
    hosts: dict[NodeName, CustomHost] = Field(default_factory=dict)

    @field_validator("switches", mode="before")
    @classmethod
    def _empty_switch(cls, value: object) -> object:
        if isinstance(value, dict):
            return {name: {} if switch is None else switch for name, switch in value.items()}
        return value


KINDS: dict[str, type[Topology]] = {
    "single": Single,
    "dumbbell": Dumbbell,
    "leaf_spine": LeafSpine,
    "fat_tree": FatTree,
    "ring": Ring,
    "mesh": Mesh,
    "torus": Torus,
    "custom": Custom,
}


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a topology file, for editors and for other tools."""
    any_kind = Annotated[
        Single | Dumbbell | LeafSpine | FatTree | Ring | Mesh | Torus | Custom, Field(discriminator="kind")
    ]
    schema = TypeAdapter(any_kind).json_schema(by_alias=True)
    for definition in schema["$defs"].values():
        if "kind" in definition.get("properties", {}):
            definition["required"] = ["kind", *definition.get("required", [])]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Gradlane topology", **schema}


def schema_text() -> str:
    """Return the JSON schema as text, a line at its end."""
    return json.dumps(json_schema(), indent=1) + "\n"
