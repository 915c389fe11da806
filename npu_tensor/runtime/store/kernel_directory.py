"""Kernel directories: kernels made in advance, which `NPU_TENSOR_KERNEL_DIR` and `GGML_HSA_KERNEL_DIR` name.

    <directory>/aie2p/add_bf16_4096.xclbin         files of a kernel, under its exported name
    <directory>/aie2p/add_bf16_4096.json           description with checksums; written last

The format is that of the cache. A kernel is found by the digest of its configuration, whatever its exported name is,
and verified before it is used. Kernels in `npu_tensor/builtin_kernels` are part of a wheel built from that tree.

Directories of ggml-hsa hold `<name>.hsaco`, or `<name>.pdi` and `<name>_insts.bin` in versions before October 2026. XRT
for Python cannot run either; the reason names them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from npu_tensor import events
from npu_tensor._util.forks import new_lock
from npu_tensor._util.user_warnings import warn
from npu_tensor.config import config
from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.errors import ArgumentError, BuildError
from npu_tensor.runtime.store.directories import readable, untrusted
from npu_tensor.runtime.store.files import (
    DESCRIPTION,
    Damage,
    locked,
    parse_description,
    read_entry,
    write_entry,
)
from npu_tensor.runtime.store.requests import ABI, AnyRequest, Backend, digest, folder, kernel_key
from npu_tensor.runtime.store.store import Artifact, store

BUILTIN: Final = Path(__file__).parents[2] / "builtin_kernels"
"""Directory of the kernels in the package."""

EXPORTED_NAME: Final = re.compile(r"[A-Za-z0-9_+@=,-][A-Za-z0-9_.+@=,-]*", re.ASCII)
"""Allowed names of a kernel's files, without their suffixes."""

unpacked_directories: Final[list[Path]] = []
"""Directories of this process with the kernels of loaded functions."""

_OTHER_JSON: Final = "_parameters.json"
"""End of the names of files of kernels that are JSON too."""


class KernelDirectory:
    """Kernels made in advance, read at the first look-up and again when files are added or removed."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = new_lock()
        self._indexed: dict[Path, tuple[int, dict[str, dict[str, Any] | str]]] = {}

    def look_up(self, request: AnyRequest, backend: Backend) -> Artifact | str:
        """Return the verified kernel, or the reason why it is not taken from this directory."""
        directory = self.root / request.design.array.arch
        try:
            if not directory.is_dir():
                return f"{self.root} has no directory {request.design.array.arch}"
            kernels = self.kernels(directory)
        except OSError as error:
            return str(error)
        design_digest = digest(backend.unit(request.design))
        for exported, described in kernels.items():
            if not isinstance(described, str):
                made_from = described["made_from"]
                if (made_from["design"], made_from["backend"]) == (design_digest, backend.name):
                    return _verified(directory, exported, backend)
        return _why_not(directory, kernels, request, backend)

    def kernels(self, directory: Path) -> dict[str, dict[str, Any] | str]:
        """Return by exported name the descriptions in the folder of an array, or what is wrong with them."""
        changed = directory.stat().st_mtime_ns
        with self._lock:
            known = self._indexed.get(directory)
            if known is None or known[0] != changed:
                paths = (
                    path for path in sorted(directory.glob(f"*{DESCRIPTION}")) if EXPORTED_NAME.fullmatch(path.stem)
                )
                read = {path.stem: _described(path) for path in paths}
                index = {exported: described for exported, described in read.items() if described is not None}
                known = self._indexed[directory] = (changed, index)
            return known[1]

    def intact(self, arch: str, exported: str) -> dict[str, Any] | None:
        """Return the description of a kernel whose files are undamaged, or None."""
        try:
            entry = read_entry(self.root / arch, exported)
        except Damage:
            return None
        return None if entry is None else entry[0]

    def write(self, arch: str, exported: str, contents: Mapping[str, bytes], fields: Mapping[str, Any]) -> None:
        """Add a kernel, or replace the one of this name. `fields` are members of the description.

        Raises:
            BuildError: A file of it is a file of another kernel.
            OSError: A file cannot be written.
        """
        directory = self.root / arch
        with locked(self.root, arch):
            kernels = self.kernels(directory) if directory.is_dir() else {}
            before = kernels.pop(exported, "")
            ours = {f"{exported}{suffix}" for suffix in (*contents, DESCRIPTION)}
            for other, described in kernels.items():
                files = () if isinstance(described, str) else described["files"]
                if shared := sorted(ours.intersection(f"{other}{suffix}" for suffix in (*files, DESCRIPTION))):
                    raise BuildError(f"its file {shared[0]} is a file of {other} too; choose another exported_name")
            write_entry(directory, exported, contents, fields)
            if not isinstance(before, str):
                for suffix in before["files"].keys() - contents.keys():
                    (directory / f"{exported}{suffix}").unlink(missing_ok=True)


def _described(path: Path) -> dict[str, Any] | str | None:
    """Return the description in a file, what is wrong with it, or None if it is another kind of JSON."""
    try:
        return parse_description(path.read_bytes())
    except (Damage, OSError) as error:
        return None if path.name.endswith(_OTHER_JSON) else f"{path}: {error}"


def _verified(directory: Path, exported: str, backend: Backend) -> Artifact | str:
    path = directory / f"{exported}{DESCRIPTION}"
    try:
        entry = read_entry(directory, exported)
    except Damage as damage:
        return _damaged(exported, path, str(damage))
    if entry is None:
        return f"{path} is gone"
    described, contents = entry
    made_from = described["made_from"]
    if made_from["abi"] != ABI:
        return f"{exported} in {directory} has ABI {made_from['abi']}, not {ABI}: generate it again"
    unfit = backend.unfit(made_from["ingredients"])
    if unfit is not None:
        return f"{exported} in {directory} was made on another machine: {unfit}"
    if kernel_key(made_from) != described["key"]:
        return _damaged(described["name"], path, "its key is not that of its ingredients")
    lacking = [[suffix for suffix in suffixes if suffix not in contents] for suffixes in backend.formats]
    if all(lacking):
        return f"{exported} in {directory} has no {' and no '.join(map(', '.join, lacking))}"
    files = {suffix: directory / f"{exported}{suffix}" for suffix in contents}
    return Artifact(described["name"], described["key"], files, "precompiled", {**described, "path": exported})


def _damaged(kernel: str, path: Path, what: str) -> str:
    """Warn at once, as a build would hide that a file which the user provides is not used."""
    warn(f"{path} is damaged: {what}")
    if events.listeners:
        events.emit(events.CacheDamaged(kernel, str(path), what))
    return f"{path} is damaged: {what}"


def _why_not(
    directory: Path, kernels: Mapping[str, Mapping[str, Any] | str], request: AnyRequest, backend: Backend
) -> str:
    """Return the most helpful reason why a directory has no kernel for a request."""
    same = {
        exported: described["made_from"]["backend"]
        for exported, described in kernels.items()
        if not isinstance(described, str) and described["name"] == request.design.name
    }
    for exported, made_by in same.items():
        if made_by != backend.name:
            return f"{exported} in {directory} was made by the back end {made_by}, not {backend.name}"
        return (
            f"{exported} in {directory} was made from another configuration of {request.design.name} (other columns, "
            "float32 policy or version); generate it again"
        )
    if wrong := [described for described in kernels.values() if isinstance(described, str)]:
        return _damaged(request.design.name, directory, "; ".join(wrong))
    try:
        there = sorted(path.name for path in directory.iterdir())
    except OSError as error:
        return str(error)
    for suffix in (".xclbin", ".elf"):
        if f"{request.name}{suffix}" in there:
            return f"{directory / request.name}{suffix} has no description ({request.name}{DESCRIPTION})"
    # In ggml-hsa the end of a name is a hash as here, or the op_params as hexadecimal words.
    stem, _, last = request.name.rpartition("-")
    plain = stem if re.fullmatch("[0-9a-f]{16}", last) else request.name
    pattern = re.compile(re.escape(plain) + r"(-[0-9a-f.]+)?\.(hsaco|pdi)")
    for name in there:
        if pattern.fullmatch(name):
            return (
                f"{directory / name} is a kernel of ggml-hsa, which pyxrt cannot run: it needs an .xclbin or .elf of "
                "npu_tensor"
            )
    return f"{directory} has no {request.name}"


def builtin_targets() -> tuple[str, ...]:
    """Return the arrays that the package has kernels for."""
    return tuple(arch for arch in ARRAYS if any((BUILTIN / arch).glob(f"*{DESCRIPTION}")))


def kernel_directories() -> tuple[Path, ...]:
    """Return the directories of the settings, of loaded functions, and of the package if it has kernels.

    Raises:
        ArgumentError: A directory of the settings does not exist, or other users can write to it.
    """
    directories = config.ready_kernel_dirs()
    for path in directories:
        if reason := untrusted(path):
            raise ArgumentError(
                f"{config.origin('kernel_dirs')} names {str(path)!r}, which {reason}, and its kernels would run as "
                "this user; NPU_TENSOR_TRUST_CACHE=1 allows that"
            )
    return (*directories, *unpacked_directories, *([BUILTIN] if builtin_targets() else []))


def no_kernels(arch: str, backend: Backend) -> str | None:
    """Return why there can be no kernels for an array, and what to do; None if some exist or can be built.

    Raises:
        ArgumentError: See `kernel_directories`.
    """
    missing = backend.missing()
    if config.jit != "off" and missing is None:
        return None
    cached = (directory / folder(arch, backend) for directory in readable(store.root))
    if any(directory.is_dir() for directory in (*(ready / arch for ready in kernel_directories()), *cached)):
        return None
    targets = ", ".join(builtin_targets()) or "none"
    build = f"install mlir-aie ({missing})" if missing else "set NPU_TENSOR_JIT=wait, so that they are built"
    return f"no kernels for `{arch}`: built-in targets are {targets}; set GGML_HSA_KERNEL_DIR or {build}"
