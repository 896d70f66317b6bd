"""LowRank says what the dense matrix says, for every shape, and never makes it on its own."""

import pytest
import torch
from draws import batches, normal, sizes, tensors
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from tinyattn.circuits import composition, compositions, copying
from tinyattn.lowrank import SVD, LowRank
from tinyattn.shapes import ShapeError

LEADING = [(), (1,), (1, 1), (2, 3)]


@st.composite
def low_ranks(draw, row=sizes, column=sizes, batch=batches) -> LowRank:
    batch, row, rank, column = draw(batch), draw(row), draw(st.integers(0, 6)), draw(column)
    return LowRank(draw(tensors(*batch, row, rank)), draw(tensors(*batch, rank, column)))


@st.composite
def squares(draw) -> LowRank:
    size = st.just(draw(sizes))
    return draw(low_ranks(size, size))


def alike(m: LowRank, dense: Tensor) -> None:
    assert isinstance(m, LowRank)
    assert m.shape == dense.shape
    assert_close(m.dense(), dense)


@given(low_ranks())
def test_shape_rank_and_transpose_are_those_of_the_product(m):
    dense = m.left @ m.right
    alike(m, dense)
    alike(m.T, dense.mT)
    assert m.T.rank == m.rank == m.left.shape[-1]


@given(low_ranks(), st.data(), sizes)
def test_products_are_those_of_the_dense_matrix(m, data, size):
    *batch, row, column = m.shape
    dense, v, w = m.dense(), data.draw(tensors(row)), data.draw(tensors(column))
    assert_close(v @ m, v @ dense)
    assert_close(m @ w, dense @ w)
    before, after = data.draw(tensors(*batch, size, row)), data.draw(tensors(column, size))
    alike(before @ m, before @ dense)
    alike(m @ after, dense @ after)


@given(low_ranks(), st.data())
def test_two_low_ranks_multiply_to_one_of_the_smaller_rank(m, data):
    *batch, _, column = m.shape
    other = data.draw(low_ranks(row=st.just(column), batch=st.sampled_from([(), tuple(batch)])))
    product = m @ other
    alike(product, m.dense() @ other.dense())
    assert product.rank == min(m.rank, other.rank)


def test_leading_axes_broadcast_as_in_matmul():
    first = LowRank(normal(0, 3, 1, 4, 2), normal(1, 3, 1, 2, 5))
    second = LowRank(normal(2, 6, 5, 1), normal(3, 6, 1, 4))
    alike(first @ second, first.dense() @ second.dense())
    assert (first @ second).shape == (3, 6, 4, 4)


@given(low_ranks(batch=st.just((2, 3))), st.data())
def test_an_index_means_what_it_means_for_the_dense_matrix(m, data):
    def index(size: int):
        number = st.integers(-size, size - 1)
        return st.one_of(number, st.slices(size).filter(lambda cut: (cut.step or 1) > 0))

    places = [data.draw(index(size)) for size in m.shape]
    kept = data.draw(st.integers(0, 4))
    front = data.draw(st.booleans())
    key = (*places[:kept], ...) if front else (..., *places[4 - kept :])
    picked, dense = m[key], m.dense()[key]
    if isinstance(picked, LowRank):
        alike(picked, dense)
    else:
        assert_close(picked, dense)
    assert_close(m[1].dense(), m.dense()[1])


@given(low_ranks())
def test_the_norm_is_that_of_the_dense_matrix(m):
    assert_close(m.norm(), torch.linalg.matrix_norm(m.dense()))
    assert_close(torch.linalg.matrix_norm(m.thin()), m.norm())
    assert_close(m.thin().mT @ m.thin(), m.dense().mT @ m.dense())


@given(squares())
def test_the_trace_is_that_of_the_dense_matrix_and_of_the_eigenvalues(m):
    trace = m.dense().diagonal(dim1=-2, dim2=-1).sum(dim=-1)
    assert_close(m.trace(), trace)
    assert_close(m.eigenvalues().sum(dim=-1), trace.to(torch.complex128))


@given(squares())
def test_eigenvalues_solve_the_dense_matrix_in_the_order_promised(m):
    values, size = m.eigenvalues(), m.shape[-1]
    assert values.is_complex()
    assert values.shape == (*m.shape[:-2], min(m.rank, size))
    # The power sums fix a set of numbers, multiplicities included, whatever their order.
    power = torch.eye(size, dtype=m.left.dtype)
    for exponent in range(1, size + 1):
        power = power @ m.dense()
        scale = 1 + values.abs().pow(exponent).sum(dim=-1)
        trace = power.diagonal(dim1=-2, dim2=-1).sum(dim=-1)
        assert_close(values.pow(exponent).sum(dim=-1) / scale, trace / scale + 0j)
    sizes = values.abs()
    assert (sizes[..., 1:] <= sizes[..., :-1] * (1 + 1e-12)).all()
    for row in values.flatten(0, -2).tolist() if values.ndim > 1 else [values.tolist()]:
        _pairs_stay_together(row)


def _pairs_stay_together(values: list[complex]) -> None:
    place = 0
    while place < len(values):
        if values[place].imag:
            assert values[place].imag > 0
            assert values[place + 1] == values[place].conjugate()
            place += 1
        place += 1


@pytest.mark.parametrize("size", [8, 33, 64])
def test_pairs_stay_together_in_float32(size):
    """A vectorised magnitude may differ in its last bit between the two of a pair."""
    m = LowRank(normal(0, 50, 100, size).float(), normal(1, 50, size, 100).float())
    for row in m.eigenvalues().tolist():
        _pairs_stay_together(row)


@given(low_ranks())
def test_the_parts_of_the_svd_rebuild_the_matrix_as_documented(m):
    U, S, Vh = m.svd()
    assert_close(U @ torch.diag_embed(S) @ Vh, m.dense())
    assert S.shape[-1] == min(m.rank, *m.shape[-2:])
    eye = torch.eye(S.shape[-1], dtype=S.dtype).expand(*m.shape[:-2], -1, -1)
    assert_close(U.mT @ U, eye)
    assert_close(Vh @ Vh.mT, eye)
    assert (S.diff(dim=-1) <= 0).all()
    assert_close(S, torch.linalg.svdvals(m.dense())[..., : S.shape[-1]])
    if S.shape[-1]:
        assert (Vh.gather(-1, Vh.abs().argmax(dim=-1, keepdim=True)) > 0).all()


def _gauge(seed: int, rank: int) -> Tensor:
    """Directions mixed at random and stretched over four orders of magnitude."""
    Q, P = torch.linalg.qr(normal(seed, 2, rank, rank)).Q
    return Q @ torch.diag(torch.logspace(-2, 2, rank, dtype=torch.float64)) @ P


@pytest.mark.parametrize("stretched", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_float32_is_as_good_as_dense(seed, stretched):
    """Both are compared with float64; badly scaled factors are where short cuts lose."""
    M = _gauge(seed, 8) if stretched else torch.eye(8, dtype=torch.float64)
    left = (normal(seed, 64, 8) @ M).float()
    right = torch.linalg.solve(M, normal(seed + 1, 8, 64)).float()
    m, exact = LowRank(left, right), left.double() @ right.double()
    product = left @ right

    def off(ours, dense, truth):
        ours, dense = ((t - truth).abs().max().item() for t in (ours, dense))
        assert ours <= 3 * dense + 1e-6 * truth.abs().max().item(), (ours, dense)

    matrix_norm, svdvals = torch.linalg.matrix_norm, torch.linalg.svdvals
    off(m.norm(), matrix_norm(product), matrix_norm(exact))
    off(m.trace(), product.trace(), exact.trace())
    off(m.svd().S, svdvals(product)[:8], svdvals(exact)[:8])
    U, S, Vh = m.svd()
    off(U @ S.diag() @ Vh, product, exact)
    truth = LowRank(left.double(), right.double()).eigenvalues()
    dense = torch.linalg.eigvals(product)
    off(_nearest(m.eigenvalues(), truth), _nearest(dense, truth), truth)


def _nearest(values: Tensor, truth: Tensor) -> Tensor:
    """For each true value the one that is nearest to it."""
    return values[(values[:, None] - truth).abs().argmin(dim=0)].to(truth.dtype)


def test_the_norm_does_not_cancel():
    """Gram matrices subtract large squares here and lose every digit; a turn does not."""
    left = torch.tensor([[1.0, 1.0], [0.0, 1e-4]])
    right = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    m = LowRank(left, right)
    assert m.norm().item() == pytest.approx(1e-4, rel=1e-3)


def test_trace_and_eigenvalues_are_cyclic_and_the_norm_is_not():
    """D1: a Frobenius norm taken of the factors in a turned order is another number."""
    A, B, C, D = normal(3, 4, 6, 6)
    one, turned = LowRank(A @ B, C @ D), LowRank(D @ A, B @ C)
    assert_close(one.trace(), turned.trace())
    assert_close(one.eigenvalues(), turned.eigenvalues())
    assert (one.norm() / turned.norm() - 1).abs() > 0.1
    right = torch.trace((B @ C @ D) @ (B @ C @ D).T @ A.T @ A).sqrt()
    assert_close(one.norm(), right)


def test_it_never_forms_the_product():
    """A million rows and columns: the matrix would need eight terabytes."""
    n = 1_000_000
    ones = torch.ones(n, 2, dtype=torch.float64)
    m = LowRank(ones, ones.T * 1e-6)
    assert m.trace().item() == pytest.approx(2.0)
    assert m.norm().item() == pytest.approx(2.0)
    assert m.eigenvalues().abs().tolist() == pytest.approx([2.0, 0.0], abs=1e-5)
    assert (m @ m).trace().item() == pytest.approx(4.0)
    assert m[5, 7].item() == pytest.approx(2e-6)
    assert m.svd().S[0].item() == pytest.approx(2.0)
    assert m.T[:3, :4].dense().shape == (3, 4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_dtype_that_goes_in_comes_out(dtype):
    m = LowRank(normal(0, 4, 2).to(dtype), normal(1, 2, 4).to(dtype))
    kept = [m.dense(), m @ normal(2, 4).to(dtype), m.norm(), m.trace(), *m.svd(), (m @ m).left]
    assert {t.dtype for t in kept} == {dtype}
    assert m.eigenvalues().is_complex()


def test_gradients_are_right():
    factors = [normal(0, 4, 2).requires_grad_(), normal(1, 2, 4).requires_grad_()]
    assert torch.autograd.gradcheck(lambda A, B: LowRank(A, B).norm(), factors)
    assert torch.autograd.gradcheck(lambda A, B: LowRank(A, B).svd().S, factors)
    assert torch.autograd.gradcheck(lambda A, B: LowRank(A, B).eigenvalues().abs(), factors)


def test_it_changes_no_argument():
    left, right = normal(0, 3, 2), normal(1, 2, 3)
    kept = left.clone(), right.clone()
    m = LowRank(left, right)
    m.svd(), m.eigenvalues(), m.norm(), m @ m, m[0]
    assert torch.equal(left, kept[0])
    assert torch.equal(right, kept[1])


def test_it_runs_on_meta_and_stays_there():
    m = LowRank(torch.empty(4, 2, device="meta"), torch.empty(2, 4, device="meta"))
    assert m.norm().is_meta
    assert m.svd().U.shape == (4, 2)


def test_b1_a_vector_times_a_factored_matrix_gains_no_axis():
    """It had shape [1, 4] where [4] was meant."""
    for heads in [(), (5,)]:
        A, B = normal(0, *heads, 2, 3), normal(1, *heads, 3, 4)
        v, w, m = normal(2, 2), normal(3, 4), LowRank(A, B)
        assert (v @ m).shape == (*heads, 4)
        assert (m @ w).shape == (*heads, 2)
        assert_close(v @ m, v @ (A @ B))
        assert_close(m @ w, A @ B @ w)


@pytest.mark.parametrize("leading", LEADING)
def test_b2_the_svd_says_which_part_is_transposed(leading):
    """A variable named Vh held V, and leading axes of size 1 broke."""
    m = LowRank(normal(0, *leading, 6, 2).float(), normal(1, *leading, 2, 5).float())
    U, S, Vh = svd = m.svd()
    assert isinstance(svd, SVD)
    assert (U @ torch.diag_embed(S) @ Vh - m.dense()).abs().max() < 1e-4
    assert U.shape == (*leading, 6, 2)
    assert S.shape == (*leading, 2)
    assert Vh.shape == (*leading, 2, 5)
    eye = torch.eye(2).expand(*leading, 2, 2)
    assert_close(U.mT @ U, eye)
    assert_close(Vh @ Vh.mT, eye)
    assert (S.diff(dim=-1) <= 0).all()


def test_b27_eigenvalues_are_complex_and_as_many_as_the_rank():
    """Most eigenvalues of the product are 0; a short cut must give the others, as a set."""
    A, B = normal(0, 16, 4), normal(1, 4, 16)
    values = LowRank(A, B).eigenvalues()
    dense = torch.linalg.eigvals(A @ B)
    assert values.dtype == torch.complex128
    assert values.shape == (4,)
    assert (dense.abs() > 1e-6).sum() == 4
    assert (values[:, None] - torch.linalg.eigvals(B @ A)).abs().min(dim=0).values.max() < 1e-3
    assert (values[:, None] - dense).abs().min(dim=1).values.max() < 1e-3
    assert values.imag.any(), "the probe has a pair"
    total = values.sum()
    assert abs(total.imag.item()) < 1e-12
    assert_close(total.real, torch.trace(A @ B))


def test_f5_one_head_out_of_all_of_them():
    """Only the whole model's circuits could be had, dense."""
    m = LowRank(normal(0, 2, 3, 8, 2), normal(1, 2, 3, 2, 8))
    head = m[1, 2]
    assert isinstance(head, LowRank)
    assert head.left.data_ptr() == m.left[1, 2].data_ptr(), "a view, nothing copied"
    assert_close(m[-1, -1].dense(), head.dense())
    with pytest.raises(IndexError, match=r"no entry 3 on axis 1 of \[2, 3, 8, 8\], which has 3"):
        m[1, 3]
    with pytest.raises(IndexError, match="use -2 to 1"):
        m[-3]


def test_what_does_not_fit_is_named_with_both_sizes():
    m = LowRank(torch.ones(2, 3), torch.ones(3, 4))
    with pytest.raises(ShapeError, match=r"right is float32\[4, 4\].* rank = 3, as left is float"):
        LowRank(torch.ones(2, 3), torch.ones(4, 4))
    with pytest.raises(ShapeError, match=r"right is float32\[5, 3, 4\].*\*batch = \[2\]"):
        LowRank(torch.ones(2, 2, 3), torch.ones(5, 3, 4))
    with pytest.raises(ShapeError, match="convert one"):
        LowRank(torch.ones(2, 3), torch.ones(3, 4).double())
    with pytest.raises(ShapeError, match="4 columns meet 2 rows: transpose the second"):
        m @ LowRank(torch.ones(2, 1), torch.ones(1, 4))
    with pytest.raises(ShapeError, match=r"float32\[3\] @ LowRank.*3 columns meet 2 rows"):
        torch.ones(3) @ m
    with pytest.raises(ShapeError, match="4 columns meet 5 rows"):
        m @ torch.ones(5)
    with pytest.raises(ShapeError, match="dtypes differ: convert one"):
        m @ torch.ones(4).double()
    with pytest.raises(ShapeError, match="one is on cpu, one on meta"):
        m @ torch.ones(4, device="meta")
    with pytest.raises(ShapeError, match="a number has no axes"):
        m @ torch.tensor(2.0)
    with pytest.raises(ShapeError, match=r"leading axes \[3\] and \[2\] do not pair up"):
        LowRank(torch.ones(3, 4, 1), torch.ones(3, 1, 4)) @ torch.ones(2, 4, 4)
    for ask in (m.trace, m.eigenvalues):
        with pytest.raises(ShapeError, match="the matrix is 2 × 4, but only a square one"):
            ask()
    with pytest.raises(ShapeError, match="the other side of @ is a int, but must be a tensor"):
        m @ 2


def test_an_index_that_could_mean_two_things_is_refused():
    m = LowRank(torch.ones(2, 3), torch.ones(3, 4))
    for strange in ([0, 1], torch.tensor([0]), None, True, 0.5):
        with pytest.raises(TypeError, match="use numbers, slices and"):
            m[strange]
    for too_many in ((0, 0, 0), (..., 0, ...)):
        with pytest.raises(IndexError, match="at most one for each"):
            m[too_many]


@pytest.mark.parametrize("wild", [torch.nan, torch.inf])
def test_a_wild_number_is_named_before_it_spreads(wild):
    right = torch.ones(2, 3)
    right[1, 2] = wild
    m = LowRank(torch.ones(3, 2), right)
    for ask in (m.norm, m.svd, m.eigenvalues):
        with pytest.raises(ValueError, match=r"right\[1, 2\] is (nan|inf) in float32\[2, 3\]"):
            ask()


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e-100, 1e100, 1e150, 1e300])
def test_a_share_does_not_depend_on_the_size(size: float) -> None:
    """Not even where entries of the matrix, or their squares, leave the range of numbers."""
    draw = torch.Generator().manual_seed(0)
    left = torch.randn(2, 2, 6, 2, generator=draw, dtype=torch.float64)
    right = torch.randn(2, 2, 2, 6, generator=draw, dtype=torch.float64)
    m, scaled = LowRank(left, right), LowRank(size * left, right * size)
    for kind in ("Q", "K", "V"):
        assert_close(compositions(scaled, scaled, kind), compositions(m, m, kind))
        pair = composition(scaled[0, 0], scaled[1, 1], kind)
        assert_close(pair, composition(m[0, 0], m[1, 1], kind))
    assert_close(copying(scaled), copying(m))
    one = LowRank(size * left, right)
    assert_close(one.norm(), size * m.norm(), rtol=1e-12, atol=0)
