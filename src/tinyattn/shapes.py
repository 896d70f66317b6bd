"""Axis names, and the door every public function stands behind.

A shape is written once, in the annotation: ``Float[Tensor, "*batch query key"]``. The words are
the same everywhere: ``*batch pos query key head d_model d_head d_value d_mlp d_vocab layer``.
``@typed`` checks them on every call, so that a page, a test and a reader meet the same error.
"""

import functools
import inspect
import typing
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
    nothing is converted behind the caller's back. Under ``torch.compile`` the checks step aside.
    A class is checked where it is constructed.

    Raises:
        ShapeError: Naming the argument, what it is, and what would be accepted.

    Examples:
        >>> import torch
        >>> from tinyattn import scores
        >>> scores(torch.ones(3, 4), torch.ones(3, 5))
        Traceback (most recent call last):
        tinyattn.shapes.ShapeError: scores: k is float32[3, 5], but must be [*batch, key, d_head] with d_head = 4, as q is float32[3, 4]
    """  # noqa: E501 (a message is one line)
    if isinstance(function, type):
        function.__init__ = typed(function.__init__)  # type: ignore[misc]
        return function

    signature = inspect.signature(function)
    name = function.__qualname__.removesuffix(".__init__")

    @functools.cache  # beartype is slow to import and to set up: at the first call, not before
    def checked() -> Any:
        from beartype import beartype

        return jaxtyped(function, typechecker=beartype)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return function(*args, **kwargs)
        if not __debug__:  # under python -O beartype steps aside; a wrong shape must not pass
            fault = _misfit(signature.bind(*args, **kwargs).arguments, signature)
            if fault:
                raise ShapeError(f"{name}: {fault}")
        if not _alike([value for value in (*args, *kwargs.values()) if isinstance(value, Tensor)]):
            arguments = signature.bind(*args, **kwargs).arguments
            raise ShapeError(f"{name}: {_misfit(arguments, signature) or _unlike(arguments)}")
        try:
            return checked()(*args, **kwargs)
        except TypeCheckError as error:
            arguments = signature.bind(*args, **kwargs).arguments
            raise ShapeError(f"{name}: {_misfit(arguments, signature) or error}") from None

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


def inspectable(tensor: Tensor) -> bool:
    """Whether the values of a tensor may be looked at: not on the meta device, not while compiling.

    Examples:
        >>> import torch
        >>> from tinyattn.shapes import inspectable
        >>> inspectable(torch.zeros(3)), inspectable(torch.zeros(3, device="meta"))
        (True, False)
    """
    return not (tensor.is_meta or torch.compiler.is_compiling())


def _alike(tensors: list[Tensor]) -> bool:
    dtypes = {tensor.dtype for tensor in tensors if tensor.is_floating_point()}
    return len(dtypes) <= 1 and len({tensor.device for tensor in tensors}) <= 1


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
                return f"{name} is {value!r}, but must be {_spell(annotation)}"
        elif not (value is None and type(None) in _kinds(annotation)):
            fault = _fault(name, value, wanted, sizes)
            if fault:
                return fault
    return None


def _fault(name: str, value: Any, wanted: Any, sizes: dict[str, tuple[Any, str]]) -> str | None:
    """Compare one argument with its annotation and with the axes already bound by others."""
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
        return f"{is_a} {layout}: {count} axes, not {value.ndim}"
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
    return typing.get_args(annotation) or (annotation,)


def _is_array(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, AbstractArray)


def _spell(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
