"""Other CPUs: the same training in a process whose libraries use other instructions, or another number of threads.

    python -m tests.emulated.cpus FOLDER FAMILY PRECISION

ATen, oneDNN and MKL choose their kernels by what the CPU can do; variables of the environment keep them from the newest
instructions. Sums are then made in another order, functions are computed by another polynomial, and the random numbers
of the initial parameters differ in their last digit.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.emulated.faults import SMALL_FAULTS
from tests.rules.tree import ROOT

FAULT = "wrong_weight"
CLEAN, FAULTY = "clean", "faulty"
"""Folders of the two trainings that a process records."""
CPUS: dict[str, dict[str, str]] = {
    "avx2": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"},
    "other-vendor": {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "MKL_CBWR": "COMPATIBLE"},
    "no-avx": {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_CBWR": "COMPATIBLE"},
    "two-threads": {"OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"},
}
"""Name of a CPU -> the variables that make this one like it."""


def record_on(folder: Path, cpu: str, family: str, precision: str) -> None:
    """Record three steps of a family in a process on another CPU, and one step of it with a fault."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TRANSFORMERS_VERBOSITY": "error", **CPUS[cpu]}
    command = [sys.executable, "-m", "tests.emulated.cpus", str(folder), family, precision]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def main() -> None:
    from tests.emulated.families import train  # in the process of the other CPU alone

    folder, family, precision = Path(sys.argv[1]), *sys.argv[2:]
    train(folder / CLEAN, family, precision)
    train(folder / FAULTY, family, precision, steps=1, change=SMALL_FAULTS[FAULT] if family != "lstm" else None)


if __name__ == "__main__":
    main()
