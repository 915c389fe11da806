"""Texts of public functions for `help` and the reference pages: docstrings completed from declarations.

A docstring says what is special about a function. Parameters that mean the same in many functions are described here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class ParameterText:
    """Description of a parameter in functions whose docstring does not describe it.

    Attributes:
        meaning: Text of the entry; "" if the meaning depends on the function.
        example: Value that most functions take, as source text; "" if there is none.
        error: Error raised for a wrong value, or "".
    """

    meaning: str
    example: str = ""
    error: str = ""


SECTIONS: Final = ("Args", "Returns", "Raises", "Example")
"""Sections of a text: lines with a colon, each followed by indented lines."""

_SECTION: Final = re.compile(r"\n\n(Args|Returns|Raises):(?=\n)")

_DIMENSION: Final = "DimensionError: The dimension is out of range."
_DOMAIN: Final = (-4.0, 4.0)
"""Domain of an op that takes numbers of any size."""

_SHAPES: Final = "ShapeError: The shapes do not fit."
_X: Final = "nt.tensor([[1.0, 2.0], [3.0, 4.0]])"
_INTEGERS: Final = "nt.tensor([[1, 2], [3, 4]])"

PARAMETERS: Final = {
    "input": ParameterText("Tensor, array or Python number.", _X),
    "other": ParameterText("Second operand; its shape is broadcast with that of `input`.", _X, _SHAPES),
    "tensors": ParameterText("Tensors, in order.", f"[{_X}, {_X}]"),
    "dim": ParameterText("Dimension; negative values count from the last one.", "0", _DIMENSION),
    "dim0": ParameterText("First dimension; negative values count from the last one.", "0", _DIMENSION),
    "dim1": ParameterText("Second dimension; negative values count from the last one.", "1", _DIMENSION),
    "dims": ParameterText("Dimensions; negative values count from the last one.", "(1, 0)", _DIMENSION),
    "keepdim": ParameterText("Keep the reduced dimensions, with extent 1."),
    "dtype": ParameterText(
        "Result dtype: an `nt.DType`, its name, or NumPy's dtype. None derives it from the operands."
    ),
    "device": ParameterText("URI of a device in use. The planner chooses the device when a value is computed."),
    "requires_grad": ParameterText("Let `backward` compute a gradient for the result."),
    "generator": ParameterText("An `nt.Generator`. None uses the one that `nt.manual_seed` seeds."),
    "weight": ParameterText("", _X, _SHAPES),
    "bias": ParameterText("Tensor that is added to the result, or None."),
    "target": ParameterText("Expected values.", _X),
    "reduction": ParameterText(
        '"mean", "sum", or "none" for all losses.', "", "ArgumentError: `reduction` has another value."
    ),
    "size": ParameterText("Extents, one by one or as a sequence.", "(2, 2)"),
    "shape": ParameterText("Extents, one by one or as a sequence; one may be -1 for the remaining extent.", "(4, 1)"),
    "eps": ParameterText("Small number that prevents division by zero."),
    "stride": ParameterText("Step between positions: one number, or one per spatial dimension."),
    "padding": ParameterText("Elements added around the input: one number, or one per spatial dimension."),
    "dilation": ParameterText("Step between kernel elements: one number, or one per spatial dimension."),
    "groups": ParameterText("Number of groups of channels; an output depends only on the inputs of its group."),
    "kernel_size": ParameterText("Extents of the windows: one number, or one per spatial dimension.", "2"),
    "ceil_mode": ParameterText("Allow the last windows to end beyond the input."),
    "size_average": ParameterText("Not supported; `reduction` has replaced it."),
    "max_norm": ParameterText("Limit of the norm of rows. The rows that are used and exceed it are scaled in place."),
    "scale_grad_by_freq": ParameterText(
        "True to divide the gradient of a row by its number of occurrences; not supported."
    ),
    "sparse": ParameterText("Has no effect; gradients are dense."),
    "n": ParameterText("", "2"),
    "k": ParameterText("", "1"),
    "p": ParameterText("", "0.5"),
    "value": ParameterText("", _X),
    "fill_value": ParameterText("Value of every element.", "7"),
    "exponent": ParameterText("Exponent.", _X),
    "mat2": ParameterText("Second matrix.", _X),
    "tensor1": ParameterText("First factor.", _X),
    "tensor2": ParameterText("Second factor.", _X),
    "x1": ParameterText("", _X),
    "x2": ParameterText("", _X),
    "a": ParameterText("First matrix.", _X),
    "A": ParameterText("Matrices (..., n, n).", _X),
    "b": ParameterText("Second matrix.", _X),
    "end": ParameterText("", _X),
    "min": ParameterText("", "0.0"),
    "max": ParameterText("", "1.0"),
    "pad": ParameterText("", "(1, 1)"),
    "window_length": ParameterText("Number of elements.", "4"),
    "y": ParameterText("", _X),
    "grad": ParameterText("Gradient.", _X),
    "labels": ParameterText("", _X),
    "data": ParameterText("Numbers, nested sequences of numbers, an array or a tensor.", "[[1.0, 2.0], [3.0, 4.0]]"),
    "start": ParameterText("", "0"),
    "low": ParameterText("Smallest integer.", "0"),
    "high": ParameterText("Exclusive upper bound.", "10"),
    "correction": ParameterText("Difference between the number of elements and the divisor."),
    "vec2": ParameterText("Second vector.", "nt.tensor([3.0, 4.0])"),
    "mask": ParameterText("Boolean tensor; its shape is broadcast with that of `input`.", f"{_X} > 2"),
    "n_past": ParameterText("", "0"),
    "repeats": ParameterText("", "2"),
    "shifts": ParameterText("Number of elements to shift by.", "1"),
    "chunks": ParameterText("Number of parts.", "2"),
    "split_size_or_sections": ParameterText("Extent of every part, or one extent per part.", "1"),
    "source": ParameterText("", "0"),
    "destination": ParameterText("", "1"),
    "row": ParameterText("Number of rows.", "2"),
    "col": ParameterText("Number of columns.", "3"),
    "q": ParameterText("Number from 0 to 1.", "0.5"),
    "normalized_shape": ParameterText("Last extents of `input`.", "2"),
}

_ERRORS: Final = {
    "ShapeError": _SHAPES,
    "DTypeError": "DTypeError: The function does not support a dtype.",
    "ArgumentError": "ArgumentError: An argument has an invalid value.",
    "require_float": "DTypeError: An operand is not floating point.",
}


def described(
    name: str,
    doc: str,
    parameters: Sequence[str],
    required: int,
    raises: Collection[str] = (),
    dtypes: str = "",
    ggml: str = "",
    domain: tuple[float, float] = _DOMAIN,
) -> str:
    """Complete the docstring of a public function.

    `import npu_tensor` calls this for every function, so it has to be fast.

    Args:
        name: Public name.
        doc: Docstring, with or without sections.
        parameters: Names of the parameters.
        required: Number of leading parameters without a default.
        raises: Names of errors that the function itself raises, among other names.
        dtypes: Dtypes that an op supports, in words.
        ggml: GGML's names.
        domain: Range of the operands.

    Returns:
        The docstring with a description of each parameter, the errors, GGML's names and an example.
    """
    text, _, example = doc.partition("\n\n>>> ")
    text, *own = _SECTION.split(text)
    sections = dict(zip(own[::2], own[1::2], strict=True))
    arguments, errors = sections.get("Args", ""), sections.get("Raises", "")
    for parameter in parameters:
        if (entry := PARAMETERS.get(parameter)) is not None:
            mention = f"{parameter}: "
            if entry.meaning and mention not in text and mention not in arguments:
                arguments += f"\n    {mention}{entry.meaning}"
            errors += _missing(entry.error, errors)
    for kind, error in _ERRORS.items():
        if kind in raises:
            errors += _missing(error, errors)
    if dtypes and not dtypes.startswith("all;") and dtypes != "all":
        errors += f"\n    DTypeError: The dtype is not supported; the op takes {dtypes}."
    if ggml:
        text += f"\n\nGGML: {ggml}."
    sections |= {"Args": arguments, "Raises": errors}
    text += "".join([f"\n\n{section}:{sections[section]}" for section in SECTIONS if sections.get(section)])
    example = example or _example(name, parameters[:required], dtypes, domain)
    return f"{text}\n\nExample:\n    >>> {example}" if example else text


def _missing(error: str, errors: str) -> str:
    """Return the line of an error, or "" if `errors` has one of its class."""
    return f"\n    {error}" if error and error.partition(":")[0] not in errors else ""


def _example(name: str, required: Sequence[str], dtypes: str, domain: tuple[float, float]) -> str:
    """Return a call with example values of all required parameters, or "" if one has no example."""
    values = []
    for parameter in required:
        if parameter not in PARAMETERS or not (value := PARAMETERS[parameter].example):
            return ""
        values.append(value)
    call = f"nt.{name}({', '.join(values)})"
    if dtypes.startswith("integers"):
        return call.replace(_X, _INTEGERS)
    if domain == _DOMAIN:
        return call
    low, high = domain
    numbers = [f"{low + (high - low) * part:.3g}" for part in (0.2, 0.4, 0.6, 0.8)]
    return call.replace(_X, f"nt.tensor([{', '.join(numbers)}])")
