"""The residual stream as a ledger: who wrote what, and what it all adds up to."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tinyattn.shapes import ShapeError, describe, typed


@dataclass(frozen=True, eq=False, repr=False)
class Stream:
    """The residual stream with a memory: every write, in order, under its writer's name.

    A real stream keeps only the sum, :attr:`now`. The ledger keeps the terms, so that the sum can
    be taken apart again. Writing returns a new ledger and leaves the old one as it was. The terms
    are the tensors it was given, not copies: hand over ``x.clone()`` if ``x`` is changed later.
    A loop over a ledger, and ``in``, go by the writers' names.

    Examples:
        >>> import torch
        >>> from tinyattn import Stream
        >>> stream = Stream.start(torch.tensor([[1.0, 0.0]]), by="embed")
        >>> stream = stream.write(torch.tensor([[0.0, 2.0]]), by="head 0")
        >>> stream.now.tolist()
        [[1.0, 2.0]]
        >>> stream.along(torch.tensor([0.0, 1.0])).tolist()
        [[0.0], [2.0]]
        >>> stream
        Stream(embed + head 0, float32[1, 2])

    Source: Elhage et al. (2021), "Virtual Weights and the Residual Stream as a Communication
    Channel".
    """

    writers: tuple[str, ...]
    writes: tuple[Tensor, ...]

    def __post_init__(self) -> None:
        if not self.writes or len(self.writers) != len(self.writes):
            raise ValueError(
                f"Stream: {len(self.writers)} writers and {len(self.writes)} writes: open a ledger "
                f"with Stream.start(x), and add to it with .write(delta, by=name)"
            )
        first = self.writes[0]
        for writer, write in zip(self.writers, self.writes, strict=True):
            if (write.shape, write.dtype) != (first.shape, first.dtype):
                raise ShapeError(
                    f"Stream: {self.writers[0]!r} writes {describe(first)} and {writer!r} writes "
                    f"{describe(write)}: a write must match the stream"
                )
        if len(set(self.writers)) < len(self.writers):
            twice = next(name for name in self.writers if self.writers.count(name) > 1)
            raise ValueError(f"Stream: {twice!r} writes twice: give each write its own name")

    @classmethod
    @typed
    def start(cls, x: Float[Tensor, "*batch pos d_model"], by: str = "embed") -> "Stream":
        """Open a ledger with the first write: what the stream holds before any layer.

        Raises:
            ShapeError: If ``x`` is not a floating-point tensor of at least two axes.
        """
        return cls((by,), (x,))

    @typed
    def write(self, delta: Float[Tensor, "*batch pos d_model"], by: str) -> "Stream":
        """Add a write. ``delta`` is what a writer adds, not the stream after it.

        Raises:
            ShapeError: If the write does not fit the stream.
            ValueError: If a writer of that name has already written.
        """
        first = self.writes[0]
        if (delta.shape, delta.dtype, delta.device) != (first.shape, first.dtype, first.device):
            raise ShapeError(
                f"Stream.write: {by!r} writes {describe(delta)} on {delta.device}, but the stream "
                f"is {describe(first)} on {first.device}: a write must match it"
            )
        if by in self.writers:
            raise ValueError(
                f"Stream.write: {by!r} has already written ({', '.join(self.writers)}): "
                f"give each write a name of its own"
            )
        return Stream((*self.writers, by), (*self.writes, delta))

    @property
    def now(self) -> Float[Tensor, "*batch pos d_model"]:
        """The stream itself: the sum of all writes so far, all that a reader can see."""
        return torch.stack(self.writes).sum(dim=0)

    def __getitem__(self, writer: str) -> Float[Tensor, "*batch pos d_model"]:
        """What one writer wrote.

        Raises:
            KeyError: If nobody of that name has written, naming those who have.
        """
        if writer not in self.writers:
            raise KeyError(
                f"Stream: no write by {writer!r}; the writers are {', '.join(self.writers)}"
            )
        return self.writes[self.writers.index(writer)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.writers)

    def __len__(self) -> int:
        return len(self.writers)

    @typed
    def along(self, direction: Float[Tensor, " d_model"]) -> Float[Tensor, "writer *batch pos"]:
        """How far each write reaches along a direction: parts that sum to what a reader sees.

        The dot product with ``direction`` is linear, so the parts sum to ``now @ direction``.

        Raises:
            ShapeError: If the direction is not one vector of the stream's width and dtype.
        """
        first = self.writes[0]
        fits = (direction.shape[0], direction.dtype) == (first.shape[-1], first.dtype)
        if not fits or direction.device != first.device:
            raise ShapeError(
                f"Stream.along: direction is {describe(direction)} on {direction.device}, but the "
                f"stream is {describe(first)} on {first.device}: give one vector of "
                f"{first.shape[-1]} entries, of its dtype and on its device"
            )
        return torch.stack(self.writes) @ direction

    def __repr__(self) -> str:
        return f"Stream({' + '.join(self.writers)}, {describe(self.writes[0])})"
