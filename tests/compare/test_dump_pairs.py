"""Ranks and steps pair by number, or by order when asked; those not wanted are left out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from msprobe.analyze.diff_analyze import diff_analyze
from msprobe.compare.alignment.check_mappings import read_mapping_options
from msprobe.compare.dump_pairs import Located, locate
from msprobe.core.errors import MsprobeException, NotComparableError, ReadError
from msprobe.jobs.compare import compare
from tests.compare.dumps import call, tensor, write

DATA = {"Torch.abs.0.forward": call([tensor()], [tensor()])}


def _located(folder: Path, target: list[str], golden: list[str], **keywords: Any) -> Located:
    for side, names in (("t", target), ("g", golden)):
        for name in names:
            write(folder / side / name, DATA)
    return locate(folder / "t", folder / "g", read_mapping_options(keywords))


def _names(located: Located) -> list[tuple[int | None, ...]]:
    return [(ours.step, ours.number, theirs.step, theirs.number) for ours, theirs in located.pairs]


def test_by_number(tmp_path: Path) -> None:
    found = _located(tmp_path, ["step0/rank0", "step0/rank2"], ["step0/rank0", "step0/rank1"])
    assert _names(found) == [(0, 0, 0, 0)]
    assert found.unpaired == ["rank2 of step 0 only in the target", "rank1 of step 0 only in the golden run"]


@pytest.mark.parametrize("given", [{}, {"target_parallel": "tp=2"}], ids=["nothing", "layout"])
def test_other_numbers_of_ranks_need_the_layout(tmp_path: Path, given: dict[str, Any]) -> None:
    """Whether two ranks hold one model together, or are two samples of it, is not recorded."""
    found = _located(tmp_path, ["step0/rank0", "step0/rank1"], ["step0/rank0"], **given)
    lines = [line for line in found.unpaired if "--target-parallel" in line]
    assert len(lines) == (0 if given else 1) and all("2 ranks and the golden run 1" in line for line in lines)


def _remove(rank: Path) -> None:
    shutil.rmtree(rank)


def _rename(rank: Path) -> None:
    rank.rename(rank.with_name("rank1.old"))


def _break_link(rank: Path) -> None:
    shutil.rmtree(rank)
    rank.symlink_to(rank.with_name("gone"))


@pytest.mark.parametrize("side", ["t", "g"])
@pytest.mark.parametrize("lose", [_remove, _rename, _break_link])
def test_a_missing_rank_is_no_agreement(tmp_path: Path, lose: Callable[[Path], None], side: str) -> None:
    for root in "tg":
        for step in (0, 1):
            for rank in (0, 1):
                write(tmp_path / root / f"step{step}" / f"rank{rank}", DATA)
    lose(tmp_path / side / "step1" / "rank1")
    line = f"rank1 of step 1 only in the {'golden run' if side == 't' else 'target'}"
    xml = tmp_path / "report.xml"
    result = compare(tmp_path / "t", tmp_path / "g", junit=xml)
    assert (result.verdict, result.summary.missing, result.summary.incomplete) == ("incomplete", [line], [line])
    assert 'type="incomplete"' in xml.read_text()
    analysis = diff_analyze(tmp_path / "t", tmp_path / "g", tmp_path / "o")
    assert (analysis.verdict, analysis.incomplete) == ("incomplete", [line])
    chosen = compare(tmp_path / "t", tmp_path / "g", rank="0")
    assert (chosen.verdict, chosen.summary.incomplete) == ("same", [])


def test_ranks_beside_the_one_that_was_given_are_not_missing(tmp_path: Path) -> None:
    for name in ("t/step0/rank0", "g/step0/rank0", "g/step0/rank1"):
        write(tmp_path / name, DATA)
    summary = compare(tmp_path / "t/step0/rank0", tmp_path / "g").summary
    assert (summary.verdict, summary.missing) == ("same", [])
    assert summary.incomplete[-1] == "rank1 of step 0 only in the golden run"


def test_a_run_that_is_not_read_is_not_compared(tmp_path: Path) -> None:
    for side, process, began in (("t", 7, 1000.0), ("t", 8, 2000.0), ("g", 9, 1000.0)):
        document = write(tmp_path / side / "step0" / f"proc{process}", DATA) / "dump.json"
        run = {"run": {"program_began": began, "step_began": began + 1.0}}
        document.write_text(json.dumps(run | json.loads(document.read_text())))
    summary = compare(tmp_path / "t", tmp_path / "g").summary
    (line,) = summary.incomplete
    assert line.startswith("run 1: step 0 of proc7 begun") and line.endswith("of the target was not read (--run)")
    assert summary.verdict == "same" and not summary.missing
    assert compare(tmp_path / "t", tmp_path / "g", run="2,1").summary.incomplete == []


def test_by_order(tmp_path: Path) -> None:
    target = ["step0/rank0", "step0/rank2", "step1/rank0", "step1/rank2"]
    golden = ["step5/rank0", "step5/rank1", "step5/rank3", "step6/rank0", "step6/rank1"]
    found = _located(tmp_path, target, golden, pair="order")
    assert _names(found) == [(0, 0, 5, 0), (0, 2, 5, 1), (1, 0, 6, 0), (1, 2, 6, 1)]
    assert found.unpaired == ["rank3 of step 5 only in the golden run"]


def test_by_order_the_steps_that_are_over(tmp_path: Path) -> None:
    found = _located(tmp_path, ["step0/rank0"], ["step3/rank1", "step4/rank1"], pair="order")
    assert _names(found) == [(0, 0, 3, 1)]
    assert found.unpaired == ["rank1 of step 4 only in the golden run"]


def test_steps_of_other_numbers(tmp_path: Path) -> None:
    """A run that was resumed at step 3 against the steps of one that began there."""
    target, golden = [f"step{step}/rank0" for step in (3, 4)], [f"step{step}/rank0" for step in (0, 1)]
    assert _names(_located(tmp_path, target, golden, step="3:0, 4:1")) == [(3, 0, 0, 0), (4, 0, 1, 0)]
    assert _names(_located(tmp_path, target, golden, step="4:0")) == [(4, 0, 0, 0)]


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("3:7", "step 7 is not in the golden run, which has 0"),
        ("0:0", "step 0 is not in the target, which has 3"),
        ("3:0,4", "pairs of a step of the target and one of the golden run"),
        ("3:0,3:1", "pairs of a step"),
        ("3:x", "pairs of a step"),
    ],
)
def test_pairs_of_steps_that_cannot_be(tmp_path: Path, step: str, said: str) -> None:
    with pytest.raises(MsprobeException, match=said):
        _located(tmp_path, ["step3/rank0"], ["step0/rank0"], step=step)


def test_only_some_ranks_and_steps(tmp_path: Path) -> None:
    names = [f"step{step}/rank{rank}" for step in (0, 1) for rank in range(4)]
    found = _located(tmp_path, names, names, rank="0-1,3", step="1")
    assert _names(found) == [(1, rank, 1, rank) for rank in (0, 1, 3)]
    with pytest.raises(NotComparableError, match="no pair of dumps is of rank 7"):
        _located(tmp_path, names, names, rank="7")


@pytest.mark.parametrize("keywords", [{"rank": "a"}, {"step": "3-1"}, {"pair": "name"}, {"ranks": "1"}], ids=str)
def test_a_wrong_choice_is_told(keywords: dict[str, Any]) -> None:
    with pytest.raises(MsprobeException, match=next(iter(keywords))):
        read_mapping_options(keywords)


def test_programs_of_both_modes_pair_mode_by_mode(tmp_path: Path) -> None:
    for side, process in (("t", 11), ("g", 12)):
        for mode, data in (("graph", "Cell.a.A.forward.0"), ("pynative", "Cell.b.B.forward.0")):
            write(tmp_path / side / mode / "step0" / f"proc{process}", {data: call([tensor()], [tensor()])})
    result = compare(tmp_path / "t", tmp_path / "g", output=tmp_path / "o")
    assert [outcome.label for outcome in result.outcomes] == ["graph_proc11", "pynative_proc11"]
    assert result.verdict == "same" and result.summary.counts.pairs == 4
    shutil.rmtree(tmp_path / "g" / "graph")
    alone = compare(tmp_path / "t", tmp_path / "g").summary
    assert alone.unpaired == ["graph_proc11 of step 0 only in the target"]


@pytest.mark.parametrize("given", ["", "rank_0"])
def test_kernel_files_are_to_be_imported(tmp_path: Path, given: str) -> None:
    (tmp_path / "rank_0" / "Net" / "0" / "0").mkdir(parents=True)
    with pytest.raises(ReadError, match="msprobe import"):
        compare(tmp_path / given, tmp_path / given)


def test_a_second_process_in_a_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(NotComparableError) as told:
        _located(tmp_path, [f"step{step}/proc{pid}" for step in range(3) for pid in (11, 12)], ["step0/proc5"])
    text = str(told.value)
    assert "holds several processes, of which compare cannot choose: give one of them, such as" in text
    assert f"{tmp_path / 't' / 'step0' / 'proc11'}" in text
    assert text.count("only in the") == 4 and "; and 1 more" in text


def test_ranks_that_do_not_meet_need_no_such_advice(tmp_path: Path) -> None:
    with pytest.raises(NotComparableError) as told:
        _located(tmp_path, ["step0/rank1", "step0/rank2"], ["step0/rank5"])
    assert "several processes" not in str(told.value)


@pytest.mark.parametrize(
    "names", [("step0/rank0", "step5/rank1"), ("step0/rank", "step0/rank0")], ids=["ranks", "bare"]
)
@pytest.mark.parametrize("document", ["", "dump.json"], ids=["folder", "document"])
def test_one_folder_named_on_each_side(
    names: tuple[str, str],
    document: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for side, name in zip("tg", names, strict=True):
        write(tmp_path / side / name, DATA)
    monkeypatch.chdir(tmp_path)
    target = Path("t") / names[0] / document
    golden = tmp_path / "g" / names[1] / document
    with caplog.at_level("INFO", "msprobe"):
        found = locate(target, golden)
    (pair,) = found.pairs
    assert [place.document.parent.resolve() for place in pair] == [
        (tmp_path / "t" / names[0]),
        (tmp_path / "g" / names[1]),
    ]
    assert f"is compared with {pair[1].label} of step {pair[1].step} of the golden run" in caplog.text


def test_a_rank_without_a_number_is_a_lone_process(tmp_path: Path) -> None:
    assert _names(_located(tmp_path, ["step0/rank"], ["step0/rank0"])) == [(0, None, 0, 0)]


def test_ranks_of_other_numbers_do_not_pair_by_themselves(tmp_path: Path) -> None:
    with pytest.raises(NotComparableError, match=r"rank0 of step 0 only in the target.*--pair order"):
        _located(tmp_path, ["step0/rank0"], ["step5/rank1"])


def test_processes_are_named_by_their_ids_and_nothing_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sides = [write(tmp_path / side / "step0" / name, DATA) for side, name in (("t", "proc1"), ("g", "proc2"))]
    with caplog.at_level("INFO", "msprobe"):
        assert len(locate(*sides).pairs) == 1
    assert "is compared with" not in caplog.text
