"""What is said of a tensor that holds the elements of another one elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from msprobe.checkpoints.job import compare_checkpoints
from msprobe.checkpoints.rearranged import relation
from msprobe.core.store.tensor_reader import LazyTensor

SOURCE = np.random.default_rng(0)


def tensor(values: NDArray[Any]) -> LazyTensor:
    return LazyTensor(values.shape, values.dtype.name, lambda: values)


def drawn(*shape: int) -> NDArray[np.float32]:
    return SOURCE.standard_normal(shape).astype(np.float32)


QKV = drawn(24, 6)  # 3 parts, 4 heads, 2 rows each
ROTARY = drawn(16, 5)  # 2 heads of 8 rows, halves against pairs
SQUARE = drawn(7, 7)
WORDS = drawn(30, 4)
CONV, CUBE = drawn(5, 3, 2, 2), drawn(4, 4, 4)
ORDER = SOURCE.permutation(24)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        pytest.param(QKV, QKV.T, "the first one transposed", id="transposed"),
        pytest.param(SQUARE, SQUARE.T, "the first one transposed", id="square"),
        pytest.param(
            QKV,
            QKV.reshape(3, 4, 2, 6).transpose(1, 0, 2, 3).reshape(24, 6),
            "rows of the first one interleaved: 3 parts of 4 blocks of 2 become 4 times 3",
            id="qkv of heads",
        ),
        pytest.param(
            ROTARY,
            ROTARY.reshape(2, 2, 4, 5).transpose(0, 2, 1, 3).reshape(16, 5),
            "rows of the first one interleaved: 2 parts of 4 blocks of 1 become 4 times 2 inside each of 2 groups",
            id="rotary halves",
        ),
        pytest.param(QKV, QKV[::-1], "rows of the first one in reverse order", id="reversed"),
        pytest.param(QKV, QKV[ORDER], "rows of the first one in another order", id="permuted"),
        pytest.param(QKV.T, QKV[ORDER].T, "columns of the first one in another order", id="columns"),
        pytest.param(QKV[:, 0], QKV[ORDER, 0], "elements of the first one in another order", id="bias"),
        pytest.param(
            WORDS, np.pad(WORDS, ((0, 2), (0, 0))), "the first one with 2 rows of 0 more behind it", id="vocabulary"
        ),
        pytest.param(
            np.pad(WORDS, ((0, 2), (0, 0))), WORDS, "the first one without its last 2 rows, which are 0", id="cut"
        ),
        pytest.param(np.concatenate([drawn(1, 4), WORDS]), WORDS, "the first one without its first row", id="one less"),
        pytest.param(
            QKV, QKV[ORDER].T, "columns of the first one transposed, in another order (", id="permuted, transposed"
        ),
        pytest.param(
            SQUARE, SQUARE[:, ::-1].T, "rows of the first one transposed, in reverse order", id="square, both"
        ),
        pytest.param(
            WORDS,
            np.pad(WORDS, ((0, 2), (0, 0))).T,
            "the first one transposed, with 2 columns of 0 more behind it",
            id="padded, transposed",
        ),
        pytest.param(
            np.concatenate([drawn(1, 4), WORDS]).astype(np.float16),
            WORDS.T,
            "the first one transposed, without its first column",
            id="cut, transposed and cast",
        ),
        pytest.param(WORDS, drawn(4, 32), "", id="others, transposed shape and more"),
        pytest.param(WORDS, np.pad(WORDS, ((0, 0), (3, 0))), "with 3 columns of 0 more before it", id="before"),
        pytest.param(WORDS, np.concatenate([WORDS, drawn(2, 4)]), "with 2 rows more behind it", id="new words"),
        pytest.param(WORDS, drawn(30, 4), "", id="others"),
        pytest.param(WORDS, drawn(32, 4), "", id="others and more"),
        pytest.param(WORDS, drawn(4, 30), "", id="other shape"),
        pytest.param(WORDS, drawn(60, 2), "", id="both axes"),
        pytest.param(CONV, CONV.transpose(1, 0, 2, 3), "with its axes in the order (1, 0, 2, 3)", id="in and out"),
        pytest.param(CONV, CONV.transpose(2, 3, 1, 0), "with its axes in the order (2, 3, 1, 0)", id="channels last"),
        pytest.param(CONV, CONV.transpose(0, 1, 3, 2), "with its axes in the order (0, 1, 3, 2)", id="a kernel's axes"),
        pytest.param(CUBE, CUBE.transpose(1, 2, 0), "with its axes in the order (1, 2, 0)", id="axes of one size"),
        pytest.param(CUBE, drawn(4, 4, 4), "", id="another cube"),
        pytest.param(CONV, drawn(3, 5, 2, 2), "", id="other axes"),
        pytest.param(QKV, QKV[ORDER].astype(np.float16), "rows of the first one in another order", id="rows cast"),
        pytest.param(
            QKV.astype(np.float16), QKV[:, ::-1], "columns of the first one in reverse order", id="columns up"
        ),
        pytest.param(QKV, QKV.T.astype(np.float16), "the first one transposed", id="transposed and cast"),
        pytest.param(CONV, CONV.transpose(1, 0, 2, 3).astype(np.float16), "axes in the order", id="axes cast"),
        pytest.param(WORDS, np.pad(WORDS, ((0, 2), (0, 0))).astype(np.float16), "2 rows of 0 more", id="padded, cast"),
        pytest.param(QKV, drawn(24, 6).astype(np.float16), "", id="others cast"),
        pytest.param(np.zeros((3, 4), np.float32), np.zeros((4, 3), np.float32), "", id="zeros"),
    ],
)
def test_words(first: NDArray[Any], second: NDArray[Any], words: str) -> None:
    said = relation(tensor(first), tensor(second))
    assert words in said if words else not said


@settings(max_examples=60, deadline=None)
@given(st.permutations(range(12)), st.booleans())
def test_every_permutation_is_seen_and_no_change_of_an_element_is_taken_for_one(order: list[int], change: bool) -> None:
    values = np.random.default_rng(5).standard_normal((12, 3)).astype(np.float32)
    moved = values[order].copy()
    moved[3, 1] += np.float32(0.01) if change else 0
    said = relation(tensor(values), tensor(moved))
    assert bool(said) is (not change and order != sorted(order))


def test_the_comparison_of_two_files_says_it(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    same = drawn(3)
    save_file({"qkv": QKV, "head": WORDS, "norm": same, "half": QKV}, tmp_path / "a.safetensors")
    swapped = np.ascontiguousarray(QKV[ORDER])
    wider = np.pad(WORDS, ((0, 2), (0, 0)))
    half = swapped.astype(np.float16)
    save_file({"qkv": swapped, "head": wider, "norm": same, "half": half}, tmp_path / "b.safetensors")
    result = compare_checkpoints(tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    entries = result.document()
    assert "another order" in entries["half"]["relation"]
    assert "another order" in entries["qkv"]["relation"]
    assert entries["head"]["relation"] == "the first one with 2 rows of 0 more behind it"
    assert "relation" not in entries["norm"]
    assert any("it is the first one with 2 rows" in line for line in result.lines())
