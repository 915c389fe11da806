"""Bundles: several xclbins as one, whose kernels run one after another in one hardware context.

    artifact, kernels = bundle("aie2", [product, norm])   # artifacts of two configurations
    artifact.files[".xclbin"], kernels[product.key]

XRT's xclbinutil packs the compiled files of each, as aiecc uses it for its option --xclbin-input; nothing is compiled.
Changing the configuration within one context takes some 0.1 ms. Changing the context takes milliseconds, and the host
has to wait in between. An NPU that is configured by full ELFs does not need bundles. Not run on an NPU.
"""

from __future__ import annotations

import copy
import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from npu_tensor.config import config
from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.dataflow.checks.limits import HOST_BUFFERS
from npu_tensor.errors import BuildError
from npu_tensor.runtime.build import mlir_aie
from npu_tensor.runtime.build.process import run
from npu_tensor.runtime.store.store import Artifact, store

ARGUMENTS: Final = (
    {"name": "opcode", "address-qualifier": "SCALAR", "type": "uint64_t", "offset": "0x00"},
    {
        "name": "instr",
        "memory-connection": "SRAM",
        "address-qualifier": "GLOBAL",
        "type": "char *",
        "offset": "0x08",
    },
    {"name": "ninstr", "address-qualifier": "SCALAR", "type": "uint32_t", "offset": "0x10"},
    *(
        {
            "name": f"bo{number}",
            "memory-connection": "HOST",
            "address-qualifier": "GLOBAL",
            "type": "void*",
            "offset": f"{0x14 + 8 * number:#x}",
        }
        for number in range(HOST_BUFFERS)
    ),
)
"""Arguments of a kernel, as aiecc declares them (SidecarFiles.h)."""


def bundle(arch: str, artifacts: Sequence[Artifact]) -> tuple[Artifact, Mapping[str, str | None]]:
    """Pack kernels for an array into one xclbin, or take it from the cache.

    Returns the xclbin, and the name of each kernel in it by the key of its artifact; None for the one that keeps its
    name. Raises BuildError if there is no xclbinutil or it fails; it is transient, as packing takes little time.
    """
    # The widest first: it determines the number of columns of the context.
    columns = {each.key: _columns(each) or ARRAYS[arch].columns for each in artifacts}
    ordered = sorted({each.key: each for each in artifacts}.values(), key=lambda each: (-columns[each.key], each.key))
    names = {each.key: f"KERNEL_{number}" if number else None for number, each in enumerate(ordered)}
    made_from = {"arch": arch, "kernels": [each.key for each in ordered]}
    key = hashlib.sha256(json.dumps(made_from).encode()).hexdigest()
    artifact = _packed.get(key)
    if artifact is None or not artifact.files[".xclbin"].exists():
        try:
            build = partial(_pack, ordered, names)
            artifact, _ = store.get_or_build(f"{arch}-xclbinutil", "bundle", key, build, made_from)
        except BuildError as error:
            raise BuildError(f"several configurations cannot be packed for one context: {error}") from None
        _packed[key] = artifact
    return artifact, names


_packed: Final[dict[str, Artifact]] = {}
"""Bundles by key. Each launch of a plan requests one, and the cache verifies files at each lookup."""


def _columns(artifact: Artifact) -> int:
    """Return the number of columns in the description of a kernel, or 0."""
    return int(artifact.description.get("made_from", artifact.description).get("columns", 0))


def _pack(artifacts: Sequence[Artifact], names: Mapping[str, str | None], directory: Path) -> dict[str, Path]:
    program = mlir_aie.xclbinutil()
    if program is None:
        raise BuildError(mlir_aie.without("xclbinutil").removeprefix(": "), transient=True)
    work, log = directory / "bundle", directory / "build.log"
    work.mkdir()
    partition, packed = work / "partition.json", work / "bundle.xclbin"
    xclbin = artifacts[0].files[".xclbin"].absolute()
    images = [artifact.files[".pdi"].absolute() for artifact in artifacts]

    def xclbinutil(*arguments: str) -> None:
        command = [str(Path(program).absolute()), "--force", "--quiet", "--input", str(xclbin), *arguments]
        try:
            run(command, work, log, config.build_seconds)
        except BuildError as error:
            raise BuildError(str(error), transient=True) from None

    xclbinutil("--dump-section", f"AIE_PARTITION:JSON:{partition}")
    added = []
    try:
        described = json.loads(partition.read_bytes())
        (own,) = described["aie_partition"]["PDIs"]
        entries = [_entry(own, number, *each) for number, each in enumerate(zip(artifacts, images, strict=True))]
    except (OSError, KeyError, IndexError, TypeError, ValueError) as error:
        reason = f"{xclbin} has no partition with one kernel ({error!r})"
        raise BuildError(reason, transient=True) from None
    described["aie_partition"]["PDIs"] = entries
    partition.write_text(json.dumps(described), "utf-8")
    for artifact, entry in zip(artifacts[1:], entries[1:], strict=True):
        path = work / f"{names[artifact.key]}.json"
        path.write_text(json.dumps(_kernel(str(names[artifact.key]), _kernel_id(entry))), "utf-8")
        added += ["--add-kernel", str(path)]
    xclbinutil(*added, "--add-replace-section", f"AIE_PARTITION:JSON:{partition}", "--output", str(packed))
    return {".xclbin": packed}


def _entry(own: Any, number: int, artifact: Artifact, image: Path) -> Any:
    """Return a PDI of the partition, like that of the first artifact, with another file."""
    entry = copy.deepcopy(own)
    entry["file_name"] = str(image)
    if number:
        entry["uuid"] = str(uuid.UUID(artifact.key[:32]))
        (group,) = entry["cdo_groups"]
        group["dpu_kernel_ids"] = [f"{int(_kernel_id(own), 16) + number:#x}"]
    return entry


def _kernel_id(entry: Any) -> str:
    ((kernel_id,),) = [group["dpu_kernel_ids"] for group in entry["cdo_groups"]]
    return str(kernel_id)


def _kernel(name: str, kernel_id: str) -> dict[str, Any]:
    """Return a kernel as xclbinutil reads it."""
    kernel = {
        "name": name,
        "type": "dpu",
        "extended-data": {"subtype": "DPU", "functional": "0", "dpu_kernel_id": kernel_id},
        "arguments": list(ARGUMENTS),
        "instances": [{"name": name}],
    }
    return {"ps-kernels": {"kernels": [kernel]}}
