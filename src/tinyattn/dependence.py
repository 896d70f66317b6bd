"""What waits for what, found by trying the code and not by trusting a drawing of it.

A dependence is a boolean matrix [to, from]: True where the output at position ``to`` needs the
input at position ``from``. Levels are functions one after another, each with a matrix of its own.
The longest chain of values that wait for each other is what cannot be computed side by side.
"""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tinyattn.shapes import ShapeError, describe, inspectable, typed

_SCALES = (1.0, 1.0, 0.1, 0.1, 0.01)


@typed
def depends(
    function: Callable[[Tensor], Tensor], x: Float[Tensor, "pos d_model"], seed: int = 0
) -> Bool[Tensor, "to from"]:
    """Find which output positions change with which input positions, by trying the function.

    It is tried at ``x`` and at random points of several sizes, so that a saturated softmax or a
    unit that is off at one point hides nothing. At each point two signs count: a gradient that is
    not 0, and an output that moves when one input row is replaced. The second finds hard choices,
    such as an argmax, which have no gradient.

    Args:
        function: From [pos, d] to [pos, d]; the two may differ in both sizes.
        x: A point to start from. It is left as it is.
        seed: Of the random points.

    Raises:
        ShapeError: If ``x`` is empty, or the function returns no floating-point matrix.
        ValueError: If ``x`` is not finite or has no values, if the function answers with NaN at
            every point, or gives two answers for one input.

    Examples:
        >>> import torch
        >>> from tinyattn import depends
        >>> depends(lambda x: x.cumsum(dim=0), torch.zeros(3, 2)).int().tolist()
        [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    if not inspectable(x) or not x.isfinite().all():
        raise ValueError(
            f"depends: x is {describe(x)} and has NaN, an infinity or no values at all: give "
            f"finite numbers to start from"
        )
    if not x.numel():
        raise ShapeError(f"depends: x is {describe(x)}: give at least one position and one entry")
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, device="cpu").to(x)

    first = _answer(function, x)
    found = torch.zeros(first.shape[0], x.shape[0], dtype=torch.bool, device=x.device)
    if not first.numel():
        return found
    tried = 0
    for point in (x, *(scale * normal(*x.shape) for scale in _SCALES)):
        y = _answer(function, point)
        if not torch.equal(y.nan_to_num(), _answer(function, point).nan_to_num()):
            raise ValueError(
                "depends: the function gives two answers for one input: take the chance out of it "
                "(a module needs .eval(), to stop its dropout)"
            )
        if not y.isfinite().all():
            continue
        slopes = _slopes(function, point, normal(*y.shape))
        if not slopes.isfinite().all():
            continue
        tried += 1
        found |= slopes != 0
        size = y.abs().amax() + torch.finfo(y.dtype).tiny
        for j in range(x.shape[0]):
            other = point.clone()
            other[j] = normal(x.shape[1]) * (point.abs().amax() + 1)
            moved = (_answer(function, other) - y).abs().nan_to_num().sum(dim=-1)
            found[:, j] |= moved > 1e3 * torch.finfo(y.dtype).eps * size
    if not tried:
        raise ValueError(
            "depends: the function has no finite answer and gradient at any point that was tried: "
            "look for NaN in its weights"
        )
    return found


@typed
def reach(edges: Sequence[Tensor]) -> Bool[Tensor, "to from"]:
    """Compose levels: which positions of the last level depend on which of the first.

    A way from ``from`` to ``to`` through any positions in between is enough.

    Args:
        edges: From each level to the next, bool [to, from].

    Raises:
        ShapeError: If a level is no boolean matrix, or does not fit the one before it.
        ValueError: If there is no level.

    Examples:
        >>> import torch
        >>> from tinyattn import reach
        >>> neighbour = torch.tensor([[1, 0, 0], [1, 1, 0], [0, 1, 1]]).bool()
        >>> reach([neighbour, neighbour]).int().tolist()
        [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    _check("reach", edges)
    whole = edges[0].int()
    for needs in edges[1:]:
        whole = (needs.int() @ whole).clamp(max=1)
    return whole.bool()


@typed
def generation(pos: int, prompt: int = 1) -> Bool[Tensor, "to from"]:
    """Which inputs are made of which outputs when a model writes on: each of the one before it.

    Args:
        pos: How many positions there are in the end.
        prompt: How many of them are given at the start.

    Raises:
        ValueError: If the prompt is empty, or longer than the whole.

    Examples:
        >>> from tinyattn import generation
        >>> generation(3).int().tolist()
        [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    """
    if not 1 <= prompt <= pos:
        raise ValueError(
            f"generation: prompt is {prompt} of pos = {pos} positions: use 1 ≤ prompt ≤ pos, "
            f"since the first token is made of nothing"
        )
    made = torch.zeros(pos, pos, dtype=torch.bool)
    for to in range(prompt, pos):
        made[to, to - 1] = True
    return made


@typed
def earliest(
    edges: Sequence[Tensor], feedback: Bool[Tensor, "to from"] | None = None
) -> Int[Tensor, "level pos"]:
    """The first step at which each value can be computed, if nothing waits that need not.

    Values of one number can be computed side by side. What is given has number 0.

    Args:
        edges: From each level to the next, bool [to, from].
        feedback: Which inputs are made of which outputs, as :func:`generation` returns.

    Raises:
        ShapeError: If the levels differ in the number of positions.
        ValueError: If there is no level, or if a value waits for itself.

    Examples:
        >>> from tinyattn import causal_mask, earliest, generation
        >>> earliest([causal_mask(3), causal_mask(3)]).tolist()
        [[0, 0, 0], [1, 1, 1], [2, 2, 2]]
        >>> earliest([causal_mask(3), causal_mask(3)], generation(3)).tolist()
        [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    """
    needs = _needs("earliest", edges, feedback)
    when: dict[tuple[int, int], int] = {}
    waiting = dict(needs)
    while waiting:
        ready = [node for node, above in waiting.items() if all(one in when for one in above)]
        if not ready:
            level, pos = min(waiting)
            raise ValueError(
                f"earliest: the value of position {pos} at level {level} waits for itself, by way "
                f"of an output that becomes an input: hide the future from every level, "
                f"causal_mask({edges[0].shape[0]})"
            )
        for node in ready:
            when[node] = max((when[one] + 1 for one in waiting.pop(node)), default=0)
    n_pos = edges[0].shape[0]
    return torch.tensor(
        [[when[level, pos] for pos in range(n_pos)] for level in range(len(edges) + 1)],
        device=edges[0].device,
    )


@typed
def critical_path(
    edges: Sequence[Tensor], feedback: Bool[Tensor, "to from"] | None = None
) -> list[tuple[int, int]]:
    """The longest chain of values that wait for each other, as (level, position) in order.

    Its steps, one fewer than its values, are the least number of steps in which everything can be
    computed, whatever the number of machines. Among chains of one length the one that ends last
    and stays at its position is returned.

    Args:
        edges: From each level to the next, bool [to, from].
        feedback: Which inputs are made of which outputs, as :func:`generation` returns.

    Raises:
        ShapeError: If the levels differ in the number of positions.
        ValueError: If there is no level, or if a value waits for itself.

    Examples:
        >>> from tinyattn import causal_mask, critical_path, generation
        >>> critical_path([causal_mask(2)])
        [(0, 1), (1, 1)]
        >>> critical_path([causal_mask(2)], generation(2))
        [(0, 0), (1, 0), (0, 1), (1, 1)]
    """
    when = earliest(edges, feedback).tolist()
    needs = _needs("critical_path", edges, feedback)
    node = max(needs, key=lambda node: (when[node[0]][node[1]], node[1], node[0]))
    path = [node]
    while needs[node]:
        here = node[1]
        node = max(needs[node], key=lambda one: (when[one[0]][one[1]], one[1] == here, one[1]))
        path.append(node)
    return path[::-1]


def _answer(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Call the function on a copy, and refuse what is not one row for each position."""
    with torch.no_grad():
        y = function(x.clone())
    if not isinstance(y, Tensor) or y.ndim != 2 or not y.is_floating_point():
        what = describe(y) if isinstance(y, Tensor) else f"a {type(y).__name__}"
        raise ShapeError(
            f"depends: the function returns {what} for {describe(x)}, but must return floating "
            f"point [pos, d], a row for each position"
        )
    return y.detach()


def _slopes(function: Callable[[Tensor], Tensor], x: Tensor, direction: Tensor) -> Tensor:
    """How each output row moves, along a direction of its own, with each input row: [to, from]."""
    with torch.enable_grad():
        x = x.clone().requires_grad_()
        y = function(x.clone())  # no leaf, so that a function may write into it
        reads = (y * direction).sum(dim=-1)
        if not y.requires_grad:
            return x.new_zeros(y.shape[0], x.shape[0])
        rows = [
            torch.autograd.grad(read, x, retain_graph=True, materialize_grads=True)[0]
            for read in reads
        ]
    return torch.stack([row.abs().sum(dim=-1) for row in rows])


def _check(function: str, edges: Sequence[Tensor]) -> None:
    if not edges:
        raise ValueError(f"{function}: edges is empty: give at least one matrix [to, from]")
    for level, needs in enumerate(edges):
        if not isinstance(needs, Tensor) or needs.ndim != 2 or needs.dtype != torch.bool:
            what = describe(needs) if isinstance(needs, Tensor) else f"a {type(needs).__name__}"
            raise ShapeError(
                f"{function}: edges[{level}] is {what}, but must be bool [to, from], True where "
                f"the value needs the other"
            )
        if level and needs.shape[1] != edges[level - 1].shape[0]:
            raise ShapeError(
                f"{function}: edges[{level}] is {describe(needs)} and reads {needs.shape[1]} "
                f"positions, but edges[{level - 1}] is {describe(edges[level - 1])} and makes "
                f"{edges[level - 1].shape[0]}: [to, from] of one level must fit the one before"
            )


def _needs(
    function: str, edges: Sequence[Tensor], feedback: Tensor | None
) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """What each value (level, position) waits for."""
    _check(function, edges)
    for level, matrix in enumerate(edges):
        if not inspectable(matrix):
            raise ValueError(
                f"{function}: edges[{level}] is {describe(matrix)} on {matrix.device} and has no "
                f"values to follow: make it on a device such as 'cpu'"
            )
    n_pos = edges[0].shape[1]
    tied = [] if feedback is None else [("feedback", feedback)]
    for name, matrix in [*((f"edges[{i}]", needs) for i, needs in enumerate(edges)), *tied]:
        if matrix.shape != (n_pos, n_pos) or not n_pos:
            raise ShapeError(
                f"{function}: {name} is {describe(matrix)}, but every level must have the same "
                f"positions, [{n_pos}, {n_pos}], and at least one"
            )
    needs: dict[tuple[int, int], list[tuple[int, int]]] = {
        (level, pos): [] for level in range(len(edges) + 1) for pos in range(n_pos)
    }
    for level, matrix in enumerate(edges):
        for to, source in matrix.nonzero().tolist():
            needs[level + 1, to].append((level, source))
    if feedback is not None:
        for to, source in feedback.nonzero().tolist():
            needs[0, to].append((len(edges), source))
    return needs
