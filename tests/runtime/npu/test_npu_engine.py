"""Order of launches and waits of an engine."""

from typing import Any
from unittest import mock

import numpy as np
import pytest
from faulty_npu import FaultyNpu
from npu_values import as_float, close, joined, normal
from running import needs_compiler

import npu_tensor as nt
from npu_tensor.runtime.npu import buffers
from npu_tensor.runtime.npu.packing import pack

pytestmark = [needs_compiler, pytest.mark.usefixtures("less_optimised")]


def test_quantized_weights_are_packed_once(npu: FaultyNpu) -> None:
    """Whatever they are multiplied with; both channels of all columns read the one copy."""
    numbers = normal(200, 96, seed=5).astype(np.float32)
    weights = nt.quantize(nt.from_numpy(numbers), "q8_0").realize()
    with mock.patch.object(buffers, "pack", wraps=pack) as packed:
        for seed, tokens in enumerate((1, 1, 40)):
            x = normal(tokens, 96, seed=seed)
            result = nt.linear(nt.from_numpy(x), weights)
            assert [row.kernel for row in nt.explain(result)] == ["quantized"]
            close(result, as_float(x) @ numbers.T.astype(np.float64))
    assert [call.args[0].order is not None for call in packed.call_args_list].count(True) == 1
    assert npu.launches == 3


def test_asynchronous(npu: FaultyNpu) -> None:
    joined(0)[0].realize()
    npu.polls = 5
    pairs = [joined(0, seed) for seed in range(3)]
    for result, _ in pairs:
        assert result.realize(wait=False) is result
        assert result.device == "sim:npu2"
    assert npu.launches == 4
    buffers: list[Any] = [result._node.value for result, _ in pairs]
    assert buffers[-1].pending
    nt.synchronize()
    assert not any(buffer.pending for buffer in buffers)
    assert npu.from_device == 1  # The first launch was compared with the CPU.
    for result, expected in pairs:
        np.testing.assert_array_equal(result.numpy(), expected)
    assert npu.from_device == 4
