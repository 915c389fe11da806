"""Convolutions by Winograd's filtering, beside direct sums in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import npu_tensor as nt
import npu_tensor.nn.functional as F
from npu_tensor.runtime.cpu import winograd

SHAPES = [(1, 8, 8), (3, 8, 12), (2, 16, 10), (2, 7, 7), (1, 8, 11), (3, 13, 6)]


def kernel_of(result: nt.Tensor) -> str:
    (kernel,) = {row.kernel for row in nt.explain(result)} & {"conv", "Winograd conv"}
    return kernel


@pytest.mark.parametrize("padding", [0, 1, (1, 2), (2, 0)])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("band", [1, 1 << 14, 1 << 20])
def test_bands_of_images_equal_direct_sums(
    shape: tuple[int, int, int], padding: int | tuple[int, int], band: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(winograd, "_BAND_BYTES", band)
    monkeypatch.setattr(winograd, "_LEAST_TILES", 1)
    batch, height, width = shape
    rng = np.random.default_rng(0)
    image = rng.standard_normal((batch, 48, height, width)).astype(np.float32)
    weight, bias = rng.standard_normal((56, 48, 3, 3)).astype(np.float32), rng.standard_normal(56).astype(np.float32)
    other = rng.standard_normal((1, 56, 1, 1)).astype(np.float32)
    x, w, b, o = map(nt.from_numpy, (image, weight, bias, other))
    with nt.config.scope(threads=band % 2 + 1):
        result = F.relu(F.conv2d(x, w, b, padding=padding) + o)
        assert kernel_of(result) == "Winograd conv"
        y = result.numpy()
    exact = torch.nn.functional.conv2d(
        *(torch.from_numpy(each).double() for each in (image, weight, bias)), padding=padding
    )
    expected = torch.relu(exact + torch.from_numpy(other)).numpy()
    np.testing.assert_allclose(y, expected, rtol=0, atol=2e-6 * abs(expected).max())


def test_weights_that_change_are_transformed_again() -> None:
    x, w = nt.ones(1, 64, 8, 8), nt.ones(64, 64, 3, 3)
    function = nt.jit(lambda: F.conv2d(x, w, padding=1))
    assert [function()[0, 0, 4, 4].item() for _ in range(3)] == [576.0] * 3
    w[0] = 2.0
    assert function()[0, :2, 4, 4].tolist() == [1152.0, 576.0]


@pytest.mark.parametrize("jitted", [False, True])
def test_bands_and_equal_layers_pack_new_weights_once(jitted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(winograd, "_BAND_BYTES", 1)
    packed: list[object] = []
    run = winograd._WeightPacking.run

    def counted(packing: Any, *arguments: Any) -> Any:
        packed.append(packing)
        return run(packing, *arguments)

    monkeypatch.setattr(winograd._WeightPacking, "run", counted)

    def function(x: nt.Tensor, v: nt.Tensor, w: nt.Tensor) -> nt.Tensor:
        return F.conv2d(F.conv2d(x, v, padding=1), w, padding=1)

    call = nt.jit(function) if jitted else function
    for value in range(3):
        weights = [nt.full((48, 48, 3, 3), float(value)).realize() for _ in range(2)]
        call(nt.ones(1, 48, 16, 16), *weights).realize()
    assert len(packed) == 6


@pytest.mark.parametrize(
    "arguments",
    [{"stride": 2}, {"dilation": 2, "padding": 2}, {"groups": 2}],
    ids=str,
)
def test_other_convolutions_are_direct(arguments: dict[str, int]) -> None:
    groups = arguments.get("groups", 1)
    result = F.conv2d(nt.ones(1, 96, 17, 16), nt.ones(96, 96 // groups, 3, 3), **arguments)
    assert kernel_of(result) == "conv"


@pytest.mark.parametrize(
    ("batch", "height", "width", "kernel"), [(1, 7, 7, "conv"), (2, 7, 7, "Winograd conv"), (4, 1, 32, "conv")]
)
def test_few_or_almost_empty_tiles_are_direct(batch: int, height: int, width: int, kernel: str) -> None:
    result = F.conv2d(nt.ones(batch, 96, height, width), nt.ones(96, 96, 3, 3), padding=1)
    assert kernel_of(result) == kernel
