"""What each rule of a comparison earns: ``python -m tests.ablation CACHE [--only PATTERN] [--rules PATTERN]``.

A rule is a function of the engine that answers a question: it returns whether, which or why, or nothing. One is
switched off at a time (it returns nothing), with ``--files`` all of one file, over recordings of all sets, and the
cases are printed that it decides, by set. A rule that decides no case of a set but the one it was made for is a case of
that set in disguise.

A case is judged again without a rule only where the rule said something about it: all rules are watched in one pass.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pkgutil
import random
import re
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache, cached_property, partial
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

import msprobe
from tests.real_models import catalogue as real_models
from tests.real_models.cases import Case
from tests.real_models.judge import Answer, judge
from tests.real_models.record import LOSSES
from tests.upgrades import catalogue as upgrades

CASES: list[Case] = [*real_models.CASES, *upgrades.CASES]
PACKAGES = "compare.differences", "compare.exemptions", "compare.regions", "compare.verdict", "analyze", "trace"
NOTHING: dict[str, Callable[..., Any]] = {
    "bool": lambda *_, **__: False,
    "None": lambda *_, **__: None,
    "str": lambda *_, **__: "",
    "frozenset": lambda *_, **__: frozenset(),
    "set": lambda *_, **__: set(),
    "list": lambda *_, **__: [],
    "dict": lambda *_, **__: {},
    "tuple": lambda *_, **__: (),
    "Sequence": lambda *_, **__: (),
    "Iterator": lambda *_, **__: iter(()),
    "LeafTable": lambda _, table, *__: table,
}
"""By the type that a function returns what it returns where it is off; others measure, and are no rules."""
ENOUGH = 3
"""A rule is not tried further when it has decided cases of so many pairs."""
SECONDS = 60


class Rule(NamedTuple):
    """A function of the engine, and what stands in its place where it is off."""

    name: str
    function: FunctionType
    off: CodeType
    changes: bool


def _nothing(function: FunctionType) -> Callable[..., Any] | None:
    returns = str(function.__annotations__.get("return", ""))
    if returns == "None" or returns.endswith("| None"):
        return NOTHING["None"]
    if returns.startswith("tuple") and "..." not in returns:
        return None
    return NOTHING.get(returns.partition("[")[0])


def _functions(owner: ModuleType | type) -> Iterator[tuple[str, FunctionType]]:
    for name, value in vars(owner).items():
        inner = value.func if isinstance(value, cached_property) else getattr(value, "fget", None)
        function = inner or getattr(value, "__func__", None) or getattr(value, "__wrapped__", value)
        if isinstance(function, FunctionType) and function.__code__.co_name == name and not name.startswith("__"):
            yield name, function
        elif isinstance(value, type) and value.__module__ == getattr(owner, "__name__", ""):
            yield from ((f"{value.__name__}.{method}", one) for method, one in _functions(value))


def _modules(package: str) -> Iterator[ModuleType]:
    module = importlib.import_module(package)
    yield module
    for one in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{package}."):
        yield importlib.import_module(one.name)


@cache
def rules() -> dict[str, Rule]:
    """Return all rules by name."""
    found: dict[CodeType, Rule] = {}
    for module in (one for package in PACKAGES for one in _modules(f"{msprobe.__name__}.{package}")):
        for name, function in _functions(module):
            nothing = _nothing(function)
            if nothing is not None and not function.__code__.co_freevars and function.__module__ == module.__name__:
                title = f"{module.__name__.partition('.')[2]}:{name}"
                changes = function.__annotations__.get("return") in {"None", "LeafTable"}
                found[function.__code__] = Rule(title, function, nothing.__code__, changes)
    return {rule.name: rule for rule in found.values()}


@contextmanager
def watched() -> Iterator[set[str]]:
    """Yield a set to which the names of rules are added that say something."""
    spoke: set[str] = set()
    by_code = {rule.function.__code__: rule for rule in rules().values()}

    def watch(frame: FrameType, event: str, value: Any) -> None:
        rule = by_code.get(frame.f_code) if event == "return" else None
        if rule is not None and rule.name not in spoke and (rule.changes or _says(value)):
            spoke.add(rule.name)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        yield spoke
    finally:
        sys.setprofile(before)


def _says(value: Any) -> bool:
    return value is not None and (len(value) > 0 if hasattr(value, "__len__") else bool(value))


@contextmanager
def without(name: str) -> Iterator[None]:
    """Switch a rule off, or all rules of a file."""
    off = [rule for rule in rules().values() if name in {rule.name, _file(rule.name)}]
    before = [rule.function.__code__ for rule in off]
    for rule in off:
        rule.function.__code__ = rule.off
    try:
        yield
    finally:
        for rule, code in zip(off, before, strict=True):
            rule.function.__code__ = code


def _file(rule: str) -> str:
    return rule.partition(":")[0]


def watch(number: int, recordings: Path) -> tuple[int, Answer, frozenset[str]]:
    """Return the answer to a case, and the rules that said something about it."""
    with watched() as spoke:
        answer = judge(CASES[number], recordings)
    return number, answer, frozenset(spoke)


def decided(name: str, answers: Sequence[tuple[int, Answer]], recordings: Path) -> list[tuple[str, bool]]:
    """Return the cases that a rule or file decides, and whether its answer is right; no more than ``ENOUGH`` pairs."""
    changed: dict[str, tuple[str, bool]] = {}
    for number, answer in answers:
        with without(name), _limited():
            other = judge(CASES[number], recordings)
        if other.right != answer.right:
            changed.setdefault(_pair(answer.name), (answer.name, answer.right))
            if len(changed) == ENOUGH:
                break
    return list(changed.values())


@contextmanager
def _limited() -> Iterator[None]:
    """Raise where a comparison does not end without a rule: it decides that too."""

    def end(*_: object) -> None:
        raise TimeoutError(f"no answer after {SECONDS} s")

    signal.signal(signal.SIGALRM, end)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)


def _pair(name: str) -> str:
    """Return the set and the pair of a case: its faults and its rewritings count once."""
    return "/".join(name.split("/")[:2])


def _recorded(only: str, recordings: Path, every: int) -> list[int]:
    """Return the cases that are recorded already."""
    chosen = [number for number, case in enumerate(CASES) if re.search(only, case.name)][::every]
    runs = {number: (CASES[number].target, CASES[number].golden) for number in chosen}
    return [number for number in chosen if all((run.folder(recordings) / LOSSES).exists() for run in runs[number])]


def main() -> int:
    """Print per rule how many cases it makes right, and how many wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cache", type=Path, help="recordings of tests.real_models.evaluate and tests.upgrades.evaluate")
    parser.add_argument("--only", default="", help="regular expression that the name of a case holds")
    parser.add_argument("--rules", default="", help="regular expression that the name of a rule holds")
    parser.add_argument("--files", action="store_true", help="switch all rules of a file off together")
    parser.add_argument("--every", type=int, default=1, help="take every so-many-th case")
    parser.add_argument("--most", type=int, default=60, help="try a rule in no more than so many cases, by chance")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    numbers = _recorded(options.only, options.cache, options.every)
    spoken: dict[str, list[tuple[int, Answer]]] = defaultdict(list)
    with ProcessPoolExecutor(options.jobs) as pool:
        for number, answer, names in pool.map(partial(watch, recordings=options.cache), numbers, chunksize=4):
            for name in {_file(rule) if options.files else rule for rule in names}:
                spoken[name].append((number, answer))
        of_all = {_file(rule) if options.files else rule for rule in rules()}
        chosen = sorted((name for name in of_all if re.search(options.rules, name)), key=lambda one: len(spoken[one]))
        cases = [random.Random(0).sample(spoken[name], min(options.most, len(spoken[name]))) for name in chosen]
        answers = pool.map(partial(decided, recordings=options.cache), chosen, cases)
        for name, changed in zip(chosen, answers, strict=True):
            print(_line(name, len(spoken[name]), changed), flush=True)
    return 0


def _line(name: str, said: int, changed: Iterable[tuple[str, bool]]) -> str:
    counts = Counter(f"{case.partition('/')[0]} {'right' if right else 'wrong'}" for case, right in changed)
    return f"{name:70} said {said:4} {json.dumps(dict(sorted(counts.items()))) if counts else 'decides none'}"


if __name__ == "__main__":
    sys.exit(main())
