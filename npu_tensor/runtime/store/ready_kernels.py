"""Directories of ready kernels: what NPU_TENSOR_KERNEL_DIR and GGML_HSA_KERNEL_DIR name.

    <directory>/aie2p/manifest.json                what is there, by exported name
    <directory>/aie2p/add_bf16_4096.xclbin         ... and its other files, and add_bf16_4096.json

A kernel is found by the digest of its configuration, so it may have any name. Every file is verified before it is used.
Directories of ggml-hsa hold `<name>.hsaco`, or `<name>.pdi` and `<name>_insts.bin` in versions before October 2026. XRT
for Python can run neither: they are named in the reason.

    builtin_targets()           # ("aie2",)
    no_kernels("aie2p", backend)    # "no kernels for `aie2p`: built-in targets are aie2; set ..."

The kernels that are part of the package are such a directory too, which `NPU_TENSOR_KERNEL_TARGETS=aie2 python -m
npu_tensor.ggml_hsa --builtin` makes before a wheel is built. Without that the package has no such directory.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from npu_tensor import events
from npu_tensor._util.forks import new_lock
from npu_tensor._util.user_warnings import warn
from npu_tensor.config import config
from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.errors import ArgumentError
from npu_tensor.runtime.store.directories import readable, untrusted
from npu_tensor.runtime.store.files import SUFFIX, file_record, read_file
from npu_tensor.runtime.store.kernel_cache import store
from npu_tensor.runtime.store.requests import ABI, AnyRequest, Artifact, Backend, digest, folder, kernel_key

__all__ = [
    "BUILTIN",
    "EXPORTED_NAME",
    "MANIFEST",
    "KernelDirectory",
    "builtin_targets",
    "no_kernels",
    "read_description",
    "read_manifest",
    "ready_directories",
]

BUILTIN: Final = Path(__file__).parents[2] / "builtin_kernels"
"""Where the kernels of the package are."""

MANIFEST: Final = "manifest.json"
FORMAT: Final = 1

EXPORTED_NAME: Final = re.compile(r"[A-Za-z0-9_+@=,-][A-Za-z0-9_.+@=,-]*", re.ASCII)
"""What the files of a kernel may be called, without their suffixes."""

_TEXTS: Final = ("arch", "backend", "design")


def read_description(value: object, where: str) -> dict[str, Any]:
    """A kernel's JSON sidecar, or its entry in a manifest, with the fields that finding it needs. ArgumentError."""
    if not isinstance(value, dict):
        raise ArgumentError(f"{where}: a kernel is described by an object, not by {type(value).__name__}")
    made_from = value.get("made_from")
    if not isinstance(made_from, dict) or not all(isinstance(made_from.get(field), str) for field in _TEXTS):
        raise ArgumentError(f"{where}: 'made_from' must give {', '.join(_TEXTS)}")
    if not (isinstance(value.get("name"), str) and isinstance(value.get("key"), str)):
        raise ArgumentError(f"{where}: 'name' and 'key' must be texts")
    files = value.get("files")
    if not isinstance(files, dict) or not all(
        isinstance(record, dict) and isinstance(record.get("sha256"), str) and isinstance(record.get("bytes"), int)
        for record in files.values()
    ):
        raise ArgumentError(f"{where}: 'files' must give bytes and sha256 of each file")
    for suffix in files:
        if SUFFIX.fullmatch(suffix) is None:
            raise ArgumentError(f"{where}: {suffix!r} in 'files' is no suffix of a file")
    return value


def read_manifest(path: Path) -> dict[str, dict[str, Any]]:
    """The descriptions in a manifest, by exported name. Raises ArgumentError if it is none, OSError if unreadable."""
    value = _json(path)
    if not isinstance(value, dict) or value.get("format") != FORMAT or not isinstance(value.get("kernels"), dict):
        raise ArgumentError(f"{path} is no manifest of format {FORMAT}")
    for name in value["kernels"]:
        if EXPORTED_NAME.fullmatch(name) is None:
            raise ArgumentError(f"{path}: {name!r} is no file name")
    return {name: read_description(entry, f"{path}, {name}") for name, entry in value["kernels"].items()}


def _json(path: Path) -> Any:
    try:
        value = json.loads(read_file(path))
        json.dumps(value, ensure_ascii=False).encode()  # JSON may hold halves of surrogate pairs, which are no text
    except (ValueError, RecursionError) as error:
        raise ArgumentError(f"{path} is not JSON: {error}") from None
    return value


class KernelDirectory:
    """One directory of ready kernels, read when it is first asked and again when its manifest changes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._lock = new_lock()
        self._indexed: dict[str, tuple[object, dict[str, dict[str, Any]]]] = {}

    def look_up(self, request: AnyRequest, backend: Backend) -> Artifact | str:
        """The kernel, verified, or in words why it is not taken from here."""
        directory = self.root / request.design.array.arch
        try:
            if not directory.is_dir():
                return f"{self.root} has no directory {request.design.array.arch}"
            described = self._descriptions(directory)
        except (ArgumentError, OSError) as error:
            return str(error)
        design_digest = digest(backend.unit(request.design))
        for exported, description in described.items():
            made_from = description["made_from"]
            if (made_from["design"], made_from["backend"]) == (design_digest, backend.name):
                return _verified(directory, exported, description, backend)
        return _why_not(directory, described, request, backend)

    def _descriptions(self, directory: Path) -> dict[str, dict[str, Any]]:
        """By exported name: from the manifest or, without one, from the sidecars."""
        manifest = directory / MANIFEST
        changed: object = manifest.stat().st_mtime_ns if manifest.exists() else directory.stat().st_mtime_ns
        with self._lock:
            known = self._indexed.get(directory.name)
            if known is None or known[0] != changed:
                index = read_manifest(manifest) if manifest.exists() else _sidecars(directory)
                known = self._indexed[directory.name] = (changed, index)
            return known[1]


def _sidecars(directory: Path) -> dict[str, dict[str, Any]]:
    """Of all kernels; their other files may be JSON too."""
    paths = (path for path in sorted(directory.glob("*.json")) if EXPORTED_NAME.fullmatch(path.stem))
    values = {path: _json(path) for path in paths}
    return {
        path.stem: read_description(value, str(path))
        for path, value in values.items()
        if isinstance(value, dict) and "made_from" in value
    }


def _verified(directory: Path, exported: str, description: Mapping[str, Any], backend: Backend) -> Artifact | str:
    made_from = description["made_from"]
    if made_from.get("abi") != ABI:
        return f"{exported} in {directory} has ABI {made_from.get('abi')}, not {ABI}: generate it again"
    ingredients = made_from.get("ingredients")
    unfit = backend.unfit(ingredients if isinstance(ingredients, dict) else {})
    if unfit is not None:
        return f"{exported} in {directory} was made on another machine: {unfit}"
    if kernel_key(made_from) != description["key"]:
        return _damaged(description["name"], directory / f"{exported}.json", "its key is not that of what it says")
    files = {suffix: directory / f"{exported}{suffix}" for suffix in description["files"]}
    for suffix, path in files.items():
        try:
            actual = file_record(read_file(path))
        except OSError as error:
            return f"{path} cannot be read: {error.strerror}"
        if any(actual[field] != description["files"][suffix][field] for field in actual):
            return _damaged(description["name"], path, "it is not what its description says")
    lacking = [[suffix for suffix in suffixes if suffix not in files] for suffixes in backend.formats]
    if all(lacking):
        return f"{exported} in {directory} has no {' and no '.join(map(', '.join, lacking))}"
    return Artifact(description["name"], description["key"], files, "precompiled", {**description, "path": exported})


def _damaged(kernel: str, path: Path, what: str) -> str:
    """Say at once what a build would otherwise hide: somebody meant this file to be used."""
    warn(f"{path} is damaged: {what}")
    if events.listeners:
        events.emit(events.CacheDamaged(kernel, str(path), what))
    return f"{path} is damaged: {what}"


def _why_not(directory: Path, described: Mapping[str, Mapping[str, Any]], request: AnyRequest, backend: Backend) -> str:
    """The most telling of the reasons for which a directory has no kernel for a request."""
    same = [(exported, entry) for exported, entry in described.items() if entry["name"] == request.design.name]
    for exported, entry in same:
        made_by = entry["made_from"]["backend"]
        if made_by != backend.name:
            return f"{exported} in {directory} was made by the back end {made_by}, not {backend.name}"
    for exported, _ in same:
        return (
            f"{exported} in {directory} was made from another configuration of {request.design.name} (other columns, "
            "float32 policy or version); generate it again"
        )
    for suffix in (".xclbin", ".elf"):
        if os.path.exists(directory / f"{request.name}{suffix}"):
            return f"{directory / request.name}{suffix} has no description ({request.name}.json)"
    if path := _of_ggml_hsa(directory, request.name):
        return f"{path} is a kernel of ggml-hsa, which pyxrt cannot run: it needs an .xclbin or .elf of npu_tensor"
    return f"{directory} has no {request.name}"


def _of_ggml_hsa(directory: Path, name: str) -> Path | None:
    """ggml-hsa's file for a kernel. The end of its name is a hash as in ours, or the op_params as hexadecimal words."""
    stem, _, last = name.rpartition("-")
    plain = stem if re.fullmatch("[0-9a-f]{16}", last) else name
    pattern = re.compile(re.escape(plain) + r"(-[0-9a-f.]+)?\.(hsaco|pdi)")
    return next((path for path in sorted(directory.glob("*")) if pattern.fullmatch(path.name)), None)


def builtin_targets() -> tuple[str, ...]:
    """The arrays that the package brings kernels for."""
    return tuple(arch for arch in ARRAYS if (BUILTIN / arch / MANIFEST).is_file())


def ready_directories() -> tuple[Path, ...]:
    """Where ready kernels are looked for: in those of `config.ready_kernel_dirs`, then in the package.

    Raises ArgumentError if one of the former does not exist, or if other users can write to it.
    """
    directories = config.ready_kernel_dirs()
    for path in directories:
        if reason := untrusted(path):
            raise ArgumentError(
                f"{config.origin('kernel_dirs')} names {str(path)!r}, which {reason}, and its kernels would run as "
                "this user; NPU_TENSOR_TRUST_CACHE=1 allows that"
            )
    return (*directories, *([BUILTIN] if builtin_targets() else []))


def no_kernels(arch: str, backend: Backend) -> str | None:
    """Why there can be no kernels for an array, and what to do; None where some are ready or can be built.

    backend: what would build them. Raises ArgumentError as `ready_directories` does.
    """
    missing = backend.missing()
    if config.jit != "off" and missing is None:
        return None
    cached = (directory / folder(arch, backend) for directory in readable(store.root))
    if any(directory.is_dir() for directory in (*(ready / arch for ready in ready_directories()), *cached)):
        return None
    targets = ", ".join(builtin_targets()) or "none"
    build = f"install mlir-aie ({missing})" if missing else "set NPU_TENSOR_JIT=wait, so that they are built"
    return f"no kernels for `{arch}`: built-in targets are {targets}; set GGML_HSA_KERNEL_DIR or {build}"
