"""A thread knows whether it is the only one that lives and has computed gradients."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillWaiting

import pytest

torch = pytest.importorskip("torch")

from msprobe.adapters.pytorch.taps.training.gradient_threads import GradientThreads  # noqa: E402

pytestmark = pytest.mark.torch


def is_sole(threads: GradientThreads) -> bool:
    with threads.sole() as sole:
        return sole


def test_a_thread_that_has_ended_does_not_count() -> None:
    threads = GradientThreads()
    threads.note()
    assert is_sole(threads)
    with ThreadPoolExecutor(1) as pool:
        assert not pool.submit(is_sole, threads).result()
        pool.submit(threads.note).result()
        assert not is_sole(threads)
    assert is_sole(threads)


def test_a_pass_inside_a_pass_belongs_to_the_thread_of_the_outer_one() -> None:
    threads, leaf = GradientThreads(), torch.ones(1, requires_grad=True)
    double = leaf * 2
    double.register_hook(lambda gradient: threads.note())
    double.backward()
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(is_sole, threads).result()


def test_no_thread_begins_while_another_one_reads() -> None:
    threads = GradientThreads()
    with ThreadPoolExecutor(1) as pool:
        with threads.sole() as sole:
            waiting = pool.submit(threads.note)
            with pytest.raises(StillWaiting):
                waiting.result(timeout=0.05)
        waiting.result(timeout=10)
        assert sole
