"""A process that was killed just after a step began: that step is left out, the rest is compared, the rank is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import msprobe
from msprobe.analyze.diff_analyze import diff_analyze
from msprobe.analyze.noise_learning import learn
from msprobe.core.errors import MsprobeException, NotComparableError, ReadError
from msprobe.core.store.journal import VERSION, JournalWriter
from msprobe.core.store.layout import DUMP, JOURNAL
from msprobe.core.store.reader import Place, ended_at_start, find_dumps, load_dump
from msprobe.visualize.job import Request, visualize
from tests.compare.dumps import call, gradient, tensor, write

HEADER = {"v": VERSION, "task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None}
STATES = ("empty", "zeros", "part of the header", "header", "announced")
"""How far a process got that was killed before it recorded a call."""
REDUCE = {"input_args": [tensor()], "input_kwargs": {}, "output": [tensor()]}


def calls(scale: float = 1.0) -> dict[str, object]:
    return {f"Torch.add.{number}.forward": call([tensor(scale)], [tensor(2 * scale)]) for number in range(3)}


def run(root: Path, steps: int = 3, ranks: int = 2, scale: float = 1.0) -> Path:
    for step in range(steps):
        for rank in range(ranks):
            write(root / f"step{step}" / f"rank{rank}", calls(scale))
    return root


def kill(folder: Path, state: str, data: dict[str, object] | None = None) -> None:
    """Leave in ``folder`` what a process leaves that is killed in ``state``, or after it recorded ``data``."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    journal = JournalWriter()
    journal.open(folder / JOURNAL)
    if state in ("header", "announced", "recorded"):
        journal.add(dict(HEADER))
        journal.flush()
    if state in ("announced", "recorded"):
        journal.announce(folder / JOURNAL, journal.index)
    for name, body in (data or {}).items():
        journal.add({"e": name, "d": body})
    journal.flush()
    journal.close()
    if state == "zeros":
        (folder / JOURNAL).write_bytes(bytes(100))
    if state == "part of the header":
        (folder / JOURNAL).write_bytes(b'{"v":3,"task":"stat')


@pytest.mark.parametrize("state", STATES)
def test_the_step_is_left_out_and_the_rank_is_named(state: str, tmp_path: Path) -> None:
    good, bad = run(tmp_path / "good"), run(tmp_path / "bad")
    kill(bad / "step2" / "rank0", state)
    summary = msprobe.compare(bad, good).summary
    assert summary.verdict == "same"
    assert summary.counts.pairs == 5 * 6
    assert summary.unpaired == ["rank0 of step 2: the process of the target ended before it recorded a call there"]
    assert summary.reason == "rank 0 of the target stopped first, in step 2"
    assert summary.incomplete == [*summary.unpaired, summary.reason]


@pytest.mark.parametrize("state", STATES)
def test_every_tool_reads_the_rest(state: str, tmp_path: Path) -> None:
    good, bad = run(tmp_path / "good"), run(tmp_path / "bad")
    kill(bad / "step2" / "rank0", state)
    incomplete = diff_analyze(bad, good, tmp_path / "da").incomplete
    assert len(incomplete) == 2 and "stopped first" in incomplete[1]
    assert learn([good, bad]).problems[0].startswith("rank0 of step 2")
    assert visualize(Request(bad, tmp_path / "one"))
    assert visualize(Request(bad, tmp_path / "two", good))


def test_a_divergence_in_an_earlier_step_is_found(tmp_path: Path) -> None:
    good, bad = run(tmp_path / "good"), run(tmp_path / "bad")
    write(bad / "step1" / "rank1", calls(5.0))
    kill(bad / "step2" / "rank0", "announced")
    result = msprobe.compare(bad, good)
    assert result.verdict == "diverged"
    assert result.summary.first_divergence is not None
    assert (result.summary.first_divergence.step, result.summary.first_divergence.rank) == (1, 1)


@pytest.mark.parametrize("state", STATES)
def test_nothing_but_such_a_step_cannot_be_compared(state: str, tmp_path: Path) -> None:
    good, bad = run(tmp_path / "good", 1, 1), tmp_path / "bad"
    kill(bad / "step0" / "rank0", state)
    result = msprobe.compare(bad, good)
    assert result.verdict == "not_comparable"
    assert "the process of the target ended before it recorded a call there" in result.summary.reason
    with pytest.raises(NotComparableError, match="ended before it recorded a call"):
        visualize(Request(bad, tmp_path / "one"))


@pytest.mark.parametrize("state", STATES)
def test_the_dump_is_read_as_one_without_records(state: str, tmp_path: Path) -> None:
    kill(tmp_path / "rank0", state)
    (place,) = find_dumps(tmp_path)
    dump = load_dump(place)
    assert ended_at_start(place)
    assert (dump.data, dump.recovered) == ({}, True)


def test_a_recorded_call_is_compared(tmp_path: Path) -> None:
    kill(tmp_path / "rank0", "recorded", calls())
    (place,) = find_dumps(tmp_path)
    assert not ended_at_start(place)
    assert list(load_dump(place).data) == list(calls())


def test_documents_beside_an_empty_journal_are_read(tmp_path: Path) -> None:
    """A power cut may empty the journal of a step that has been published."""
    write(tmp_path / "rank0", calls())
    (tmp_path / "rank0" / JOURNAL).touch()
    (place,) = find_dumps(tmp_path)
    assert not ended_at_start(place)
    dump = load_dump(place)
    assert list(dump.data) == list(calls())
    assert dump.recovered


def test_a_file_that_is_no_journal_is_told(tmp_path: Path) -> None:
    write(tmp_path / "rank0", calls())
    (tmp_path / "rank0" / JOURNAL).write_bytes(b"something else")
    place = Place(tmp_path / "rank0" / DUMP)
    assert not ended_at_start(place)
    with pytest.raises(ReadError, match="not a journal"):
        load_dump(place)


def test_the_rank_in_the_earliest_step_stopped_first(tmp_path: Path) -> None:
    good, bad = run(tmp_path / "good", 3, 4), run(tmp_path / "bad", 3, 4)
    for rank in (0, 1, 3):
        kill(bad / "step2" / f"rank{rank}", "recorded", calls())
    (bad / "step2" / "rank2" / DUMP).unlink()
    (bad / "step2" / "rank2" / "construct.json").unlink()
    kill(bad / "step1" / "rank2", "recorded", calls())
    assert "rank 2 of the target stopped first, in step 1" in msprobe.compare(bad, good).summary.reason
    assert "rank 2 of the golden run stopped first, in step 1" in msprobe.compare(good, bad).summary.reason
    sentences = [one for one in diff_analyze(bad, good, tmp_path / "out").incomplete if "stopped first" in one]
    assert [one.partition("; ")[0] for one in sentences] == ["rank 2 of the target stopped first, in step 1"]
    assert "its records end after " in sentences[0]
    (bad / "step1" / "rank2" / JOURNAL).unlink()
    write(bad / "step1" / "rank2", calls())  # it finished this step, and did not begin the next one
    assert "rank 2 of the target stopped first, after step 1" in msprobe.compare(bad, good).summary.reason


def test_in_one_step_the_rank_with_the_fewest_exchanges_stopped_first(tmp_path: Path) -> None:
    whole = {f"Distributed.all_reduce.{number}.forward": REDUCE for number in range(4)}
    for rank in range(3):
        write(tmp_path / "good" / "step0" / f"rank{rank}", whole)
        done = 2 if rank == 1 else 3
        kill(tmp_path / "bad" / "step0" / f"rank{rank}", "recorded", dict(list(whole.items())[:done]))
    result = msprobe.compare(tmp_path / "bad", tmp_path / "good")
    assert "rank 1 of the target stopped first, in step 0" in result.summary.reason


def backward(number: int, *gradients: str) -> dict[str, object]:
    """The records of the backward pass of a layer, with the gradients of these parameters."""
    return {
        f"Functional.linear.{number}.backward": gradient([tensor()], [tensor()]),
        f"Module.layer.Linear.parameters_grad.{number}": {name: [tensor()] for name in gradients},
    }


def test_gradients_that_were_on_their_way_are_not_missing(tmp_path: Path) -> None:
    """The gradient of the bias comes before that of the weight, whose arrival moves the entry behind the function."""
    first = backward(0, "bias", "weight")
    write(tmp_path / "good" / "rank0", {**calls(), **first, **backward(1, "bias", "weight")})
    moved = dict(reversed(backward(1, "bias").items()))
    kill(tmp_path / "function" / "rank0", "recorded", {**calls(), **first, **moved})
    moved.popitem()
    kill(tmp_path / "parameters" / "rank0", "recorded", {**calls(), **first, **moved})
    for side in ("function", "parameters"):
        assert msprobe.compare(tmp_path / side, tmp_path / "good").verdict == "same", side
        assert msprobe.compare(tmp_path / "good", tmp_path / side).verdict == "same", side


def test_a_gradient_that_is_missing_long_before_the_end_is_a_divergence(tmp_path: Path) -> None:
    later = {**calls(), **backward(1, "bias", "weight")}
    write(tmp_path / "good" / "rank0", {**backward(0, "bias", "weight"), **later})
    kill(tmp_path / "bad" / "rank0", "recorded", {**backward(0, "bias"), **later})
    first = msprobe.compare(tmp_path / "bad", tmp_path / "good").summary.first_divergence
    assert first is not None
    assert (first.target, first.kind) == ("Module.layer.Linear.parameters_grad.0", "missing_in_target")


def test_a_value_that_differs_at_the_end_is_a_divergence(tmp_path: Path) -> None:
    write(tmp_path / "good" / "rank0", {**calls(), **backward(0, "bias", "weight")})
    wrong = {**backward(0, "bias"), "Functional.linear.0.backward": gradient([tensor()], [tensor(5.0)])}
    kill(tmp_path / "bad" / "rank0", "recorded", {**calls(), **wrong})
    assert msprobe.compare(tmp_path / "bad", tmp_path / "good").verdict == "diverged"


def test_ranks_that_were_ended_together_are_not_named(tmp_path: Path) -> None:
    good, bad = run(tmp_path / "good"), run(tmp_path / "bad")
    for rank in range(2):
        kill(bad / "step2" / f"rank{rank}", "announced")
    result = msprobe.compare(bad, good)
    assert result.verdict == "same"
    assert "stopped first" not in result.summary.reason


def test_a_finished_dump_without_records_is_not_comparable(tmp_path: Path) -> None:
    good, bad = run(tmp_path / "good"), run(tmp_path / "bad")
    (bad / "step2" / "rank0" / DUMP).write_text(json.dumps({"task": "statistics", "data": {}}))
    assert msprobe.compare(bad, good).verdict == "not_comparable"


def test_a_folder_without_a_dump_is_told(tmp_path: Path) -> None:
    (tmp_path / "step0" / "rank0").mkdir(parents=True)
    with pytest.raises(MsprobeException, match="no dump"):
        find_dumps(tmp_path)
