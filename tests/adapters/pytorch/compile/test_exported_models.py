"""Exported programs: recorded under the names, lines and values of the model that they were made of."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from msprobe.jobs.compare import compare  # noqa: E402

functional = torch.nn.functional
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # torch.export warns of its own code


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.act = nn.LayerNorm(8), nn.Linear(8, 8), nn.GELU()

    def forward(self, x: Any, mask: Any, scale: float = 0.5) -> Any:
        h = self.act(self.up(self.norm(x))) * scale
        h = functional.normalize(functional.silu(h) + torch.sigmoid(h), dim=-1)
        return 2 * h + torch.softmax(x @ x.transpose(-1, -2) + mask, -1) @ x


class Model(nn.Module):
    """A shared block, a keyword argument, statistics in place, a part without gradients, a nested result."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.block, self.norm = nn.Embedding(20, 8), Block(), nn.BatchNorm1d(6)
        self.attention, self.head = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 20)

    def forward(self, ids: Any, *, mask: Any) -> dict[str, Any]:
        x = self.norm(self.block(self.embedding(ids), mask))
        x = self.block(x, mask)
        x = x + self.attention(x, x, x)[0]
        with torch.no_grad():
            before = self.head(x)
        return {"loss": functional.cross_entropy(self.head(x).flatten(0, 1), ids.flatten()), "before": before}


IDS, MASK = torch.arange(18).reshape(3, 6) % 20, torch.linspace(-1, 1, 36).reshape(6, 6)


class Trained:
    """The model in both forms, with the same parameters."""

    def __init__(self, **options: Any) -> None:
        torch.manual_seed(0)
        self.eager = Model()
        self.program = torch.export.export(copy.deepcopy(self.eager), (IDS,), {"mask": MASK}, **options)

    def both(self) -> tuple[Any, Any]:
        exported = self.program.module()
        exported.load_state_dict(copy.deepcopy(self.eager.state_dict()))
        return copy.deepcopy(self.eager), exported


def dumped(bench: Any, model: Any, level: str = "mix", section: Any = None, ids: Any = IDS) -> tuple[Any, Path, Any]:
    bench.root = bench.root.parent / f"dump{len(list(bench.root.parent.iterdir()))}"
    debugger = bench.open(level, section=section)
    debugger.start(model=model)
    result = model(ids, mask=MASK)
    result["loss"].backward()
    debugger.stop()
    debugger.step()
    return bench.read(), bench.root, result


def names(found: Any) -> list[str]:
    """The entries, in any order: those of two branches of a backward pass have none."""
    return sorted(name for name in found.data if "out_proj" not in name)  # never called, so that no node has its class


def of_the_program(frames: list[str]) -> list[str]:
    return [frame for frame in frames if "test_exported_models.py" in frame and "in forward" in frame]


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize("strict", [False, True])
def test_records_and_lines_are_those_of_the_model(bench: Any, strict: bool) -> None:
    eager, exported = Trained(strict=strict).both()
    expected, golden, results = dumped(bench, eager)
    found, target, results_of_program = dumped(bench, exported)
    assert names(found) == names(expected)
    assert compare(str(target), str(golden)).summary.verdict == "same"
    assert torch.equal(results["loss"], results_of_program["loss"])
    gradients = dict(eager.named_parameters())
    for name, parameter in exported.named_parameters():
        assert torch.equal(parameter.grad, gradients[name].grad)
    lines = {name for name in names(expected) if name.endswith(".forward") or ".forward." in name}
    if strict:  # Dynamo keeps no lines of torch
        lines = {name for name in lines if "/torch/nn/" not in expected.frames(name)[0]}
    assert len(lines) > 15
    for name in lines:
        assert of_the_program(found.frames(name)) == of_the_program(expected.frames(name)), name
        assert found.construct[name] == expected.construct[name]


def test_a_saved_program_and_one_inside_of_a_model(bench: Any, tmp_path: Path) -> None:
    trained = Trained()
    eager, _ = trained.both()
    torch.export.save(trained.program, tmp_path / "program.pt2")
    loaded = torch.export.load(tmp_path / "program.pt2").module()

    class Around(nn.Module):
        def __init__(self, inner: Any) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, ids: Any, mask: Any) -> Any:
            return self.inner(ids, mask=mask)

    expected, golden, _ = dumped(bench, Around(eager))
    found, target, _ = dumped(bench, Around(loaded))
    assert "Module.inner.Model.forward.0" in found.data
    assert names(found) == names(expected)
    assert compare(str(target), str(golden)).summary.verdict == "same"


def test_a_wrong_node_is_named_by_module_and_line(bench: Any) -> None:
    eager, exported = Trained().both()
    _, golden, _ = dumped(bench, eager)
    node = next(node for node in exported.graph.nodes if node.target is torch.ops.aten.gelu.default)
    node.target = torch.ops.aten.relu.default
    exported.recompile()
    _, target, _ = dumped(bench, exported)
    first = compare(str(target), str(golden)).summary.first_divergence
    assert first is not None
    assert "act" in f"{first.name} {first.module}"


def test_level_of_modules(bench: Any) -> None:
    eager, exported = Trained().both()
    expected, _, _ = dumped(bench, eager, "L0")
    found, _, _ = dumped(bench, exported, "L0")
    assert names(found) == names(expected)
    assert len(found.data) > 20


def test_operators_inside_are_those_of_the_model(bench: Any) -> None:
    eager, exported = Trained().both()
    section = {"list": ["Aten."]}
    expected, _, _ = dumped(bench, eager, "mix", section)
    found, _, _ = dumped(bench, exported, "mix", section)
    calls = [[name for name in one.data if "detach" not in name] for one in (expected, found)]
    assert calls[0] == calls[1]
    assert "Aten.gelu_backward.0.forward" in found.data


def test_other_sizes(bench: Any) -> None:
    dynamic = {"ids": {0: torch.export.Dim("batch")}, "mask": None}
    eager, exported = Trained(dynamic_shapes=dynamic).both()
    ids = torch.arange(30).reshape(5, 6) % 20
    _, golden, _ = dumped(bench, eager, ids=ids)
    found, target, _ = dumped(bench, exported, ids=ids)
    assert found.data["Module.head.Linear.forward.0"]["input_args"][0]["shape"] == [5, 6, 8]
    assert compare(str(target), str(golden)).summary.verdict == "same"


def test_outside_of_start_and_stop_nothing_is_in_the_way(bench: Any) -> None:
    _, exported = Trained().both()
    forward = type(exported).forward
    dumped(bench, exported)
    assert type(exported).forward is forward
    debugger = bench.open("L0")
    debugger.start(model=exported)
    copied = copy.deepcopy(exported)  # as it is without msprobe
    assert type(copied).forward.__code__.co_code == forward.__code__.co_code
    debugger.stop()


@pytest.mark.slow
def test_a_compiled_program_runs(bench: Any) -> None:
    _, exported = Trained().both()
    debugger = bench.open("L0")
    debugger.start(model=exported)
    compiled = torch.compile(copy.deepcopy(exported), backend="aot_eager")(IDS, mask=MASK)
    assert torch.equal(compiled["loss"], exported(IDS, mask=MASK)["loss"])
    debugger.stop()


def test_errors_of_the_program_are_its_own(bench: Any) -> None:
    _, exported = Trained().both()
    debugger = bench.open("mix")
    debugger.start(model=exported)
    with pytest.raises(Exception, match=r"shape|size|Guard"):
        exported(IDS[:, :3], mask=MASK)
    assert exported(IDS, mask=MASK)["loss"].isfinite()
    debugger.stop()
