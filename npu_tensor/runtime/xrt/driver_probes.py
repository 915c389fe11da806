"""Probes of an NPU and its driver: the memory group of buffers, the rounding of sums, and support for chains.

    probe(device)   # {"sums of floats": "rounded to nearest even", "host buffers": "in group 0", ...}

Reports about drivers disagree on these points, and a kernel of 20 lines decides. The findings are stored with the list
of checked kernels and applied from then on. The self-test probes before anything else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from npu_tensor.dataflow.array import Arch, Tile
from npu_tensor.dataflow.array_program import ArrayProgram, DesignRun, HostSlice
from npu_tensor.dataflow.design import AccessPattern, Builder, Design, ObjectType, Source
from npu_tensor.errors import BuildError, DeviceError
from npu_tensor.runtime.npu.buffers import PAGE
from npu_tensor.runtime.npu.driver import Context, DriverError, RunRequest
from npu_tensor.runtime.npu.launches import run_to_end
from npu_tensor.runtime.npu.npu_engine import NpuEngine, lock
from npu_tensor.runtime.store.requests import ProgramRequest, Request
from npu_tensor.runtime.xrt.xrt_context import XrtContext
from npu_tensor.runtime.xrt.xrt_driver import XrtDriver
from npu_tensor.runtime.xrt.xrt_program import read_bundled, read_program

if TYPE_CHECKING:
    from npu_tensor.runtime.xrt.xrt_device import XrtDevice

__all__ = ["probe", "probe_design", "rounding"]

Array = np.ndarray[Any, np.dtype[np.float32]]

LANES: Final = 16
TEXT: Final = """#include <aie_api/aie.hpp>

// y[i] = x[i] + x[16 + i], added where products are.
extern "C" void nt_probe(const float *__restrict x, float *__restrict y) {
  const aie::accum<accfloat, 16> first(aie::load_v<16>(x + FIRST));
  aie::store_v(y, aie::add(first, aie::load_v<16>(x + 16 - FIRST)).to_vector<float>());
}
"""

_ULP: Final = 2.0**-23
_PAIRS: Final = np.array(
    [(1, part * _ULP) for part in (0.25, 0.5, 0.75)] + [(1 + _ULP, 0.5 * _ULP), (1 + _ULP, -1)], np.float32
)
OPERANDS: Final = np.concatenate([_PAIRS, -_PAIRS, 1024 * _PAIRS, np.zeros((1, 2), np.float32)]).T.copy()
"""Operands of sums between two floats, halfway between them, and exact ones. They distinguish rounding modes."""


def probe(device: XrtDevice) -> dict[str, str]:
    """Probe the NPU, store the findings and apply them.

    Returns:
        Findings for people, by topic.

    Raises:
        BuildError: The probe cannot be built.
        DeviceError: The NPU does not run it.
    """
    engine = device.engine
    request = Request("probe", probe_design(engine.arch))
    program = engine.known(read_program(ArrayProgram.of(request.design), device.library.find(request)))
    engine.synchronize()
    engine.reopen()
    with lock:
        group, sums = _group(engine, lambda: engine.contexts.get(program))
        chains = _chains(engine, engine.contexts.get(program), group)
    device.checked.note("group", str(group))
    device.checked.note("chains", "fail" if chains else "work")
    device.apply_findings(engine)
    several = _several(device, group)
    if several is not None:
        device.checked.note("several", "fail" if several else "work")
        device.forget_costs()
    return {
        "sums of floats": rounding(sums),
        "host buffers": f"in group {group}" + (", the kernel's: not in 0" if group else ""),
        "chains of launches": f"fail, so that none are used: {chains}" if chains else "work",
        **({} if several is None else {"kernels in one launch": several or "work"}),
    }


def probe_design(arch: Arch, first: int = 0) -> Design:
    """Create a design that adds the halves of a buffer of 32 float32. The first operands begin at `first`, 0 or 16."""
    d = Builder("probe", arch, columns=1)
    core, shim = Tile(0, 2), Tile(0, 0)
    pairs, sums = ObjectType("float32", (2 * LANES,)), ObjectType("float32", (LANES,))
    x, y = d.host_buffer("x", "float32", pairs.elements), d.host_buffer("y", "float32", sums.elements)
    add = d.function("nt_probe", [pairs, sums], Source("probe", TEXT.replace("FIRST", str(first))))
    fx, fy = d.fifo("x0", pairs, producer=shim, consumers=[core]), d.fifo("y0", sums, producer=core, consumers=[shim])

    def body(source: Any, result: Any) -> None:
        add(source.acquire(1), result.acquire(1))
        source.release(1)
        result.release(1)

    d.worker(core, body, [fx, fy])
    d.fill(fx, x, AccessPattern.linear(pairs.elements))
    d.drain(fy, y, AccessPattern.linear(sums.elements))
    return d.build()


def rounding(sums: Array) -> str:
    """Describe how the sums of OPERANDS were rounded."""
    nearest = OPERANDS.astype(np.float64).sum(axis=0).astype(np.float32)
    if np.array_equal(nearest, sums):
        return "rounded to nearest even"
    first = int(np.argmax(sums != nearest))
    wrong = f"{OPERANDS[0, first]:.9g} + {OPERANDS[1, first]:.9g} = {sums[first]:.9g}"
    return f"not rounded to nearest even, as kernels expect, so that float32 is less exact: {wrong}"


# --- runs


def _group(engine: NpuEngine, load: Callable[[], Context]) -> tuple[int, Array]:
    """Find the memory group for buffers. Returns it with the computed sums. Raises DeviceError."""
    causes = []
    for names_group in (False, True):
        try:
            context = load()
            assert isinstance(context, XrtContext)
            group = int(context.kernel.group_id(context.first)) if names_group else 0
            (sums,) = _run(engine, context, group, 0)
        except DriverError as error:
            engine.contexts.close()  # The run may still be in it.
            causes.append(str(error))
            continue
        if np.allclose(sums, OPERANDS.sum(axis=0), rtol=1e-6, atol=0):
            return group, sums
        causes.append(f"with buffers in group {group}, {OPERANDS[0, 0]} + {OPERANDS[1, 0]:.1e} is {sums[0]}")
    raise DeviceError(f"{engine.uri} does not run the first probe: {'; '.join(causes)}")


def _chains(engine: NpuEngine, context: Context, group: int) -> str:
    """Return why launches cannot be chained, or an empty string."""
    try:
        sums = _run(engine, context, group, 2)
    except DriverError as error:
        engine.contexts.close()
        return str(error)
    right = OPERANDS.sum(axis=0)
    return "" if all(np.allclose(each, right, rtol=1e-6, atol=0) for each in sums) else "their results are wrong"


def _several(device: XrtDevice, group: int) -> str | None:
    """Return why a launch of two configurations does not run twice, or an empty string. None if it cannot be built.

    The second run of a full ELF (mlir-aie#3622) and xclbins of two kernels (xdna-driver#906) were seen to fail. The
    second run is chained if chains work.
    """
    engine = device.engine
    designs = [probe_design(engine.arch, LANES * number) for number in range(2)]
    runs = [DesignRun(design, (HostSlice(0, 0), HostSlice(1 + number, 0))) for number, design in enumerate(designs)]
    several = ArrayProgram("probe+probe", tuple(runs), (PAGE, PAGE, PAGE))
    try:
        if device.target.array.full_elfs:
            made = read_program(several, device.library.find(ProgramRequest(several.name, several)))
        else:
            kernels = [device.library.find(Request("probe", each)) for each in designs]
            made = read_bundled(several, kernels, kernels)
        program = engine.known(made)
    except BuildError:
        return None
    right = OPERANDS.sum(axis=0)
    with lock:
        for run in ("first", "second"):
            try:
                chained = 2 if engine.chains and run == "second" else 0
                sums = _run(engine, engine.contexts.get(program), group, chained)
            except DriverError as error:
                engine.contexts.close()
                return f"fail in the {run} run, so that each is a launch of its own: {error}"
            if not all(np.allclose(each, right, rtol=1e-6, atol=0) for each in sums):
                return f"wrong in the {run} run, so that each is a launch of its own"
    return ""


def _run(engine: NpuEngine, context: Context, group: int, chained: int) -> list[Array]:
    """Run `chained` launches in a runlist and one by itself. Returns all results. Raises DriverError."""
    driver, program = engine.driver, context.program
    assert isinstance(driver, XrtDriver)
    requests, results = [], []
    for _ in range(chained + 1):
        unset = [np.full(LANES, np.nan, np.float32)] * (len(program.sizes) - 1)
        memories = []
        for contents in (OPERANDS, *unset):
            memory = driver.allocate(PAGE, group)
            memory.bytes[: contents.nbytes] = contents.reshape(-1).view(np.uint8)
            memory.to_device()
            memories.append(memory)
        results += memories[1:]
        requests.append(RunRequest(context.run(program), memories, ()))
    run_to_end(context.prepare(requests, chain=bool(chained)), driver.launch_seconds, requests)
    for memory in results:
        memory.from_device()
    return [memory.bytes[: 4 * LANES].view(np.float32).copy() for memory in results]
