"""Tensors of another layout and calls in pieces, in one program: what leaves the step decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import msprobe
from tests.compare.dumps import call, module, tensor, write
from tests.compare.regions.layout_programs import BLOCKS, record
from tests.recordings import Recordings

pytestmark = pytest.mark.torch
CONV, NEXT, LAST = "Functional.conv2d.0.forward", "Functional.silu.0.forward", "Functional.linear.0.forward"


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("block", BLOCKS)
def test_the_same_computed_in_another_way_is_no_difference(recordings: Recordings, block: str, turned: bool) -> None:
    result: Any = msprobe.compare(*(recordings(record, block, other, False) for other in (turned, not turned)))
    assert result.verdict == "same"


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("other", [False, True])
@pytest.mark.parametrize("block", BLOCKS)
def test_a_fault_beside_it_is_named_in_its_module(recordings: Recordings, block: str, other: bool) -> None:
    wrong, right = recordings(record, block, other, True), recordings(record, block, not other, False)
    for pair in ((wrong, right), (right, wrong)):
        result: Any = msprobe.compare(*pair)
        assert result.verdict == "diverged"
        assert result.summary.first_divergence.module.startswith("block")


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("block", ["Chunked", "Halves", "Flattened", "Turned"])
@pytest.mark.parametrize("other", [False, True])
def test_the_line_of_such_a_fault_is_named(recordings: Recordings, block: str, other: bool) -> None:
    wrong, right = recordings(record, block, other, True), recordings(record, block, not other, False)
    for pair in ((wrong, right), (right, wrong)):
        first = msprobe.compare(*pair).summary.first_divergence
        assert first is not None
        assert any(line.endswith("# wrong") for line in (first.source, first.golden_source)), first


def _compared(folder: Path, *sides: dict[str, Any], **options: Any) -> Any:
    return msprobe.compare(
        *(write(folder / str(number), data) for number, data in enumerate(sides)), output=folder, **options
    )


def _run(shape: tuple[int, ...], order: float, result: float = 6.0, scale: float = 2.0) -> dict[str, Any]:
    """An activation of a tensor in a layout, and a product that gets it in an order."""
    return {
        CONV: call([tensor(1.0, Projection=0.1)], [tensor(scale, shape=shape)]),
        NEXT: call([tensor(scale, shape=shape)], [tensor(1.5 * scale, shape=shape)]),
        LAST: call([tensor(1.5 * scale, Projection=order)], [tensor(result, Projection=order)]),
    }


def test_values_decide_where_a_later_one_has_the_same_order(tmp_path: Path) -> None:
    assert _compared(tmp_path, _run((2, 4, 4), 0.3), _run((2, 2, 8), 0.3)).verdict == "same"


def test_another_order_later_on_is_named_where_the_layout_begins(tmp_path: Path) -> None:
    result = _compared(tmp_path, _run((2, 4, 4), 0.3, 6.0), _run((2, 2, 8), -0.9, 6.5))
    found = result.summary.first_divergence
    assert (found.target, found.kind) == (CONV, "shape")


def test_other_values_of_another_layout_are_a_divergence(tmp_path: Path) -> None:
    result = _compared(tmp_path, _run((2, 4, 4), 0.3), _run((2, 2, 8), 0.3, scale=2.5))
    assert result.summary.first_divergence.target == CONV


def test_nothing_shows_the_order_of_the_last_tensor(tmp_path: Path) -> None:
    sides = [{name: _run(shape, 0.3)[name] for name in (CONV, NEXT)} for shape in ((2, 4, 4), (2, 2, 8))]
    found = _compared(tmp_path, *sides).summary.first_divergence
    assert found.kind == "shape"


def test_a_broadcast_is_named_where_the_axis_is_wrong(tmp_path: Path) -> None:
    """A column minus a row is a table: the column is where that begins."""

    def side(shape: tuple[int, ...], result: tuple[int, ...]) -> dict[str, Any]:
        first = {CONV: call([tensor(1.0)], [tensor(2.0, shape=shape)])}
        last = {LAST: call([tensor(2.0, shape=shape), tensor(3.0, shape=(4,))], [tensor(4.0, shape=result)])}
        return {**first, **last}

    found = _compared(tmp_path, side((4, 1), (4, 4)), side((4,), (4,))).summary.first_divergence
    assert found.target == CONV and found.kind == "shape"


def test_the_published_rules_know_no_layout(tmp_path: Path) -> None:
    result = _compared(tmp_path, _run((2, 4, 4), 0.3), _run((2, 2, 8), 0.3), policy="reference")
    assert result.verdict == "diverged"


def _pieces(count: int, *scales: float, rows: int = 12) -> dict[str, Any]:
    """A layer that is called for pieces of the rows, and a module around it."""
    data: dict[str, Any] = {}
    for number in range(count):
        scale = scales[number % len(scales)]
        piece = {"Norm": 5.0 * scale / count**0.5}
        shape = (rows // count, 8)
        data[f"Module.block.line.Linear.forward.{number}"] = module(
            [tensor(1.0, shape=shape, Norm=5.0 / count**0.5)], [tensor(scale, shape=shape, **piece)]
        )
    data[BLOCK] = module([tensor(1.0, shape=(12, 8))], [tensor(3.0, shape=(12, 8))])
    return data


BLOCK = "Module.block.Block.forward.0"


def _of_pieces(folder: Path, *sides: dict[str, Any], **options: Any) -> Any:
    folders = [
        write(folder / str(number), data, {name: BLOCK if name != BLOCK else None for name in data})  # type: ignore[misc]
        for number, data in enumerate(sides)
    ]
    return msprobe.compare(*folders, output=folder, **options)


def test_pieces_that_make_the_whole_are_no_difference(tmp_path: Path) -> None:
    for sides in ((_pieces(3, 2.0), _pieces(1, 2.0)), (_pieces(3, 2.0), _pieces(2, 2.0))):
        result = _of_pieces(tmp_path, *sides)
        assert result.verdict == "same", result.summary.first_divergence


def test_pieces_that_lack_rows_are_none(tmp_path: Path) -> None:
    fewer = _pieces(3, 2.0, rows=9)
    fewer[BLOCK] = module([tensor(1.0, shape=(12, 8))], [tensor(3.5, shape=(12, 8))])
    found = _of_pieces(tmp_path, fewer, _pieces(1, 2.0)).summary.first_divergence
    assert found.target.startswith("Module.block")


def test_the_published_rules_put_nothing_together(tmp_path: Path) -> None:
    result = _of_pieces(tmp_path, _pieces(3, 2.0), _pieces(1, 2.0), policy="reference")
    assert result.verdict == "diverged"
