"""What `from aie.iron import ...` finds; less in older releases."""

from .._standin import since
from ..utils.compile.jit.context import compile_context
from .buffer import Buffer
from .dataflow import ObjectFifo
from .kernel import ExternalFunction, Kernel
from .program import Program
from .runtime import Runtime
from .worker import Worker

__all__ = ["Buffer", "ExternalFunction", "Kernel", "ObjectFifo", "Program", "Runtime", "Worker", "compile_context"]

if since("1.4.0"):
    from .runtime import RuntimeData, TaskGroup

    __all__ += ["RuntimeData", "TaskGroup"]
