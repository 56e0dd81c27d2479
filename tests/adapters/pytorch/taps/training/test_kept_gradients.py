"""A gradient that a step has used and that the program adds to is known; one that was cleared in any way is not."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from msprobe.adapters.pytorch.taps.training.gradient_threads import GradientThreads  # noqa: E402
from msprobe.adapters.pytorch.taps.training.kept_gradients import KeptGradients  # noqa: E402

pytestmark = pytest.mark.torch


def rounds(clear: Callable[[torch.nn.Parameter], None], threads: GradientThreads | None = None) -> list[int]:
    """Return how many gradients are kept at each of three steps."""
    parameter = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    kept, counts = KeptGradients(threads or GradientThreads()), []
    for _ in range(3):
        kept.before_backward()
        (parameter * 2).sum().backward()
        kept.after_backward()
        torch.nn.utils.clip_grad_norm_([parameter], 0.5)
        counts.append(len(kept.at_step(optimizer)))
        optimizer.step()
        kept.step_done(optimizer)
        clear(parameter)
    return counts


def nothing(parameter: torch.nn.Parameter) -> None:
    pass


def by_none(parameter: torch.nn.Parameter) -> None:
    parameter.grad = None


def in_place(parameter: torch.nn.Parameter) -> None:
    parameter.grad.zero_()


def through_data(parameter: torch.nn.Parameter) -> None:
    parameter.grad.data.zero_()


@pytest.mark.parametrize(("clear", "counts"), [(nothing, [0, 1, 1]), (by_none, [0] * 3), (in_place, [0] * 3),
                                               (through_data, [0] * 3)])  # fmt: skip
def test_what_is_kept(clear: Callable[[torch.nn.Parameter], None], counts: list[int]) -> None:
    assert rounds(clear) == counts


def test_another_loss_that_does_not_reach_a_parameter_adds_nothing() -> None:
    ours, other = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    optimizer, kept = torch.optim.SGD([ours], lr=0.1), KeptGradients(GradientThreads())
    ours.sum().backward()
    optimizer.step()
    kept.step_done(optimizer)
    kept.before_backward()
    other.sum().backward()
    kept.after_backward()
    assert kept.at_step(optimizer) == []


def test_nothing_is_followed_beside_a_thread_that_computes_gradients() -> None:
    threads, noted, over = GradientThreads(), threading.Event(), threading.Event()

    def compute() -> None:
        threads.note()
        noted.set()
        over.wait()

    other = threading.Thread(target=compute)
    other.start()
    noted.wait()
    assert rounds(nothing, threads) == [0, 0, 0]
    over.set()
    other.join()
    assert rounds(nothing, threads) == [0, 1, 1]


def test_parameters_are_held_weakly() -> None:
    parameter = torch.nn.Parameter(torch.ones(2))
    optimizer, kept = torch.optim.SGD([parameter], lr=0.1), KeptGradients(GradientThreads())
    parameter.sum().backward()
    kept.step_done(optimizer)
    del optimizer, parameter
    kept.before_backward()
    kept.after_backward()
