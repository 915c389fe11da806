"""What an NPU and its driver are asked before kernels run: where buffers lie, how sums round, whether chains work.

    probe(device)   # {"sums of floats": "rounded to nearest even", "host buffers": "in group 0", ...}

Where reports of drivers contradict each other, a kernel of 20 lines tells. What it says is kept with the kernels that
are known to be right, and heeded from then on. The self-test asks first of all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from npu_tensor.config import config
from npu_tensor.dataflow.array import Arch, Tile
from npu_tensor.dataflow.array_program import ArrayProgram
from npu_tensor.dataflow.design import AccessPattern, Builder, Design, ObjectType, Source
from npu_tensor.errors import DeviceError
from npu_tensor.runtime.store.requests import Request
from npu_tensor.runtime.xrt import in_flight
from npu_tensor.runtime.xrt.buffers import PAGE, SharedBlock
from npu_tensor.runtime.xrt.contexts import Context, ContextRefused, RunObject
from npu_tensor.runtime.xrt.launches import COMPLETED, PENDING
from npu_tensor.runtime.xrt.npu_engine import NpuEngine, lock

if TYPE_CHECKING:
    from npu_tensor.runtime.xrt.xrt_device import XrtDevice

__all__ = ["ROUNDINGS", "probe", "probe_design", "rounding"]

Array = np.ndarray[Any, np.dtype[np.float32]]

LANES: Final = 16
SOURCE: Final = Source(
    "probe",
    """#include <aie_api/aie.hpp>

// y[i] = x[i] + x[16 + i], added where products are.
extern "C" void nt_probe(const float *__restrict x, float *__restrict y) {
  const aie::accum<accfloat, 16> first(aie::load_v<16>(x));
  aie::store_v(y, aie::add(first, aie::load_v<16>(x + 16)).to_vector<float>());
}
""",
)

_ULP: Final = 2.0**-23
_PAIRS: Final = np.array(
    [(1, part * _ULP) for part in (0.25, 0.5, 0.75)] + [(1 + _ULP, 0.5 * _ULP), (1 + _ULP, -1)], np.float32
)
OPERANDS: Final = np.concatenate([_PAIRS, -_PAIRS, 1024 * _PAIRS, np.zeros((1, 2), np.float32)]).T.copy()
"""Sums that tell the ways to round from each other: between two numbers, halfway, and exact ones."""


def probe(device: XrtDevice) -> dict[str, str]:
    """Ask an NPU, note what it says, and heed it. Returns that for people. Raises BuildError, DeviceError."""
    engine = device.engine
    request = Request("probe", probe_design(engine.arch))
    program = engine.program(ArrayProgram.of(request.design), device.library.find(request))
    engine.synchronize()
    engine.reopen()
    with lock:
        group, sums = _group(engine, lambda: engine.contexts.get(program))
        chains = _chains(engine, engine.contexts.get(program), group)
    device.checked.note("group", str(group))
    device.checked.note("chains", "fail" if chains else "work")
    engine.adopt(device.checked.findings)
    return {
        "sums of floats": rounding(sums),
        "host buffers": f"in group {group}" + (", the kernel's: not in 0" if group else ""),
        "chains of launches": f"fail, so that none are used: {chains}" if chains else "work",
    }


def probe_design(arch: Arch) -> Design:
    """One core that adds the two halves of a buffer of 32 float32."""
    d = Builder("probe", arch, columns=1)
    core, shim = Tile(0, 2), Tile(0, 0)
    pairs, sums = ObjectType("float32", (2 * LANES,)), ObjectType("float32", (LANES,))
    x, y = d.host_buffer("x", "float32", pairs.elements), d.host_buffer("y", "float32", sums.elements)
    add = d.function("nt_probe", [pairs, sums], SOURCE)
    fx, fy = d.fifo("x0", pairs, producer=shim, consumers=[core]), d.fifo("y0", sums, producer=core, consumers=[shim])

    def body(source: Any, result: Any) -> None:
        add(source.acquire(1), result.acquire(1))
        source.release(1)
        result.release(1)

    d.worker(core, body, [fx, fy])
    d.fill(fx, x, AccessPattern.linear(pairs.elements))
    d.drain(fy, y, AccessPattern.linear(sums.elements))
    return d.build()


# --- rounding


ROUNDINGS: Final[Mapping[str, Callable[[Any, Any, Any], Any]]] = MappingProxyType(
    {
        "to nearest even": lambda low, high, exact: exact.astype(np.float32),
        "down": lambda low, high, exact: low,
        "up": lambda low, high, exact: high,
        "toward zero": lambda low, high, exact: np.where(exact > 0, low, high),
        "to nearest, halves away from zero": lambda low, high, exact: np.where(
            exact - low == high - exact, np.where(exact > 0, high, low), exact.astype(np.float32)
        ),
    }
)
"""From the float32 numbers below and above exact sums, and these sums, to what is left of them."""


def rounding(sums: Array) -> str:
    """How the sums of OPERANDS were rounded, in words."""
    exact = OPERANDS.astype(np.float64).sum(axis=0)
    near = exact.astype(np.float32)
    low = np.where(near <= exact, near, np.nextafter(near, np.float32(-np.inf)))
    high = np.where(near >= exact, near, np.nextafter(near, np.float32(np.inf)))
    name = next((name for name, rule in ROUNDINGS.items() if np.array_equal(rule(low, high, exact), sums)), None)
    if name == "to nearest even":
        return "rounded to nearest even"
    first = int(np.argmax(sums != near))
    what = f"{OPERANDS[0, first]:.9g} + {OPERANDS[1, first]:.9g} = {sums[first]:.9g}"
    known = name or "by no rule known"
    return f"rounded {known}, {what}: kernels expect to nearest even, so that float32 is less exact"


# --- runs


def _group(engine: NpuEngine, load: Callable[[], Context]) -> tuple[int, Array]:
    """Where buffers must be made, and the sums that were computed there. Raises DeviceError."""
    causes = []
    for names_group in (False, True):
        try:
            context = load()
            group = int(context.kernel.group_id(context.first)) if names_group else 0
            (sums,) = _run(engine, context, group, 0)
        except (ContextRefused, RuntimeError, TimeoutError) as error:
            engine.contexts.close()  # It may still be in there.
            causes.append(str(error))
            continue
        if np.allclose(sums, OPERANDS.sum(axis=0), rtol=1e-6, atol=0):
            return group, sums
        causes.append(f"with buffers in group {group}, {OPERANDS[0, 0]} + {OPERANDS[1, 0]:.1e} is {sums[0]}")
    raise DeviceError(f"{engine.uri} does not run the first probe: {'; '.join(causes)}")


def _chains(engine: NpuEngine, context: Context, group: int) -> str:
    """Why launches cannot be chained, or nothing."""
    try:
        sums = _run(engine, context, group, 2)
    except (RuntimeError, TimeoutError) as error:
        engine.contexts.close()
        return str(error)
    right = OPERANDS.sum(axis=0)
    return "" if all(np.allclose(each, right, rtol=1e-6, atol=0) for each in sums) else "their results are wrong"


def _run(engine: NpuEngine, context: Context, group: int, chained: int) -> list[Array]:
    """The results of a run, and of `chained` ones in a runlist before it. Raises RuntimeError, TimeoutError."""
    driver, device = engine.driver, engine.device
    sync = driver.xclBOSyncDirection
    run_objects, results, used = [], [], list[Any]()
    for _ in range(chained + 1):
        run_object = RunObject()
        context.make_run(run_object, context.program)
        for number, contents in enumerate((OPERANDS, np.full(LANES, np.nan, np.float32))):
            block = SharedBlock(driver.bo(device, PAGE, driver.bo.flags.host_only, group), PAGE, [])
            block.bytes[: contents.nbytes] = contents.reshape(-1).view(np.uint8)
            block.bo.sync(sync.XCL_BO_SYNC_BO_TO_DEVICE)
            run_object.run.set_arg(context.first + number, block.bo)
            used.append(block)
        run_objects.append(run_object)
        results.append(block)
    last = run_objects[-1].run
    listed = context.runlist(tuple(run_objects[:-1])) if chained else None
    if listed is not None:
        listed.execute()
    last.start()
    late = time.monotonic() + config.launch_seconds
    while (state := int(last.state())) in PENDING:
        if time.monotonic() > late:
            in_flight.keep(last, listed, run_objects, used)
            raise TimeoutError(f"no answer within {config.launch_seconds} s")
        time.sleep(1e-3)
    if listed is not None:
        listed.wait()
    if state != COMPLETED:
        raise RuntimeError(f"the launch ended in state {state}")
    for block in results:
        block.bo.sync(sync.XCL_BO_SYNC_BO_FROM_DEVICE)
    return [block.bytes[: 4 * LANES].view(np.float32).copy() for block in results]
