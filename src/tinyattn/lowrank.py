"""A matrix kept as two thin factors: never the product until it is asked for.

A head's circuits are [d_model, d_model] matrices of rank d_head. Two factors say the same in a
fraction of the room, and everything one asks of the matrix can be asked of them: its products,
its size, its eigenvalues, its singular directions. Only :meth:`LowRank.dense` multiplies them out.

Axes before the last two are batch axes, as everywhere; heads and layers are such axes. Thin
factors are cheap, so what is asked is worked out in float64 and given back in their own dtype:
badly scaled factors lose nothing.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from tinyattn.shapes import ShapeError, describe, inspectable, typed


class SVD(NamedTuple):
    """Singular directions of a matrix, so that ``U @ diag(S) @ Vh`` is the matrix.

    Columns of ``U`` and rows of ``Vh`` are the directions; ``S`` descends. The h in ``Vh`` says
    that it is the transposed one, as in ``torch.linalg.svd``.
    """

    U: Float[Tensor, "*batch row rank"]
    S: Float[Tensor, "*batch rank"]
    Vh: Float[Tensor, "*batch rank column"]


@typed
@dataclass(frozen=True, eq=False, repr=False)
class LowRank:
    """The matrix ``left @ right``, kept as its two factors.

    A product with another matrix, from either side, is again a LowRank; a product with a vector
    is a vector. ``m[i]`` picks from the leading axes, ``m[..., 2:5, :]`` cuts rows or columns;
    negative numbers count from the end. The factors are shared with the caller, never changed.

    Raises:
        ShapeError: If the factors differ in rank, leading axes, dtype or device.

    Examples:
        >>> import torch
        >>> m = LowRank(torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0, 0.0, 1.0]]))
        >>> m
        LowRank(float32[2, 3], rank 1)
        >>> (m @ torch.tensor([1.0, 1.0, 1.0])).tolist()
        [4.0, 8.0]
        >>> (torch.tensor([1.0, 1.0]) @ m).tolist()
        [9.0, 0.0, 3.0]
        >>> m.dense().tolist()
        [[3.0, 0.0, 1.0], [6.0, 0.0, 2.0]]
    """

    left: Float[Tensor, "*batch row rank"]
    right: Float[Tensor, "*batch rank column"]

    __array_ufunc__ = None  # numpy then leaves a product with it to __rmatmul__

    @property
    def shape(self) -> torch.Size:
        """The shape of the matrix the factors stand for."""
        return torch.Size((*self.left.shape[:-1], self.right.shape[-1]))

    @property
    def rank(self) -> int:
        """How many numbers pass between the factors. The rank of the matrix is at most this."""
        return self.left.shape[-1]

    @property
    def T(self) -> "LowRank":
        """Rows and columns exchanged. Leading axes stay where they are."""
        return LowRank(self.right.mT, self.left.mT)

    def levelled(self) -> "LowRank":
        """A positive multiple of the matrix, in float64 and with factors of ordinary size.

        For shares and ratios, which do not depend on the size: no product of such factors
        overflows or vanishes.

        Examples:
            >>> import torch
            >>> m = LowRank(torch.tensor([[0.125], [0.25]]), torch.tensor([[0.0, -1024.0]]))
            >>> m.levelled().dense().tolist()
            [[0.0, -0.5], [0.0, -1.0]]
        """
        self._finite()
        left, right = self.left.double(), self.right.double()
        return LowRank(left / _size(left), right / _size(right))

    def dense(self) -> Float[Tensor, "*batch row column"]:
        """Multiply the factors out: the one place where the whole matrix is made."""
        return self.left @ self.right

    def __matmul__(self, other: "LowRank | Tensor") -> Any:
        """Multiply from the right: by a matrix or another LowRank, or by one vector.

        Leading axes broadcast as in ``torch.matmul``.

        Raises:
            ShapeError: If the sizes do not meet, or dtypes or devices differ.
        """
        if isinstance(other, LowRank):
            _meet(self, other, self.right, other.left)
            between = self.right @ other.left
            if self.rank <= other.rank:
                return _pair(self.left, between @ other.right)
            return _pair(self.left @ between, other.right)
        if not isinstance(other, Tensor):
            raise _no_tensor(other)
        _meet(self, other, self.right, other)
        if other.ndim == 1:
            return (self.left @ (self.right @ other)[..., None])[..., 0]
        return _pair(self.left, self.right @ other)

    def __rmatmul__(self, other: Tensor) -> Any:
        """Multiply from the left: by a matrix, or by one vector.

        Raises:
            ShapeError: If the sizes do not meet, or dtypes or devices differ.
        """
        if not isinstance(other, Tensor):
            raise _no_tensor(other)
        _meet(other, self, other, self.left)
        if other.ndim == 1:
            return ((other @ self.left)[..., None, :] @ self.right)[..., 0, :]
        return _pair(other @ self.left, self.right)

    def __getitem__(self, key: Any) -> Any:
        """Pick from the leading axes, or cut rows and columns, as one would index the matrix.

        A single row or column is a vector, a single entry a number; anything else is a LowRank.

        Raises:
            IndexError: If there is no such entry, or more indices than axes.
            TypeError: If an index is not a number, a slice or ``...``.
        """
        *leading, row, column = _spread(key, self.shape)
        left = self.left[(*leading, _run(row), slice(None))]
        right = self.right[(*leading, slice(None), _run(column))]
        if isinstance(row, slice) and isinstance(column, slice):
            return LowRank(left, right)
        entries = left @ right
        if not isinstance(column, slice):
            entries = entries[..., 0]
            return entries if isinstance(row, slice) else entries[..., 0]
        return entries[..., 0, :]

    def thin(self) -> Float[Tensor, "*batch rank column"]:
        """The matrix turned so that its columns need only ``rank`` numbers each, in place of row.

        Lengths of the columns and the angles between them stay the same, so norm, singular values
        and right singular directions do too. It is R times ``right``, where ``left`` = Q R.

        Raises:
            ValueError: If an entry is NaN or infinite.
        """
        return self._turned().to(self.left.dtype)

    def norm(self) -> Float[Tensor, "*batch"]:
        """The Frobenius norm: the root of the sum of all squared entries, none of them formed.

        Gradients flow where ``left`` has full rank. A norm beyond the range of the dtype is 0 or
        infinite; shares of norms are not, see :func:`tinyattn.composition`.

        Raises:
            ValueError: If an entry is NaN or infinite.

        Examples:
            >>> import torch
            >>> LowRank(torch.tensor([[3.0], [4.0]]), torch.tensor([[0.0, 2.0]])).norm().item()
            10.0
        """
        turned = self._turned()
        size = _size(turned)  # a square soon leaves the range of numbers
        found = torch.linalg.matrix_norm(turned / size, keepdim=True) * size
        return found[..., 0, 0].to(self.left.dtype)

    def trace(self) -> Float[Tensor, "*batch"]:
        """The sum of the diagonal, which is also the sum of the eigenvalues.

        Raises:
            ShapeError: If the matrix is not square.
            ValueError: If an entry is NaN or infinite.

        Examples:
            >>> import torch
            >>> LowRank(torch.tensor([[1.0], [2.0]]), torch.tensor([[3.0, 4.0]])).trace().item()
            11.0
        """
        self._square("trace")
        self._finite()
        diagonal = self.left.double() * self.right.mT.double()
        return diagonal.sum(dim=(-2, -1)).to(self.left.dtype)

    def eigenvalues(self) -> Complex[Tensor, "*batch rank"]:
        """The eigenvalues that can differ from 0: as many as the rank, always complex.

        The largest magnitude comes first; a conjugate pair stays together, the positive imaginary
        part first. The remaining row − rank eigenvalues are 0.

        ``left @ right`` and ``right @ left`` share their non-zero eigenvalues, and the second is
        only [rank, rank]. Here ``left`` is made orthonormal first, which keeps a badly scaled
        pair of factors as accurate as their product.

        Raises:
            ShapeError: If the matrix is not square.
            ValueError: If an entry is NaN or infinite.

        Examples:
            >>> import torch
            >>> turn = LowRank(torch.tensor([[0.0, 1.0], [-1.0, 0.0]]), torch.eye(2))
            >>> turn.eigenvalues().tolist()
            [1j, -1j]

        Source: Elhage et al. (2021), "Summarizing OV/QK Matrices".
        """
        self._square("eigenvalues")
        self._finite()
        Q, R = torch.linalg.qr(self.left.double())
        values = torch.linalg.eigvals(R @ self.right.double() @ Q)
        # Squares, not abs(): its last bit may differ between the two of a pair and part them.
        size = torch.view_as_real(values.detach()).square().sum(dim=-1)
        order = size.argsort(dim=-1, descending=True, stable=True)
        return values.gather(-1, order).to(_complex(self.left.dtype))

    def svd(self) -> SVD:
        """The singular directions that can differ from 0: as many as the rank.

        A pair of directions may change sign together. Here the largest entry of each row of
        ``Vh`` is positive. Directions of equal singular values are not determined beyond the
        plane they span.

        Raises:
            ValueError: If an entry is NaN or infinite.

        Examples:
            >>> import torch
            >>> U, S, Vh = LowRank(torch.tensor([[0.0], [-3.0]]), torch.tensor([[2.0, 0.0]])).svd()
            >>> U.tolist(), S.tolist(), Vh.tolist()
            ([[0.0], [-1.0]], [6.0], [[1.0, 0.0]])
        """
        self._finite()
        Q, R = torch.linalg.qr(self.left.double())
        P, L = torch.linalg.qr(self.right.double().mT)
        u, S, vh = torch.linalg.svd(R @ L.mT, full_matrices=False)
        U, Vh = Q @ u, vh @ P.mT
        if Vh.shape[-1]:
            peak = Vh.gather(-1, Vh.detach().abs().argmax(dim=-1, keepdim=True))
            sign = torch.where(peak < 0, -1.0, 1.0).to(Vh.dtype)
            U, Vh = U * sign.mT, Vh * sign
        return SVD(*(part.to(self.left.dtype) for part in (U, S, Vh)))

    def __repr__(self) -> str:
        dtype = describe(self.left).partition("[")[0]
        return f"LowRank({dtype}{list(self.shape)}, rank {self.rank})"

    def _turned(self) -> Tensor:
        """What :meth:`thin` returns, in float64."""
        self._finite()
        mode = "reduced" if self.left.requires_grad else "r"  # the second has no gradient
        return torch.linalg.qr(self.left.double(), mode=mode).R @ self.right.double()

    def _square(self, method: str) -> None:
        row, column = self.shape[-2:]
        if row != column:
            raise ShapeError(
                f"LowRank.{method}: the matrix is {row} × {column}, but only a square one has "
                f"{'a trace' if method == 'trace' else method}: use svd() or norm()"
            )

    def _finite(self) -> None:
        for name, factor in (("left", self.left), ("right", self.right)):
            if not inspectable(factor) or factor.sum().isfinite():
                continue  # a finite sum has finite terms, and is found ten times faster
            if not factor.isfinite().all():
                place = (~factor.isfinite()).nonzero()[0].tolist()
                raise ValueError(
                    f"LowRank: {name}{place} is {factor[tuple(place)].item()} in "
                    f"{describe(factor)}: make every entry finite"
                )


def _pair(left: Tensor, right: Tensor) -> LowRank:
    """Give both factors the same leading axes; a repeated one is a view."""
    batch = torch.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    return LowRank(left.expand(*batch, *left.shape[-2:]), right.expand(*batch, *right.shape[-2:]))


def _size(matrix: Tensor) -> Tensor:
    """A power of two near the largest entry, by which to divide costs no digit; 1 for zeros."""
    if not matrix.numel():
        return matrix.new_ones(())
    most = matrix.detach().abs().amax(dim=(-2, -1), keepdim=True)
    return torch.where(most == 0, 1.0, most.log2().floor().exp2())


def _no_tensor(other: object) -> ShapeError:
    return ShapeError(
        f"LowRank: the other side of @ is a {type(other).__name__}, but must be a tensor or a "
        f"LowRank: torch.tensor(…)"
    )


def _complex(dtype: torch.dtype) -> torch.dtype:
    return torch.complex128 if dtype == torch.float64 else torch.complex64


def _meet(first: Any, second: Any, one: Tensor, other: Tensor) -> None:
    """Check that two things can be multiplied; ``one`` and ``other`` are the factors that touch."""
    said = [describe(t) if isinstance(t, Tensor) else repr(t) for t in (first, second)]
    are = f"LowRank: {said[0]} @ {said[1]}:"
    if one.device != other.device:
        raise ShapeError(f"{are} one is on {one.device}, one on {other.device}: move one")
    if one.dtype != other.dtype:
        wanted = one.dtype if one.is_floating_point() else other.dtype
        raise ShapeError(f"{are} the dtypes differ: convert one, .to({wanted})")
    if one.ndim == 0 or other.ndim == 0:
        raise ShapeError(f"{are} a number has no axes to multiply along: scale a factor instead")
    columns, rows = one.shape[-1], other.shape[0 if other.ndim == 1 else -2]
    if columns != rows:
        turned = second.shape[-1] == columns and len(second.shape) > 1
        remedy = "transpose the second" if turned else "both must have the same width"
        raise ShapeError(f"{are} {columns} columns meet {rows} rows: {remedy}")
    try:
        torch.broadcast_shapes(first.shape[:-2], second.shape[:-2])
    except RuntimeError:
        raise ShapeError(
            f"{are} leading axes {list(first.shape[:-2])} and {list(second.shape[:-2])} do not "
            f"pair up: make them equal, or 1"
        ) from None


def _spread(key: Any, shape: torch.Size) -> list[Any]:
    """One index for each axis, with ``...`` filled in and every number in range."""
    given = list(key) if isinstance(key, tuple) else [key]
    for index in given:
        if isinstance(index, bool) or not isinstance(index, int | slice | type(...)):
            raise TypeError(
                f"LowRank: cannot index with {type(index).__name__}: use numbers, slices and ..., "
                f"or index the factors, LowRank(m.left[rows], m.right)"
            )
        if isinstance(index, slice) and index.step is not None and index.step < 1:
            raise IndexError(
                f"LowRank: a slice goes by {index.step}, but can only go forwards: flip a factor, "
                f"LowRank(m.left.flip(-2), m.right)"
            )
    gaps = [place for place, index in enumerate(given) if index is ...]
    missing = len(shape) - len(given) + bool(gaps)
    if missing < 0 or len(gaps) > 1:
        raise IndexError(
            f"LowRank: {len(given)} indices for the {len(shape)} axes of {list(shape)}: "
            f"give at most one for each, and ... at most once"
        )
    gap = gaps[0] if gaps else len(given)
    full = [*given[:gap], *[slice(None)] * missing, *given[gap + 1 :]]
    for axis, (index, size) in enumerate(zip(full, shape, strict=True)):
        if isinstance(index, int) and not -size <= index < size:
            raise IndexError(
                f"LowRank: no entry {index} on axis {axis} of {list(shape)}, which has {size}: "
                f"use {-size} to {size - 1}"
            )
    return full


def _run(index: int | slice) -> slice:
    """A single row or column as a run of one, so that its axis stays until the product."""
    return index if isinstance(index, slice) else slice(index, index + 1 or None)
