"""Tasks and options whose work is done in core, in a dynamic graph of MindSpore: as on PyTorch, nothing less."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, mint, nn

from msprobe.core.errors import MsprobeException

X = Tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4))


class Net(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.act, self.fc2 = nn.Dense(4, 3), nn.ReLU(), nn.Dense(3, 2)

    def construct(self, x: Any, scales: Any = None) -> Any:
        hidden = self.act(self.fc1(x))
        return mint.exp(self.fc2(hidden if scales is None else hidden * scales[0]["one"]))


@pytest.fixture
def net() -> Net:
    return Net()


def train(net: Net, x: Any = X) -> list[Any]:
    work = mindspore.value_and_grad(net, None, net.trainable_params())
    loss, gradients = work(x)
    return [loss.asnumpy(), *(gradient.asnumpy() for gradient in gradients)]


def same(ours: list[Any], others: list[Any]) -> bool:
    return [array.tobytes() for array in ours] == [array.tobytes() for array in others]


def golden(bench: Any, net: Net, **section: Any) -> str:
    """A tensor dump of one step beside the bench's own folder."""
    live, bench.root = bench.root, bench.root.with_name("golden")
    with bench.open("mix", "tensor", section).collect(net):
        train(net)
    bench.close()
    path, bench.root = bench.root, live
    return str(path)


# ---- a list of statistics ----


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize("async_dump", [False, True], ids=["now", "async"])
def test_only_the_statistics_of_a_list_are_written(bench: Any, net: Net, level: str, async_dump: bool) -> None:
    chosen = {"summary_mode": ["max", "l2norm"], "tensor_list": ["Dense"]}
    with bench.open(level, section=chosen, async_dump=async_dump).collect(net):
        train(net)
    nodes = [node for body in bench.read().data.values() for node in tensors(body)]
    assert len(nodes) > 10
    assert all({"Max", "Norm"} <= node.keys() and not {"Min", "Mean"} & node.keys() for node in nodes)


def tensors(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, dict) and "shape" in node:
        return [node]
    parts = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [found for part in parts for found in tensors(part)]


# ---- request_id ----


def test_only_the_tokens_of_the_request_are_recorded(bench: Any, net: Net) -> None:
    plain = train(net)
    debugger = bench.open("mix", section={"request_id": "b"})
    for scheduled in ({"a": 1, "chatcmpl-b": 2}, {"a": 3}):
        with debugger.collect(net, scheduled_tokens=scheduled):
            assert same(train(net), plain)
    node = bench.read().data["Cell.fc1.Dense.forward.0"]["input_args"][0]
    assert (node["shape"], node["Max"], node["Min"]) == ([2, 4], 1, X.asnumpy()[1:].min())
    assert bench.steps() == ["step0"]


# ---- bench_path ----


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("summary_mode", ["statistics", "md5", "xor"])
@pytest.mark.parametrize("task", ["diff_check", "tensor"])
def test_the_call_that_differs_is_found_and_kept(bench: Any, net: Net, task: str, summary_mode: str) -> None:
    path = golden(bench, net, summary_mode=summary_mode)
    section = {"bench_path": path, "summary_mode": summary_mode, "diff_nums": 5}
    with bench.open("L0", task, section).collect(net):
        train(net)
    assert not list((bench.read().folder / "dump_tensor_data").glob("*"))
    net.fc2.weight.set_data(net.fc2.weight + 0.5)
    with bench.open("L0", task, section).collect(net):
        train(net)
    kept = {path.name.split(".forward")[0] for path in (bench.read().folder / "dump_tensor_data").glob("*")}
    assert kept == {"Cell.fc2.Dense"}


def test_a_golden_dump_without_this_step_is_told(bench: Any, net: Net, tmp_path: Path) -> None:
    debugger = bench.open("L0", "diff_check", {"bench_path": str(tmp_path)})
    with pytest.raises(MsprobeException, match=r"bench_path: .* holds nothing of step 0"):
        debugger.start(net)


# ---- nan_check ----


def test_the_first_call_that_makes_an_infinity_is_kept(bench: Any, net: Net) -> None:
    net.fc2.bias.set_data(Tensor(np.full(2, 1000, np.float32)))
    plain = train(net)
    with bench.open("L1", "nan_check").collect(net):
        assert same(train(net), plain)
    names = bench.read().names()
    assert names[-1] == "Mint.exp.0.forward" and len(names) > 3
    files = {path.name for path in (bench.read().folder / "dump_tensor_data").glob("*")}
    assert files == {"Mint.exp.0.forward.input.0.npy", "Mint.exp.0.forward.output.0.npy"}


# ---- custom_apis ----


def test_listed_functions_are_recorded(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    listed = {"mindspore.numpy": ["square"], __name__: ["Own.half", "absent"]}
    original = Own.half
    with bench.open("L1", custom_apis=listed).collect():
        _, gradient = mindspore.value_and_grad(lambda x: Own.half(mindspore.numpy.square(x)))(X)
    assert np.array_equal(gradient.asnumpy(), X.asnumpy())
    assert {"mindspore.numpy.square.0.forward", f"{__name__}.Own.half.0.forward"} <= set(bench.read().names())
    assert bench.read().data[f"{__name__}.Own.half.0.backward"]["output"][0]["Max"] == 0.5
    assert "has no function absent" in capsys.readouterr().out
    assert Own.half is original


class Own:
    @staticmethod
    def half(x: Any) -> Any:
        return x * 0.5
