# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The embedded switch does with our templates what BMv2 does: as recorded, and where BMv2 is here on new cases."""

from __future__ import annotations

import json

import pytest

from tests.differential.embedded import embedded
from tests.differential.oracle import missing
from tests.differential.outcome import differences
from tests.differential.record import HASHES, RECORDED, compare, source_hash
from tests.differential.templates import TEMPLATES


@pytest.mark.parametrize("name", TEMPLATES)
def test_what_bmv2_did_is_done_again(name: str) -> None:
    template = TEMPLATES[name]
    case = template.case(0)
    with embedded(template.program, case) as switch:
        got = switch.outcome().lines()
    wanted = (RECORDED / f"{name}.txt").read_text().splitlines()
    assert len(wanted) >= len(case.frames)
    assert differences(wanted, got, case.frames) == []


@pytest.mark.parametrize("name", TEMPLATES)
def test_compiled_templates_are_made_of_their_sources(name: str) -> None:
    assert json.loads(HASHES.read_text())[name] == source_hash(TEMPLATES[name].program)


def check(name: str, seed: int) -> None:
    if reason := missing():
        pytest.skip(reason)
    _, said = compare(TEMPLATES[name], seed)
    assert not said, "\n".join(said[:10])


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_new_case_leaves_bmv2_as_it_leaves_us(name: str) -> None:
    check(name, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 12))
@pytest.mark.parametrize("name", TEMPLATES)
def test_many_new_cases_leave_bmv2_as_they_leave_us(name: str, seed: int) -> None:
    check(name, seed)
