"""Headers of the package that a C++ source includes, and their digests, which are part of the keys of kernels.

    digests(source.text, [kernels / "include"])    # {"nt/arithmetic.hpp": "9f86d0...", ...}

Includes are read from the text, without a compiler, so a machine without one can compute keys. Preprocessor conditions
are not evaluated: a conditional include counts too. A header outside of the directories belongs to the compiler and
does not count.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

_INCLUDE: Final = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.MULTILINE)


def digests(text: str, directories: Sequence[Path]) -> dict[str, str]:
    """Return the SHA-256 of each header that `text` includes, directly or not, by its path below a directory.

    A header is searched beside the one that includes it, then in the directories in order.
    """
    headers: dict[Path, str] = {}
    pending: list[tuple[str, Path | None]] = [(name, None) for name in _INCLUDE.findall(text)]
    resolved: set[tuple[str, Path | None]] = set()
    while pending:
        include = pending.pop()
        if include in resolved:
            continue
        resolved.add(include)
        path = _resolve(*include, directories)
        if path is None or path in headers:
            continue
        status = path.stat()
        headers[path], included = _read(path, status.st_mtime_ns, status.st_size, status.st_ino)
        pending += [(name, path.parent) for name in included]
    return {_name(path, directories): digest for path, digest in sorted(headers.items())}


def _resolve(header: str, beside: Path | None, directories: Sequence[Path]) -> Path | None:
    for place in (beside, *directories) if beside else directories:
        name = os.path.normpath(os.path.join(place, header))
        if os.path.isfile(name):
            path = Path(name)
            return path if any(path.is_relative_to(directory) for directory in directories) else None
    return None


def _name(path: Path, directories: Sequence[Path]) -> str:
    return next(path.relative_to(d).as_posix() for d in directories if path.is_relative_to(d))


@lru_cache(maxsize=1024)
def _read(path: Path, mtime_ns: int, size: int, inode: int) -> tuple[str, list[str]]:
    """Return the digest of a header and its includes; the numbers identify its state, for the cache."""
    content = path.read_bytes()
    return hashlib.sha256(content).hexdigest(), _INCLUDE.findall(content.decode("utf-8", "replace"))
