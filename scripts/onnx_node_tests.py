"""Run the backend node tests of the onnx package through `nt.load_onnx`, and print the share that passes.

    python scripts/onnx_node_tests.py [NAME ...]

Results may differ by the tolerance of the test, or by one rounding of their dtype. Tests of operators that are not
supported, and of dtypes that tensors do not have, are counted separately. NAME selects the tests whose names contain
it. The exit code is 1 if fewer than 98 % of the supported tests pass.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import ml_dtypes
import numpy as np
from onnx.backend.test.loader import load_model_tests
from onnx.defs import get_schema, has

import npu_tensor as nt

REQUIRED = 0.98
RANDOM = ("random", "bernoulli", "training_dropout")
"""Parts of the names of tests whose values depend on a generator; shapes and dtypes are compared."""


def is_since(node, version: int) -> bool:
    """Return True if an operator has not changed between an opset and 13."""
    return not node.domain and has(node.op_type, 13) and get_schema(node.op_type, 13).since_version <= version


def outcome(case, folder: Path) -> str:
    """Run a test. Return "passed", "operator" or "dtype" for what is not supported, or the reason of the failure."""
    path = folder / "model.onnx"
    for each in case.model.opset_import:
        unchanged = all(is_since(node, each.version) for node in case.model.graph.node)
        if not each.domain and each.version < 13 and unchanged:
            each.version = 13
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
            if any(name in case.name for name in RANDOM):
                continue
            exact = [each.astype(np.float64) if each.dtype.kind not in "iub" else each for each in (got, wanted)]
            rounding = 0.0 if wanted.dtype.kind in "iub" else float(ml_dtypes.finfo(wanted.dtype).eps)
            if not np.allclose(*exact, rtol=max(case.rtol, rounding), atol=max(case.atol, 1e-7), equal_nan=True):
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
