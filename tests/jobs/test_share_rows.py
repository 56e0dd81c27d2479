"""Several processes write what one writes, to the last bit; where one is lost, or is in the way, one does it all."""

import json
import os
import random
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import forked
from tests.compare.dumps import call, gradient, module, number, tensor

ROOT = Path(__file__).parents[2]
APIS = ("Torch.matmul", "Functional.linear", "Tensor.add", "Torch.empty", "Tensor.copy_", "Distributed.all_reduce")
ODD = (None, float("nan"), float("inf"), 3, True)


class Program:
    """Records of a made-up training: ``step`` of forward and backward calls, then the optimizer; with everything that
    a comparison treats in its own way. The same seed makes the same program, ``shake`` makes other values of it."""

    def __init__(self, seed: int, shake: float, *, md5: bool = False, modules: bool = False) -> None:
        self.draw, self.noise, self.shake = random.Random(seed), random.Random(f"{seed} {shake}"), shake
        self.md5 = md5
        self.data: dict[str, Any] = {}
        self.construct: dict[str, Any] = {}
        calls = [f"{APIS[k % len(APIS)]}.{k // len(APIS)}" for k in range(150)]
        for number_, name in enumerate(calls):
            self.forward(name, number_, modules=modules)
        for number_, name in reversed(list(enumerate(calls))):
            self.backward(name, number_, modules=modules)
        for k in range(10):
            name = f"Torch.mul.{k}.forward"
            self.data[name] = call([self.leaf()], [self.leaf()])
            self.construct[name] = "optimizer.0" if modules else None

    def forward(self, name: str, number_: int, *, modules: bool) -> None:
        inputs = [self.leaf(), self.argument(), [self.leaf(), {"k": self.leaf()}]]
        body = call(inputs, [self.leaf()], alpha=number(1), other=self.leaf())
        if number_ % 40 == 5:
            body["output"].append(self.leaf())
            if self.shake and number_ % 80 == 5:
                body["output"].pop()
        self.data[f"{name}.forward"] = body
        if modules:
            layer = f"Module.layer{number_ // 10}.Linear"
            self.construct[f"{name}.forward"] = f"{layer}.forward.0"
            if number_ % 10 == 9:
                self.data[f"{layer}.forward.0"] = module([self.leaf()], [self.leaf()], weight=self.leaf())
                self.construct[f"{layer}.forward.0"] = None

    def backward(self, name: str, number_: int, *, modules: bool) -> None:
        layer = f"Module.layer{number_ // 10}.Linear"
        if modules and number_ % 10 == 9:  # what activation checkpointing repeats; the last call was left early
            for api in ("relu", "tanh"):
                self.data[f"Tensor.{api}.{number_}.forward"] = call([self.leaf()], [self.leaf()])
            self.construct[f"Tensor.relu.{number_}.forward"] = f"{layer}.forward.1"
            self.data[f"{layer}.forward.1"] = module([self.leaf()], [self.leaf()], weight=self.leaf())
            self.construct[f"{layer}.forward.1"] = f"{layer}.backward.0"
            self.data[f"Tensor.exp.{number_}.forward"] = {**call([self.leaf()], [self.leaf()]), "is_recompute": True}
        self.data[f"{name}.backward"] = gradient([self.leaf()], [self.leaf(1e-9 if number_ % 7 == 0 else 1.0)])
        if modules:
            self.construct[f"{name}.backward"] = f"{layer}.backward.0"
            if number_ % 10 == 0:
                self.data[f"{layer}.backward.0"] = gradient([self.leaf(shape=(64, 8))], [self.leaf()])
                self.construct[f"{layer}.backward.0"] = None
                self.data[f"{layer}.parameters_grad"] = {"weight": [self.leaf(1e-8)], "bias": [self.leaf(1e-9)]}

    def leaf(self, scale: float = 1.0, **more: Any) -> Any:
        value = self.draw.uniform(0.5, 2.0) * scale
        choice = self.draw.random()
        if self.shake:
            value *= 1 + self.shake * self.noise.choice((0.0, 0.0, 1.0, -1.0)) * self.noise.random()
        found = tensor(value, **more)
        if choice < 0.04:
            found["Max"] = self.noise.choice(ODD)
        elif choice < 0.06:
            found |= {"dtype": "torch.int64", "Max": int(value * 100), "Min": 0}
        elif choice < 0.08:
            found["shape"] = [4, self.noise.choice((8, 9))] if self.shake else [4, 8]
        elif choice < 0.1:
            return None
        if self.md5:
            found["md5"] = f"{hash(value) & 0xFFFFFFFF:08x}"
        return found

    def argument(self) -> Any:
        return (
            number(self.draw.choice((1, 2.5, 7, "text"))) if self.draw.random() < 0.9 else number(self.noise.random())
        )

    def write(self, folder: Path) -> str:
        folder.mkdir(parents=True)
        document = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None}
        (folder / "dump.json").write_text(json.dumps({**document, "data": self.data}, indent=1))
        (folder / "construct.json").write_text(json.dumps(self.construct if any(self.construct.values()) else {}))
        stacks = {"0": [[name for name in self.data if name.endswith("forward")], ["File a.py, line 1, in f, \n x"]]}
        (folder / "stack.json").write_text(json.dumps(stacks))
        return str(folder)


def run(jobs: list[list[Any]], output: Path, **environment: str) -> list[dict[str, Any]]:
    output.mkdir(exist_ok=True)
    tasks = output.with_suffix(".json")
    tasks.write_text(json.dumps(jobs))
    words = ["-m", "tests.report.run_with_processes", output, tasks]
    done = forked.run(words, cwd=ROOT, env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr.decode()
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def pair(folder: Path, seed: int = 0, shake: float = 1e-3, **what: bool) -> tuple[str, str]:
    return Program(seed, shake, **what).write(folder / "t"), Program(seed, 0.0, **what).write(folder / "g")


WHAT = {
    "functions": {},
    "modules": {"modules": True},
    "md5": {"md5": True},
}


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.slow
@pytest.mark.parametrize("policy", ["default", "reference"])
@pytest.mark.parametrize("what", WHAT)
def test_the_same_to_the_last_bit(what: str, policy: str, tmp_path: Path) -> None:
    jobs = []
    for seed in range(4):
        sides = pair(tmp_path / str(seed), seed, (0.0, 1e-7, 1e-3, 0.5)[seed], **WHAT[what])
        jobs += [[*sides, {"policy": policy}, processes, None] for processes in (1, 2 + seed % 2)]
    found = run(jobs, tmp_path / "out")
    for one, other in zip(found[::2], found[1::2], strict=True):
        assert one["shared"] == [False] and len(one["tables"]) == 1
        assert other == {**one, "shared": [True]}


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    yield pair(tmp_path_factory.mktemp("pair"))


def test_steps_hand_on_what_they_showed(tmp_path: Path) -> None:
    for step in range(3):
        for side, shake in (("t", 1e-7), ("g", 0.0)):
            Program(step, shake, modules=True).write(tmp_path / side / f"step{step}" / "rank0")
    sides = str(tmp_path / "t"), str(tmp_path / "g")
    one, two = run([[*sides, {}, processes, None] for processes in (1, 2)], tmp_path / "out")
    assert two == {**one, "shared": [True] * 3} and len(one["tables"]) == 3


def test_a_table_of_several_files(dumps: tuple[str, str], tmp_path: Path) -> None:
    one, *others = run([[*dumps, {}, processes, None] for processes in (1, 2, 3)], tmp_path / "out", MOST_ROWS="300")
    assert len(one["tables"]) > 3 and {table.count("\n") for table in one["tables"][:-1]} == {301}
    assert all(other == {**one, "shared": [True]} for other in others)


@pytest.mark.parametrize("kind", ["html", "junit"])
def test_every_report_is_shared(kind: str, dumps: tuple[str, str], tmp_path: Path) -> None:
    options = {kind: str(tmp_path / f"report.{kind}")}
    one, *others = run([[*dumps, options, processes, None] for processes in (1, 3)], tmp_path / "out")
    assert one["summary"]["verdict"] == "diverged" and "Torch.matmul.0.forward" in str(one["tables"] + one["reports"])
    for other in others:
        assert other == {**one, "shared": [True]}


def test_a_workbook_is_shared(dumps: tuple[str, str], tmp_path: Path) -> None:
    jobs = [[*dumps, {"xlsx": True}, processes, None] for processes in (1, 3)]
    one, *others = run(jobs, tmp_path / "out")
    assert one["summary"]["verdict"] == "diverged" and "Torch.matmul.0.forward" in str(one["tables"])
    for other in others:
        assert other == {**one, "shared": [True]}


@pytest.mark.parametrize("lose", ["own_part", "received_verdicts", "part_blocks"])
def test_a_lost_process_is_told_and_replaced(lose: str, dumps: tuple[str, str], tmp_path: Path) -> None:
    whole, found = run([[*dumps, {}, 1, None], [*dumps, {}, 2, lose]], tmp_path / "out")
    (warning,) = found["warnings"]
    assert "is gone; one process compares it again" in warning
    assert found == {**whole, "warnings": [warning]}


def test_a_document_laid_out_otherwise_is_compared_by_one(dumps: tuple[str, str], tmp_path: Path) -> None:
    dense = tmp_path / "dense"
    dense.mkdir()
    (dense / "dump.json").write_text(json.dumps(json.loads(Path(dumps[0], "dump.json").read_text())))
    (found,) = run([[str(dense), dumps[1], {}, 2, None]], tmp_path / "out")
    assert found["shared"] == [False] and found["summary"]["verdict"] == "diverged"


@pytest.mark.matrix("wide", sample=3)
@pytest.mark.parametrize("lacking", ["Torch.matmul.3.forward", "Tensor.add.12.backward", "Torch.mul.9.forward"])
def test_calls_of_one_side_alone_are_compared_by_one(lacking: str, dumps: tuple[str, str], tmp_path: Path) -> None:
    document = json.loads(Path(dumps[1], "dump.json").read_text())
    del document["data"][lacking]
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "dump.json").write_text(json.dumps(document, indent=1))
    one, two = run([[dumps[0], str(tmp_path / "g"), {}, processes, None] for processes in (1, 2)], tmp_path / "out")
    assert two == one and one["shared"] == [False] and one["summary"]["counts"]["target_only"] > 0


@pytest.mark.parametrize(
    ("options", "lacking"),
    [
        pytest.param({}, "Tensor.add.12.backward", id="other calls"),
        pytest.param({"cell_mapping": True}, None, id="mapping"),
        pytest.param({"fuzzy_match": True}, "Tensor.add.3.forward", id="fuzzy"),
        pytest.param({"policy": "reference", "junit": "report.xml"}, "Tensor.add.3.forward", id="published rules"),
        pytest.param({"html": "report.html"}, "Tensor.add.3.forward", id="page"),
    ],
)
def test_the_rows_of_what_one_compares_are_shared(
    options: dict[str, Any], lacking: str | None, dumps: tuple[str, str], tmp_path: Path
) -> None:
    document = json.loads(Path(dumps[1], "dump.json").read_text())
    document["data"].pop(lacking, None)
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "dump.json").write_text(json.dumps(document))
    options = {name: str(tmp_path / value) if name in ("html", "junit") else value for name, value in options.items()}
    jobs = [[dumps[0], str(tmp_path / "g"), options, processes, None] for processes in (1, 3)]
    one, *others = run(jobs, tmp_path / "out", WORTH_ROWS="0")
    assert one["shared"] == [False] and one["tables"]
    for other in others:
        assert other == {**one, "shared": [True]}


def test_a_lost_process_that_made_rows_is_replaced(dumps: tuple[str, str], tmp_path: Path) -> None:
    jobs = [[*dumps, {"cell_mapping": True}, *how] for how in ((1, None), (2, "_make_rows"))]
    whole, found = run(jobs, tmp_path / "out", WORTH_ROWS="0")
    (warning,) = found["warnings"]
    assert "is gone; one process compares it again" in warning
    assert found == {**whole, "warnings": [warning]}


def test_a_damaged_record_is_told_as_ever(dumps: tuple[str, str], tmp_path: Path) -> None:
    text = Path(dumps[1], "dump.json").read_text()
    (tmp_path / "g").mkdir()
    place = text.index("\n", len(text) * 3 // 4)
    (tmp_path / "g" / "dump.json").write_text(f"{text[:place]}}}{text[place:]}")
    one, two = run([[dumps[0], str(tmp_path / "g"), {}, processes, None] for processes in (1, 2)], tmp_path / "out")
    assert one == two and "not valid JSON" in one["error"]


@pytest.mark.parametrize("sides", ["t", "g", "tg"])
@pytest.mark.parametrize("what", ["entry", "statistic", "header"])
def test_what_stands_twice_is_told_as_ever(what: str, sides: str, dumps: tuple[str, str], tmp_path: Path) -> None:
    """An entry at both ends of a document is in two parts, and each of them has it once."""
    for side, folder in zip("tg", dumps, strict=True):
        text = Path(folder, "dump.json").read_text()
        name = next(iter(json.loads(text)["data"]))
        end = text.rindex("\n }")
        twice = {
            "entry": f'{text[:end]},\n  "{name}": {{}}{text[end:]}',
            "statistic": re.sub(r'("Norm": )(?=[^\0]{99,999}\Z)', r"\g<1>1, \1", text, count=1),
            "header": text.replace('"task"', '"task": "statistics", "task"', 1),
        }
        (tmp_path / side).mkdir()
        (tmp_path / side / "dump.json").write_text(twice[what] if side in sides else text)
    one, two = run([[str(tmp_path / "t"), str(tmp_path / "g"), {}, count, None] for count in (1, 2)], tmp_path / "out")
    assert one == two and "stands there twice" in one["error"]


@pytest.mark.parametrize("where", ["own_part", "joined", "verdicts_of"])
def test_an_interrupted_comparison_leaves_nothing(where: str, dumps: tuple[str, str], tmp_path: Path) -> None:
    (found,) = run([[*dumps, {}, 3, f"interrupt:{where}"]], tmp_path / "out")
    assert found["error"].startswith("KeyboardInterrupt")
    assert (found["children"], found["files"]) == (0, [])


def test_the_terminal_interrupts_all(dumps: tuple[str, str], tmp_path: Path) -> None:
    """Ctrl-C reaches every process of the group."""
    command = [forked.python(), "-c", _CLI, "compare", "-tp", dumps[0], "-gp", dumps[1], "-o", str(tmp_path / "out")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT, start_new_session=True)
    while not (tmp_path / "out").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    time.sleep(0.5)
    os.killpg(process.pid, signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (130, "msprobe: error: interrupted\n")
    assert list((tmp_path / "out").iterdir()) == []
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)


_CLI = """
import os, sys, time
os.environ["OPENBLAS_NUM_THREADS"] = "1"
from msprobe.compare.workers import compare_workers
from msprobe.jobs import compare, compare_rank
compare_rank.WORTH_BYTES, compare.cpu_count = 0, lambda: 3
assert compare_workers.received_verdicts
compare_workers.received_verdicts = lambda *sent: time.sleep(600)
from msprobe.cli.main import main
main(sys.argv[1:])
"""
