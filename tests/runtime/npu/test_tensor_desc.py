"""TensorDesc against hand-written values, NumPy's idea of contiguity, and any text at all."""

import contextlib
import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import npu_tensor as nt
from npu_tensor.dtypes import DTYPES, DType
from npu_tensor.runtime.npu.tensor_desc import MAX_BYTES, TensorDesc

SEED_EXAMPLE = "(1024,1,1,1)/f32/(1,1024,1048576,1048576)"
"""For strides, in the documentation of ggml-hsa's tool: contiguous, since only one extent is not 1."""

RANGE = f"is not in 1 to {MAX_BYTES}"


@pytest.mark.parametrize(
    ("text", "ne", "dtype", "nb", "contiguous", "short"),
    [
        ("(1024,1,1,1)/f32", (1024, 1, 1, 1), nt.float32, (4, 4096, 4096, 4096), True, "1024f32"),
        ("(1024,768,1,1)/bf16", (1024, 768, 1, 1), nt.bfloat16, (2, 2048, 1572864, 1572864), True, "1024x768bf16"),
        ("(3,1,2,1)/i16", (3, 1, 2, 1), nt.int16, (2, 6, 6, 12), True, "3x1x2i16"),
        ("(1,1,1,1)/i8", (1, 1, 1, 1), nt.int8, (1, 1, 1, 1), True, "1i8"),
        (SEED_EXAMPLE, (1024, 1, 1, 1), nt.float32, (4, 4096, 4096, 4096), True, "1024f32"),
        ("(4,8,1,1)/f32/(8,1,32,32)", (4, 8, 1, 1), nt.float32, (32, 4, 32, 32), False, "4x8f32n"),
        ("(4,8,2,1)/i8/(1,6,48,7)", (4, 8, 2, 1), nt.int8, (1, 6, 48, 96), False, "4x8x2i8n"),
        # Overlapping rows, as of a sliding window.
        ("(4,8,1,1)/f16/(1,1,1,1)", (4, 8, 1, 1), nt.float16, (2, 2, 16, 16), False, "4x8f16n"),
        # The strides that ggml gives them: of blocks, then of rows.
        ("(96,5,1,1)/q4_0", (96, 5, 1, 1), nt.q4_0, (18, 54, 270, 270), True, "96x5q4_0"),
        ("(256,5,2,1)/q4_k/(1,512,2560,1)", (256, 5, 2, 1), nt.q4_k, (144, 288, 1440, 2880), False, "256x5x2q4_kn"),
        (" ( 4 , 8 , 1 , 1 ) / u8 ", (4, 8, 1, 1), nt.uint8, (1, 4, 32, 32), True, "4x8u8"),
    ],
)
def test_parsed(
    text: str, ne: tuple[int, ...], dtype: DType, nb: tuple[int, ...], contiguous: bool, short: str
) -> None:
    desc = TensorDesc.parse(text)
    assert (desc.ne, desc.dtype, desc.nb, desc.is_contiguous, desc.short) == (ne, dtype, nb, contiguous, short)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(1024,768,1)/bf16", "Shape must have exactly 4 dimensions, got 3 in *"),
        (" (1,2,3,4,5)/bf16", "Shape must have exactly 4 dimensions, got 5 in *"),
        ("1024,1,1,1/f32", "Invalid shape format in *: shape must be enclosed in parentheses"),
        ("(1024,1,1,1", "Invalid tensor descriptor: * (expected format: (dim0,dim1,dim2,dim3)/dtype)"),
        ("(1,2,x,4)/f32", "Invalid shape values in *: 'x' is not an integer"),
        ("(1,2, 3.5,4)/f32", "Invalid shape values in *: '3.5' is not an integer"),
        ("(1,2,,4)/f32", "Invalid shape values in *: '' is not an integer"),
        ("(1,2,0,4)/f32", f"Invalid shape values in *: 0 {RANGE}"),
        ("(1,2,-3,4)/f32", f"Invalid shape values in *: -3 {RANGE}"),
        ("(1,2,3,4)", "Invalid tensor descriptor: * (expected format: (dim0,dim1,dim2,dim3)/dtype)"),
        ("(1,2,3,4)/", "Invalid tensor descriptor: * (missing dtype)"),
        ("(1,2,3,4)//(1,1,1,1)", "Invalid tensor descriptor: * (missing dtype)"),
        ("(1,2,3,4)/q2_k", "Invalid tensor descriptor: * (no dtype 'q2_k'; there are f32, bf16, f16, i8,"),
        ("(40,2,1,1)/q4_0", "Invalid tensor descriptor: * (the rows of [1, 1, 2, 40] q4_0 are not whole blocks"),
        ("(1,2,3,4)/f32/1", "Invalid stride format in *: stride must be enclosed in parentheses"),
        ("(1,2,3,4)/f32/(1,2,3)", "Stride must have exactly 4 dimensions, got 3 in *"),
        ("(1,2,3,4)/f32/(1,2,3,0)", f"Invalid stride values in *: 0 {RANGE}"),
        ("(1,2,3,4)/f32/(1,2,3,4)/5", "Invalid tensor descriptor: * (expected format:"),
        ("(99999,99999,99999,1)/i8", "Invalid tensor descriptor: * (a tensor of"),
    ],
)
def test_errors_name_the_problem(text: str, message: str) -> None:
    with pytest.raises(nt.ArgumentError) as caught:
        TensorDesc.parse(text)
    assert str(caught.value).startswith(message.replace("*", text))


def test_what_cannot_be_shown_on_a_line_is_escaped_or_cut() -> None:
    with pytest.raises(nt.ArgumentError, match=r"^Invalid shape values in \(1\\n,2,3,4\)/f32"):
        TensorDesc.parse("(1\n,2,3,4)/f32")
    with pytest.raises(nt.ArgumentError, match=r"longer than 200 characters"):
        TensorDesc.parse("(" * 100_000)


@pytest.mark.parametrize("text", [None, b"(1,1,1,1)/f32", 5, ["(1,1,1,1)/f32"]])
def test_what_is_no_text(text: Any) -> None:
    with pytest.raises(nt.ArgumentError, match="a tensor descriptor is a text"):
        TensorDesc.parse(text)


@pytest.mark.parametrize("text", ["(4,8,1,1)/f32/(4,16,128,128)", "(4,8,1,1)/bf16/(2,8,64,64)"])
def test_strides_that_look_like_bytes_warn(text: str) -> None:
    with pytest.warns(UserWarning, match="these may be bytes"):
        TensorDesc.parse(text)


def test_from_a_shape() -> None:
    assert str(TensorDesc.of((768, 1024), nt.bfloat16)) == "(1024,768,1,1)/bf16"
    assert str(TensorDesc.of((8, 4), nt.float32, (1, 8))) == "(4,8,1,1)/f32/(8,1,8,8)"
    assert str(TensorDesc.of((), nt.int64)) == "(1,1,1,1)/i64"
    with pytest.raises(nt.ShapeError, match="at most 4 dimensions"):
        TensorDesc.of((1, 1, 1, 1, 1), nt.float32)
    with pytest.raises(nt.ArgumentError, match="extents of 1 or more"):
        TensorDesc.of((3, 0), nt.float32)
    with pytest.raises(nt.ArgumentError, match="strides of one element or more, not -1"):
        TensorDesc.of((3,), nt.float32, (-1,))
    assert TensorDesc.of(np.array([2, 3]), nt.float32).ne == (3, 2, 1, 1)  # type: ignore[arg-type]
    for strides in ((1,), (1, 2, 3)):
        with pytest.raises(nt.ShapeError, match=r"\[3, 4\] needs as many strides"):
            TensorDesc.of((3, 4), nt.float32, strides)


@pytest.mark.parametrize("extents", [(1.5,), ("a",), (2, None), 5, None, "12"])
def test_extents_and_strides_are_integers(extents: Any) -> None:
    with pytest.raises(nt.ArgumentError, match="the extents of a tensor are integers"):
        TensorDesc.of(extents, nt.float32)
    if extents is not None:
        with pytest.raises(nt.ArgumentError, match="the strides of a tensor are integers"):
            TensorDesc.of((3,), nt.float32, extents)


extents = st.tuples(*[st.integers(1, 6)] * 4)


@given(extents, st.tuples(*[st.integers(1, 40)] * 4), st.sampled_from(DTYPES))
def test_strides_mean_what_they_mean_in_numpy(shape: tuple[int, ...], strides: tuple[int, ...], dtype: DType) -> None:
    desc = TensorDesc.of(shape, dtype, strides)
    memory = np.zeros(6 * 40 * 4, dtype.numpy)
    array = np.lib.stride_tricks.as_strided(memory, shape, [step * dtype.itemsize for step in strides])
    assert desc.is_contiguous == array.flags.c_contiguous
    assert (desc.shape, desc.size) == (array.shape, array.size)
    low, high = np.lib.array_utils.byte_bounds(array)
    assert desc.span * dtype.itemsize == high - low
    for step, own, extent in zip(desc.nb, reversed(array.strides), desc.ne, strict=True):
        assert extent == 1 or step == own


@given(extents, st.none() | st.tuples(*[st.integers(1, 40)] * 4), st.sampled_from(DTYPES))
def test_text_round_trip(shape: tuple[int, ...], strides: tuple[int, ...] | None, dtype: DType) -> None:
    desc = TensorDesc.of(shape, dtype, strides)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert TensorDesc.parse(str(desc)) == desc


grammar = st.lists(st.sampled_from([*"()/,+- 0123456789\n\0é", "f32", "bf16", "(1,2,3,4)", "/i8/"]), max_size=20)


@given(st.text(max_size=300) | grammar.map("".join))
def test_any_text_is_a_descriptor_or_an_argument_error(text: str) -> None:
    with warnings.catch_warnings(), contextlib.suppress(nt.ArgumentError):
        warnings.simplefilter("ignore")
        desc = TensorDesc.parse(text)
        assert desc.span * desc.dtype.itemsize <= MAX_BYTES
