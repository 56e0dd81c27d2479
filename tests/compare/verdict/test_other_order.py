"""A lattice whose cells are computed in another order, or with exchanged operands, beside a fault behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import msprobe
from msprobe.compare.rows.summary import FirstDivergence
from tests.fresh_debugger import forget
from tests.recordings import Recordings

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
_ROWS, _COLUMNS = 4, 3


class Lattice(torch.nn.Module):
    """The sum over all paths through a lattice, as a transducer computes its loss."""

    def __init__(self, order: str, fault: str) -> None:
        super().__init__()
        self.order, self.fault = order, fault

    def forward(self, down: Any, right: Any) -> Any:
        cells = [(row, column) for row in range(_ROWS) for column in range(_COLUMNS)][1:]
        if self.order == "diagonals":
            cells.sort(key=lambda cell: (sum(cell), cell[1]))
        paths = {(0, 0): torch.zeros(down.shape[0])}
        for row, column in cells:
            parts = [paths[row - 1, column] + down[:, row, column]] if row else []
            parts += [paths[row, column - 1] + right[:, row, column]] if column else []
            parts = parts[::-1] if self.order == "exchanged" else parts
            paths[row, column] = parts[0] if len(parts) == 1 else torch.logaddexp(*parts)
        last = paths[_ROWS - 1, _COLUMNS - 1]
        if self.fault == "halved":
            last = last * 0.5  # the fault
        if self.fault == "rolled":
            return torch.logaddexp(last.roll(1, 0), right[:, 0, 0]).mul(torch.arange(6.0)).mean()  # the fault
        if self.fault == "in place":
            return torch.logaddexp(last, right[:, 0, 0]).mul(torch.arange(6.0)).mean()
        if self.fault == "mixed":
            return torch.stack([paths[cell] for cell in cells[1:4]]).flip(0).mul(torch.arange(3.0)[:, None]).mean()
        return (last + right[:, 0, 0]).mean()


class Model(torch.nn.Module):
    def __init__(self, order: str, fault: str) -> None:
        super().__init__()
        self.scores = torch.nn.Linear(5, 2 * _ROWS * _COLUMNS)
        self.lattice = Lattice(order, fault)

    def forward(self, inputs: Any) -> Any:
        down, right = self.scores(inputs).view(-1, 2, _ROWS, _COLUMNS).log_softmax(-1).unbind(1)
        return self.lattice(down, right)


def record(folder: Path, order: str, fault: str) -> None:
    from msprobe.pytorch import PrecisionDebugger

    forget()
    torch.manual_seed(0)
    model, inputs = Model(order, fault), torch.randn(6, 5)
    debugger = PrecisionDebugger(task="statistics", level="mix", dump_path=str(folder))
    with debugger.collect(model):
        model(inputs).backward()
    forget()


def first(recordings: Recordings, target: tuple[str, str], golden: tuple[str, str]) -> FirstDivergence | None:
    return msprobe.compare(recordings(record, *target), recordings(record, *golden)).summary.first_divergence


@pytest.mark.parametrize("order", ["exchanged", "diagonals"])
def test_another_order_is_the_same(order: str, recordings: Recordings) -> None:
    assert first(recordings, (order, ""), ("rows", "")) is None
    assert first(recordings, ("rows", ""), (order, "")) is None


@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
@pytest.mark.parametrize("order", ["rows", "exchanged", "diagonals"])
def test_a_fault_behind_another_order_is_named(order: str, turned: bool, recordings: Recordings) -> None:
    pair = ((order, "halved"), ("rows", ""))
    found = first(recordings, *(pair[::-1] if turned else pair))
    assert found is not None and "  # the fault" in found.source + Path(__file__).read_text().splitlines()[_line(found)]


def _line(found: FirstDivergence) -> int:
    """Return the number of the line that is named, counted from 0."""
    return int(found.source.partition(" in ")[0].rpartition(":")[2]) - 1


def test_an_order_that_makes_a_difference_stays_one(recordings: Recordings) -> None:
    assert first(recordings, ("diagonals", "mixed"), ("rows", "mixed")) is not None


@pytest.mark.parametrize("order", ["rows", "exchanged", "diagonals"])
def test_rows_in_another_order_are_no_other_order_of_calls(order: str, recordings: Recordings) -> None:
    found = first(recordings, (order, "rolled"), ("rows", "in place"))
    assert found is not None and "  # the fault" in Path(__file__).read_text().splitlines()[_line(found)], found


class Attention(torch.nn.Module):
    """Query and key change places before both are turned: the sums of their products are other ones then."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.both, self.fault = torch.nn.Linear(5, 2 * 4), fault

    def forward(self, inputs: Any) -> Any:
        query, key = self.both(inputs).split(4, -1)
        if self.fault == "exchanged":
            query, key = key, query
        turn = torch.arange(4.0)
        query, key = query * turn, key * turn  # turned
        return torch.matmul(query, key.transpose(-1, -2)).softmax(-1).matmul(inputs).mean()


def record_attention(folder: Path, fault: str) -> None:
    from msprobe.pytorch import PrecisionDebugger

    forget()
    torch.manual_seed(0)
    model, inputs = torch.nn.Sequential(Attention(fault)), torch.randn(2, 6, 5)
    debugger = PrecisionDebugger(task="statistics", level="mix", dump_path=str(folder))
    with debugger.collect(model):
        model(inputs).backward()
    forget()


@pytest.mark.parametrize("turned", [False, True])
def test_operands_in_exchanged_places_are_named_where_they_are_exchanged(turned: bool, recordings: Recordings) -> None:
    pair = [recordings(record_attention, "exchanged"), recordings(record_attention, "")]
    found = msprobe.compare(*(reversed(pair) if turned else pair)).summary.first_divergence
    assert found is not None and found.source.endswith("# turned")
