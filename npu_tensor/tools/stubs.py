"""Type stubs of generated code: `python -m npu_tensor.tools.stubs` writes them, `--check` compares.

_methods.pyi holds the base class with the methods of Tensor for type checkers, __init__.pyi the functions.
"""

from __future__ import annotations

import argparse
import inspect
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import npu_tensor as nt
from npu_tensor import (
    dtypes,
    errors,
    functions,  # noqa: F401 - enters them in the registry
)
from npu_tensor.ops import Op, registry

__all__ = ["STUBS", "main", "stale"]

_HEADER = """\
# ruff: noqa: {ignored}
# Written by `python -m npu_tensor.tools.stubs` from the op registry and npu_tensor/functions.
import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

{imports}

Operand = Tensor | np.ndarray[Any, Any] | builtins.float
Dims = builtins.int | Sequence[builtins.int] | None
Extents = Any
Sizes = builtins.int | Sequence[builtins.int]
DTypeLike = Any
"""

# Result types of functions and methods with several results.
_RESULTS = """\
from npu_tensor.functions.arithmetic import MantissaExponent
from npu_tensor.functions.shape import ValuesIndices
from npu_tensor.functions.statistics import Histogram
from npu_tensor.linalg import QR, SignLogDet"""

# Builtins whose names the stubs use for functions and methods.
_BUILTINS = re.compile(r"(?<![\w.'])(float|int|bool|str|tuple|list|type|object)\b(?!')")


def _qualified(annotation: str) -> str:
    return _BUILTINS.sub(r"builtins.\1", annotation)


def _annotation(value: Any, default: str) -> str:
    if value is inspect.Parameter.empty:
        return default
    return _qualified(value if isinstance(value, str) else getattr(value, "__name__", repr(value)))


class _Text(str):
    """Annotation that a signature prints without quotes."""

    __repr__ = str.__str__


def _signature(parameters: list[inspect.Parameter], annotations: list[str], is_method: bool) -> inspect.Signature:
    typed = [p.replace(annotation=_Text(text)) for p, text in zip(parameters, annotations, strict=True)]
    if is_method:
        typed[0] = inspect.Parameter("self", parameters[0].kind)
    return inspect.Signature(typed)


def _op_parameters(op: Op) -> tuple[list[inspect.Parameter], list[str]]:
    # The marker after an op's tensors separates them from attributes. The public function accepts both by name.
    parameters = [
        p.replace(kind=p.POSITIONAL_OR_KEYWORD) if p.kind is p.POSITIONAL_ONLY else p
        for p in inspect.signature(op.body).parameters.values()
    ]
    annotations = [
        "Operand" if p.name in op.operands else _annotation(p.annotation, "Any") if p.name != "dim" else "Dims"
        for p in parameters
    ]
    return parameters, [
        f"{text} | Sequence[builtins.int]" if p.kind is p.VAR_POSITIONAL else text
        for p, text in zip(parameters, annotations, strict=True)
    ]


def _definition(name: str, function: Callable[..., Any], is_method: bool) -> str:
    op = registry.PUBLIC[name].op
    if op is not None:
        parameters, annotations = _op_parameters(op)
        returns = "Tensor"
    else:
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())
        annotations = [_annotation(p.annotation, "Any") for p in parameters]
        returns = _annotation(signature.return_annotation, "Any")
    # The docstring of the declaration. The additions of `help` follow from the types.
    doc = op.doc if op is not None else inspect.cleandoc(inspect.unwrap(function).__doc__ or "")
    doc = textwrap.indent(f'"""{doc}"""', "    ")
    return f"def {name}{_signature(parameters, annotations, is_method)} -> {returns}:\n{doc}\n"


def _operator(name: str, method: Callable[..., Any]) -> str:
    if len(inspect.signature(method).parameters) == 1:
        return f"def {name}(self) -> Tensor: ...\n"
    if name in ("__eq__", "__ne__"):
        return f"def {name}(self, other: object) -> Tensor: ...  # type: ignore[override]\n"
    return f"def {name}(self, other: Any) -> Tensor: ...\n"


def _methods() -> str:
    body = [
        _operator(name, method) if method.__qualname__ == f"Tensor.{name}" else _definition(name, method, True)
        for name, method in sorted(registry.methods().items())
        if not name.startswith("__array")
    ]
    body.append("def _assign(self, result: Tensor) -> Tensor: ...\n")
    header = _HEADER.format(
        imports="from npu_tensor.functions.creation import Generator\n"
        f"{_RESULTS}\nfrom npu_tensor.tensor import Tensor",
        ignored="E501, F401, I001",
    )
    methods = textwrap.indent("".join(body), "    ")
    return f"{header}\nclass Methods:\n    __slots__ = ()\n{methods}"


def _public_imports() -> list[str]:
    """Return imports of the public names that are neither registered functions nor dtypes."""
    names = {*nt.__all__, *nt._LOADED_LATE} - nt._NAMES.keys() - {"config"}  # type: ignore[attr-defined]
    modules = {name: nt._FILES.get(name, name) for name in nt._MODULES_LOADED_LATE}  # type: ignore[attr-defined]
    lines = [f"from npu_tensor import {file} as {name}" for name, file in modules.items()]
    lines += ["from npu_tensor.config import config as config"]
    public = {name: getattr(nt, name) for name in sorted(names)}
    lines += [f"from {each.__module__} import {each.__name__} as {name}" for name, each in public.items()]
    lines += [f"from npu_tensor.errors import {name} as {name}" for name in errors.__all__]
    return [
        *lines,
        "from npu_tensor.functions.pytorch_arguments import FloatLimits, IntegerLimits",
        *_RESULTS.split("\n"),
    ]


def _functions() -> str:
    names = [dtype.name for dtype in (*dtypes.DTYPES, *dtypes.QUANTIZED)]
    names += ["double", "float", "half", "int", "long", "short"]
    lines = [
        _HEADER.format(imports="\n".join(_public_imports()), ignored="E501, F401, F811, I001"),
        "__version__: str\n",
        *(f"{name}: DType\n" for name in names),
        *(f"{name}: builtins.float\n" for name in ("e", "inf", "nan", "pi")),
        "newaxis: None\n",
        *(f"{name}: builtins.str\n" for name in dtypes.FORMATS),
        "\n",
    ]
    lines += [_definition(name, function, False) for name, function in sorted(registry.functions().items())]
    return "".join(lines)


_DIRECTORY = Path(__file__).parents[1]
STUBS: Final[dict[Path, Callable[[], str]]] = {
    _DIRECTORY / "_methods.pyi": _methods,
    _DIRECTORY / "__init__.pyi": _functions,
}


def stale() -> list[Path]:
    """Return the stubs that differ from the generated text."""
    return [path for path, text in STUBS.items() if not path.exists() or path.read_text("utf-8") != text()]


def main() -> int:
    """Write the stubs, or with --check say which are stale and return 1."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--check", action="store_true", help="only compare")
    if parser.parse_args().check:
        paths = stale()
        for path in paths:
            print(f"{path.name} is stale; run python -m npu_tensor.tools.stubs")
        return bool(paths)
    for path, text in STUBS.items():
        path.write_text(text(), "utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
