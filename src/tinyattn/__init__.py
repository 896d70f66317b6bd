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
from tinyattn.draw import Picture, draw_matrix, draw_pattern
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
    "draw_matrix",
    "draw_pattern",
    "mask_scores",
    "merge_heads",
    "mix",
    "pattern",
    "project",
    "scores",
    "show",
    "split_heads",
    "write",
]
