"""Edits: replace an activation by its name while a pass runs, and know whether it changed.

Nothing is hooked onto a model. An edit is an argument of a pass, so none can be left behind.
"""

import math
import re
import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from tinyattn.block import Edit, not_a_tensor
from tinyattn.config import Config
from tinyattn.shapes import describe, inspectable

ATTENTION = ("q", "k", "v", "scores", "pattern", "z", "out", "attn_out")
NEURONS = ("resid_mid", "neurons", "mlp_out")


class NothingChanged(UserWarning):
    """No edit changed any number: what was put there is what stood there, or nothing ran."""


def activation_names(config: Config) -> list[str]:
    """Every name an edit can go by, in the order in which the pass reaches them.

    Examples:
        >>> from tinyattn.edits import activation_names
        >>> from tinyattn import Config
        >>> config = Config(d_model=4, d_head=2, n_heads=2, n_layers=1, d_vocab=5, n_ctx=6)
        >>> activation_names(config)[:5]
        ['embed', 'pos', '0.resid_pre', '0.q', '0.k']
    """
    names = ["embed"]
    if config.positions in ("learned", "sinusoidal"):
        names.append("pos")
    heads = [f"head {head}" for head in range(config.n_heads)]
    neurons = NEURONS if config.d_mlp else ()
    for layer in range(config.n_layers):
        within = ("resid_pre", *ATTENTION[:6], *heads, *ATTENTION[6:], *neurons, "resid_post")
        names += [f"{layer}.{what}" for what in within]
    return names


def check_names(names: Iterable[str], config: Config) -> None:
    """Refuse a name that is none, listing those there are.

    Raises:
        ValueError: If there is no activation of that name.

    Examples:
        >>> from tinyattn.edits import check_names
        >>> from tinyattn import Config
        >>> config = Config(d_model=4, d_head=2, n_heads=2, n_layers=1, d_vocab=5, n_ctx=6)
        >>> check_names(["0.z", "0.head 1"], config)
    """
    known = activation_names(config)
    for name in names:
        if name not in known:
            first = [other for other in known if not other.startswith(_later(config))]
            layers = f" (layers 0 to {config.n_layers - 1})" if config.n_layers > 1 else ""
            raise ValueError(f"no activation {name!r}: the names are {', '.join(first)}{layers}")


def layer_of(name: str) -> int:
    """The layer an activation belongs to; what comes before all layers belongs to the first.

    Examples:
        >>> from tinyattn.edits import layer_of
        >>> layer_of("2.head 1"), layer_of("embed")
        (2, 0)
    """
    number = re.match(r"(\d+)\.", name)
    return int(number[1]) if number else 0


def as_edit(name: str, wanted: Any) -> Edit:
    """Make an edit of a tensor to put there, a run to take it from, or a function.

    Raises:
        TypeError: If it is none of these.

    Examples:
        >>> from tinyattn.edits import as_edit
        >>> import torch
        >>> as_edit("0.z", torch.ones(2))(torch.zeros(2)).tolist()
        [1.0, 1.0]
    """
    if isinstance(wanted, Tensor):
        return lambda value: wanted
    if hasattr(wanted, "value"):
        return lambda value: wanted.value(name)
    if callable(wanted):
        return wanted
    raise TypeError(
        f"edit of {name!r} is {wanted!r}: give a tensor, a Run, or a function of the activation"
    )


def as_edits(edits: Mapping[str, Any], config: Config) -> dict[str, Edit]:
    """Make edits of all that is to be put somewhere, by name.

    Raises:
        TypeError: If they are not given by name, or one is none.
        ValueError: If there is no activation of a name.

    Examples:
        >>> from tinyattn import Config
        >>> from tinyattn.edits import as_edits
        >>> config = Config(d_model=4, d_head=2, n_heads=2, n_layers=1, d_vocab=5, n_ctx=6)
        >>> list(as_edits({"0.z": lambda z: 0 * z}, config))
        ['0.z']
    """
    if not isinstance(edits, Mapping):
        raise TypeError(
            f"edits are a {type(edits).__name__}: give them by name, {{'0.z': lambda z: 0 * z}}"
        )
    check_names(edits, config)
    return {name: as_edit(name, wanted) for name, wanted in edits.items()}


def prepare(edits: Mapping[str, Edit], changes: dict[str, float]) -> dict[str, Edit]:
    """The edits as a pass applies them: heads as slices of ``z``, and every change noted.

    Args:
        edits: By name.
        changes: Receives, for each name, the largest difference its edit has made so far; NaN
            where values cannot be looked at.

    Examples:
        >>> from tinyattn.edits import prepare
        >>> import torch
        >>> changes = {}
        >>> prepare({"0.z": lambda z: z + 2}, changes)["0.z"](torch.zeros(3)).tolist(), changes
        ([2.0, 2.0, 2.0], {'0.z': 2.0})
    """
    ready: dict[str, Edit] = {}
    for name in sorted(edits, key=lambda name: ".head " in name):  # z before a head of z
        layer, _, head = name.partition(".head ")
        noted = _noted(name, edits[name], changes)
        if head:
            target = f"{layer}.z"
            ready[target] = _then(ready.get(target), _on_head(int(head), name, noted))
        else:
            ready[name] = noted
        changes.setdefault(name, 0.0)
    return ready


def warn_if_unchanged(changes: Mapping[str, float], names: Iterable[str]) -> None:
    """Say so when no edit among these changed anything.

    Warns:
        NothingChanged: Naming the edits.

    Examples:
        >>> from tinyattn.edits import warn_if_unchanged
        >>> warn_if_unchanged({"0.z": 0.5}, ["0.z"])
    """
    names = list(names)
    if names and not any(changes.get(name) for name in names):
        warnings.warn(
            f"the edit of {', '.join(names)} changed nothing: what it puts there is what stood "
            f"there, or no pass reached it",
            NothingChanged,
            stacklevel=3,
        )


def _later(config: Config) -> tuple[str, ...]:
    return tuple(f"{layer}." for layer in range(1, config.n_layers))


def _noted(name: str, edit: Edit, changes: dict[str, float]) -> Edit:
    def noted(value: Tensor) -> Tensor:
        new = edit(value.clone())  # an edit in place changes its copy, and is seen to change it
        alike = isinstance(new, Tensor) and (new.shape, new.device) == (value.shape, value.device)
        if alike and not inspectable(value):
            changes[name] = math.nan  # nobody can say
        elif alike:
            moved = new.detach() != value.detach()  # −∞ stays −∞, which a difference cannot say
            if moved.any():
                change = float((new.detach() - value.detach())[moved].abs().max())
                changes[name] = max(change, changes.get(name, 0.0))
        return new

    return noted


def _on_head(head: int, name: str, edit: Edit) -> Edit:
    def on_head(z: Tensor) -> Tensor:
        old = z[..., head, :, :]
        new = edit(old)
        if not isinstance(new, Tensor):
            raise TypeError(not_a_tensor(name, old, new))
        if (new.shape, new.dtype, new.device) != (old.shape, old.dtype, old.device):
            raise ValueError(
                f"edit of {name!r}: its z is {describe(old)} on {old.device} and was replaced by "
                f"{describe(new)} on {new.device}: a head is edited at z, keep shape and dtype"
            )
        parts = [*z.unbind(-3)]
        parts[head] = new
        return torch.stack(parts, dim=-3)

    return on_head


def _then(first: Edit | None, second: Edit) -> Edit:
    return second if first is None else lambda value: second(first(value))
