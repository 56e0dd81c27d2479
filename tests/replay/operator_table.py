"""The page ``docs/operators.md``: every operator of torch's table of samples, run again in three dtypes.

python -m tests.replay.operator_table > docs/operators.md
"""

from __future__ import annotations

import datetime
import json
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from msprobe.adapters.pytorch.recorded_names import read_names
from msprobe.core import log
from msprobe.core.backend.replaying import CannotReplayError
from msprobe.numerics.kinds import Level
from msprobe.pytorch import PrecisionDebugger
from msprobe.replay.judged_call import judge_call
from tests.replay.further_functions import call_all, run_again
from tests.replay.operator_samples import operators, samples

DTYPES = ("float32", "bfloat16", "float16")
DEFECTS: dict[str, str] = json.loads((Path(__file__).parent / "kernel_defects.json").read_text(encoding="utf-8"))


def cell(name: str, dtype: str) -> str:
    """Return what came of the samples of an operator: how many calls passed, and how many of them backward too."""
    forward = backward = skipped = 0
    reasons: Counter[str] = Counter()
    for sample in samples(name, getattr(torch, dtype)):
        try:
            answer = judge_call(sample.call, sample.replayer, "cpu")
        except CannotReplayError as error:
            skipped += 1
            reasons[str(error).partition(":")[0][:60]] += 1
            continue
        values = (*answer.forward, *answer.backward)
        if any(value.conditioned.level is Level.ERROR for value in values):
            return f"**error**: {DEFECTS.get(f'{name}-{dtype}', 'unexplained')}"
        forward, backward = forward + 1, backward + bool(answer.backward)
    if not forward and not skipped:
        return "no kernel"
    text = f"{forward}, {backward} b" if forward else ""
    skips = f"{skipped} skipped ({next(iter(reasons))})" if skipped else ""
    return "; ".join(filter(None, (text, skips)))


def further_functions() -> set[str]:
    """Return the functions without samples of torch that are recorded, run again in float32, and right."""
    with tempfile.TemporaryDirectory() as folder:
        with PrecisionDebugger({"task": "tensor", "dump_path": folder, "risk_level": "ALL"}).collect():
            call_all(torch.float32)
        return {name for name, wrong in run_again(Path(folder)).items() if not wrong}


def recorded_surface(names: Iterable[str], further: set[str]) -> tuple[int, int, list[str]]:
    """Return how many recorded functions are checked, of how many, and the names of the others."""
    table = read_names()
    recorded = {
        name.rpartition(".")[2]
        for part in (table["apis"], table["extra"])
        for prefix, listed in part.items()
        if prefix in ("Functional", "Tensor", "Torch")
        for name in listed
    }
    reached = {each.rpartition(".")[2] for name in names for each in _names_of(operators()[name])}
    reached |= further
    missing = sorted(name for name in recorded if name not in reached and _plain(name) not in reached)
    return len(recorded) - len(missing), len(recorded), missing


def _names_of(operator: Any) -> set[str]:
    variants = (operator.op, operator.method_variant, operator.inplace_variant, operator.operator_variant)
    names = {getattr(each, "__name__", "") for each in variants if each is not None}
    return names | {operator.name, operator.aten_name or "", *(alias.name for alias in operator.aliases)}


def _plain(name: str) -> str:
    """Return the function that a variant is of: ``add`` for ``__iadd__``, ``__radd__`` and ``add_``."""
    if not name.startswith("__"):
        return name.rstrip("_")
    return name.strip("_").removeprefix("i").removeprefix("r")


def main() -> None:
    """Print the page."""
    warnings.simplefilter("ignore")
    log.use_stream("stderr")
    names = sorted(operators())
    rows = [f"| `{name}` | {' | '.join(cell(name, dtype) for dtype in DTYPES)} |" for name in names]
    reached, whole, missing = recorded_surface(names, further_functions())
    others = ", ".join(f"`{name}`" for name in missing)
    print(f"""# Operators

Made on {datetime.date.today()} with torch {torch.__version__} by `python -m tests.replay.operator_table`. Each operator
of torch's own table of samples (`op_db`) runs again with its first three samples, as `acc_check` does it. "3, 2 b":
three calls are right forward, two of them backward too. What is wrong is known: `tests/replay/kernel_defects.json`.

{len(names)} operators, and single calls of functions that have no samples (`tests/replay/further_functions.py`), reach
{reached} of the {whole} names of functions of `torch`, `torch.nn.functional` and `torch.Tensor` that are recorded
({reached / whole:.1%}). The others have no kernel for a CPU, compute nothing, or take sparse tensors: {others}.

| operator | {" | ".join(DTYPES)} |
|---|---|---|---|""")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
