"""An argument by position, by name or at its default is one argument."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import msprobe
from msprobe.compare.rows.summary import CompareSummary
from tests.compare.dumps import call, gradient, number, tensor, write
from tests.fresh_debugger import forget
from tests.recordings import Recordings

torch = pytest.importorskip("torch")
F, nn = torch.nn.functional, torch.nn
WORDS: dict[str, tuple[Callable[[Any, Any], Any], ...]] = {
    "layer_norm": (
        lambda h, w: F.layer_norm(h, (8,), w, w.exp()),
        lambda h, w: F.layer_norm(h, normalized_shape=w.shape, bias=w.exp(), weight=w, eps=1e-5),
        lambda h, w: F.layer_norm(h, normalized_shape=(8,), bias=w.exp(), weight=w, eps=1.1e-5),
    ),
    "relu": (lambda h, w: F.relu(h), lambda h, w: nn.ReLU()(h), lambda h, w: nn.Hardtanh(0.0, 0.5)(h)),
    "leaky_relu": (lambda h, w: F.leaky_relu(h), lambda h, w: nn.LeakyReLU()(h), lambda h, w: nn.LeakyReLU(0.02)(h)),
    "cross_entropy": (
        lambda h, w: F.cross_entropy(h, torch.tensor([0, 1, 2, 3, 4])),
        lambda h, w: nn.CrossEntropyLoss()(h, torch.tensor([0, 1, 2, 3, 4])),
        lambda h, w: nn.CrossEntropyLoss(ignore_index=4)(h, torch.tensor([0, 1, 2, 3, 4])),
    ),
    "dropout": (
        lambda h, w: F.dropout(h, 0.0),
        lambda h, w: nn.Dropout(0.0)(h),
        lambda h, w: nn.Dropout(0.0).eval()(h),
    ),
    "attention": (
        lambda h, w: F.scaled_dot_product_attention(h[None], h[None], h[None], None, 0.0, False),
        lambda h, w: F.scaled_dot_product_attention(value=h[None], query=h[None], key=h[None]),
        lambda h, w: F.scaled_dot_product_attention(h[None], h[None], h[None], is_causal=True),
    ),
    "sum": (lambda h, w: h.sum(1), lambda h, w: h.sum(axis=1, keepdims=False), lambda h, w: h.sum(dim=0)),
    "convolution": (
        lambda h, w: F.conv2d(h.reshape(1, 1, 5, 8), w.reshape(1, 1, 2, 4), None, 1, 1),
        lambda h, w: F.conv2d(h.reshape(1, 1, 5, 8), w.reshape(1, 1, 2, 4), padding=(1, 1), stride=(1, 1)),
        lambda h, w: F.conv2d(h.reshape(1, 1, 5, 8), w.reshape(1, 1, 2, 4), padding=(1, 2), stride=(1, 1)),
    ),
}
"""Function -> the call of the golden run, the same in other words, and one with another argument."""


def record(folder: Path, name: str, version: int) -> None:
    from msprobe.pytorch import PrecisionDebugger

    forget()
    torch.manual_seed(0)
    model, weight = nn.Linear(6, 8), nn.Parameter(torch.linspace(0.5, 1.5, 8))
    rows = torch.randn(5, 6)
    debugger = PrecisionDebugger(task="statistics", level="mix", dump_path=str(folder))
    with debugger.collect(model):
        WORDS[name][version](model(rows), weight).pow(2).sum().backward()
    forget()


@pytest.mark.torch
@pytest.mark.parametrize("turned", [False, True], ids=["in_target", "in_golden"])
@pytest.mark.parametrize("name", WORDS)
def test_a_call_in_other_words_is_the_same(name: str, turned: bool, recordings: Recordings) -> None:
    sides = [recordings(record, name, version) for version in ((0, 1) if turned else (1, 0))]
    summary = msprobe.compare(*sides).summary
    assert summary.verdict == "same", summary.first_divergence


@pytest.mark.torch
@pytest.mark.parametrize("name", WORDS)
def test_another_argument_is_named_however_it_is_written(name: str, recordings: Recordings) -> None:
    for sides in ((2, 0), (0, 2)):
        found = msprobe.compare(*(recordings(record, name, side) for side in sides)).summary.first_divergence
        assert found is not None and Path(__file__).name in found.source, found


def compared(folder: Path, target: dict[str, Any], golden: dict[str, Any], name: str) -> CompareSummary:
    sides = [write(folder / side, {name: body}) for side, body in (("t", target), ("g", golden))]
    return msprobe.compare(*sides).summary


def test_a_default_that_differs_is_shown_beside_what_the_call_gives(tmp_path: Path) -> None:
    given = call([tensor()], [tensor()], eps=number(1e-6), normalized_shape=[number(8)])
    summary = compared(tmp_path, given, call([tensor(), [number(8)]], [tensor()]), "Functional.layer_norm.0.forward")
    assert summary.first_divergence is not None
    assert "argument 1e-06 in the target, 1e-05 in the golden run" in summary.first_divergence.reason


@pytest.mark.parametrize("name", ["Functional.nobody_knows.0.forward", "Functional.relu.0.forward"])
def test_arguments_that_fit_no_signature_are_compared_as_they_are_written(name: str, tmp_path: Path) -> None:
    given = call([tensor()], [tensor()], unknown=number(False))
    assert compared(tmp_path, given, call([tensor()], [tensor()]), name).verdict == "diverged"


def test_overloads_fit_both_calls_or_none(tmp_path: Path) -> None:
    """A sum of everything has no dimension that the other call could leave out."""
    whole, rows = call([tensor()], [tensor()]), call([tensor()], [tensor()], dim=number(1))
    assert compared(tmp_path, whole, rows, "Tensor.sum.0.forward").verdict == "diverged"


@pytest.mark.parametrize("name", ["Functional.ctc_loss.0.backward", "Functional.nobody_knows.0.backward"])
def test_no_gradient_is_null_or_nothing(name: str, tmp_path: Path) -> None:
    with_null, without = gradient([tensor()], [tensor(), None]), gradient([tensor()], [tensor()])
    assert compared(tmp_path, with_null, without, name).verdict == "same"
    lost = gradient([tensor()], [tensor(), tensor()])
    assert compared(tmp_path / "lost", lost, without, name).verdict == "diverged"


def test_the_published_policy_compares_what_is_written(tmp_path: Path) -> None:
    sides = [
        write(tmp_path / side, {"Functional.relu.0.forward": call([tensor()], [tensor()], **more)})
        for side, more in (("t", {"inplace": number(False)}), ("g", {}))
    ]
    levels = [msprobe.compare(*sides, policy=policy).summary.counts.target_only for policy in ("default", "reference")]
    assert levels[0] == 0 < levels[1]
