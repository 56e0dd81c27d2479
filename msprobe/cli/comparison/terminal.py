"""The table of steps and ranks that ``msprobe compare`` prints on a terminal, beside its plain text.

The table needs the package ``rich``; in a pipe, in a log or without the package nothing is printed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from msprobe.report.rank_outcome import PairOutcome

_MAX_ROWS = 40
_STYLES = {"same": "green", "incomplete": "yellow", "diverged": "bold red", "not_comparable": "yellow"}


def show_pairs(outcomes: list[PairOutcome]) -> None:
    """Print a table with a line per pair of dumps, where there are several; pairs that diverged come first."""
    from msprobe.jobs.progress import terminal_console

    console = terminal_console(sys.stdout)
    if console is None or len(outcomes) < 2:
        return
    from rich.markup import escape
    from rich.table import Table

    table = Table("step", "rank", "verdict", "pass", "warning", "error", "first divergence", box=None)
    ordered = sorted(outcomes, key=lambda outcome: (outcome.verdict == "same", outcome.order))
    for outcome in ordered[:_MAX_ROWS]:
        divergence, counts = outcome.first_divergence, outcome.counts
        verdict = f"[{_STYLES[outcome.verdict]}]{outcome.verdict.replace('_', ' ')}[/]"
        numbers = (str(number) for number in (counts.passed, counts.warning, counts.error))
        text = outcome.problem or "; ".join(outcome.lost)
        if divergence is not None:
            text = divergence.name
        table.add_row("" if outcome.step is None else str(outcome.step), outcome.label, verdict, *numbers, escape(text))
    console.print(table)
    if len(ordered) > _MAX_ROWS:
        console.print(f"... and {len(ordered) - _MAX_ROWS} more pairs")
