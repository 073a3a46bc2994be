# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""How a message can fail.

FailureError (topologies/errors.py)
└── TransportError     a message did not get through
    ├── PeerLost       nothing was heard of the other end for as long as the settings grant
    ├── Overdue        the other end is alive, but the message took longer than the settings grant
    ├── Refused        the two ends disagree about the message: its number of values or their type
    └── Cancelled      this end gave the message up, or was closed
"""

from topologies.errors import FailureError


class TransportError(FailureError):
    """A message did not get through."""


class PeerLost(TransportError):
    """Nothing was heard of the other end for as long as the settings grant."""


class Overdue(TransportError):
    """The other end is alive, but the message took longer than the settings grant."""


class Refused(TransportError):
    """The two ends disagree about the message."""


class Cancelled(TransportError):
    """This end gave the message up, or was closed."""
