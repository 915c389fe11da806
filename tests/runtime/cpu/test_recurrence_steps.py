"""Recurrences and their gradients: kernels of several instruction sets against float64, layers against PyTorch."""

import ctypes
from typing import Any

import numpy as np
import pytest
import torch
from kernel_harness import AARCH64, KERNEL, LEVELS, assembly, launch, target
from numpy.typing import NDArray

import npu_tensor as nt
from npu_tensor import nn, ops
from npu_tensor.config import config
from npu_tensor.runtime.cpu.recurrence_steps import GATES, RecurrenceSpec, division, recurrence_meta, recurrence_module

POOL = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2)


@POOL
def one_by_one(kernel: int, slots: int, meta: int, n: int, grain: int) -> None:
    """Run pieces in the opposite order, as threads may."""
    for begin in reversed(range(0, n, grain)):
        KERNEL(kernel)(slots, meta, begin, min(begin + grain, n))


def packed(weight: Any, matrices: int, lanes: int) -> NDArray[np.float32]:
    """Return panels (matrix, block, depth, lane) of the lines of a weight."""
    lines, depth = weight.shape[0] // matrices, weight.shape[1]
    blocks = -(-lines // lanes)
    panels = np.full((matrices, blocks * lanes, depth), np.nan, np.float32)
    panels[:, :lines] = weight.reshape(matrices, lines, depth)
    return panels.reshape(matrices, blocks, lanes, depth).swapaxes(2, 3).copy()


def launched(level: str, spec: RecurrenceSpec, shape: Any, reverse: bool, weight: Any, arrays: Any, size: int) -> Any:
    """Run a kernel and return its result, whose surroundings must not change."""
    lanes, (_, batch, _) = target(level).lanes, shape
    panels = packed(weight.T if spec.backward else weight, 1 if spec.backward else GATES[spec.cell], lanes)
    address = ctypes.cast(one_by_one, ctypes.c_void_p).value or 0
    nbytes = panels[0, 0].nbytes
    meta = recurrence_meta(shape, reverse, spec, lanes, panel_bytes=nbytes, parallel_for=address, grain=2)
    result = np.full(size + 2, 7, np.float32)
    text = recurrence_module(spec, target(level))
    for begin in range(-(-batch // spec.rows)):
        launch(level, text, [result[1:], panels, *arrays], meta, begin, begin + 1)
    assert result[0] == result[-1] == 7
    return result[1:-1]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("cell", GATES)
def test_levels(cell: str, level: str) -> None:
    random, gates = np.random.default_rng(2), GATES[cell]
    name = cell if cell in ("lstm", "gru") else "rnn"
    attributes: dict[str, Any] = {} if name == cell else {"nonlinearity": cell}
    with_gates = {"gates": True} if name == cell else {}
    cases = ((1, 1, 1, 1), (3, 2, 33, 2), (2, 5, 32, 2), (4, 3, 7, 3))
    for number, (steps, batch, units, rows) in enumerate(cases):
        reverse, blocks = bool(number % 2), 1 + number % 2

        def draw(*shape: int) -> NDArray[np.float32]:
            return random.standard_normal(shape, np.float32)

        weight, bias = draw(gates * units, units), draw(gates * units)
        products, states = draw(steps, batch, gates * units), [draw(batch, units) for _ in range(1 + (cell == "lstm"))]
        operands = [each.astype(np.float64) for each in (products, weight, bias, *states)]
        expected = ops.OPS[name].body(*operands, reverse=reverse, **attributes, **with_gates)
        spec = RecurrenceSpec(cell, False, bool(with_gates), rows, blocks, units % target(level).lanes > 0)
        arrays = [products, bias, states[0], states[-1]]
        result = launched(level, spec, (steps, batch, units), reverse, weight, arrays, expected.size)
        np.testing.assert_allclose(result.reshape(expected.shape), expected, rtol=2e-5, atol=2e-5)

        gradient, values = draw(*expected.shape), expected.astype(np.float32)
        exact = ops.OPS[f"{name}_backward"].body(
            gradient.astype(np.float64), values.astype(np.float64), *operands, reverse=reverse, **attributes
        )
        arrays = [gradient, values, states[-1], states[-1]]
        spec = spec._replace(backward=True, gates=False)
        result = launched(level, spec, (steps, batch, units), reverse, weight, arrays, exact.size)
        np.testing.assert_allclose(result, exact, rtol=2e-5, atol=2e-5 * abs(exact).max())


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("cell", GATES)
def test_aarch64(cell: str, backward: bool) -> None:
    assert "fmla" in assembly(recurrence_module(RecurrenceSpec(cell, backward, False, 2, 2, True), AARCH64), AARCH64)


def test_division() -> None:
    """Small weights: threads divide the batch. Large ones: they divide the units of each step."""
    made_for = target("avx2")
    assert division(16, 128, 4, 128, 2, made_for).by_batch
    large = division(1, 512, 4, 512, 2, made_for)
    assert not large.by_batch
    assert -(-512 // (8 * large.blocks)) > large.grain
    alone = division(1, 16, 4, 16, 2, made_for)
    assert alone.grain * alone.blocks * 8 >= 16


def pair(name: str, *arguments: Any, **keywords: Any) -> tuple[Any, Any]:
    torch.manual_seed(1)
    theirs, ours = (getattr(lib, name)(*arguments, **keywords) for lib in (torch.nn, nn))
    assert ours.load_state_dict(theirs.state_dict()) == ([], [])
    return theirs, ours


def tensors(value: Any) -> list[Any]:
    return [each for part in value for each in tensors(part)] if isinstance(value, tuple) else [value]


def close(ours: nt.Tensor | None, theirs: Any, tolerance: float = 1e-5) -> None:
    assert ours is not None
    expected = theirs.detach().float().numpy()
    scale = abs(expected).max(initial=1e-30)
    np.testing.assert_allclose(ours.float().numpy(), expected, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize(
    ("sizes", "batch", "steps", "keywords"),
    [
        ((5, 40, 2), 9, 4, {"bidirectional": True}),
        ((8, 272), 1, 3, {"bias": False}),
        ((3, 24), 13, 2, {"batch_first": True}),
        ((4, 16), 0, 3, {}),
    ],
)
def test_layers(name: str, sizes: Any, batch: int, steps: int, keywords: Any, threads: int) -> None:
    """Results and gradients, also of first states, by threads that divide the batch, the units or nothing."""
    theirs, ours = pair(name, *sizes, **keywords)
    shape = (batch, steps) if "batch_first" in keywords else (steps, batch)
    count = (sizes[2] if len(sizes) > 2 else 1) * (2 if "bidirectional" in keywords else 1)
    x, *states = torch.randn(*shape, sizes[0]), torch.randn(count, batch, sizes[1]), torch.randn(count, batch, sizes[1])
    states = states[: 1 + (name == "LSTM")]
    leaves = [x.requires_grad_(), *(each.requires_grad_() for each in states)]
    own = [nt.from_numpy(each.detach().numpy().copy()).requires_grad_() for each in leaves]
    with config.scope(threads=threads):
        results = []
        for layer, (first, *rest) in ((theirs, leaves), (ours, own)):
            given = tuple(rest) if len(rest) > 1 else rest[0]
            results.append(tensors(layer(first, given)))
            sum((each * each * each).sum() for each in results[-1]).backward()
        for mine, expected in zip(results[1], results[0], strict=True):
            close(mine, expected)
        for mine, expected in zip(own, leaves, strict=True):
            close(mine.grad, expected.grad)
        for key, parameter in ours.named_parameters():
            close(parameter.grad, dict(theirs.named_parameters())[key].grad)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_a_layer_is_one_kernel_per_direction(name: str) -> None:
    _, layer = pair(name, 4, 16, 2, bidirectional=True)
    x = nt.ones(50, 3, 4)
    with nt.no_grad():
        kernels = [row.kernel for row in nt.explain(layer(x)[0])]
    assert kernels.count("recurrence") == 4
    layer(x)[0].sum().backward()
    first = dict(layer.named_parameters())["weight_hh_l0"].grad
    assert first is not None
    ops_ = [row.op for row in nt.explain(first)]
    assert ops_.count(f"{name.lower()}_backward") == 3  # of the second layer, and of one direction of the first


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_16_bit_floats(dtype: str) -> None:
    theirs, ours = pair("LSTM", 6, 24)
    x = torch.randn(5, 3, 6)
    low = ours.to(dtype)(nt.from_numpy(x.numpy()).to(dtype))[0]
    assert low.dtype.name == dtype
    close(low, theirs(x)[0], 0.02)
    low.sum().backward()
    gradient = dict(ours.named_parameters())["weight_hh_l0"].grad
    assert gradient is not None
    assert gradient.dtype.name == dtype
    theirs(x)[0].sum().backward()
    close(gradient, theirs.weight_hh_l0.grad, 0.05)


def test_operands_in_any_layout() -> None:
    """Views and broadcasts are read as they are, or copied."""
    theirs, ours = pair("GRU", 6, 10)
    x, hidden = torch.randn(6, 3, 4).permute(2, 1, 0), torch.randn(1, 1, 10).expand(1, 3, 10)
    with nt.no_grad():
        ours.weight_hh_l0 = nn.Parameter(nt.from_numpy(theirs.weight_hh_l0.detach().T.contiguous().numpy()).T)
    close(ours(nt.from_numpy(x.numpy()), nt.from_numpy(hidden.numpy()))[0], theirs(x, hidden)[0])


def test_weights_that_change_are_packed_again() -> None:
    theirs, ours = pair("LSTM", 4, 16)
    x = torch.randn(3, 2, 4)
    for _ in range(4):
        close(ours(nt.from_numpy(x.numpy()))[0], theirs(x)[0])
        with torch.no_grad(), nt.no_grad():
            theirs.weight_hh_l0.mul_(0.5)
            ours.weight_hh_l0.mul_(0.5)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "RNN"])
def test_numbers_that_are_not_finite(name: str) -> None:
    """A NaN stays in its row of the batch; infinite inputs saturate."""
    theirs, ours = pair(name, 2, 9)
    x = torch.randn(4, 3, 2)
    x[1, 0, 0], x[2, 2, 1] = np.nan, 1e30
    np.testing.assert_allclose(
        ours(nt.from_numpy(x.numpy()))[0].detach().numpy(), theirs(x)[0].detach().numpy(), rtol=1e-5, atol=1e-6
    )


@pytest.mark.covers("lstm", "gru", "rnn", "lstm_backward", "gru_backward", "rnn_backward")
def test_second_derivatives() -> None:
    for name in ("LSTM", "GRU", "RNN"):
        theirs, ours = (layer.double() for layer in pair(name, 3, 5))
        x = torch.randn(4, 2, 3, dtype=torch.float64)

        def total(x: Any, layer: Any = theirs) -> Any:
            return (layer(x)[0] ** 2).sum()

        def slope(x: Any, layer: Any = ours, total: Any = total) -> Any:
            return nt.grad(lambda x: total(x, layer))(x).sum()

        _, expected = torch.autograd.functional.vhp(total, x, torch.ones_like(x))
        close(nt.grad(slope)(nt.from_numpy(x.numpy())), expected)


def test_gradient_of_a_recurrence_without_stored_gates() -> None:
    random = np.random.default_rng(5)
    operands = [nt.from_numpy(random.standard_normal(shape)) for shape in [(3, 2, 20), (20, 5), (20,), (2, 5), (2, 5)]]

    def gradients(gates: bool) -> Any:
        return nt.grad(lambda *x: ops.lstm(*x, gates=gates)[:2].sum(), argnums=range(5))(*operands)

    for without, stored in zip(gradients(False), gradients(True), strict=True):
        np.testing.assert_allclose(without.numpy(), stored.numpy(), rtol=1e-12)


def test_results_share_no_storage() -> None:
    _, layer = pair("LSTM", 3, 4)
    with nt.no_grad():
        output, (hidden, cell) = layer(nt.ones(2, 1, 3))
        before = hidden.numpy().copy(), cell.numpy().copy()
        output.zero_()
        hidden += 1
    np.testing.assert_array_equal(output.numpy(), 0)
    np.testing.assert_array_equal(hidden.numpy(), before[0] + 1)
    np.testing.assert_array_equal(cell.numpy(), before[1])


def test_errors() -> None:
    with pytest.raises(nt.ShapeError, match="sequence length to be larger than 0"):
        nn.GRU(3, 4)(nt.ones(0, 2, 3))
    with pytest.raises(nt.ShapeError, match=r"lstm.*needs products \(steps, batch, 4 \* hidden\)"):
        ops.lstm(nt.ones(1, 2, 9), nt.ones(8, 2), nt.ones(8), nt.ones(2, 2), nt.ones(2, 2))
