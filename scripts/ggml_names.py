"""Print which of GGML's ops npu_tensor has under their names: `python scripts/ggml_names.py`.

The names are those of the installed library: pip install ggml-python.
"""

from __future__ import annotations

import ctypes
import importlib.util
from pathlib import Path

from npu_tensor import functions  # noqa: F401 - registers them
from npu_tensor._util.extras import install_command
from npu_tensor.ops import OPS, registry

NO_COMPUTATION = {"NONE", "UNARY", "GLU", "MAP_CUSTOM1", "MAP_CUSTOM2", "MAP_CUSTOM3", "CUSTOM"}
"""Entries of the enumeration for no op, for groups of ops, or for functions of the caller."""


def names_of_the_library() -> list[str]:
    """Return the ops of `enum ggml_op` in order. Raises SystemExit if the library is not installed."""
    package = importlib.util.find_spec("ggml")
    if package is None or not package.submodule_search_locations:
        raise SystemExit(f"ggml is missing: {install_command('ggml-python')}")
    library = ctypes.CDLL(str(Path(package.submodule_search_locations[0]) / "lib" / "libggml-base.so"))
    library.ggml_op_name.restype = ctypes.c_char_p
    names = []
    while not names or names[-1] != "GLU":  # the last one
        names.append(library.ggml_op_name(len(names)).decode())
    return [name for name in names if name not in NO_COMPUTATION]


def names_here() -> set[str]:
    """Return the GGML names of ops and functions."""
    texts = [op.ggml for op in OPS.values()] + [entry.ggml for entry in registry.PUBLIC.values()]
    return {name for text in texts for name in text.split(", ")}


def main() -> None:
    """Print the count and the missing names."""
    there, known = names_here(), names_of_the_library()
    missing = [name for name in known if name not in there]
    gradients = [name for name in missing if name.endswith("_BACK") or name.startswith("OPT_STEP")]
    others = [name for name in missing if name not in gradients]
    print(f"{len(known) - len(missing)} of {len(known)} ops of ggml")
    print(f"of training, which gradients and nt.optim do: {', '.join(gradients)}")
    print(f"missing: {', '.join(others) or 'none'}")


if __name__ == "__main__":
    main()
