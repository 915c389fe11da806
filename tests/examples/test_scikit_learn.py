"""scikit-learn and SciPy on tensors, against themselves on NumPy arrays."""

import pytest
from running import python

pytest.importorskip("sklearn", reason="scikit-learn, which the example uses, cannot be imported")

CODE = """
import numpy as np
import npu_tensor as nt
from npu_tensor.examples.scikit_learn import analyse

rng = np.random.default_rng(3)
samples = rng.standard_normal((40, 4), dtype=np.float32)
samples[:20] += 4
values = samples @ np.arange(4, dtype=np.float32)
ours = analyse(nt.from_numpy(samples), nt.from_numpy(values))
theirs = analyse(samples, values)
for name, expected in theirs.items():
    assert isinstance(ours[name], nt.Tensor), name
    assert isinstance(expected, np.ndarray), name
    np.testing.assert_allclose(ours[name].numpy(), expected, rtol=1e-3, atol=1e-4, err_msg=name)
print(len(theirs))
"""


def test_estimators_on_tensors_find_what_they_find_on_arrays() -> None:
    # In a process of its own: SciPy reads SCIPY_ARRAY_API when it is imported.
    assert python("-c", CODE).stdout.strip() == "5"
