"""Kernel packs: a kernel directory as one zip file, verified when it is made and before it is unpacked.

    pack(Path("model-kernels"), Path("model.ntpack"))
    unpack(Path("model.ntpack"), Path("/opt/model-kernels"))

Packs of the same files are the same bytes. Python's `python -m zipfile -e` and unzip read them too, without the checks.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, ZipInfo

from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.errors import ArgumentError
from npu_tensor.runtime.store.files import DESCRIPTION, Damage, atomic_file, read_entry
from npu_tensor.runtime.store.kernel_directory import KernelDirectory

LARGEST_PACK: Final = 4 << 30
"""Bytes of all files of a pack, as many as the cache keeps by default."""

_EARLIEST: Final = (1980, 1, 1, 0, 0, 0)
"""First date that a zip file can hold: packs do not depend on the time of packing."""
_BROKEN: Final = (BadZipFile, EOFError, NotImplementedError, OSError, RuntimeError, ValueError, zlib.error)
"""Errors of `zipfile` for files that are damaged, encrypted or compressed in other ways."""


def pack(directory: Path, archive: Path) -> int:
    """Put the kernels of a directory into one file. Return the number of files in it.

    Raises ArgumentError if there are no kernels or one is damaged, and OSError if a file cannot be read or written.
    """
    contents = _verified(directory)
    with atomic_file(archive) as file, ZipFile(file, "w") as zipped:
        for name, path in contents.items():
            member = ZipInfo(name, _EARLIEST)
            member.compress_type = ZIP_DEFLATED
            member.external_attr = 0o644 << 16  # for other programs that unpack it
            zipped.writestr(member, path.read_bytes())
    return len(contents)


def _verified(directory: Path) -> dict[str, Path]:
    """Return all files of kernels by their names in a pack. Raises ArgumentError."""
    paths: dict[str, Path] = {}
    for arch in ARRAYS:
        folder = directory / arch
        for exported, described in KernelDirectory(directory).kernels(folder).items() if folder.is_dir() else ():
            try:
                if isinstance(described, str):
                    raise Damage(described)
                read_entry(folder, exported)
            except Damage as damage:
                raise ArgumentError(f"{folder / exported} is damaged: {damage}; generate the kernels again") from None
            paths |= {f"{arch}/{exported}{suffix}": folder / f"{exported}{suffix}" for suffix in described["files"]}
            paths[f"{arch}/{exported}{DESCRIPTION}"] = folder / f"{exported}{DESCRIPTION}"
    if not paths:
        raise ArgumentError(f"{directory} has no kernels in {' or '.join(ARRAYS)}")
    return dict(sorted(paths.items()))


def unpack(archive: Path, directory: Path) -> int:
    """Verify a pack and write its files to a new or empty directory, which appears complete or not at all.

    Returns the number of files. Raises ArgumentError if the file is not a pack or damaged, or the directory is not
    empty, and OSError if a file cannot be read or written.
    """
    directory = directory.resolve()
    if directory.exists() and not (directory.is_dir() and next(directory.iterdir(), None) is None):
        raise ArgumentError(f"{directory} exists and is not an empty directory; unpack into a new one")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=f".{directory.name}.", dir=directory.parent) as temporary:
        kernels = Path(temporary, "kernels")
        try:
            with open(archive, "rb") as file, ZipFile(file) as zipped:
                names = _extract(zipped, kernels)
            unlisted = names - _verified(kernels).keys()
            if unlisted:
                raise ArgumentError(f"{min(unlisted)!r} does not belong to a kernel")
        except ArgumentError as error:
            raise ArgumentError(f"{archive} is refused: {error}") from None
        except _BROKEN as error:
            if isinstance(error, OSError) and error.filename is not None:  # It cannot be opened, or not written.
                raise
            message = f"{archive} is not a kernel pack, or damaged: {error or type(error).__name__}"
            raise ArgumentError(message) from None
        os.rename(kernels, directory)
    return len(names)


def _extract(zipped: ZipFile, directory: Path) -> set[str]:
    """Write the files of a pack and return their names. Raises ArgumentError for a name that leads elsewhere."""
    members = zipped.infolist()
    if sum(member.file_size for member in members) > LARGEST_PACK:
        raise ArgumentError(f"its files have more than {LARGEST_PACK} bytes")
    directory.mkdir()
    for member in members:
        arch, _, rest = member.filename.partition("/")
        if arch not in ARRAYS or not rest or rest.startswith(".") or set(rest) & {"/", "\\"}:
            raise ArgumentError(f"{member.filename!r} is not a file in {' or '.join(ARRAYS)}")
        (directory / arch).mkdir(exist_ok=True)
        # Reads no more than the size that the pack gives, and compares the CRC.
        (directory / arch / rest).write_bytes(zipped.read(member))
    return {member.filename for member in members}
