"""Two samples of each function of PyTorch's OpInfo, in one of the dtypes, give PyTorch's results.

`python scripts/pytorch_opinfo.py` runs all samples in all dtypes.
"""

import functools
import importlib.util
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("expecttest", reason="PyTorch's samples need expecttest")

ROOT = Path(__file__).parents[2]
PARTS = 8


def recorded() -> set[tuple[str, str]]:
    """Known differences, as names and dtypes."""
    lines = (ROOT / "tests/functions/opinfo_differences.txt").read_text("utf-8").splitlines()
    entries = (line.split(":")[0].split() for line in lines if not line.startswith("#"))
    return {(name, dtype) for name, *dtypes in entries for dtype in dtypes}


@functools.cache
def script() -> Any:
    """Module of the script."""
    spec = importlib.util.spec_from_file_location("pytorch_opinfo", ROOT / "scripts" / "pytorch_opinfo.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look it up
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.once  # Other tests compare the same ops with every device.
@pytest.mark.skipif(not torch.__version__.startswith("2.13"), reason="the samples are those of PyTorch 2.13")
@pytest.mark.parametrize("part", range(PARTS))
def test_samples_give_the_results_of_pytorch(part: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        opinfo = script()
        ran, different = set(), {}
        for place, op in [*enumerate(opinfo.operations())][part::PARTS]:
            if dtypes := opinfo.dtypes_of(op):
                for outcome in opinfo.outcomes(op, dtypes[place % len(dtypes)], 2):
                    ran.add((outcome.name, outcome.dtype))
                    if outcome.problem not in ("", "missing"):
                        different[outcome.name, outcome.dtype] = f"{outcome.problem}; {outcome.sample}"
    known = recorded()
    assert {key: text for key, text in different.items() if key not in known} == {}
    assert (known & ran) - different.keys() == set(), "these are equal now: remove them from opinfo_differences.txt"
