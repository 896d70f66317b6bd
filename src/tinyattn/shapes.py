"""Axis names, and the door every public function stands behind.

A shape is written once, in the annotation: ``Float[Tensor, "*batch query key"]``. The words are
the same everywhere: ``*batch pos query key head d_model d_head d_value d_mlp d_vocab layer``.
``@typed`` checks them on every call, so that a page, a test and a reader meet the same error.
"""

import functools
import inspect
import operator
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from jaxtyping import AbstractArray, TypeCheckError, jaxtyped
from torch import Tensor

Callable = TypeVar("Callable", bound=Any)


class ShapeError(TypeError, ValueError):
    """An argument does not fit: its kind, its shape, its dtype or its device.

    It is a TypeError and a ValueError at once, because a shape is part of both.
    """


def typed(function: Callable) -> Callable:
    """Check every argument and the result of a function against its annotations.

    Floating-point arguments must also share one dtype, and all tensors one device, so that
    nothing is converted behind the caller's back; inside ``torch.autocast`` the caller has asked
    for it. True is no number, and every entry of a list is looked at. Under ``torch.compile`` the
    checks step aside. A class is checked where it is constructed.

    Raises:
        ShapeError: Naming the argument, what it is, and what would be accepted.

    Examples:
        >>> from tinyattn import causal_mask
        >>> causal_mask("3")
        Traceback (most recent call last):
        tinyattn.shapes.ShapeError: causal_mask: query is '3', but must be int
    """
    if isinstance(function, type):
        made = inspect.getattr_static(function, "__init__")
        type.__setattr__(function, "__init__", typed(made))
        return function

    signature = inspect.signature(function)
    name = function.__qualname__.removesuffix(".__init__")

    ready: list[Any] = []

    def checked() -> Any:
        if not ready:  # beartype is slow to import and to set up: at the first call, not before
            from beartype import beartype

            ready.append(jaxtyped(function, typechecker=beartype))
        return ready[0]

    def check(*args: Any, **kwargs: Any) -> Any:
        try:
            arguments = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(
                f"{name}: {error}; it takes {', '.join(signature.parameters)}"
            ) from None
        fault = _slips_through(arguments, signature)
        if not __debug__:  # under python -O beartype steps aside; a wrong shape must not pass
            fault = fault or _misfit(arguments, signature)
        if not fault and not _alike([t for t in arguments.values() if isinstance(t, Tensor)]):
            fault = _misfit(arguments, signature) or _unlike(arguments)
        if fault:
            raise ShapeError(f"{name}: {fault}")
        try:
            return checked()(*args, **kwargs)
        except TypeCheckError as error:
            raise ShapeError(f"{name}: {_misfit(arguments, signature) or error}") from None

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        # torch.compile looks at all that this function refers to, so that is only functions.
        return (function if torch.compiler.is_compiling() else check)(*args, **kwargs)

    return typing.cast(Callable, call)


def describe(tensor: Tensor) -> str:
    """Say what a tensor is in one word, as the error messages do.

    Examples:
        >>> import torch
        >>> from tinyattn.shapes import describe
        >>> describe(torch.zeros(3, 4))
        'float32[3, 4]'
    """
    return f"{_name(tensor.dtype)}{list(tensor.shape)}"


def whole_numbers(name: str, numbers: Iterable[Any]) -> list[int]:
    """Read one row of whole numbers; ``name`` says what they are. True is no number.

    Raises:
        ShapeError: If they are anything else.

    Examples:
        >>> from tinyattn.shapes import whole_numbers
        >>> whole_numbers("tokens", range(3))
        [0, 1, 2]
    """
    try:
        row = list(numbers)
        if any(isinstance(number, bool) for number in row):
            raise TypeError
        return [operator.index(number) for number in row]
    except TypeError:
        raise ShapeError(f"{name} are {numbers!r}, but must be one row of whole numbers") from None


def inspectable(tensor: Tensor) -> bool:
    """Whether the values of a tensor may be looked at.

    They may not on the meta device, while compiling, and under ``torch.func.vmap``.

    Examples:
        >>> import torch
        >>> from tinyattn.shapes import inspectable
        >>> inspectable(torch.zeros(3)), inspectable(torch.zeros(3, device="meta"))
        (True, False)
    """
    if tensor.is_meta or torch.compiler.is_compiling():
        return False
    try:
        bool(tensor[..., None][..., :0].any())  # nothing is read, but vmap says whether it could be
    except RuntimeError:
        return False
    return True


def _alike(tensors: list[Tensor]) -> bool:
    dtypes = {tensor.dtype for tensor in tensors if tensor.is_floating_point()}
    devices = {tensor.device for tensor in tensors}
    converted = len(dtypes) > 1 and torch.is_autocast_enabled(tensors[0].device.type)
    return (len(dtypes) <= 1 or converted) and len(devices) <= 1


def _slips_through(arguments: dict[str, Any], signature: inspect.Signature) -> str | None:
    """Find what beartype lets pass: True as a number, a wrong entry of a list, a sparse tensor."""
    for name, value in arguments.items():
        if isinstance(value, Tensor):
            if value.is_nested:
                return f"{name} is nested, but must be of one length: pad it, and mask the padding"
            if value.is_floating_point() and value.dtype.itemsize < 2:
                return f"{name} is {_name(value.dtype)}, but must be wider: {name}.float()"
            if value.layout is not torch.strided:
                return f"{name} is {value.layout}, but must be dense: {name}.to_dense()"
            continue
        kinds = _kinds(signature.parameters[name].annotation)
        if isinstance(value, bool) and int in kinds and bool not in kinds:
            return f"{name} is {value}, but must be a number"
        entry: Any = next((kind for kind in map(_entry, kinds) if kind in _ENTRIES), None)
        for index, item in enumerate(value if entry and isinstance(value, list | tuple) else ()):
            if not isinstance(item, entry) or isinstance(item, bool):
                remedy = _ENTRIES[entry].format(name)
                return f"{name}[{index}] is {_said(item)}, but must be {remedy}"
    return None


_ENTRIES = {
    str: "a string: [str(label) for label in {}]",
    int: "a whole number: [int(number) for number in {}]",
}


def _entry(kind: Any) -> Any:
    """What a sequence holds; None of anything else."""
    return typing.get_args(kind)[0] if typing.get_origin(kind) is Sequence else None


def _said(value: Any) -> str:
    """A value as a message quotes it: in one short line."""
    if isinstance(value, Tensor):
        return describe(value)
    quoted = repr(value)
    return quoted if len(quoted) <= 60 and "\n" not in quoted else f"a {type(value).__name__}"


def _unlike(arguments: dict[str, Any]) -> str:
    """Name the first two tensors that disagree in dtype or device."""
    tensors = {name: value for name, value in arguments.items() if isinstance(value, Tensor)}
    first, one = next(iter(tensors.items()))
    for name, tensor in tensors.items():
        if tensor.device != one.device:
            return (
                f"{first} is on {one.device} and {name} on {tensor.device}: "
                f"move one, {name}.to({first}.device)"
            )
    floats = {name: value for name, value in tensors.items() if value.is_floating_point()}
    first, one = next(iter(floats.items()))
    name, tensor = next(item for item in floats.items() if item[1].dtype != one.dtype)
    return (
        f"{first} is {describe(one)} and {name} is {describe(tensor)}: "
        f"convert one, {name}.to({first}.dtype)"
    )


def _misfit(arguments: dict[str, Any], signature: inspect.Signature) -> str | None:
    """Find the first argument that does not fit, and say why in one sentence."""
    from beartype.door import is_bearable

    sizes: dict[str, tuple[Any, str]] = {}
    for name, value in arguments.items():
        annotation = signature.parameters[name].annotation
        if annotation is inspect.Parameter.empty:
            continue
        wanted = next((kind for kind in _kinds(annotation) if _is_array(kind)), None)
        if wanted is None:
            if not is_bearable(value, annotation):
                array = type(value).__module__ == "numpy" or isinstance(value, list)
                remedy = f": torch.tensor({name})" if array and annotation is Tensor else ""
                return f"{name} is {_said(value)}, but must be {_spell(annotation)}{remedy}"
        elif not (value is None and type(None) in _kinds(annotation)):
            fault = _fault(name, value, wanted, sizes)
            if fault:
                return fault
    return None


def _fault(name: str, value: Any, wanted: Any, sizes: dict[str, tuple[Any, str]]) -> str | None:
    """Compare one argument with its annotation and with the axes already bound by others."""
    if value is None:
        return f"{name} is None, but must be a tensor [{', '.join(wanted.dim_str.split())}]"
    if not isinstance(value, Tensor):
        return f"{name} is a {type(value).__name__}, but must be a tensor: torch.tensor({name})"
    is_a = f"{name} is {describe(value)}, but must"
    if _name(value.dtype) not in wanted.dtypes:
        return f"{is_a} {_remedy(name, value, wanted)}"
    axes = wanted.dim_str.split()
    layout = f"be [{', '.join(axes)}]"
    open_ended = axes[0].startswith("*") if axes else False
    fixed = axes[1:] if open_ended else axes
    leading = value.ndim - len(fixed)
    if leading < 0 or (leading > 0 and not open_ended):
        count = f"at least {len(fixed)}" if open_ended else f"exactly {len(fixed)}"
        axis = "axis" if len(fixed) == 1 else "axes"
        return f"{is_a} {layout}: {count} {axis}, not {value.ndim}"
    found = dict(zip(fixed, value.shape[leading:], strict=True))
    if open_ended:
        found[axes[0]] = tuple(value.shape[:leading])
    for axis, size in found.items():
        if axis.isdigit() and size != int(axis):
            return f"{is_a} {layout}"
        known, owner = sizes.setdefault(axis, (size, f"{name} is {describe(value)}"))
        if known != size:
            known = list(known) if isinstance(known, tuple) else known
            return f"{is_a} {layout} with {axis} = {known}, as {owner}"
    return None


def _remedy(name: str, value: Tensor, wanted: Any) -> str:
    if "bool" in wanted.dtypes:
        if value.is_floating_point():
            return (
                f"be bool, True where a query may look: {name}.bool() if it holds zeros and ones; "
                f"if it is a bias, add it to the scores"
            )
        return f"be bool, True where a query may look: {name}.bool()"
    if any(dtype.startswith("float") for dtype in wanted.dtypes):
        return f"be floating point: {name}.float()"
    return "hold integers"


def _kinds(annotation: Any) -> tuple[Any, ...]:
    """The members of a union, or the one kind there is."""
    united = typing.get_origin(annotation) in (types.UnionType, typing.Union)
    return typing.get_args(annotation) if united else (annotation,)


def _is_array(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, AbstractArray)


def _spell(annotation: Any) -> str:
    if typing.get_origin(annotation) is typing.Literal:
        return f"one of {', '.join(map(repr, typing.get_args(annotation)))}"
    origin, of = typing.get_origin(annotation), [*map(_spell, typing.get_args(annotation))]
    if origin is Sequence:
        return f"a list of {of[0]}"
    if origin is Mapping:
        return f"a dict of {of[1]} by {of[0]}"
    if origin in (types.UnionType, typing.Union):
        return " or ".join(of)
    if annotation is type(None):
        return "None"
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
