"""Results of a session that never took place: figures follow formulas, so that a test knows what must be drawn."""

from typing import Any

__all__ = ["CPU_RATE", "MEASURED_NPU", "NPU_RATE", "NPU_START", "RATIOS", "SIMULATED_START", "results"]

RATIOS = {"numpy": 4.0, "torch": 0.5, "jax": 1.25}
"""Time of each peer relative to npu_tensor, for every case; jit takes half the time of npu_tensor."""

CPU_RATE, NPU_RATE, NPU_START = 50e9, 2e12, 400e-6
"""Rates of matrix products, in FLOP per second, and the time of an empty launch, in seconds."""

SIMULATED_START = 200e-6
"""Time of an empty launch on the simulated NPU, in seconds."""

MEASURED_NPU = 8.0
"""Speedup of an NPU over the CPU in the suite `ops`."""

ITEMSIZE = {"float32": 4, "bfloat16": 2}


def row(
    suite: str, case: str, dtype: str, shapes: list[list[int]], contender: str, seconds: float, flops: int, **more: Any
) -> dict[str, Any]:
    elements = sum(a * b for a, b in shapes)
    measured = more.get("kind", "measured") == "measured"
    return {
        "suite": suite,
        "case": case,
        "dtype": dtype,
        "shapes": shapes,
        "size": "x".join(map(str, shapes[0])),
        "device": "cpu",
        "contender": contender,
        "kind": "measured",
        "p50": seconds,
        "p95": 1.5 * seconds if measured else None,
        "p99": 2 * seconds if measured else None,
        "cold": 100 * seconds if measured else None,
        "idle": 3 * seconds if measured else None,
        "iterations": 30 if measured else 0,
        "flops": flops,
        "bytes": elements * ITEMSIZE[dtype],
        "disagreement": 1e-7,
        "note": "",
    } | more


def contest(suite: str, case: str, dtype: str, shapes: list[list[int]], seconds: float, flops: int) -> list[Any]:
    """A row of every contender on every device; PyTorch lacks one case, as a library may."""
    what = (suite, case, dtype, shapes)
    result = []
    for device, times in (("cpu", 1.0), *([("npu", MEASURED_NPU)] if suite == "ops" else [])):
        for contender, share in (("npu_tensor", 1.0), ("npu_tensor jit", 0.5)):
            result.append(row(*what, contender, share * seconds / times, flops, device=device))
    for peer, ratio in RATIOS.items():
        if (case, peer) != ("exp", "torch"):
            result.append(row(*what, peer, ratio * seconds, flops))
    return result


def results() -> dict[str, Any]:
    """Return made-up results in the format of benchmarks/schema.json."""
    rows = []
    for case in ("add", "exp", "gelu"):
        for dtype in ITEMSIZE:
            for side in (32, 1024):
                shapes = [[side, side], [side, side]]
                rows += contest("ops", case, dtype, shapes, 1e-6 + side * side / 4e9, side * side)
                for generation, start in (("npu1", 600e-6), ("npu2", NPU_START)):
                    seconds = start + side * side / 1e11
                    more = {"device": generation, "kind": "predicted"}
                    rows.append(row("ops", case, dtype, shapes, "npu_tensor", seconds, side * side, **more))
    for dtype in ITEMSIZE:
        for n in (64, 128, 256, 512, 1024):
            shapes, flops = [[n, n], [n, n]], 2 * n**3
            rows += contest("matmul", "linear", dtype, shapes, flops / CPU_RATE, flops)
            seconds, more = NPU_START + flops / NPU_RATE, {"device": "npu2", "kind": "predicted"}
            rows.append(row("matmul", "linear", dtype, shapes, "npu_tensor", seconds, flops, **more))
    for n in (64, 128, 256, 512, 1024):
        shapes, flops, more = [[n, n], [n, n]], 2 * n**3, {"device": "sim:npu2", "kind": "simulated"}
        seconds = SIMULATED_START + flops / NPU_RATE
        rows.append(row("matmul", "linear", "bfloat16", shapes, "npu_tensor jit", seconds, flops, **more))
    return {
        "format": 1,
        "quick": False,
        "machine": {
            "date": "2001-02-03T04:05:06+00:00",
            "processor": "A <made up> processor & more",
            "cores": 8,
            "threads": 4,
            "others": 0.02,
            "system": "Linux",
            "python": "3.11.0",
            "governor": "performance",
            "power": None,
            "versions": {"npu-tensor": "0.1.0", "torch": None},
        },
        "contenders": {"npu_tensor": "0.1.0", "npu_tensor jit": "0.1.0", "numpy": "2.0", "torch": "2.0", "jax": "0.4"},
        "ceilings": [
            {"device": device, "dtype": dtype, "flops_per_second": peak, "bytes_per_second": rate, "source": source}
            for dtype in ITEMSIZE
            for device, peak, rate, source in (
                ("cpu", 1e11, 2e10, "measured: a copy in memory"),
                ("npu2", 1e13, 4e10, "predicted: the cost model's arrays"),
            )
        ],
        "left_out": [
            {
                "suite": "ops",
                "case": "exp",
                "dtype": "",
                "size": "",
                "device": "",
                "contender": "torch",
                "reason": "made up to be missing",
            },
            *(
                {
                    "suite": "matmul",
                    "case": "linear",
                    "dtype": "float32",
                    "size": size,
                    "device": "npu1",
                    "contender": "npu_tensor",
                    "reason": "made up to have no kernel",
                }
                for size in ("64x64", "128x128")
            ),
        ],
        "rows": rows,
    }
