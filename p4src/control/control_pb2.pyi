# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CounterCells(_message.Message):
    __slots__ = ["cells", "counter"]
    CELLS_FIELD_NUMBER: _ClassVar[int]
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    cells: bytes
    counter: str
    def __init__(self, counter: _Optional[str] = ..., cells: _Optional[bytes] = ...) -> None: ...

class Drop(_message.Message):
    __slots__ = ["cause", "packets"]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    cause: str
    packets: int
    def __init__(self, cause: _Optional[str] = ..., packets: _Optional[int] = ...) -> None: ...

class GetDropsRequest(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class GetDropsResponse(_message.Message):
    __slots__ = ["copied", "dropped", "drops", "queued", "received", "sent"]
    COPIED_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    DROPS_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    SENT_FIELD_NUMBER: _ClassVar[int]
    copied: int
    dropped: int
    drops: _containers.RepeatedCompositeFieldContainer[Drop]
    queued: int
    received: int
    sent: int
    def __init__(self, drops: _Optional[_Iterable[_Union[Drop, _Mapping]]] = ..., received: _Optional[int] = ..., copied: _Optional[int] = ..., sent: _Optional[int] = ..., dropped: _Optional[int] = ..., queued: _Optional[int] = ...) -> None: ...

class GetPortsRequest(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class GetPortsResponse(_message.Message):
    __slots__ = ["ports"]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    ports: _containers.RepeatedCompositeFieldContainer[Port]
    def __init__(self, ports: _Optional[_Iterable[_Union[Port, _Mapping]]] = ...) -> None: ...

class GetSwitchRequest(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class GetSwitchResponse(_message.Message):
    __slots__ = ["device_id", "has_pipeline", "name", "process"]
    DEVICE_ID_FIELD_NUMBER: _ClassVar[int]
    HAS_PIPELINE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    device_id: int
    has_pipeline: bool
    name: str
    process: int
    def __init__(self, name: _Optional[str] = ..., device_id: _Optional[int] = ..., process: _Optional[int] = ..., has_pipeline: bool = ...) -> None: ...

class Port(_message.Message):
    __slots__ = ["capture", "interface", "kind", "port", "queues", "rate", "up"]
    CAPTURE_FIELD_NUMBER: _ClassVar[int]
    INTERFACE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    UP_FIELD_NUMBER: _ClassVar[int]
    capture: str
    interface: str
    kind: str
    port: int
    queues: _containers.RepeatedCompositeFieldContainer[Queue]
    rate: int
    up: bool
    def __init__(self, port: _Optional[int] = ..., up: bool = ..., kind: _Optional[str] = ..., interface: _Optional[str] = ..., rate: _Optional[int] = ..., queues: _Optional[_Iterable[_Union[Queue, _Mapping]]] = ..., capture: _Optional[str] = ...) -> None: ...

class PortState(_message.Message):
    __slots__ = ["port", "up"]
    PORT_FIELD_NUMBER: _ClassVar[int]
    UP_FIELD_NUMBER: _ClassVar[int]
    port: int
    up: bool
    def __init__(self, port: _Optional[int] = ..., up: bool = ...) -> None: ...

class Queue(_message.Message):
    __slots__ = ["bytes", "packets", "queue"]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    packets: int
    queue: int
    def __init__(self, queue: _Optional[int] = ..., packets: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class SetDepthUnitRequest(_message.Message):
    __slots__ = ["register", "unit"]
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    register: str
    unit: str
    def __init__(self, register: _Optional[str] = ..., unit: _Optional[str] = ...) -> None: ...

class SetDepthUnitResponse(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class SetPortRateRequest(_message.Message):
    __slots__ = ["overhead", "port", "rate"]
    OVERHEAD_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    overhead: int
    port: int
    rate: int
    def __init__(self, port: _Optional[int] = ..., rate: _Optional[int] = ..., overhead: _Optional[int] = ...) -> None: ...

class SetPortRateResponse(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class SetPortUpRequest(_message.Message):
    __slots__ = ["port", "up"]
    PORT_FIELD_NUMBER: _ClassVar[int]
    UP_FIELD_NUMBER: _ClassVar[int]
    port: int
    up: bool
    def __init__(self, port: _Optional[int] = ..., up: bool = ...) -> None: ...

class SetPortUpResponse(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class SetQueueRequest(_message.Message):
    __slots__ = ["bytes", "packets", "port", "queue"]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    packets: int
    port: int
    queue: int
    def __init__(self, port: _Optional[int] = ..., queue: _Optional[int] = ..., packets: _Optional[int] = ..., bytes: _Optional[int] = ...) -> None: ...

class SetQueueResponse(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class StartCaptureRequest(_message.Message):
    __slots__ = ["path", "port"]
    PATH_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    path: str
    port: int
    def __init__(self, port: _Optional[int] = ..., path: _Optional[str] = ...) -> None: ...

class StartCaptureResponse(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class StopCaptureRequest(_message.Message):
    __slots__ = ["port"]
    PORT_FIELD_NUMBER: _ClassVar[int]
    port: int
    def __init__(self, port: _Optional[int] = ...) -> None: ...

class StopCaptureResponse(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class StopRequest(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class StopResponse(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...

class TelemetryRequest(_message.Message):
    __slots__ = ["counters"]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    counters: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, counters: _Optional[_Iterable[str]] = ...) -> None: ...

class TelemetryResponse(_message.Message):
    __slots__ = ["counters", "drops", "layout", "ports", "time_ns"]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    DROPS_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    TIME_NS_FIELD_NUMBER: _ClassVar[int]
    counters: _containers.RepeatedCompositeFieldContainer[CounterCells]
    drops: bytes
    layout: int
    ports: bytes
    time_ns: int
    def __init__(self, time_ns: _Optional[int] = ..., layout: _Optional[int] = ..., ports: _Optional[bytes] = ..., drops: _Optional[bytes] = ..., counters: _Optional[_Iterable[_Union[CounterCells, _Mapping]]] = ...) -> None: ...

class WatchPortsRequest(_message.Message):
    __slots__ = []
    def __init__(self) -> None: ...
