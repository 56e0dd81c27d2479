"""What a monitor costs in a training step, by turns with another tool.

python benchmarks/monitor.py [--reference PYTHON] [--workload llama:layers=4] [--steps 15] [--launches 3]

Five processes train the same model with one thread: each tool's python without a monitor and with one, and one that
only reads the same tensors (their squares are summed). Each makes a step in turn, in another order each time, so that
what else the machine does falls on all of them. The time is that of the CPU, the overhead is the median step with the
monitor over the median step without. Two equal processes differ by up to 1.5 % of a step, since their memory lies
elsewhere: the processes are started anew for each launch, and the median of the launches is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WARM_UP = 2
CONFIGURATIONS = {
    "gradients, parameters, moments": {
        "wg_distribution": True,
        "param_distribution": True,
        "mv_distribution": True,
    },
    "everything, six statistics": {
        **dict.fromkeys(("wg_distribution", "param_distribution", "mv_distribution", "xy_distribution"), True),
        "ops": ["min", "max", "mean", "norm", "nans", "zeros"],
    },
}
READ = "read"
"""In place of a configuration: gradients, parameters and moments are read, and nothing else is done."""


class Trainer:
    """A process that makes a step whenever it is told to."""

    def __init__(self, python: str, workload: str, config: str) -> None:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        if Path(python) == Path(sys.executable):
            environment["PYTHONPATH"] = str(ROOT)
        self._process = subprocess.Popen(
            [python, "-W", "ignore", __file__, "--train", workload, "--config", config],
            env={**environment, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def answer(self, word: str) -> float:
        """Return the number that follows ``word`` in the next line that begins with it."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(word):
                return float(line.split()[1])
        raise SystemExit("a training has ended early; run it alone with --train to see why")

    def step(self) -> float:
        """Return the CPU seconds of one step."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self.answer("STEP")

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def train(workload: str, config: str) -> None:
    """Make a step for each line of the standard input, and print its time."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import torch
    import workloads  # type: ignore[import-not-found]

    torch.set_num_threads(1)
    model, _ = workloads.build(workload)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    tokens = torch.randint(0, model.config.vocab_size, (2, 256))
    if config == READ:
        read_only(model, optimizer)
    elif config:
        from msprobe.pytorch import TrainerMon

        folder = Path(tempfile.mkdtemp())
        os.environ["MONITOR_OUTPUT_DIR"] = str(folder)
        (folder / "monitor.json").write_text(config)
        monitor = TrainerMon(str(folder / "monitor.json"), params_have_main_grad=False)
        monitor.set_monitor(model, optimizer)
    print("READY 0", flush=True)
    for _ in sys.stdin:
        begin = time.process_time()
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"STEP {time.process_time() - begin}", flush=True)


def read_only(model: Any, optimizer: Any) -> None:
    """Sum the squares of what the first configuration measures, when it does so."""
    from msprobe.monitor.host_statistics import code_of
    from msprobe.native.loader import load

    kernel = load()
    assert kernel is not None, "the compiled kernel is missing"
    parameters = list(model.parameters())

    def read(*tensors: Any) -> None:
        for tensor in tensors:
            kernel.squares(tensor.data_ptr(), tensor.numel(), code_of(str(tensor.dtype)))

    def before(*_: Any) -> None:
        for one in parameters:
            state = optimizer.state.get(one, {})
            read(one.grad, one, *(state[name] for name in ("exp_avg", "exp_avg_sq") if name in state))

    for one in parameters:
        one.register_post_accumulate_grad_hook(lambda parameter: read(parameter.grad))
    optimizer.register_step_pre_hook(before)
    optimizer.register_step_post_hook(lambda *_: read(*parameters))


def measure(runs: list[tuple[str, str]], workload: str, steps: int) -> list[float]:
    """Return the median seconds of a step of each run: a python and a configuration."""
    trainers = [Trainer(python, workload, config) for python, config in runs]
    taken: list[list[float]] = [[] for _ in trainers]
    try:
        for trainer in trainers:
            trainer.answer("READY")
        for _ in range(WARM_UP + steps):
            for index in random.sample(range(len(trainers)), len(trainers)):
                taken[index].append(trainers[index].step())
    finally:
        for trainer in trainers:
            trainer.end()
    return [statistics.median(times[WARM_UP:]) for times in taken]


def overheads(pythons: list[str], workload: str, config: str, steps: int) -> list[float]:
    """Return the overhead of each python's monitor, and that of reading alone."""
    runs = [(python, chosen) for python in pythons for chosen in ("", config)] + [(sys.executable, READ)]
    *seconds, read = measure(runs, workload, steps)
    shares = [seconds[index + 1] / seconds[index] - 1 for index in range(0, len(seconds), 2)]
    return [*shares, read / seconds[0] - 1]


def main() -> None:
    """Print a row for each configuration."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", metavar="PYTHON", help="a python with the other tool")
    parser.add_argument("--workload", default="llama:layers=4", help="a llama of workloads.py, trained by AdamW")
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--launches", type=int, default=3, help="how often all processes are started anew")
    parser.add_argument("--train", metavar="WORKLOAD", help=argparse.SUPPRESS)
    parser.add_argument("--config", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        train(options.train, options.config)
        return
    pythons = [sys.executable, *([options.reference] if options.reference else [])]
    print("| configuration | overhead | of the reference | ratio | of reading the first row's tensors |")
    print("|---|---|---|---|---|")
    for name, config in CONFIGURATIONS.items():
        text = json.dumps(config)
        launches = [overheads(pythons, options.workload, text, options.steps) for _ in range(options.launches)]
        ours, *others, read = [statistics.median(shares) for shares in zip(*launches, strict=True)]
        other = [f"{others[0]:.1%}", f"{ours / others[0]:.2f}"] if others else ["", ""]
        print(f"| {name} | {ours:.1%} | {' | '.join(other)} | {read:.1%} |", flush=True)


if __name__ == "__main__":
    main()
