"""Which tests are slow: those marked so, and those that took long when the suite was last measured.

``slow_tests.txt`` lists the second kind, a test function a line, for ``scripts/test --quick``. It is written from the
durations of a whole run::

    scripts/test -n 2 --dist worksteal --junitxml=durations.xml
    python -m tests.slow_tests durations.xml

A test that takes much longer and is neither fails: ``bounded``. How long is told in turns of a loop that runs behind
it, since seconds depend on the machine and on what else runs there.
"""

from __future__ import annotations

import os
import statistics
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.matrices import whole
from tests.rules.tree import ROOT

LISTED = Path(__file__).with_suffix(".txt")
LIMIT = 0.15
"""Seconds that the median case of a test function may take in the quick tier; the first case often pays for others."""
LONGEST = 25.0
"""Turns of ``_turn`` that a test without the mark may take, with the processes that it waited for (some 5 s on a quiet
machine). What it is the first to import counts too, so this is far more than ``LIMIT``."""
ALWAYS = 1.0
"""Seconds of CPU that a test may take on any machine."""


@contextmanager
def bounded(item: pytest.Item) -> Iterator[None]:
    """Fail a test of CI that takes longer than ``LONGEST`` and is not marked as slow."""
    begin = _cpu_seconds()
    yield
    seconds = _cpu_seconds() - begin
    if seconds <= ALWAYS or whole.asked or item.get_closest_marker("slow") is not None:
        return
    turns = seconds / _turn()
    if turns > LONGEST:
        pytest.fail(f"it took {turns:.0f} turns of CPU; above {LONGEST:.0f} a test has the mark slow ({__name__})")


def _cpu_seconds() -> float:
    return sum(os.times()[:4])


def _turn() -> float:
    """Return the seconds of CPU that a loop takes on this machine, beside what else runs now."""
    begin = _cpu_seconds()
    sum(number * number for number in range(3_000_000))
    return _cpu_seconds() - begin


def mark_slow(items: Iterable[pytest.Item]) -> None:
    """Mark the tests that are listed."""
    listed = set(LISTED.read_text(encoding="utf-8").splitlines())
    for item in items:
        if item.nodeid.partition("[")[0] in listed:
            item.add_marker("slow")


def slow_functions(report: Path) -> list[str]:
    """Return the functions whose median case took ``LIMIT`` or longer, from a report of pytest in JUnit's form."""
    durations: dict[str, list[float]] = {}
    for case in ET.parse(report).iter("testcase"):
        name = f"{case.attrib['classname']}::{case.attrib['name'].partition('[')[0]}"
        durations.setdefault(name, []).append(float(case.attrib["time"]))
    return sorted(_node(name) for name, times in durations.items() if statistics.median(times) >= LIMIT)


def _node(name: str) -> str:
    """Return the id that pytest gives to ``folder.file.Class::function``."""
    module, _, function = name.partition("::")
    words = module.split(".")
    length = next(n for n in range(len(words), 0, -1) if Path(ROOT, *words[:n]).with_suffix(".py").is_file())
    return "::".join(["/".join(words[:length]) + ".py", *words[length:], function])


def main() -> None:
    """Write the list from the report that the command line names."""
    LISTED.write_text("".join(f"{name}\n" for name in slow_functions(Path(sys.argv[1]))), encoding="utf-8")


if __name__ == "__main__":
    main()
