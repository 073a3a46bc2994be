# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Forwarding pipelines: verified, saved, committed, reconciled, given back; and refused whole."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import everything as e
import pytest
from p4.v1 import p4runtime_pb2 as p4rt
from p4rt_messages import INSERT, MODIFY, action, bulk_inserts, entry, exact, forward, frame, lpm, read, refusal, write

from softswitch.p4runtime.endpoint import Endpoint
from softswitch.p4runtime.status import Code, StatusError
from softswitch.switch import Switch

Set = p4rt.SetForwardingPipelineConfigRequest
Get = p4rt.GetForwardingPipelineConfigRequest


@pytest.fixture
def bare() -> Iterator[Switch]:
    """A switch without a program."""
    with Switch() as switch:
        for port in range(1, 9):
            switch.add_port(port)
        yield switch
        switch.p4runtime.close()


def request(act: int, files: tuple[Path, Path] | None = None, cookie: int | None = None) -> Any:
    message = Set(action=act)
    if files:
        message.config.p4info.CopyFrom(e.p4info())
        message.config.p4_device_config = files[0].read_bytes()
    if cookie is not None:
        message.config.cookie.cookie = cookie
    return message


def get(endpoint: Endpoint, kind: int = Get.ALL) -> Any:
    return p4rt.GetForwardingPipelineConfigResponse.FromString(endpoint.get_pipeline(Get(response_type=kind)))


def code_of(call: Callable[[], Any]) -> Code:
    with pytest.raises(StatusError) as caught:
        call()
    return caught.value.code


def test_nothing_works_before_a_pipeline(bare: Switch) -> None:
    endpoint = bare.p4runtime
    assert code_of(lambda: endpoint.write(p4rt.WriteRequest())) == Code.FAILED_PRECONDITION
    assert code_of(lambda: endpoint.read(p4rt.ReadRequest())) == Code.FAILED_PRECONDITION
    assert code_of(lambda: endpoint.packet_out(p4rt.PacketOut())) == Code.FAILED_PRECONDITION
    assert not get(endpoint).HasField("config") and not endpoint.has_pipeline


def test_a_committed_pipeline_forwards_and_is_given_back(bare: Switch, program_files: tuple[Path, Path]) -> None:
    endpoint = bare.p4runtime
    endpoint.set_pipeline(request(Set.VERIFY_AND_COMMIT, program_files, cookie=99))
    assert bare.inject(1, frame(ether_type=0x8899)) == [(7, frame(ether_type=0x8899))]
    config = get(endpoint).config
    assert config.p4info == e.p4info() and config.p4_device_config == program_files[0].read_bytes()
    assert config.cookie.cookie == 99
    assert get(endpoint, Get.COOKIE_ONLY).config == p4rt.ForwardingPipelineConfig(cookie=config.cookie)
    info = get(endpoint, Get.P4INFO_AND_COOKIE).config
    assert info.p4info == e.p4info() and not info.p4_device_config
    device = get(endpoint, Get.DEVICE_CONFIG_AND_COOKIE).config
    assert device.p4_device_config == config.p4_device_config and not device.HasField("p4info")


def test_verify_changes_nothing(bare: Switch, program_files: tuple[Path, Path]) -> None:
    bare.p4runtime.set_pipeline(request(Set.VERIFY, program_files))
    assert not bare.p4runtime.has_pipeline


def test_a_saved_pipeline_takes_writes_and_forwards_once_committed(
    bare: Switch, program_files: tuple[Path, Path]
) -> None:
    endpoint = bare.p4runtime
    endpoint.set_pipeline(request(Set.VERIFY_AND_SAVE, program_files))
    group = p4rt.PacketReplicationEngineEntry()
    group.multicast_group_entry.multicast_group_id = 1
    group.multicast_group_entry.replicas.add(egress_port=4)
    written = entry(e.EXACT, exact(1, 0x020000000001), do=action(e.BROADCAST, 1), metadata=b"saved")
    write(endpoint, INSERT, group, written)
    assert bare.inject(1, frame()) == []
    assert bare.drops()["no_program"] == 1
    endpoint.set_pipeline(request(Set.COMMIT))
    assert bare.inject(1, frame()) == [(4, frame())]
    assert read(endpoint, entry(e.EXACT, exact(1, 0x020000000001))) == [written]
    assert read(endpoint, p4rt.PacketReplicationEngineEntry()) == [group]
    assert code_of(lambda: endpoint.set_pipeline(request(Set.COMMIT))) == Code.NOT_FOUND


def test_a_commit_clears_entries_and_replication(endpoint: Endpoint, program_files: tuple[Path, Path]) -> None:
    group = p4rt.PacketReplicationEngineEntry()
    group.multicast_group_entry.multicast_group_id = 1
    write(endpoint, INSERT, group, entry(e.EXACT, exact(1, 1), do=forward(3)))
    endpoint.set_pipeline(request(Set.VERIFY_AND_COMMIT, program_files))
    assert read(endpoint, p4rt.TableEntry(table_id=e.EXACT), p4rt.PacketReplicationEngineEntry()) == []


def populate(endpoint: Endpoint) -> list[Any]:
    """Write something of everything; returns the filters that read it."""
    member = p4rt.ActionProfileMember(action_profile_id=e.PROFILE, member_id=3, action=forward(5))
    indirect = entry(e.INDIRECT, exact(1, 0x77))
    indirect.action.action_profile_member_id = 3
    shot = entry(e.GROUPED, exact(1, 5))
    shot.action.action_profile_action_set.action_profile_actions.add(action=forward(2), weight=3)
    cell = p4rt.RegisterEntry(register_id=e.CELLS, index=p4rt.Index(index=3))
    cell.data.bitstring = b"\x05"
    value_set = p4rt.ValueSetEntry(value_set_id=e.VALUE_SET)
    value_set.members.add(match=[exact(1, 0x99)])
    metered = entry(e.METERED, exact(1, 3), do=action(e.LIMIT, 2))
    metered.meter_config.CopyFrom(p4rt.MeterConfig(cir=1, cburst=2, pir=3, pburst=4))
    write(endpoint, INSERT, member)
    write(endpoint, INSERT, indirect, shot, metered, p4rt.DigestEntry(digest_id=e.LEARNED))
    write(endpoint, INSERT, entry(e.LPM, lpm(1, 0x020000000000, 16), do=forward(6), metadata=b"mine"))
    write(endpoint, INSERT, *(entry(e.EXACT, exact(1, value), do=forward(3)) for value in range(200)))
    write(endpoint, MODIFY, cell, value_set, entry(e.KEYLESS, do=forward(1), is_default_action=True))
    write(endpoint, MODIFY, p4rt.CounterEntry(counter_id=e.HITS, data=p4rt.CounterData(packet_count=4)))
    return [
        p4rt.TableEntry(counter_data=p4rt.CounterData(), meter_config=p4rt.MeterConfig()),
        p4rt.TableEntry(is_default_action=True),
        p4rt.ActionProfileMember(),
        p4rt.CounterEntry(),
        p4rt.MeterEntry(),
        p4rt.RegisterEntry(),
        p4rt.ValueSetEntry(),
        p4rt.DigestEntry(),
    ]


def test_reconcile_keeps_everything_under_a_new_program(
    switch: Switch, endpoint: Endpoint, program_files: tuple[Path, Path]
) -> None:
    filters = populate(endpoint)
    before = sorted(str(each) for each in read(endpoint, *filters))
    message = request(Set.RECONCILE_AND_COMMIT, program_files, cookie=5)
    document = json.loads(message.config.p4_device_config)
    document["pipelines"][0]["tables"][0]["max_size"] = 4096
    message.config.p4_device_config = json.dumps(document).encode()
    endpoint.set_pipeline(message)
    assert sorted(str(each) for each in read(endpoint, *filters)) == before
    assert get(endpoint).config.cookie.cookie == 5
    assert switch.inject(1, frame(destination=7)) == [(1, frame(destination=7))]


def test_reconcile_to_the_same_program_changes_nothing(endpoint: Endpoint, program_files: tuple[Path, Path]) -> None:
    endpoint.set_pipeline(request(Set.VERIFY_AND_COMMIT, program_files))
    filters = populate(endpoint)
    before = read(endpoint, *filters)
    endpoint.set_pipeline(request(Set.RECONCILE_AND_COMMIT, program_files, cookie=7))
    assert read(endpoint, *filters) == before and get(endpoint).config.cookie.cookie == 7


def test_reconcile_is_refused_when_entries_have_no_place(
    switch: Switch, endpoint: Endpoint, program_files: tuple[Path, Path]
) -> None:
    filters = populate(endpoint)
    before = read(endpoint, *filters)
    message = request(Set.RECONCILE_AND_COMMIT, program_files)
    document = json.loads(message.config.p4_device_config)
    document["pipelines"][0]["tables"][0]["max_size"] = 16
    message.config.p4_device_config = json.dumps(document).encode()
    assert code_of(lambda: endpoint.set_pipeline(message)) == Code.INVALID_ARGUMENT
    assert read(endpoint, *filters) == before
    assert refusal(endpoint, INSERT, entry(e.EXACT, exact(1, 1), do=forward(3))) == Code.ALREADY_EXISTS


def test_a_wrong_pipeline_is_refused_and_the_old_one_stays(
    switch: Switch, endpoint: Endpoint, program_files: tuple[Path, Path]
) -> None:
    write(endpoint, INSERT, entry(e.EXACT, exact(1, 0x020000000001), do=forward(3)))
    wrong: list[Any] = []
    for config in (b"", b"{", b"[]", b"{}", b"\xff\xfe\x01"):
        message = request(Set.VERIFY_AND_COMMIT, program_files)
        message.config.p4_device_config = config
        wrong.append(message)
    stranger = request(Set.VERIFY_AND_COMMIT, program_files)
    stranger.config.p4info.tables[0].preamble.name = "Ingress.stranger"
    narrow = request(Set.VERIFY_AND_COMMIT, program_files)
    narrow.config.p4info.tables[0].match_fields[0].bitwidth = 64
    twice = request(Set.VERIFY_AND_COMMIT, program_files)
    twice.config.p4info.tables[1].preamble.id = twice.config.p4info.tables[0].preamble.id
    wrong += [stranger, narrow, twice, request(Set.VERIFY_AND_COMMIT), request(Set.UNSPECIFIED, program_files)]
    wrong.append(request(Set.COMMIT, program_files))
    for message in wrong:
        assert code_of(lambda message=message: endpoint.set_pipeline(message)) == Code.INVALID_ARGUMENT  # type: ignore[misc]
    assert switch.inject(1, frame()) == [(3, frame())]


def test_the_device_configuration_of_old_clients_is_taken(bare: Switch, program_files: tuple[Path, Path]) -> None:
    message = request(Set.VERIFY_AND_COMMIT, program_files)
    content = message.config.p4_device_config
    length = bytes([len(content) & 0x7F | 0x80, len(content) >> 7 & 0x7F | 0x80, len(content) >> 14])
    message.config.p4_device_config = b"\x08\x01\x1a" + length + content
    bare.p4runtime.set_pipeline(message)
    assert bare.inject(1, frame(ether_type=0x8899)) == [(7, frame(ether_type=0x8899))]


def test_another_device_is_not_here(endpoint: Endpoint) -> None:
    assert code_of(lambda: endpoint.write(p4rt.WriteRequest(device_id=9))) == Code.NOT_FOUND
    assert code_of(lambda: endpoint.read(p4rt.ReadRequest(device_id=9))) == Code.NOT_FOUND
    assert code_of(lambda: endpoint.capabilities(b"\x08\x09")) == Code.NOT_FOUND
    assert code_of(lambda: endpoint.get_pipeline(Get(device_id=9))) == Code.NOT_FOUND
    assert endpoint.capabilities().p4runtime_api_version == "1.4.1"


def test_a_program_loaded_behind_the_endpoint_ends_its_pipeline(
    switch: Switch, endpoint: Endpoint, library: Path
) -> None:
    switch.load_library(library)
    assert code_of(lambda: endpoint.read(p4rt.ReadRequest())) == Code.FAILED_PRECONDITION


def test_a_program_is_loaded_between_the_writes_of_others(
    switch: Switch, endpoint: Endpoint, library: Path, program_files: tuple[Path, Path]
) -> None:
    batch = bulk_inserts(5000)
    outcomes: list[Code | None] = []

    def write_all() -> None:
        try:
            endpoint.write(batch)
            outcomes.append(None)
        except StatusError as error:
            outcomes.append(error.code)

    for _ in range(10):
        endpoint.bind(program_files[1].read_text(), program_files[0].read_bytes())
        writer = threading.Thread(target=write_all)
        writer.start()
        switch.load_library(library)
        writer.join()
    assert len(outcomes) == 10 and set(outcomes) <= {None, Code.FAILED_PRECONDITION}


def test_the_depth_register_outlives_a_new_pipeline(bare: Switch, program_files: tuple[Path, Path]) -> None:
    from softswitch.settings import DepthRegister

    endpoint = bare.p4runtime
    endpoint.set_depth_register(DepthRegister("cells", "packets"))
    for _ in range(2):
        endpoint.set_pipeline(request(Set.VERIFY_AND_COMMIT, program_files))
        cells = {bare._ffi.string(bare.objects.registers[i].name): bare.objects.registers[i] for i in range(3)}
        assert cells[b"Ingress.cells"].live_depth


def test_packets_go_out_and_come_in_with_their_metadata(switch: Switch, endpoint: Endpoint) -> None:
    packet = p4rt.PacketOut(payload=frame())
    packet.metadata.add(metadata_id=1, value=b"\x04")
    packet.metadata.add(metadata_id=2, value=b"\0")
    endpoint.packet_out(packet)
    switch.run()
    assert switch.take() == [(4, frame())]
    write(endpoint, INSERT, entry(e.EXACT, exact(1, 0x020000000001), do=forward(e.CPU_PORT)))
    assert switch.inject(3, frame()) == []
    (message,) = endpoint.messages()
    assert message.packet.payload == frame()
    assert [(each.metadata_id, each.value) for each in message.packet.metadata] == [(1, b"\x03"), (2, b"\0")]


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ([(1, b"\x04")], Code.INVALID_ARGUMENT),
        ([(1, b"\x04"), (2, b"\0"), (3, b"\0")], Code.INVALID_ARGUMENT),
        ([(1, b"\x04"), (1, b"\0")], Code.INVALID_ARGUMENT),
        ([(1, b"\x02\x00"), (2, b"\0")], Code.OUT_OF_RANGE),
        ([(1, b""), (2, b"\0")], Code.OUT_OF_RANGE),
    ],
)
def test_wrong_packet_out_metadata_are_refused(endpoint: Endpoint, metadata: list[Any], code: Code) -> None:
    packet = p4rt.PacketOut(payload=frame())
    for identifier, value in metadata:
        packet.metadata.add(metadata_id=identifier, value=value)
    assert code_of(lambda: endpoint.packet_out(packet)) == code
