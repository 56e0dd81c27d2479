"""The demo's model is a sound transformer, its faults change the result, and msprobe names each of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from examples.byte_transformer.faults import FAULTS  # noqa: E402
from examples.byte_transformer.model import ByteTransformer, Shape  # noqa: E402
from tests import forked  # noqa: E402

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "byte_transformer"
pytestmark = pytest.mark.torch


def build(fault: str | None = None) -> ByteTransformer:
    torch.manual_seed(0)
    model = ByteTransformer(Shape())
    if fault:
        planted = FAULTS[fault]
        setattr(model.get_submodule(planted.module), planted.attribute, planted.value)
    return model


def text(seed: int = 0) -> torch.Tensor:
    return torch.randint(256, (2, 16), generator=torch.Generator().manual_seed(seed))


def run(*command: object) -> str:
    result = forked.run(command, cwd=EXAMPLE.parents[1])
    assert result.returncode == 0, (result.stdout + result.stderr).decode()
    return result.stdout.decode()


def test_a_byte_never_sees_its_future() -> None:
    model, before = build(), text()
    after = before.clone()
    after[:, 10:] = (after[:, 10:] + 1) % 256
    assert torch.equal(model(before)[:, :10], model(after)[:, :10])
    assert not torch.allclose(model(before)[:, 10:], model(after)[:, 10:])


def test_order_matters() -> None:
    same = torch.full((1, 8), 65)
    swapped = torch.tensor([[66, 67, *same[0, 2:].tolist()]])
    other = torch.tensor([[67, 66, *same[0, 2:].tolist()]])
    assert not torch.allclose(build()(swapped)[:, -1], build()(other)[:, -1])


def test_it_learns() -> None:
    model, window = build(), text()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(10):
        loss = torch.nn.functional.cross_entropy(model(window[:, :-1]).flatten(0, 1), window[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_replaces_an_attribute_and_changes_the_result(fault: str) -> None:
    planted = FAULTS[fault]
    assert getattr(build().get_submodule(planted.module), planted.attribute) != planted.value
    assert not torch.equal(build()(text()), build(fault)(text()))


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("good")
    run(EXAMPLE / "train.py", "--out", out)
    return out


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_msprobe_names_the_fault(fault: str, good: Path, tmp_path: Path) -> None:
    summary = tmp_path / "summary.json"
    run(EXAMPLE / "train.py", "--out", tmp_path / "bad", "--fault", fault)
    run("-m", "msprobe", "compare", "-tp", tmp_path / "bad", "-gp", good, "-o", tmp_path, "--json", summary)
    assert "That is the planted fault." in run(EXAMPLE / "culprit.py", summary, fault)


@pytest.mark.slow
def test_a_rerun_is_the_same(good: Path, tmp_path: Path) -> None:
    summary = tmp_path / "summary.json"
    run(EXAMPLE / "train.py", "--out", tmp_path / "again")
    run("-m", "msprobe", "compare", "-tp", tmp_path / "again", "-gp", good, "-o", tmp_path, "--json", summary)
    assert json.loads(summary.read_text(encoding="utf-8"))["verdict"] == "same"
