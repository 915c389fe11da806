"""Pictures of graphs as SVG, Mermaid and HTML, without any program or library for drawing."""

from npu_tensor.observe.drawing.mermaid import mermaid
from npu_tensor.observe.drawing.picture import Box, Frame, Kind, Picture, brief, leaves
from npu_tensor.observe.drawing.svg import svg

__all__ = ["Box", "Frame", "Kind", "Picture", "brief", "leaves", "mermaid", "svg"]
