"""NPU designs as data, and the limits of the arrays they are made for."""

from typing import TYPE_CHECKING

from npu_tensor.dataflow.array import ARRAYS, Array, Tile

if TYPE_CHECKING:
    from npu_tensor.dataflow.design import AccessPattern, Builder, Design, ObjectType, Source, range_

__all__ = ["ARRAYS", "AccessPattern", "Array", "Builder", "Design", "ObjectType", "Source", "Tile", "range_"]


def __getattr__(name: str) -> object:
    """Load the classes that describe a design on first use, so that `import npu_tensor` does not need them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from npu_tensor.dataflow import design

    return getattr(design, name)
