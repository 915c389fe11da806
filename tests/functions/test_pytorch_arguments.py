"""Arguments that programs written for PyTorch pass, by position or keyword, with PyTorch's results."""

from typing import Any

import numpy as np
import pytest
import torch

import npu_tensor as nt
import npu_tensor.nn.functional as F

M = torch.arange(24.0).reshape(4, 6) - 10
INDEX = torch.tensor([[2, 0], [3, 2]])


def ours(value: Any) -> Any:
    return nt.tensor(value) if isinstance(value, torch.Tensor) else value


def assert_equal(result: Any, expected: torch.Tensor) -> None:
    np.testing.assert_allclose(result.float().numpy(), expected.float().numpy(), rtol=1e-5, atol=1e-6)
    assert result.dtype.name == str(expected.dtype).removeprefix("torch.")


@pytest.mark.parametrize(
    ("name", "args"),
    [
        *((name, (M, True)) for name in ("relu", "relu6", "silu", "mish", "hardswish", "hardsigmoid", "selu")),
        *((name, (M, 0.3, True)) for name in ("leaky_relu", "elu", "celu")),
        *((name, (M, -1.0, 2.0, True)) for name in ("hardtanh", "threshold")),
        ("rrelu", (M, 0.1, 0.2, False, True)),
        *((name, (M, 0.5, False, True)) for name in ("dropout", "alpha_dropout")),
    ],
)
def test_activations_take_inplace_by_position(name: str, args: tuple[Any, ...]) -> None:
    x = nt.tensor(M)
    result = getattr(F, name)(x, *args[1:])
    assert result is x
    assert_equal(x, getattr(torch.nn.functional, name)(M.clone(), *args[1:]))


@pytest.mark.covers("feature_alpha_dropout")
def test_channels_are_dropped_to_the_limit_of_selu() -> None:
    x = nt.feature_alpha_dropout(nt.ones(2, 64, 3), 0.5, True)
    assert len({*x.flatten().tolist()}) == 2
    assert bool((x == x[..., :1]).all())
    assert F.feature_alpha_dropout(x, 0.5, False, True) is x


def test_diff_of_elements_before_and_after() -> None:
    for keywords in ({"prepend": M[:1]}, {"append": M[:2], "n": 2}, {"prepend": M, "append": M}):
        result = nt.tensor(M).diff(dim=0, **{key: ours(value) for key, value in keywords.items()})
        assert_equal(result, M.diff(dim=0, **keywords))  # type: ignore[arg-type]


def test_embedding_takes_all_arguments_by_position() -> None:
    weight, expected = nt.tensor(M), M.clone()
    result = F.embedding(nt.tensor(INDEX), weight, None, 5.0, 2.0, False, False)
    assert_equal(result, torch.nn.functional.embedding(INDEX, expected, None, 5.0, 2.0, False, False))
    assert_equal(weight, expected)  # the rows that are used are limited in place
    with pytest.raises(nt.ArgumentError, match="scale_grad_by_freq"):
        F.embedding(nt.tensor(INDEX), weight, None, None, 2.0, True)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag_takes_all_arguments_by_position(mode: str) -> None:
    args = (INDEX.reshape(4), M, torch.tensor([0, 1, 4]), None, 2, False, mode, False, None, True, 0)
    assert_equal(F.embedding_bag(*map(ours, args)), torch.nn.functional.embedding_bag(*args))  # type: ignore[arg-type]


def test_repeats_are_a_tensor_of_known_sum() -> None:
    repeats = torch.tensor([1, 0, 3, 2])
    expected = M.repeat_interleave(repeats, 0)
    assert_equal(nt.tensor(M).repeat_interleave(nt.tensor(repeats), 0), expected)
    assert_equal(nt.repeat_interleave(nt.tensor(repeats)), torch.repeat_interleave(repeats))
    fixed = nt.jit(lambda x, times: x.repeat_interleave(times, 0, output_size=6))
    assert_equal(fixed(nt.tensor(M), nt.tensor(repeats)), expected)


def test_windows_by_keyword() -> None:
    assert_equal(nt.tensor(M).unfold(dimension=1, size=3, step=2), M.unfold(dimension=1, size=3, step=2))


def test_masks_as_indices_are_captured() -> None:
    x, mask, rows = nt.tensor(M), nt.tensor(M > 3), nt.tensor(M[:, 0] > 0)
    result = nt.jit(lambda x, mask: x.index_put((mask,), nt.tensor(7.0)))(x, mask)
    assert_equal(result, M.index_put((M > 3,), torch.tensor(7.0)))
    result = nt.jit(lambda x, rows: x.index_put((rows,), x[0], accumulate=True))(x, rows)
    assert_equal(result, M.index_put((M[:, 0] > 0,), M[0], accumulate=True))


@pytest.mark.covers("as_strided")
def test_as_strided_counts_in_row_major_order() -> None:
    assert_equal(nt.tensor(M).as_strided((3, 2), (2, 5), 1), M.as_strided((3, 2), (2, 5), 1))
    with pytest.raises(nt.ShapeError, match="equally many"):
        nt.tensor(M).as_strided((3, 2), (2,))


def test_memory_of_another_library_is_shared_on_request() -> None:
    source = torch.arange(6.0)
    shared, copied = nt.from_dlpack(source, copy=False), nt.from_dlpack(source)
    source[0] = 5
    assert (shared[0].item(), copied[0].item()) == (5, 0)


def test_memory_formats_are_ignored() -> None:
    x = nt.ones(1, 2, 3, 3).to(memory_format=nt.channels_last).contiguous(memory_format=nt.contiguous_format)
    kept = x.clone(memory_format=nt.preserve_format)
    assert nt.zeros_like(kept, memory_format=nt.preserve_format, layout=nt.strided).stride() == (18, 9, 3, 1)


@pytest.mark.parametrize("size", [2, (3, 4)])
@pytest.mark.parametrize("shape", [(2, 3, 6, 8), (2, 6, 8), (1, 1, 7, 9)])
def test_adaptive_pools_return_positions(size: Any, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    results = F.adaptive_max_pool2d(nt.tensor(x), size, True)
    for result, expected in zip(results, torch.nn.functional.adaptive_max_pool2d(x, size, True), strict=True):
        assert_equal(result, expected)


def test_cosine_similarity_broadcasts() -> None:
    for a, b, dim in ((M, M[0], 1), (M.reshape(4, 1, 6), M, -1), (M, M[:, :1], 0)):
        result = F.cosine_similarity(nt.tensor(a), nt.tensor(b), dim)
        assert_equal(result, torch.nn.functional.cosine_similarity(a, b, dim))


@pytest.mark.covers("multi_head_attention_forward")
@pytest.mark.parametrize("need_weights", [True, False])
def test_multi_head_attention_with_further_keys(need_weights: bool) -> None:
    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(8, 2, add_bias_kv=True, add_zero_attn=True)
    query, key = torch.randn(3, 2, 8), torch.randn(5, 2, 8)
    mask = torch.triu(torch.ones(3, 5, dtype=torch.bool), 3)
    args = (query, key, key, 8, 2, module.in_proj_weight, module.in_proj_bias, module.bias_k, module.bias_v, True, 0.0)
    args = (*args, module.out_proj.weight, module.out_proj.bias, False, None, need_weights, mask)
    args = tuple(each.detach() if isinstance(each, torch.Tensor) else each for each in args)
    results = nt.multi_head_attention_forward(*map(ours, args))
    expected = torch.nn.functional.multi_head_attention_forward(*args)
    assert_equal(results[0], expected[0])
    assert (results[1] is None) is (expected[1] is None)
    if need_weights:
        assert_equal(results[1], expected[1])


@pytest.mark.covers("norm_except_dim", "_weight_norm")
def test_weights_with_given_norms() -> None:
    for dim in (0, 1, -1):
        norms = torch.norm_except_dim(M, 2, dim)
        assert_equal(nt.norm_except_dim(nt.tensor(M), 2, dim), norms)
        assert_equal(nt._weight_norm(nt.tensor(M), nt.tensor(norms * 2), dim), torch._weight_norm(M, norms * 2, dim))


VIEWS = {
    "as_strided": ((2, 2), (1, 2)),
    "detach": (),
    "diagonal": (),
    "expand": ((2, 4, 6),),
    "narrow": (0, 1, 2),
    "permute": ((1, 0),),
    "select": (0, 1),
    "split": (2,),
    "squeeze": (),
    "t": (),
    "transpose": (0, 1),
    "unbind": (),
    "unfold": (0, 2, 1),
    "unsqueeze": (0,),
    "view": ((2, 12),),
}


@pytest.mark.covers("as_strided_copy", "detach_copy", "diagonal_copy", "expand_copy", "narrow_copy", "permute_copy")
@pytest.mark.covers("select_copy", "split_copy", "squeeze_copy", "t_copy", "transpose_copy", "unbind_copy")
@pytest.mark.covers("unfold_copy", "unsqueeze_copy", "view_copy")
def test_copies_of_views_have_memory_of_their_own() -> None:
    for name, args in VIEWS.items():
        x = nt.tensor(M)
        result = getattr(nt, f"{name}_copy")(x, *args)
        expected = getattr(torch, f"{name}_copy")(M, *args)
        several = isinstance(result, tuple)
        for mine, other in zip(result, expected, strict=True) if several else [(result, expected)]:
            assert_equal(mine, other)
            mine.zero_()
        assert_equal(x, M)


@pytest.mark.covers("polygamma", "i0")
def test_derivatives_of_digamma_and_bessel_functions() -> None:
    x = torch.tensor([-1.7, 0.3, 1.0, 4.5, 40.0, 1e30])
    for n in (0, 1, 2, 3, 6):
        assert_equal(nt.polygamma(n, nt.tensor(x)), torch.polygamma(n, x))
    assert_equal(nt.i0(nt.tensor(x)), torch.i0(x))


def test_the_normal_distribution_far_from_its_mean() -> None:
    x = torch.tensor([-40.0, -5.0, -0.5, 3.0])
    assert_equal(nt.special.log_ndtr(nt.tensor(x)), torch.special.log_ndtr(x))
    assert_equal(nt.special.erfcx(nt.tensor(-x)), torch.special.erfcx(-x))
    assert nt.special.expit is nt.sigmoid
    with pytest.raises(AttributeError, match="airy"):
        nt.special.airy_ai  # noqa: B018


def test_masked_means_and_windows() -> None:
    mask = M > 0
    assert_equal(nt.masked.mean(nt.tensor(M), 0, mask=nt.tensor(mask)), torch.masked.mean(M, 0, mask=mask))
    assert_equal(nt.signal.windows.hann(6, sym=False), torch.signal.windows.hann(6, sym=False))
