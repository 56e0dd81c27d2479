"""The figures of the source tree: how many files, how long, how many in a folder, and which are fragments."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.rules.import_graph import circles, import_graph, importers
from tests.rules.tree import label, module_name, sources

SHORT_FILE = 60
"""Lines; a shorter file that only one module imports is a fragment of that module."""


@dataclass(frozen=True, slots=True)
class TreeFigures:
    """The measured shape of ``msprobe/``; every length is in lines.

    ``folders`` maps a folder to the number of its modules, ``fragments`` a short file to the one module that uses it.
    ``__init__.py`` files are counted in ``package_lines`` only.
    """

    modules: int
    median: float
    ninety_percent: float
    longest: list[tuple[str, int]]
    folders: dict[str, int]
    fragments: dict[str, str]
    circles: list[list[str]]
    package_lines: int


def modules() -> list[Path]:
    """Return the source files of the package without the ``__init__.py`` files."""
    return [path for path in sources() if path.name != "__init__.py"]


def line_count(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def files_per_folder(paths: Iterable[Path]) -> dict[str, int]:
    """Return how many of the files lie directly in each folder, the widest folder first."""
    return dict(Counter(label(path.parent) for path in paths).most_common())


def fragments() -> dict[str, str]:
    """Return each file shorter than ``SHORT_FILE`` that exactly one module imports, with the name of that module."""
    users = importers()
    result = {}
    for path in modules():
        names = users[module_name(path)]
        if len(names) == 1 and line_count(path) < SHORT_FILE:
            result[label(path)] = next(iter(names))
    return result


def tree_figures() -> TreeFigures:
    """Measure the package as it is on disk."""
    lengths = {label(path): line_count(path) for path in modules()}
    deciles = statistics.quantiles(lengths.values(), n=10, method="inclusive")
    return TreeFigures(
        modules=len(lengths),
        median=statistics.median(lengths.values()),
        ninety_percent=deciles[-1],
        longest=sorted(lengths.items(), key=lambda item: -item[1])[:5],
        folders=files_per_folder(modules()),
        fragments=fragments(),
        circles=circles(import_graph()),
        package_lines=sum(map(line_count, sources())),
    )
