"""A table says what its rows and columns are, and prints the same on every machine."""

import math
import unicodedata
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tinyattn import ShapeError, causal_mask
from tinyattn.show import number, show, visible, width

TOKENS = ["The", "cat", "sat"]
NESTED: Any = [[1.0]]
PATTERN = torch.tensor([[1.0, 0.0, 0.0], [0.75, 0.25, 0.0], [0.2, 0.5, 0.3]])


def test_rows_and_columns_are_named():
    assert show(PATTERN, rows=TOKENS, columns=TOKENS) == (
        "      The   cat   sat\nThe  1.00  0.00  0.00\ncat  0.75  0.25  0.00\nsat  0.20  0.50  0.30"
    )


def test_without_labels_the_indices_stand_in():
    assert show(PATTERN[:2], digits=1) == "     0    1    2\n0  1.0  0.0  0.0\n1  0.8  0.2  0.0"


def test_a_vector_is_one_row_that_needs_no_name():
    assert show(PATTERN[1], columns=TOKENS) == " The   cat   sat\n0.75  0.25  0.00"
    assert show(PATTERN[1], ["cat"], TOKENS) == "      The   cat   sat\ncat  0.75  0.25  0.00"


def test_a_mask_says_who_may_look_at_whom():
    assert show(causal_mask(2), ["a", "b"], ["a", "b"]) == "     a    b\na  yes   no\nb  yes  yes"


def test_whole_numbers_keep_no_decimals():
    assert show(torch.arange(4).view(2, 2)) == "   0  1\n0  0  1\n1  2  3"


def test_no_scientific_notation_no_minus_zero_and_infinity_in_words():
    table = show(torch.tensor([[-1e-9, 1e9], [-math.inf, 1e-9]]))
    assert table == "      0              1\n0  0.00  1000000000.00\n1  -inf           0.00"


def test_complex_entries_keep_both_parts():
    assert show(torch.tensor([1 - 0.5j, -0.001 + 2j])) == (
        "         0           1\n1.00-0.50j  0.00+2.00j"
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_any_float_dtype_prints_alike(dtype):
    assert show(PATTERN.to(dtype)) == show(PATTERN)


def test_the_matrix_may_ask_for_gradients_and_stays_as_it_is():
    matrix = PATTERN.clone().requires_grad_()
    assert show(matrix) == show(PATTERN)
    assert torch.equal(matrix, PATTERN)


def test_no_rows_or_no_columns_leave_the_labels():
    assert show(torch.zeros(2, 0), rows=["a", "b"]) == "\na\nb"
    assert show(torch.zeros(0, 2), columns=["a", "b"]) == "a  b"


def test_print_options_do_not_matter():
    before = show(PATTERN)
    torch.set_printoptions(precision=7, sci_mode=True)
    try:
        assert show(PATTERN) == before
    finally:
        torch.set_printoptions(profile="default")


def test_wide_characters_line_up():
    table = show(PATTERN, rows=["猫", "👩‍👧", "cat"], columns=["❤️", "שלום", "猫猫猫"])
    lines = table.splitlines()
    assert len({width(line) for line in lines}) == 1
    assert lines[1] == "猫   1.00  0.00    0.00"


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("", 0),
        ("cat", 3),
        ("猫", 2),
        ("é", 1),
        ("🐈", 2),
        ("👍🏽", 2),
        ("👨‍👩‍👧", 2),
        ("❤️", 2),
        ("🇬🇧", 2),
    ],
)
def test_width_counts_what_a_terminal_shows(text, columns):
    assert width(text) == columns


def test_c6_a_hair_of_float_noise_prints_the_same():
    noisy = PATTERN * (1 + 1e-6)
    assert show(noisy) == show(PATTERN)
    assert show(torch.tensor([0.99999994])) == show(torch.tensor([1.0]))


@pytest.mark.parametrize(
    ("token", "seen"),
    [
        ("\u0120the", "␣the"),
        ("\u2581the", "␣the"),
        ("\u010a", "⏎"),
        (".\u010a\u010a", ".⏎⏎"),
        (" the", "␣the"),
        ("the", "the"),
        ("the ", "the␣"),
        ("a  b", "a␣␣b"),
        ("a b", "a b"),
        (" ", "␣"),
        ("", "∅"),
        ("\n", "⏎"),
        ("\t", "⇥"),
        ("\r\n", "␍⏎"),
        ("\x00", "␀"),
        ("\x7f", "⟨U+007F⟩"),
        ("\xa0x", "⟨U+00A0⟩x"),
        ("\u200b", "⟨U+200B⟩"),
        ("a\u202eb", "a⟨U+202E⟩b"),
        ("\u2028", "⟨U+2028⟩"),
        ("\ud800", "⟨U+D800⟩"),
        ("\ufffe", "⟨U+FFFE⟩"),
        ("\u0301", "◌\u0301"),
        ("👨‍👩‍👧", "👨‍👩‍👧"),
        ("\u200d", "⟨U+200D⟩"),
        ("שלום", "שלום"),
        ("$a$ \\ _ ^ % {", "$a$ \\ _ ^ % {"),
    ],
)
def test_e7_everything_in_a_token_can_be_seen(token, seen):
    assert visible(token) == seen


@given(st.text())
def test_a_visible_token_is_one_line_and_is_never_nothing(token):
    seen = visible(token)
    assert seen
    assert seen.splitlines() == [seen]
    assert seen == seen.strip() == visible(seen)
    assert not {unicodedata.category(letter) for letter in seen} & {"Cc", "Cs", "Co", "Zl", "Zp"}


@settings(deadline=None)  # the first call of a checked function is slow
@given(st.lists(st.text(), min_size=1, max_size=4), st.integers(0, 3))
def test_a_table_has_a_line_for_each_row_and_no_trailing_space(tokens, digits):
    lines = show(torch.ones(len(tokens), 2), rows=tokens, digits=digits).splitlines()
    assert len(lines) == len(tokens) + 1
    assert all(line == line.rstrip() for line in lines)
    assert len({width(line) for line in lines}) == 1


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 6))
def test_a_number_is_its_value_to_the_digits_shown(value, digits):
    text = number(value, digits)
    assert "e" not in text
    assert not (text.startswith("-") and float(text) == 0)
    assert abs(float(text) - value) <= 0.5 * 10**-digits + 1e-12 + 1e-15 * abs(value)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: show(torch.zeros(2, 3, 3)),
            ShapeError,
            "show: matrix is float32[2, 3, 3], but must have 1 or 2 axes: "
            "pick one matrix, e.g. matrix[0]",
        ),
        (lambda: show(torch.zeros(1, 2, 3, 3)), ShapeError, "e.g. matrix[0, 0]"),
        (lambda: show(torch.tensor(1.0)), ShapeError, "matrix.item() is its number"),
        (lambda: show(NESTED), ShapeError, "but must be Tensor"),
        (lambda: show(PATTERN, ["a"] * 4), ValueError, "rows has 4 labels for 3 rows"),
        (lambda: show(PATTERN, columns=["a"]), ValueError, "columns has 1 label for 3 columns"),
        (lambda: show(PATTERN, ["a"] * 4), ValueError, "start token"),
        (lambda: show(PATTERN, "The"), TypeError, "rows is one string, 'The'"),
        (lambda: show(PATTERN, torch.arange(3).tolist()), TypeError, "rows"),
        (lambda: show(PATTERN, digits=-1), ValueError, "digits is -1"),
        (lambda: show(PATTERN.to("meta")), ValueError, "float32[3, 3] on the meta device"),
    ],
)
def test_what_does_not_fit_is_named(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)


def test_a_wrong_label_is_named_wherever_it_stands():
    """One entry, drawn by chance, was looked at: now and then the message was another."""
    for rows in ([1, "a"], ["a", 1], [None, 2]):
        at = next(i for i, label in enumerate(rows) if not isinstance(label, str))
        with pytest.raises(TypeError, match=rf"rows\[{at}\] is \w+, but must be a string"):
            show(torch.eye(2), rows)


def test_true_is_no_number_of_digits():
    with pytest.raises(TypeError, match="digits is True, but must be a number"):
        show(torch.eye(2), digits=True)
