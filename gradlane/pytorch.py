# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Gradlane for PyTorch. Importing it lets `torch.distributed.init_process_group("gradlane")` find its process group."""

from gradlane.extras import require

require("torch", "pytorch")

from traffic.frameworks.compute import ComputeTime  # noqa: E402
from traffic.frameworks.pytorch import Attachment, attach  # noqa: E402
from traffic.frameworks.pytorch_abs_sgd import Trained, abs_sgd  # noqa: E402
from traffic.frameworks.pytorch_gate import GatedModule, gate  # noqa: E402
from traffic.frameworks.pytorch_group import GradlaneGroup  # noqa: E402

__all__ = ["Attachment", "ComputeTime", "GatedModule", "GradlaneGroup", "Trained", "abs_sgd", "attach", "gate"]
