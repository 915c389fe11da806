"""The parts of MLIR's Python bindings that a caller meets: what a resolved program is, and its error."""

from ._standin.record import MLIRError, Module
from ._standin.views import BoolAttr

__all__ = ["BoolAttr", "MLIRError", "Module"]
