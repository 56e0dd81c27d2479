"""The matrix ``facts``: of two equal dumps one fact is changed, and no change passes without an explanation."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

import msprobe
from msprobe.core.errors import MsprobeException
from tests.compare.single_fact_oracle import allowed
from tests.compare.single_facts import KINDS, Dump, changed, make_dump
from tests.matrices import matrix_params

FACTS = 200
"""Changes of one test; the matrix has 50 tests."""


def outcome(target: Path, golden: Path) -> str:
    """The verdict of a comparison; ``note`` for ``same`` with a sentence beside it, ``unreadable`` for an error."""
    try:
        result = msprobe.compare(target, golden, executor="serial")
    except MsprobeException:
        return "unreadable"
    return "note" if result.verdict == "same" and result.summary.reason else result.verdict


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Dump, Path]]:
    """A dump of each kind and its folder."""
    folder = tmp_path_factory.mktemp("originals")
    dumps = {kind: make_dump(kind) for kind in KINDS}
    return {kind: (dump, dump.write(folder / kind)) for kind, dump in dumps.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_equal_dumps_are_the_same(originals: dict[str, tuple[Dump, Path]], kind: str, tmp_path: Path) -> None:
    assert outcome(originals[kind][1], make_dump(kind).write(tmp_path / "again")) == "same"


@pytest.mark.parametrize("first", matrix_params("facts", range(0, 50 * FACTS, FACTS), sample={"0"}))
def test_no_changed_fact_passes_without_an_explanation(
    originals: dict[str, tuple[Dump, Path]], first: int, tmp_path: Path
) -> None:
    wrong = []
    for seed in range(first, first + FACTS):
        draw = random.Random(seed)
        kind = draw.choice(KINDS)
        original, folder = originals[kind]
        other, fact = changed(original, draw)
        altered = other.write(tmp_path / str(seed))
        right = allowed(kind, fact)
        for direction, pair in (("target", (altered, folder)), ("golden", (folder, altered))):
            found = outcome(*pair)
            if found not in right:
                wrong.append(
                    f"{seed} {kind}: {fact.what} of the {direction} at {fact.where}: {found}, not {set(right)}"
                )
        shutil.rmtree(altered)
    assert not wrong, "\n".join(wrong)
