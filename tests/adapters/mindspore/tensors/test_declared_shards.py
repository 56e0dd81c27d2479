"""What ``shard`` notes of tensors and cells of MindSpore, and which calls it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import mindspore
import numpy as np
import pytest
from mindspore import Parameter, Tensor, mint, nn

from msprobe.adapters.mindspore.tensors import declared_shards
from msprobe.core.dump.record.declared_shards import ATTRIBUTE
from msprobe.core.errors import MsprobeException
from msprobe.mindspore import PrecisionDebugger
from msprobe.mindspore.parallel import shard
from tests.fresh_debugger import forget
from tests.ranks import run_mindspore_ranks

pytestmark = pytest.mark.mindspore
PROGRAM = Path(__file__).parents[1] / "programs" / "declared_groups.py"


@pytest.fixture(autouse=True)
def no_debugger() -> Iterator[None]:
    """No debugger of an earlier test, nor of this one afterwards."""
    forget("msprobe.mindspore")
    yield
    forget("msprobe.mindspore")


@pytest.fixture
def two_ranks(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The process takes itself for one of two ranks."""
    monkeypatch.setattr(declared_shards, "_ranks", lambda group: [0, 1] if group is None else [0, int(group)])
    return monkeypatch


def parameter() -> Parameter:
    return Parameter(Tensor(np.ones((3, 4), np.float32)), name="weight")


@pytest.mark.parametrize("dim", [2, -3, True, "0"])
def test_an_axis_that_a_parameter_lacks_is_one_clear_error(dim: object) -> None:
    with pytest.raises(MsprobeException, match=r"is no axis of \w+ \(\(3, 4\)\)"):
        shard(parameter(), dim)  # type: ignore[arg-type]


def test_a_cell_without_such_an_axis_is_an_error() -> None:
    with pytest.raises(MsprobeException, match=re.escape("dim=1 is no axis of LayerNorm ((4,), (4,))")):
        shard(nn.LayerNorm([4]), 1)
    with pytest.raises(MsprobeException, match="no parameters"):
        shard(nn.ReLU(), 0)


def test_a_group_without_a_job_is_an_error() -> None:
    with pytest.raises(MsprobeException, match="communication is not initialised"):
        shard(parameter(), 0, "hccl_world_group")


def test_the_same_program_on_one_process_says_nothing() -> None:
    weight = parameter()
    assert shard(weight, 0) is weight
    assert not hasattr(weight, ATTRIBUTE)


def test_an_activation_is_not_touched_without_a_debugger() -> None:
    value = Tensor(np.ones(3, np.float32))
    assert shard(value, 7, "what nobody looks at") is value
    assert not hasattr(value, ATTRIBUTE)


def test_what_is_no_tensor_is_an_error() -> None:
    with pytest.raises(MsprobeException, match=r"expected a tensor or a cell, got \[1\]"):
        shard([1], 0)  # type: ignore[type-var]


@pytest.mark.usefixtures("two_ranks")
def test_several_groups_cut_one_tensor() -> None:
    weight = parameter()
    for dim, group in ((0, None), (1, "2"), (-1, None)):
        shard(weight, dim, group)
    assert getattr(weight, ATTRIBUTE) == [{"dim": 1, "group": [0, 2]}, {"dim": 1, "group": [0, 1]}]


@pytest.mark.usefixtures("two_ranks")
def test_a_cell_declares_its_parameters_that_have_the_axis() -> None:
    layer = shard(nn.Dense(4, 3), 1)
    assert getattr(layer.weight, ATTRIBUTE) == [{"dim": 1, "group": [0, 1]}]
    assert not hasattr(layer.bias, ATTRIBUTE)


@pytest.mark.parametrize("summary", ["statistics", "md5", "xor"])
def test_every_kind_of_record_says_it(tmp_path: Path, two_ranks: pytest.MonkeyPatch, summary: str) -> None:
    fields = {"task": "statistics", "level": "L1", "dump_path": str(tmp_path), "summary_mode": summary}
    debugger = PrecisionDebugger(fields)
    whole, transposed = Tensor(np.ones((3, 4), np.float32)), Tensor(np.ones((4, 3), np.float32)).T
    half = whole.astype(mindspore.bfloat16)
    for each in (whole, transposed, half):
        shard(each, -1)
    with debugger.collect():
        mint.add(whole, transposed)
        mint.neg(half)
    (path,) = tmp_path.glob("step0/*/dump.json")
    data = json.loads(path.read_text())["data"]
    record = data["Mint.add.0.forward"]
    assert [each.get("shard") for each in record["input_args"]] == [[{"dim": 1, "group": [0, 1]}]] * 2
    assert "shard" not in record["output"][0]
    assert data["Mint.neg.0.forward"]["input_args"][0]["shard"] == [{"dim": 1, "group": [0, 1]}]


@pytest.mark.matrix("layouts")
@pytest.mark.slow
def test_groups_of_real_ranks(tmp_path: Path) -> None:
    run_mindspore_ranks(PROGRAM, 2, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]
