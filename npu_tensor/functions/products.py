"""Products of matrices and vectors, made of the batched contraction of two matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from npu_tensor import ops
from npu_tensor.dtypes import bfloat16, float32, int8, int16, int32, uint8
from npu_tensor.errors import ArgumentError, DTypeError, ShapeError
from npu_tensor.functions.register import Operand, composite, fitting, require_float, tensor_of
from npu_tensor.functions.shape import cut, joined
from npu_tensor.functions.templated import templated
from npu_tensor.ops import registry
from npu_tensor.ops.rules import dimension, unpacked
from npu_tensor.spec import broadcast_shapes
from npu_tensor.tensor import Tensor, from_array, record


def _product_of(a: Tensor, b: Tensor, out_dtype: str | None = None) -> Tensor:
    """Return the matrix product of tensors that are not zero-dimensional."""
    if a.ndim == 2 and b.ndim == 2:
        return ops.contract(a, b, out_dtype)
    return _reshaped_product(a, b, out_dtype)


@templated
def _reshaped_product(a: Tensor, b: Tensor, out_dtype: str | None) -> Tensor:
    """Return the product of batches of matrices or vectors."""
    if not a.ndim or not b.ndim:
        raise ShapeError("needs at least one dimension in both")
    if a.ndim == 1:
        product = _product_of(a.reshape(1, a.shape[0]), b, out_dtype)
        return product.reshape(product.shape[:-2] + product.shape[-1:] if b.ndim > 1 else ())
    if b.ndim == 1:
        product = _product_of(a, b.reshape(b.shape[0], 1), out_dtype)
        return product.reshape(product.shape[:-1])
    if b.ndim == 2:
        # One matrix for the whole batch: its rows are one tall matrix.
        rows = math.prod(a.shape[:-1])
        return ops.contract(a.reshape(rows, a.shape[-1]), b, out_dtype).reshape(*a.shape[:-1], b.shape[-1])
    return ops.contract(a, b, out_dtype)


@composite(ggml="MUL_MAT")
def matmul(input: Operand, other: Operand) -> Tensor:
    """Return the matrix product; leading dimensions broadcast.

    Float sums are accumulated in float32 (float64 for float64) and rounded once.

    Args:
        input: Tensor (..., n, k); a vector (k) counts as one row.
        other: Tensor (..., k, m) of the dtype of `input`; a vector (k) counts as one column.

    Returns:
        Tensor (..., n, m), without the dimensions that a vector lacks.

    Raises:
        ShapeError: Inner dimensions differ, or an operand has no dimensions.
    """
    return _product_of(tensor_of(input), tensor_of(other))


def _matmul(self: Tensor, other: Any) -> Any:
    """Return the matrix product, like `matmul`."""
    return matmul(self, other) if isinstance(other, (Tensor, np.ndarray)) else NotImplemented


def _rmatmul(self: Tensor, other: Any) -> Any:
    return matmul(other, self) if isinstance(other, (Tensor, np.ndarray)) else NotImplemented


registry.publish_operator("matmul", _matmul, _rmatmul)
registry.UFUNCS[np.matmul] = matmul


def _require_dimensions(ndim: int, **operands: Tensor) -> None:
    for name, tensor in operands.items():
        if tensor.ndim != ndim:
            raise ShapeError(f"{name} must have {ndim} dimensions, not {tensor.ndim}")


@composite()
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the product of two matrices."""
    _require_dimensions(2, input=input, mat2=mat2)
    return ops.contract(input, mat2)


@composite()
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Return the products of two stacks (batch, n, k) and (batch, k, m).

    >>> nt.bmm(nt.ones(2, 1, 3), nt.ones(2, 3, 2))
    """
    _require_dimensions(3, input=input, mat2=mat2)
    if input.shape[0] != mat2.shape[0]:
        raise ShapeError(f"batches differ: {input.shape[0]} and {mat2.shape[0]}")
    return ops.contract(input, mat2)


@composite()
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Return the product of a matrix and a vector.

    >>> nt.mv(nt.ones(2, 3), nt.ones(3))
    """
    _require_dimensions(2, input=input)
    _require_dimensions(1, vec=vec)
    return _product_of(input, vec)


@composite(aliases=("vdot",))
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """Return the sum of the products of two vectors.

    >>> nt.dot(nt.tensor([1.0, 2.0]), nt.tensor([3.0, 4.0]))
    """
    _require_dimensions(1, input=input, tensor=tensor)
    return _product_of(input, tensor)


@composite(aliases=("ger",))
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """Return all products of elements of two vectors.

    >>> nt.outer(nt.tensor([1.0, 2.0]), nt.tensor([3.0, 4.0]))
    """
    _require_dimensions(1, input=input, vec2=vec2)
    return input.reshape(input.shape[0], 1) * vec2


@composite()
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Return the sums of products along the last dimensions of both; if one is a number, the product."""
    if not input.ndim or not other.ndim:
        return input * other
    rows = other.reshape(math.prod(other.shape[:-1]), other.shape[-1])
    return _product_of(input, ops.permute(rows, 1, 0)).reshape(*input.shape[:-1], *other.shape[:-1])


@composite()
def kron(input: Tensor, other: Tensor) -> Tensor:
    """Return the Kronecker product: other times each element of input, arranged like input."""
    ndim = max(input.ndim, other.ndim)
    outer_shape, inner_shape = ((1,) * (ndim - tensor.ndim) + tensor.shape for tensor in (input, other))
    coarse = input.reshape([extent for size in outer_shape for extent in (size, 1)])
    fine = other.reshape([extent for size in inner_shape for extent in (1, size)])
    return (coarse * fine).reshape([a * b for a, b in zip(outer_shape, inner_shape, strict=True)])


@composite(method=False)
@templated
def cdist(x1: Tensor, x2: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """Return the p-norms of the differences of all rows of x1 (..., n, m) and x2 (..., k, m): (..., n, k)."""
    if x1.ndim < 2 or x2.ndim < 2 or x1.shape[-1] != x2.shape[-1]:
        raise ShapeError("needs (..., n, m) and (..., k, m)")
    order = p if x1.shape[-1] else 1  # norms of empty rows are 0, but there is no largest element
    distances: Tensor = (x1.unsqueeze(-2) - x2.unsqueeze(-3)).norm(order, -1)
    return distances


@composite(method=False)
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Return the p-norms of the differences of all pairs of rows of a matrix.

    The order of the pairs is 0 and 1, 0 and 2, ..., 1 and 2, and so on.
    """
    _require_dimensions(2, input=input)
    above_diagonal = np.flatnonzero(np.tri(input.shape[0], dtype=bool) == 0)
    return ops.take_op(cdist(input, input, p).reshape(-1), from_array(above_diagonal), 0)


@composite(method=False)
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """Return the p-norms of x1 - x2 + eps over the last dimension."""
    return (x1 - x2 + eps).norm(p, -1, keepdim)


@composite()
def trace(input: Tensor) -> Tensor:
    """Return the sum of the diagonal of a matrix."""
    _require_dimensions(2, input=input)
    return ops.diagonal(input).sum()


@composite(method=False)
@templated
def linear(input: Operand, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return input @ weight.T + bias in the dtype of input.

    Args:
        input: Floats (..., in features).
        weight: Matrix (out features, in features), or a vector for one output. It may be float16 or bfloat16 if `input`
            is float32, and quantized if `input` is floating point; see `mul_mat`.
        bias: Offset (out features); None for 0.

    Returns:
        Tensor (..., out features).
    """
    input = tensor_of(input)
    dtype, ndim = input.dtype, weight.ndim
    if ndim not in (1, 2):
        raise ShapeError(f"weight must have one or two dimensions, not {ndim}")
    if weight.dtype.is_quantized:
        tokens = input if dtype is bfloat16 else input.to(float32)
        product = ops.linear_quantized(tokens, weight).to(require_float(input))
    else:
        out_dtype = "float32" if dtype is float32 else None
        # Nothing writes to this view, so it need not share the memory of the weight.
        matrix = record(ops.permute.op, (weight,), ((1, 0),)) if ndim == 2 else weight
        product = _product_of(input, matrix, out_dtype)
    return product if bias is None else product + bias


def _scaled(tensor: Tensor, factor: float) -> Tensor:
    """Multiply by a number in the dtype of the tensor; integers truncate it."""
    return tensor if factor == 1 else tensor * fitting(factor, tensor.dtype)


def _plus_product(input: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    product = _scaled(product, alpha)
    # beta = 0 ignores NaN and infinity in input, as in BLAS.
    return product if beta == 0 else _scaled(input, beta) + product


@composite(in_place=True)
@templated
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return beta * input + alpha * (mat1 @ mat2).

    >>> nt.addmm(nt.ones(2, 2), nt.ones(2, 3), nt.ones(3, 2))
    """
    return _plus_product(input, mm(mat1, mat2), beta, alpha)


@composite(in_place=True)
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return beta * input + alpha * (batch1 @ batch2), matrix by matrix.

    >>> nt.baddbmm(nt.ones(2, 1, 2), nt.ones(2, 1, 3), nt.ones(2, 3, 2))
    """
    return _plus_product(input, bmm(batch1, batch2), beta, alpha)


@composite(in_place=True)
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return beta * input + alpha * (mat @ vec).

    >>> nt.addmv(nt.ones(2), nt.ones(2, 3), nt.ones(3))
    """
    return _plus_product(input, mv(mat, vec), beta, alpha)


@composite(in_place=True)
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return beta * input + alpha * the sum of the products of two stacks of matrices.

    >>> nt.addbmm(nt.ones(1, 2), nt.ones(2, 1, 3), nt.ones(2, 3, 2))
    """
    product = bmm(batch1, batch2)
    return _plus_product(input, product.sum(0, dtype=product.dtype), beta, alpha)


@composite(in_place=True)
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return beta * input + alpha * all products of elements of two vectors.

    >>> nt.addr(nt.zeros(2, 2), nt.tensor([1.0, 2.0]), nt.tensor([3.0, 4.0]))
    """
    return _plus_product(input, outer(vec1, vec2), beta, alpha)


@composite(method=False)
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return input1 @ weight[o] @ input2 for each output o, plus bias.

    Args:
        input1: Floats (..., n).
        input2: Floats (..., m).
        weight: Tensor (outputs, n, m).
        bias: Offset (outputs); None for 0.

    >>> nt.bilinear(nt.ones(2, 3), nt.ones(2, 4), nt.ones(1, 3, 4))
    """
    product = einsum("...i,oij,...j->...o", input1, weight, input2)
    return product if bias is None else product + bias


@composite(method=False)
def tensordot(a: Tensor, b: Tensor, dims: int | Sequence[Sequence[int]] = 2) -> Tensor:
    """Sum products over several dimensions of a and b.

    Args:
        a: First operand.
        b: Second operand.
        dims: Number of last dimensions of a and first dimensions of b, or the dimensions of each.
    """
    if isinstance(dims, int):
        named = [list(range(a.ndim - dims, a.ndim)), list(range(dims))]
    else:
        named = [[dimension(dim, tensor.ndim) for dim in each] for tensor, each in zip((a, b), dims, strict=True)]
    for first, second in zip(*named, strict=True):  # an extent of 1 broadcasts
        if b.shape[second] == 1:
            a = a.sum(first, True, dtype=a.dtype)
        elif a.shape[first] == 1:
            b = b.sum(second, True, dtype=b.dtype)
    rows, columns = ([d for d in range(t.ndim) if d not in n] for t, n in zip((a, b), named, strict=True))
    summed = [a.shape[dim] for dim in named[0]]
    if summed != [b.shape[dim] for dim in named[1]]:
        raise ShapeError(f"dimensions {named[0]} of {list(a.shape)} and {named[1]} of {list(b.shape)} differ")
    inner = math.prod(summed)
    outer_shapes = [a.shape[dim] for dim in rows], [b.shape[dim] for dim in columns]
    left = a.permute(*rows, *named[0]).reshape(math.prod(outer_shapes[0]), inner)
    right = b.permute(*named[1], *columns).reshape(inner, math.prod(outer_shapes[1]))
    return ops.contract(left, right).reshape([*outer_shapes[0], *outer_shapes[1]])


@composite()
def cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """Return the cross products of vectors of three elements along dim.

    Args:
        input: Vectors of any shape with a dimension of extent 3.
        dim: Dimension of extent 3; None for the first such dimension.

    >>> nt.cross(nt.tensor([1.0, 0.0, 0.0]), nt.tensor([0.0, 1.0, 0.0]))
    """
    shape = broadcast_shapes(input.shape, other.shape)
    place = (shape.index(3) if 3 in shape else 0) if dim is None else dimension(dim, len(shape))
    if not shape or shape[place] != 3:
        raise ShapeError(f"needs a dimension of extent 3, not {list(shape)}")
    # Elements 1, 2, 0 and 2, 0, 1 of the vectors are parts of the vectors written twice.
    twice = [joined([vectors, vectors], place) for vectors in (input.expand(shape), other.expand(shape))]
    (a, a_rolled), (b, b_rolled) = ((cut(each, place, 1, 4), cut(each, place, 2, 5)) for each in twice)
    return a * b_rolled - a_rolled * b


# --- Einstein summation


def _labels(equation: str, tensors: Sequence[Tensor]) -> tuple[list[str], str]:
    """Return one label per dimension of each operand and of the result. Raise ArgumentError, ShapeError."""
    from opt_einsum.parser import parse_einsum_input

    if not all(letter.isalpha() or letter in " .,->" for letter in str(equation)):
        raise ArgumentError(f"labels of {equation!r} must be letters")
    shapes = [tensor.shape for tensor in tensors]
    try:
        left, result, _ = parse_einsum_input((equation, *shapes), shapes=True)
    except ValueError as error:
        raise ArgumentError(f"{equation!r}: {error}") from None
    terms = left.split(",")
    extents: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=True):
        if len(term) != len(shape):
            raise ShapeError(f"{term!r} in {equation!r} does not name the dimensions of shape {list(shape)}")
        for label, extent in zip(term, shape, strict=True):
            if extent != shape[term.index(label)]:
                raise ShapeError(f"label {label!r} is repeated in {term!r} with different extents, {list(shape)}")
            if extent != 1 and extents.setdefault(label, extent) != extent:
                raise ShapeError(f"label {label!r} in {equation!r} has extents {extents[label]} and {extent}")
    return terms, result


def _diagonals(tensor: Tensor, labels: str) -> tuple[Tensor, str]:
    """Take the diagonal of dimensions with equal labels, so that each label occurs once."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            tensor = ops.diagonal(tensor, 0, first, second)
            labels = labels[:first] + labels[first + 1 : second] + labels[second + 1 :] + label
    return tensor, labels


def _arranged(tensor: Tensor, labels: str, order: str) -> Tensor:
    """Permute the dimensions to `order`, with extent 1 for labels that the tensor does not have."""
    extents = dict(zip(labels, tensor.shape, strict=True))
    present = [labels.index(label) for label in order if label in labels]
    return tensor.permute(*present).reshape(*(extents.get(label, 1) for label in order))


def _summed(tensor: Tensor, labels: str, keep: set[str], widen: bool = False) -> tuple[Tensor, str]:
    """Sum over all labels that are not in `keep`; in int64 for integers if `widen`."""
    dims = tuple(i for i, label in enumerate(labels) if label not in keep)
    if dims:
        tensor = tensor.sum(dims, dtype=None if widen else tensor.dtype)
    return tensor, "".join(label for label in labels if label in keep)


def _contracted(a: Tensor, x: str, b: Tensor, y: str, keep: set[str]) -> tuple[Tensor, str]:
    """Contract two operands: labels in both that are not in `keep` are summed by a matrix product."""
    a, x = _summed(a, x, keep | set(y))
    b, y = _summed(b, y, keep | set(x))
    batch = "".join(label for label in x if label in y and label in keep)
    inner = "".join(label for label in x if label in y and label not in keep)
    rows = "".join(label for label in x if label not in y)
    columns = "".join(label for label in y if label not in x)
    out = batch + rows + columns
    if not inner:
        return _arranged(a, x, out) * _arranged(b, y, out), out
    extents = dict(zip(x + y, a.shape + b.shape, strict=True))

    def matrices(tensor: Tensor, labels: str, *groups: str) -> Tensor:
        sizes = (math.prod(extents[label] for label in group) for group in groups)
        return _arranged(tensor, labels, "".join(groups)).reshape(*sizes)

    product = ops.contract(matrices(a, x, batch, rows, inner), matrices(b, y, batch, inner, columns))
    return product.reshape(*(extents[label] for label in out)), out


@composite(method=False, view=True)
def einsum(equation: str, *operands: Any) -> Tensor:
    """Compute an Einstein summation. The equation "bij,bjk->bik" is a batched matrix product.

    More than two operands are contracted in the cheapest order. Sums of a single operand of integers are int64, and
    products keep its dtype. A transposition or a diagonal of a single operand is a view.

    Args:
        equation: Letters for the dimensions of each operand and of the result. An ellipsis stands for broadcast
            dimensions; a letter repeated inside one operand takes the diagonal.
        *operands: Tensors, or one sequence of them.

    >>> nt.einsum("ij,jk->ik", nt.ones(2, 3), nt.ones(3, 2))
    """
    tensors = [tensor_of(operand) for operand in unpacked(operands)]
    if len(tensors) > 1:
        return _einsum_of_several(equation, *tensors)
    (labels,), result = _labels(equation, tensors)
    return _arranged(*_summed(*_diagonals(tensors[0], labels), set(result), widen=True), result)


@templated
def _einsum_of_several(equation: str, *tensors: Tensor) -> Tensor:
    from opt_einsum import contract_path

    terms, result = _labels(equation, tensors)
    parts = [_diagonals(tensor, labels) for tensor, labels in zip(tensors, terms, strict=True)]
    for place, (tensor, labels) in enumerate(parts):  # dimensions of extent 1 are broadcast as if they were missing
        pairs = [(label, extent) for label, extent in zip(labels, tensor.shape, strict=True) if extent != 1]
        parts[place] = tensor.reshape(*(extent for _, extent in pairs)), "".join(label for label, _ in pairs)
    path, _ = contract_path(f"{','.join(terms)}->{result}", *(tensor.shape for tensor in tensors), shapes=True)
    for first, second in map(sorted, path):  # each product becomes the last operand
        b, a = parts.pop(second), parts.pop(first)
        parts.append(_contracted(*a, *b, set(result).union(*(labels for _, labels in parts))))
    return _arranged(*_summed(*parts[0], set(result)), result)


# --- GGML's products


def _grouped(few: Tensor, many: Tensor) -> tuple[Tensor, Tensor, tuple[int, ...]]:
    """Reshape batches so that each of `few` broadcasts to a group of consecutive batches of `many`."""
    ndim = max(few.ndim, many.ndim)
    lead_few = (1,) * (ndim - few.ndim) + few.shape[:-2]
    lead_many = (1,) * (ndim - many.ndim) + many.shape[:-2]
    if lead_few == lead_many:
        return few, many, lead_many
    apart_few: list[int] = []
    apart_many: list[int] = []
    for a, b in zip(lead_few, lead_many, strict=True):
        if not a or b % a:
            raise ShapeError(f"batches {list(lead_few)} do not divide {list(lead_many)}")
        apart_few += (a, 1)
        apart_many += (a, b // a)
    return few.reshape(*apart_few, *few.shape[-2:]), many.reshape(*apart_many, *many.shape[-2:]), lead_many


_NARROW_INTEGERS = (int8, int16, int32, uint8)


@composite(ggml="MUL_MAT")
def mul_mat(a: Tensor, b: Tensor, *, exact: bool = False) -> Tensor:
    """Return b @ a.T, GGML's product with weights. Floats give float32, integers of up to 32 bits int32.

    For quantized weights, b is rounded to 8 bits as in ggml, so that integers are multiplied. Each 32 elements of a row
    have a scale, or 256 for q4_k, q5_k and q6_k. On an NPU, b is rounded to bfloat16 instead. The gradient of b is that
    of its product with a.dequantize().

    Args:
        a: Weights (..., m, k). Each batch serves a group of consecutive batches of b. May be quantized if (m, k).
        b: Tensor (..., n, k). Floats are converted to the dtype of a.
        exact: True to use float32 b without rounding for quantized weights, which is slower.

    Returns:
        Tensor (..., n, m).
    """
    if a.dtype.is_quantized:
        require_float(b)
        return ops.linear_quantized(b.to(float32), a, exact)
    if a.ndim < 2 or b.ndim < 1:
        raise ShapeError("a needs two dimensions or more, b one")
    if b.ndim == 1:
        return mul_mat(a, b.reshape(1, b.shape[0])).reshape(*a.shape[:-2], a.shape[-2])
    if b.is_floating_point() and a.is_floating_point():
        b = b.to(a.dtype)
    few, many, lead = _grouped(a.transpose(-1, -2), b)
    out_dtype = "int32" if a.dtype in _NARROW_INTEGERS else "float32" if a.dtype.itemsize <= 4 else a.dtype.name
    return ops.contract(many, few, out_dtype).reshape(*lead, b.shape[-2], a.shape[-2])


@composite(ggml="OUT_PROD")
def out_prod(a: Tensor, b: Tensor) -> Tensor:
    """Return b.T @ a, GGML's sum of outer products, of a (..., k, m) and b (..., k, n): (..., n, m)."""
    if a.ndim < 2 or b.ndim < 2:
        raise ShapeError("needs two dimensions or more")
    if a.dtype is not b.dtype:
        raise DTypeError(f"both operands must have one dtype, not {a.dtype.name} and {b.dtype.name}")
    few, many, lead = _grouped(a, b.transpose(-1, -2))
    return ops.contract(many, few).reshape(*lead, b.shape[-1], a.shape[-1])
