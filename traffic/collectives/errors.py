# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""How a collective fails.

FailureError (topologies/errors.py)
└── CollectiveError    a collective ended without its result, on every rank
"""

from topologies.errors import FailureError


class CollectiveError(FailureError):
    """A collective ended without its result; the message says which rank or server, which tensor, after how long."""
