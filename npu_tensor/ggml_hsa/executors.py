"""Where kernels are built: in threads of this process, or by the workers of a Dask cluster.

    with open_executor("dask://10.0.0.5:8786") as executor:
        future = executor.submit(build, request, "host")

Both are executors as `concurrent.futures` has them. A thread only waits: each compiler is a process of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Final
from urllib.parse import urlsplit

from npu_tensor.errors import ArgumentError, DeviceError
from npu_tensor.runtime.build.process import build_threads

__all__ = ["open_executor"]

PATIENCE: Final = 10
"""Seconds in which a cluster must answer, and have a worker."""


@contextmanager
def open_executor(address: str | None = None, jobs: int = 0) -> Iterator[Executor]:
    """An executor for builds. jobs: at once in this process; 0 = `config.build_jobs`, or all cores if that is 0 too.

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
        raise DeviceError(f"no Dask: {error}; in a checkout, `pip install '.[dask]'` installs it") from None
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
