"""A model in one file: its weights, and in the file's header the config they fit."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from torch import Tensor, nn

from tinyattn.config import Config
from tinyattn.model import Transformer
from tinyattn.shapes import describe
from tinyattn.weights import file_path, read_weights, write_weights


def save_model(
    model: Transformer, path: str | Path, *, dtype: torch.dtype | None = None, **notes: str
) -> None:
    """Write weights and config to one safetensors file. A tied weight is written once.

    Args:
        model: What to write.
        path: Where. A file of that name is replaced once the new one is whole.
        dtype: Of the numbers in the file; half precision halves it.
        notes: Anything worth saying about the weights, kept in the header.

    Raises:
        FileNotFoundError: If the folder is missing.
        IsADirectoryError: If the path is a folder.
        TypeError: If it is no model, the path is none, or a note no string.
        ValueError: If ``dtype`` is not floating point, or a note is called "config".

    Examples:
        >>> import tempfile
        >>> from tinyattn import Config, Transformer, load_model, save_model
        >>> model = Transformer(Config(8, 4, n_heads=2, n_layers=1, d_vocab=5, n_ctx=6))
        >>> path = tempfile.mkdtemp() + "/model.safetensors"
        >>> save_model(model, path)
        >>> bool((load_model(path)([1, 2]) == model([1, 2])).all())
        True
    """
    if not isinstance(model, Transformer):
        raise TypeError(f"save_model: a {type(model).__name__} is no model: give a Transformer")
    _floating("save_model", dtype or torch.float32)
    wrong = next((name for name, note in notes.items() if not isinstance(note, str)), None)
    if wrong is not None:
        raise TypeError(f"save_model: the note {wrong!r} is {notes[wrong]!r}: give a string")
    path = file_path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"save_model: no folder {path.parent}: make it first")
    if "config" in notes:
        raise ValueError("save_model: the note 'config' is written by itself: choose another name")
    state = {name: t if dtype is None else t.to(dtype) for name, t in model.state_dict().items()}
    write_weights(path, state, {"config": json.dumps(asdict(model.config)), **notes})


def load_model(path: str | Path, *, dtype: torch.dtype = torch.float32) -> Transformer:
    """Read a model that :func:`save_model` wrote.

    Args:
        path: The file.
        dtype: Of the model, whatever the file holds.

    Raises:
        FileNotFoundError: If there is no such file.
        IsADirectoryError: If it is a folder.
        TypeError: If it is no path.
        ValueError: If the file is damaged, or its weights do not fit its config.

    Examples:
        >>> from tinyattn import load_model
        >>> load_model("nothing.safetensors")
        Traceback (most recent call last):
        FileNotFoundError: no file nothing.safetensors: check the name, or download it again
    """
    state, notes = read_weights(path)
    if "config" not in notes:
        raise ValueError(f"{path} holds no config: it was not written by save_model")
    try:
        config = Config(**json.loads(notes["config"]))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} holds a config that is none ({error}): damaged file") from None
    return assemble(config, state, dtype=dtype, source=str(path))


def assemble(
    config: Config,
    state: Mapping[str, Tensor],
    *,
    dtype: torch.dtype = torch.float32,
    source: str = "state",
    device: torch.device | str = "cpu",
) -> Transformer:
    """Make a model of a config and weights by name. The weights are copied.

    Args:
        config: What the weights make up.
        state: Weights under the names of a :class:`Transformer`'s state dict.
        dtype: Of the model.
        source: What to call the weights in an error.
        device: Of the model. Weights of the meta device make up a model there, and no other.

    Raises:
        ValueError: If a weight is missing, unknown, or of another shape, naming all of them.

    Examples:
        >>> from tinyattn import Config
        >>> from tinyattn.checkpoint import assemble
        >>> assemble(Config(8, 4, n_heads=2, n_layers=0, d_vocab=5, n_ctx=6, positions=None), {})
        Traceback (most recent call last):
        ValueError: state does not fit the config: W_E is missing; W_U is missing
    """
    _floating(source, dtype)
    for name, t in state.items():
        lost = isinstance(t, Tensor) and t.is_meta and torch.device(device).type != "meta"
        if not isinstance(t, Tensor) or lost or t.is_complex():
            a_tensor = isinstance(t, Tensor)
            what = f"{describe(t)} on {t.device}" if a_tensor else f"a {type(t).__name__}"
            raise ValueError(f"{source}: {name} is {what}: give tensors of real numbers")
    with torch.device("meta"):
        model = Transformer(config)
    wanted = {name: list(t.shape) for name, t in model.state_dict().items()}
    given = {name: list(t.shape) for name, t in state.items()}
    faults = [f"{name} is missing" for name in wanted if name not in given]
    faults += [f"{name} is not known" for name in given if name not in wanted]
    faults += [
        f"{name} is {given[name]} but must be {shape}"
        for name, shape in wanted.items()
        if given.get(name, shape) != shape
    ]
    if faults:
        more = f"; and {len(faults) - 6} more" if len(faults) > 6 else ""
        raise ValueError(f"{source} does not fit the config: {'; '.join(faults[:6])}{more}")
    for name, old in model.state_dict().items():
        empty = torch.empty_like(old, device=device, dtype=dtype)  # in the layout of the old
        owner, _, parameter = name.rpartition(".")
        value = nn.Parameter(empty.copy_(state[name]))
        setattr(model.get_submodule(owner), parameter, value)
    return model


def _floating(source: str, dtype: object) -> None:
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise ValueError(f"{source}: dtype is {dtype!r}: give a floating one, torch.float16")
