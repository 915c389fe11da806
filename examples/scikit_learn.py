"""scikit-learn and SciPy on tensors through the array API standard, which uses npu_tensor's functions.

Example:
    pip install scikit-learn scipy
    python scikit_learn.py
"""

from __future__ import annotations

import os
import sys

os.environ["SCIPY_ARRAY_API"] = "1"  # read when SciPy is imported

import numpy as np

try:
    import sklearn
    from scipy.cluster.vq import vq
    from scipy.special import logsumexp
    from sklearn.decomposition import PCA
    from sklearn.linear_model import Ridge
    from sklearn.mixture import GaussianMixture
    from sklearn.preprocessing import StandardScaler
except ModuleNotFoundError as error:
    sys.exit(f'{error}; to install it: "{sys.executable}" -m pip install scikit-learn scipy')

import npu_tensor as nt

__all__ = ["analyse"]


def analyse(samples: nt.Tensor, values: nt.Tensor) -> dict[str, nt.Tensor]:
    """Apply several estimators to two groups of samples (count, features) with one value each."""
    with sklearn.config_context(array_api_dispatch=True):
        scaled = StandardScaler().fit_transform(samples)
        mixture = GaussianMixture(2, random_state=0, init_params="random").fit(samples)
        return {
            "principal components": PCA(2, svd_solver="full").fit_transform(scaled),
            "predictions": Ridge(solver="svd").fit(samples, values).predict(samples),
            "means of the groups": mixture.means_,
            "nearest of two samples": vq(samples, samples[:2])[0],
            "logarithms of sums": logsumexp(samples, axis=1),
        }


def main() -> None:
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((60, 5), dtype=np.float32)
    samples[:30] += 3
    values = samples @ np.arange(5, dtype=np.float32)
    for name, result in analyse(nt.from_numpy(samples), nt.from_numpy(values)).items():
        print(f"{name}: {type(result).__name__} of shape {list(result.shape)}")


if __name__ == "__main__":
    main()
