"""Which recorded facts a new dump does not reproduce, and which of those a case allows.

Two kinds of allowance, both data: ``leniencies.json`` holds what may always be better than the record (it does not
have to be), a case's ``departures.json`` holds what must differ there on purpose.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tests.golden.facts import Facts

RELATIVE, ABSOLUTE = 1e-5, 1e-7
API_GRADIENTS = re.compile(r"^(dump/(?!Module\.).*\.backward/output)/")
MISSING = "<missing>"
ORDER = "dump#forward_order"


@dataclass(frozen=True, slots=True)
class Miss:
    """A fact of the record that is not met; ``extra`` facts are met by nothing in the record."""

    path: str
    expected: Any
    found: Any

    def __str__(self) -> str:
        return f"{self.path}: expected {self.expected!r}, got {self.found!r}"


@dataclass(frozen=True, slots=True)
class Allowance:
    """``pattern`` matches paths (``*`` any text). ``when`` narrows a leniency by what the record holds."""

    pattern: str
    reason: str
    when: str = "any"


def allowances(path: Path) -> list[Allowance]:
    """Return the allowances of a JSON file, none when there is no file."""
    if not path.exists():
        return []
    return [Allowance(**item) for item in json.loads(path.read_text(encoding="utf-8"))]


def misses(expected: Facts, found: Facts, lenient: Iterable[Allowance]) -> list[Miss]:
    """Return the facts of ``expected`` that ``found`` lacks or has otherwise, then entries that only ``found`` has."""
    rules = list(lenient)
    wrong = [
        Miss(path, value, found.get(path, MISSING))
        for path, value in expected.items()
        if not API_GRADIENTS.match(path)
        and not _close(value, _comparable(path, value, found))
        and not any(_tolerates(rule, path, expected, found) for rule in rules)
    ]
    wrong += _gradient_misses(expected, found)
    known = {_entry(path) for path in expected}
    extra = {_entry(path): None for path in found}  # in order
    return wrong + [Miss(f"extra/{name}", MISSING, "present") for name in extra if name not in known]


def unexplained(missed: Iterable[Miss], departures: Iterable[Allowance]) -> list[str]:
    """Return the misses that no departure names."""
    rules = list(departures)
    return [str(miss) for miss in missed if not any(fnmatchcase(miss.path, rule.pattern) for rule in rules)]


def unused(missed: Iterable[Miss], departures: Iterable[Allowance]) -> list[str]:
    """Return the departures that no longer occur."""
    paths = [miss.path for miss in missed]
    return [rule.pattern for rule in departures if not any(fnmatchcase(path, rule.pattern) for path in paths)]


def _entry(path: str) -> str:
    """Return ``dump/NAME``, ``construct/NAME`` or ``files/NAME`` of a fact."""
    return "/".join(path.split("#")[0].split("/")[:2])


def _comparable(path: str, expected: Any, found: Facts) -> Any:
    """The found value; of an order of entries only those that the record has, for further ones are misses anyway."""
    value = found.get(path, MISSING)
    return [name for name in value if name in expected] if path == ORDER else value


def _close(expected: Any, found: Any) -> bool:
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (expected, found))
    if not numbers:
        return type(expected) is type(found) and bool(expected == found)
    if math.isnan(expected) or math.isnan(found):
        return math.isnan(expected) and math.isnan(found)
    return math.isclose(expected, found, rel_tol=RELATIVE, abs_tol=ABSOLUTE)


def _tolerates(rule: Allowance, path: str, expected: Facts, found: Facts) -> bool:
    if not fnmatchcase(path, rule.pattern):
        return False
    value = expected[path]
    scalar = expected.get(path.rpartition("/")[0] + "/shape") == []
    if rule.when == "empty":
        return value is None or value == {}
    if rule.when == "0-d magnitude":
        ours = found.get(path)
        return scalar and isinstance(ours, (int, float)) and _close(abs(value), ours)
    if rule.when == "0-d":
        return scalar
    raise ValueError(f"leniency {rule.pattern}: unknown condition {rule.when!r}")


def _gradient_misses(expected: Facts, found: Facts) -> list[Miss]:
    """Gradients of an API's arguments have another order in the record: each must be among ours."""
    wrong = []
    for place, gradients in _gradients(expected).items():
        pool = list(_gradients(found).get(place, {}).values())
        for number, gradient in gradients.items():
            if "shape" not in gradient:
                continue
            hit = next((ours for ours in pool if _same_gradient(gradient, ours)), None)
            if hit is None:
                wrong.append(Miss(f"{place}/{number}", gradient, MISSING))
            else:
                pool.remove(hit)
    return wrong


def _gradients(table: Facts) -> dict[str, dict[str, Facts]]:
    """API gradients: place -> path below it -> fields."""
    places: dict[str, dict[str, Facts]] = {}
    for path, value in table.items():
        match = API_GRADIENTS.match(path)
        if match:
            inner, _, field = path[match.end() :].rpartition("/")
            places.setdefault(match.group(1), {}).setdefault(inner, {})[field] = value
    return places


def _same_gradient(expected: Facts, ours: Facts) -> bool:
    statistics = [key for key in ("Max", "Min", "Mean", "Norm") if expected.get(key) is not None]
    return all(_close(expected[key], ours.get(key)) for key in statistics) and (
        math.prod(expected["shape"]) == math.prod(ours.get("shape", [-1]))
    )
