"""The files that a monitor has written below a folder, and how many cells two such sets of files have in common."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

_RUN = re.compile(r"[A-Z][a-z]{2}\d{2}_[\d-]+-rank(\d+)-[0-9a-f]+")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
_KEYS = ("vpp_stage", "name", "module_name", "scope", "step", "micro_step")


def texts_below(folder: Path) -> dict[str, str]:
    """Return the texts of all files; the name of a run's folder is only its rank."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix in {".csv", ".json"} and path.name != "stack_info.csv":
            parts = [_RUN.sub(r"rank\1", part) for part in path.relative_to(folder).parts]
            found["/".join(parts)] = path.read_text()
    return found


def cells_of(texts: Mapping[str, str]) -> dict[tuple[str, ...], str]:
    """Return each cell by its file, row and column."""
    cells = {}
    for name, text in texts.items():
        for row, column, value in _values(name, text):
            cells[(name, *row, column)] = value
    return cells


def _values(name: str, text: str) -> Iterator[tuple[tuple[str, ...], str, str]]:
    if name.endswith(".json"):
        for key, fields in json.loads(text).items():
            yield from (((key,), field, str(value)) for field, value in fields.items())
        return
    seen: Counter[tuple[str, ...]] = Counter()
    for row in csv.DictReader(io.StringIO(text)):
        keys = _KEYS[1:] if "module_name" in row else _KEYS  # the stage is a value where the published one has -1
        key = tuple(row[part] for part in keys if part in row)
        seen[key] += 1
        for column, value in row.items():
            if column not in keys:
                yield (*key, str(seen[key])), column, value


def same(one: str | None, other: str | None) -> bool:
    """Return whether two cells agree: their texts, and the numbers in them up to the rounding of sums in float32."""
    if one is None or other is None or one == other:
        return one == other
    if _NUMBER.sub("#", one) != _NUMBER.sub("#", other):
        return False
    pairs = zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)
    return all(abs(float(a) - float(b)) <= 1e-6 * max(1.0, abs(float(a))) for a, b in pairs)
