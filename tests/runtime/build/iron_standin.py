"""The stand-in for mlir-aie: in this process for a while, and as an installed package for the processes that build."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

STANDIN: Final = Path(__file__).parent / "standin"
VERSION: Final = "1.4.5"
PEANO: Final = "21.0.0.2026080301"


@contextmanager
def installed() -> Iterator[None]:
    """Let `import aie` find the stand-in, and nothing any more afterwards."""
    sys.path.insert(0, str(STANDIN))
    try:
        yield
    finally:
        sys.path.remove(str(STANDIN))
        for name in [name for name in sys.modules if name.partition(".")[0] == "aie"]:
            del sys.modules[name]


def executable(path: Path, prints: str = "") -> Path:
    """A program that prints a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{prints}'\n")
    path.chmod(0o755)
    return path


def install(monkeypatch: pytest.MonkeyPatch, directory: Path) -> Path:
    """Let this process, and those that it starts, find mlir-aie, Peano and xclbinutil. Returns where the wheels lie."""
    site = directory / "site"
    for name, version in (("mlir_aie", VERSION), ("llvm_aie", PEANO)):
        information = site / f"{name}-{version}.dist-info"
        information.mkdir(parents=True)
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", "utf-8")
        (information / "RECORD").write_text("", "utf-8")
    executable(site / "llvm-aie" / "bin" / "clang++", "clang version 21.0.0 (stand-in)")
    places = [str(STANDIN), str(site)]
    for place in reversed(places):
        monkeypatch.syspath_prepend(place)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([*places, *filter(None, [os.environ.get("PYTHONPATH")])]))
    monkeypatch.setenv("PEANO_INSTALL_DIR", str(site / "llvm-aie"))
    monkeypatch.setenv("AIE_XCLBINUTIL", str(executable(directory / "xclbinutil")))
    return site
