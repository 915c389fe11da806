"""The files of the CPU device in the cache: each is the SHA-256 of an object file, then the object file.

    root/cpu/<64 hexadecimal digits of the key>.object
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from npu_tensor.runtime.store.files import Damage, read_file, write_atomically

__all__ = ["FOLDER", "SUFFIX", "read_object", "write_object"]

FOLDER: Final = "cpu"
SUFFIX: Final = ".object"

_CHECKSUM_BYTES: Final = hashlib.sha256().digest_size


def read_object(path: Path) -> bytes:
    """The object file, which has its checksum. Raises Damage if it has not, and OSError."""
    content = read_file(path)
    checksum, code = content[:_CHECKSUM_BYTES], content[_CHECKSUM_BYTES:]
    if hashlib.sha256(code).digest() != checksum:
        raise Damage(f"{path.name} does not have its checksum")
    return code


def write_object(path: Path, code: bytes) -> None:
    """Write an object file so that other processes see all of it or nothing. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, hashlib.sha256(code).digest() + code)
