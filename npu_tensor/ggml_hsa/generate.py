"""Builds kernels into a directory of ready kernels, the one that NPU_TENSOR_KERNEL_DIR then names.

    with open_executor(jobs=4) as executor:
        result = generate(entries, Path("kernels"), "host", executor)

    kernels/aie2/add_f32_1024.so            the files that the back end makes
    kernels/aie2/add_f32_1024.json          what it is and what it was made from, with the checksums of its files
    kernels/aie2/manifest.json              the same of all kernels, by exported name; written last

Nothing of it names a place on this machine, so the directory can be moved. Progress goes to the logger
"npu_tensor.ggml_hsa" in the words of ggml-hsa's tool.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeVar
from urllib.parse import urlsplit

from npu_tensor._util.extras import install_command
from npu_tensor._util.version import VERSION
from npu_tensor.dataflow.design import Design
from npu_tensor.errors import ArgumentError, BuildError, DeviceError, NpuTensorError
from npu_tensor.ggml_hsa.entry import Entry
from npu_tensor.runtime.build.instructions import instructions
from npu_tensor.runtime.build.iron import IronBackend
from npu_tensor.runtime.build.process import build_threads
from npu_tensor.runtime.sim.host_backend import HostBackend
from npu_tensor.runtime.store.files import file_record, write_atomically
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.store.ready_kernels import FORMAT, MANIFEST, read_manifest
from npu_tensor.runtime.store.requests import Artifact, Backend, Request, description, kernel_key

__all__ = ["BACKENDS", "Built", "Folder", "TargetName", "build", "built_from", "generate", "missing", "open_executor"]

T = TypeVar("T")

TargetName = Literal["iron", "host"]
BACKENDS: Final[Mapping[TargetName, Callable[[], Backend]]] = MappingProxyType(
    {"iron": IronBackend, "host": HostBackend}
)
"""What kernels can be made for: NPUs, and the simulated ones."""

MOST_WAITING: Final = 256
"""Kernels that are being built or wait for it; their designs take some megabytes each."""

PATIENCE: Final = 10
"""Seconds in which a cluster must answer, and have a worker."""

logger = logging.getLogger("npu_tensor.ggml_hsa")


class Built(NamedTuple):
    """A kernel that can be sent to another machine. description: as in a manifest. contents: its files by suffix."""

    description: dict[str, Any]
    contents: dict[str, bytes]


def missing(target: TargetName, version: str) -> str | None:
    """Why nothing can be built where this runs for a process with this version of the package; None if it can."""
    if version != VERSION:  # Another version would make other designs of the same names.
        return f"the worker has npu-tensor {VERSION} instead of {version}"
    return BACKENDS[target]().missing()


def build(request: Request, target: TargetName, known: str | None = None, force: bool = False) -> Built | None:
    """Build a kernel, or take it from the cache of where this runs; None if its key is `known`.

    force: whether to build it anew. Raises BuildError.
    """
    backend = BACKENDS[target]()
    if kernel_key(description(request, backend)) == known:
        return None
    return built_from(KernelLibrary(backend).make(request, force), request.design)


def built_from(artifact: Artifact, design: Design) -> Built:
    """The kernel as it can be sent. Raises BuildError if its files are gone meanwhile.

    Beside a PDI goes the instruction stream of the design, as ggml-hsa takes it.
    """
    try:
        contents = {suffix: path.read_bytes() for suffix, path in artifact.files.items()}
    except OSError as error:
        raise BuildError(f"{artifact.name} was built, but cannot be read: {error}") from None
    if ".pdi" in contents:
        words = instructions(design, json.loads(contents["_parameters.json"]))
        contents["_insts.bin"] = words.astype("<u4").tobytes()
    # Without what differs from build to build, such as the time it took.
    described = {field: artifact.description[field] for field in ("name", "key", "package", "made_from")}
    return Built({**described, "files": _records(contents)}, contents)


def generate(
    entries: Sequence[Entry], directory: Path, target: TargetName, executor: Executor, force: bool = False
) -> int:
    """Build kernels and put them into a directory under their exported names; returns how many are there then.

    Those that are there already, made from the same and undamaged, are left as they are unless `force`. One that
    cannot be built is logged and left out. Raises ArgumentError if the directory has a manifest that is none,
    BuildError without a compiler, OSError if the directory cannot be written.
    """
    folders = {arch: Folder(directory / arch) for arch in sorted({entry.arch for entry in entries})}
    reason = _result(executor.submit(missing, target, VERSION))
    if reason is not None:
        raise BuildError(reason)
    remaining, waiting = iter(entries), deque[tuple[Entry, Future[Built | None]]]()
    done = 0
    try:
        for number in range(1, len(entries) + 1):
            for entry in islice(remaining, MOST_WAITING - len(waiting)):
                known = None if force else folders[entry.arch].intact(entry.exported_name)
                waiting.append((entry, _submit(executor, entry, target, known, force)))
            entry, future = waiting[0]
            logger.info("[%d/%d] Processing kernel: %s", number, len(entries), entry.exported_name)
            try:
                built = _result(future)
                if built is not None:
                    folders[entry.arch].write(entry.exported_name, built)
                logger.info("%s generated kernel: %s", "Successfully" if built else "Already", entry.exported_name)
                done += 1
            except NpuTensorError as error:
                logger.error("Failed to generate kernel %s: %s", entry.exported_name, error)
            waiting.popleft()
    finally:
        for _, future in waiting:
            future.cancel()
        for folder in folders.values():
            folder.close()
    return done


def _submit(
    executor: Executor, entry: Entry, target: TargetName, known: str | None, force: bool
) -> Future[Built | None]:
    try:
        return executor.submit(build, entry.request()[-1], target, known, force)
    except NpuTensorError as error:
        failed: Future[Built | None] = Future()
        failed.set_exception(error)
        return failed


def _result(future: Future[T]) -> T:
    """What a future gives, perhaps from another machine. Raises errors of this package only."""
    try:
        return future.result()
    except NpuTensorError:
        raise
    except Exception as error:  # Of any kind if it comes from a cluster, whose workers may vanish.
        raise BuildError(f"{type(error).__name__}: {error}") from error


def _records(contents: Mapping[str, bytes]) -> dict[str, dict[str, Any]]:
    return {suffix: file_record(content) for suffix, content in contents.items()}


class Folder:
    """The kernels of one arch in a directory of ready kernels, `path`. What is written counts from `close` on."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._before = self._read()
        self._written: dict[str, dict[str, Any]] = {}

    def _read(self) -> dict[str, dict[str, Any]]:
        path = self.path / MANIFEST
        return read_manifest(path) if path.exists() else {}

    def intact(self, exported: str) -> str | None:
        """The key of a kernel all of whose files are as its description says; None if there is none."""
        before = self._before.get(exported)
        if before is None:
            return None
        try:
            records = _records({suffix: (self.path / f"{exported}{suffix}").read_bytes() for suffix in before["files"]})
        except OSError:
            return None
        return before["key"] if records == before["files"] else None

    def design(self, exported: str) -> str | None:
        """The digest of the design of a kernel that is there; None if there is none of that name."""
        there = self._written.get(exported) or self._before.get(exported)
        return there["made_from"]["design"] if there else None

    def write(self, exported: str, built: Built) -> None:
        """Add the files of a kernel. Raises BuildError if they are damaged, or one of them is another kernel's."""
        if built.description["files"] != _records(built.contents):
            raise BuildError("its files do not have their checksums")
        contents = {**built.contents, ".json": _json(built.description)}
        others = {name: kernel for kernel, name in self._names() if kernel != exported}
        for suffix in contents:
            owner = others.get(f"{exported}{suffix}")
            if owner is not None:
                raise BuildError(f"its file {exported}{suffix} is a file of {owner} too; choose another exported_name")
        self.path.mkdir(parents=True, exist_ok=True)
        for suffix, content in contents.items():
            write_atomically(self.path / f"{exported}{suffix}", content)
        self._written[exported] = built.description

    def _names(self) -> list[tuple[str, str]]:
        """All kernels, each with the name of one of its files."""
        kernels = {**self._before, **self._written}
        names = [(kernel, f"{kernel}{suffix}") for kernel in kernels for suffix in (*kernels[kernel]["files"], ".json")]
        return [*names, ("the manifest", MANIFEST)]

    def close(self) -> None:
        """Add what was written to the manifest, which another process may have changed meanwhile."""
        if not self._written:
            return
        from filelock import FileLock

        lock = self.path / f".{MANIFEST}.lock"
        with FileLock(lock):
            kernels = {**self._read(), **self._written}
            manifest = {"format": FORMAT, "kernels": dict(sorted(kernels.items()))}
            write_atomically(self.path / MANIFEST, _json(manifest))
            lock.unlink(missing_ok=True)  # while it is held: a process that waits for it sees that, and makes another
        for exported in self._written.keys() & self._before.keys():
            for suffix in self._before[exported]["files"].keys() - self._written[exported]["files"].keys():
                (self.path / f"{exported}{suffix}").unlink(missing_ok=True)


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True) + "\n").encode()


# --- executors


@contextmanager
def open_executor(address: str | None = None, jobs: int = 0) -> Iterator[Executor]:
    """An executor for builds: threads, which wait for the processes of the compilers, or the workers of a Dask cluster.

    jobs: at once in this process; 0 = `config.build_jobs`, or all cores if that is 0 too.

    address: `dask://HOST:PORT` of a scheduler whose workers have this package and a compiler. What was not begun when
    the block ends is not begun any more. Raises ArgumentError for another address and DeviceError, within seconds, if
    the cluster cannot be used.
    """
    if address is not None:
        with _cluster(_host_and_port(address)) as executor:
            yield executor
        return
    with build_threads(jobs) as threads:
        yield threads


def _host_and_port(address: str) -> str:
    try:
        parts = urlsplit(address)
        if parts.scheme == "dask" and parts.hostname and parts.port and parts.netloc == address.partition("//")[2]:
            return parts.netloc
    except ValueError:  # a port that is no number
        pass
    raise ArgumentError(f"there is no executor {address!r}; there is dask://HOST:PORT")


@contextmanager
def _cluster(address: str) -> Iterator[Executor]:
    try:
        from distributed import Client
    except ImportError as error:
        command = install_command("'dask[array]'", "distributed")
        raise DeviceError(f"no Dask: {error}; to install it: {command}") from None
    try:
        client = Client(f"tcp://{address}", timeout=PATIENCE, set_as_default=False)
    except OSError as error:
        raise DeviceError(f"no Dask scheduler answers at {address}: {error}") from None
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except TimeoutError:
            raise DeviceError(f"the Dask cluster at {address} has no workers") from None
        executor = client.get_executor(pure=False)
        try:
            yield executor
        finally:
            executor.shutdown(wait=False)  # What is not done is cancelled.
