# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Who may control a message: a keyed MAC over control messages, and a window that takes each of them once."""

import hmac
from hashlib import blake2b

MAC_BYTES = 16
WINDOW = 1024


class Seal:
    """Signs and checks control messages with a job's key (BLAKE2b, 16 bytes); without a key does neither."""

    def __init__(self, key: bytes | None) -> None:
        if key is not None and not 16 <= len(key) <= blake2b.MAX_KEY_SIZE:
            raise ValueError(f"a job's key has 16 to {blake2b.MAX_KEY_SIZE} bytes")
        self._key = key

    @property
    def keyed(self) -> bool:
        """Whether messages must be signed."""
        return self._key is not None

    def _mac(self, message: bytes) -> bytes:
        assert self._key is not None
        return blake2b(message, digest_size=MAC_BYTES, key=self._key, person=b"gradlane").digest()

    def close(self, message: bytes) -> bytes:
        """Return the message with its MAC."""
        return message if self._key is None else message + self._mac(message)

    def open(self, sealed: bytes) -> bytes | None:
        """Return the message without its MAC, None if that is not this job's."""
        if self._key is None:
            return sealed
        message, mac = sealed[:-MAC_BYTES], sealed[-MAC_BYTES:]
        return message if hmac.compare_digest(mac, self._mac(message)) else None


class ReplayWindow:
    """Takes every counter once, in any order, if it is not more than a window behind (as RFC 4303 does)."""

    def __init__(self) -> None:
        self._highest = 0
        self._taken = 0

    def take(self, counter: int) -> bool:
        """Say whether this counter is new."""
        if counter > self._highest:
            self._taken = (self._taken << min(counter - self._highest, WINDOW) | 1) & ((1 << WINDOW) - 1)
            self._highest = counter
            return True
        behind = self._highest - counter
        if not counter or behind >= WINDOW or self._taken >> behind & 1:
            return False
        self._taken |= 1 << behind
        return True
