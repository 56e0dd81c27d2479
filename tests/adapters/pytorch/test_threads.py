"""Several threads and forked workers beside one collection."""

from __future__ import annotations

import copy
import itertools
import json
import multiprocessing
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from tests.adapters.pytorch.networks import Mlp, Nested
from tests.matrices import matrix_params

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),  # threads and fork, from Python 3.12 on
]

CALLS = 40


def in_threads(work: Callable[[int], Any], count: int = 4) -> None:
    """Do ``work`` in so many threads at once; the first exception of any of them comes back."""
    with ThreadPoolExecutor(count) as pool:
        barrier = threading.Barrier(count)

        def start_together(number: int) -> None:
            barrier.wait()
            work(number)

        list(pool.map(start_together, range(count)))


def test_no_call_of_any_thread_is_lost(bench: Any) -> None:
    debugger = bench.open("L1", "statistics", {"summary_mode": "md5"})
    debugger.start()
    in_threads(lambda number: [F.relu(torch.full((3,), float(number))) for _ in range(CALLS)])
    debugger.stop()
    data = bench.read().data
    assert sorted(data, key=lambda name: int(name.split(".")[2])) == [
        f"Functional.relu.{number}.forward" for number in range(4 * CALLS)
    ]
    values = sorted(body["output"][0]["Max"] for body in data.values())
    assert values == sorted([float(number) for number in range(4)] * CALLS)


def test_each_thread_has_its_own_parents(bench: Any) -> None:
    models = [Nested(Mlp()) for _ in range(4)]
    debugger = bench.open("mix")
    debugger.start(model=models)
    in_threads(lambda number: [models[number](torch.ones(2, 4)) for _ in range(5)])
    debugger.stop()
    tree = bench.read().construct
    for child, parent in tree.items():
        if child.startswith("Module.") and ".fc1." in child:
            prefix, call = child.split(".inner.")[0], child.rsplit(".", 1)[1]
            assert parent == f"{prefix}.inner.Mlp.forward.{call}"


def train(model: torch.nn.Module, seed: int, steps: int = 25) -> list[torch.Tensor]:
    """Train, and return the parameters afterwards."""
    optimizer, numbers = torch.optim.AdamW(model.parameters()), torch.Generator().manual_seed(seed)
    for _ in range(steps):
        model(torch.randn(3, 4, generator=numbers)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return [parameter.detach() for parameter in model.parameters()]


Run = Callable[[Callable[[int], Any], int], None]


def one_by_one(work: Callable[[int], Any], count: int) -> None:
    for number in range(count):
        work(number)


TRAININGS = [
    pytest.param(*case, id="-".join(map(str, case)))
    for case in itertools.product(("mix", "L0"), ("statistics", "tensor"), ("at once", "later"), (3, 2, 4), range(9))
]


@pytest.mark.parametrize(
    ("level", "task", "written", "threads", "turn"),
    matrix_params("threads", TRAININGS, {"mix-statistics-at once-3-0", "L0-tensor-later-2-0"}),
)
def test_threads_that_train_models_of_their_own(
    bench: Any, level: str, task: str, written: str, threads: int, turn: int
) -> None:
    torch.manual_seed(turn)
    models = [Mlp() for _ in range(threads)]

    def record(run: Run) -> tuple[dict[int, list[torch.Tensor]], dict[str, Any]]:
        copies = copy.deepcopy(models)
        debugger = bench.open(level, task, async_dump=written == "later")
        debugger.start(model=copies)
        trained: dict[int, list[torch.Tensor]] = {}
        run(lambda number: trained.setdefault(number, train(copies[number], number)), threads)
        debugger.stop()
        debugger.step()
        recorded = bench.read()
        assert not (recorded.folder / "dump_error_info.log").exists()
        return trained, {name: body for name, body in recorded.data.items() if name.startswith("Module.")}

    (together, threaded), (alone, in_turn) = record(in_threads), record(one_by_one)
    assert all(all(map(torch.equal, alone[number], together[number])) for number in alone)
    assert len(threaded) > 25 * threads
    assert threaded == in_turn


class Squares(Dataset[torch.Tensor]):
    """Its items are computed by APIs, in a worker."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return F.relu(torch.full((2,), float(index))) ** 2


def test_forked_data_workers_leave_the_dump_alone(bench: Any) -> None:
    debugger = bench.open("L1")
    debugger.start()
    F.gelu(torch.ones(2))
    loader = DataLoader(Squares(), batch_size=2, num_workers=2, multiprocessing_context="fork")
    assert [batch.tolist() for batch in loader] == [[[0, 0], [1, 1]], [[4, 4], [9, 9]]]
    F.gelu(torch.ones(2))
    debugger.stop()
    debugger.step()
    assert bench.read().folder.name == f"proc{os.getpid()}"
    assert bench.read().names("gelu") == ["Functional.gelu.0.forward", "Functional.gelu.1.forward"]
    assert bench.read().names("relu") == []


def _child_uses_torch(results: Any) -> None:
    results.put((F.relu.__module__, hasattr(F.relu, "__wrapped__"), F.relu(torch.tensor([-1.0])).item()))


def test_a_forked_child_has_nothing_wrapped(bench: Any) -> None:
    bench.open("mix").start(model=Mlp())
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    child = context.Process(target=_child_uses_torch, args=(results,))
    child.start()
    assert results.get(timeout=30) == ("torch.nn.functional", False, 0.0)
    child.join()
    assert child.exitcode == 0


BESIDE_AN_IMPORT = """
import sys, threading
import torch
from msprobe.pytorch import PrecisionDebugger

begun, go = threading.Event(), threading.Event()

def hold_up(frame, event, argument):
    "Stops the thread when Dynamo is imported by half, where it begins to run a further module."
    if event == "call" and frame.f_code.co_name == "<module>" and sys.argv[2] in sys.modules:
        sys.setprofile(None)
        begun.set()
        go.wait()

def import_compiler():
    sys.setprofile(hold_up)
    import torch._dynamo

assert "torch._dynamo" not in sys.modules
thread = threading.Thread(target=import_compiler)
thread.start()
begun.wait()
model = torch.nn.Sequential(torch.nn.ReLU())
debugger = PrecisionDebugger(dump_path=sys.argv[1], task="statistics", level="mix")
for step in range(4):
    debugger.start(model=model)
    model(torch.ones(2))
    debugger.stop()
    debugger.step()
    if step == 1:
        go.set()
        thread.join()
        compiled = torch.compile(model, backend="eager")
    if step >= 1:
        compiled(torch.ones(2))
"""


@pytest.mark.slow
@pytest.mark.parametrize("module", ["eval_frame", "trace_rules"])
def test_a_start_while_another_thread_imports_the_compiler(tmp_path: Path, module: str) -> None:
    """The first step of an optimizer imports it."""
    (script := tmp_path / "program.py").write_text(BESIDE_AN_IMPORT)
    command = [sys.executable, script, tmp_path / "dump", f"torch._dynamo.{module}"]  # a fork has the compiler
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "ERROR" in done.stdout + done.stderr) == (0, False), done.stdout + done.stderr
    for step in range(4):
        (dump,) = (tmp_path / "dump").glob(f"step{step}/proc*/dump.json")
        assert list(json.loads(dump.read_text())["data"]) == [
            "Functional.relu.0.forward",
            "Module.0.ReLU.forward.0",
        ]
