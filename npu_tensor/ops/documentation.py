"""The text that `help` and the reference pages have of a function: its docstring and what its declaration says.

A docstring says what is special about a function. What a parameter means everywhere stands here, once.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

__all__ = ["PARAMETERS", "SECTIONS", "described"]


class Parameter(NamedTuple):
    """What a parameter of this name is in every function whose docstring does not say so itself.

    meaning: "" if that depends on the function. example: a value that most functions take, as source text; "" if there
    is none. error: what is raised for a wrong value.
    """

    meaning: str
    example: str = ""
    error: str = ""


SECTIONS: Final = ("Args", "Attributes", "Returns", "Raises", "Example")
"""The sections of a text. Each is a line with its name and a colon, and indented lines."""

_ENTRY: Final = re.compile(r"\n    (?=\S)")
"""Start of an entry of a section. Its further lines are indented by four more."""

_DIMENSION: Final = "DimensionError: the dimension is out of range."
_DOMAIN: Final = (-4.0, 4.0)
"""Of an op that takes numbers of any size."""

_SHAPES: Final = "ShapeError: the shapes do not fit."
_X: Final = "nt.tensor([[1.0, 2.0], [3.0, 4.0]])"
_INTEGERS: Final = "nt.tensor([[1, 2], [3, 4]])"

PARAMETERS: Final = {
    "input": Parameter("the operand; an `Operand` is a tensor, an array or a Python number.", _X),
    "other": Parameter("the second operand; its shape is broadcast with that of input.", _X, _SHAPES),
    "tensors": Parameter("tensors, in order.", f"[{_X}, {_X}]"),
    "dim": Parameter("the dimension; a negative one counts from the last.", "0", _DIMENSION),
    "dim0": Parameter("the first dimension; a negative one counts from the last.", "0", _DIMENSION),
    "dim1": Parameter("the second dimension; a negative one counts from the last.", "1", _DIMENSION),
    "dims": Parameter("dimensions; negative ones count from the last.", "(1, 0)", _DIMENSION),
    "keepdim": Parameter("whether the reduced dimensions stay, with extent 1."),
    "dtype": Parameter("of the result: an `nt.DType`, its name, or NumPy's dtype; None: as the operands say."),
    "device": Parameter("a URI; the device must be in use. Devices are chosen when a value is computed."),
    "requires_grad": Parameter("whether `backward` computes a gradient for it."),
    "generator": Parameter("an `nt.Generator`; None: the one that `nt.manual_seed` seeds."),
    "weight": Parameter("", _X, _SHAPES),
    "bias": Parameter("added to the result; None: nothing is."),
    "target": Parameter("what input should be.", _X),
    "reduction": Parameter(
        '"mean", "sum", or "none" for all losses.', "", "ArgumentError: reduction has another value."
    ),
    "size": Parameter("extents, one by one or as a sequence.", "(2, 2)"),
    "shape": Parameter("extents, one by one or as a sequence; one may be -1: what is left.", "(4, 1)"),
    "eps": Parameter("added so that nothing is divided by zero."),
    "stride": Parameter("steps between positions, one number or one per place."),
    "padding": Parameter("elements around the input, one number or one per place."),
    "dilation": Parameter("steps between the elements of a kernel, one number or one per place."),
    "groups": Parameter("in how many groups inputs and outputs are divided; each output sees its group."),
    "kernel_size": Parameter("extents of the windows, one number or one per place.", "2"),
    "ceil_mode": Parameter("whether the last windows may end beyond the input."),
    "n": Parameter("", "2"),
    "k": Parameter("", "1"),
    "p": Parameter("", "0.5"),
    "value": Parameter("", _X),
    "fill_value": Parameter("the value of every element.", "7"),
    "exponent": Parameter("the power.", _X),
    "mat2": Parameter("the second matrix.", _X),
    "tensor1": Parameter("the first factor.", _X),
    "tensor2": Parameter("the second factor.", _X),
    "x1": Parameter("", _X),
    "x2": Parameter("", _X),
    "a": Parameter("the first matrix.", _X),
    "b": Parameter("the second matrix.", _X),
    "end": Parameter("", _X),
    "grad": Parameter("a gradient.", _X),
    "labels": Parameter("", _X),
    "data": Parameter("numbers, nested sequences of numbers, an array or a tensor.", "[[1.0, 2.0], [3.0, 4.0]]"),
    "start": Parameter("", "0"),
    "low": Parameter("the least integer.", "0"),
    "high": Parameter("the first integer above the range.", "10"),
    "correction": Parameter("how much less than the number of elements the divisor is."),
    "vec2": Parameter("the second vector.", "nt.tensor([3.0, 4.0])"),
    "mask": Parameter("a bool tensor; its shape is broadcast with that of input.", f"{_X} > 2"),
    "n_past": Parameter("", "0"),
    "repeats": Parameter("", "2"),
    "shifts": Parameter("by how many elements.", "1"),
    "chunks": Parameter("the number of parts.", "2"),
    "split_size_or_sections": Parameter("the extent of the parts, or one extent for each.", "1"),
    "source": Parameter("", "0"),
    "destination": Parameter("", "1"),
    "row": Parameter("the number of rows.", "2"),
    "col": Parameter("the number of columns.", "3"),
    "q": Parameter("from 0 to 1.", "0.5"),
    "normalized_shape": Parameter("the last extents of input.", "2"),
}

_ERRORS: Final = {
    "ShapeError": _SHAPES,
    "DTypeError": "DTypeError: a dtype that the function does not take.",
    "ArgumentError": "ArgumentError: an argument has a value that the function does not take.",
}


_LINES: Final = {
    name: (f"{name}: ", f"\n    {name}: {each.meaning}" if each.meaning else "", each.error and f"\n    {each.error}")
    for name, each in PARAMETERS.items()
}
"""By parameter: what a docstring that describes it has, its line, and the line of its error."""


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
    """Return the text of a function: its docstring, completed by its declaration and by `PARAMETERS`.

    `import npu_tensor` calls this for every function, so it has to be fast.

    Args:
        name: Public name, for the example.
        doc: Docstring. The lines of its sections precede generic ones.
        parameters: Names of all parameters, in order.
        required: Number of leading parameters without a default.
        raises: Names that the function's code refers to, error classes among them.
        dtypes: Dtypes that an op accepts, in words.
        ggml: GGML's name.
        domain: Range of the example's operands.
    """
    text, _, example = doc.partition("\n\n>>> ")
    summary, _, own_errors = text.partition("\n\nRaises:")
    summary, _, returns = summary.partition("\n\nReturns:")
    summary, _, own_arguments = summary.partition("\n\nArgs:")
    own = {}
    if own_arguments:
        own = {entry.partition(": ")[0]: f"\n    {entry}" for entry in _ENTRY.split(own_arguments)[1:]}
    arguments, errors = "", own_errors
    for parameter in parameters:
        if parameter in own:
            arguments += own.pop(parameter)
        if parameter in _LINES:
            mentioned, line, error = _LINES[parameter]
            if line and mentioned not in text:
                arguments += line
            if error and error.partition(":")[0] not in errors:
                errors += error
    arguments += "".join(own.values())  # those of *args
    for kind, error in _ERRORS.items():
        if kind in raises and kind not in errors:
            errors += f"\n    {error}"
    if dtypes and not dtypes.startswith("all;") and dtypes != "all":
        errors += f"\n    DTypeError: a dtype that the op does not accept; it accepts {dtypes}."
    if ggml:
        summary += f"\n\nGGML: {ggml}."
    for section, lines in (("Args", arguments), ("Returns", returns), ("Raises", errors)):
        if lines:
            summary += f"\n\n{section}:{lines}"
    example = example or _example(name, parameters[:required], dtypes, domain)
    return f"{summary}\n\nExample:\n    >>> {example}" if example else summary


def _example(name: str, required: Sequence[str], dtypes: str, domain: tuple[float, float]) -> str:
    """A call with example values of all parameters that have no default; "" if one has no such value."""
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
