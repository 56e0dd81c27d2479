"""What a process does with the tool, written as a short word, and the config.json that stands for it.

``none`` never imports the tool, ``created`` constructs the debugger and never starts it, and everything else is
``LEVEL.TASK`` with options: ``L1.statistics``, ``mix.tensor``, ``L1.statistics+filtered``. A second ``none`` may be
asked for as ``none+again``: what it differs from the first is the noise of the measurement.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

LEVELS = ("L0", "L1", "mix")
SUMMARY_MODES = {"statistics": "statistics", "md5": "md5", "xor": "xor"}
TASKS = (*SUMMARY_MODES, "tensor", "structure")
NEVER_REACHED_STEP = 1_000_000
OPTIONS = {
    "again": "a further process of the same kind",
    "filtered": "started and stopped, but the step is not one of those to record",
    "fallback": "ours without the compiled kernel; the reference has no such variant",
    "noextra": "extra_info off: no call stacks",
    "async": "async_dump on",
    "projection": "with the order-sensitive statistic; the reference has none",
    "unordered": "without the order-sensitive statistic",
}


@dataclass(frozen=True, slots=True)
class Variant:
    """``kind`` is none, created or recorded; ``level`` and ``task`` say nothing for none."""

    text: str
    kind: str
    level: str
    task: str
    options: frozenset[str]

    @property
    def only_ours(self) -> bool:
        return bool(self.options & {"fallback", "projection"})

    @property
    def environment(self) -> dict[str, str]:
        switches = {"fallback": "MSPROBE_NATIVE"}
        return {switches[option]: "0" for option in self.options & switches.keys()}

    def config(self, dump_path: Path) -> dict[str, Any]:
        """The config.json of this variant."""
        task = "statistics" if self.task in SUMMARY_MODES else self.task
        section: dict[str, Any] = {"scope": [], "list": []}
        if task != "structure":
            section["data_mode"] = ["all"]
        if task == "statistics":
            section["summary_mode"] = SUMMARY_MODES[self.task]
            if self.options & {"projection", "unordered"}:
                section["projection"] = "projection" in self.options
        return {
            "task": task,
            "dump_path": str(dump_path),
            "rank": [],
            "step": [NEVER_REACHED_STEP] if "filtered" in self.options else [],
            "level": self.level,
            "async_dump": "async" in self.options,
            "extra_info": "noextra" not in self.options,
            task: section,
        }


def parse(text: str) -> Variant:
    """The variant a word stands for; ValueError says what is allowed."""
    body, *options = text.split("+")
    unknown = sorted(set(options) - set(OPTIONS))
    if unknown:
        raise ValueError(f"unknown option {unknown[0]!r} in {text!r}; known: {', '.join(OPTIONS)}")
    if body in {"none", "created"}:
        return Variant(text, body, "L1", "statistics", frozenset(options))
    level, _, task = body.partition(".")
    if level not in LEVELS or task not in TASKS:
        raise ValueError(f"unknown variant {text!r}: none, created or LEVEL.TASK of {LEVELS} and {TASKS}")
    return Variant(text, "recorded", level, task, frozenset(options))
