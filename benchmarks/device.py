"""What collecting and monitoring cost on an accelerator: the wall time of a step with the tool against one without.

python benchmarks/device.py [--reference PYTHON_PATH] [--layers 8] [--hidden 1024] [--rounds 6]

A process for each variant of each tool, this msprobe and the one on PYTHON_PATH (folders, as in the variable of this
name), and one without a tool train the same Llama of bfloat16; they make a step in turn. The time of a step ends when
the device has finished. The overhead is the median step with the tool over the median step without, minus 1.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OURS, THEIRS = "msprobe", "reference"
PLAIN = "none"
TASKS: dict[str, dict[str, Any]] = {
    "L0 statistics": {"level": "L0", "task": "statistics"},
    "L1 statistics": {"level": "L1", "task": "statistics"},
    "mix statistics": {"level": "mix", "task": "statistics"},
    "L1 md5": {"level": "L1", "task": "statistics", "statistics": {"summary_mode": "md5"}},
    "L0 tensor": {"level": "L0", "task": "tensor"},
}
MONITOR = "monitor: gradients, parameters, moments"
VARIANTS = (PLAIN, *TASKS, f"monitor: {PLAIN}", MONITOR)
WARM_UP = 2


class Trainer:
    """A process that makes steps of one variant."""

    def __init__(self, path: str, variant: str, options: argparse.Namespace) -> None:
        words = [sys.executable, "-W", "ignore", __file__, "--train", variant]
        words += ["--layers", str(options.layers), "--hidden", str(options.hidden)]
        self._process = subprocess.Popen(
            words,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "2"},
            cwd=tempfile.mkdtemp(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def step(self) -> tuple[float, float]:
        """Return the seconds of one step until the device is done, and the device memory at its peak in bytes."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write("step\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("took "):
                return float(line.split()[1]), float(line.split()[2])
        raise SystemExit("a training ended early; run it alone with --train to see why")


class Training:
    """The model of one process, and the tool around a step of it."""

    def __init__(self, layers: int, hidden: int) -> None:
        import torch

        sys.path.insert(0, str(Path(__file__).parent))
        from workloads import LEARNING_RATE, build

        self.torch = torch
        self.device = torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "cpu"
        torch.set_default_device(self.device)
        spec = f"llama:layers={layers},hidden={hidden},seq=512,batch=4,dtype=bf16"
        self.model, self.step = build(spec)
        self.folder = Path(tempfile.mkdtemp(dir="/dev/shm" if os.path.isdir("/dev/shm") else None))
        self.debugger: Any = None
        self.rate = LEARNING_RATE

    def run(self, variant: str) -> float:
        """Return the seconds of one step."""
        step = self._with_tool(variant)
        self._wait()
        began = time.perf_counter()
        step()
        self._wait()
        took = time.perf_counter() - began
        if variant in TASKS:
            shutil.rmtree(self.folder / "dump", ignore_errors=True)
        return took

    def _wait(self) -> None:
        if self.device != "cpu":
            self.torch.accelerator.synchronize()

    def _with_tool(self, variant: str) -> Callable[[], None]:
        if variant == PLAIN:
            return self.step
        from msprobe.pytorch import PrecisionDebugger

        file = self.folder / "config.json"
        file.write_text(json.dumps({"dump_path": str(self.folder / "dump"), "rank": [], "step": [], **TASKS[variant]}))
        if self.debugger is None:
            self.debugger = PrecisionDebugger(config_path=str(file))

        def step() -> None:
            self.debugger.start(self.model)
            self.step()
            self.debugger.stop()
            self.debugger.step()

        return step


class Monitored(Training):
    """The same model under the monitor from its first step on."""

    def __init__(self, layers: int, hidden: int) -> None:
        super().__init__(layers, hidden)
        os.environ["MONITOR_OUTPUT_DIR"] = str(self.folder / "dump")
        from msprobe.pytorch import TrainerMon

        file = self.folder / "monitor.json"
        file.write_text(
            json.dumps({
                "targets": {},
                "ops": ["min", "max", "mean", "norm"],
                **dict.fromkeys(("wg_distribution", "param_distribution", "mv_distribution"), True),
            })
        )
        optimizer = self.torch.optim.AdamW(self.model.parameters(), lr=self.rate)
        tokens = self.torch.randint(0, 4096, (4, 512))
        monitor = TrainerMon(str(file), params_have_main_grad=False)
        monitor.set_monitor(self.model, optimizer, grad_acc_steps=1)

        def step() -> None:
            self.model(input_ids=tokens, labels=tokens).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        self.step = step

    def _with_tool(self, variant: str) -> Callable[[], None]:
        return self.step


class PlainTraining(Monitored):
    """The step of ``Monitored`` without the monitor."""

    def __init__(self, layers: int, hidden: int) -> None:
        Training.__init__(self, layers, hidden)
        optimizer = self.torch.optim.AdamW(self.model.parameters(), lr=self.rate)
        tokens = self.torch.randint(0, 4096, (4, 512))

        def step() -> None:
            self.model(input_ids=tokens, labels=tokens).loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        self.step = step


def serve(variant: str, layers: int, hidden: int) -> None:
    """Answer each line that is read with the time of a step of this variant."""
    kinds = {MONITOR: Monitored, f"monitor: {PLAIN}": PlainTraining}
    training = kinds.get(variant, Training)(layers, hidden)
    on_cuda = training.device == "cuda"
    for _ in sys.stdin:
        if on_cuda:
            training.torch.cuda.reset_peak_memory_stats()
        took = training.run(variant)
        print("took", took, training.torch.cuda.max_memory_allocated() if on_cuda else 0, flush=True)


class Measurement:
    """The processes of all tools and variants; they make a step in turn."""

    def __init__(self, paths: dict[str, str], options: argparse.Namespace) -> None:
        chosen = [one for one in VARIANTS if one.endswith(PLAIN) or one in options.variants]
        self._trainers = {
            (tool, one): Trainer(path, one, options)
            for one in chosen
            for tool, path in paths.items()
            if tool == OURS or not one.endswith(PLAIN)
        }
        self._steps: dict[tuple[str, str], list[tuple[float, float]]] = {key: [] for key in self._trainers}

    def turn(self, keep: bool = True) -> None:
        """Have each process make one step."""
        for (tool, variant), trainer in self._trainers.items():
            took = trainer.step()
            if keep:
                self._steps[tool, variant].append(took)

    def rows(self) -> Iterator[str]:
        """Yield the lines of the table."""
        yield f"{'variant':42} {'tool':10} {'step ms':>9} {'plain ms':>9} {'overhead':>9} {'device MB':>10}"
        for tool, variant in self._steps:
            if not variant.endswith(PLAIN):
                plain = f"monitor: {PLAIN}" if variant == MONITOR else PLAIN
                within, without = self._steps[tool, variant], self._steps[OURS, plain]
                times = [statistics.median(took for took, _ in steps) * 1e3 for steps in (within, without)]
                memory = max(peak for _, peak in within) - max(peak for _, peak in without)
                cells = f"{times[0]:9.2f} {times[1]:9.2f} {times[0] / times[1] - 1:9.3f} {memory / 1e6:10.1f}"
                yield f"{variant:42} {tool:10} {cells}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--reference", help="folders of another msprobe, as in PYTHONPATH")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--variants", nargs="*", default=[*TASKS, MONITOR], help="of those in the table")
    parser.add_argument("--train", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        serve(options.train, options.layers, options.hidden)
        return
    site = os.environ.get("PYTHONPATH", "")
    paths = {OURS: os.pathsep.join([str(ROOT), site])}
    if options.reference:
        paths[THEIRS] = options.reference
    measurement = Measurement(paths, options)
    for _ in range(WARM_UP):
        measurement.turn(keep=False)
    for _ in range(options.rounds):
        measurement.turn()
    print("\n".join(measurement.rows()))


if __name__ == "__main__":
    main()
