"""The power mode of an NPU, which XRT's tool xrt-smi sets. Some drivers let only root do that."""

from __future__ import annotations

import subprocess
from typing import Final

from npu_tensor.user_warnings import warn

__all__ = ["set_power_mode"]

SECONDS: Final = 10
"""Time for the tool to answer."""

_XRT_NAMES: Final = {"low": "powersaver", "medium": "balanced", "high": "performance", "turbo": "turbo"}
"""What the tool calls the modes of iree-amd-aie."""


def set_power_mode(bdf: str, mode: str) -> None:
    """Ask the driver for a mode: low, medium, high or turbo. Warns if it does not comply; work goes on in any mode."""
    command = ["xrt-smi", "configure", "--device", bdf, "--pmode", _XRT_NAMES[mode]]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        failed = str(error)
    else:
        failed = "" if done.returncode == 0 else (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
    if failed:
        warn(f"the power mode of NPU {bdf} is not {mode}: {failed}")
