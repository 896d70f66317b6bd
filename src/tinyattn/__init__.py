"""Attention, the residual stream and the circuits inside a transformer, as functions of tensors.

Each name here is explained on a page of *Inside a Transformer*, where every line is run.
"""

from tinyattn.attention import causal_mask, mask_scores, mix, pattern, project, scores, write
from tinyattn.batches import repeats
from tinyattn.bpe import Vocabulary
from tinyattn.checkpoint import load_model, save_model
from tinyattn.circuits import (
    Baseline,
    Direction,
    Ends,
    composition,
    compositions,
    copying,
    full_ov,
    full_qk,
    head_write,
    ov_circuit,
    qk_circuit,
    random_composition,
    random_copying,
    svd_tokens,
)
from tinyattn.config import Config
from tinyattn.dependence import critical_path, depends, earliest, generation, reach
from tinyattn.detect import (
    detect,
    duplicate_token_score,
    induction_score,
    previous_token_score,
)
from tinyattn.diagrams import draw_dependencies, draw_stream
from tinyattn.draw import Picture, draw_matrix, draw_pattern
from tinyattn.edits import NothingChanged
from tinyattn.flow import draw_shapes
from tinyattn.folding import fold, untie
from tinyattn.handmade import (
    attend_smeared,
    copy_head,
    induction_head,
    induction_model,
    previous_token_head,
)
from tinyattn.head import Attended, Head, Heads, attend, merge_heads, split_heads
from tinyattn.interop import from_gpt2, from_hf
from tinyattn.interventions import ablate, patch
from tinyattn.learning import History, Schedule, train
from tinyattn.lowrank import SVD, LowRank
from tinyattn.mlp import activate, gated_mlp, gelu, mlp
from tinyattn.model import Transformer
from tinyattn.norm import centre, fold_norm, layer_norm, norm_scale, rms_norm
from tinyattn.panels import draw_curve, draw_heads
from tinyattn.paths import Paths, paths, paths_by_length
from tinyattn.positions import rotary, sinusoidal
from tinyattn.reading import (
    Terms,
    accumulated,
    decomposed,
    head_attribution,
    logit_attribution,
    logit_lens,
)
from tinyattn.run import Run
from tinyattn.score_paths import ScorePaths, score_paths
from tinyattn.shapes import ShapeError
from tinyattn.show import show
from tinyattn.stream import Stream
from tinyattn.tokens import Tokens
from tinyattn.tracks import draw_paths
from tinyattn.trained import load, load_facts, load_history, load_vocabulary, model_card
from tinyattn.twins import from_torch, from_transformer_lens, to_transformer_lens

__version__ = "0.1.0"

__all__ = [
    "SVD",
    "Attended",
    "Baseline",
    "Config",
    "Direction",
    "Ends",
    "Head",
    "Heads",
    "History",
    "LowRank",
    "NothingChanged",
    "Paths",
    "Picture",
    "Run",
    "Schedule",
    "ScorePaths",
    "ShapeError",
    "Stream",
    "Terms",
    "Tokens",
    "Transformer",
    "Vocabulary",
    "ablate",
    "accumulated",
    "activate",
    "attend",
    "attend_smeared",
    "causal_mask",
    "centre",
    "composition",
    "compositions",
    "copy_head",
    "copying",
    "critical_path",
    "decomposed",
    "depends",
    "detect",
    "draw_curve",
    "draw_dependencies",
    "draw_heads",
    "draw_matrix",
    "draw_paths",
    "draw_pattern",
    "draw_shapes",
    "draw_stream",
    "duplicate_token_score",
    "earliest",
    "fold",
    "fold_norm",
    "from_gpt2",
    "from_hf",
    "from_torch",
    "from_transformer_lens",
    "full_ov",
    "full_qk",
    "gated_mlp",
    "gelu",
    "generation",
    "head_attribution",
    "head_write",
    "induction_head",
    "induction_model",
    "induction_score",
    "layer_norm",
    "load",
    "load_facts",
    "load_history",
    "load_model",
    "load_vocabulary",
    "logit_attribution",
    "logit_lens",
    "mask_scores",
    "merge_heads",
    "mix",
    "mlp",
    "model_card",
    "norm_scale",
    "ov_circuit",
    "patch",
    "paths",
    "paths_by_length",
    "pattern",
    "previous_token_head",
    "previous_token_score",
    "project",
    "qk_circuit",
    "random_composition",
    "random_copying",
    "reach",
    "repeats",
    "rms_norm",
    "rotary",
    "save_model",
    "score_paths",
    "scores",
    "show",
    "sinusoidal",
    "split_heads",
    "svd_tokens",
    "to_transformer_lens",
    "train",
    "untie",
    "write",
]
