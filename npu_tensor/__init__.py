"""A PyTorch-style tensor library for AMD NPUs, lazy, with a fast CPU device.

import npu_tensor as nt
y = (nt.tensor([1.0, 2.0]) * 2 + 1).relu()
print(y)

Type checkers read the names from `__init__.pyi`, which `python -m npu_tensor.tools.stubs` writes.
"""

import builtins
import importlib
import math as _math
import sys
from functools import partial as _partial

from npu_tensor._util.interrupts import import_whole as _import_whole

_import_whole("numpy", "ml_dtypes")

# ruff: noqa: E402 - what follows imports them
from npu_tensor import dtypes as _dtypes
from npu_tensor import errors as _errors
from npu_tensor._util.version import VERSION as _VERSION
from npu_tensor.config import config
from npu_tensor.dtypes import DType, dtypes_table
from npu_tensor.functions import Generator, manual_seed
from npu_tensor.functions.resources import (
    default_device,
    empty_cache,
    get_default_device,
    get_num_threads,
    memory_stats,
    set_default_device,
    set_num_threads,
    synchronize,
)
from npu_tensor.jit import jit
from npu_tensor.observe.printing import set_printoptions
from npu_tensor.ops import registry as _registry
from npu_tensor.runtime.devices.backends import list_devices
from npu_tensor.runtime.devices.device_uri import DeviceName as device
from npu_tensor.spec import Size
from npu_tensor.tensor import Tensor, explain, realize

dtype = DType

__version__ = _VERSION

_NAMES = {
    **_registry.functions(),
    **{name: getattr(_errors, name) for name in _errors.__all__},
    **{dtype.name: dtype for dtype in (*_dtypes.DTYPES, *_dtypes.QUANTIZED)},
    # PyTorch's other names of dtypes.
    "double": _dtypes.float64,
    "float": _dtypes.float32,
    "half": _dtypes.float16,
    "int": _dtypes.int32,
    "long": _dtypes.int64,
    "short": _dtypes.int16,
}
_CONSTANTS = {"pi": _math.pi, "e": _math.e, "inf": _math.inf, "nan": _math.nan, "newaxis": None}
globals().update(_NAMES, **_CONSTANTS, **{name: name for name in _dtypes.FORMATS})


# Modules of names that take long to load and that few programs use.
_LOADED_LATE = {
    "compile": "npu_tensor.ggml_hsa.ahead_of_time",
    "finish_builds": "npu_tensor.runtime.store.background",
    "grad": "npu_tensor.autograd",
    "from_exported": "npu_tensor.torch.exported",
    "from_torch": "npu_tensor.torch.exported",
    "load": "npu_tensor.interop.saved_function",
    "load_gguf": "npu_tensor.functions.gguf",
    "load_onnx": "npu_tensor.interop.onnx_model",
    "load_pt2": "npu_tensor.interop.pt2",
    "npu_kernel": "npu_tensor.authoring.custom_kernel",
    "profile": "npu_tensor.observe.profiling",
    "record_kernels": "npu_tensor.ggml_hsa.kernel_log",
    "save": "npu_tensor.interop.saved_function",
    "save_gguf": "npu_tensor.functions.gguf",
    "selftest": "npu_tensor.cli.selftest",
    "value_and_grad": "npu_tensor.autograd",
    "vjp": "npu_tensor.autograd",
}
_MODULES_LOADED_LATE = (
    "array_api",
    "autograd",
    "cuda",
    "linalg",
    "masked",
    "models",
    "nn",
    "optim",
    "signal",
    "special",
)

_FILES = {"signal": "signals", "special": "special_names"}
"""Modules whose files have other names, because no two files have one name."""

_HINTS = {
    **dict.fromkeys(("amp", "autocast"), "convert the model, with model.bfloat16() for example"),
    **dict.fromkeys(("array", "ndarray"), "nt.tensor makes tensors, which are of the class nt.Tensor"),
    **dict.fromkeys(("complex", "complex64", "complex128"), "there are no complex numbers"),
    "distributions": "random numbers come from nt.rand, nt.randn, nt.normal, nt.multinomial and the like",
    "fft": "there are no complex numbers; functions of numpy.fft take tensors and return arrays",
    "func": "nt.grad, nt.value_and_grad and nt.vjp differentiate functions",
    "percentile": "write nt.quantile(x, q / 100)",
    "random": "random numbers come from nt.rand, nt.randn and the like; nt.manual_seed sets the seed",
    "testing": "compare with nt.allclose, or with numpy.testing.assert_allclose, which takes tensors",
    "utils": "take batches by slicing, x[i : i + 32], or from PyTorch's DataLoader with nt.from_dlpack",
    "vmap": "functions take batches as leading dimensions",
}
"""Replacements for names of PyTorch and NumPy that nothing here has."""


def __getattr__(name: str) -> object:
    if name in _MODULES_LOADED_LATE:
        return importlib.import_module(f"{__name__}.{_FILES.get(name, name)}")
    if name in _LOADED_LATE:
        return getattr(importlib.import_module(_LOADED_LATE[name]), name)
    entry = _registry.PUBLIC.get(name)  # of an op that the program has declared
    if entry is None or entry.function is None:
        names = () if name.startswith("_") else __dir__()
        raise _errors.no_such_name(f"module {__name__!r}", name, names, _HINTS.get(name, ""))
    return entry.function


def __dir__() -> list[builtins.str]:
    """Return the public names, also those that are loaded late, without the modules that were imported on the way."""
    modules = {"errors", "events", *_MODULES_LOADED_LATE}
    return sorted(
        {
            *__all__,
            *_NAMES,
            *_registry.functions(),
            *_CONSTANTS,
            *_dtypes.FORMATS,
            *_LOADED_LATE,
            *modules,
            "__version__",
        }
    )


def _follow(setting: builtins.str, module: builtins.str) -> None:
    """Let what obeys a setting read it again. It is loaded when the setting is used first."""
    if config.in_use(setting) or module in sys.modules:
        importlib.import_module(module).follow()


_registry.reserve({*globals(), *_LOADED_LATE, *_MODULES_LOADED_LATE} - {*_NAMES}, {*dir(Tensor)} - {*_registry.PUBLIC})

__all__ = [
    "DType",
    "Generator",
    "Size",
    "Tensor",
    "config",
    "default_device",
    "device",
    "dtype",
    "dtypes_table",
    "empty_cache",
    "explain",
    "finish_builds",
    "from_exported",
    "from_torch",
    "get_default_device",
    "get_num_threads",
    "jit",
    "list_devices",
    "load",
    "load_gguf",
    "load_onnx",
    "load_pt2",
    "manual_seed",
    "memory_stats",
    "profile",
    "realize",
    "record_kernels",
    "save",
    "save_gguf",
    "selftest",
    "set_default_device",
    "set_num_threads",
    "set_printoptions",
    "synchronize",
    # A star import must not hide Python's own sum, any, float and the like.
    *sorted(name for name in _NAMES if not hasattr(builtins, name)),
]

for _setting, _module in {
    "debug": "npu_tensor.observe.debugging",
    "record": _LOADED_LATE["record_kernels"],
}.items():
    config.follow(_setting, _partial(_follow, _setting, _module))
