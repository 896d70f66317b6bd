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
from tinyattn.head import Attended, Head, Heads, attend, merge_heads, split_heads
from tinyattn.shapes import ShapeError
from tinyattn.stream import Stream

__version__ = "0.1.0"

__all__ = [
    "Attended",
    "Head",
    "Heads",
    "ShapeError",
    "Stream",
    "attend",
    "causal_mask",
    "mask_scores",
    "merge_heads",
    "mix",
    "pattern",
    "project",
    "scores",
    "split_heads",
    "write",
]
