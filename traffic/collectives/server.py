# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A parameter server: `python -m traffic.collectives.server job.json --index 0`.

It sums what the ranks send and sends them the sums. It has no model: it learns of a tensor when the first rank begins
to send its part. It prints `ready` when its socket listens, ends with exit code 0 once all ranks have left, and with 1
and one line if the job failed.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from pathlib import Path
from types import TracebackType

from topologies.errors import GradlaneError, UsageError
from traffic.collectives.channel import SocketChannel
from traffic.collectives.errors import CollectiveError
from traffic.collectives.job import Job
from traffic.collectives.member import Member


class Server:
    """A parameter server in a thread of this process; a context manager."""

    def __init__(self, job: Job, index: int) -> None:
        if not 0 <= index < len(job.servers):
            raise UsageError(f"the job has {len(job.servers)} servers; there is no number {index}")
        self.job = job
        node = len(job.workers) + index
        self._channel = SocketChannel(job, node)
        self._member = Member(job, node, self._channel)
        self._over = threading.Event()
        self._member.on_end = self._over.set
        self._channel.run(self._member)

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until all ranks have left, and return whether they have. Raises CollectiveError if the job fails."""
        over = self._over.wait(seconds)
        if self._member.error is not None:
            raise CollectiveError(str(self._member.error))
        return over

    def stop(self) -> None:
        """Fail the job, unless it is over: the server was told to end."""
        if not self._over.is_set():
            name = self.job.who(self._member.node)
            self._channel.post(lambda: self._member.fail(f"{name} was stopped"))

    def abandon(self, reason: str) -> None:
        """End serving and tell nobody: the ranks know, or are beyond hearing."""
        self._channel.post(lambda: self._member.fail(reason, tell=False))

    def close(self) -> None:
        """End the server."""
        self._channel.leave(self._member)
        self._channel.close()


def main(arguments: list[str] | None = None) -> int:
    """Serve until all ranks have left."""
    parser = argparse.ArgumentParser(prog="python -m traffic.collectives.server", description=__doc__)
    parser.add_argument("job", type=Path, help="the job as JSON, the same for all ranks and servers")
    parser.add_argument("--index", type=int, default=0, help="which of the job's servers this is, from 0")
    options = parser.parse_args(arguments)
    try:
        with Server(Job.load(options.job), options.index) as server:
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: server.stop())
            print("ready", flush=True)
            while not server.wait(1.0):
                pass
    except GradlaneError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
