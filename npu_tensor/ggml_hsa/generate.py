"""Builds of kernels in advance, into a kernel directory that `NPU_TENSOR_KERNEL_DIR` then names.

    with open_executor(jobs=4) as executor:
        number = generate(entries, Path("kernels"), "host", executor)

Nothing in such a directory names a place on this machine, so it can be moved. Progress goes to the logger
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
from npu_tensor.ggml_hsa.config_file import Entry
from npu_tensor.runtime.build.instructions import instructions
from npu_tensor.runtime.build.iron import IronBackend
from npu_tensor.runtime.build.process import build_threads
from npu_tensor.runtime.sim.host_backend import HostBackend
from npu_tensor.runtime.store.kernel_directory import KernelDirectory
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.store.requests import Backend, Request, description, kernel_key
from npu_tensor.runtime.store.store import Artifact

T = TypeVar("T")

TargetName = Literal["iron", "host"]
BACKENDS: Final[Mapping[TargetName, Callable[[], Backend]]] = MappingProxyType(
    {"iron": IronBackend, "host": HostBackend}
)
"""Back ends by target: NPUs, and simulated ones."""

MOST_WAITING: Final = 256
"""Upper bound on kernels that are being built or wait for it; their designs have some megabytes each."""

PATIENCE: Final = 10
"""Seconds in which a cluster must answer, and have a worker."""

logger = logging.getLogger("npu_tensor.ggml_hsa")


class Built(NamedTuple):
    """A kernel that can be sent to another machine: members of its description, and its files by suffix."""

    fields: dict[str, Any]
    contents: dict[str, bytes]


def missing(target: TargetName, version: str) -> str | None:
    """Return why this machine cannot build for a process with a version of the package, or None."""
    if version != VERSION:  # Another version would make other designs of the same names.
        return f"the worker has npu-tensor {VERSION} instead of {version}"
    return BACKENDS[target]().missing()


def build(request: Request, target: TargetName, known: str | None = None, force: bool = False) -> Built | None:
    """Build a kernel, or take it from the cache of the machine that runs this function.

    Args:
        request: Kernel to build.
        target: Back end.
        known: Key of a kernel that need not be sent.
        force: Build it even if it is in the cache.

    Returns:
        The kernel; None if `known` is its key.

    Raises:
        BuildError: The kernel cannot be built.
    """
    backend = BACKENDS[target]()
    if kernel_key(description(request, backend)) == known:
        return None
    return built_from(KernelLibrary(backend).make(request, force), request.design)


def built_from(artifact: Artifact, design: Design) -> Built:
    """Read the files of a kernel. A PDI gets the instruction stream of the design, as ggml-hsa needs it.

    Raises BuildError if another process has evicted the files.
    """
    try:
        contents = {suffix: path.read_bytes() for suffix, path in artifact.files.items()}
    except OSError as error:
        raise BuildError(f"{artifact.name} was built, but cannot be read: {error}") from None
    if ".pdi" in contents:
        words = instructions(design, json.loads(contents["_parameters.json"]))
        contents["_insts.bin"] = words.astype("<u4").tobytes()
    # Without members that differ from build to build, such as its duration.
    return Built({field: artifact.description[field] for field in ("name", "key", "package", "made_from")}, contents)


def generate(
    entries: Sequence[Entry], directory: Path, target: TargetName, executor: Executor, force: bool = False
) -> int:
    """Build kernels into a kernel directory under their exported names. Return how many are there afterwards.

    A kernel that cannot be built is logged and left out. One that is there already, undamaged and made from the same
    ingredients, is only built with `force`. Raises BuildError without a compiler, and OSError if the directory cannot
    be written.
    """
    kernels = KernelDirectory(directory)
    reason = _result(executor.submit(missing, target, VERSION))
    if reason is not None:
        raise BuildError(reason)
    remaining, waiting = iter(entries), deque[tuple[Entry, Future[Built | None]]]()
    done = 0
    try:
        for number in range(1, len(entries) + 1):
            for entry in islice(remaining, MOST_WAITING - len(waiting)):
                there = None if force else kernels.intact(entry.arch, entry.exported_name)
                key = None if there is None else there["key"]
                waiting.append((entry, executor.submit(build, entry.request(), target, key, force)))
            entry, future = waiting.popleft()
            logger.info("[%d/%d] Processing kernel: %s", number, len(entries), entry.exported_name)
            try:
                built = _result(future)
                if built is not None:
                    kernels.write(entry.arch, entry.exported_name, built.contents, built.fields)
                logger.info("%s generated kernel: %s", "Successfully" if built else "Already", entry.exported_name)
                done += 1
            except NpuTensorError as error:
                logger.error("Failed to generate kernel %s: %s", entry.exported_name, error)
    finally:
        for _, future in waiting:
            future.cancel()
    return done


def _result(future: Future[T]) -> T:
    """Return the result of a future, perhaps from another machine. Raises errors of this package only."""
    try:
        return future.result()
    except NpuTensorError:
        raise
    except Exception as error:  # A cluster raises errors of any kind when workers vanish.
        raise BuildError(f"{type(error).__name__}: {error}") from error


# --- executors


@contextmanager
def open_executor(address: str | None = None, jobs: int = 0) -> Iterator[Executor]:
    """Yield an executor for builds: threads that wait for compilers, or the workers of a Dask cluster.

    Builds that have not begun at the end of the block are cancelled. `address` is `dask://HOST:PORT` of a scheduler
    whose workers have this package and a compiler; None for `jobs` threads, as `build_threads` counts them. Raises
    ArgumentError for another form of address, and DeviceError if the cluster cannot be used.
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
    except ValueError:  # a port that is not a number
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
            executor.shutdown(wait=False)  # Unfinished work is cancelled.
