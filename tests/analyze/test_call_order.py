"""Two calls in another order are one finding: neither run lacks a call."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msprobe
from msprobe.analyze.call_order import exchanged_call, source_of_value
from msprobe.analyze.compared_entries import ComparedEntries
from msprobe.compare.comparison import Comparison, compare_dumps
from msprobe.compare.rows.summary import FirstDivergence
from msprobe.compare.table.table import LeafTable
from msprobe.core.store.reader import find_dumps, load_dump
from msprobe.report.summary_text import summary_text
from tests.compare.dumps import call, module, number, tensor, write

BLOCK = "Module.block.Block.forward.0"
NET, FIRST, SECOND = "Module.net.Net.forward.0", "Module.blocks.0.Block.forward.0", "Module.blocks.1.Block.forward.0"
GELU, TANH, RELU = (f"Functional.{name}.0.forward" for name in ("gelu", "tanh", "relu"))


def side(folder: Path, *names: str, scale: float = 1.0, path: str = "net.py") -> Path:
    """Record calls in one module; their results stand for their order."""
    data: dict[str, Any] = {
        name: call([tensor(1.0 + k * scale)], [tensor(2.0 + k * scale)]) for k, name in enumerate(names)
    }
    construct: dict[str, Any] = {**dict.fromkeys(names, BLOCK), BLOCK: None}
    stack = {name: [f"File /src/{path}, line {k + 1}, in forward, \n x = f(x)"] for k, name in enumerate(names)}
    return write(folder, {**data, BLOCK: module([tensor()], [tensor(5.0 * scale)])}, construct, stack)


def first(target: Path, golden: Path) -> FirstDivergence:
    found = msprobe.compare(target, golden).summary.first_divergence
    assert found is not None
    return found


def test_swapped_calls_are_in_another_order(tmp_path: Path) -> None:
    target = side(tmp_path / "t", GELU, TANH, scale=2.0, path="new.py")
    found = first(target, side(tmp_path / "g", TANH, GELU, path="old.py"))
    assert found.kind == "order" and found.target == found.golden != None  # noqa: E711
    assert "in another order: the target makes this call" in found.reason
    assert found.source.startswith("/src/new.py:") and found.golden_source.startswith("/src/old.py:")
    assert found.stack != found.golden_stack != []
    assert (found.module, found.golden_module) == ("block.Block", "block.Block")


def test_a_call_that_the_other_run_makes_by_another_function_has_not_moved(tmp_path: Path) -> None:
    """``scores - scores.logsumexp()`` for ``log_softmax`` is no loss that subtracts elsewhere."""
    loss, scores = "Tensor.__sub__.0.forward", "Tensor.__sub__.1.forward"
    shared = {RELU: call([tensor(2.0)], [tensor(3.0)])}
    golden = {
        "Torch.log_softmax.0.forward": call([tensor(1.0)], [tensor(2.0)]),
        **shared,
        loss: call([tensor(3.0), tensor(4.0)], [tensor(5.0)]),
        TANH: call([tensor(5.0)], [tensor(6.0)]),
    }
    target = {
        scores: call([tensor(1.0), tensor(8.0)], [tensor(2.0)]),
        **shared,
        "Tensor.__add__.0.forward": call([tensor(3.0), tensor(4.0)], [tensor(7.0)]),
        TANH: call([tensor(7.0)], [tensor(6.5)]),
    }
    for number_, (one, two) in enumerate(((target, golden), (golden, target))):
        found = first(write(tmp_path / f"t{number_}", one), write(tmp_path / f"g{number_}", two))
        assert found.kind != "order" and loss in (found.target, found.golden), found


def blocks(folder: Path, *names: str, scale: float, same_input: bool = False, result: float | None = None) -> Path:
    """Record modules in this order, each of which gets what the one before returns, or the input of the model. The
    model returns what the last one returns, or ``result``."""
    values = [scale * (1.0 + k) for k in range(len(names) + 1)]
    data = {
        name: module([tensor(values[0 if same_input else k])], [tensor(values[k + 1])]) for k, name in enumerate(names)
    }
    return write(
        folder,
        {**data, NET: module([tensor()], [tensor(result or values[-1])])},
        {**dict.fromkeys(data, NET), NET: None},
    )


def test_modules_in_another_order_are_one_finding(tmp_path: Path) -> None:
    target = blocks(tmp_path / "t", SECOND, FIRST, scale=1.0)
    found = first(target, blocks(tmp_path / "g", FIRST, SECOND, scale=1.0, result=9.0))
    assert (found.kind, found.target, found.golden) == ("order", SECOND, SECOND)
    assert found.module == "blocks.1.Block"
    text = f"in another order: the target makes this call before {FIRST}, the golden run after it"
    assert found.reason == text


def test_modules_that_get_the_same_are_in_no_order(tmp_path: Path) -> None:
    target = blocks(tmp_path / "t", SECOND, FIRST, scale=2.0, same_input=True)
    assert first(target, blocks(tmp_path / "g", FIRST, SECOND, scale=1.0, same_input=True)).kind != "order"


def test_another_call_is_not_the_same_call_in_another_order(tmp_path: Path) -> None:
    target = side(tmp_path / "t", RELU, TANH, scale=2.0, path="new.py")
    found = first(target, side(tmp_path / "g", GELU, TANH))
    assert found.kind == "value" and f"the target calls {RELU} here, the golden run {GELU}" in found.reason


def test_a_lone_call_says_its_side(tmp_path: Path) -> None:
    result = msprobe.compare(side(tmp_path / "t", TANH, scale=2.0), side(tmp_path / "g", GELU, TANH))
    found = result.summary.first_divergence
    assert found is not None and found.name == f"{GELU} of the golden run alone"
    text = summary_text(result.summary)
    assert f"{GELU} of the golden run alone\n  source: /src/net.py:1 in forward: x = f(x) (golden run)" in text


def test_numbers_of_two_types_show_their_values(tmp_path: Path) -> None:
    for name, value in (("t", 1.5), ("g", 1)):
        write(tmp_path / name, {RELU: call([tensor(), number(value)], [tensor(float(value))])})
    assert "1.5 in the target, 1 in the golden run" in first(tmp_path / "t", tmp_path / "g").reason


def test_a_whole_number_of_two_types_is_one_number(tmp_path: Path) -> None:
    for name, value in (("t", 2.0), ("g", 2)):
        write(tmp_path / name, {RELU: call([tensor(), number(value)], [tensor()])})
    assert msprobe.compare(tmp_path / "t", tmp_path / "g").summary.verdict == "same"


def test_values_that_look_alike_show_their_types(tmp_path: Path) -> None:
    for name, value in (("t", "1"), ("g", 1)):
        write(tmp_path / name, {RELU: call([tensor(), number(value)], [tensor()])})
    assert "1 (str) in the target, 1 (int) in the golden run" in first(tmp_path / "t", tmp_path / "g").reason


def test_a_null_gradient_is_no_gradient(tmp_path: Path) -> None:
    grad = "Module.block.Block.parameters_grad"
    for name, value in (("t", None), ("g", tensor())):
        layer = module([tensor()], [tensor()], weight=tensor())
        write(tmp_path / name, {BLOCK: layer, grad: {"weight": [value]}}, {BLOCK: None})
    result = msprobe.compare(tmp_path / "t", tmp_path / "g")
    text = summary_text(result.summary)
    assert "no gradient in the target (null)" in text and "kind:   no gradient in the target" in text


def test_a_wrong_value_is_followed_back_to_the_first_call_of_one_run(tmp_path: Path) -> None:
    """``tanh(0.8 * (x + x ** 3))`` without the last term: the product is a call of both runs."""
    power, sum_, product = (f"Tensor.__{name}__.0.forward" for name in ("pow", "add", "mul"))
    shared = {RELU: call([tensor(1.0)], [tensor(2.0)])}
    golden = {
        **shared,
        power: call([tensor(2.0), number(3)], [tensor(6.0)]),
        sum_: call([tensor(2.0), tensor(6.0)], [tensor(8.0)]),
        product: call([tensor(8.0), number(0.8)], [tensor(9.0)]),
        TANH: call([tensor(9.0)], [tensor(1.5)]),
    }
    target = {
        **shared,
        product: call([tensor(2.0), number(0.8)], [tensor(3.0)]),
        TANH: call([tensor(3.0)], [tensor(1.4)]),
    }
    stacks = {name: ["File /src/net.py, line 1, in forward, \n x = f(x)"] for name in golden}
    for one, two in ((target, golden), (golden, target)):
        folders = [write(tmp_path / f"{len(one)}{at}", data, {}, stacks) for at, data in enumerate((one, two))]
        dumps = [load_dump(place) for folder in folders for place in find_dumps(folder)]
        table, wrong = _with_wrong_inputs(compare_dumps(*dumps))
        names = [pair.name for pair in table.entries]
        for user in (product, TANH):
            before = names.index(user)
            assert source_of_value(table, wrong(before)[0], before, wrong) == names.index(power)
        assert source_of_value(table, table.rows_of(names.index(RELU))[0], names.index(RELU), wrong) is None


def _with_wrong_inputs(comparison: Comparison) -> tuple[LeafTable, Callable[[int], list[int]]]:
    return comparison.table, ComparedEntries(comparison).tensor_inputs


def test_a_call_of_one_run_is_in_no_order(tmp_path: Path) -> None:
    """Beside calls of both runs in another order: it has no place in the golden run."""
    folders = side(tmp_path / "t", GELU, TANH, RELU), side(tmp_path / "g", RELU, TANH)
    dumps = [load_dump(place) for folder in folders for place in find_dumps(folder)]
    table = compare_dumps(*dumps).table
    alone = [number for number, pair in enumerate(table.entries) if not pair.of_both]
    assert alone
    assert all(exchanged_call(table, list(dumps[1].data), number) is None for number in alone)
