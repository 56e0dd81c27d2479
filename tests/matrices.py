"""The large matrices of tests: their names, which of their tests belong to CI, and the page with the result of a run.

The matrix ``fuzz`` is every property test with ``FUZZ_FACTOR`` times its examples, and what is marked as part of it. CI
runs the property tests with their own number of examples. One with few of them for CI says how many the matrix draws:
``@pytest.mark.matrix("fuzz", sample=True, examples=10_000)``.
A test of another matrix carries ``@pytest.mark.matrix("NAME")``. The tests of its fixed sample, which CI runs too,
carry ``@pytest.mark.matrix("NAME", sample=True)``; ``matrix_params`` marks a parametrisation in this way.
``scripts/test --matrix NAME`` runs all of them and writes ``docs/matrices/NAME.md``.

A test with several parametrisations may have ``sample="each value"``: CI runs as many of its cases as it takes for each
value of each parametrisation to occur, the matrix every combination. With a number as ``sample``, CI runs every
second, third ... case.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "matrices"
FUZZ = "fuzz"
FUZZ_FACTOR = 40
WIDE = "wide"
EACH_VALUE = "each value"
CALLS = "calls"
"""The property of a test that holds a number of calls."""
FIGURE = "figure"
"""The property of a test for a table of the page: the row, the column, and whether what is asked there is so."""
MATRICES: dict[str, str] = {
    "alerts": "Normal trainings under the monitor: no alert; a spike and a NaN planted in them are found.",
    "benchmarks": "The programs in benchmarks/ run, on sizes too small to say anything about speed.",
    "benign": "Harmless changes x ten model families x dtypes and emulated devices: the verdict is `same`.",
    "check": "Trainings with one planted fault each, without it, and correct ones: msprobe check names faults alone.",
    "compiled": "Operators that inductor computes wrongly: node and line are named; correct models compile silently.",
    "faults": "Faults in ten model families, alone and with a harmless change: module and source line are right.",
    "cpus": "Trainings of model families with other instructions of this CPU, or threads: the same; a fault is named.",
    FUZZ: f"Every property test, with {FUZZ_FACTOR} times the examples of CI.",
    "facts": "10,000 dumps that differ from a good one in a single fact, in both directions: none passes unexplained.",
    "devices": "Trainings, generation, two ranks on other emulated devices are the same; with a fault they are not.",
    "interrupts": "An exception of the program at every line of the tool reaches it, and leaves nothing in place.",
    "kills": "260 trainings, also with a ring or under a monitor, killed at random moments: every file is readable.",
    "layouts": "One model in 45 parallel layouts, against one another: correct ones are the same, faults are named.",
    "memory": "500 recorded steps, with tensor files and in the background: memory stays as after step 100.",
    "megatron": "GPTModel of megatron-core on CPU in nine layouts: correct ones are the same, faults are named.",
    "noise": "Programs that never compute the same twice: a further normal run passes, a fault is found at its place.",
    "operators": "Operators of which torch has samples, in three dtypes: run again, all but known defects are right.",
    "pages": "What a reader does in the page of the viewer, from the local server and from one file.",
    "planted": "Wrong kernels in 44 operators of ATen: acc_check finds each at the calls that it changes alone.",
    "programs": "Public trainings under msprobe run: steps, losses, twice, faults, check; features of torch.",
    "ranks": "Trainings spread over 2 to 4 processes: the same twice; of a fault rank, module and line are named.",
    "reference": "Dumps of the reference, which REFERENCE_PYTHON has, against ours: levels, tasks, faults, directions.",
    "serving": "Requests alone, packed, in chunks, padded, on two ranks: the same; a fault has its call and token.",
    "silent": "Trainings with a silent error: msprobe check finds it at its place, and nothing in correct programs.",
    "threads": "Trainings in two to four threads between start and stop: no crash, bits and values as one by one.",
    "upgrades": "Pairs from real life (versions, ports, precisions, adapters, inference): same; faults have a line.",
    "versions": "Older versions of PyTorch and MindSpore record as the newest, and leave trainings as they are.",
    WIDE: "What CI runs a sample of and no other matrix runs: combinations of parameters, pages of the guide, waits.",
    "twins": "Layers and models of two frameworks: clean pairs are the same, and each planted fault is named.",
}
"""Name of each matrix -> what it asks, in one sentence."""


class _Whole:
    """Whether a matrix runs, so that all of its cases are asked for."""

    asked = False


whole = _Whole()
_LISTED_PACKAGES = ("torch", "mindspore", "numpy", "hypothesis")
_LISTED_FAULTS = 50


def matrix_params(name: str, cases: Iterable[object], sample: Collection[str]) -> list[object]:
    """Mark the cases of a parametrisation as tests of the matrix ``name``.

    ``cases`` are values or ``pytest.param`` objects; ``sample`` holds the ids of those that CI runs too (the text of
    the value where a case has no id of its own). Where no matrix runs, the cases are the sample: to collect the others
    takes seconds in each process.
    """
    result, others = [], []
    for case in cases:
        values, marks, label = _parts(case)
        mark = pytest.mark.matrix(name, sample=label in sample)
        (result if label in sample or whole.asked else others).append(
            pytest.param(*values, id=label, marks=[*marks, mark])
        )
    return result or others


def _parts(case: object) -> tuple[tuple[object, ...], Collection[pytest.MarkDecorator | pytest.Mark], str]:
    if hasattr(case, "marks") and hasattr(case, "values"):
        return case.values, case.marks, case.id or "-".join(map(str, case.values))
    values = case if isinstance(case, tuple) else (case,)
    return values, (), "-".join(map(str, values))


def selected(items: list[pytest.Item], matrix: str | None) -> list[pytest.Item]:
    """Return the tests that run: those of ``matrix``, or without one those of CI."""
    if matrix:
        return [item for item in items if _belongs(item, matrix)]
    samples = {item: [mark.kwargs.get("sample", False) for mark in item.iter_markers("matrix")] for item in items}
    functions: dict[str, list[pytest.Item]] = {}
    for item in items:
        if all(samples[item]):
            functions.setdefault(item.nodeid.partition("[")[0], []).append(item)
    chosen: set[pytest.Item] = set()
    for cases in functions.values():
        wanted = samples[cases[0]]
        chosen.update(each_value(cases) if EACH_VALUE in wanted else cases[:: max([1, *wanted])])
    return [item for item in items if item in chosen]


def _belongs(item: pytest.Item, matrix: str) -> bool:
    names = {mark.args[0] for mark in item.iter_markers("matrix")}
    if matrix == WIDE and names - {WIDE}:
        return False  # that matrix runs it whole
    return matrix in names or (matrix == FUZZ and is_property(item))


def each_value(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Return few cases of a test function in which every value of its parametrisations occurs."""
    cases = {item: _parameters(item) for item in items}
    missing = set[object]().union(*cases.values())
    chosen = set()
    while missing:
        best = max(cases, key=lambda item: len(cases[item] & missing))
        missing -= cases[best]
        chosen.add(best)
    return chosen


def _parameters(item: pytest.Item) -> set[object]:
    """Return what tells the values that one case has of each parametrisation."""
    params: dict[str, object] = item.callspec.params  # type: ignore[attr-defined]
    names = [mark.args[0] for mark in item.iter_markers("parametrize")]
    groups = [name.replace(" ", "").split(",") if isinstance(name, str) else name for name in names]
    groups += [[name] for name in params.keys() - {name for group in groups for name in group}]
    return {(*group, *(id(params[name]) for name in group)) for group in groups}


def is_property(item: pytest.Item) -> bool:
    """Return whether hypothesis draws the arguments of a test."""
    return bool(getattr(getattr(item, "obj", None), "is_hypothesis_test", False))


def multiply_examples(items: Iterable[pytest.Item], factor: int = FUZZ_FACTOR) -> None:
    """Let every property test draw ``factor`` times as many examples, or those of its mark, other ones in each run."""
    functions = {
        id(function): (function, item) for item in items if is_property(item) for function in [_function(item)]
    }
    for function, item in functions.values():
        own: settings = function._hypothesis_internal_use_settings
        told = [mark.kwargs["examples"] for mark in item.iter_markers("matrix") if "examples" in mark.kwargs]
        more = settings(own, max_examples=max([own.max_examples * factor, *told]), derandomize=False)
        function._hypothesis_internal_use_settings = more


def _function(item: pytest.Item) -> Any:
    function = item.obj  # type: ignore[attr-defined]
    return getattr(function, "__func__", function)


def calls_by_test(reports: Iterable[Any]) -> dict[str, int]:
    """Return how many calls the tests recorded that count them (fixture ``record_calls``), by test function."""
    totals: Counter[str] = Counter()
    for report in reports:
        properties: list[tuple[str, Any]] = getattr(report, "user_properties", [])
        totals[report.nodeid.partition("[")[0]] += sum(value for key, value in properties if key == CALLS)
    return {test: calls for test, calls in totals.items() if calls}


def figures_of(reports: Iterable[Any]) -> list[str]:
    """Return a table of the figures that the tests note: in each row and column how many of those asked are so."""
    noted = [value for report in reports for key, value in getattr(report, "user_properties", []) if key == FIGURE]
    asked = Counter((row, column) for row, column, _ in noted)
    right = Counter((row, column) for row, column, is_so in noted if is_so)
    rows, columns = (list(dict.fromkeys(value[place] for value in noted)) for place in (0, 1))
    if not noted:
        return []
    cells = {key: f"{right[key]} of {number}" for key, number in asked.items()}
    lines = [f"| {row} | {' | '.join(cells.get((row, column), '') for column in columns)} |" for row in sorted(rows)]
    return [f"| | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}", *lines]


def write_result(
    name: str,
    outcomes: dict[str, list[str]],
    seconds: float,
    calls: Mapping[str, int] | None = None,
    figures: Sequence[str] = (),
) -> Path:
    """Write the page of a run that has ended.

    ``outcomes`` maps passed, failed, error and skipped to the ids of the tests; ``seconds`` is the time of the run,
    ``calls`` the number of calls that were compared by each test that counts them, ``figures`` a table.
    """
    counts = {kind: len(outcomes.get(kind, ())) for kind in ("passed", "failed", "error", "xfailed", "skipped")}
    versions = [f"{package} {_version(package)}" for package in _LISTED_PACKAGES]
    system = f"{platform.system()} {platform.release()}, {os.cpu_count()} cores"
    lines = [
        f"# Matrix `{name}`",
        "",
        MATRICES[name],
        "",
        f"Written by `scripts/test --matrix {name}`; do not edit.",
        "",
        "| | |",
        "|---|---|",
        f"| date | {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC |",
        f"| commit | {_commit()} |",
        f"| machine | {platform.machine()}, {system}, Python {platform.python_version()} |",
        f"| packages | {', '.join(versions)} |",
        f"| time | {seconds / 60:.1f} minutes |",
        *(f"| {kind} | {count} |" for kind, count in counts.items()),
    ]
    lines += [f"| calls compared by `{test}` | {number:,} |" for test, number in (calls or {}).items()]
    lines += ["", "## Figures", "", *figures] if figures else []
    faults = [*outcomes.get("failed", ()), *outcomes.get("error", ())]
    if faults:
        lines += ["", "## Failed", "", *(f"- `{test}`" for test in faults[:_LISTED_FAULTS])]
        lines += [f"- and {len(faults) - _LISTED_FAULTS} more"] if len(faults) > _LISTED_FAULTS else []
    gaps = outcomes.get("xfailed", ())
    if gaps:
        lines += ["", "## Known gaps", "", *(f"- `{test.partition('::')[2]}`" for test in gaps)]
    RESULTS.mkdir(parents=True, exist_ok=True)
    page = RESULTS / f"{name}.md"
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return page


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return result.stdout.strip() or "not in a git repository"


def main() -> None:
    """Print the name of each matrix and what it asks."""
    for name, question in MATRICES.items():
        print(f"{name:16} {question}")


if __name__ == "__main__":
    main()
