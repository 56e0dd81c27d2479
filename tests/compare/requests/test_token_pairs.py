"""Steps pair by the tokens that they hold of a request."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from msprobe.compare.alignment.options import mapping_options
from msprobe.compare.dump_pairs import Located, locate
from msprobe.core.errors import MsprobeException, NotComparableError
from msprobe.jobs.compare import compare
from tests.compare.dumps import call, write
from tests.compare.dumps import tensor as described


def run(folder: Path, *steps: dict[str, tuple[int, int]] | None, ranks: int = 0) -> Path:
    """Record steps of {request: (position, tokens)}; None records no requests."""
    for number, step in enumerate(steps):
        for rank in range(max(1, ranks)):
            place = folder / f"step{number}" / (f"rank{rank}" if ranks else "proc7")
            write(place, {"Torch.exp.0.forward": call([described()], [described()])})
            if step is None:
                continue
            document = json.loads((place / "dump.json").read_text())
            requests = [{"id": name, "tokens": count, "position": first} for name, (first, count) in step.items()]
            header = {"scheduled_tokens": {"requests": requests}}
            (place / "dump.json").write_text(json.dumps({**header, **document}))
    return folder


def pairs(located: Located) -> list[tuple[int | None, int | None]]:
    return [(target.step, golden.step) for target, golden in located.pairs]


def located(target: Path, golden: Path, **options: Any) -> Located:
    return locate(target, golden, mapping_options(options))


def test_chunks_pair_with_the_steps_that_have_their_tokens(tmp_path: Path) -> None:
    chunks = run(tmp_path / "chunks", {"b": (0, 9)}, {"a": (0, 4), "b": (9, 1)}, {"a": (4, 4)}, {"a": (8, 1)})
    whole = run(tmp_path / "whole", {"a": (0, 8)}, {"a": (8, 1)})
    assert pairs(located(chunks, whole, target_request="a")) == [(1, 0), (2, 0), (3, 1)]
    assert pairs(located(whole, chunks, golden_request="a")) == [(0, 1), (0, 2), (1, 3)]
    assert pairs(located(whole, chunks, target_request="a", step="1")) == [(1, 3)]


def test_what_was_computed_again_is_compared_once(tmp_path: Path) -> None:
    again = run(tmp_path / "again", {"a": (0, 4)}, {"a": (0, 4)}, {"a": (0, 6)})
    once = run(tmp_path / "once", {"a": (0, 6)})
    assert pairs(located(once, again, target_request="a")) == [(0, 0), (0, 2)]
    assert pairs(located(again, once, target_request="a")) == [(0, 0), (1, 0), (2, 0)]


def test_ids_of_both_sides_and_positions(tmp_path: Path) -> None:
    left = run(tmp_path / "left", {"chatcmpl-x": (0, 2)})
    right = run(tmp_path / "right", {"y": (0, 6)}, {"y": (6, 2)})
    assert pairs(located(left, right, target_request="x", golden_request="y")) == [(0, 0)]
    found = located(left, right, target_request="x@6", golden_request="y")
    assert pairs(found) == [(0, 1)] and found.unpaired == ["tokens 0-5 of request y only in the golden run"]


def test_ranks_pair_with_each_other(tmp_path: Path) -> None:
    left, right = (run(tmp_path / name, {"a": (0, 2)}, {"a": (2, 1)}, ranks=2) for name in ("left", "right"))
    found = [(target.number, golden.number) for target, golden in located(left, right, target_request="a").pairs]
    assert sorted(found) == [(0, 0), (0, 0), (1, 1), (1, 1)]


def test_wrong_input_is_one_line(tmp_path: Path) -> None:
    counted, plain = run(tmp_path / "counted", {"a": (0, 2), "b": (0, 1)}), run(tmp_path / "plain", None)
    for target, golden, name, text in (
        (plain, counted, "a", "the target does not tell which rows belong to a request: record it with start"),
        (counted, plain, "a", "the golden run does not tell which rows"),
        (counted, counted, "z", "the target has no request 'z'; there is a, b"),
    ):
        with pytest.raises(NotComparableError, match=text):
            located(target, golden, target_request=name)
    with pytest.raises(NotComparableError, match="tokens 0-1 in the target, tokens 5-6 in the golden run"):
        located(counted, counted, target_request="a", golden_request="a@5")


def test_options_that_exclude_each_other(tmp_path: Path) -> None:
    for other in ({"target_slice": "0/4=1"}, {"golden_parallel": "tp=2"}):
        with pytest.raises(MsprobeException, match="target_request") as error:
            compare(tmp_path, tmp_path, target_request="a", **other)  # type: ignore[typeddict-item]
        assert "\n" not in str(error.value)
