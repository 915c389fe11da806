"""The power mode of an NPU, which XRT's tool xrt-smi sets. Some drivers let only root do that."""

from __future__ import annotations

from typing import Final

from npu_tensor._util.user_warnings import warn
from npu_tensor.errors import DeviceError
from npu_tensor.runtime.devices.system import tool_output

__all__ = ["set_power_mode"]

_XRT_NAMES: Final = {"low": "powersaver", "medium": "balanced", "high": "performance", "turbo": "turbo"}
"""What the tool calls the modes of iree-amd-aie."""


def set_power_mode(bdf: str, mode: str) -> None:
    """Ask the driver for a mode: low, medium, high or turbo. Warns if it does not comply; work goes on in any mode."""
    try:
        tool_output("xrt-smi", "configure", "--device", bdf, "--pmode", _XRT_NAMES[mode])
    except DeviceError as error:
        warn(f"the power mode of NPU {bdf} is not {mode}: {error}")
