"""What `from aie.iron import ...` finds; less in older releases."""

from pathlib import Path

from .._standin import since
from .buffer import Buffer
from .dataflow import ObjectFifo
from .kernel import ExternalFunction, Kernel
from .program import Program
from .runtime import Runtime
from .worker import Worker

__all__ = ["Buffer", "ExternalFunction", "Kernel", "ObjectFifo", "Program", "Runtime", "Worker"]

if since("1.3.4"):
    from ..utils.compile.jit.context import compile_context

    __all__ += ["compile_context"]

if since("1.4.0"):
    from .runtime import RuntimeData, TaskGroup

    __all__ += ["RuntimeData", "TaskGroup"]

if not since("1.3.2"):  # the module aie.iron.placers
    __path__.append(str(Path(__file__).parents[1] / "iron_until_1_3_1"))
