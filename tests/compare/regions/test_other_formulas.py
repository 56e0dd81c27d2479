"""One side writes a formula otherwise: its calls have nothing but their names in common, and what follows agrees."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import msprobe
from msprobe.analyze.first_divergence import first_divergence
from msprobe.compare.comparison import Comparison, compare_dumps
from msprobe.compare.rows.summary import CompareSummary
from msprobe.core.store.reader import find_dumps, load_dump
from tests.compare.dumps import call, gradient, number, tensor, with_loss, write
from tests.fresh_debugger import forget
from tests.recordings import Recordings

torch = pytest.importorskip("torch")
F = torch.nn.functional
pytestmark = pytest.mark.torch

_C = math.sqrt(2.0 / math.pi)


def _powers(h: Any, factor: float = 0.5) -> Any:
    return factor * h * (1.0 + torch.tanh(_C * (h + 0.044715 * h**3)))


def _by_largest(h: Any, dim: int = 1) -> Any:
    powers = (2.0 * h - (2.0 * h).amax(dim=1, keepdim=True)).exp()
    return powers / powers.sum(dim=dim, keepdim=True)


Formula = Callable[[Any, Any], Any]
FORMULAS: dict[str, tuple[Formula, Formula, Formula]] = {
    "variance": (
        lambda h, w: h.var(dim=1, unbiased=False),
        lambda h, w: (h * h).mean(dim=1) - h.mean(dim=1) ** 2,
        lambda h, w: (h * h).mean(dim=1) - h.mean(dim=1) * 2,
    ),
    "gelu": (lambda h, w: F.gelu(h, approximate="tanh"), lambda h, w: _powers(h), lambda h, w: _powers(h, 0.6)),
    "softmax": (lambda h, w: (2.0 * h).softmax(dim=1), lambda h, w: _by_largest(h), lambda h, w: _by_largest(h, 0)),
    "mean": (lambda h, w: h.mean(dim=1), lambda h, w: h.sum(dim=1) / 8, lambda h, w: h.sum(dim=1) / 6),
    "numbers": (lambda h, w: h * 0.5 * 3.0, lambda h, w: h * 3.0 * 0.5, lambda h, w: h * 3.0 * 0.6),
    "factors": (
        lambda h, w: h * w * w.exp(),
        lambda h, w: h * w.exp() * w,
        lambda h, w: h * w.exp() * w.exp(),
    ),
    "halves": (
        lambda h, w: (h.sum(dim=1) + h.exp().sum(dim=1)) / 2,
        lambda h, w: 0.5 * h.sum(dim=1) + 0.5 * h.exp().sum(dim=1),
        lambda h, w: 0.5 * h.sum(dim=1) + 0.6 * h.exp().sum(dim=1),
    ),
    "root": (lambda h, w: (0.5 * h).exp(), lambda h, w: h.exp().sqrt(), lambda h, w: h.exp()),
    "length": (
        lambda h, w: h / h.norm(dim=1, keepdim=True),
        lambda h, w: h / (h * h).sum(dim=1, keepdim=True).sqrt(),
        lambda h, w: h / (h * h).sum(dim=0, keepdim=True).sqrt(),
    ),
    "distance": (
        lambda h, w: F.mse_loss(h, h.detach().tanh()),
        lambda h, w: (h - h.detach().tanh()).pow(2).sum() / 40,
        lambda h, w: (h - h.detach().tanh()).pow(2).sum() / 5,
    ),
}
"""Name -> the formula of the golden run, the same in other words, and the same words with a fault."""


def record(folder: Path, name: str, version: int, scale: float = 1.0) -> None:
    from msprobe.pytorch import PrecisionDebugger

    forget()
    torch.manual_seed(0)
    model, weight = torch.nn.Linear(6, 8), torch.nn.Parameter(torch.linspace(0.5, 1.5, 8))
    rows = torch.randn(5, 6)
    debugger = PrecisionDebugger(task="statistics", level="mix", dump_path=str(folder))
    with debugger.collect(model):
        value = FORMULAS[name][version](model(rows), weight)
        loss = (value * value + value).sum() * scale
        loss.backward()
    forget()


def verdict(recordings: Recordings, target: tuple[object, ...], golden: tuple[object, ...]) -> CompareSummary:
    return msprobe.compare(recordings(record, *target), recordings(record, *golden)).summary


def lines_of(name: str) -> set[int]:
    codes = [formula.__code__ for formula in (*FORMULAS[name], _powers, _by_largest)]
    return {line for code in codes for _, _, line in code.co_lines() if line}


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_in_other_words_is_the_same(name: str, turned: bool, recordings: Recordings) -> None:
    target, golden = ((name, 0), (name, 1)) if turned else ((name, 1), (name, 0))
    summary = verdict(recordings, target, golden)
    assert summary.verdict == "same", summary.first_divergence


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
@pytest.mark.parametrize("name", FORMULAS)
def test_a_fault_in_a_formula_in_other_words_is_named(name: str, turned: bool, recordings: Recordings) -> None:
    target, golden = ((name, 0), (name, 2)) if turned else ((name, 2), (name, 0))
    found = verdict(recordings, target, golden).first_divergence
    assert found is not None
    path, _, line = found.source.partition(" in ")[0].rpartition(":")
    assert Path(path).name == Path(__file__).name and int(line) in lines_of(name), found


@pytest.mark.parametrize("name", sorted(FORMULAS.keys() - {"numbers"}))  # the same calls: their arguments are named
def test_a_formula_in_other_words_hides_no_later_fault(name: str, recordings: Recordings) -> None:
    found = verdict(recordings, (name, 1, 1.5), (name, 0)).first_divergence
    assert found is not None and found.target is not None and found.target.startswith("Tensor.__mul__")
    assert found.source.endswith("loss = (value * value + value).sum() * scale"), found


SUM, EXP, ROOT = (f"Tensor.{name}.0.forward" for name in ("sum", "exp", "sqrt"))
NEXT = "Functional.linear.0.forward"


def compared(folder: Path, target: dict[str, Any], golden: dict[str, Any]) -> Comparison:
    sides = []
    for side, data in (("t", target), ("g", golden)):
        write(folder / side, data)
        sides.append(load_dump(find_dumps(folder / side)[0]))
    return compare_dumps(sides[0], sides[1])


def rooted(root: dict[str, Any], exp: float = 6.0) -> dict[str, Any]:
    """Return a run that computes ``exp(x).sqrt()``."""
    return {EXP: call([tensor(1.0)], [tensor(exp)]), ROOT: call([tensor(exp)], [root]), NEXT: call([root], [tensor()])}


def halved(result: dict[str, Any]) -> dict[str, Any]:
    """Return a run that computes ``exp(0.5 * x)``."""
    return {
        "Tensor.__rmul__.0.forward": call([tensor(1.0), number(0.5)], [tensor(0.5)]),
        EXP: call([tensor(0.5)], [result]),
        NEXT: call([result], [tensor()]),
    }


def test_a_pair_by_name_alone_is_a_warning(tmp_path: Path) -> None:
    comparison = compared(tmp_path, rooted(tensor(2.0)), halved(tensor(2.0)))
    assert {comparison.table.entries[entry].name for entry in comparison.table.harmless} == {EXP}
    assert "error" not in comparison.row_levels.names() and first_divergence(comparison) is None


def test_what_leaves_a_formula_has_to_show_its_differences(tmp_path: Path) -> None:
    """Beside a mask of -1e9 no scores show, whatever they are."""

    def masked(result: float) -> dict[str, Any]:
        hidden = tensor(2.0, Min=-1e9, Norm=1e9, Mean=-1e8)
        add = call([tensor(result), hidden], [hidden])
        run = halved(tensor(result)) if result == 2.0 else rooted(tensor(result))
        return {**run, "Tensor.__add__.0.forward": add, NEXT: call([hidden], [tensor()])}

    assert first_divergence(compared(tmp_path, masked(4.0), masked(2.0))) is not None


@pytest.mark.parametrize("largest", [math.nan, math.inf])
def test_a_number_that_is_none_belongs_to_no_formula(largest: float, tmp_path: Path) -> None:
    sides = rooted(tensor(2.0)), halved(tensor(2.0))
    sides[0][EXP]["output"][0]["Max"] = sides[0][ROOT]["input_args"][0]["Max"] = largest
    assert first_divergence(compared(tmp_path, *sides)) is not None


def test_another_argument_without_another_result_belongs_to_no_formula(tmp_path: Path) -> None:
    def run(limit: float) -> dict[str, Any]:
        return {SUM: call([tensor(1.0), number(limit)], [tensor(2.0)]), NEXT: call([tensor(2.0)], [tensor()])}

    found = first_divergence(compared(tmp_path, run(5.0), run(6.0)))
    assert found is not None and found.description.target == SUM


def test_the_gradient_of_a_pair_by_name_alone_is_not_lost(tmp_path: Path) -> None:
    target, golden = (run | with_loss() for run in (rooted(tensor(2.0)), halved(tensor(2.0))))
    for run, names in ((target, (ROOT,)), (golden, (EXP, "Tensor.__rmul__.0.forward"))):
        for name in names:
            run[name.replace("forward", "backward")] = gradient([tensor(7.0)], [tensor(3.0)])
        run["Functional.gelu.0.backward"] = gradient([tensor(3.0)], [tensor(1.0)])
    assert first_divergence(compared(tmp_path, target, golden)) is None
