"""What is wrong with an update is named: settings of the optimizer, its learning rate, gradients that accumulate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch

import msprobe
from msprobe.analyze.diff_analyze import diff_analyze
from msprobe.compare.records.source_lines import source_line
from msprobe.pytorch import PrecisionDebugger
from msprobe.report.summary_text import summary_text
from tests.fresh_debugger import forget
from tests.recordings import Recordings, copy_of

pytestmark = pytest.mark.torch


def record(
    folder: Path,
    level: str,
    kind: str = "SGD",
    clear: str = "before",
    clip: float = 0.0,
    steps: int = 1,
    **settings: Any,
) -> None:
    """Three steps of a small network; ``clear`` says when gradients are cleared: before, never, between."""
    forget()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    optimizer = getattr(torch.optim, kind)(model.parameters(), **{"lr": 0.1, **settings})
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": level, "task": "statistics"})
    for step in range(3):
        x = torch.randn(6, 8, generator=torch.Generator().manual_seed(step))
        debugger.start(model)
        if clear == "before":
            optimizer.zero_grad()
        model(x).square().mean().backward()
        if clear == "between":
            optimizer.zero_grad()
        if clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        if steps > 1:
            optimizer.step()  # once more
        debugger.stop()
        debugger.step()
    forget()


def clipped(folder: Path, clear: str) -> None:
    record(folder, "mix", "AdamW", clear, clip=0.01)


def two_steps(folder: Path, level: str) -> None:
    record(folder, level, steps=2)


def micro_batches(folder: Path, clears: str) -> None:
    """Two micro batches a step, with scaled gradients; they are cleared before the ``first``, or before ``each``."""
    forget()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    for step in range(2):
        x = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(step))
        debugger.start(model)
        for part in range(2):
            if clears == "each" or not part:
                optimizer.zero_grad()
            (model(x[part]).square().mean() * 64.0).backward()
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.grad.mul_(1 / 64.0)
        optimizer.step()
        debugger.stop()
        debugger.step()
    forget()


def changed(folder: Path, level: str, kind: str, clear: str, lr: float, settings: str = "{}") -> None:
    record(folder, level, kind, clear, lr=lr, **json.loads(settings))


def without_optimizers(recording: Path, folder: Path) -> Path:
    """Copy a recording as one of a tool that records no optimizers."""
    copy_of(recording, folder)
    for path in folder.glob("step*/*/dump.json"):
        document = json.loads(path.read_text())
        document.pop("optimizers", None)
        path.write_text(json.dumps(document))
    return folder


def finding(target: Path, golden: Path) -> Any:
    result = msprobe.compare(target, golden)
    assert result.verdict == "diverged"
    return result.summary.first_divergence


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("level", ["mix", "L0"])
@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
def test_another_learning_rate_is_named_with_both_values(recordings: Recordings, level: str, kind: str) -> None:
    target = recordings(changed, level, kind, "before", 0.011)
    found = finding(target, recordings(changed, level, kind, "before", 0.01))
    assert found.module == "optimizer"
    assert f"the learning rate of {kind} is 0.011 in the target, 0.01 in the golden run" in found.reason


@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
def test_another_learning_rate_shows_in_the_updates(recordings: Recordings, tmp_path: Path, kind: str) -> None:
    """The golden run was recorded by a tool that tells nothing of optimizers."""
    golden = without_optimizers(recordings(changed, "L0", kind, "before", 0.01), tmp_path / "golden")
    found = finding(recordings(changed, "L0", kind, "before", 0.011), golden)
    assert found.module == "optimizer" and found.step == 1
    assert "1.1 times those of the golden run" in found.reason


@pytest.mark.parametrize("level", ["mix", "L0"])
def test_another_setting_and_another_class_are_named(recordings: Recordings, level: str) -> None:
    golden = recordings(changed, level, "AdamW", "before", 0.01)
    decay = finding(recordings(changed, level, "AdamW", "before", 0.01, '{"weight_decay": 0.5}'), golden)
    assert "the setting weight_decay of AdamW is 0.5 in the target, 0.01 in the golden run" in decay.reason
    if level == "L0":
        other = finding(recordings(changed, level, "Adam", "before", 0.01), golden)
        assert "the optimizer is Adam in the target, AdamW in the golden run" in other.reason


@pytest.mark.parametrize(("level", "kind"), [("mix", "SGD"), ("mix", "AdamW"), ("L0", "SGD")])
def test_gradients_that_accumulate_are_named(recordings: Recordings, level: str, kind: str) -> None:
    target = recordings(changed, level, kind, "never", 0.01)
    found = finding(target, recordings(changed, level, kind, "before", 0.01))
    assert found.module == "optimizer" and "gradients accumulate in the target" in found.reason, found
    assert "leaves no record" not in found.reason  # the cause says what makes the input differ
    assert found.step == (1 if level == "mix" else 2)


def test_gradients_cleared_before_the_step_are_named(recordings: Recordings) -> None:
    target = recordings(changed, "mix", "AdamW", "between", 0.01)
    found = finding(target, recordings(changed, "mix", "AdamW", "before", 0.01))
    assert found.module == "optimizer" and "the optimizer of the target got no gradients: it ran" in found.reason, found


class Learner(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.vars = torch.nn.ParameterList([torch.randn(2, 4)])

    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, weight)


def record_given_weight(folder: Path, detached: bool) -> None:
    """One step of a module that is given its weight, which may be a copy that the optimizer does not have."""
    forget()
    torch.manual_seed(0)
    model = Learner()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=model):
        weight = model.vars[0].detach().requires_grad_() if detached else model.vars[0]
        optimizer.zero_grad()
        model(torch.randn(3, 4), weight).square().mean().backward()  # where gradients come about
        optimizer.step()
    forget()


def test_gradients_that_no_parameter_got_are_named_at_the_backward(recordings: Recordings) -> None:
    found = finding(recordings(record_given_weight, True), recordings(record_given_weight, False))
    assert "the optimizer of the target got no gradients: no backward pass reached a parameter" in found.reason, found
    assert found.source.endswith("# where gradients come about")


def test_the_line_of_cleared_gradients_says_which_run_it_is_of(recordings: Recordings, tmp_path: Path) -> None:
    """The calls of the optimizer are those of one run, the line that clears its gradients is that of the other."""
    cleared = recordings(changed, "mix", "AdamW", "between", 0.01)
    golden = recordings(changed, "mix", "AdamW", "before", 0.01)
    for pair, side, other in (((cleared, golden), "target", "golden run"), ((golden, cleared), "golden run", "target")):
        result = msprobe.compare(*pair, junit=tmp_path / "r.xml")
        found: Any = result.summary.first_divergence
        assert found.name.endswith(f"of the {other} alone")
        lines = {call.run: call.source for call in found.calls}
        assert lines[side].endswith("in record: optimizer.zero_grad()")
        assert lines[other].endswith("in record: optimizer.step()")
        analysis = diff_analyze(*pair, tmp_path / "o")
        for text in (summary_text(result.summary), (tmp_path / "r.xml").read_text(), "\n".join(analysis.lines)):
            sources = [line.strip() for line in text.splitlines() if "source" in line.partition(": ")[0]][:2]
            assert [("zero_grad" in line, "golden" in line) for line in sources] == [
                (side == "target", False),
                (side == "golden run", True),
            ], text
        (call,) = analysis.document["rank_0"]
        assert found.source in map(source_line, ([frame] for frame in call["stack_info"]))


@pytest.mark.parametrize("level", ["mix", "L0"])
def test_another_optimizer_is_named_beside_another_setting(recordings: Recordings, level: str) -> None:
    """The classes have other defaults too (weight decay): the class says more than one of them."""
    target = recordings(changed, level, "SGD", "before", 0.01)
    found = finding(target, recordings(changed, level, "AdamW", "before", 0.01))
    assert found.module == "optimizer" and found.reason.startswith(
        "the optimizer is SGD in the target, AdamW in the golden run"
    ), found


def test_a_wrong_weight_in_a_later_step_is_no_learning_rate(recordings: Recordings, tmp_path: Path) -> None:
    golden = recordings(changed, "L0", "SGD", "before", 0.01)
    target = copy_of(golden, tmp_path / "target")
    (path,) = (target / "step1").glob("*/dump.json")
    document = json.loads(path.read_text())
    weight = document["data"]["Module.0.Linear.forward.0"]["parameters"]["weight"]
    weight["Max"], weight["Norm"] = weight["Max"] * 1.5, weight["Norm"] * 1.1
    path.write_text(json.dumps(document))
    found = finding(target, golden)
    assert found.module == "0.Linear" and found.reason.startswith("parameters.weight"), found


@pytest.mark.parametrize("level", ["mix", "L0"])
def test_the_line_of_a_wrong_update_is_that_of_the_step(recordings: Recordings, level: str) -> None:
    target = recordings(changed, level, "SGD", "before", 0.011)
    found = finding(target, recordings(changed, level, "SGD", "before", 0.01))
    assert found.source.endswith("in record: optimizer.step()") and found.golden_source == found.source
    assert found.stack[0].startswith(f"File {__file__}, line ")


@pytest.mark.parametrize("swapped", [False, True])
def test_gradients_that_accumulate_are_named_where_they_are_computed_or_cleared(
    recordings: Recordings, swapped: bool
) -> None:
    """Clipping has multiplied the gradients of the steps before by a number."""
    kept, cleared = recordings(clipped, "never"), recordings(clipped, "before")
    found = finding(*((cleared, kept) if swapped else (kept, cleared)))
    assert f"gradients accumulate in the {'golden run' if swapped else 'target'}" in found.reason and found.step == 1
    assert "model(x).square().mean().backward()" in (found.golden_source if swapped else found.source)
    assert "optimizer.zero_grad()" in (found.source if swapped else found.golden_source)


@pytest.mark.parametrize("swapped", [False, True])
def test_micro_batches_whose_gradients_are_cleared_are_named_where_they_are_cleared(
    recordings: Recordings, swapped: bool
) -> None:
    """The first wrong value is what divides the scaled gradients, which belongs to no module and no optimizer."""
    each, first = recordings(micro_batches, "each"), recordings(micro_batches, "first")
    found = finding(*((first, each) if swapped else (each, first)))
    keeps, clears = ("target", "golden run") if swapped else ("golden run", "target")
    assert f"gradients accumulate in the {keeps}: the {clears} clears them (zero_grad)" in found.reason
    assert found.step == 0 and found.module == "optimizer"
    assert "optimizer.zero_grad()" in (found.golden_source if swapped else found.source)
    assert "* 64.0).backward()" in (found.source if swapped else found.golden_source)


@pytest.mark.parametrize("swapped", [False, True])
def test_a_step_more_is_named_where_it_is_called(recordings: Recordings, swapped: bool) -> None:
    pair = recordings(two_steps, "mix"), recordings(changed, "mix", "SGD", "before", 0.1)
    found = finding(*(reversed(pair) if swapped else pair))
    numbers = "1 step in the target, 2" if swapped else "2 steps in the target, 1"
    assert f"optimizers make {numbers} in the golden run" in found.reason and found.step == 0
    assert found.module == "optimizer" and found.source.endswith("# once more")


def record_two_optimizers(folder: Path, both: bool) -> None:
    forget()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    first, last = (torch.optim.SGD(model[number].parameters(), lr=0.1) for number in (0, 2))
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    for _ in range(2):
        with debugger.collect(model=model):
            model.zero_grad()
            model(torch.randn(3, 4)).square().mean().backward()
            if both:
                first.step()  # of the first layer
            last.step()
    forget()


def test_the_step_of_an_optimizer_that_one_side_leaves_out_is_named(recordings: Recordings) -> None:
    found = finding(recordings(record_two_optimizers, False), recordings(record_two_optimizers, True))
    assert "optimizers make 1 step in the target, 2 in the golden run" in found.reason, found
    assert found.source.endswith("# of the first layer")


def record_follower(folder: Path, rate: float) -> None:
    """Two steps of a network with a copy that follows it by an average of their weights, outside of the steps."""
    forget()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    follower = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    for _ in range(2):
        x = torch.randn(3, 4)
        with debugger.collect(model=[model, follower]):
            with torch.no_grad():
                wanted = follower(x)
            optimizer.zero_grad()
            (model(x) - wanted).square().mean().backward()
            optimizer.step()
        for parameter, own in zip(follower.parameters(), model.parameters(), strict=True):
            parameter.data.lerp_(own.data, rate)
    forget()


def test_gradients_of_one_step_are_not_said_to_accumulate(recordings: Recordings) -> None:
    found = finding(recordings(record_follower, 0.5), recordings(record_follower, 0.05))
    assert found.step == 1 and found.slot == "parameters.weight"
    assert "accumulate" not in found.reason, found.reason


def record_clearing(folder: Path, inside: bool, scale: float) -> None:
    """Steps with gradients that a hook scales without a record; they are cleared in the step, or before it begins."""
    forget()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model[0].weight.register_hook(lambda gradient: torch.from_numpy(gradient.numpy() * scale))
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "L1", "task": "statistics"})
    for _ in range(2):
        if not inside:
            optimizer.zero_grad()
        debugger.start(model)
        loss = model(torch.randn(6, 8)).square().mean()
        if inside:
            optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        optimizer.step()
        debugger.stop()
        debugger.step()
    forget()


def test_gradients_that_are_cleared_before_a_step_are_not_said_to_accumulate(recordings: Recordings) -> None:
    assert msprobe.compare(recordings(record_clearing, True, 1.0), recordings(record_clearing, False, 1.0)).verdict == (
        "same"
    )
    found = finding(recordings(record_clearing, True, 3.0), recordings(record_clearing, False, 1.0))
    assert "accumulate" not in found.reason, found.reason


def test_settings_differ_though_the_optimizer_is_computed_otherwise(recordings: Recordings) -> None:
    """The first step of Adam does not depend on the second moment: no value of step 0 differs."""
    golden = recordings(changed, "mix", "AdamW", "before", 0.01, '{"betas": [0.9, 0.95], "foreach": false}')
    same = recordings(changed, "mix", "AdamW", "before", 0.01, '{"betas": [0.9, 0.95], "foreach": true}')
    assert msprobe.compare(same, golden).verdict == "same"
    found = finding(
        recordings(changed, "mix", "AdamW", "before", 0.01, '{"betas": [0.9, 0.99], "foreach": true}'), golden
    )
    assert found.module == "optimizer" and found.step == 0
    assert "the setting betas of AdamW is [0.9, 0.99] in the target, [0.9, 0.95] in the golden run" in found.reason
    assert found.source.endswith("optimizer.step()")


class Autocast(torch.nn.Module):
    """A network whose last layer is inside the region of autocast, or behind it."""

    def __init__(self, inside: bool, factor: float) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)
        self.inside, self.factor = inside, factor

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden = self.first(inputs) * self.factor
            if self.inside:
                return self.last(hidden.relu())
        return self.last(hidden.float().relu())


def autocast(folder: Path, inside: bool, factor: float) -> None:
    forget()
    torch.manual_seed(0)
    model, inputs = Autocast(inside, factor), torch.randn(6, 8)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model):
        model(inputs).float().square().mean().backward()
    forget()


def test_a_smaller_region_of_autocast_names_the_option_that_compares_it(recordings: Recordings) -> None:
    golden, smaller = recordings(autocast, True, 1.0), recordings(autocast, False, 1.0)
    found = finding(smaller, golden)
    assert found.kind == "dtype" and "another region of autocast), --ignore-dtype compares" in found.reason
    assert "leaves no record" not in found.reason
    assert msprobe.compare(smaller, golden, ignore_dtype=True).verdict == "same"
    wrong = msprobe.compare(recordings(autocast, False, 1.3), golden, ignore_dtype=True)
    assert wrong.verdict == "diverged"
