"""Steps and ranks: which dumps pair, which divergence is the earliest, what a dead run means."""

import json
from pathlib import Path
from typing import Any

import pytest

from msprobe.core.errors import ReadError
from msprobe.jobs.compare import compare
from tests.compare.dumps import call, gradient, module, tensor, write

FIRST, SECOND = "Functional.relu.0.forward", "Functional.gelu.0.forward"


def _run(first: float = 1.0, second: float = 1.0) -> dict[str, Any]:
    return {FIRST: call([tensor()], [tensor(first)]), SECOND: call([tensor(0.5)], [tensor(second)])}


def test_the_earliest_step_wins_then_the_earliest_call_of_any_rank(tmp_path: Path) -> None:
    wrong = {(0, 0): _run(), (0, 1): _run(), (1, 0): _run(second=2.0), (1, 1): _run(first=2.0)}
    for (step, rank), data in wrong.items():
        write(tmp_path / f"t/step{step}/rank{rank}", data)
        write(tmp_path / f"g/step{step}/rank{rank}", _run())
    summary = compare(tmp_path / "t", tmp_path / "g", output=tmp_path / "o").summary
    found = summary.first_divergence
    assert found is not None and (found.step, found.rank, found.target) == (1, 1, FIRST)
    assert summary.counts.pairs == 16 and len(summary.results) == 4
    assert {"rank0_step1", "rank1_step0"} <= {"_".join(Path(p).stem.split("_")[2:4]) for p in summary.results}


def test_a_lone_rank_is_told(tmp_path: Path) -> None:
    for name in ("t/step0/rank0", "t/step0/rank1", "g/step0/rank1", "g/step0/rank2"):
        write(tmp_path / name, _run())
    summary = compare(tmp_path / "t", tmp_path / "g").summary
    assert summary.verdict == "incomplete"
    assert (
        summary.unpaired
        == summary.missing
        == ["rank0 of step 0 only in the target", "rank2 of step 0 only in the golden run"]
    )


@pytest.mark.parametrize(
    ("processes", "option", "place"), [(4, {}, ""), (2, {}, ""), (4, {"rank": "0"}, ""), (4, {}, "step0/rank0")]
)
def test_ranks_that_neither_run_has(tmp_path: Path, processes: int, option: dict[str, str], place: str) -> None:
    run = {"program_began": 1.0, "step_began": 2.0, "processes": processes}
    for side in "tg":
        for name in ("step0/rank0", "step0/rank1", "step1/rank1"):
            path = write(tmp_path / side / name, _run()) / "dump.json"
            path.write_text(json.dumps({"run": run, **json.loads(path.read_text())}))
    summary = compare(tmp_path / "t" / place, tmp_path / "g" / place, **option).summary
    assert summary.verdict == "same" and not summary.incomplete
    end = f"in neither run, although the job has {processes} processes (first: "
    said = {4: f"5 dumps of ranks are {end}rank2 of step 0)", 2: f"1 dump of a rank is {end}rank0 of step 1)"}
    assert summary.notes == ([] if option or place else [said[processes]])


def test_ranks_of_different_number_do_not_pair(tmp_path: Path) -> None:
    write(tmp_path / "t/step0/rank0", _run())
    write(tmp_path / "g/step0/rank1", _run())
    assert compare(tmp_path / "t", tmp_path / "g").verdict == "not_comparable"


def test_one_dump_against_many_steps_asks_for_one(tmp_path: Path) -> None:
    target = write(tmp_path / "t", _run())
    for step in (0, 3):
        write(tmp_path / f"g/step{step}/rank0", _run())
    summary = compare(target / "dump.json", tmp_path / "g").summary
    assert summary.verdict == "not_comparable" and "steps 0, 3" in summary.reason


def test_a_file_that_is_no_document(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    with pytest.raises(ReadError, match="no dump, its name does not end in"):
        compare(tmp_path / "train.py", write(tmp_path / "g", _run()))


def test_a_weight_that_asks_for_no_gradient_is_a_difference_where_both_train(tmp_path: Path) -> None:
    name, back = "Module.fc.Linear.forward.0", {"Module.fc.Linear.backward.0": gradient([tensor()], [tensor()])}
    frozen = {name: module([tensor()], [tensor()], weight=tensor(requires_grad=False))}
    trained = {name: module([tensor()], [tensor()], weight=tensor())}
    assert compare(write(tmp_path / "f", frozen), write(tmp_path / "i", trained)).verdict == "same"
    frozen, trained = frozen | back, trained | back
    found = compare(write(tmp_path / "t", frozen), write(tmp_path / "g", trained)).summary.first_divergence
    assert found is not None
    assert (found.kind, found.slot, found.module) == ("argument", "parameters.weight", "fc.Linear")
    assert "requires_grad False" in found.reason


def test_inputs_may_differ_in_requires_grad(tmp_path: Path) -> None:
    data = {FIRST: call([tensor(requires_grad=False)], [tensor()])}
    other = {FIRST: call([tensor()], [tensor()])}
    assert compare(write(tmp_path / "t", data), write(tmp_path / "g", other)).verdict == "same"


def _layer(weight: float) -> dict[str, Any]:
    out = tensor(weight)
    names = ("a", "b", "c")
    return {f"Module.{n}.Linear.forward.0": module([tensor()], [out], weight=tensor(weight)) for n in names}


def test_weights_that_all_differ_after_an_agreeing_step_are_the_optimizer(tmp_path: Path) -> None:
    for step, weight in ((0, 1.0), (1, 1.2)):
        write(tmp_path / f"t/step{step}/rank0", _layer(weight))
        write(tmp_path / f"g/step{step}/rank0", _layer(1.0))
    found = compare(tmp_path / "t", tmp_path / "g").summary.first_divergence
    assert found is not None and (found.step, found.module) == (1, "optimizer")


def test_weights_that_differ_from_the_start_are_their_module(tmp_path: Path) -> None:
    write(tmp_path / "t/step0/rank0", _layer(1.2))
    write(tmp_path / "g/step0/rank0", _layer(1.0))
    found = compare(tmp_path / "t", tmp_path / "g").summary.first_divergence
    assert found is not None and (found.module, found.slot) == ("a.Linear", "parameters.weight")


def test_missing_tensor_files_are_no_pass_under_any_policy(tmp_path: Path) -> None:
    data = {FIRST: call([tensor(data_name="a.pt")], [tensor(data_name="b.pt")])}
    left, right = (write(tmp_path / side, data, task="tensor") for side in "tg")
    for policy in ("default", "reference"):
        assert compare(left, right, policy=policy).verdict == "not_comparable"
