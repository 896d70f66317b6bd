"""Weights in a file: the safetensors format, read and written without its package.

Eight bytes say how long a header is; the header is JSON and says of each tensor its dtype, shape
and place; the numbers follow. Nothing in such a file is ever executed.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def file_path(path: object) -> Path:
    """A path to a file, there or not.

    Raises:
        IsADirectoryError: If it is a folder.
        TypeError: If it is no path.

    Examples:
        >>> from tinyattn.weights import file_path
        >>> file_path("model.safetensors").name
        'model.safetensors'
    """
    if not isinstance(path, str | Path):
        raise TypeError(f"path is {path!r}: give a string or a Path")
    if Path(path).is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file in it")
    return Path(path)


def read_weights(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read a safetensors file: its tensors by name, and the notes in its header.

    Raises:
        FileNotFoundError: If there is no such file.
        IsADirectoryError: If it is a folder.
        TypeError: If it is no path.
        ValueError: If it is not a safetensors file, or only part of one, saying so.

    Examples:
        >>> import tempfile, torch
        >>> from tinyattn.weights import read_weights, write_weights
        >>> path = tempfile.mkdtemp() + "/two.safetensors"
        >>> write_weights(path, {"W": torch.tensor([1.0, 2.0])}, {"made by": "hand"})
        >>> read_weights(path)
        ({'W': tensor([1., 2.])}, {'made by': 'hand'})

    Source: the safetensors format, github.com/huggingface/safetensors.
    """
    path = file_path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}: check the name, or download it again")
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > size:
            raise ValueError(
                f"{path} is not a whole safetensors file: it has {size} bytes, and its header "
                f"alone should have {length}. If it was downloaded, download it again"
            )
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError):
            raise ValueError(f"{path} is not a safetensors file: its header is no JSON") from None
    notes = header.pop("__metadata__", {}) if isinstance(header, dict) else None
    if not isinstance(notes, dict) or not all(map(_is_entry, header.values())):
        raise ValueError(f"{path} is not a safetensors file, or damaged: its header is another one")
    end = 8 + length + max((entry["data_offsets"][1] for entry in header.values()), default=0)
    if size != end:
        raise ValueError(
            f"{path} is not a whole safetensors file: its header promises {end} bytes, and it has "
            f"{size}. If it was downloaded, download it again"
        )
    stored = torch.from_file(str(path), shared=False, size=size, dtype=torch.uint8)[8 + length :]
    return {name: _tensor(name, entry, stored, path) for name, entry in header.items()}, notes


def write_weights(
    path: str | Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str] | None = None
) -> None:
    """Write tensors to a safetensors file. The old file stays until the new one is whole.

    Raises:
        IsADirectoryError: If the path is a folder.
        TypeError: If it is no path.
        ValueError: If a tensor has no values, or a dtype the format does not know.

    Examples:
        >>> import tempfile, torch
        >>> from tinyattn.weights import write_weights
        >>> write_weights(tempfile.mkdtemp() + "/one.safetensors", {"W": torch.eye(2)})
    """
    path = file_path(path)
    header: dict[str, object] = {"__metadata__": dict(notes)} if notes else {}
    pieces, at = [], 0
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise ValueError(f"{name} is a {type(tensor).__name__}: give a tensor")
        if tensor.layout is not torch.strided:
            raise ValueError(f"{name} is {tensor.layout}, but must be dense: {name}.to_dense()")
        if tensor.dtype not in NAMES or tensor.is_meta or name == "__metadata__":
            raise ValueError(f"{name} is {tensor.dtype} on {tensor.device}: it cannot be written")
        flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
        header[name] = {
            "dtype": NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [at, at + flat.numel()],
        }
        pieces.append(flat)
        at += flat.numel()
    text = json.dumps(header, ensure_ascii=True).encode()
    text += b" " * (-len(text) % 8)
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for piece in pieces:
            file.write(piece.numpy().tobytes())
    partial.replace(path)


def _is_entry(entry: Any) -> bool:
    """Whether a header says of a tensor what it must."""
    try:
        numbers = [*entry["shape"], *entry["data_offsets"]]
    except (TypeError, KeyError):
        return False
    whole = all(type(number) is int and number >= 0 for number in numbers)
    return whole and len(entry["data_offsets"]) == 2 and isinstance(entry.get("dtype"), str)


def _tensor(name: str, entry: dict, stored: Tensor, path: Path) -> Tensor:
    start, end = entry["data_offsets"]
    if entry["dtype"] not in DTYPES:
        raise ValueError(f"{path}: {name} has dtype {entry['dtype']}, which is not read here")
    dtype, shape = DTYPES[entry["dtype"]], entry["shape"]
    if not 0 <= start <= end or end - start != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{path}: {name} has shape {shape} but {end - start} bytes: damaged file")
    return stored[start:end].clone().view(dtype).reshape(shape)
