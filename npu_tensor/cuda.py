"""What PyTorch programs ask of CUDA before they choose a device: there is none here."""

from __future__ import annotations

__all__ = ["device_count", "is_available"]


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0
