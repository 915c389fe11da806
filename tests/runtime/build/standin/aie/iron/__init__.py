"""Names for `from aie.iron import ...`."""

from .core import Buffer, Kernel, Worker
from .dataflow import ObjectFifo
from .runtime import Program, Runtime, TaskGroup, compile_context

__all__ = ["Buffer", "Kernel", "ObjectFifo", "Program", "Runtime", "TaskGroup", "Worker", "compile_context"]
