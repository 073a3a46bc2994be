# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Plan, apply and roll back against switches that can be told to refuse, to lie and to fall silent."""

from __future__ import annotations

import queue
import resource
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

from controller import install, policy
from controller.changes import Changes
from controller.p4rt.entities import Call, Default
from controller.p4rt.pipeline import Pipeline
from controller.p4rt.wire import Encoder
from controller.reconcile import Report
from tests.unit.controller.conftest import FakeFabric
from topologies.errors import FailureError, UsageError

DROP = Call("drop_judged", (("reason", 3),))
SET_CLASS_0 = Call("set_class", (("class", 0),))
Start = Callable[[str], FakeFabric]


def judge_rows(fabric: FakeFabric, pipeline: Pipeline, name: str) -> int:
    table = pipeline.table("judge").id
    return sum(entity.table_entry.table_id == table for entity in fabric.switches[name].entities.values())


def test_a_second_apply_writes_nothing(fake_fabric: Start) -> None:
    fabric = fake_fabric("leaf_spine")
    controller = fabric.controller()
    first = controller.apply(policy.load("dlcp"))
    first.check()
    assert first.changed > 0
    writes, loads = fabric.writes, [switch.loads for switch in fabric.switches.values()]
    second = controller.apply(policy.load("dlcp"))
    assert (second.changed, second.revision) == (0, first.revision)
    assert (fabric.writes, [switch.loads for switch in fabric.switches.values()]) == (writes, loads)


def test_a_plan_tells_what_apply_does_and_touches_nothing(fake_fabric: Start) -> None:
    fabric = fake_fabric("dumbbell")
    controller = fabric.controller()
    plan = controller.plan(policy.load("dlcp"))
    assert fabric.writes == 0
    report = controller.apply(policy.load("dlcp"))
    for name, changes in plan.items():
        assert isinstance(changes, Changes)
        assert changes.program
        assert len(changes) == report.switches[name].changed == len(fabric.switches[name].entities)
    assert not any(controller.plan(policy.load("dlcp")).values())


def test_changing_the_policy_replaces_what_differs_and_no_more(fake_fabric: Start, pipeline: Pipeline) -> None:
    fabric = fake_fabric("leaf_spine")
    controller = fabric.controller()
    controller.apply(policy.load("dlcp")).check()
    loads = [switch.loads for switch in fabric.switches.values()]
    plan = controller.plan(policy.load("ecmp_flow"))
    for changes in plan.values():
        assert isinstance(changes, Changes)
        tables = {str(change.entity).split()[0] for change in changes}
        assert tables <= {"path_mode", "pinned_path"}
    controller.apply(policy.load("fifo")).check()
    assert judge_rows(fabric, pipeline, "leaf1") == 1
    assert [switch.loads for switch in fabric.switches.values()] == loads


def test_rollback_brings_the_former_policy_back(fake_fabric: Start) -> None:
    fabric = fake_fabric("single")
    controller = fabric.controller()
    controller.apply(policy.load("dlcp")).check()
    before = dict(fabric.switches["s1"].entities)
    controller.apply(policy.load("fifo")).check()
    assert fabric.switches["s1"].entities != before
    report = controller.rollback()
    assert (report.policy, report.revision) == ("dlcp", 3)
    assert fabric.switches["s1"].entities == before
    assert controller.rollback(to=2).policy == "fifo"
    with pytest.raises(UsageError, match="there is no revision 9; there are 1, 2, 3, 4"):
        controller.rollback(to=9)


def test_without_a_former_policy_there_is_nothing_to_roll_back_to(fake_fabric: Start) -> None:
    controller = fake_fabric("single").controller()
    with pytest.raises(UsageError, match="no former policy"):
        controller.rollback()


def test_a_refused_update_restores_the_switch_and_names_it(fake_fabric: Start, pipeline: Pipeline) -> None:
    fabric = fake_fabric("leaf_spine")
    controller = fabric.controller()
    controller.apply(policy.load("fifo")).check()
    held = {name: dict(switch.entities) for name, switch in fabric.switches.items()}
    judge = pipeline.table("judge").id
    refusals = iter(["table full"])

    def refuse(update: p4runtime_pb2.Update) -> str | None:
        return next(refusals, None) if update.entity.table_entry.table_id == judge else None

    fabric.switches["leaf2"].refuse = refuse
    report = controller.apply(policy.load("dlcp"))
    assert report.failed == ("leaf2",)
    assert report.switches["leaf2"].restored
    assert fabric.switches["leaf2"].entities == held["leaf2"]
    assert fabric.switches["leaf1"].entities != held["leaf1"]
    with pytest.raises(FailureError) as caught:
        report.check()
    message = str(caught.value)
    assert "1 of 4 switches did not take policy dlcp" in message
    assert "leaf2: refused insert judge" in message
    assert "INVALID_ARGUMENT: table full" in message
    assert "its former state is restored" in message
    assert "\n" not in message

    controller.rollback().check()
    assert {name: switch.entities for name, switch in fabric.switches.items()} == held


def test_a_switch_that_refuses_its_first_policy_is_left_empty(fake_fabric: Start, pipeline: Pipeline) -> None:
    fabric = fake_fabric("single")
    table = pipeline.table("path_mode").id
    fabric.switches["s1"].refuse = lambda update: (
        "no" if update.entity.table_entry.table_id == table and update.type == p4runtime_pb2.Update.INSERT else None
    )
    report = fabric.controller().apply(policy.load("dlcp"))
    assert report.failed == ("s1",)
    assert fabric.switches["s1"].entities == {}


def test_what_reads_back_wrong_is_an_error_and_is_restored(fake_fabric: Start, pipeline: Pipeline) -> None:
    fabric = fake_fabric("single")
    controller = fabric.controller()
    controller.apply(policy.load("fifo")).check()
    held = dict(fabric.switches["s1"].entities)
    table = pipeline.table("path_mode").id

    def distort(entity: p4runtime_pb2.Entity) -> None:
        if entity.table_entry.table_id == table and entity.table_entry.match[0].exact.value == b"\6":
            entity.table_entry.action.action.action_id = pipeline.table("path_mode").actions["shallower_of_two"].id

    fabric.switches["s1"].distort = distort
    report = controller.apply(policy.load("dlcp"))
    assert "reads back other than written: ~ path_mode class=6" in str(report.switches["s1"].error)
    fabric.switches["s1"].distort = lambda entity: None
    assert set(fabric.switches["s1"].entities) == set(held)


def test_another_program_and_its_entries_come_back_after_a_failure(fake_fabric: Start, pipeline: Pipeline) -> None:
    fabric = fake_fabric("single")
    switch = fabric.switches["s1"]
    switch.config = p4runtime_pb2.ForwardingPipelineConfig(p4_device_config=b"other")
    switch.config.cookie.cookie = 5
    foreign = p4runtime_pb2.Entity(table_entry=p4runtime_pb2.TableEntry(table_id=77))
    switch.entities[b"foreign"] = foreign
    table = pipeline.table("next_hop").id
    switch.refuse = lambda update: "no" if update.entity.table_entry.table_id == table else None
    report = fabric.controller().apply(policy.load("dlcp"))
    assert report.switches["s1"].restored
    assert switch.config.p4_device_config == b"other"
    assert list(switch.entities.values()) == [foreign]


def test_another_programs_changed_default_actions_come_back_after_a_failure(
    fake_fabric: Start, pipeline: Pipeline
) -> None:
    fabric = fake_fabric("single")
    switch = fabric.switches["s1"]
    switch.config = p4runtime_pb2.ForwardingPipelineConfig(p4info=pipeline.p4info, p4_device_config=b"other")
    switch.config.cookie.cookie = 5
    change_default(fabric, pipeline)
    own = p4runtime_pb2.Update.FromString(Encoder(pipeline).update("insert", Default("gradient_class", SET_CLASS_0)))
    assert switch._apply(own) == (0, "")
    held = [entity for entity in switch.entities.values() if entity != own.entity]
    table = pipeline.table("next_hop").id
    switch.refuse = lambda update: "no" if update.entity.table_entry.table_id == table else None
    report = fabric.controller().apply(policy.load("dlcp"))
    assert report.switches["s1"].restored
    assert switch.config.p4_device_config == b"other"
    assert list(switch.entities.values()) == held


def test_a_restarted_switch_is_given_everything_anew(fake_fabric: Start) -> None:
    fabric = fake_fabric("leaf_spine")
    controller = fabric.controller()
    controller.apply(policy.load("dlcp")).check()
    held = dict(fabric.switches["spine1"].entities)
    fabric.switches["spine1"].restart()
    others = {name: switch.writes for name, switch in fabric.switches.items() if name != "spine1"}
    report = controller.apply(policy.load("dlcp"))
    report.check()
    assert fabric.switches["spine1"].entities == held
    assert {name: fabric.switches[name].writes for name in others} == others


def test_entries_that_somebody_changed_are_put_right(fake_fabric: Start) -> None:
    fabric = fake_fabric("single")
    controller = fabric.controller()
    controller.apply(policy.load("dlcp")).check()
    held = dict(fabric.switches["s1"].entities)
    lost = next(key for key, entity in held.items() if entity.table_entry.priority)
    del fabric.switches["s1"].entities[lost]
    assert controller.apply(policy.load("dlcp")).changed == 1
    assert fabric.switches["s1"].entities == held


def change_default(fabric: FakeFabric, pipeline: Pipeline) -> None:
    """Let a table of s1 drop what no row of it speaks of, as some other client may."""
    change = Encoder(pipeline).update("insert", Default("judge", DROP))
    assert fabric.switches["s1"]._apply(p4runtime_pb2.Update.FromString(change)) == (0, "")


def test_a_default_action_that_somebody_changed_is_put_right(fake_fabric: Start, pipeline: Pipeline) -> None:
    fabric = fake_fabric("single")
    controller = fabric.controller()
    controller.apply(policy.load("dlcp")).check()
    held = dict(fabric.switches["s1"].entities)
    change_default(fabric, pipeline)
    plan = controller.plan(policy.load("dlcp"))["s1"]
    assert isinstance(plan, Changes)
    assert list(plan.lines()) == ["- judge default -> drop_judged(reason=3)"]
    assert [change["change"] for change in plan.as_dict()["entities"]] == ["delete"]
    assert controller.apply(policy.load("dlcp")).changed == 1
    assert fabric.switches["s1"].entities == held
    assert not controller.plan(policy.load("dlcp"))["s1"]


def test_a_changed_default_action_comes_back_where_a_policy_is_undone(fake_fabric: Start, pipeline: Pipeline) -> None:
    fabric = fake_fabric("single")
    controller = fabric.controller()
    controller.apply(policy.load("dlcp")).check()
    change_default(fabric, pipeline)
    held = dict(fabric.switches["s1"].entities)
    rows = pipeline.table("gradient_class").id
    fabric.switches["s1"].refuse = lambda update: (
        "no" if update.type == p4runtime_pb2.Update.DELETE and update.entity.table_entry.table_id == rows else None
    )
    report = controller.apply(policy.load("fifo"))
    assert report.switches["s1"].restored
    assert fabric.switches["s1"].entities == held


def test_a_dead_switch_is_named_and_the_others_are_served(fake_fabric: Start) -> None:
    fabric = fake_fabric("leaf_spine")
    fabric.switches["spine2"].server.stop(grace=None).wait()
    report = fabric.controller().apply(policy.load("dlcp"))
    assert report.failed == ("spine2",)
    address = fabric.switches["spine2"].address
    assert report.switches["spine2"].error == f"spine2: no switch answers at {address}"


def test_a_silent_switch_is_named_within_the_deadline(fake_fabric: Start) -> None:
    fabric = fake_fabric("dumbbell")
    name = next(iter(fabric.switches))
    fabric.switches[name].silent.set()
    began = time.monotonic()
    report = fabric.controller(deadline=5.0).apply(policy.load("dlcp"))
    assert time.monotonic() - began < 60
    assert report.failed == (name,)
    assert "within 5 s" in str(report.switches[name].error)


def test_another_controller_takes_over_and_hands_back(fake_fabric: Start) -> None:
    fabric = fake_fabric("single")
    first, second = fabric.controller(), fabric.controller()
    with first.device("s1") as one, second.device("s1") as other:
        assert one.apply(first.compile(policy.load("dlcp"))["s1"]).error is None
        assert other.apply(second.compile(policy.load("fifo"))["s1"]).error is None
        assert one.apply(first.compile(policy.load("dlcp"))["s1"]).error is None
        assert not other.plan(second.compile(policy.load("dlcp"))["s1"])


def test_a_client_with_a_far_higher_election_id_is_overtaken_too(fake_fabric: Start) -> None:
    fabric = fake_fabric("single")
    controller = fabric.controller()
    with grpc.insecure_channel(fabric.switches["s1"].address) as channel:
        request = p4runtime_pb2.StreamMessageRequest()
        request.arbitration.device_id = 1
        request.arbitration.election_id.high = 1  # what p4runtime-shell takes by default
        requests: queue.SimpleQueue[p4runtime_pb2.StreamMessageRequest | None] = queue.SimpleQueue()
        requests.put(request)
        answers = p4runtime_pb2_grpc.P4RuntimeStub(channel).StreamChannel(iter(requests.get, None))
        next(answers)
        controller.apply(policy.load("dlcp")).check()
        requests.put(None)


def test_only_one_process_applies_at_a_time(fake_fabric: Start) -> None:
    fabric = fake_fabric("single")
    controller = fabric.controller()
    with controller.history.locked(), pytest.raises(FailureError, match="another process is applying"):
        fabric.controller(deadline=0.1).apply(policy.load("dlcp"))


def test_who_applies_waits_for_another_that_is_nearly_done(fake_fabric: Start) -> None:
    fabric = fake_fabric("single")
    controller = fabric.controller()
    with ThreadPoolExecutor(1) as pool:
        with controller.history.locked():
            waiting = pool.submit(fabric.controller().apply, policy.load("dlcp"))
            assert not waiting.done()
        assert waiting.result().failed == ()


def test_who_comes_again_and_again_keeps_nobody_out(fake_fabric: Start) -> None:
    fabric = fake_fabric("single")
    history, ended = fabric.controller().history, threading.Event()

    def come_again() -> None:
        while not ended.is_set():
            with history.locked(wait=60):
                time.sleep(0.05)  # and no time between

    with ThreadPoolExecutor(1) as pool:
        busy = pool.submit(come_again)
        try:
            fabric.controller(deadline=60).apply(policy.load("dlcp")).check()
        finally:
            ended.set()
        busy.result()


def test_a_history_that_cannot_be_written_touches_no_switch(fake_fabric: Start) -> None:
    fabric = fake_fabric("single")
    controller = fabric.controller()
    controller.apply(policy.load("dlcp")).check()
    writes = fabric.writes
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))  # as a full disk, and without root
    try:
        with pytest.raises(FailureError, match="cannot keep the policy's history in .*: File too large"):
            controller.apply(policy.load("fifo"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert fabric.writes == writes
    assert sorted(file.name for file in controller.history.folder.iterdir()) == ["0001.json", "lock", "turn"]


def test_an_interrupted_policy_is_finished_or_rolled_back(fake_fabric: Start) -> None:
    fabric = fake_fabric("single")
    controller = fabric.controller()
    controller.apply(policy.load("dlcp")).check()
    held = dict(fabric.switches["s1"].entities)

    def interrupt(update: p4runtime_pb2.Update) -> str | None:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        fabric.switches["s1"].refuse = lambda update: None
        return None

    ends: list[Callable[[], Report]] = [controller.rollback, lambda: controller.apply(policy.load("fifo"))]
    for end in ends:
        fabric.switches["s1"].refuse = interrupt
        with pytest.raises(KeyboardInterrupt):
            controller.apply(policy.load("fifo"))
        current = controller.history.current()
        assert current is not None
        assert (current.policy.name, current.failed) == ("fifo", ("s1",))
        end().check()
        current = controller.history.current()
        assert current is not None and not current.failed
        assert (fabric.switches["s1"].entities == held) == (current.policy.name == "dlcp")


def test_a_policy_that_does_not_fit_touches_no_switch(fake_fabric: Start) -> None:
    fabric = fake_fabric("single")
    with pytest.raises(UsageError, match="called 'spine9'"):
        fabric.controller().apply(policy.loads("name: x\npaths: {out_of_service: [spine9]}"))
    assert fabric.writes == 0


def test_a_policy_with_more_rows_than_a_table_holds_touches_no_switch(fake_fabric: Start) -> None:
    fabric = fake_fabric("single")
    jobs = "".join(f"  {number}: {{class: 2}}\n" for number in range(1100))
    with pytest.raises(
        UsageError, match=r"^many.yaml:2: jobs: makes 11\d\d rows of table gradient_class on s1, .* 1024$"
    ):
        fabric.controller().apply(policy.loads(f"name: many\njobs:\n{jobs}", "many.yaml"))
    assert fabric.writes == 0


def test_install_by_state_file_and_policy_name(fake_fabric: Start) -> None:
    fabric = fake_fabric("single")
    report = install(fabric.state_file, "dlcp")
    assert (report.policy, report.failed) == ("dlcp", ())
    fabric.switches["s1"].refuse = lambda update: "no"
    with pytest.raises(FailureError, match="s1: refused"):
        install(fabric.state_file, "fifo")


def test_history_survives_damage_and_forgets_other_fabrics(fake_fabric: Start) -> None:
    fabric = fake_fabric("single")
    controller = fabric.controller()
    controller.apply(policy.load("dlcp")).check()
    (controller.history.folder / "0002.json").write_text("{")
    assert [revision.number for revision in controller.history.revisions()] == [1]
    controller.apply(policy.load("fifo")).check()
    assert [revision.number for revision in controller.history.revisions()] == [1, 3]
