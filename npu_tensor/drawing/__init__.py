"""Pictures of graphs as SVG, Mermaid and HTML, without any program or library for drawing."""

from npu_tensor.drawing.boxes import brief, leaves
from npu_tensor.drawing.mermaid import mermaid
from npu_tensor.drawing.picture import Box, Frame, Kind, Picture
from npu_tensor.drawing.svg import svg

__all__ = ["Box", "Frame", "Kind", "Picture", "brief", "leaves", "mermaid", "svg"]
