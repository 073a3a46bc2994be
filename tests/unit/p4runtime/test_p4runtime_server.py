# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The gRPC server over sockets: several controllers, streams, large messages, and an unmodified p4runtime-shell."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import everything as e
import grpc
import pytest
from google.rpc import status_pb2
from p4.v1 import p4runtime_pb2 as p4rt
from p4rt_messages import INSERT, MODIFY, action, bulk_inserts, entity, entry, exact, forward, frame, update
from serving import OPTIONS, Controller, code_of, free_address, running

from softswitch.p4runtime import wire

_elections = itertools.count(100, 100)


@pytest.fixture(scope="module")
def address(library: Path) -> Iterator[str]:
    """A switch process with a CPU port and no other."""
    where = free_address()
    with running("--no-p4", "--grpc-server-addr", where, "--", "--cpu-port", str(e.CPU_PORT)):
        yield where


@pytest.fixture
def election() -> int:
    """An election id above all that the switch has seen: they only ever rise."""
    return next(_elections)


@pytest.fixture
def config(program_files: tuple[Path, Path]) -> Any:
    return p4rt.ForwardingPipelineConfig(p4info=e.p4info(), p4_device_config=program_files[0].read_bytes())


@pytest.fixture
def primary(address: str, config: Any, election: int) -> Iterator[Controller]:
    """A primary controller with a fresh pipeline."""
    with Controller(address, election) as controller:
        controller.become_primary()
        controller.set_pipeline(config)
        yield controller


def test_capabilities_need_no_session(address: str) -> None:
    with grpc.insecure_channel(address, options=OPTIONS) as channel:
        call = channel.unary_unary("/p4.v1.P4Runtime/Capabilities", None, p4rt.CapabilitiesResponse.FromString)
        assert call(b"", timeout=60).p4runtime_api_version == "1.4.1"


def test_only_the_primary_writes_and_everybody_reads(address: str, primary: Controller, election: int) -> None:
    added = update(INSERT, entry(e.EXACT, exact(1, 1), do=forward(1)))
    with Controller(address, election - 1) as backup:
        backup.arbitrate()
        assert backup.next().arbitration.status.code == 6
        assert code_of(lambda: backup.write(added)) == grpc.StatusCode.PERMISSION_DENIED
        primary.write(added)
        assert len(backup.read(entity(p4rt.TableEntry(table_id=e.EXACT)))) == 1


def test_a_stronger_controller_takes_over_and_the_others_learn(address: str, config: Any, election: int) -> None:
    with Controller(address, election) as first, Controller(address, election + 1) as second:
        first.become_primary()
        second.become_primary()
        demoted = first.next().arbitration
        assert (demoted.status.code, demoted.election_id.low) == (6, election + 1)
        assert code_of(lambda: first.set_pipeline(config)) == grpc.StatusCode.PERMISSION_DENIED
        second.close()
        assert first.next().arbitration.status.code == 5
        first.election = election + 2
        first.become_primary()
        first.set_pipeline(config)


def test_roles_have_primaries_of_their_own(address: str, primary: Controller, election: int) -> None:
    with Controller(address, 1, role="routes") as routes:
        stranger = update(INSERT, entry(e.EXACT, exact(1, 1), do=forward(1)))
        routes.become_primary()
        routes.write(stranger)
        routes.role = "unheard of"
        assert code_of(lambda: routes.write(stranger)) == grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize(("device", "role_config"), [(2, False), (1, True)])
def test_a_wrong_session_is_ended(address: str, election: int, device: int, role_config: bool) -> None:
    with Controller(address, election, device=device) as controller:
        message = p4rt.StreamMessageRequest()
        message.arbitration.device_id = device
        message.arbitration.election_id.low = election
        if role_config:
            message.arbitration.role.config.SetInParent()
        controller.send(message)
        wanted = grpc.StatusCode.INVALID_ARGUMENT if role_config else grpc.StatusCode.NOT_FOUND
        assert controller.status.get(timeout=60) == wanted


def test_an_election_id_in_use_ends_the_second_stream(address: str, primary: Controller, election: int) -> None:
    with Controller(address, election) as twin:
        twin.arbitrate()
        assert twin.status.get(timeout=60) == grpc.StatusCode.INVALID_ARGUMENT


def test_a_failed_batch_carries_its_details_in_the_trailer(primary: Controller) -> None:
    added = update(INSERT, entry(e.EXACT, exact(1, 1), do=forward(1)))
    with pytest.raises(grpc.RpcError) as caught:
        primary.write(added, added)
    assert caught.value.code() == grpc.StatusCode.UNKNOWN
    details = dict(caught.value.trailing_metadata())["grpc-status-details-bin"]
    status = status_pb2.Status.FromString(details)
    codes = []
    for detail in status.details:
        error = p4rt.Error()
        assert detail.Unpack(error)
        codes.append(error.canonical_code)
    assert codes == [0, 6]


def test_many_entries_go_in_and_come_out_in_parts(address: str, primary: Controller, election: int) -> None:
    head = wire.number(1, 1) + wire.data(3, wire.number(2, election))
    with grpc.insecure_channel(address, options=OPTIONS) as channel:
        channel.unary_unary("/p4.v1.P4Runtime/Write")(head + bulk_inserts(15000), timeout=30)
        request = p4rt.ReadRequest(device_id=1, entities=[entity(p4rt.TableEntry(table_id=e.EXACT))])
        parts = list(channel.unary_stream("/p4.v1.P4Runtime/Read")(request.SerializeToString(), timeout=30))
    assert len(parts) > 1
    assert sum(part.count(b"\x0a\x06\x02\x00\x00\x00") for part in parts) == 15000


def test_packets_pass_between_controller_and_switch(primary: Controller) -> None:
    to_cpu = entry(e.EXACT, exact(1, 0x020000000001), do=forward(e.CPU_PORT))
    primary.write(update(INSERT, to_cpu))
    message = p4rt.StreamMessageRequest()
    message.packet.payload = frame()
    message.packet.metadata.add(metadata_id=1, value=e.CPU_PORT.to_bytes(2, "big"))
    message.packet.metadata.add(metadata_id=2, value=b"\0")
    primary.send(message)
    back = primary.next().packet
    assert back.payload == frame()
    assert [each.value for each in back.metadata] == [e.CPU_PORT.to_bytes(2, "big"), b"\0"]


def test_stream_errors_are_reported_on_the_stream(address: str, primary: Controller, election: int) -> None:
    wrong = p4rt.StreamMessageRequest()
    wrong.packet.payload = b"x"
    primary.send(wrong)
    error = primary.next().error
    assert error.canonical_code == 3 and error.packet_out.packet_out == wrong.packet
    ack = p4rt.StreamMessageRequest()
    ack.digest_ack.digest_id = 99
    primary.send(ack)
    error = primary.next().error
    assert error.canonical_code == 3 and error.digest_list_ack.digest_list_ack == ack.digest_ack
    other = p4rt.StreamMessageRequest()
    other.other.SetInParent()
    primary.send(other)
    assert primary.next().error.canonical_code == 12
    with Controller(address, election - 1) as backup:
        backup.arbitrate()
        backup.next()
        backup.send(wrong)
        assert backup.next().error.canonical_code == 7


def test_an_idle_entry_is_notified(primary: Controller) -> None:
    timed = entry(e.TIMED, exact(1, 5), do=forward(1), idle_timeout_ns=1000)
    primary.write(update(INSERT, timed))
    notice = primary.next().idle_timeout_notification
    timed.ClearField("action")
    (found,) = notice.table_entry
    found.ClearField("action")
    assert found == timed and notice.timestamp > 0


def test_a_meter_and_a_counter_are_reached(primary: Controller) -> None:
    meter = p4rt.MeterEntry(meter_id=e.LIMITS, config=p4rt.MeterConfig(cir=1, cburst=1, pir=2, pburst=2))
    primary.write(update(MODIFY, meter), update(INSERT, entry(e.EXACT, exact(1, 7), do=action(e.COUNT, 3))))
    assert len(primary.read(entity(p4rt.MeterEntry()), entity(p4rt.CounterEntry()))) == 16 + 512
