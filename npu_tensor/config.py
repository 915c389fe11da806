"""Settings: typed, read from the environment once at import, changeable for the length of a with block.

with config.scope(eager=True):
    y = x + 1
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from npu_tensor.errors import ArgumentError

__all__ = ["Config", "config"]

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"", "0", "false", "no", "off"})


def _parse(variable: str, text: str, kind: type) -> Any:
    if kind is bool:
        word = text.strip().lower()
        if word in _TRUE | _FALSE:
            return word in _TRUE
        raise ArgumentError(f"{variable}={text!r} is not a truth value; use 1 or 0")
    if kind is int:
        try:
            return int(text)
        except ValueError:
            raise ArgumentError(f"{variable}={text!r} is not an integer") from None
    return kind(text)


def _setting(variable: str, default: Any, doc: str) -> Any:
    """A field that takes its default from an environment variable."""
    kind = type(default)

    def read() -> Any:
        text = os.environ.get(variable)
        return default if text is None else _parse(variable, text, kind)

    return field(default_factory=read, metadata={"variable": variable, "default": default, "doc": doc})


@dataclass(slots=True)
class Config:
    """All settings. `Config.table()` lists them for the documentation."""

    eager: bool = _setting("NPU_TENSOR_EAGER", False, "run every op as it is recorded (for debugging)")
    device: str = _setting(
        "NPU_TENSOR_DEVICE", "cpu", "what `nt.set_default_device` is called with at the start: cpu, sim:npu1, sim:npu2"
    )
    debug: int = _setting("NPU_TENSOR_DEBUG", 0, "1: plans and compilations, 2: every kernel that runs")
    threads: int = _setting("NPU_TENSOR_THREADS", 0, "threads of the CPU device; 0 = all cores of this process")
    max_depth: int = _setting(
        "NPU_TENSOR_MAX_DEPTH", 4096, "ops that may be recorded in a chain before it is run; bounds memory in loops"
    )
    cpu_features: str = _setting(
        "NPU_TENSOR_CPU_FEATURES", "", "lower the instruction set of the CPU device: avx2, sse2, or -feature,-feature"
    )
    cpu_compile: bool = _setting("NPU_TENSOR_CPU_COMPILE", True, "0: every op runs its NumPy reference")
    cache_path: str = _setting("NPU_TENSOR_CACHE_DIR", "", "directory of compiled kernels; default: the user's cache")
    pool_bytes: int = _setting("NPU_TENSOR_POOL_BYTES", 1 << 30, "free memory kept for reuse, in bytes")

    def __post_init__(self) -> None:
        for name, least in {"threads": 0, "max_depth": 1, "pool_bytes": 0}.items():
            if getattr(self, name) < least:
                raise ArgumentError(f"NPU_TENSOR_{name.upper()}={getattr(self, name)} must be at least {least}")

    @property
    def cache_dir(self) -> Path:
        """Directory of compiled kernels. Not created here."""
        if self.cache_path:
            return Path(self.cache_path)
        from platformdirs import user_cache_path

        return user_cache_path("npu_tensor")

    @contextmanager
    def scope(self, **settings: Any) -> Iterator[None]:
        """Change settings for a with block; for the whole process, not for one thread."""
        previous = {name: getattr(self, name) for name in settings}
        for name, value in settings.items():
            setattr(self, name, value)
        try:
            yield
        finally:
            for name, value in previous.items():
                setattr(self, name, value)

    @classmethod
    def table(cls) -> list[dict[str, str]]:
        """One row per setting: variable, default and meaning."""
        return [
            {"variable": f.metadata["variable"], "default": str(f.metadata["default"]), "doc": f.metadata["doc"]}
            for f in fields(cls)
        ]


config = Config()
