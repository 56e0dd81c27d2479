"""Settings of the whole suite: a clean environment, one thread per worker, frameworks only where installed."""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

# The user's own settings of msprobe must not change what the tests see, nor what the processes that they start see.
for name in [name for name in os.environ if name.startswith("MSPROBE_")]:
    del os.environ[name]

from msprobe.core import log  # noqa: E402  (after the variables are removed)
from tests import forked, matrices  # noqa: E402
from tests.files_in_memory import memory_for_files  # noqa: E402
from tests.matrices import CALLS, FUZZ, MATRICES, calls_by_test, figures_of, multiply_examples, selected, write_result  # noqa: E402
from tests.recordings import Recordings  # noqa: E402
from tests.slow_tests import bounded, mark_slow  # noqa: E402

# Without its compiled files msprobe is compiled anew in each of the many processes that tests start.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The suite writes and removes a few hundred thousand small files and databases, for which it would wait for the disk.
if (room := memory_for_files()) is not None:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", room)

# Several workers share few cores; must be set before a framework or numpy starts its thread pool.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Jobs in the background of a shell ignore Ctrl-C, and under nohup a hang-up: what tests start would inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

FRAMEWORKS = ("torch", "mindspore")
LONG_COLLECTION = 0.05
"""Seconds that a garbage collection may take again and again."""
BEGIN = pytest.StashKey[float]()
"""Seconds of the monotonic clock at the beginning of the run."""

# Timing-based checks of hypothesis are noise on a shared machine. Every run of CI tries the same examples, so that it
# fails for a change and for nothing else; the matrix ``fuzz`` draws new ones.
settings.register_profile("msprobe", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("msprobe")


@pytest.fixture(autouse=True)
def log_on_stdout() -> Iterator[None]:
    """Send the log back to standard output after a test: a command that runs in this process sends it to stderr."""
    yield
    log.use_stream("stdout")


@pytest.fixture(autouse=True)
def nothing_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Begin each test like a process of its own, in which what is said once has not been said yet."""
    monkeypatch.setattr(log, "_logged_keys", set())


@pytest.fixture
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the worker processes that a command starts begin with torch imported."""
    monkeypatch.setattr(sys, "executable", forked.python())


@pytest.fixture(scope="session")
def recordings(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Recordings]:
    """Return the recordings of this run, see ``tests/recordings.py``; fail at the end if a test has changed one."""
    base = tmp_path_factory.getbasetemp()
    shared = Recordings((base.parent if hasattr(request.config, "workerinput") else base) / "recordings")
    yield shared
    assert shared.changed() == [], "a test that changes a recording must change a copy of it"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--matrix", metavar="NAME", help="run the whole of one large matrix, and nothing else")


def pytest_configure(config: pytest.Config) -> None:
    name = config.getoption("matrix")
    if name and name not in MATRICES:
        raise pytest.UsageError(f"there is no matrix {name!r}; the names are {', '.join(MATRICES)}")
    matrices.whole.asked = bool(name)
    config.stash[BEGIN] = time.monotonic()
    config.pluginmanager.register(LongCollections())
    gc.set_threshold(20_000)  # the usual 700 objects take a tenth of the time of the suite


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Write the dated page of a matrix that has run as a whole."""
    name = config.getoption("matrix")
    if not name or config.getoption("keyword") or config.option.file_or_dir or config.option.collectonly:
        return
    outcomes = {
        kind: [report.nodeid for report in reports]
        for kind, reports in terminalreporter.stats.items()
        if kind in {"passed", "failed", "error", "xfailed", "skipped"}
    }
    reports = [report for kind in ("passed", "failed", "xfailed") for report in terminalreporter.stats.get(kind, ())]
    seconds = time.monotonic() - config.stash[BEGIN]
    page = write_result(name, outcomes, seconds, calls_by_test(reports), figures_of(reports))
    terminalreporter.write_line(f"wrote {page}")


class LongCollections:
    """Leaves out of later garbage collections, after the test, what made one long.

    Compilers and frameworks that some tests import leave millions of objects, which each collection would look at.
    """

    def __init__(self) -> None:
        self._begin = 0.0
        self._was_long = False
        gc.callbacks.append(self._look)

    def _look(self, phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            self._begin = time.monotonic()
        elif time.monotonic() - self._begin > LONG_COLLECTION:
            self._was_long = True

    def pytest_runtest_logfinish(self) -> None:
        if self._was_long:
            self._was_long = False
            gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Leave what is collected and imported here, about a million objects, out of all later garbage collections."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select the tier; skip, visibly, the tests marked with a framework that is not installed."""
    mark_slow(items)
    name = config.getoption("matrix")
    chosen = selected(items, name)
    if left_out := set(items).difference(chosen):
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = chosen
    if name == FUZZ:
        multiply_examples(items)
    missing = {name for name in FRAMEWORKS if importlib.util.find_spec(name) is None}
    for item in items:
        for name in missing & {mark.name for mark in item.iter_markers()}:
            item.add_marker(pytest.mark.skip(reason=f"{name} is not installed"))


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("mindspore") is not None and importlib.util.find_spec("mindspore") is not None:
        launch_at_once()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fail what is slow and not marked so; skip what torch's own compiler cannot do.

    It gives the folder of torch unquoted to the C++ compiler.
    """
    try:
        with bounded(item):
            return (yield)
    except Exception as error:
        folder = _folder_of("torch")
        if " " not in folder or not _is_compile_error(error):
            raise
        pytest.skip(f"torch cannot compile C++ where its own folder has a space in its name: {folder}")


def _folder_of(package: str) -> str:
    spec = importlib.util.find_spec(package)
    return os.path.dirname(spec.origin) if spec is not None and spec.origin is not None else ""


def _is_compile_error(error: BaseException | None) -> bool:
    """Return whether the C++ compiler failed for torch; the error may be wrapped in others."""
    while error is not None and type(error).__name__ != "CppCompileError":
        error = getattr(error, "inner_exception", None) or error.__cause__
    return error is not None


@functools.cache
def launch_at_once() -> None:
    """Make a failing operator of MindSpore raise where it is called; works only before the first operator runs."""
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


@pytest.fixture
def record_calls(record_property: Callable[[str, object], None]) -> Callable[[int], None]:
    """Return a function that adds to the number of calls that a test compares; the page of a matrix has the sum."""
    return lambda number: record_property(CALLS, number)
