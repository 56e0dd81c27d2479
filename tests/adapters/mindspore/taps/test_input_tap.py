"""load: recorded inputs in place of the live ones, for cells of a dynamic graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mindspore
import numpy as np
import pytest
from mindspore import Tensor, mint, nn

GOLDEN_INPUT = Tensor(np.arange(4, dtype=np.float32).reshape(1, 4))
LIVE_INPUT = Tensor(np.full((1, 4), 100, np.float32))


class Mlp(nn.Cell):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.mix, self.fc2 = nn.Dense(4, 3), Mixing(), nn.Dense(3, 2)

    def construct(self, x: Any) -> Any:
        hidden = self.fc1(x)
        return self.fc2(self.mix([hidden, 2], others={"more": (hidden,)}))


class Mixing(nn.Cell):
    def construct(self, values: Any, others: Any = None) -> Any:
        return mint.add(values[0], others["more"][0]) * values[1]


class Narrow(nn.Cell):
    """A bfloat16 value, whose file holds float32."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Identity()

    def construct(self, x: Any) -> Any:
        return self.inner(x.astype(mindspore.bfloat16))


@pytest.fixture
def net() -> Mlp:
    return Mlp()


def golden(bench: Any, model: Any) -> Path:
    live, bench.root = bench.root, bench.root.with_name("golden")
    with bench.open("L0", "tensor").collect(model):
        model(GOLDEN_INPUT)
    bench.close()
    path, bench.root = bench.root, live
    return Path(path)


def loading(bench: Any, path: Path, *cells: str, level: str = "L0", **load: Any) -> Any:
    return bench.open(level, "tensor", load={"path": str(path), "modules": list(cells), **load})


def equal(one: Any, other: Any) -> bool:
    return bool(one.asnumpy().tobytes() == other.asnumpy().tobytes())


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
@pytest.mark.parametrize("cell", ["Cell.fc1.Dense.forward.0", "Cell.mix.Mixing.forward.0"])
def test_the_recorded_input_is_computed_with_and_nothing_is_dumped(bench: Any, net: Mlp, cell: str, level: str) -> None:
    """Nested values and keywords are replaced too."""
    call = nn.Cell.__call__
    with loading(bench, golden(bench, net), cell, level=level).collect(net):
        fed, live = net(LIVE_INPUT), net(LIVE_INPUT)
    assert equal(fed, net(GOLDEN_INPUT))
    assert equal(live, net(LIVE_INPUT))  # only the first call was named
    assert not bench.root.exists()
    assert nn.Cell.__call__ is call


def test_what_is_dumped_after_loading_is_the_new_input(bench: Any, net: Mlp) -> None:
    path = golden(bench, net)
    with loading(bench, path, "Cell.fc1.Dense.forward.0", dump_after_load=True).collect(net):
        net(LIVE_INPUT)
    assert np.array_equal(bench.array("Cell.fc1.Dense.forward.0.input.0.npy"), GOLDEN_INPUT.asnumpy())


def test_gradients_end_at_the_new_input(bench: Any, net: Mlp) -> None:
    work = mindspore.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())
    with loading(bench, golden(bench, net), "Cell.fc2.Dense.forward.0").collect(net):
        _, gradients = work(LIVE_INPUT)
    by_name = dict(zip([parameter.name for parameter in net.trainable_params()], gradients, strict=True))
    assert np.any(by_name["fc2.weight"].asnumpy())
    assert not np.any(by_name["fc1.weight"].asnumpy())


def test_bfloat16_stays_bfloat16(bench: Any) -> None:
    model = Narrow()
    with loading(bench, golden(bench, model), "Cell.inner.Identity.forward.0").collect(model):
        fed = model(LIVE_INPUT)
    assert fed.dtype == mindspore.bfloat16
    assert fed.astype(mindspore.float32).asnumpy().tolist() == GOLDEN_INPUT.asnumpy().tolist()


@pytest.mark.parametrize(("load", "fed"), [({"step": [0]}, True), ({"step": [1]}, False), ({"rank": [3]}, False)])
def test_steps_and_ranks_choose_where(bench: Any, net: Mlp, load: dict[str, Any], fed: bool) -> None:
    with loading(bench, golden(bench, net), "Cell.fc1.Dense.forward.0", **load).collect(net):
        result = net(LIVE_INPUT)
    assert equal(result, net(GOLDEN_INPUT if fed else LIVE_INPUT))


def test_what_cannot_be_fed_is_told(bench: Any, net: Mlp, capsys: pytest.CaptureFixture[str]) -> None:
    path = golden(bench, net)
    broken = next(path.rglob("Cell.fc2.Dense.forward.0.input.0.npy"))
    broken.write_bytes(broken.read_bytes()[:20])
    names = ("Cell.fc1.Dense.forward.0", "Cell.fc1.Dense.forward.1", "Cell.fc2.Dense.forward.0", "Cell.fc3.A.forward.0")
    wide = Tensor(np.full((3, 4), 100, np.float32))
    with loading(bench, path, *names).collect(net):
        net(wide)
        result = net(LIVE_INPUT)
    said = capsys.readouterr().out
    assert "[1, 4], the live one is Float32 [3, 4]" in said
    assert "Cell.fc1.Dense.forward.1.input.0 was not recorded" in said
    assert f"{broken} cannot be read" in said
    assert "Cell.fc3.A.forward.0 did not come in this step" in said
    assert equal(result, net(LIVE_INPUT))
