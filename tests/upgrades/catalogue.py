"""Pairs of programs from real life, and faults in them; ``pairs/*.txt`` has them all, ``programs/`` their texts.

A pair is one program under two versions of a library, in two implementations, in two precisions, with an adapter
merged or not, a training by a library or by hand, or an inference in one piece and in several; or a model of a family
that is in no other set, with another code for a part of it. A text of pairs is made of these lines::

    @ NAME                    the pair NAME; its target is programs/NAME.py
    # WORDS                   what it is about
    of NAME                   the target is made of the program of another pair
    golden with PACKAGE ...   the packages of the golden run, target with those of the target
    golden of NAME            the golden run is programs/NAME.py
    saves checkpoint          the golden program makes the weights of both; saves state: as a state_dict
    target                    edits of the program follow, golden edits of the target
    same WORDS                edits of the target follow that mean the same
    fault MODULE: WORDS       edits of the target follow that do not; "-" is no module, "." any one

An edit is lines ``-`` that are replaced by the lines ``+``, beside lines ``=`` that stay; ``!`` is a line ``+`` that a
good tool names. Three dots part edits that would be one otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.real_models.cases import ANY, MARK, Case
from tests.real_models.runs import TRAIN, Edit, Run

ROOT = Path(__file__).resolve().parent
KINDS = (
    *("versions", "implementations", "ports", "precisions", "adapters", "training", "inference", "rollout"),
    "families",
)
OUTSIDE = ("", "optimizer", "clip_grad")
_PART = re.compile(r"^(target|golden|same (?P<same>.+)|fault (?P<module>\S+): (?P<fault>.+))$")
_EDIT = re.compile(r"^([-+!=])(?: (.*))?$")
_WORDS = re.compile(r"^(of|saves|golden of|(?:golden|target) with) (.+)$")
_NEXT = "..."


@dataclass(frozen=True, slots=True)
class Script(Run):
    """The run of a program that knows nothing of msprobe.

    Args:
        packages: requirements of packages that it runs with, in the place of those of the tests.
        saves: "checkpoint" or "state" where ``build()`` of the program makes the weights that it reads.
        weights: the run that makes them.
    """

    packages: tuple[str, ...] = ()
    saves: str = ""
    weights: Script | None = None

    def program(self) -> dict[str, str]:
        return {TRAIN: _text(self.family, self.edits)}

    def settings(self) -> dict[str, Any]:
        weights = self.weights and self.weights.folder(Path()).name
        own = {"packages": self.packages, "saves": self.saves, "weights": weights}
        return {"level": self.level, "task": self.task, **own}


@cache
def _text(program: str, edits: tuple[Edit, ...]) -> str:
    text = (ROOT / "programs" / f"{program}.py").read_text(encoding="utf-8")
    for edit in edits:
        text = edit.applied(text)
    return text


@dataclass(slots=True)
class _Pair:
    """A pair as its lines tell it: of each side the program, its packages and edits; and changes of the target."""

    name: str
    kind: str
    words: dict[str, str] = field(default_factory=dict)
    parts: list[tuple[re.Match[str], list[str]]] = field(default_factory=list)

    def cases(self) -> Iterator[Case]:
        target = Script(self.words.get("of", self.name), packages=_packages(self.words.get("target with")))
        target = target.edited(*self._edits("target"))
        golden = target
        if self.kind != "families":
            program, edits = self.words.get("golden of"), self._edits("golden")
            packages = _packages(self.words.get("golden with"))
            saves = self.words.get("saves", "")
            golden = Script(program or target.family, () if program else target.edits, packages=packages, saves=saves)
            golden = golden.edited(*edits)
            target = Script(target.family, target.edits, packages=target.packages, weights=golden if saves else None)
            yield Case(f"{self.kind}/{self.name}", target, golden)
        for header, lines in self.parts:
            changed = target.edited(*_edits(lines))
            if header["same"]:
                yield Case(f"{self.kind}/{self.name}/{_slug(header['same'])}", changed, golden)
            elif header["fault"]:
                name = f"{self.kind}-fault/{self.name}/{_slug(header['fault'])}"
                yield Case(name, changed, golden, _modules(header["module"]))

    def _edits(self, side: str) -> list[Edit]:
        return [edit for header, lines in self.parts if header[0] == side for edit in _edits(lines)]


def _packages(words: str | None) -> tuple[str, ...]:
    return tuple((words or "").split())


def _modules(path: str) -> tuple[str, ...]:
    """Return the paths of a module, as they are where other modules around it are outermost."""
    if path in {"-", "."}:
        return OUTSIDE if path == "-" else (ANY,)
    names = path.split(".")
    return tuple(".".join(names[start:]) for start in range(len(names)))


def _slug(words: str) -> str:
    return re.sub(r"\W+", "-", re.split(r"[(:]", words)[0]).strip("-")


def _edits(lines: list[str]) -> Iterator[Edit]:
    """Yield the edits of a part; a new one begins at three dots, and where an old line follows a new one."""
    old, new, before = [""], [""], ""
    for line in [*lines, _NEXT]:
        found = _EDIT.match(line)
        if found is None and line != _NEXT:
            raise ValueError(f"no line of an edit: {line}")
        sign, text = (found[1], found[2] or "") if found else ("", "")
        if line == _NEXT or (sign == "-" and before in {"+", "!"}):
            yield Edit("\n".join([*old, ""]), "\n".join([*new, ""]))
            old, new = [""], [""]
        if sign in {"-", "="}:
            old.append(text)
        if sign in {"+", "!", "="}:
            new.append(f"{text}  {MARK}" if sign == "!" else text)
        before = sign


def _pairs(kind: str) -> Iterator[_Pair]:
    for text in (ROOT / "pairs" / f"{kind}.txt").read_text(encoding="utf-8").split("\n\n"):
        name, *lines = text.strip().splitlines()
        pair = _Pair(name.removeprefix("@ "), kind)
        for line in lines:
            if header := _PART.match(line):
                pair.parts.append((header, []))
            elif pair.parts:
                pair.parts[-1][1].append(line)
            elif found := _WORDS.match(line):
                pair.words[found[1]] = found[2]
            elif not line.startswith("# "):
                raise ValueError(f"no line of a pair: {line}")
        yield pair


CASES: list[Case] = [case for kind in KINDS for pair in _pairs(kind) for case in pair.cases()]
BY_NAME = {case.name: case for case in CASES}
"""The cases by name: the kind with "-fault" for a fault, the pair, and what is changed in it."""


def runs_of(cases: Iterable[Case]) -> list[Run]:
    """Return the runs of cases, each once."""
    return list(dict.fromkeys(run for case in cases for run in (case.changed, case.healthy)))


def packages_of(run: Run) -> tuple[str, ...]:
    """Return the packages that a run needs besides those of the tests, and the maker of its weights."""
    if not isinstance(run, Script):
        return ()
    return run.packages + (run.weights.packages if run.weights else ())
