# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""One embedded P4 switch as a Python object: in process for tests and simulation, or with a thread and real ports."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from softswitch.build import build
from softswitch.errors import PortError, ProgramError, SwitchError
from softswitch.native import engine, ffi, sanitized

CLASSES = 8
IDLE = 2**64 - 1
_FRAME_LIMIT = 65536
_ERROR_BYTES = 512


@dataclass(frozen=True)
class QueueStats:
    """One queue's counts; depths are of this moment and the greatest so far; the histogram is in microseconds.

    `delay_histogram` counts packets by queueing delay: bucket 0 below 16 us, then four to an octave.
    """

    enqueued_packets: int
    enqueued_bytes: int
    sent_packets: int
    sent_bytes: int
    tail_drops_packets: int
    tail_drops_bytes: int
    depth_packets: int
    depth_bytes: int
    max_depth_packets: int
    max_depth_bytes: int
    delay_histogram: tuple[int, ...]


@dataclass(frozen=True)
class PortStats:
    """One port's counts, its rate in bit/s (0: unlimited), its state, and its queues by class."""

    rx_packets: int
    rx_bytes: int
    rx_dropped: int
    tx_packets: int
    tx_bytes: int
    tx_failed: int
    rate: int
    up: bool
    present: bool
    pending: int
    queues: tuple[QueueStats, ...]


@dataclass(frozen=True)
class Account:
    """Where every packet went: received + copied == sent + dropped + queued, always."""

    received: int
    copied: int
    sent: int
    dropped: int
    queued: int


def delay_bucket_bounds(bucket: int) -> tuple[int, int]:
    """Return a delay histogram bucket's bounds in microseconds: lower inclusive, upper exclusive (last: 2**32)."""
    if bucket == 0:
        return 0, 16

    def lower(index: int) -> int:
        octave, quarter = divmod(index - 1, 4)
        return (16 << octave) + (4 << octave) * quarter

    return lower(bucket), lower(bucket + 1) if bucket < 63 else 2**32


class Switch:
    """An embedded switch.

    Without `start` nothing moves by itself: `inject` runs what a frame causes, `run` what the clock makes due. With
    `start` a data thread serves the ports. Every method may be called from any thread.
    """

    def __init__(self, name: str = "s1", device_id: int = 1, *, frames: int = 0, frame_bytes: int = 0) -> None:
        """Make a switch with memory for `frames` frames of `frame_bytes` (0: the defaults, 8192 of 1792 bytes)."""
        self.name = name
        self.device_id = device_id
        self._ffi = ffi()
        self._lib = engine()
        self._p4runtime: Any = None
        self._scratch = threading.Lock()  # for the next three
        self._error = self._ffi.new("char[]", _ERROR_BYTES)
        self._frame = self._ffi.new("uint8_t[]", _FRAME_LIMIT)
        self._number = self._ffi.new("uint32_t *")
        self._handle = self._lib.ss_switch_create(device_id, name.encode(), self._error, _ERROR_BYTES)
        if not self._handle:
            raise SwitchError(self._reason())
        if frames or frame_bytes:
            chunk = 2048
            while chunk - 256 < frame_bytes:
                chunk *= 2
            if self._lib.ss_switch_set_memory(self._handle, frames or 8192, chunk):
                self.close()
                raise SwitchError(f"{name}: no memory for {frames or 8192} frames of {frame_bytes} bytes")

    def __enter__(self) -> Switch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the thread, close the ports and free everything."""
        if self._p4runtime is not None:
            self._p4runtime.close()
            self._p4runtime = None
        if self._handle:
            handle, self._handle = self._handle, None
            self._lib.ss_switch_destroy(handle)

    def _reason(self) -> str:
        return str(self._ffi.string(self._error).decode(errors="replace"))

    @property
    def handle(self) -> Any:
        """The `struct ss_switch *`, for calls of engine.h."""
        if not self._handle:
            raise SwitchError(f"{self.name} is closed")
        return self._handle

    @property
    def state(self) -> Any:
        """The program's `struct ss_state *` (NULL before `load`), for calls of table.h under `locked`."""
        return self._lib.ss_switch_state(self.handle)

    @property
    def objects(self) -> Any:
        """The program's `struct ss_objects *`: tables, counters, registers and the rest, by index."""
        program = self._lib.ss_switch_program(self.handle)
        if not program:
            raise ProgramError("no program is loaded", source=self.name)
        return program.objects(self.state)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the switch's lock: needed around calls of table.h; packets wait meanwhile."""
        self._lib.ss_lock(self.handle)
        try:
            yield
        finally:
            self._lib.ss_unlock(self.handle)

    @property
    def p4runtime(self) -> Any:
        """The switch's P4Runtime endpoint, in process: the server's own, without a socket."""
        if self._p4runtime is None:
            from softswitch.p4runtime.endpoint import Endpoint

            self._p4runtime = Endpoint(self)
        return self._p4runtime

    # The program.

    def load(self, json_path: str | Path, p4info_path: str | Path | None = None) -> None:
        """Compile (or find in the cache) and load a BMv2 JSON program; with a P4Info, P4Runtime serves it too."""
        self.load_library(build(json_path, sanitize=sanitized()))
        if p4info_path is not None:
            try:
                text = Path(p4info_path).read_text()
            except UnicodeDecodeError as error:
                raise ProgramError(f"this is no P4Info: {error}", source=str(p4info_path)) from error
            self.p4runtime.bind(text, Path(json_path).read_bytes())

    def load_library(self, path: str | Path) -> None:
        """Load a compiled program; packets in flight under a former one are dropped and counted."""
        endpoint = contextlib.nullcontext() if self._p4runtime is None else self._p4runtime.lock
        with endpoint, self._scratch:
            if self._lib.ss_switch_load(self.handle, str(path).encode(), self._error, _ERROR_BYTES):
                raise ProgramError(self._reason(), source=self.name)

    def seed(self, value: int) -> None:
        """Seed the program's random numbers."""
        self._lib.ss_switch_seed(self.handle, value)

    def set_depth_register(self, name: str, unit: str = "packets") -> None:
        """Let a register read as the queues' live depth: index port * 8 + class; unit "packets" or "bytes/N"."""
        shift = depth_shift(unit)
        with self.locked():
            objects = self.objects
            names = [self._ffi.string(objects.registers[i].name).decode() for i in range(objects.register_count)]
            found = [i for i, full in enumerate(names) if full == name or full.endswith(f".{name}")]
            if len(found) != 1:
                raise ProgramError(
                    f"no register named {name} (there are: {', '.join(names) or 'none'})", source=self.name
                )
            self.set_depth_unit(shift)
            self._lib.ss_register_set_live_depth(self.state, found[0], CLASSES.bit_length() - 1)

    # Ports.

    def add_port(self, port: int, interface: str | None = None, kind: str | None = None) -> None:
        """Add a port: `kind` auto, xdp or packet on an interface, pcap on "in.pcap:out.pcap", or virtual.

        Without a kind: virtual without an interface, auto with one.
        """
        chosen = kind or ("auto" if interface else "virtual")
        where = interface.encode() if interface else self._ffi.NULL
        with self._scratch:
            if self._lib.ss_port_add(self.handle, port, where, chosen.encode(), self._error, _ERROR_BYTES):
                raise PortError(f"{self.name}: {self._reason()}")

    def remove_port(self, port: int) -> None:
        """Remove a port; what waits in its queues is dropped and counted."""
        self._ported(self._lib.ss_port_remove(self.handle, port), port)

    def set_port_up(self, port: int, up: bool) -> None:
        """Take a port down or up by hand."""
        self._lib.ss_port_set_up(self.handle, port, up)

    def port_up(self, port: int) -> bool:
        """Say whether a port is there and up."""
        return bool(self._lib.ss_port_up(self.handle, port))

    def port_kind(self, port: int) -> str | None:
        """Name what serves a port: xdp, packet, virtual, pcap, cpu; None if there is no such port."""
        kind = self._lib.ss_port_kind(self.handle, port)
        return self._ffi.string(kind).decode() if kind else None

    def capture(self, port: int, path: str | Path | None) -> None:
        """Record a port's frames of both directions to a pcap file; None ends the recording."""
        where = str(path).encode() if path is not None else self._ffi.NULL
        if self._lib.ss_port_capture(self.handle, port, where):
            raise PortError(f"{self.name}: cannot capture port {port} to {path}")

    def _ported(self, result: int, port: int) -> None:
        if result:
            raise PortError(f"{self.name}: no port {port}, or a setting out of range")

    # The traffic manager and the replication engine.

    def set_rate(self, port: int, bits_per_second: int, *, overhead: int | None = None) -> None:
        """Shape a port to a rate (0: unlimited); `overhead` bytes are charged beside each frame (24: as on a wire)."""
        if overhead is not None:
            self._ported(self._lib.ss_port_set_overhead(self.handle, port, overhead), port)
        self._ported(self._lib.ss_port_set_rate(self.handle, port, bits_per_second), port)

    def set_queue(self, port: int, queue: int | None = None, *, packets: int = 0, bytes: int = 0) -> None:
        """Limit a queue's depth (None: all of the port's queues); 0 is no limit."""
        settings = self._ffi.new("struct ss_queue_settings *", {"packets": packets, "bytes": bytes})
        for index in range(CLASSES) if queue is None else (queue,):
            self._ported(self._lib.ss_port_set_queue(self.handle, port, index, settings), port)

    def set_queues(self, count: int) -> None:
        """Serve this many classes per port, 1 to 8; a packet of a higher one is dropped and counted."""
        if self._lib.ss_switch_set_queues(self.handle, count):
            raise SwitchError(f"{self.name}: 1 to {CLASSES} queues, not {count}")

    def set_depth_unit(self, shift: int) -> None:
        """Let live depth registers read in bytes >> shift, or in packets when shift is negative."""
        if self._lib.ss_switch_set_depth_unit(self.handle, shift):
            raise SwitchError(f"{self.name}: depth unit out of range: {shift}")

    def set_cpu_port(self, port: int) -> None:
        """Name the port whose frames are the controller's packet-out and packet-in."""
        if self._lib.ss_switch_set_cpu_port(self.handle, port):
            raise PortError(f"{self.name}: port {port} cannot be the CPU port")

    def set_drop_port(self, port: int) -> None:
        """Name the egress_spec that drops (511)."""
        if self._lib.ss_switch_set_drop_port(self.handle, port):
            raise PortError(f"{self.name}: port {port} cannot be the drop port")

    def _replicas(self, replicas: Iterable[tuple[int, int]]) -> tuple[Any, int]:
        pairs = [{"port": port, "instance": instance} for port, instance in replicas]
        return self._ffi.new("struct ss_replica[]", pairs), len(pairs)

    def set_multicast(self, group: int, replicas: Iterable[tuple[int, int]]) -> None:
        """Set a multicast group's (port, instance) pairs; none removes the group."""
        if self._lib.ss_multicast_set(self.handle, group, *self._replicas(replicas)):
            raise SwitchError(f"{self.name}: no multicast group {group}")

    def set_clone(self, session: int, replicas: Iterable[tuple[int, int]], truncate: int = 0) -> None:
        """Set a clone session's (port, instance) pairs; `truncate` cuts the clones to so many bytes."""
        if self._lib.ss_clone_set(self.handle, session, *self._replicas(replicas), truncate):
            raise SwitchError(f"{self.name}: no clone session {session}")

    def remove_clone(self, session: int) -> None:
        """Remove a clone session."""
        if self._lib.ss_clone_remove(self.handle, session):
            raise SwitchError(f"{self.name}: no clone session {session}")

    # Running.

    def start(self) -> None:
        """Start the data thread."""
        if self._lib.ss_switch_start(self.handle):
            raise SwitchError(f"{self.name}: the data thread does not start, or runs already")

    def stop(self) -> None:
        """Stop the data thread; packets stay where they are."""
        self._lib.ss_switch_stop(self.handle)

    def send(self, port: int, frame: bytes) -> bool:
        """Give a frame to a port as if received there; False when packet memory or the frame limit refuses it."""
        return not self._lib.ss_inject(self.handle, port, frame, len(frame))

    def take(self) -> list[tuple[int, bytes]]:
        """Take what left through virtual ports, in order of leaving."""
        taken: list[tuple[int, bytes]] = []
        with self._scratch:
            while (length := self._lib.ss_take(self.handle, self._number, self._frame, _FRAME_LIMIT)) >= 0:
                taken.append((self._number[0], self._ffi.buffer(self._frame, length)[:]))
        return taken

    def inject(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """Give a frame to a port, run what that causes now, and return the (port, frame) pairs that left."""
        self.send(port, frame)
        self._lib.ss_run(self.handle)
        return self.take()

    def set_clock(self, now_ns: int) -> None:
        """Set the virtual clock; 0 goes back to the machine's."""
        self._lib.ss_set_clock(self.handle, now_ns)

    @property
    def now(self) -> int:
        """The switch's time in ns."""
        return int(self._lib.ss_now(self.handle))

    def run(self, until_ns: int | None = None) -> int | None:
        """Run what is due now and return the next due time in ns, None when nothing waits for time to pass.

        With `until_ns` the virtual clock is moved from one due time to the next up to there.
        """
        due = int(self._lib.ss_run(self.handle))
        if until_ns is not None:
            while due <= until_ns:
                self.set_clock(due)
                due = int(self._lib.ss_run(self.handle))
            self.set_clock(until_ns)
            due = int(self._lib.ss_run(self.handle))
        return None if due == IDLE else due

    # The controller's side.

    @property
    def event_fd(self) -> int:
        """An eventfd that is readable when packets in, digests, port events or log lines wait."""
        return int(self._lib.ss_event_fd(self.handle))

    def packet_out(self, frame: bytes) -> bool:
        """Give a frame, with its packet-out header, to the CPU port."""
        return not self._lib.ss_packet_out(self.handle, frame, len(frame))

    def packets_in(self) -> list[bytes]:
        """Take the frames that left through the CPU port, with their packet-in headers."""
        taken: list[bytes] = []
        with self._scratch:
            while (length := self._lib.ss_packet_in(self.handle, self._frame, _FRAME_LIMIT)) >= 0:
                taken.append(self._ffi.buffer(self._frame, length)[:])
        return taken

    def digests(self) -> list[tuple[int, bytes]]:
        """Take the digests that wait: (learn list, its fields' bytes)."""
        taken: list[tuple[int, bytes]] = []
        with self._scratch:
            while (length := self._lib.ss_digest_next(self.handle, self._number, self._frame, _FRAME_LIMIT)) >= 0:
                taken.append((self._number[0], self._ffi.buffer(self._frame, length)[:]))
        return taken

    def port_events(self) -> list[tuple[int, bool]]:
        """Take the changes of port state that wait: (port, up)."""
        taken: list[tuple[int, bool]] = []
        up = self._ffi.new("bool *")
        with self._scratch:
            while self._lib.ss_port_event(self.handle, self._number, up) == 0:
                taken.append((self._number[0], bool(up[0])))
        return taken

    def log_lines(self) -> list[str]:
        """Take what the program logged."""
        taken: list[str] = []
        text = self._ffi.cast("char *", self._frame)
        with self._scratch:
            while (length := self._lib.ss_log_next(self.handle, text, _FRAME_LIMIT)) >= 0:
                taken.append(self._ffi.buffer(self._frame, length)[:].decode(errors="replace"))
        return taken

    # Statistics.

    def stats(self, port: int) -> PortStats:
        """Return a port's counts."""
        raw = self._ffi.new("struct ss_port_stats *")
        self._ported(self._lib.ss_port_stats(self.handle, port, raw), port)
        names = [name for name in QueueStats.__dataclass_fields__ if name != "delay_histogram"]
        queues = tuple(
            QueueStats(**{name: int(getattr(q, name)) for name in names}, delay_histogram=tuple(q.delay_histogram))
            for q in raw.queues
        )
        return PortStats(
            raw.rx_packets, raw.rx_bytes, raw.rx_dropped, raw.tx_packets, raw.tx_bytes, raw.tx_failed, raw.rate,
            bool(raw.up), bool(raw.present), raw.pending, queues,
        )  # fmt: skip

    def drops(self) -> dict[str, int]:
        """Return the packets that neither left nor wait, by cause (engine.h, struct ss_drop_stats)."""
        raw = self._ffi.new("struct ss_drop_stats *")
        self._lib.ss_drop_stats(self.handle, raw)
        return {name: int(getattr(raw, name)) for name, _ in self._ffi.typeof("struct ss_drop_stats").fields}

    def account(self) -> Account:
        """Return where every packet went."""
        raw = self._ffi.new("struct ss_account *")
        self._lib.ss_account(self.handle, raw)
        return Account(raw.received, raw.copied, raw.sent, raw.dropped, raw.queued)


def depth_shift(unit: str) -> int:
    """Read a depth unit: "packets" (-1), "bytes" (0), or "bytes/N" with N a power of two (its logarithm)."""
    if unit == "packets":
        return -1
    name, _, divisor = unit.partition("/")
    number = int(divisor) if divisor.isdecimal() else 1 if not divisor else 0
    if name != "bytes" or number < 1 or number & (number - 1):
        raise SwitchError(f"depth unit {unit!r}: packets, bytes, or bytes/N with N a power of two")
    return number.bit_length() - 1
