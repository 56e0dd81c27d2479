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
    "ring": "steps stay in memory, watched for NaN and spikes; the reference has none",
    "unwatched": "steps stay in memory, and only an exception or a call writes them; the reference has none",
    "tenth": "a tenth of the calls is recorded; the reference has no samples",
    "unordered": "without the order-sensitive statistic",
    "operators": "operators of ATen and modules alone; the reference has none",
    "graph": "the model is compiled with the back end msprobe; the reference has none",
    "aten": "the model is compiled with the back end msprobe_aten; the reference has none",
}
BACKENDS = {"graph": "msprobe", "aten": "msprobe_aten"}


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
        return bool(
            self.options & {"fallback", "projection", "ring", "unwatched", "tenth", "operators", "graph", "aten"}
        )

    @property
    def compiler(self) -> str:
        """The back end that compiles the model; "" for none."""
        return next((name for option, name in BACKENDS.items() if option in self.options), "")

    @property
    def environment(self) -> dict[str, str]:
        switches = {"fallback": "MSPROBE_NATIVE"}
        return {switches[option]: "0" for option in self.options & switches.keys()}

    def config(self, dump_path: Path) -> dict[str, Any]:
        """The config.json of this variant."""
        task = "statistics" if self.task in SUMMARY_MODES else self.task
        section: dict[str, Any] = {"scope": [], "list": ["Aten.", "Module."] if "operators" in self.options else []}
        if task != "structure":
            section["data_mode"] = ["all"]
        if task == "statistics":
            section["summary_mode"] = SUMMARY_MODES[self.task]
            if self.options & {"projection", "unordered"}:
                section["projection"] = "projection" in self.options
            if "ring" in self.options:
                section["ring"] = {"steps": 3}
            if "unwatched" in self.options:
                section["ring"] = {"steps": 3, "on": ["trigger", "exception"]}
            if "tenth" in self.options:
                section["sample"] = {"share": 0.1}
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
