"""`nt.compile`: kernels of a function for an NPU that this machine does not have.

    ahead = nt.compile(model, nt.zeros(8, 64), target="aie2p", directory="kernels")
    ahead.kernels[0].files[".xclbin"]  # kernels/aie2p/mul_mat-....xclbin
    ahead.refused                      # kernels that the CPU will run, with the reasons

On the machine with the NPU, `NPU_TENSOR_KERNEL_DIR=kernels` lets programs use them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from npu_tensor.dataflow.array import ARRAYS, Arch, arch_of, configured_arch
from npu_tensor.dataflow.design import Design
from npu_tensor.errors import ArgumentError, BuildError
from npu_tensor.ggml_hsa.generate import BACKENDS, TargetName, built_from
from npu_tensor.ggml_hsa.single_task import cuts, request_for
from npu_tensor.graph.structure import Structure, pending_ops, structure_of
from npu_tensor.graph.tracing import outside_change
from npu_tensor.jit.preparation import prepared_nodes
from npu_tensor.jit.trace import call_traced, placeholder
from npu_tensor.kernels.offer import Offer, Target
from npu_tensor.runtime.build.process import build_threads
from npu_tensor.runtime.devices.device_kind import target as target_of
from npu_tensor.runtime.devices.device_uri import parse_uri
from npu_tensor.runtime.sim.kind import simulated_target
from npu_tensor.runtime.store.kernel_directory import KernelDirectory
from npu_tensor.runtime.store.library import KernelLibrary
from npu_tensor.runtime.store.requests import Request, digest
from npu_tensor.runtime.store.store import Artifact
from npu_tensor.task import Refusal, Task
from npu_tensor.tensor import Tensor


class CompiledKernel(NamedTuple):
    """One kernel of a function.

    Attributes:
        name: Canonical GGML name.
        ops: Names of the fused ops.
        reason: Description of the algorithm.
        files: Files by suffix.
    """

    name: str
    ops: tuple[str, ...]
    reason: str
    files: Mapping[str, Path]


class Compilation(NamedTuple):
    """Result of `compile`: the kernels, and those that the CPU will run, each with the reason."""

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

    Args:
        function: Called once, with tensors that have shapes and dtypes but no values.
        inputs: Positional arguments. Only the shapes and dtypes of tensors count.
        target: Array, such as "aie2p", "npu2" or "Strix", or a simulated one, "sim:npu2"; with options as in URIs of
            devices, "npu2?cols=4&float32=emulate". Default: `NPU_TENSOR_ARCH`.
        directory: Kernel directory that gets the kernels; without it they are in the cache only.
        keywords: Keyword arguments of `function`.

    Returns:
        The kernels with their files, and what the CPU will run.

    Raises:
        CaptureError: The function reads a value, or changes an argument or a tensor from outside.
        ArgumentError: It returns no tensor, or the directory cannot be written.
        DeviceError: The target is unknown.
        BuildError: There is no compiler, or kernels cannot be built; raised after all others are built.
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
            files = _exported(artifacts, designs, Path(directory), kind.array.arch)
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


def _traced(function: Callable[..., Any], inputs: tuple[Any, ...], keywords: Mapping[str, Any]) -> list[Structure]:
    """Return the structures of a plain call, and those of a call under jit if it prepares values."""
    operands = [placeholder(each) if isinstance(each, Tensor) else each for each in inputs]
    watch, result, outputs = call_traced(function, operands, keywords)
    if watch.changed or watch.gradients:
        raise outside_change(None)
    if not outputs:
        raise ArgumentError(f"the function must return tensors, not {type(result).__name__}")
    results = [output._node for output in outputs]
    varying = {*watch.draws, *(each._node for each in operands if isinstance(each, Tensor))}
    prepared = prepared_nodes(results, varying)
    main = structure_of(results, pending_ops(results, prepared), only_roots=True)
    parts = [structure_of(prepared, only_roots=True), main] if prepared else []
    return [structure_of(results, only_roots=True), *parts]


def _requests(
    structures: Sequence[Structure], target: Target
) -> tuple[list[tuple[Task, Offer, Request]], tuple[str, ...]]:
    """Return the kernels of all cuts that the planner may choose, each once, and the refusals in the last cuts."""
    requests: dict[tuple[str, str], tuple[Task, Offer, Request]] = {}
    refused: dict[str, None] = {}
    for structure in structures:
        answers: list[tuple[Task, Offer | Refusal]] = []
        for answers in cuts(structure, target):
            for task, answer in answers:
                if not isinstance(answer, Refusal):
                    request = request_for(task, answer)
                    requests.setdefault((request.name, digest(request.design)), (task, answer, request))
        refused |= {f"{task.name}: {each.reason}": None for task, each in answers if isinstance(each, Refusal)}
    return list(requests.values()), tuple(refused)


def _exported(
    artifacts: Sequence[Artifact], designs: Sequence[Design], directory: Path, arch: Arch
) -> list[dict[str, Path]]:
    """Write kernels to a directory, named for their configurations; equal names get numbers. Raises OSError."""
    kernels, paths = KernelDirectory(directory), []
    for artifact, design in zip(artifacts, designs, strict=True):
        built = built_from(artifact, design)
        exported, number, made_from = artifact.name, 1, artifact.description["made_from"]
        while (there := kernels.intact(arch, exported)) and there["made_from"]["design"] != made_from["design"]:
            number += 1
            exported = f"{artifact.name}-{number}"
        kernels.write(arch, exported, built.contents, built.fields)
        paths.append({suffix: directory / arch / f"{exported}{suffix}" for suffix in built.contents})
    return paths
