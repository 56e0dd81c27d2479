"""What each rule of a comparison earns: ``python -m tests.ablation CACHE [--only PATTERN] [--rules PATTERN]``.

One rule is switched off at a time, over the recordings of all sets of real models, and the cases are printed that it
decides, by set. A rule that decides no case of a set but the one it was made for is a case of that set in disguise.

A case is judged again without a rule only where the rule said something about it: all rules are watched in one pass.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from msprobe.compare.exemptions import on_demand
from msprobe.compare.exemptions.protocol import Exemption
from tests.real_models.catalogue import CASES
from tests.real_models.evaluate import record_missing
from tests.real_models.judge import judge

_NOTHING: frozenset[int] = frozenset()


class Rule(NamedTuple):
    """A function of the engine and what it returns where the rule is off; ``where`` is ``module:name``."""

    where: str
    off: Any

    def place(self) -> tuple[Any, str]:
        """Return the module or class that holds the function, and its name there."""
        module, _, path = self.where.partition(":")
        owner, (*parts, name) = importlib.import_module(module), path.split(".")
        for part in parts:
            owner = getattr(owner, part)
        return owner, name


_REGIONS = "msprobe.compare.regions."
_DIFFERENCES = "msprobe.compare.differences."
_SEARCH = "msprobe.analyze.first_divergence:_DivergenceSearch."
RULES: dict[str, Rule] = {
    "harmless": Rule(f"{_REGIONS}harmless:HarmlessDifferences.entries", _NOTHING),
    "sinks": Rule(f"{_REGIONS}harmless:HarmlessDifferences.ending_with_step", _NOTHING),
    "slices": Rule(f"{_REGIONS}harmless:HarmlessDifferences.beside_stretches", _NOTHING),
    "masks": Rule(f"{_REGIONS}harmless:HarmlessDifferences._is_mask_of_numbers", False),
    "formulas": Rule(f"{_REGIONS}formulas.other_formulas:OtherFormulas.entries", _NOTHING),
    "order_of_elements": Rule(f"{_REGIONS}without_consequence:restore_unshown", None),
    "order_of_origins": Rule(f"{_REGIONS}without_consequence:restore_origins", False),
    "origin": Rule(f"{_REGIONS}one_sided:find_origin", None),
    "lost_calls": Rule(f"{_REGIONS}one_sided:OneSidedCalls._is_lost_call", False),
    "lost_gradients": Rule(f"{_REGIONS}one_sided:OneSidedCalls._is_lost_gradient", False),
    "dying_gradients": Rule(f"{_REGIONS}one_sided:OneSidedCalls._dies_out", False),
    "other_state": Rule(f"{_REGIONS}one_sided:OneSidedCalls._is_other_state", False),
    "removed_offsets": Rule("msprobe.compare.comparison:free_moved", None),
    "lost_updates": Rule(f"{_DIFFERENCES}parameter_updates:mark_lost_updates", None),
    "cut_gradient": Rule(f"{_SEARCH}cut_gradient", None),
    "cut_term": Rule(f"{_SEARCH}cut_term", None),
    "exchanged": Rule(f"{_SEARCH}_exchanged", None),
    "unused": Rule(f"{_SEARCH}_unused", None),
    "one_sided_input": Rule(f"{_SEARCH}_one_sided_input", None),
    "unexplained_input": Rule(f"{_SEARCH}_unexplained_input", None),
    "result_of_model": Rule(f"{_SEARCH}result_of_model", None),
    "wrong_gradient": Rule(f"{_SEARCH}wrong_gradient", None),
    "wrong_parameter": Rule(f"{_SEARCH}_wrong_parameter", None),
    "wrong_update": Rule("msprobe.analyze.first_divergence:wrong_update", None),
    "causes_of_updates": Rule("msprobe.analyze.first_divergence:explain_by_causes", None),
}
"""The rules by name. Exemptions are added under the names of their classes."""


def _name(exemption: Exemption) -> str:
    return f"exemption {getattr(exemption, 'place', type(exemption).__name__).rpartition(':')[2]}"


EXEMPTIONS = {_name(exemption): exemption for exemption in on_demand.EXEMPTIONS}


class Watched(Exemption):
    """An exemption that notes whether it said anything; ``off`` says nothing instead."""

    def __init__(self, exemption: Exemption, name: str, spoke: set[str], *, off: bool) -> None:
        self._exemption, self._name, self._spoke, self._off = exemption, name, spoke, off

    def _note(self, said: bool) -> None:
        if said:
            self._spoke.add(self._name)

    def apply(self, table: Any, dumps: Any) -> Any:
        if self._off:
            return table
        result = self._exemption.apply(table, dumps)
        self._note(result is not table)
        return result

    def relax(self, table: Any, kinds: Any) -> None:
        if not self._off:
            before = kinds.copy()
            self._exemption.relax(table, kinds)
            self._note(not np.array_equal(before, kinds))

    def meaningless_rows(self, table: Any, measured: Any) -> Any:
        rows = () if self._off else self._exemption.meaningless_rows(table, measured)
        self._note(len(rows) > 0)
        return rows

    def rows_without_effect(self, table: Any, measured: Any) -> Any:
        rows = () if self._off else self._exemption.rows_without_effect(table, measured)
        self._note(len(rows) > 0)
        return rows


def _watching(original: Any, name: str, spoke: set[str]) -> Any:
    """Return a function or property that notes whether the rule said anything."""
    function: Callable[..., Any] = getattr(original, "func", original)  # of a cached property

    def watched(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if result is None or (any(result) if isinstance(result, tuple) else bool(result)):
            spoke.add(name)
        return result

    return property(watched) if hasattr(original, "func") else watched


def _silent(original: Any, off: Any) -> Any:
    return property(lambda _: off) if hasattr(original, "func") else lambda *_, **__: off


@contextmanager
def rules(off: str = "") -> Iterator[set[str]]:
    """Switch one rule off, and yield the names of those that said something."""
    spoke: set[str] = set()
    with ExitStack() as stack:
        for name, rule in RULES.items():
            owner, attribute = rule.place()
            original = (
                vars(owner)[attribute]
                if isinstance(owner, type) and attribute in vars(owner)
                else getattr(owner, attribute)
            )
            new = _silent(original, rule.off) if name == off else _watching(original, name, spoke)
            stack.enter_context(patch.object(owner, attribute, new))
        exemptions = tuple(Watched(one, name, spoke, off=name == off) for name, one in EXEMPTIONS.items())
        stack.enter_context(patch("msprobe.compare.comparison.EXEMPTIONS", exemptions))
        yield spoke


def decided(number: int, cache: Path, chosen: str) -> dict[str, tuple[bool, bool]]:
    """Return for each rule that spoke of a case, and changes its answer, whether it is right with it and without."""
    case = CASES[number]
    with rules() as spoke:
        answer = judge(case, cache)
    changed = {}
    for name in sorted(spoke):
        if not re.search(chosen, name):
            continue
        with rules(off=name):
            without = judge(case, cache)
        if without.right != answer.right:
            changed[name] = answer.right, without.right
    return changed


def main() -> int:
    """Print per rule and set how many cases it makes right, and how many wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cache", type=Path)
    parser.add_argument("--only", default="", help="regular expression that the name of a case holds")
    parser.add_argument("--rules", default="", help="regular expression that the name of a rule holds")
    parser.add_argument("--every", type=int, default=1, help="take every so-many-th case")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    numbers = [number for number, case in enumerate(CASES) if re.search(options.only, case.name)][:: options.every]
    record_missing([CASES[number] for number in numbers], options.cache, options.jobs)
    table: dict[str, Counter[str]] = defaultdict(Counter)
    with ProcessPoolExecutor(options.jobs) as pool:
        answers = pool.map(partial(decided, cache=options.cache, chosen=options.rules), numbers, chunksize=4)
        for number, changed in zip(numbers, answers, strict=True):
            group = CASES[number].name.partition("/")[0]
            for name, (with_rule, _) in changed.items():
                table[name][f"{group} {'right' if with_rule else 'wrong'}"] += 1
    for name in (*RULES, *EXEMPTIONS):
        if re.search(options.rules, name):
            print(f"{name:32} {dict(sorted(table[name].items())) or 'decides none'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
