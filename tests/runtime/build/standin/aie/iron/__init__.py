"""What `from aie.iron import ...` finds."""

from .core import Buffer, Kernel, Worker
from .dataflow import ObjectFifo
from .runtime import Program, Runtime, TaskGroup, compile_context

__all__ = ["Buffer", "Kernel", "ObjectFifo", "Program", "Runtime", "TaskGroup", "Worker", "compile_context"]
