"""Properties: a dump is itself with full confidence, and any renaming of attributes is undone."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.compare.layer_inference.infer import infer_layer_map
from msprobe.core.store.reader import Dump, Place
from tests.compare import dumps

_Tree = list[Any]
_CLASSES = ["Linear", "Attention", "ReLU", "Block"]
_words = st.text(string.ascii_lowercase, min_size=1, max_size=4)
_leaf = st.tuples(st.sampled_from(_CLASSES), st.integers(0, 4), st.just([]))
_trees = st.recursive(
    _leaf, lambda inner: st.tuples(st.sampled_from(_CLASSES), st.just(0), st.lists(inner, max_size=4)), max_leaves=12
)
_forests = st.lists(_trees, min_size=1, max_size=4)


def _dump(forest: _Tree, names: Any) -> tuple[Dump, list[str]]:
    """A dump of these modules in their order; children are recorded before the module around them."""
    data: dict[str, Any] = {}
    paths: list[str] = []

    def add(tree: Any, above: str) -> None:
        cls, width, inner = tree
        path = f"{above}{names()}"
        for child in inner:
            add(child, f"{path}.")
        number = float(len(data) + 1)
        parameters = {"weight": dumps.tensor(number, shape=(width, 4))} if width else {}
        value = dumps.tensor(100.0 + number, shape=(2, width or 3))
        data[f"Module.{path}.{cls}.forward.0"] = dumps.module([dumps.tensor(number)], [value], **parameters)
        paths.append(path)

    for tree in forest:
        add(tree, "")
    return Dump(Place(Path("dump.json")), "statistics", "mix", "pytorch", data), paths


def _numbered() -> Any:
    count = iter(range(10_000))
    return lambda: f"m{next(count)}"


@given(_forests)
def test_a_dump_is_itself(forest: _Tree) -> None:
    dump, paths = _dump(forest, _numbered())
    found = infer_layer_map(dump, dump)
    assert sorted((pair.target, pair.golden) for pair in found.pairs) == sorted((path, path) for path in paths)
    assert all(pair.confidence == 1.0 for pair in found.pairs)
    assert not found.fused


@pytest.mark.slow
@given(_forests, st.data())
def test_a_renaming_is_undone(forest: _Tree, data: st.DataObject) -> None:
    golden, before = _dump(forest, _numbered())
    used: set[str] = set()

    def fresh() -> str:
        word = data.draw(_words.filter(lambda word: word not in used))
        used.add(word)
        return word

    target, after = _dump(forest, fresh)
    found = infer_layer_map(target, golden)
    assert {pair.golden: pair.target for pair in found.pairs} == dict(zip(before, after, strict=True))
