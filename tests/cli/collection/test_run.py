"""``msprobe run``: an unmodified script leaves a dump, and its exit status comes back."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from msprobe.check.job import check
from msprobe.core.store.reader import find_dumps, load_dump
from tests import forked
from tests.rules.tree import ROOT

ATTACHED = Path(__file__).with_name("attached.py")
SCRIPT = """
import sys
import torch
from torch import nn

torch.manual_seed(0)
teacher = nn.Linear(4, 4)
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
criterion = nn.MSELoss()
optimizer = torch.optim.{optimizer}(model.parameters(), lr=0.1)
{before}
for step in range(2):
    optimizer.zero_grad()
    criterion(model(torch.ones(2, 4)), torch.zeros(2, 1)).backward()
    optimizer.step()
print("arguments", sys.argv[1:])
sys.exit(7)
"""


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Start the command, and a Python that imports torch: for tests of the way there."""
    return subprocess.run(
        [sys.executable, "-m", "msprobe", "run", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def attached(folder: Path, *words: str, model: str = "") -> subprocess.CompletedProcess[str]:
    """Run a script and its arguments as the command does with ``c.json``, where torch is imported already."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = forked.run([ATTACHED, "c.json", model, *words], env=environment, cwd=folder)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def script(folder: Path, optimizer: str = "SGD", before: str = "", **config: object) -> None:
    (folder / "train.py").write_text(SCRIPT.format(optimizer=optimizer, before=before))
    (folder / "c.json").write_text(json.dumps({"dump_path": "dump", "level": "mix", **config}))


def names(folder: Path, step: int) -> list[str]:
    (document,) = (folder / "dump" / f"step{step}").glob("*/dump.json")
    return list(json.loads(document.read_text())["data"])


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.torch
@pytest.mark.parametrize(
    ("optimizer", "start"),
    [
        pytest.param("SGD", run, id="command"),
        pytest.param("AdamW", attached, marks=pytest.mark.slow, id="adamw"),
    ],
)
def test_a_script_is_collected_from_and_its_status_passes_through(
    tmp_path: Path, optimizer: str, start: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    script(tmp_path, optimizer)
    command = ["--config", "c.json", "--", sys.executable] if start is run else []
    result = start(tmp_path, *command, "train.py", "--config", "its own")
    assert result.returncode == 7, result.stderr
    assert result.stdout == "arguments ['--config', 'its own']\n"  # a pipe gets what the program writes
    assert "collecting step 0 into" in result.stderr and "is attached to Sequential" in result.stderr
    assert sorted(path.name for path in (tmp_path / "dump").iterdir()) == ["step0", "step1"]
    for step in range(2):
        recorded = names(tmp_path, step)
        assert {"Module.2.Linear.forward.0", "Module.2.Linear.backward.0", "Functional.mse_loss.0.forward"} <= set(
            recorded
        )


LOOKED_UP_FIRST = """
import torch
from torch.nn import functional as F

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.ones(2, 4)
for step in range(2):
    F.mse_loss(model(x), x[:, :1]).backward()
    optimizer.step()
    with torch.no_grad():
        F.huber_loss(model(x), x[:, :1])
"""


@pytest.mark.torch
def test_an_iteration_that_has_made_its_update_survives_a_kill(tmp_path: Path) -> None:
    text = SCRIPT.replace("optimizer.step()", "optimizer.step()\n    if step:\n        os.kill(os.getpid(), 9)")
    (tmp_path / "train.py").write_text("import os" + text.format(optimizer="SGD", before=""))
    (tmp_path / "c.json").write_text(json.dumps({"dump_path": "dump", "level": "mix"}))
    assert attached(tmp_path, "train.py").returncode == -signal.SIGKILL
    steps = [load_dump(place) for place in find_dumps(tmp_path / "dump")]
    assert list(steps[1].data) == list(steps[0].data)


UPDATE_BY_HAND = """with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
            parameter.grad = None
"""


@pytest.mark.torch
@pytest.mark.parametrize("update", ["optimizer.step()", UPDATE_BY_HAND], ids=["optimizer", "by-hand"])
def test_a_function_that_is_looked_up_before_the_model_is_called_is_recorded(tmp_path: Path, update: str) -> None:
    """Python looks up ``loss`` of ``loss(model(x), y)`` before it calls the model, which begins the step."""
    script(tmp_path)
    text = LOOKED_UP_FIRST
    if update == UPDATE_BY_HAND:  # evaluation belongs to the iteration then
        text = re.sub(r"optimizer = .*|    with torch(.*\n)*", "", text)
    (tmp_path / "train.py").write_text(text.replace("optimizer.step()", update))
    assert attached(tmp_path, "train.py").returncode == 0
    for step in range(2):
        losses = [name for name in names(tmp_path, step) if "_loss" in name]
        assert losses == ["Functional.mse_loss.0.forward", "Functional.mse_loss.0.backward"]
        assert "Module.0.Linear.forward.0" in names(tmp_path, step)  # a layer that is the model alone


PARTS = """
import sys
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.head = nn.Linear(8, 1)


torch.manual_seed(0)
m = Net()
optimizer = torch.optim.SGD(m.parameters(), 0.1)
for _ in range(3):
    x = torch.ones(2, 4)
    exec(sys.argv[1])
    optimizer.zero_grad()
    y.square().mean().backward()
    optimizer.step()
"""


@pytest.mark.torch
@pytest.mark.parametrize(
    "call",
    [
        pytest.param("y = m.head(m.body(x))", id="calls"),
        pytest.param("y = m.body.forward(x); y = m.head.forward(y)", id="forward"),
        pytest.param("y = m.head.forward(m.body.forward(x))", id="forward-looked-up-first"),
    ],
)
def test_the_call_that_begins_an_iteration_is_recorded_in_it(tmp_path: Path, call: str) -> None:
    script(tmp_path, level="L0")
    (tmp_path / "train.py").write_text(PARTS)
    assert attached(tmp_path, "train.py", call).returncode == 0
    for place in find_dumps(tmp_path / "dump"):
        dump = load_dump(place)
        calls = [name for name in dump.data if name.endswith(("ward.0", "ward.1"))]
        assert sorted(calls) == sorted(
            f"Module.{part}.{direction}.0"
            for part in ("body.0.Linear", "body.1.ReLU", "body.Sequential", "head.Linear")
            for direction in ("forward", "backward")
        )
        assert all("output" in dump.data[name] for name in calls)
        assert dump.construct["Module.body.0.Linear.forward.0"] == "Module.body.Sequential.forward.0"
    assert len(find_dumps(tmp_path / "dump")) == 3


@pytest.mark.slow
@pytest.mark.torch
def test_the_model_can_be_named(tmp_path: Path) -> None:
    script(tmp_path, before="teacher(torch.ones(1, 4))")
    assert attached(tmp_path, "train.py", model="Sequential").returncode == 7
    assert "Module.0.Linear.forward.0" in names(tmp_path, 0)


LOOP = """
import sys
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1), nn.Linear(4, 1))
x = torch.ones(2, 4)


def train(mode=True):
    model.train(mode)
    model(x).sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()


def evaluate(grad=False):
    model.eval()
    with torch.set_grad_enabled(grad):
        for _ in range(3):
            nn.functional.l1_loss(model(x), x[:, :1])
    model.train()


exec(sys.argv[1])
"""


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize(
    ("program", "calls"),
    [
        pytest.param("evaluate(); train(); evaluate(); train(); evaluate(True)", [(1, 1), (1, 1)], id="between"),
        pytest.param("evaluate(); evaluate()", [(6, 0)], id="only evaluation"),
        pytest.param("torch.optim.SGD([x], 1.0); evaluate(); train()", [(1, 1)], id="after the optimizer is made"),
        pytest.param("train(False); train(False); evaluate()", [(1, 1), (1, 1)], id="training in eval mode"),
        pytest.param("train(); train(False); train(False)", [(1, 1)] * 3, id="in eval mode from now on"),
        pytest.param(
            "train(); model(x).sum().backward(); evaluate(); train(); evaluate()",
            [(1, 1), (2, 2)],
            id="within a step",
        ),
    ],
)
def test_evaluation_is_no_part_of_a_training_step(tmp_path: Path, program: str, calls: list[tuple[int, int]]) -> None:
    script(tmp_path)
    (tmp_path / "train.py").write_text(LOOP)
    assert attached(tmp_path, "train.py", program).returncode == 0
    assert len(list((tmp_path / "dump").iterdir())) == len(calls)
    for step, (forward, backward) in enumerate(calls):
        recorded = names(tmp_path, step)
        assert sum("Module.0.Linear.forward" in name for name in recorded) == forward
        assert sum("Module.0.Linear.backward" in name for name in recorded) == backward
        assert ("Tensor.add_.0.forward" in recorded) is bool(backward)  # the optimizer


GAN = """
import sys
import torch
from torch import nn

torch.manual_seed(0)


class Generator(nn.Sequential):
    pass


class Discriminator(nn.Sequential):
    pass


g = Generator(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
d = Discriminator(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
og, od = torch.optim.Adam(g.parameters(), 1e-2), torch.optim.Adam(d.parameters(), 1e-2)
bce, one, zero = nn.BCEWithLogitsLoss(), torch.ones(6, 1), torch.zeros(6, 1)
for _ in range(3):
    d.zero_grad()
    bce(d(torch.randn(6, 4)), one).backward()
    fake = g(torch.randn(6, 4))
    bce(d(fake.detach()), zero).backward()
    od.step()
    if sys.argv[1] == "good":
        g.zero_grad()
    bce(d(fake), one).backward()
    og.step()
"""


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("kind", ["good", "faulty"])
def test_gradients_that_nobody_clears_are_found_in_a_gan(tmp_path: Path, kind: str) -> None:
    (tmp_path / "train.py").write_text(GAN)
    (tmp_path / "c.json").write_text('{"dump_path": "dump", "level": "mix"}')
    result = attached(tmp_path, "train.py", kind)
    assert result.returncode == 0, result.stderr
    assert "left out" not in result.stderr
    assert "attached to Discriminator as Module.Discriminator, Generator as Module.Generator" in result.stderr
    for step in range(3):
        recorded = names(tmp_path, step)
        assert {f"Module.Discriminator.0.Linear.forward.{call}" for call in range(3)} <= set(recorded)
        assert "Module.Generator.2.Linear.backward.0" in recorded
    found = [finding.rule for finding in check([str(tmp_path / "dump")]).findings]
    assert found == ([] if kind == "good" else ["gradients_not_cleared"])


BY_HAND = """
import torch
from torch import nn

model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
for _ in range(3):
    model(torch.ones(2, 4)).sum().backward()
    for parameter in model.parameters():
        parameter.data.sub_(parameter.grad.data * 0.1)
        parameter.grad.data.zero_()
"""


@pytest.mark.slow
@pytest.mark.torch
def test_updates_by_hand_end_steps_and_leave_no_record_of_the_look_for_them(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(BY_HAND)
    (tmp_path / "c.json").write_text('{"dump_path": "dump", "level": "mix"}')
    assert attached(tmp_path, "train.py").returncode == 0
    for step in range(3):
        recorded = names(tmp_path, step)
        assert [name for name in recorded if "0.Linear.forward" in name] == ["Module.0.Linear.forward.0"]
        assert not any(".any." in name for name in recorded)


LOADER = """
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Data(Dataset):
    def __init__(self):
        self.transform = nn.Linear(4, 4).requires_grad_(False)

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return self.transform(torch.full((4,), float(index)))


if __name__ == "__main__":
    model = nn.Sequential(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for batch in DataLoader(Data(), 2, num_workers=1, multiprocessing_context=sys.argv[1]):
        model(batch).sum().backward()
        optimizer.step()
"""


@pytest.mark.matrix("wide")
@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("context", ["spawn", "forkserver"])
def test_workers_of_a_data_loader_leave_no_folder(tmp_path: Path, context: str) -> None:
    (tmp_path / "train.py").write_text(LOADER)
    (tmp_path / "c.json").write_text('{"dump_path": "dump", "level": "mix"}')
    result = run(tmp_path, "-c", "c.json", "--first-step", "5", "--", sys.executable, "train.py", context)
    assert result.returncode == 0, result.stderr
    assert len(list((tmp_path / "dump").glob("*/*"))) == 2
    for step in (5, 6):
        assert [name for name in names(tmp_path, step) if name.startswith("Module") and "forward" in name] == [
            "Module.0.Linear.forward.0"
        ]


@pytest.mark.slow
@pytest.mark.torch
def test_a_name_that_never_comes_is_told(tmp_path: Path) -> None:
    script(tmp_path)
    result = attached(tmp_path, "train.py", model="Transformer")
    assert result.returncode == 7
    assert "Transformer was never called; called were: Sequential, Linear" in result.stderr
    assert not (tmp_path / "dump").exists()


@pytest.mark.slow
@pytest.mark.torch
def test_a_program_without_any_module_is_told_that_nothing_was_recorded(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\ntorch.relu(torch.ones(2))\n")
    (tmp_path / "c.json").write_text('{"dump_path": "dump"}')
    result = attached(tmp_path, "train.py")
    assert result.returncode == 0
    assert (result.stdout, result.stderr.count("\n")) == ("", 1), result.stderr
    assert "nothing was recorded: a model with parameters was never called, nor any other module" in result.stderr


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.slow
@pytest.mark.torch
def test_a_step_that_never_comes_is_told_with_those_that_came(tmp_path: Path) -> None:
    script(tmp_path, step=[7])
    result = attached(tmp_path, "train.py")
    assert "asks for step 7, this run had steps 0 to 1 (" in result.stderr
    assert "nothing was recorded: 2 steps of Sequential ended" in result.stderr


@pytest.mark.slow
@pytest.mark.torch
def test_an_iteration_that_is_forgotten_leaves_a_reason(tmp_path: Path) -> None:
    script(tmp_path)
    (tmp_path / "train.py").write_text(
        "import torch\nmodel, other = torch.nn.Linear(2, 2), torch.nn.Parameter(torch.ones(2))\n"
        "optimizer = torch.optim.SGD([other], 0.1)\nmodel.requires_grad_(False)\n"
        "for _ in range(2):\n    model(torch.ones(1, 2))\n"
    )
    result = attached(tmp_path, "train.py")
    assert "nothing was recorded: no optimizer holds a parameter of Linear" in result.stderr


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("model", [pytest.param(False, id="no-model"), pytest.param(True, id="model")])
def test_a_launcher_speaks_for_the_processes_it_starts(tmp_path: Path, *, model: bool) -> None:
    body = "torch.nn.Linear(2, 2)(torch.ones(1, 2))" if model else "torch.relu(torch.ones(2))"
    (tmp_path / "work.py").write_text(f"import torch\n{body}\n")
    (tmp_path / "train.py").write_text(
        "import subprocess, sys, torch\nsubprocess.run([sys.executable, 'work.py'], check=True)\n"
    )
    (tmp_path / "c.json").write_text('{"dump_path": "dump"}')
    result = run(tmp_path, "-c", "c.json", "train.py")
    assert result.returncode == 0
    assert result.stderr.count("nothing was recorded") == (0 if model else 1), result.stderr


WITH_CHILD = """
import multiprocessing

def work():
    import train

if __name__ == "__main__":
    child = multiprocessing.get_context("{context}").Process(target=work)
    child.start()
    child.join()
"""


@pytest.mark.torch
def test_a_forked_process_that_trains_is_named(tmp_path: Path) -> None:
    script(tmp_path)
    (tmp_path / "main.py").write_text(f"import torch\n{WITH_CHILD.format(context='fork')}")
    result = attached(tmp_path, "main.py")
    assert result.stderr.count("trains and is not followed, as it was forked after torch was imported") == 1
    assert not (tmp_path / "dump").exists()


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("context", ["fork", "forkserver", "spawn"])
def test_a_process_that_imports_torch_itself_is_recorded_to_its_end(tmp_path: Path, context: str) -> None:
    script(tmp_path)
    (tmp_path / "main.py").write_text(WITH_CHILD.format(context=context))
    assert run(tmp_path, "-c", "c.json", "main.py").returncode == 0
    assert names(tmp_path, 1) == names(tmp_path, 0)
    assert not list((tmp_path / "dump").rglob("*.journal"))


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("before", ["", "torch.optim.SGD(model.parameters(), 0.1); "], ids=["first", "later"])
def test_a_debugger_of_the_script_stays_in_charge(tmp_path: Path, before: str) -> None:
    made = "from msprobe.pytorch import PrecisionDebugger; PrecisionDebugger(dump_path='own')"
    script(tmp_path, before=before + made)
    result = attached(tmp_path, "train.py")
    assert result.returncode == 7
    assert "left in charge" in result.stderr
    assert not (tmp_path / "dump").exists()


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "reason"),
    [
        pytest.param("import mindspore", "it attaches to PyTorch only", id="no debugger"),
        pytest.param("import msprobe.mindspore, mindspore", "", id="its own debugger"),
        pytest.param("import json", "the program did not import torch", id="no framework"),
    ],
)
def test_a_program_without_torch_is_told_why_nothing_was_recorded(tmp_path: Path, program: str, reason: str) -> None:
    pytest.importorskip("mindspore")
    (tmp_path / "c.json").write_text('{"dump_path": "dump"}')
    result = run(tmp_path, "-c", "c.json", "--", sys.executable, "-c", program)
    assert result.returncode == 0
    assert (f"msprobe run: nothing was recorded: {reason}" in result.stderr) is bool(reason), result.stderr


def test_a_python_that_does_not_load_msprobe_is_told_of(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text('{"dump_path": "dump"}')
    result = run(tmp_path, "-c", "c.json", "--", sys.executable, "-I", "-c", "pass")
    assert "no Python process of the program loaded msprobe" in result.stderr


@pytest.mark.matrix("wide", sample=4)
@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize(
    "options", [["-c", "c.json", "-m", "Transformer"], ["--monitor", "m.json"]], ids=["named-model", "monitor"]
)
@pytest.mark.parametrize(
    "before",
    [
        pytest.param("import importlib.util; importlib.util.find_spec('torch')", id="query"),
        pytest.param("import sys; sys.meta_path.insert(0, Other())", id="another finder"),
    ],
)
def test_attaching_survives_what_libraries_do_before_they_import_torch(
    tmp_path: Path, before: str, options: list[str]
) -> None:
    script(tmp_path, step=[1])
    (tmp_path / "m.json").write_text(json.dumps({"targets": {}, "wg_distribution": True}))
    other = """
import importlib.machinery
class Other:
    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.PathFinder.find_spec(name, path) if name == "torch" else None
"""
    text = (tmp_path / "train.py").read_text().replace("import sys\n", f"import sys\n{other}{before}\n", 1)
    (tmp_path / "train.py").write_text(text)
    result = run(tmp_path, *options, "train.py")
    assert result.returncode == 7, result.stderr
    if "-m" in options:  # the calls were seen, and the name was heard
        assert "Transformer was never called; called were: Sequential, Linear" in result.stderr
    else:
        assert "nothing was" not in result.stderr and "the monitor is attached to" in result.stderr


RUN_BY_HAND = """
import importlib.util, sys
spec = importlib.util.find_spec("torch")
torch = sys.modules["torch"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(torch)
"""
LAZILY = """
import importlib.util, sys
spec = importlib.util.find_spec("torch")
spec.loader = importlib.util.LazyLoader(spec.loader)
torch = sys.modules["torch"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(torch)
import colorsys
assert type(torch) is importlib.util._LazyModule
"""
RELOADED = """
import importlib, sys, torch
for name in ("torch.optim.sgd", "torch.nn.modules.linear", "torch.nn"):
    importlib.reload(sys.modules[name])
"""


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("first", [RUN_BY_HAND, LAZILY, RELOADED], ids=["by hand", "lazily", "reloaded"])
def test_attaching_waits_until_torch_is_complete(tmp_path: Path, first: str) -> None:
    script(tmp_path)
    (tmp_path / "train.py").write_text(first + (tmp_path / "train.py").read_text())
    result = run(tmp_path, "-c", "c.json", "train.py")
    assert result.returncode == 7, result.stderr
    assert "cannot attach" not in result.stderr
    for step in (0, 1):
        assert {"Module.0.Linear.forward.0", "Functional.linear.0.backward"} <= set(names(tmp_path, step))


def test_a_signal_to_the_launcher_reaches_the_program_and_its_end_is_that_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text('{"dump_path": "dump"}')
    waits = "try: print('ready', flush=True); time.sleep(60)\nexcept KeyboardInterrupt: print('cleaned')"
    program = f"import time\n{waits}\nraise SystemExit(5)"
    for number, status in ((signal.SIGINT, 5), (signal.SIGTERM, -signal.SIGTERM)):
        process = subprocess.Popen(
            [sys.executable, "-m", "msprobe", "run", "-c", "c.json", "--", sys.executable, "-c", program],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(number)
        said, _ = process.communicate(timeout=30)
        assert process.returncode == status
        assert said == ("cleaned\n" if number == signal.SIGINT else "")


def test_a_sitecustomize_of_the_user_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('the other one')\n")
    (tmp_path / "c.json").write_text('{"dump_path": "dump"}')
    path = os.pathsep.join([str(tmp_path), str(ROOT)])
    result = run(tmp_path, "-c", "c.json", "--", sys.executable, "-c", "print('program')", PYTHONPATH=path)
    assert result.stdout.splitlines()[-2:] == ["the other one", "program"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-c", "absent.json", "x.py"], "there is no such config file"),
        (["-c", "c.json"], "Missing argument"),
        (["-c", "c.json", "no-such-program"], "no program 'no-such-program'"),
        (["-c", "c.json", "absent.py"], "there is no file absent.py"),
        (["-c", "c.json", "--", sys.executable, "-u", "-X", "dev", "absent", "--flag"], "there is no file absent"),
        (["-c", "wrong.json", "x.py"], "level"),
    ],
)
def test_what_is_wrong_is_told_before_anything_runs(tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "c.json").write_text('{"dump_path": "dump"}')
    (tmp_path / "wrong.json").write_text('{"dump_path": "dump", "level": "L7"}')
    result = run(tmp_path, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert said in result.stderr
    assert result.stderr.count("\n") == 1
