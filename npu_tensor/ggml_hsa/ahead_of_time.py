"""compile: builds the kernels that a function needs on an NPU which is not here.

    ahead = nt.compile(model, nt.zeros(8, 64), target="aie2p", directory="kernels")
    ahead.kernels[0].files[".xclbin"]  # kernels/aie2p/mul_mat-....xclbin
    ahead.refused                      # what the CPU will run, and why

Where the NPU is, NPU_TENSOR_KERNEL_DIR=kernels lets programs use them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from npu_tensor.dataflow.array import ARRAYS, arch_of, configured_arch
from npu_tensor.dataflow.design import Design
from npu_tensor.errors import ArgumentError, BuildError
from npu_tensor.ggml_hsa.generate import BACKENDS, Folder, TargetName, built_from
from npu_tensor.graph.nodes import Node
from npu_tensor.graph.structure import digraph, structure_of
from npu_tensor.graph.tracing import outside_change
from npu_tensor.jit.trace import call_traced, placeholder
from npu_tensor.kernels import families
from npu_tensor.kernels.offer import FUSION, Offer, Target
from npu_tensor.planner.fuse import partitions
from npu_tensor.planner.fuse.lower import lower
from npu_tensor.runtime.build.process import build_threads
from npu_tensor.runtime.devices.device_kind import target as target_of
from npu_tensor.runtime.devices.device_uri import parse_uri
from npu_tensor.runtime.npu.kernel_name import kernel_name, op_params, tensor_descs
from npu_tensor.runtime.sim.kind import simulated_target
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.store.requests import Artifact, Request, digest
from npu_tensor.task import Refusal, Task
from npu_tensor.tensor import Tensor

__all__ = ["Compilation", "CompiledKernel", "compile"]


class CompiledKernel(NamedTuple):
    """One kernel of a function. name: canonical GGML name. reason: how it does its work. files: by suffix."""

    name: str
    ops: tuple[str, ...]
    reason: str
    files: Mapping[str, Path]


class Compilation(NamedTuple):
    """What `compile` made. refused: the kernels that the CPU will run, each with the reason."""

    kernels: tuple[CompiledKernel, ...]
    refused: tuple[str, ...]


def compile(
    function: Callable[..., Any],
    /,
    *inputs: Any,
    target: str | None = None,
    directory: str | os.PathLike[str] | None = None,
    **keywords: Any,
) -> Compilation:
    """Build all kernels that a call of `function` needs on `target`, without a device.

    The function is called once, with tensors that have the shapes and dtypes of `inputs` and no values; what else is
    among `inputs`, and `keywords`, it gets as it is. target: an array, as "aie2p", "npu2" or "Strix", or a simulated
    one, "sim:npu2", with options as the URIs of devices have them, "npu2?cols=4&float32=emulate"; default:
    NPU_TENSOR_ARCH. directory: of ready kernels, which gets these too; without it they are in the cache only.

    Raises CaptureError if the function reads a value, or changes an argument or a tensor from outside; ArgumentError
    if it returns no tensor, or if the directory cannot be used; DeviceError for an unknown target; BuildError without a
    compiler and, after all others are built, for the kernels that cannot be.
    """
    backend, kind = _backend_and_target(target)
    requests, refused = _requests(_traced(function, inputs, keywords), kind)
    library = KernelLibrary(BACKENDS[backend]())
    reason = library.backend.missing()
    if reason is not None:
        raise BuildError(reason)
    artifacts, failures = [], []
    with build_threads() as threads:
        for future in [threads.submit(library.make, request) for _, _, request in requests]:
            try:
                artifacts.append(future.result())
            except BuildError as error:
                failures.append(str(error))
    if failures:
        raise BuildError(f"{len(failures)} of {len(requests)} kernels cannot be built: {'; '.join(failures)}")
    files: Sequence[Mapping[str, Path]] = [artifact.files for artifact in artifacts]
    if directory is not None:
        try:
            designs = [request.design for _, _, request in requests]
            files = _exported(artifacts, designs, Path(directory, kind.array.arch))
        except OSError as error:
            raise ArgumentError(f"{directory} cannot be written: {error}") from None
    results = [
        CompiledKernel(request.name, task.ops, offer.reason, paths)
        for (task, offer, request), paths in zip(requests, files, strict=True)
    ]
    return Compilation(tuple(results), refused)


def _backend_and_target(text: str | None) -> tuple[TargetName, Target]:
    name, mark, options = (text or configured_arch() or "").partition("?")
    if not name:
        raise ArgumentError(
            "compile makes kernels for an array that is not there and needs a target, such as 'aie2p', or "
            "NPU_TENSOR_ARCH; to run a function faster here, use nt.jit"
        )
    if name.casefold().startswith("sim:"):
        uri = parse_uri(f"{name}{mark}{options}")
        return "host", simulated_target(uri)
    return "iron", target_of(parse_uri(f"npu{mark}{options}"), ARRAYS[arch_of(name)])


def _traced(function: Callable[..., Any], inputs: tuple[Any, ...], keywords: Mapping[str, Any]) -> list[Node]:
    """What the function returns for tensors without values."""
    operands = [placeholder(each) if isinstance(each, Tensor) else each for each in inputs]
    watch, result, outputs = call_traced(function, operands, keywords)
    if watch.changed or watch.gradients:
        raise outside_change(None)
    if not outputs:
        raise ArgumentError(f"the function must return tensors, not {type(result).__name__}")
    return [output._node for output in outputs]


def _requests(results: list[Node], target: Target) -> tuple[list[tuple[Task, Offer, Request]], tuple[str, ...]]:
    """The kernels as a scheduler would ask a device for them, each once, and what it would be refused.

    A scheduler that compares costs may choose any of the cuts; refused is what is in the last one.
    """

    def takes(task: Task) -> bool:
        return isinstance(families.claim(task, target), Offer)

    requests: dict[tuple[str, str], tuple[Task, Offer, Request]] = {}
    refused: dict[str, None] = {}
    for partition in partitions(lower(digraph(structure_of(results), merge=True)), FUSION, takes):
        refused.clear()
        for task in partition.tasks:
            offer = families.claim(task, target)
            if isinstance(offer, Refusal):
                refused[f"{task.name}: {offer.reason}"] = None
                continue
            request = Request(kernel_name(task), offer.design(), tensor_descs(task), op_params(task))
            requests.setdefault((request.name, digest(request.design)), (task, offer, request))
    return list(requests.values()), tuple(refused)


def _exported(artifacts: Sequence[Artifact], designs: Sequence[Design], directory: Path) -> list[dict[str, Path]]:
    """The files of kernels in a directory of ready kernels, each under the name of its configuration and a number.

    Kernels of one configuration are one. Raises OSError.
    """
    folder, paths = Folder(directory), []
    try:
        for artifact, design in zip(artifacts, designs, strict=True):
            built = built_from(artifact, design)
            exported, number = artifact.name, 1
            while folder.design(exported) not in (None, built.description["made_from"]["design"]):
                number += 1
                exported = f"{artifact.name}-{number}"
            folder.write(exported, built)
            paths.append({suffix: directory / f"{exported}{suffix}" for suffix in built.contents})
    finally:
        folder.close()
    return paths
