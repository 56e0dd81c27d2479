"""The queue of async_dump: order, bound, back-pressure, errors."""

from __future__ import annotations

import dis
import functools
import itertools
import os
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import pytest

from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.dump.record import async_worker
from msprobe.core.dump.record.async_worker import DEFAULT_LIMIT, LIMIT_VARIABLE, AsyncWorker, queue_limit

TraceFunction = Callable[[FrameType, str, Any], Any]


def test_jobs_run_in_order_on_one_thread_that_is_busy() -> None:
    state, done = ThreadState(), []
    worker = AsyncWorker(1000)
    for number in range(100):
        worker.put(lambda number=number: done.append((number, state.busy, threading.current_thread().name)), 1)
    worker.drain()
    assert done == [(number, True, "msprobe-async-dump") for number in range(100)]
    assert not worker.outstanding
    assert not state.busy


def test_a_full_queue_holds_the_producer_back_until_bytes_are_free() -> None:
    worker, gate = AsyncWorker(10), threading.Event()
    worker.put(gate.wait, 8)
    passed = threading.Event()

    def produce() -> None:
        worker.put(lambda: None, 8)
        passed.set()

    producer = threading.Thread(target=produce)
    producer.start()
    assert not passed.wait(0.1)
    gate.set()
    assert passed.wait(5)
    producer.join()
    worker.drain()


def test_a_job_larger_than_the_queue_passes_alone() -> None:
    worker, done = AsyncWorker(10), []
    worker.put(lambda: done.append(1), 1000)
    worker.drain()
    assert done == [1]


def test_an_error_in_a_job_ends_that_job_only() -> None:
    worker, done = AsyncWorker(10), []
    worker.put(lambda: 1 / 0, 1)
    worker.put(lambda: done.append(1), 1)
    worker.drain()
    assert done == [1]
    assert worker.errors.count == 1


def test_drain_does_not_wait_for_what_is_put_meanwhile() -> None:
    worker, draining, gate = AsyncWorker(100), threading.Event(), threading.Event()

    def first() -> None:
        draining.wait()
        worker.put(lambda: gate.wait(10), 1)

    worker.put(first, 1)
    threading.Timer(0.2, draining.set).start()
    worker.drain()
    assert worker.outstanding
    gate.set()
    worker.drain()


@pytest.mark.parametrize("tenth", range(10))
def test_an_interrupt_at_any_place_of_it_holds_up_nothing(tenth: int) -> None:
    count, interrupted = tenth, True
    while interrupted:
        worker = AsyncWorker(10)
        interrupted = is_interrupted(worker, count)
        assert is_done_again(worker), count
        assert not worker.outstanding
        count += 10


def is_done_again(worker: AsyncWorker) -> bool:
    """Return whether a further job is done in time."""
    done: list[int] = []
    again = threading.Thread(target=lambda: (worker.put(lambda: done.append(1), 5), worker.drain()), daemon=True)
    again.start()
    again.join(10)
    return done == [1]


@functools.cache
def after_calls(code: CodeType) -> set[int]:
    """Return the instructions before which the interpreter looks for signals."""
    pairs = itertools.pairwise(dis.get_instructions(code))
    return {after.offset for before, after in pairs if before.opname.startswith(("CALL", "RESUME"))}


def is_interrupted(worker: AsyncWorker, count: int) -> bool:
    """Put and drain until a handler could have run ``count`` times in the worker or its locks; return whether so."""
    moments = 0

    def interrupt(frame: FrameType, event: str, _: object) -> TraceFunction | None:
        nonlocal moments
        if frame.f_code.co_filename not in (async_worker.__file__, threading.__file__):
            return None
        frame.f_trace_opcodes = True
        moments += event == "opcode" and frame.f_lasti in after_calls(frame.f_code)
        if moments > count:
            sys.settrace(None)
            raise KeyboardInterrupt
        return interrupt

    sys.settrace(interrupt)
    try:
        for _ in range(2):
            worker.put(lambda: None, 5)
        worker.drain()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    return False


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_that_abandons_it_neither_writes_nor_hangs() -> None:
    worker, gate = AsyncWorker(1), threading.Event()
    worker.put(gate.wait, 1)
    child = os.fork()
    if child == 0:
        worker.abandon()
        worker.put(lambda: os._exit(1), 5)
        worker.drain()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    gate.set()
    worker.drain()
    assert status == 0


@pytest.mark.parametrize(
    ("written", "limit"), [("", DEFAULT_LIMIT), ("4096", 4096), ("0", DEFAULT_LIMIT), ("1G", DEFAULT_LIMIT)]
)
def test_the_bound_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch, written: str, limit: int) -> None:
    monkeypatch.setenv(LIMIT_VARIABLE, written)
    assert queue_limit() == limit
