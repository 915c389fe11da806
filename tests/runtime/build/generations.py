"""The stand-ins for releases of mlir-aie: in this process, and as an environment for others.

    with installed("1.3.4"):
        from aie.iron import ObjectFifo

    variables = environment("1.4", tmp_path, AIE_STANDIN_FAIL="module")
    subprocess.run(command, env={**os.environ, **variables})

What the stand-in is strict about, test_standin.py shows.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Final

__all__ = ["DIALECTS", "PEANO", "RELEASES", "STANDIN", "environment", "installed"]

STANDIN: Final = Path(__file__).parent / "standin"

DIALECTS: Final = {
    "1.3.4": "1.3.4",
    "1.4.0": "1.4",
    "1.4.1": "1.4",
}
"""By release: the dialect in which programs are written for it."""

RELEASES: Final = tuple(DIALECTS)

PEANO: Final = "21.0.0.2026070801"


_imported: dict[str, dict[str, ModuleType]] = {}
"""The modules of each release that was installed before; they are imported once."""


@contextmanager
def installed(release: str) -> Iterator[None]:
    """Let `import aie` find the stand-in for a release, and what was there before again afterwards."""
    path, version = list(sys.path), os.environ.get("AIE_STANDIN_VERSION")
    before = _taken_out()
    sys.modules.update(_imported.get(release, {}))
    sys.path.insert(0, str(STANDIN))
    os.environ["AIE_STANDIN_VERSION"] = release
    try:
        yield
    finally:
        _imported[release] = _taken_out()
        sys.modules.update(before)
        sys.path[:] = path
        if version is None:
            del os.environ["AIE_STANDIN_VERSION"]
        else:
            os.environ["AIE_STANDIN_VERSION"] = version


def _taken_out() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.partition(".")[0] == "aie"]
    return {name: sys.modules.pop(name) for name in names}


def environment(release: str, directory: Path, **switches: str) -> dict[str, str]:
    """Variables with which other processes find the stand-in as an installed mlir-aie, and a compiler for Peano.

    directory: where the packages' metadata and the compiler are put. switches: see aie.utils.compile.
    """
    site = directory / "site"
    peano = site / "llvm-aie"
    for name, version in (("mlir_aie", release), ("llvm_aie", PEANO)):
        information = site / f"{name}-{version}.dist-info"
        information.mkdir(parents=True, exist_ok=True)
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", "utf-8")
        (information / "RECORD").write_text("", "utf-8")
    compiler = peano / "bin" / "clang++"
    compiler.parent.mkdir(parents=True, exist_ok=True)
    compiler.write_text(f"#!/bin/sh\necho 'clang version 21.0.0 (stand-in)'\n# {release}\n", "utf-8")
    compiler.chmod(0o755)
    found = [str(STANDIN), str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "AIE_STANDIN_VERSION": release,
        "PEANO_INSTALL_DIR": str(peano),
        "PYTHONPATH": os.pathsep.join(found),
        **switches,
    }
