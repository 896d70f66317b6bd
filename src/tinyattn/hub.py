"""A model folder as Hugging Face writes it, from this machine or from their hub.

A folder holds ``config.json``, weights in safetensors, and perhaps ``tokenizer.json``. Fetching one
needs the extra ``hub``; reading one needs nothing.
"""

import importlib
import json
from pathlib import Path
from typing import Any

from torch import Tensor

from tinyattn.weights import read_weights

FILES = [
    "config.json",
    "*.safetensors",
    "*.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
]


def model_folder(source: str | Path, *, files: list[str] = FILES) -> Path:
    """Find the folder of a model: a local one, or one fetched from the hub by its id.

    What was fetched is kept, and an interrupted download goes on where it stopped.

    Args:
        source: A folder, or an id such as ``"openai-community/gpt2"``.
        files: What to fetch, if it is an id.

    Raises:
        FileNotFoundError: If it is neither, or the hub cannot be reached, saying what to do.
        ImportError: If the extra ``hub`` is needed and missing.

    Examples:
        >>> from tinyattn.hub import model_folder
        >>> model_folder("./gone")
        Traceback (most recent call last):
        FileNotFoundError: no folder ./gone, and no id on the hub either: an id is owner/name
    """
    folder = Path(source)
    if folder.is_dir():
        return folder
    name = str(source)
    if name.count("/") > 1 or name.startswith((".", "/", "~")) or "\\" in name:
        raise FileNotFoundError(
            f"no folder {name}, and no id on the hub either: an id is owner/name"
        )
    try:
        hub = importlib.import_module("huggingface_hub")
    except ImportError:
        raise ImportError(
            f"{name} is not a folder here, and fetching it needs the extra hub: "
            f"pip install 'tinyattn[hub]'"
        ) from None
    try:
        return Path(hub.snapshot_download(name, allow_patterns=files))
    except hub.errors.RepositoryNotFoundError:
        raise FileNotFoundError(
            f"{name} is no folder here and no public model on the hub: check the spelling"
        ) from None
    except (hub.errors.LocalEntryNotFoundError, OSError) as error:
        raise FileNotFoundError(
            f"{name} is not on this machine and the hub could not be reached: go online once, or "
            f"copy the folder here and give its path ({type(error).__name__})"
        ) from None


def read_folder(folder: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read config and weights of a model folder, in one file or in several.

    Raises:
        FileNotFoundError: If a file is missing, naming it.
        ValueError: If a file is damaged or only half there.

    Examples:
        >>> from tinyattn.hub import read_folder
        >>> read_folder(".")
        Traceback (most recent call last):
        FileNotFoundError: no config.json in . : it is not a model folder
    """
    folder = Path(folder)
    config = folder / "config.json"
    if not config.is_file():
        raise FileNotFoundError(f"no config.json in {folder} : it is not a model folder")
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        where = _json(index).get("weight_map")
        if not isinstance(where, dict) or not all(isinstance(f, str) for f in where.values()):
            raise ValueError(f"{index} does not say which weight is in which file: fetch it again")
        files = sorted(set(where.values()))
    elif (folder / "model.safetensors").is_file():
        files = ["model.safetensors"]
    else:
        old = " (pytorch_model.bin can run code when it is read, and is not read here)"
        raise FileNotFoundError(
            f"no model.safetensors in {folder}"
            f"{old if (folder / 'pytorch_model.bin').is_file() else ''}: "
            f"save the model with save_pretrained, which writes one"
        )
    state: dict[str, Tensor] = {}
    for name in files:
        state |= read_weights(folder / name)[0]
    return _json(config), state


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise ValueError(f"{path} is no JSON: a damaged download? Fetch it again") from None
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds a {type(found).__name__} in place of names: fetch it again")
    return found
