"""What a terminal shows of a command beside plain text: progress while it runs, a table of steps and ranks.

Both need ``rich`` and a terminal; in a pipe, a log or without the package nothing changes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from msprobe.report.outcome import PairOutcome

_MOST_ROWS = 40
_STYLES = {"same": "green", "diverged": "bold red", "not_comparable": "yellow"}


@contextmanager
def progress(
    *, quiet: bool, doing: str = "comparing", of: str = "pairs"
) -> Iterator[Callable[[int, int], None] | None]:
    """A function that shows how many of how many are done, on the error stream; None where nothing is shown.

    ``doing`` and ``of`` are the words around the numbers.

    It is drawn only when it is called, so that no thread of ours runs beside the comparison.
    """
    console = None if quiet else _console(sys.stderr)
    if console is None:
        yield None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn(doing), BarColumn(), MofNCompleteColumn(), TextColumn(of), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task("", total=None)
        bar.refresh()

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, refresh=True)

        yield show


def show_pairs(outcomes: list[PairOutcome]) -> None:
    """Print a table with a line per step and rank, where there are several; those that diverged come first."""
    console = _console(sys.stdout)
    if console is None or len(outcomes) < 2:
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table("step", "rank", "verdict", "pass", "warning", "error", "first divergence", box=None)
    ordered = sorted(outcomes, key=lambda outcome: (outcome.verdict == "same", outcome.order))
    for outcome in ordered[:_MOST_ROWS]:
        found, counts = outcome.first_divergence, outcome.counts
        verdict = f"[{_STYLES[outcome.verdict]}]{outcome.verdict.replace('_', ' ')}[/]"
        numbers = (str(number) for number in (counts.passed, counts.warning, counts.error))
        text = (found.target or found.golden or "") if found else outcome.problem
        table.add_row("" if outcome.step is None else str(outcome.step), outcome.label, verdict, *numbers, escape(text))
    console.print(table)
    if len(ordered) > _MOST_ROWS:
        console.print(f"... and {len(ordered) - _MOST_ROWS} more pairs")


def _console(stream: Any) -> Any:
    if not stream.isatty():
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(file=stream)
