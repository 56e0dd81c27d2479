"""Cell mapping: whole names first, parts of names otherwise, and nothing is rewritten twice."""

import pytest

from msprobe.compare.alignment.by_name import ExactMatch
from msprobe.compare.alignment.cell_mapping import Renamed, cell_mapping
from tests.compare.alignment.sides import named, pairs

RULES = {
    "fc1.Linear": "proj.Dense",
    "MindSpeedTELayerNormColumnParallelLinear": "TELayerNormColumnParallelLinear",
    "RowParallelLinear": "TERowParallelLinear",
    "attn": "self_attention",
}


@pytest.mark.parametrize(
    ("stem", "wanted"),
    [
        pytest.param("Module.fc1.Linear", "Module.proj.Dense", id="whole"),
        pytest.param("Cell.fc1.Linear", "Module.proj.Dense", id="cell"),
        pytest.param("Module.x.fc1.Linear", "Module.x.proj.Dense", id="part"),
        pytest.param("Module.blk.RowParallelLinear", "Module.blk.TERowParallelLinear", id="class"),
        pytest.param("Module.attn.RowParallelLinear", "Module.self_attention.TERowParallelLinear", id="two-rules"),
        pytest.param("Module.attn.attn.A", "Module.self_attention.attn.A", id="once"),
        pytest.param("Functional.attn", "Functional.attn", id="no-module"),
        pytest.param("Cell", "Cell", id="prefix-alone"),
    ],
)
def test_names(stem: str, wanted: str) -> None:
    assert cell_mapping(RULES)(stem) == wanted


def test_what_one_rule_writes_the_next_leaves_alone() -> None:
    assert cell_mapping({"a": "bb", "b": "c"})("Module.a.X") == "Module.bb.X"


def test_gradients_and_calls_inside_follow_their_module() -> None:
    target = named("Cell.fc1.Dense.forward.0", "Cell.fc1.Dense.backward.0", "Cell.fc1.Dense.parameters_grad.0")
    golden = named("Module.p.Linear.forward.0", "Module.p.Linear.backward.0", "Module.p.Linear.parameters_grad.0")
    strategy = Renamed(ExactMatch(), (cell_mapping({"fc1.Dense": "p.Linear"}),), (cell_mapping(True),))
    assert len(pairs(strategy, target, golden)) == 3
