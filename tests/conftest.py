"""Settings of the whole suite: one thread per worker, repeatable property tests, frameworks only where installed."""

from __future__ import annotations

import functools
import importlib.util
import os
import signal
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from msprobe.core import log

# Several workers share few cores; must be set before a framework or numpy starts its thread pool.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Jobs in the background of a shell ignore Ctrl-C, and under nohup a hang-up: what tests start would inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

FRAMEWORKS = ("torch", "mindspore")

# Timing-based checks of hypothesis are noise on a shared machine.
settings.register_profile("msprobe", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("msprobe")


@pytest.fixture(autouse=True)
def log_on_stdout() -> Iterator[None]:
    """A command run inside the test process sends the log to standard error: the next test has it back."""
    yield
    log.use_stream("stdout")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, visibly, the tests marked with a framework which is not installed."""
    missing = {name for name in FRAMEWORKS if importlib.util.find_spec(name) is None}
    for item in items:
        for name in missing & {mark.name for mark in item.iter_markers()}:
            item.add_marker(pytest.mark.skip(reason=f"{name} is not installed"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("mindspore") is not None and importlib.util.find_spec("mindspore") is not None:
        launch_at_once()


@functools.cache
def launch_at_once() -> None:
    """A failing operator of MindSpore raises where it is called: to be asked for before the first one runs."""
    import mindspore

    mindspore.runtime.launch_blocking()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Escape lone surrogates in captured output: a worker cannot send them, and dies trying.

    Tests print such names on purpose; what the test itself asserts on is not touched.
    """
    report = yield
    report.sections = [(title, text.encode("utf-8", "backslashreplace").decode()) for title, text in report.sections]
    return report
