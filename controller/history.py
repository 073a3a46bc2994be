# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The policies that a fabric has been given, in order: what `show` shows and `rollback` goes back to.

They lie beside the fabric's state file, one file for each revision: `build/fabric.json` has `build/policy/0001.json`
and on. A fabric that starts anew begins its own history.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from controller.policy import Policy, dump
from topologies.drafts import whole
from topologies.errors import FailureError, UsageError

_LOCK_POLL_S = 0.02


@dataclass(frozen=True)
class Revision:
    """One policy as it was given to a fabric. `failed` names the switches that did not take it."""

    number: int
    policy: Policy
    run: int
    time: float
    note: str = ""
    failed: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "number": self.number,
            "policy": dump(self.policy),
            "run": self.run,
            "time": self.time,
            "note": self.note,
            "failed": list(self.failed),
        }


class History:
    """The revisions of one running fabric, which is told by its run number."""

    def __init__(self, state_file: Path, run: int) -> None:
        self.folder = state_file.parent / "policy"
        self.run = run

    @contextmanager
    def locked(self, wait: float = 0.0) -> Iterator[None]:
        """Hold the fabric's lock: one process applies at a time. Raises FailureError if another does, for `wait`.

        Who waits holds the turn, so that one who comes again and again, as the rerouter where a link flaps, keeps
        nobody out.
        """
        deadline = time.monotonic() + wait
        with ExitStack() as held:
            with ExitStack() as next_:
                self._lock("turn", deadline, next_)
                self._lock("lock", deadline, held)
            yield

    def _lock(self, name: str, deadline: float, held: ExitStack) -> None:
        file = self.folder / name
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._share(self.folder)
            lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            held.callback(os.close, lock)
            self._share(file)
        except OSError as error:
            raise FailureError(f"cannot keep the policy's history in {self.folder}: {error.strerror}") from None
        while not _try_lock(lock):
            if time.monotonic() >= deadline:
                raise FailureError("another process is applying a policy to this fabric; try again when it is done")
            time.sleep(_LOCK_POLL_S)

    def note_applying(self) -> None:
        """Let `last_applied` tell another time from now on; for whoever holds the lock."""
        os.utime(self.folder / "lock")

    def last_applied(self) -> int:
        """Return when somebody last began to apply a policy, in ns."""
        return (self.folder / "lock").stat().st_mtime_ns

    def revisions(self) -> list[Revision]:
        """Return every revision of this run, oldest first."""
        found = [_read(file) for file in sorted(self.folder.glob("[0-9]*.json"))]
        return [revision for revision in found if revision is not None and revision.run == self.run]

    def current(self) -> Revision | None:
        """Return the last revision, or None if the fabric has been given no policy."""
        revisions = self.revisions()
        return revisions[-1] if revisions else None

    def before_current(self) -> Revision:
        """Return what a rollback goes back to: the last revision before the current that every switch took.

        Raises UsageError where there is none.
        """
        for revision in reversed(self.revisions()[:-1]):
            if not revision.failed:
                return revision
        raise UsageError("there is no former policy to roll back to")

    def revision(self, number: int) -> Revision:
        """Return one revision by number. Raises UsageError where there is none."""
        revisions = {revision.number: revision for revision in self.revisions()}
        if number not in revisions:
            raise UsageError(f"there is no revision {number}; there are {', '.join(map(str, revisions)) or 'none'}")
        return revisions[number]

    def _share(self, path: Path) -> None:
        """Give what root made to the owner of the folder around, so that a fabric under sudo is steered without it."""
        if os.geteuid() == 0:
            owner = self.folder.parent.stat()
            os.chown(path, owner.st_uid, owner.st_gid)

    def add(self, policy: Policy, note: str = "", failed: tuple[str, ...] = ()) -> Revision:
        """Write a new revision and return it."""
        numbers = [int(file.stem) for file in self.folder.glob("[0-9]*.json") if file.stem.isdecimal()]
        for file in self.folder.glob("[0-9]*.json"):
            former = _read(file)
            if former is not None and former.run != self.run:
                file.unlink(missing_ok=True)
        return self._write(Revision(max(numbers, default=0) + 1, policy, self.run, time.time(), note, failed))

    def settle(self, revision: Revision, failed: tuple[str, ...]) -> Revision:
        """Write down which switches did not take a revision, and return it."""
        return self._write(replace(revision, failed=failed))

    def _write(self, revision: Revision) -> Revision:
        file = self.folder / f"{revision.number:04}.json"
        try:
            with whole(file) as draft:
                draft.write_text(json.dumps(revision.as_dict(), indent=1) + "\n", encoding="utf-8")
            self._share(file)
        except OSError as error:
            raise FailureError(f"cannot keep the policy's history in {self.folder}: {error.strerror}") from None
        return revision


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(file: Path) -> Revision | None:
    """Read one revision; None for a file that is none, since history must not stand in the way of a new policy."""
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        return Revision(
            number=values["number"],
            policy=Policy.model_validate(values["policy"]),
            run=values["run"],
            time=values["time"],
            note=values["note"],
            failed=tuple(values["failed"]),
        )
    except (OSError, ValueError, RecursionError, KeyError, TypeError, ValidationError):
        return None
