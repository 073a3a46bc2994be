# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""`python -m gradlane`: what `make run` runs. Ctrl-C ends it without a traceback also while it is still loading."""

import signal
import sys

former = signal.signal(signal.SIGINT, signal.SIG_DFL)  # there is nothing to undo yet

from gradlane.run import main  # noqa: E402

signal.signal(signal.SIGINT, former)
sys.exit(main())
