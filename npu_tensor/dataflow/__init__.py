"""NPU designs as data, and the limits of the arrays they are made for."""

from npu_tensor.dataflow.array import ARRAYS, Array, Tile
from npu_tensor.dataflow.design import AccessPattern, Builder, Design, ObjectType, Source, range_

__all__ = ["ARRAYS", "AccessPattern", "Array", "Builder", "Design", "ObjectType", "Source", "Tile", "range_"]
