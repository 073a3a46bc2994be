# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What a policy file may say, and how its errors name file, line and field."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import topologies
from controller import policy
from controller.compiler import compile_policy
from controller.policy import Policy
from controller.quantities import parse_classes, parse_depth
from topologies.errors import UsageError

SHIPPED = sorted(file.stem for file in policy.POLICY_FOLDER.glob("*.yaml"))


def rejected(text: str) -> str:
    with pytest.raises(UsageError) as caught:
        policy.loads(text, "bad.yaml")
    return str(caught.value)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_policy_is_valid_and_survives_a_round_trip(name: str) -> None:
    loaded = policy.load(name)
    assert loaded.name == name
    restored = Policy.model_validate(json.loads(json.dumps(policy.dump(loaded))))
    assert restored.model_dump() == loaded.model_dump()


def test_the_four_promised_policies_ship() -> None:
    assert {"dlcp", "fifo", "ecmp_flow", "trim"} <= set(SHIPPED)


def test_ecmp_flow_differs_from_dlcp_in_its_paths_alone() -> None:
    dlcp, flow = policy.load("dlcp"), policy.load("ecmp_flow")
    own = {"name", "description", "paths"}
    assert dlcp.model_dump(exclude=own) == flow.model_dump(exclude=own)
    assert {flow.paths.of_class(class_) for class_ in range(8)} == {"flow_hash"}
    assert {dlcp.paths.of_class(class_) for class_ in dlcp.classes.data} == {"round_robin"}


def test_control_stands_above_every_data_class_of_the_default() -> None:
    classes = policy.load("dlcp").classes
    assert classes.control > max(classes.data)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name: x\nqueue: {}\n", "bad.yaml:2: queue: there is no such field"),
        ("description: no name\n", "bad.yaml:1: name: missing"),
        ("name: x\nname: y\n", "bad.yaml:2: name: given twice, first in line 1"),
        ("name: x\nclasses:\n  control: 9\n", "bad.yaml:3: classes.control: input should be less than or equal to 7"),
        (
            "name: x\nclasses:\n  ordinary: true\n",
            "bad.yaml:3: classes.ordinary: input should be a valid integer, not True",
        ),
        (
            "name: x\njobs:\n  a: {id: 1, class: '3'}\n",
            "bad.yaml:3: jobs.a.class: input should be a valid integer, not '3'",
        ),
        ("name: x\njobs:\n  a: {id: true, class: 3}\n", "bad.yaml:3: jobs.a.id: input should be a valid integer"),
        ("name: x\njobs:\n  1: {class: 3}\n  '1': {class: 2}\n", "bad.yaml:4: jobs.1: given twice, first in line 3"),
        (
            "name: x\njobs:\n  a:\n    id: 1\n    ranges:\n    - {layers: [false, true], class: 3}\n",
            "jobs.a.ranges[0].layers: [False, True] is no range",
        ),
        (
            "name: x\nclasses:\n  dscp:\n    46: 1\n    EF: 2\n",
            "bad.yaml:5: classes.dscp.EF: 46 and 'EF' are the same DSCP",
        ),
        ("name: x\nclasses: {control: 2, data: 1-6}\n", "stand below data (class 6)"),
        ("name: x\nclasses: {dscp: {XX: 3}}\n", "is no DSCP"),
        (
            "name: x\njobs:\n  any:\n    class: 3\n    front_first: {layers: 2}\n",
            "bad.yaml:3: jobs.any: give exactly one",
        ),
        ("name: x\njobs:\n  mnist: {class: 3}\n", "bad.yaml:3: jobs.mnist: job 'mnist' needs an id"),
        ("name: x\njobs:\n  a: {id: 3, class: 3}\n  3: {class: 2}\n", "bad.yaml:4: jobs.3.id: jobs 'a' and '3' both"),
        (
            "name: x\njobs:\n  a: {id: 3, class: 3}\n  b:\n    class: 2\n    id: 3\n",
            "bad.yaml:6: jobs.b.id: jobs 'a' and",
        ),
        ("name: x\njobs:\n  any: {id: 3, class: 3}\n", "bad.yaml:3: jobs.any.id: the job `any`"),
        (
            "name: x\njobs:\n  any:\n    ranges:\n    - {layers: 0-4, class: 3}\n    - {layers: 4, class: 2}\n",
            "layers 0-4 and 4 overlap",
        ),
        (
            "name: x\njudgement:\n- classes: 1-6\n  rows:\n  - {bands: 0, above: 3 parsecs, action: drop}\n",
            "bad.yaml:5: judgement[0].rows[0].above: '3 parsecs' is no depth",
        ),
        (
            "name: x\njudgement:\n- classes: 1-6\n  rows:\n  - {bands: 0, above: 1ms, action: explode}\n",
            "bad.yaml:5: judgement[0].rows[0].action: 'explode' is not",
        ),
        (
            "name: x\njudgement:\n- classes: 1-6\n  rows:\n  - {bands: 0, importance: 9, above: 1ms, action: drop}\n",
            "give bands (0-7) or importance (0-255), not both",
        ),
        ("name: x\njudgement:\n- {classes: 3-9, rows: []}\n", "3-9 is no range of classes"),
        ("name: x\npaths: {default: teleport}\n", "bad.yaml:2: paths.default: 'teleport' is not"),
        ("name: x\npaths:\n  weights: {spine1: -1}\n", "bad.yaml:3: paths.weights: the weight of spine1 is -1"),
        ("name: x\npaths:\n  weights: {spine1: true}\n", "paths.weights: the weight of spine1 is True"),
        ("name: x\npaths:\n  weights: heavy\n", "bad.yaml:3: paths.weights: 'heavy' is neither"),
        ("name: x\nqueues:\n  default: {full: 90%}\n", "bad.yaml:3: queues.default: give a limit"),
        ("name: x\nqueues:\n  default: {bytes: 90%}\n", "90% is no limit"),
        ("name: x\nqueues:\n  default: {packets: 10, full: 101%}\n", "bad.yaml:3: queues.default.full: a share"),
        ("name: x\nparser_faults: {by_fault: {bad_hair: drop}}\n", "'bad_hair' is not"),
        ("name: x\npunt:\n- {ether_type: 70000, action: send}\n", "bad.yaml:3: punt[0].ether_type"),
        ("- a\n- b\n", "must be a mapping"),
        ("name: [x\n", "not valid YAML"),
        ("", "must be a mapping"),
    ],
)
def test_a_bad_policy_is_told_by_file_line_and_field(text: str, complaint: str) -> None:
    message = rejected(text)
    assert complaint in message
    assert "\n" not in message


def test_an_unknown_policy_name_lists_those_that_ship() -> None:
    with pytest.raises(UsageError, match="dlcp"):
        policy.load("no_such_policy")


def test_a_missing_policy_file_is_named() -> None:
    with pytest.raises(UsageError, match="/nowhere/p.yaml: cannot read the policy: No such file"):
        policy.load("/nowhere/p.yaml")


@pytest.mark.parametrize(
    ("layers", "classes", "expected"),
    [
        (12, "1-6", {0: 6, 1: 6, 2: 5, 11: 1, 500: 1}),
        (3, "1-6", {0: 6, 1: 4, 2: 2, 3: 2}),
        (1, "1-6", {0: 6, 9: 6}),
        (50, "2,4", {0: 4, 24: 4, 25: 2, 49: 2, 65535: 2}),
        (7, "1-3", {layer: 3 - layer * 3 // 7 for layer in range(7)}),
    ],
)
def test_front_first_gives_class_by_layer_times_k_over_layers(
    layers: int, classes: str, expected: dict[int, int]
) -> None:
    job = policy.loads(f"name: x\njobs:\n  any: {{front_first: {{layers: {layers}, classes: '{classes}'}}}}\n").jobs[
        "any"
    ]
    rules = job.layer_classes(())
    for layer, class_ in expected.items():
        assert [rule[2] for rule in rules if rule[0] <= layer <= rule[1]] == [class_]


def test_depths_are_read_in_every_unit() -> None:
    assert parse_depth("64KB").bytes_at(1, 1500) == 64_000
    assert parse_depth("64KiB").bytes_at(1, 1500) == 65_536
    assert parse_depth(512).bytes_at(1, 1500) == 512
    assert parse_depth("2ms").bytes_at(100_000_000, 1500) == 25_000
    assert parse_depth("40 packets").bytes_at(1, 1500) == 60_000
    assert parse_depth("50%").bytes_at(1, 1500, 1000) == 500
    with pytest.raises(ValueError, match="the queue has none"):
        parse_depth("50%").bytes_at(1, 1500)
    for value in (10**13, "9" * 400 + "GB", "2000000000000 packets"):
        with pytest.raises(ValueError, match="depth|deeper than any queue"):
            parse_depth(value)


def test_classes_are_read_in_every_form() -> None:
    assert parse_classes("all") == tuple(range(8))
    assert parse_classes("1-3,6") == parse_classes([1, "2-3", 6]) == (1, 2, 3, 6)


def test_a_queue_without_full_survives_a_round_trip() -> None:
    loaded = policy.loads("name: x\nqueues:\n  default: {bytes: 1MB, full: off}\n")
    restored = Policy.model_validate(policy.dump(loaded))
    assert restored.queues.default is not None
    assert restored.queues.default.full is None


def test_a_job_is_found_by_name_or_number() -> None:
    loaded = policy.loads("name: x\njobs:\n  mnist: {id: 7, class: 3}\n  9: {class: 2}\n  any: {class: 1}\n")
    assert (loaded.job_id("mnist"), loaded.job_id("9")) == (7, 9)
    with pytest.raises(UsageError, match="names no job 'cifar'"):
        loaded.job_id("cifar")


def test_the_example_in_the_docs_is_valid_and_fits_the_default_fabric() -> None:
    document = Path(__file__).parents[3] / "docs" / "policy.md"
    example = document.read_text().split("```yaml\n")[1].split("```")[0]
    assert compile_policy(policy.loads(example, document), topologies.load("leaf_spine"))


def test_every_policy_that_ships_is_listed_in_the_docs() -> None:
    document = (Path(__file__).parents[3] / "docs" / "policy.md").read_text()
    assert all(f"| `{name}`" in document for name in SHIPPED)


def test_the_json_schema_names_every_top_level_field() -> None:
    assert set(policy.json_schema()["properties"]) == set(Policy.model_fields)
