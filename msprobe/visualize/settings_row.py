"""The row of tb_config: what viewers need before they draw, in the words and colours of the published format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from msprobe.compare.columns import METRICS
from msprobe.compare.mode import Mode
from msprobe.core.tensors.statistics import STATISTICS

_COLOURS: tuple[tuple[str, list[float], str, str], ...] = (
    ("#FFFCF3", [0, 0.3], "pass", "the node passes, and in databases of msprobe everything below it"),
    ("#FFDC7F", [0.3, 0.6], "warning", "a difference that began before this node, or could not be checked"),
    ("#FF704D", [0.6, 1], "error", "a difference that begins in this node or below it"),
    ("#C7C7C7", [], "unmatched node", "the other side has no such node"),
)
_WORDS = {"Max": "largest element", "Min": "smallest element", "Norm": "L2 norm"}
_TIPS = {
    "summary": {
        title: f"{_WORDS.get(spec.name, spec.title)}: target minus golden"
        for title, spec in zip(METRICS[Mode.STATISTICS], STATISTICS, strict=False)
    },
    "md5": {"md5": "checksum of the data; equal checksums mean equal data"},
    "all": dict.fromkeys(METRICS[Mode.TENSOR], ""),
}


def settings_row(
    task: str | None, micro_steps: int, overflow: bool, ranks: Sequence[int], steps: Sequence[int]
) -> tuple[Any, ...]:
    """Return the row; ``task`` is summary, md5 or all, None when nothing was compared."""
    colours = None
    if task is not None:
        colours = {
            colour: {"value": values, "description": text, "accuracy_level": level}
            for colour, values, level, text in _COLOURS
        }
    return (
        "1",
        "build" if task is None else "compare",
        task or "",
        None if task is None else json.dumps(_TIPS[task]),
        micro_steps,
        int(overflow),
        json.dumps(colours),
        json.dumps(sorted(set(ranks))),
        json.dumps(sorted(set(steps))),
    )
