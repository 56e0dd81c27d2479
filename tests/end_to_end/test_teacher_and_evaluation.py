"""A training with a teacher, whose average of weights is evaluated after each step, recorded by ``msprobe run``.

Written with modules and one batch, with modules in two portions, and with functions of tensors alone. The teacher has
no gradient, and the evaluation no record: the loss shows the one, and what the program prints the other.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import msprobe  # noqa: E402
from msprobe.adapters.pytorch.attach.attachment import Attachment  # noqa: E402
from msprobe.adapters.pytorch.attach.collection import debugger_steps  # noqa: E402
from tests.fresh_debugger import forget  # noqa: E402
from tests.recordings import Recordings  # noqa: E402

pytestmark = pytest.mark.torch
nn, F, Tensor = torch.nn, torch.nn.functional, torch.Tensor
STEPS, ROWS = 3, 8


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 12), nn.Linear(12, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.relu(self.first(x)))


def data(step: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(step)
    return torch.randn(ROWS, 6, generator=generator), torch.randn(ROWS, 6, generator=generator)


def encoders() -> tuple[Encoder, Encoder, Encoder]:
    torch.manual_seed(3)
    student, teacher, average = Encoder(), Encoder(), Encoder()
    average.load_state_dict(student.state_dict())
    return student, teacher.requires_grad_(False), average.requires_grad_(False)


def whole(decay: float, temperature: float) -> None:
    student, teacher, average = encoders()
    optimizer = torch.optim.SGD(student.parameters(), lr=0.5)
    for step in range(STEPS):
        x, held = data(step)
        with torch.no_grad():
            wanted = teacher(x)
        loss = F.mse_loss(student(x), torch.softmax(wanted / temperature, -1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(average.parameters(), student.parameters(), strict=True):
                slow.lerp_(fast, 1.0 - decay)
            score = average(held).square().mean()
        print(step, loss.item(), score.item())


def in_portions(decay: float, temperature: float) -> None:
    student, teacher, average = encoders()
    optimizer = torch.optim.SGD(student.parameters(), lr=0.5)
    for step in range(STEPS):
        x, held = data(step)
        optimizer.zero_grad()
        total = 0.0
        for part in x.chunk(2):
            with torch.no_grad():
                wanted = torch.softmax(teacher(part).div(temperature), -1)
            loss = (student(part) - wanted).square().mean() / 2
            loss.backward()
            total += loss.item()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(average.parameters(), student.parameters(), strict=True):
                slow.mul_(decay).add_(fast, alpha=1.0 - decay)
            score = average(held).pow(2).mean()
        print(step, total, score.item())


def with_functions(decay: float, temperature: float) -> None:
    student, teacher, average = ([one.detach().clone() for one in model.parameters()] for model in encoders())
    for one in student:
        one.requires_grad_()

    def encode(weights: list[Tensor], x: Tensor) -> Tensor:
        return torch.addmm(weights[3], torch.addmm(weights[1], x, weights[0].T).clamp(min=0), weights[2].T)

    for step in range(STEPS):
        x, held = data(step)
        wanted = torch.exp(encode(teacher, x) / temperature)
        wanted = wanted / wanted.sum(-1, keepdim=True)
        loss = ((encode(student, x) - wanted) ** 2).mean()
        gradients = torch.autograd.grad(loss, student)
        with torch.no_grad():
            for weight, gradient in zip(student, gradients, strict=True):
                weight -= 0.5 * gradient
            average = [decay * slow + (1.0 - decay) * fast for slow, fast in zip(average, student, strict=True)]
            score = (encode(average, held) ** 2).mean()
        print(step, loss.item(), score.item())


def evaluated(without_gradients: bool, averaged: bool) -> None:
    """Train, then evaluate the student or an average of its weights, in three calls from one place."""
    student, _, average = encoders()
    optimizer = torch.optim.SGD(student.parameters(), lr=0.5)
    for step in range(STEPS):
        loss = student(data(step)[0]).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        average.load_state_dict(student.state_dict())
        print(step, loss.item())
    with torch.set_grad_enabled(not without_gradients):
        model = (average if averaged else student).eval()
        for step in range(3):
            print(step, model(data(step)[1]).square().mean().item())


def record(folder: Path, program: str, decay: Any = 0.75, temperature: Any = 0.5) -> None:
    settings = {"task": "statistics", "level": "mix", "dump_path": f"{folder}/dump"}
    (folder / "c.json").write_text(json.dumps(settings))
    forget()
    attachment = Attachment(debugger_steps(f"{folder}/c.json", None, 0), None)
    attachment.install()
    try:
        globals()[program](decay, temperature)
    finally:
        attachment.finish()
        attachment.conclude()
        attachment.remove()
    forget()


@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
@pytest.mark.parametrize("program", ["in_portions", "with_functions"])
def test_the_same_in_other_code(recordings: Recordings, program: str, turned: bool) -> None:
    pair = [recordings(record, one) / "dump" for one in (program, "whole")]
    assert [len(list(dump.glob("step*"))) for dump in pair] == [STEPS, STEPS]
    summary = msprobe.compare(*(pair[::-1] if turned else pair)).summary
    assert summary.verdict == "same", summary.first_divergence


@pytest.mark.parametrize("program", ["whole", "with_functions"])
def test_a_wrong_average_is_found_where_it_is_read(recordings: Recordings, program: str) -> None:
    wrong, right = (recordings(record, *arguments) / "dump" for arguments in ((program, 0.5), ("whole",)))
    first = msprobe.compare(wrong, right).summary.first_divergence
    assert first is not None
    if program != "whole":
        assert first.step == 0
        assert "score.item()" in first.source
        assert "the target reads" in first.reason


@pytest.mark.parametrize("program", ["whole", "in_portions", "with_functions"])
def test_a_wrong_teacher_is_a_difference(recordings: Recordings, program: str) -> None:
    wrong = recordings(record, program, 0.75, 0.6) / "dump"
    summary = msprobe.compare(wrong, recordings(record, "whole") / "dump").summary
    assert summary.verdict == "diverged"
    assert summary.first_divergence is not None
    assert summary.first_divergence.step == 0


@pytest.mark.parametrize("averaged", [False, True], ids=["trained", "averaged"])
@pytest.mark.parametrize("without_gradients", [False, True], ids=["autograd", "no_grad"])
def test_what_an_evaluation_reads_belongs_to_the_step_before(
    recordings: Recordings, without_gradients: bool, averaged: bool
) -> None:
    dump = recordings(record, "evaluated", without_gradients, averaged) / "dump"
    documents = sorted(dump.glob("step*/*/dump.json"))
    reads = [json.loads(path.read_text())["reads"] for path in documents]
    assert [len(own) for own in reads] == [1] * (STEPS - 1) + [1 + 3]
    assert all("model(data(step)[1])" in "".join(read["stack"]) for read in reads[-1][1:])
    other = recordings(record, "evaluated", not without_gradients, averaged) / "dump"
    assert msprobe.compare(dump, other).verdict == "same"
