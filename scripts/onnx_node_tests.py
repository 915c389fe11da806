"""Run the backend node tests of the onnx package through `nt.load_onnx`, and print the share that passes.

    python scripts/onnx_node_tests.py [NAME ...]

Tests of operators that are not supported, and of dtypes that tensors do not have, are counted separately. NAME selects
the tests whose names contain it. The exit code is 1 if fewer than 98 % of the supported tests pass.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from onnx.backend.test.loader import load_model_tests

import npu_tensor as nt

REQUIRED = 0.98


def outcome(case, folder: Path) -> str:
    """Run a test. Return "passed", "operator" or "dtype" for what is not supported, or the reason of the failure."""
    path = folder / "model.onnx"
    path.write_bytes(case.model.SerializeToString())
    try:
        model = nt.load_onnx(path)
    except nt.DTypeError:
        return "dtype"
    except nt.ArgumentError as error:
        return "operator" if "not supported" in str(error) or "opset" in str(error) else f"load: {error}"
    for inputs, expected in case.data_sets:
        try:
            results = model(*(nt.from_numpy(np.asarray(each)) for each in inputs))
        except nt.DTypeError as error:
            return "dtype" if "not a dtype" in str(error) or "cannot be" in str(error) else f"{error}"
        except nt.NpuTensorError as error:
            return f"{type(error).__name__}: {error}"
        results = results if isinstance(results, tuple) else (results,)
        for result, wanted in zip(results, expected, strict=True):
            got, wanted = result.numpy(), np.asarray(wanted)
            if got.dtype != wanted.dtype or got.shape != wanted.shape:
                return f"{got.dtype}{list(got.shape)} instead of {wanted.dtype}{list(wanted.shape)}"
            if "random" in case.name or "bernoulli" in case.name:
                continue
            exact = [each.astype(np.float64) if each.dtype.kind not in "iub" else each for each in (got, wanted)]
            if not np.allclose(*exact, rtol=case.rtol, atol=max(case.atol, 1e-7), equal_nan=True):
                return f"values differ by up to {np.nanmax(np.abs(np.subtract(*exact, dtype=np.float64)))}"
    return "passed"


def main(names: list[str]) -> int:
    """Run the selected tests and print the outcome."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = [case for case in load_model_tests(kind="node") if not names or any(n in case.name for n in names)]
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            found = outcome(case, Path(folder))
            counts[found if found in ("passed", "operator", "dtype") else "failed"] += 1
            if found not in ("passed", "operator", "dtype"):
                print(f"{case.name}: {found}")
    tried = counts["passed"] + counts["failed"]
    share = counts["passed"] / max(tried, 1)
    print(f"{counts['passed']} of {tried} passed ({share:.1%}); not supported: {dict(counts)}")
    return int(share < REQUIRED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
