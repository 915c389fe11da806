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
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

_INCLUDE: Final = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)


class _Include(NamedTuple):
    """Include directive. If `quoted`, the search begins in the directory of the including file."""

    name: str
    quoted: bool


class _Header(NamedTuple):
    digest: str
    includes: tuple[_Include, ...]


def digests(text: str, directories: Sequence[Path]) -> dict[str, str]:
    """Return the SHA-256 of each header that `text` includes, directly or not, by its path below a directory.

    The directories are searched in order.
    """
    headers: dict[Path, _Header] = {}
    pending: list[tuple[_Include, Path | None]] = [(include, None) for include in _includes(text)]
    resolved: set[tuple[_Include, Path | None]] = set()
    while pending:
        include, includer = pending.pop()
        if (include, includer) in resolved:
            continue
        resolved.add((include, includer))
        path = _resolve(include, includer, directories)
        if path is None or path in headers:
            continue
        status = path.stat()
        header = headers[path] = _read(path, status.st_mtime_ns, status.st_size, status.st_ino)
        pending.extend((further, path.parent if further.quoted else None) for further in header.includes)
    return {_name(path, directories): header.digest for path, header in sorted(headers.items())}


def _resolve(include: _Include, includer: Path | None, directories: Sequence[Path]) -> Path | None:
    places: Iterable[Path] = (includer, *directories) if include.quoted and includer else directories
    for place in places:
        name = os.path.normpath(os.path.join(place, include.name))
        if os.path.isfile(name):
            path = Path(name)
            return path if any(path.is_relative_to(directory) for directory in directories) else None
    return None


def _name(path: Path, directories: Sequence[Path]) -> str:
    return next(path.relative_to(d).as_posix() for d in directories if path.is_relative_to(d))


def _includes(text: str) -> tuple[_Include, ...]:
    return tuple(_Include(quoted or angled, bool(quoted)) for quoted, angled in _INCLUDE.findall(text))


@lru_cache(maxsize=1024)
def _read(path: Path, mtime_ns: int, size: int, inode: int) -> _Header:
    """Read a header; the numbers identify its state, for the cache of this function."""
    content = path.read_bytes()
    return _Header(hashlib.sha256(content).hexdigest(), _includes(content.decode("utf-8", "replace")))
