"""Operators of ONNX on quantized numbers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import npu_tensor as nt
from npu_tensor import ops
from npu_tensor.errors import ArgumentError
from npu_tensor.interop.onnx_images import convolve, image_columns, windows_of_weight
from npu_tensor.interop.onnx_operands import Array, Operator, array_dtype, as_tensor, dtype_name, tensor_dtype
from npu_tensor.nn import functional
from npu_tensor.tensor import Tensor

F: Any = functional
_ops: Any = ops

# --- quantization


def _align_parameter(parameter: Tensor | None, x: Tensor, axis: int, block_size: int) -> Any:
    """Reshape a scale or zero point so that it broadcasts along the other dimensions."""
    if parameter is None or parameter.numel() == 1:
        return None if parameter is None else parameter.reshape([])
    if block_size:
        return parameter.repeat_interleave(block_size, axis).narrow(axis, 0, x.shape[axis])
    return parameter.reshape([-1 if d == axis % x.ndim else 1 for d in range(x.ndim)])


def _limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    info: Any = np.iinfo(dtype)
    return int(info.min), int(info.max)


def _quantize(
    x: Tensor, scale: Tensor, zero: Tensor | None = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0,
    precision: int = 0, saturate: int = 1,
) -> Tensor:  # fmt: skip
    dtype = np.dtype(dtype_name(zero)) if zero is not None else array_dtype(output_dtype or 2)
    name = tensor_dtype(dtype)
    low, high = _limits(dtype)
    y = nt.round(x.to("float32") / _align_parameter(scale, x, axis, block_size).to("float32"))
    if zero is not None:
        y = y + _align_parameter(zero, x, axis, block_size).to("float32")
    return y.clamp(low, high).to(name)


def _dequantize(
    x: Tensor, scale: Tensor, zero: Tensor | None = None, *, axis: int = 1, block_size: int = 0, output_dtype: int = 0
) -> Tensor:
    name = tensor_dtype(array_dtype(output_dtype)) if output_dtype else dtype_name(scale)
    scale, zero = _align_parameter(scale, x, axis, block_size), _align_parameter(zero, x, axis, block_size)
    if zero is not None and x.itemsize == 4:  # Differences of such integers are exact as integers only.
        x, zero = x - zero, None
    centred = x.to("float32") if zero is None else x.to("float32") - zero.to("float32")
    return (centred * scale.to("float32")).to(name)


def _dynamic_quantize(x: Tensor) -> tuple[Tensor, ...]:
    low, high = nt.clamp(x.min(), max=0.0), nt.clamp(x.max(), min=0.0)
    scale = (high - low) / 255
    safe = nt.where(scale == 0, 1.0, scale)
    zero = nt.round((-low / safe).clamp(0, 255))
    return (nt.round(x / safe) + zero).clamp(0, 255).to("uint8"), scale, zero.to("uint8")


def _to_int8(x: Tensor, zero: Tensor | None) -> tuple[Tensor, Any]:
    """Return 8-bit numbers as int8, and their zero point as an int32 tensor or a number."""
    point = 0 if zero is None else zero.to("int32")
    if dtype_name(x) != "uint8":
        return x, point
    return (x.to("int16") - 128).to("int8"), point - 128


def _row_zero(zero: Any, x: Tensor) -> Any:
    return zero.unsqueeze(-1) if isinstance(zero, Tensor) and zero.ndim == 1 and zero.shape[0] > 1 else zero


def _matmul_integer(a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None) -> Tensor:
    """Multiply 8-bit matrices as int8 with int32 sums, and correct for the zero points."""
    return _centred_product(*_to_int8(a, a_zero), *_to_int8(b, b_zero))


def _centred_product(x: Tensor, x_zero: Any, y: Tensor, y_zero: Any) -> Tensor:
    x_zero = _row_zero(x_zero, x)
    product = _int8_product(x, y)
    if isinstance(y_zero, Tensor) or y_zero:
        product = product - x.sum(-1, keepdim=x.ndim > 1 and y.ndim > 1, dtype="int32") * y_zero
    if isinstance(x_zero, Tensor) or x_zero:
        sums = y.sum(-2 if y.ndim > 1 else 0, keepdim=y.ndim > 1 and x.ndim > 1, dtype="int32")
        product = product - x_zero * (sums - y_zero * x.shape[-1])
    return product


def _int8_product(x: Tensor, y: Tensor) -> Tensor:
    rows = x.unsqueeze(0) if x.ndim == 1 else x
    columns = y.unsqueeze(1) if y.ndim == 1 else y
    product: Tensor = _ops.contract(rows, columns, "int32")
    product = product.squeeze(-1) if y.ndim == 1 else product
    return product.squeeze(-2 if y.ndim > 1 else -1) if x.ndim == 1 else product


def _conv_integer(
    x: Tensor, w: Tensor, x_zero: Tensor | None = None, w_zero: Tensor | None = None, *, group: int = 1, **window: Any
) -> Tensor:
    """Convolve 8-bit images as a product of the weight and the windows, which are padded with the zero point."""
    if group != 1:
        image, weight = x.to("int32"), w.to("int32")
        image = image if x_zero is None else image - x_zero.to("int32").reshape([])
        if w_zero is not None:
            weight = weight - w_zero.to("int32").reshape([-1, *[1] * (w.ndim - 1)])
        return convolve(image, weight, group=group, **window)
    image, point = _to_int8(x, x_zero)
    outside = point.to("int8") if isinstance(point, Tensor) else point
    if nt.get_default_device() != "cpu" and w_zero is None and x.ndim == 4:
        return _image_sums(image, w, outside, **window)
    # The processor multiplies int8 matrices twice as fast as it convolves int8 images.
    columns, extents = image_columns(image, w, outside=outside, **window)
    y = _centred_product(*_to_int8(w.flatten(1), w_zero), columns, point)
    return y.reshape(x.shape[0], w.shape[0], *extents)


def _image_sums(image: Tensor, w: Tensor, outside: Any, **window: Any) -> Tensor:
    """Convolve an int8 image, which is padded with its zero point, with an int8 weight without one."""
    windows = windows_of_weight(image, w, **window)
    padding = tuple(zip(windows.before, windows.after, strict=True))
    has_point = isinstance(outside, Tensor) or outside
    if has_point and any(map(any, padding)):
        image, padding = windows.padded(image ^ outside) ^ outside, ((0, 0),) * 2
    stride, dilation = tuple(windows.strides), tuple(windows.dilations)
    sums: Tensor = _ops.conv_2d(image, w, stride, padding, dilation, out_dtype="int32")
    if has_point:
        point = outside.to("int32") if isinstance(outside, Tensor) else outside
        sums = sums - (w.sum((1, 2, 3), dtype="int32") * point).reshape(-1, 1, 1)
    return sums


def _requantize(y: Tensor, scale: Any, out_scale: Tensor, out_zero: Tensor) -> Tensor:
    low, high = _limits(np.dtype(dtype_name(out_zero)))
    rounded = nt.round(y.to("float32") * (scale / out_scale.to("float32"))) + out_zero.to("float32")
    return rounded.clamp(low, high).to(out_zero.dtype)


def _qlinear_matmul(
    a: Tensor, a_scale: Tensor, a_zero: Tensor, b: Tensor, b_scale: Tensor, b_zero: Tensor, y_scale: Tensor,
    y_zero: Tensor,
) -> Tensor:  # fmt: skip
    product = _matmul_integer(a, b, a_zero, b_zero)
    scale = _row_zero(a_scale.to("float32"), a) * b_scale.to("float32")
    return _requantize(product, scale, y_scale, y_zero)


def _qlinear_conv(
    x: Tensor, x_scale: Array, x_zero: Array, w: Tensor, w_scale: Array, w_zero: Array, y_scale: Array,
    y_zero: Array, b: Tensor | None = None, **attributes: Any,
) -> Tensor:  # fmt: skip
    y = _conv_integer(x, w, _zero_point(x_zero), _zero_point(w_zero), **attributes)
    channels = [-1, *[1] * (x.ndim - 2)]
    y = y if b is None else y + b.reshape(channels)
    scales = x_scale * w_scale / y_scale
    scale: Any = scales.item() if scales.size == 1 else as_tensor(scales.reshape(channels))
    y = nt.round(y.to("float32") * scale)
    low, high = _limits(y_zero.dtype)
    return (y + y_zero.item() if y_zero.any() else y).clamp(low, high).to(y_zero.dtype.name)


def _zero_point(zero: Array) -> Tensor | None:
    """Return a zero point as a tensor; None for zeros of int8, which correct nothing."""
    return None if zero.dtype == np.int8 and not zero.any() else as_tensor(zero)


def _quantized_matmul(
    a: Tensor, a_scale: Tensor, a_zero: Tensor | None, b: Tensor, b_scale: Tensor, b_zero: Tensor | None
) -> Tensor:
    """Multiply matrices that the file dequantizes before a product, as integers."""
    return (_matmul_integer(a, b, a_zero, b_zero).to("float32") * (a_scale.to("float32") * b_scale.to("float32"))).to(
        a_scale.dtype
    )


def _quantized_conv(
    x: Tensor, x_scale: Tensor, x_zero: Tensor | None, w: Tensor, w_scale: Tensor, w_zero: Tensor | None,
    b: Tensor | None = None, **attributes: Any,
) -> Tensor:  # fmt: skip
    """Convolve images with a weight that the file dequantizes before, as integers."""
    channels = [-1, *[1] * (x.ndim - 2)]
    # In float32, where the product of two small scales of float16 does not vanish.
    scale = x_scale.to("float32") * (w_scale.reshape(channels) if w_scale.ndim else w_scale).to("float32")
    y = (_conv_integer(x, w, x_zero, w_zero, **attributes).to("float32") * scale).to(x_scale.dtype)
    return y if b is None else y + b.reshape(channels)


def _unpack_bits(codes: Tensor, bits: int) -> Tensor:
    """Return the numbers of `bits` bits in bytes, lowest bits first, along the last dimension."""
    if bits == 8:
        return codes
    shifts = [nt.bitwise_right_shift(codes, shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)]
    return nt.stack(shifts, -1).flatten(-2)


def _matmul_nbits(
    a: Tensor, b: Tensor, scales: Tensor, zeros: Tensor | None = None, groups: Tensor | None = None,
    bias: Tensor | None = None, *, K: int, N: int, accuracy_level: int = 0, bits: int = 4, block_size: int,
    weight_prepacked: int = 0,
) -> Tensor:  # fmt: skip
    if bits not in (2, 4, 8) or groups is not None or weight_prepacked:
        raise ArgumentError(f"weights of {bits} bits, with g_idx or prepacked, are not supported; use 2, 4 or 8 bits")
    blocks = -(-K // block_size)
    codes = _unpack_bits(b.reshape(N, blocks, -1), bits).to("float32")
    if zeros is None:
        point: Any = 1 << (bits - 1)
    elif zeros.is_floating_point():
        point = zeros.reshape(N, blocks, 1).to("float32")
    else:
        point = _unpack_bits(zeros.reshape(N, -1), bits)[:, :blocks].unsqueeze(-1).to("float32")
    weight = ((codes - point) * scales.reshape(N, blocks, 1).to("float32")).flatten(1)[:, :K].to(a.dtype)
    return F.linear(a, weight, bias)  # type: ignore[no-any-return]


QUANTIZED_OPERATORS: Final[dict[str, Operator]] = {
    "ConvInteger": Operator(_conv_integer),
    "DequantizeLinear": Operator(_dequantize),
    "DynamicQuantizeLinear": Operator(_dynamic_quantize),
    "MatMulInteger": Operator(_matmul_integer),
    "QLinearConv": Operator(_qlinear_conv, (1, 2, 4, 5, 6, 7)),
    "QLinearMatMul": Operator(_qlinear_matmul),
    "QuantizeLinear": Operator(_quantize),
    "QuantizedConv": Operator(_quantized_conv),
    "QuantizedMatMul": Operator(_quantized_matmul),
    "com.microsoft.MatMulNBits": Operator(_matmul_nbits),
}
