"""A run that died is compared as far as it came."""

import dataclasses
from pathlib import Path

from msprobe.analyze.first_divergence import first_divergence
from msprobe.compare.comparison import compare_dumps, counts, level_names_of
from msprobe.compare.coverage import coverage_of
from msprobe.compare.records.entries import Absence
from msprobe.core.store.reader import Dump, find_dumps, load_dump
from tests.compare.dumps import call, tensor, write

NAMES = [f"Torch.op{k}.0.forward" for k in range(4)]


def _load(folder: Path, names: list[str], *, died: bool = False) -> Dump:
    write(folder, {name: call([tensor()], [tensor()]) for name in names})
    return dataclasses.replace(load_dump(find_dumps(folder)[0]), recovered=died)


def test_what_follows_the_end_of_a_dead_run_is_not_missing(tmp_path: Path) -> None:
    golden = _load(tmp_path / "g", NAMES)
    dead = compare_dumps(_load(tmp_path / "t", NAMES[:2], died=True), golden)
    assert first_divergence(dead) is None
    found = counts(dead, level_names_of(dead))
    assert (found.pairs, found.golden_only) == (4, 4)
    last = list(dead.rows())[-1]
    assert last.level == "pass" and "ended before" in last.messages[0]


def test_a_gap_in_a_dead_run_is_other_code(tmp_path: Path) -> None:
    golden = _load(tmp_path / "g", NAMES)
    comparison = compare_dumps(_load(tmp_path / "t", [NAMES[0], NAMES[2]], died=True), golden)
    absences = {pair.golden: pair.absence for pair in comparison.table.entries if pair.target is None}
    assert absences == {NAMES[1]: Absence.OTHER_CODE, NAMES[3]: Absence.RUN_ENDED}


def test_a_finished_run_that_is_shorter_misses_calls(tmp_path: Path) -> None:
    golden = _load(tmp_path / "g", NAMES)
    comparison = compare_dumps(_load(tmp_path / "t", NAMES[:2]), golden)
    assert first_divergence(comparison) is None
    (note,) = coverage_of(comparison).incomplete
    assert "2 calls that only the golden run makes were not judged" in note and NAMES[2] in note
