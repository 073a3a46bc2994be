# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Whether what a policy makes of every switch finds room in the program's tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from controller.compiler.state import DesiredState
from controller.p4rt.entities import TableEntry
from controller.p4rt.pipeline import Pipeline
from controller.policy import Policy

_FIELDS: Final = {"gradient_class": "jobs", "judge": "judgement", "punt": "punt"}
"""The field of a policy that fills a table."""


def check_capacity(policy: Policy, states: Mapping[str, DesiredState], pipeline: Pipeline) -> None:
    """Raise UsageError for the first table that would be overfull: its switch would refuse the rows beyond."""
    for state in states.values():
        rows = Counter(entity.table for entity in state.entities if isinstance(entity, TableEntry))
        for table, count in rows.items():
            size = pipeline.tables[table].size
            if count > size:
                field = _FIELDS.get(table)
                raise policy.error(
                    f"makes {count} rows of table {table} on {state.switch}, which holds {size}",
                    *(() if field is None else (field,)),
                )
