"""How much of what earlier matrices write later ones read: all pairs of a stack at once.

The share is ‖A B‖ / (‖A‖ ‖B‖), in Frobenius norms. Taken by itself, a pair costs a product of two
thin factors. But ‖A B‖² is also the sum of all entries of Aᵀ A times those of B Bᵀ. So every
matrix is squared once, and one product of the squares serves all pairs.

Such a sum cannot tell a small share from its own rounding: those pairs are taken by themselves.
"""

import itertools

import torch
from jaxtyping import Float
from torch import Tensor

from tinyattn.lowrank import LowRank
from tinyattn.shapes import inspectable, typed

ROWS = 48  # of every square, that are held at a time
SURE = 1 / 128  # of ‖Aᵀ A‖ ‖B Bᵀ‖: from there on float32 errs by some 1e-6 of a share


@typed
def shares_of_later(first: LowRank, second: LowRank) -> Float[Tensor, "layer head layer head"]:
    """Find how much of matrix ``first[i, g]`` the later ``second[j, h]`` reads, from 0 to 1.

    Both have leading axes [layer, head], and ``first @ second`` has a meaning. Entry [i, g, j, h]
    is 0 where j ≤ i, and where one of the two matrices is 0.

    Raises:
        ValueError: If an entry is NaN or infinite.

    Examples:
        >>> import torch
        >>> from tinyattn import LowRank
        >>> from tinyattn.pairs import shares_of_later
        >>> eye = torch.eye(4).expand(2, 1, 4, 4)
        >>> shares_of_later(LowRank(eye, eye), LowRank(eye, eye))[:, 0, :, 0].tolist()
        [[0.0, 0.5], [0.0, 0.0]]
    """
    layers, heads = first.shape[:2]
    # Turning its outer factor changes no norm: each matrix needs only rank rows.
    writes, reads = ([_unit(m[i]) for i in range(layers)] for m in (first, second.T))
    found = first.left.new_zeros(layers, heads, layers, heads)
    apart = 2 * first.rank * second.rank < first.shape[-1]  # then squares are the longer way
    traced = any(m.requires_grad or not inspectable(m) for m in (*writes, *reads))
    if apart or traced or layers < 2:
        for i, j in itertools.combinations(range(layers), 2):
            found[i, :, j] = _norms(writes[i], reads[j])
    else:
        later = torch.ones(layers - 1, layers - 1, dtype=torch.bool, device=found.device).triu()
        later = later.repeat_interleave(heads, 0).repeat_interleave(heads, 1)
        norms = _together(torch.cat(writes[:-1]), torch.cat(reads[1:]), later)
        found[:-1, :, 1:] = norms.view(layers - 1, heads, layers - 1, heads)
    return found.clamp(max=1.0)


def _unit(m: LowRank) -> Tensor:
    """Matrices of norm 1 with the directions of ``m`` and only rank rows; 0 stays 0."""
    thin = m.levelled().thin()
    norm = torch.linalg.matrix_norm(thin, keepdim=True)
    thin = thin / norm.masked_fill(norm == 0, 1.0)
    return thin.to(torch.promote_types(m.left.dtype, torch.float32))


def _norms(writes: Tensor, reads: Tensor) -> Tensor:
    """The norm of each of ``writes`` times each of ``reads`` transposed: [write read]."""
    blocks = writes.flatten(0, 1) @ reads.flatten(0, 1).mT
    blocks = blocks.view(*writes.shape[:2], *reads.shape[:2])
    return torch.linalg.vector_norm(blocks, dim=(1, 3))


def _together(writes: Tensor, reads: Tensor, wanted: Tensor) -> Tensor:
    """The same norms by way of the squares, where they are wanted, and 0 elsewhere."""
    total = writes.new_zeros(wanted.shape, dtype=torch.float64)
    for i in range(0, writes.shape[-1], ROWS):
        wrote, read = (m[..., i : i + ROWS].mT @ m[..., : i + ROWS] for m in (writes, reads))
        wrote[..., :i] *= 2  # left of the diagonal; a square is symmetric
        total += wrote.flatten(1) @ read.flatten(1).mT
    norms = (total.clamp(min=0).sqrt() * wanted).to(writes.dtype)
    wrote, read = (torch.linalg.matrix_norm(m @ m.mT) for m in (writes, reads))
    doubtful = wanted & (total < SURE * wrote[:, None] * read)
    for write, small in enumerate(doubtful):
        if small.any():
            norms[write, small] = _norms(writes[write : write + 1], reads[small])[0]
    return norms
