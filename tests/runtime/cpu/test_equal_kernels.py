"""Kernels of equal layers: one is bound, the others use its loops on items of their own."""

from __future__ import annotations

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.runtime.cpu.kernels import LoopKernel

WEIGHTS = np.random.default_rng(0).standard_normal((4, 6, 6)).astype(np.float32)


def test_equal_layers_are_bound_once(monkeypatch: pytest.MonkeyPatch) -> None:
    bound, bind = [], LoopKernel._bind

    def noting(kernel: LoopKernel) -> object:
        bound.append(kernel.task.name)
        return bind(kernel)

    monkeypatch.setattr(LoopKernel, "_bind", noting)
    x = nt.from_numpy(WEIGHTS[0]).realize()
    expected = WEIGHTS[0]
    for weight in WEIGHTS:
        x = (x @ nt.from_numpy(weight)).softmax(-1)
        powers = np.exp(expected @ weight)
        expected = powers / powers.sum(-1, keepdims=True)
    np.testing.assert_allclose(x.numpy(), expected, rtol=1e-5)
    assert bound == ["softmax"]


def test_an_equal_kernel_checks_its_own_indices() -> None:
    tables = [nt.zeros(8, 2).realize() for _ in range(3)]
    for table, row in zip(tables, (1, 7, 5), strict=True):
        table[nt.tensor([row]).double().long()] = nt.ones(1, 2)
    nt.realize(*tables)
    assert [table.sum(1).argmax().item() for table in tables] == [1, 7, 5]
    for table, row in zip(tables, (1, 2, 9), strict=True):
        table[nt.tensor([row]).double().long()] = nt.ones(1, 2)
    with pytest.raises(IndexError, match="out of"):
        nt.realize(*tables)
