# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""gradctl that is told to end puts its things away first."""

import signal
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gradlane import cli


def test_sigterm_unwinds_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    folders: list[Path] = []

    def work(_: object) -> int:
        with TemporaryDirectory() as folder:
            folders.append(Path(folder))
            signal.raise_signal(signal.SIGTERM)
        return 0

    monkeypatch.setattr(cli, "run", work)
    former = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended:
            cli.main()
    finally:
        signal.signal(signal.SIGTERM, former)
    assert ended.value.code == 128 + signal.SIGTERM
    assert not folders[0].exists()
