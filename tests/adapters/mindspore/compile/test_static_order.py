"""Cells of compiled graphs have the names, numbers, order and parents that they have in a dynamic graph. Real MindSpore
on a CPU, a process for each mode.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import msprobe
from tests.adapters.mindspore import graph_programs
from tests.adapters.recorded import Recorded, read
from tests.matrices import matrix_params

pytestmark = pytest.mark.mindspore
Ran = Callable[[str], tuple[Path, dict[str, bool]]]
STATIC = [(mode, net) for mode in ("graph", "jit") for net in ("chain", "shared", "branches")]
COMPARED = [*STATIC, ("jit", "between"), ("graph", "loop")]
SAMPLED = matrix_params("wide", COMPARED, {f"graph-{net}" for mode, net in COMPARED if mode == "graph"})


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    root = tmp_path_factory.mktemp("order")
    done: dict[str, tuple[Path, dict[str, bool]]] = {}

    def run(mode: str) -> tuple[Path, dict[str, bool]]:
        if mode not in done:
            folder = root / mode
            folder.mkdir()
            ended = graph_programs.run("order.py", folder, mode, cwd=folder)
            done[mode] = folder, json.loads(ended.stdout.split("SAME ", 1)[1].splitlines()[0])
        return done[mode]

    return run


def found(ran: Ran, mode: str, net: str) -> Recorded:
    return read(ran(mode)[0] / net / "step0")


def calls(recorded: Recorded) -> list[str]:
    return [name for name in recorded.names() if ".parameters_grad." not in name]


@pytest.mark.parametrize("mode", matrix_params("wide", ["dynamic", "graph", "jit"], {"dynamic", "graph"}))
def test_results_and_gradients_keep_their_bits(mode: str, ran: Ran) -> None:
    same = ran(mode)[1]
    assert len(same) >= 6
    assert [net for net, is_same in same.items() if not is_same] == []


@pytest.mark.parametrize(("mode", "net"), SAMPLED)
def test_calls_stand_as_in_a_dynamic_graph(mode: str, net: str, ran: Ran) -> None:
    dynamic, static = found(ran, "dynamic", net), found(ran, mode, net)
    assert calls(static) == calls(dynamic)
    assert static.construct == dynamic.construct


@pytest.mark.parametrize("net", ["chain", "shared", "branches"])
def test_gradients_of_parameters_stand_as_in_a_dynamic_graph(net: str, ran: Ran) -> None:
    assert found(ran, "graph", net).names() == found(ran, "dynamic", net).names()


@pytest.mark.matrix("wide")
@pytest.mark.parametrize("net", ["chain", "shared", "branches"])
def test_under_jit_there_are_the_same_gradients_of_parameters(net: str, ran: Ran) -> None:
    assert sorted(found(ran, "jit", net).names()) == sorted(found(ran, "dynamic", net).names())


@pytest.mark.matrix("wide")
def test_gradients_under_control_flow_and_recomputation_are_whole(tmp_path: Path) -> None:
    ended = graph_programs.run("conditions.py", tmp_path)
    equal = json.loads(ended.stdout.split("EQUAL ", 1)[1].splitlines()[0])
    assert len(equal) == 9
    for net, parameters in equal.items():
        assert {"a.weight", "a.bias", "fc.weight", "fc.bias"} <= parameters.keys(), net
        assert all(parameters.values()), (net, parameters)
    assert "[WARNING]" not in ended.stderr and "[ERROR]" not in ended.stderr


@pytest.mark.parametrize("mode", matrix_params("wide", ["graph", "jit"], {"graph"}))
def test_scope_keeps_the_calls_that_it_keeps_in_a_dynamic_graph(mode: str, ran: Ran) -> None:
    names = found(ran, mode, "scope").names()
    assert names == found(ran, "dynamic", "scope").names()
    assert names == [
        *(f"Cell.block.{part}.forward.1" for part in ("inp.Dense", "act.Act", "out.Dense", "Block")),
        *("Cell.block.inp.Dense.forward.2", "Cell.block.Block.forward.2"),
    ]


@pytest.mark.parametrize(("mode", "net"), SAMPLED)
def test_a_static_run_is_the_same_as_a_dynamic_one(mode: str, net: str, ran: Ran) -> None:
    assert msprobe.compare(str(ran(mode)[0] / net), str(ran("dynamic")[0] / net)).verdict == "same"


@pytest.mark.parametrize("mode", matrix_params("wide", ["graph", "jit"], {"graph"}))
def test_a_faulty_layer_is_named_first(mode: str, ran: Ran) -> None:
    result = msprobe.compare(str(ran(mode)[0] / "faulty"), str(ran("dynamic")[0] / "chain"))
    assert result.verdict == "diverged"
    first = result.summary.first_divergence
    assert first is not None
    assert "block.inp.Dense.forward.0" in str(first)
