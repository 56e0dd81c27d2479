"""Dump a run of the zoo: in this process, or ``python -m tests.zoo.run FOLDER MODE VARIANT``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch

from msprobe.pytorch import PrecisionDebugger
from tests.fresh_debugger import forget
from tests.zoo.faults import FAULTS, GOLDEN
from tests.zoo.harmless import HARMLESS
from tests.zoo.jobs import MODES
from tests.zoo.model import Recording, healthy, train


def record(folder: Path, mode: str, variant: str) -> None:
    """Train a variant, which is a golden run, a harmless change or a fault, as the mode says."""
    what: dict[str, Any] = {"task": "statistics", "level": "mix", "update": True, **MODES[mode]}
    update = what.pop("update")
    section = {"summary_mode": what.pop("summary_mode")} if "summary_mode" in what else {}
    threads, onednn = torch.get_num_threads(), torch.backends.mkldnn.enabled
    forget()
    training = healthy()
    change = GOLDEN.get(variant) or HARMLESS.get(variant) or FAULTS[variant].apply
    change(training)
    debugger = PrecisionDebugger({**what, "dump_path": str(folder), what["task"]: section})
    try:
        torch.manual_seed(1)
        losses = train(training, Recording(debugger, update))
    finally:
        forget()
        torch.set_num_threads(threads)
        torch.backends.mkldnn.enabled = onednn
    (folder / "losses.json").write_text(json.dumps(losses), encoding="utf-8")


if __name__ == "__main__":
    record(Path(sys.argv[1]), *sys.argv[2:])
