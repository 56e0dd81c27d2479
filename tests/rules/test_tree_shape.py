"""The shape of the source tree: no file too long, no fragments, no crowded folder, no circle of imports.

``scripts/figures`` prints the same figures.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.rules.import_graph import circles, import_graph, imports
from tests.rules.tree import ROOT, label, sources, texts
from tests.rules.tree_figures import SHORT_FILE, files_per_folder, fragments, line_count, modules, tree_figures

LONGEST_FILE = 800
MEDIAN = (120, 160)
FILES_PER_FOLDER = 16
ALLOWED_FRAGMENTS = ROOT / "tests" / "rules" / "allowed_fragments.txt"
"""Lines of ``PATH: REASON``; a line that starts with ``#`` is a comment."""
GRAB_BAGS = re.compile(r"^_?(utils?|commons?|helpers?|misc|const(ant)?s?)$")
MACHINE_PATH = re.compile(r"(?<![\w.~<>}-])/(?:work|root|tmp)/")


def reasons() -> dict[str, str]:
    """Return the short files that may stand alone, each with its reason."""
    lines = [line.strip() for line in ALLOWED_FRAGMENTS.read_text(encoding="utf-8").splitlines()]
    entries = [line.partition(":") for line in lines if line and not line.startswith("#")]
    return {path.strip(): reason.strip() for path, _, reason in entries}


def test_no_file_is_too_long() -> None:
    lengths = {label(path): line_count(path) for path in sources()}
    too_long = {name: length for name, length in lengths.items() if length > LONGEST_FILE}
    assert too_long == {}, f"longer than {LONGEST_FILE} lines"


def test_no_file_is_a_fragment() -> None:
    """A short file with one importer belongs into that importer, unless a reason is given."""
    missing = {path: user for path, user in fragments().items() if not reasons().get(path)}
    assert missing == {}, (
        f"under {SHORT_FILE} lines, one importer: merge it or add 'PATH: REASON' to {ALLOWED_FRAGMENTS}"
    )


def test_every_allowed_fragment_is_one() -> None:
    assert sorted(reasons().keys() - fragments().keys()) == [], f"remove these lines from {label(ALLOWED_FRAGMENTS)}"


def test_no_folder_is_crowded() -> None:
    counts = files_per_folder(modules())
    crowded = {name: count for name, count in counts.items() if count > FILES_PER_FOLDER}
    assert crowded == {}


def test_the_median_file_can_be_read_in_one_go() -> None:
    low, high = MEDIAN
    assert low <= tree_figures().median <= high


def test_no_imports_form_a_circle() -> None:
    """Imports inside functions count."""
    assert circles(import_graph()) == []


def test_circles_are_seen() -> None:
    assert circles({"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"], "e": ["f"], "f": ["e"]}) == [
        ["a", "b", "c"],
        ["e", "f"],
    ]
    assert circles({"a": ["b", "c"], "b": ["c"], "c": []}) == []


def test_imports_inside_functions_are_seen() -> None:
    """The commands import their tool when they run."""
    path = ROOT / "msprobe" / "cli" / "comparison" / "compare.py"
    assert imports(path) > imports(path, top_level_only=True)
    assert len(import_graph()["msprobe.cli.comparison.compare"]) > 3


def test_every_file_begins_with_a_docstring() -> None:
    heads = {label(path): path.read_text(encoding="utf-8").lstrip()[:4] for path in modules()}
    assert [name for name, head in heads.items() if not head.startswith(('"""', 'r"""'))] == []


def test_no_file_is_named_after_nothing() -> None:
    names = {part for path in sources() + sources("tests") for part in (path.stem, *Path(label(path)).parts[:-1])}
    assert [name for name in sorted(names) if GRAB_BAGS.match(name)] == []


def test_no_file_names_a_machine_path() -> None:
    lines = [
        f"{label(path)}:{number}"
        for path in texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]
    assert lines == []
