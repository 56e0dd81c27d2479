"""An exception of the program that arrives while the tool is at work reaches the program, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import dis
import functools
import gc
import inspect
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules import module as module_hooks

import msprobe
from msprobe.core.dump.session import process_debugger
from tests.adapters.pytorch.networks import Mlp
from tests.adapters.recorded import read
from tests.matrices import matrix_params

pytestmark = pytest.mark.torch

ROOT = str(Path(msprobe.__file__).parent)
STEPS = ("CALL", "PRECALL", "RESUME", "JUMP_BACKWARD", "POP_JUMP_BACKWARD", "JUMP_ABSOLUTE", "BEFORE_WITH")
TURNS = 12
LATEST = 1.0
"""Seconds after which an exception that has not reached the program is lost."""
PARTS = 12
Line = tuple[str, int]


class Late(Exception):
    """What the program raises; a subclass of Exception, which a tool might take for an error of its own."""


KINDS = [
    *(StopIteration, StopAsyncIteration, GeneratorExit, SystemExit, KeyboardInterrupt, OSError, FileNotFoundError),
    *(AttributeError, KeyError, IndexError, TypeError, ValueError, RuntimeError, RecursionError, ImportError),
]


@functools.cache
def lines_with_calls(code: CodeType) -> frozenset[int]:
    """Return the lines at which the interpreter may run a handler: it does so at calls and at jumps backwards."""
    lines, line = set(), 0
    for one in dis.get_instructions(code):
        line = one.starts_line or line
        if one.opname.startswith(STEPS):
            lines.add(line)
    return frozenset(lines)


class Trace:
    """Lists the lines of the tool that run; with ``target`` it raises ``kind`` at the first call of that line."""

    def __init__(self, target: Line | None = None, kind: type[BaseException] = Late) -> None:
        self.lines: dict[Line, None] = {}
        self.in_generators: list[Line] = []
        self.target = target
        self.kind = kind

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith(ROOT):
            return None
        if event == "line" and frame.f_lineno in lines_with_calls(code):
            line = code.co_filename, frame.f_lineno
            if line not in self.lines and code.co_flags & inspect.CO_GENERATOR:
                self.in_generators.append(line)
            self.lines[line] = None
            if line == self.target:
                self.target = None
                raise self.kind("from outside")
        return self


@contextlib.contextmanager
def traced(trace: Trace) -> Iterator[None]:
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def in_place() -> tuple[Any, ...]:
    """Return what the tool replaces, as it is now."""
    optimizers = sys.modules["torch.optim.optimizer"]
    hooks = len(optimizers._global_optimizer_pre_hooks), len(optimizers._global_optimizer_post_hooks)
    functions = nn.Module.__call__, F.gelu, torch.Tensor.add, torch.autograd.backward, torch.optim.Optimizer.zero_grad
    rest = torch.compile, sys.getrecursionlimit(), torch.is_grad_enabled()
    return (*functions, hooks, module_hooks._global_backward_pre_hooks, *rest)


class Program:
    """A step of a training that is recorded, and what must hold after it was interrupted."""

    def __init__(self, bench: Any, level: str, **fields: Any) -> None:
        self.debugger = bench.open(level, **fields)
        self.bench = bench
        self.model = Mlp()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.before = in_place()
        self.recorded = self.names_of_a_step()

    def run(self) -> None:
        self.debugger.start(model=self.model)
        F.gelu(self.model(torch.ones(2, 4))).sum().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.debugger.stop()
        self.debugger.step()

    def names_of_a_step(self) -> list[str]:
        number = process_debugger.peek().current_step
        self.run()
        return list(self.bench.read(number).names())

    def check(self) -> None:
        """Nothing is in place, and the next step is recorded as always."""
        self.debugger.stop()
        assert in_place() == self.before
        self.debugger.step()
        self.optimizer.zero_grad()  # the interrupt may have come before the program did it
        assert self.names_of_a_step() == self.recorded
        assert in_place() == self.before
        assert not any(parameter._backward_hooks for parameter in self.model.parameters())


def interrupt_lines(program: Program, chosen: Callable[[Trace], list[Line]], kind: type[BaseException] = Late) -> None:
    trace = Trace()
    with traced(trace):
        program.run()
    lines = chosen(trace)
    assert lines
    for line in lines:
        trace = Trace(line, kind)
        try:
            with contextlib.suppress(kind), traced(trace):
                program.run()
                assert trace.target, "it was lost"  # else the line did not run this time, as those of the flusher
            program.check()
        except BaseException as error:
            raise AssertionError(f"an exception at {line[0]}:{line[1]}") from error


@pytest.mark.parametrize(("level", "first"), [("mix", 0), ("L1", 40)])
def test_an_exception_at_a_line_of_the_tool(bench: Any, level: str, first: int) -> None:
    interrupt_lines(Program(bench, level), lambda trace: list(trace.lines)[first::90])


@pytest.mark.parametrize(
    "fields",
    [
        {"task": "tensor", "async_dump": True},
        {"section": {"summary_mode": "md5"}},
        {"task": "free_benchmark"},
        {"task": "overflow_check"},
    ],
)
def test_a_runtime_error_at_a_line_of_a_task(bench: Any, fields: dict[str, Any]) -> None:
    """Many values cannot be measured, which torch says by a RuntimeError."""
    program = Program(bench, "L1", **fields)
    interrupt_lines(program, lambda trace: list(trace.lines)[20::30], RuntimeError)


def test_an_end_of_iteration_at_a_line_of_a_generator(bench: Any) -> None:
    interrupt_lines(Program(bench, "mix"), lambda trace: trace.in_generators[::4], StopIteration)


def test_an_exception_at_a_line_that_ends_the_step(bench: Any) -> None:
    ends = "session/step.py", "record/parameter_records.py", "store/flusher.py"
    interrupt_lines(Program(bench, "mix"), lambda trace: [line for line in trace.lines if line[0].endswith(ends)])


@pytest.mark.parametrize("kind", matrix_params("interrupts", KINDS, sample=[OSError]))
def test_an_exception_of_any_class(bench: Any, kind: type[BaseException]) -> None:
    interrupt_lines(Program(bench, "mix"), lambda trace: list(trace.lines)[KINDS.index(kind) :: 40], kind)


@pytest.mark.parametrize("level", ["mix", "L1", "L0"])
@pytest.mark.parametrize("part", matrix_params("interrupts", range(PARTS), sample=[]))
def test_an_exception_at_every_line_of_the_tool(bench: Any, level: str, part: int) -> None:
    interrupt_lines(Program(bench, level), lambda trace: list(trace.lines)[part::PARTS])


@pytest.fixture
def alarm() -> Iterator[Callable[[type[BaseException], float], None]]:
    """Sets what is raised in how many seconds."""

    def set_alarm(kind: type[BaseException], seconds: float) -> None:
        def handler(number: int, frame: FrameType | None) -> None:
            raise kind

        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, seconds)

    before = signal.getsignal(signal.SIGALRM)
    yield set_alarm
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a file whose opening was interrupted
@pytest.mark.parametrize("kind", matrix_params("interrupts", [Late, TimeoutError, *KINDS], sample=[]))
def test_what_a_signal_handler_raises_reaches_the_program(
    bench: Any, alarm: Any, monkeypatch: pytest.MonkeyPatch, kind: type[BaseException]
) -> None:
    """It does, but for what the interpreter drops (callbacks of weak references) and one that a library may catch.

    ``logging`` catches whatever is raised while it asks for the name of the process, once a record.
    """
    dropped: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda facts: dropped.append(facts.exc_type))
    program = Program(bench, "mix")
    began = time.perf_counter()
    program.run()
    duration = time.perf_counter() - began
    lost = sum(is_lost(program, alarm, kind, duration * (turn + 1) / TURNS) for turn in range(TURNS))
    assert lost <= dropped.count(kind) + 1


def is_lost(program: Program, alarm: Any, kind: type[BaseException], seconds: float) -> bool:
    """Return whether an exception that is raised in so many seconds never reaches the program."""
    alarm(kind, seconds)
    ends = time.perf_counter() + seconds + LATEST
    try:
        while time.perf_counter() < ends:
            program.run()
    except kind:
        program.check()
        return False
    program.check()
    return True


def test_a_hook_that_an_interrupt_has_kept_from_its_list_is_removed(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, register = Program(bench, "mix"), torch.Tensor.register_hook

    def register_hook(tensor: torch.Tensor, hook: Any) -> Any:
        register(tensor, hook)
        raise Late("behind the registration")

    with monkeypatch.context() as patched:
        patched.setattr(torch.Tensor, "register_hook", register_hook)
        program.run()
    program.check()


def test_functions_are_recorded_again_behind_an_interrupt_at_the_end_of_what_the_tool_does(bench: Any) -> None:
    program = Program(bench, "mix")
    process_debugger.peek().thread.busy = True  # as an interrupt leaves it that comes as ``Quiet`` ends
    program.check()


def test_an_interrupt_of_the_first_start_does_not_spoil_the_next(bench: Any) -> None:
    program = Program(bench, "L0")
    bench.close()
    program.debugger = bench.open("L0")
    trace = Trace()
    with traced(trace):
        program.debugger.start(model=program.model)
    program.debugger.stop()
    for line in list(trace.lines)[::60]:
        bench.close()
        program.debugger = bench.open("L0")
        with traced(Trace(line)), contextlib.suppress(Late):
            program.debugger.start(model=program.model)
        program.debugger.stop()
        assert in_place() == program.before


FIRST = """
import importlib.abc, os, signal, sys
import torch
from msprobe.pytorch import PrecisionDebugger

class Late(Exception):
    pass

class Signals(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == sys.argv[1]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGUSR1)

def handler(number, frame):
    raise Late

signal.signal(signal.SIGUSR1, handler)
sys.meta_path.insert(0, Signals())
model = torch.nn.Linear(3, 3)
debugger = None
try:
    debugger = PrecisionDebugger({"task": "statistics", "level": "mix", "dump_path": "dump"})
except Late:
    print("interrupted")
debugger = debugger or PrecisionDebugger({"task": "statistics", "level": "mix", "dump_path": "dump"})
with debugger.collect(model):
    model(torch.ones(2, 3)).sum().backward()
"""


@pytest.mark.slow
@pytest.mark.parametrize("module", ["yaml.error", "yaml.cyaml"])
def test_an_interrupt_of_an_import_does_not_spoil_later_debuggers(tmp_path: Path, module: str) -> None:
    done = subprocess.run([sys.executable, "-c", FIRST, module], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("interrupted"), done.stderr
    assert list(read(tmp_path / "dump" / "step0").names())


def test_no_python_code_runs_when_a_recorded_model_dies(bench: Any) -> None:
    """Python only prints what is raised in a callback of a weak reference, also by a handler."""
    program, ran = Program(bench, "mix"), set[str]()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            ran.add(f"{frame.f_code.co_filename}:{frame.f_lineno}")

    program.optimizer = None  # type: ignore[assignment]
    sys.setprofile(note)
    try:
        program.model = None  # type: ignore[assignment]
        gc.collect()
    finally:
        sys.setprofile(None)
    assert not [place for place in ran if "weakref" in place or place.startswith(ROOT)]
