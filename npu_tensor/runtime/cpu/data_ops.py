"""The data ops that are compiled: loops one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from npu_tensor.runtime.cpu.composed import Compose, compose_sequence
from npu_tensor.runtime.cpu.rotation import compose_rotation

__all__ = ["COMPOSED"]

COMPOSED: Final[Mapping[str, Compose]] = MappingProxyType({"arange_from": compose_sequence, "rotate": compose_rotation})
"""By the name of the op."""
