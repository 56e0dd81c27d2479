"""The runs of real models: a family, what is edited in its source, and how it trains; ``written`` makes its folder.

A run is a folder with its program: ``train.py``, ``task.py`` and the source of the model, where a change or a fault is
an edit of the text. So path and line of whatever is planted are known. Models of transformers are copies of its files.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MARK = "# <- here"
"""Marks in the text of a program the line that a good tool names; a program that runs has no marks."""
PROGRAMS = tuple(HERE / folder / "programs" for folder in (".", "held_back", "unseen", "fresh"))
MODEL = "model"
"""In an edit: the source of the model, whatever its name."""
TASK = "task.py"
TRAIN = "train.py"
FAMILIES = ("llama", "gpt2", "bert", "t5", "vit", "mixtral", "mamba", "resnet", "lstm", "unet")


@dataclass(frozen=True, slots=True)
class Edit:
    """Replaces ``old``, which the file has once (``count`` times) below the text ``after``, by ``new``."""

    old: str
    new: str
    file: str = MODEL
    count: int = 1
    after: str = ""

    def applied(self, text: str) -> str:
        """Return ``text`` with the edit.

        Raises ValueError where the old text is not there, or not as often as it should be; with ``after``, the first
        ``count`` places below it are meant.
        """
        start = text.find(self.after)
        head, rest = text[: max(start, 0)], text[max(start, 0) :]
        found = rest.count(self.old)
        if start < 0 or found < self.count or (found > self.count and not self.after):
            raise ValueError(f"the text is there {found} times, not {self.count} times:\n{self.old}")
        return head + rest.replace(self.old, self.new, self.count)


@dataclass(frozen=True, slots=True)
class Run:
    """One training.

    Args:
        family: which model.
        edits: what is changed in its program, in this order.
        arguments: those of ``train`` in ``train.py``: dtype and attention.
        device: another device to emulate (``tests.real_models.devices``), or "" for this one.
        level: what the debugger records.
        task: what the debugger records.
    """

    family: str
    edits: tuple[Edit, ...] = ()
    arguments: dict[str, str] = field(default_factory=dict, hash=False)
    device: str = ""
    level: str = "mix"
    task: str = "statistics"

    def edited(self, *edits: Edit, device: str = "", **arguments: str) -> Run:
        """Return this run with further changes."""
        return replace(
            self,
            edits=(*self.edits, *edits),
            device=device or self.device,
            arguments={**self.arguments, **arguments},
        )

    def program(self) -> dict[str, str]:
        """Return name and text of each file of the program.

        Raises ValueError for an edit that does not fit.
        """
        return _program(self.family, self.edits)

    def settings(self) -> dict[str, Any]:
        """Return what the recorder needs to know besides the program."""
        return {"arguments": self.arguments, "device": self.device, "level": self.level, "task": self.task}

    def folder(self, cache: Path) -> Path:
        """Return the folder of this run below ``cache``: its name follows from program and settings."""
        content = json.dumps([self.program(), self.settings()], sort_keys=True)
        return cache / f"{self.family}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"


@cache
def _program(family: str, edits: tuple[Edit, ...]) -> dict[str, str]:
    model = f"modeling_{family}.py"
    texts = {
        TRAIN: _own_text(f"train_{family}.py") or _own_text(TRAIN),
        TASK: _own_text(f"{family}.py"),
        model: source_of(family),
    }
    for edit in edits:
        name = model if edit.file == MODEL else edit.file
        texts[name] = edit.applied(texts[name])
    return texts


def _own_text(name: str) -> str:
    """Return the text of a file of the programs, or "" where there is none."""
    path = next((path for folder in PROGRAMS if (path := folder / name).exists()), None)
    return path.read_text(encoding="utf-8") if path else ""


@cache
def source_of(family: str) -> str:
    """Return the source of a model; that of transformers with absolute imports where there is none of our own."""
    if own := _own_text(f"modeling_{family}.py"):
        return own
    package = importlib.util.find_spec("transformers")
    assert package is not None and package.origin is not None
    file = Path(package.origin).parent / "models" / family / f"modeling_{family}.py"
    text = file.read_text(encoding="utf-8")
    text = re.sub(r"^from \.\.\.(\w*)", lambda m: f"from transformers{'.' if m[1] else ''}{m[1]}", text, flags=re.M)
    return re.sub(r"^from \.(\w)", rf"from transformers.models.{family}.\1", text, flags=re.M)


def written(run: Run, cache: Path) -> Path:
    """Write the program of a run below ``cache`` unless it is there, and return its folder."""
    folder = run.folder(cache)
    if not (folder / "run.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in run.program().items():
            (folder / name).write_text(text.replace(f"  {MARK}", ""), encoding="utf-8")
        (folder / "run.json").write_text(json.dumps(run.settings()), encoding="utf-8")
    return folder


def lines_with(run: Run, text: str) -> set[tuple[str, int]]:
    """Return file name and number of every line of the program that holds ``text``.

    Of several lines the last one counts; ``first >> second`` means the first line with ``second`` below ``first``.

    Raises ValueError where no line is found.
    """
    after, _, sought = text.rpartition(" >> ")
    found: set[tuple[str, int]] = set()
    for name, content in run.program().items():
        place = content.find(sought, content.find(after)) if after in content else -1
        while place >= 0:
            found.add((name, content.count("\n", 0, place + len(sought)) + 1))
            place = -1 if after else content.find(sought, place + 1)
    if not found:
        raise ValueError(f"{run.family}: no line has the text {text!r}")
    return found
