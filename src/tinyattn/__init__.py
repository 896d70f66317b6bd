"""Attention, the residual stream and the circuits inside a transformer, as functions of tensors.

Each name here is explained on a page of *Inside a Transformer*, where every line is run.
"""

from tinyattn.attention import (
    causal_mask,
    mask_scores,
    mix,
    pattern,
    project,
    scores,
    write,
)
from tinyattn.dependence import critical_path, depends, earliest, generation, reach
from tinyattn.diagrams import draw_dependencies, draw_stream
from tinyattn.draw import Picture, draw_matrix, draw_pattern
from tinyattn.flow import draw_shapes
from tinyattn.head import Attended, Head, Heads, attend, merge_heads, split_heads
from tinyattn.shapes import ShapeError
from tinyattn.show import show
from tinyattn.stream import Stream

__version__ = "0.1.0"

__all__ = [
    "Attended",
    "Head",
    "Heads",
    "Picture",
    "ShapeError",
    "Stream",
    "attend",
    "causal_mask",
    "critical_path",
    "depends",
    "draw_dependencies",
    "draw_matrix",
    "draw_pattern",
    "draw_shapes",
    "draw_stream",
    "earliest",
    "generation",
    "mask_scores",
    "merge_heads",
    "mix",
    "pattern",
    "project",
    "reach",
    "scores",
    "show",
    "split_heads",
    "write",
]
