"""What a monitor costs in a training step, by turns with another tool.

python benchmarks/monitor.py [--reference PYTHON] [--workload llama:layers=4] [--steps 15]

Four processes train the same model with one thread: each tool's python without a monitor and with one. Each makes a
step in turn, so that what else the machine does falls on all of them. The time is that of the CPU, the overhead is the
median step with the monitor over the median step without.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

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
    if config:
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


def measure(pythons: list[str], workload: str, config: str, steps: int) -> list[tuple[float, float]]:
    """Return for each python the median seconds of a step without a monitor and with one."""
    trainers = [Trainer(python, workload, chosen) for python in pythons for chosen in ("", config)]
    try:
        for trainer in trainers:
            trainer.answer("READY")
        taken = [[trainer.step() for trainer in trainers] for _ in range(WARM_UP + steps)][WARM_UP:]
    finally:
        for trainer in trainers:
            trainer.end()
    medians = [statistics.median(times) for times in zip(*taken, strict=True)]
    return list(zip(medians[::2], medians[1::2], strict=True))


def main() -> None:
    """Print a row for each configuration."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reference", metavar="PYTHON", help="a python with the other tool")
    parser.add_argument("--workload", default="llama:layers=4", help="a llama of workloads.py, trained by AdamW")
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--train", metavar="WORKLOAD", help=argparse.SUPPRESS)
    parser.add_argument("--config", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train:
        train(options.train, options.config)
        return
    pythons = [sys.executable, *([options.reference] if options.reference else [])]
    print("| configuration | step | overhead | of the reference | ratio |\n|---|---|---|---|---|")
    for name, config in CONFIGURATIONS.items():
        found = measure(pythons, options.workload, json.dumps(config), options.steps)
        shares = [with_ / without - 1 for without, with_ in found]
        other = [f"{shares[1]:.1%}", f"{shares[0] / shares[1]:.3f}"] if options.reference else ["", ""]
        print(f"| {name} | {found[0][0]:.3f} s | {shares[0]:.1%} | {' | '.join(other)} |", flush=True)


if __name__ == "__main__":
    main()
