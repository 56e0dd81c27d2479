"""Why a dump is empty: certain reasons and notes, from the configuration and from what lies on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from msprobe.analyze.doctor import examine
from msprobe.cli.main import run
from tests.fresh_debugger import forget

NAMES = ("Functional.relu.0.forward", "Functional.linear.0.forward", "Functional.linear.0.backward")


def said(found: list[Any], certain: bool) -> str:
    return "\n".join(finding.text for finding in found if finding.certain is certain)


def config(folder: Path, **fields: Any) -> dict[str, Any]:
    return {"dump_path": str(folder / "dump"), "risk_level": "ALL", **fields}


def dump(
    folder: Path, process: str = "proc1", step: int = 0, names: tuple[str, ...] = NAMES, task: str = "statistics"
) -> Path:
    place = folder / "dump" / f"step{step}" / process
    place.mkdir(parents=True)
    data = {name: {"output": []} for name in names}
    (place / "dump.json").write_text(json.dumps({"task": task, "level": "L1", "data": data}))
    return place


def test_nothing_to_say(tmp_path: Path) -> None:
    assert examine(config(tmp_path)) == []
    dump(tmp_path)
    assert examine(config(tmp_path)) == []


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"rank": [4, "6-9"]}, "rank asks for 4, 6, 7, 8, 9; a job of 2 processes has ranks 0 to 1"),
        ({"dump_enable": False}, "dump_enable is false"),
        ({"statistics": {"list": ["Module.fc.Linear.forward.0"]}}, "level L1 records APIs only"),
        ({"level": "L0", "statistics": {"list": ["Functional.relu.0.forward"]}}, "level L0 records modules only"),
        ({"level": "L9"}, "L9"),
        ({"task": "acc_check"}, "task acc_check: start() collects nothing; it is for msprobe acc_check"),
    ],
)
def test_what_excludes_everything_is_a_reason(tmp_path: Path, fields: dict[str, Any], reason: str) -> None:
    assert reason in said(examine(config(tmp_path, **fields), world=2), certain=True)


@pytest.mark.torch
def test_an_empty_dump_names_the_words_of_the_filter_and_what_was_seen(tmp_path: Path) -> None:
    import torch

    from msprobe.pytorch import PrecisionDebugger

    forget()  # the debugger of an earlier test would be taken up again
    raw = config(tmp_path, statistics={"list": ["lineer"]})
    with PrecisionDebugger(raw).collect():
        torch.nn.functional.relu(torch.ones(1))
    forget()
    (reason,) = said(examine(raw), certain=True).splitlines()
    assert 'is empty: list ["lineer"] let nothing through; names seen: Functional.relu.0.forward' in reason


def test_an_empty_dump_that_does_not_say_why(tmp_path: Path) -> None:
    place = dump(tmp_path, names=())
    asked = config(tmp_path, statistics={"list": ["lineer"]})
    assert f'{place} is empty: between start() and stop() no call passed list ["lineer"]' in said(
        examine(asked), certain=True
    )
    assert "no call was recorded" in said(examine(config(tmp_path)), certain=True)


@pytest.mark.parametrize(
    ("fields", "note"),
    [
        ({"rank": [0]}, "outside of a distributed job has no rank"),
        ({"step": ["3-5"]}, "step asks for 3, 4, 5: steps are counted by calls of step()"),
        ({"level": "mix"}, "modules of the model given to start"),
        ({"level": "debug"}, "nothing but the values given to save()"),
        ({"risk_level": "CORE"}, "leaves out APIs of lower risk on pytorch and msadapter;"),
        ({"level": "L2"}, 'not on pytorch: task: got "statistics"; level L2 on PyTorch needs "tensor"'),
        ({"statistics": {"request_id": "a"}}, "start(scheduled_tokens=...)"),
        ({"statistics": {"data_mode": ["backward"]}}, "data_mode has no forward"),
        ({"unknown": 1}, "unknown key"),
    ],
)
def test_what_may_be_meant_is_a_note(tmp_path: Path, fields: dict[str, Any], note: str) -> None:
    found = examine(config(tmp_path, **fields))
    assert note in said(found, certain=False)
    assert said(found, certain=True) == ""


@pytest.mark.parametrize(
    ("framework", "fields", "certain", "text"),
    [
        ("pytorch", {"level": "L2"}, True, 'task: got "statistics"; level L2 on PyTorch needs "tensor"'),
        ("msadapter", {"level": "L2"}, True, "msadapter collects at L0, L1, mix, debug"),
        ("mindspore", {"level": "L2"}, False, ""),
        ("pytorch", {"risk_level": "FOCUS"}, False, "leaves out APIs of lower risk; risk_level ALL records every one"),
        ("mindspore", {"risk_level": "FOCUS"}, False, ""),
        ("mindspore", {"risk_level": "CORE"}, False, "risk_level has no effect on mindspore"),
        ("mindspore", {"custom_op_namespaces": ["mine"]}, True, "names operators of torch.ops"),
    ],
)
@pytest.mark.parametrize("how", ["asked", "dumped"])
def test_what_holds_for_the_framework_that_is_meant(
    tmp_path: Path, how: str, framework: str, fields: dict[str, Any], certain: bool, text: str
) -> None:
    settings = config(tmp_path, **fields)
    if how == "asked":
        found = examine(settings, framework=framework)
    else:
        place = dump(tmp_path)
        written = {"msadapter": "mindtorch"}.get(framework, framework)
        document = {**json.loads((place / "dump.json").read_text()), "framework": written}
        (place / "dump.json").write_text(json.dumps(document))
        found = examine(settings)
    assert text in said(found, certain)
    assert text or found == []


def test_a_rank_beyond_the_job_is_a_note_while_another_fits(tmp_path: Path) -> None:
    found = examine(config(tmp_path, rank=[0, 7]), world=2)
    assert said(found, certain=False) == "rank asks also for 7, which a job of 2 processes does not have"


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "dump").write_text("")
    assert "is a file, not a folder" in said(examine(config(tmp_path)), certain=True)


def test_a_place_where_no_folder_can_be_made(tmp_path: Path) -> None:
    found = examine(config(tmp_path, dump_path="/proc/msprobe"))
    assert "no folder can be made in /proc" in said(found, certain=True)


def test_looking_at_a_place_leaves_nothing_there(tmp_path: Path) -> None:
    examine(config(tmp_path))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"task": "tensor", "tensor": {"bench_path": "/nowhere"}},
        {"custom_apis": "/nowhere"},
        {"level": "L0", "load": {"path": "/nowhere", "modules": ["Module.a.A.forward.0"], "dump_after_load": True}},
    ],
    ids=["bench_path", "custom_apis", "load"],
)
def test_an_input_that_is_not_there_is_a_reason(tmp_path: Path, fields: dict[str, Any]) -> None:
    reasons = said(examine(config(tmp_path, **fields)), certain=True)
    assert "/nowhere" in reasons
    assert "there is no such" in reasons


@pytest.mark.parametrize("task", ["overflow_check", "exception_dump"])
def test_a_task_that_found_nothing_is_no_reason(tmp_path: Path, task: str) -> None:
    dump(tmp_path, names=(), task=task)
    found = examine(config(tmp_path))
    assert said(found, certain=True) == ""
    assert "records only calls that it finds, and it found none" in said(found, certain=False)


def test_a_request_that_left_nothing_is_told(tmp_path: Path) -> None:
    found = examine(config(tmp_path, statistics={"request_id": "a"}))
    assert "has 'a'; nothing is at" in said(found, certain=False)


def test_a_name_that_no_entry_has_gets_its_neighbours(tmp_path: Path) -> None:
    dump(tmp_path)
    found = examine(config(tmp_path, statistics={"list": ["Functional.linear.7.forward", "relu", "conv"]}))
    assert said(found, certain=True).splitlines() == [
        "list has 'Functional.linear.7.forward', but no entry of the dump has this name; near it: "
        "Functional.linear.0.forward, Functional.linear.0.backward, Functional.relu.0.forward",
        "list has 'conv', but no entry of the dump has this name",
    ]


def test_what_lies_on_disk(tmp_path: Path) -> None:
    empty = dump(tmp_path, "rank0", names=())
    (empty / "dump_error_info.log").write_text("x")
    dump(tmp_path, "rank1", step=2)
    found = examine(config(tmp_path, rank=["0-3"], step=[0, 1]), world=4)
    assert f"{empty} is empty" in said(found, certain=True)
    assert "no data of rank 2, 3; the dump has rank 0, 1" in said(found, certain=True)
    assert "no data of step 1; the dump has step 0, 2" in said(found, certain=False)
    assert "dump_error_info.log lists calls" in said(found, certain=False)


def test_a_folder_without_a_dump(tmp_path: Path) -> None:
    assert "no such file or folder" in said(examine(config(tmp_path), dump=tmp_path / "absent"), certain=True)
    assert "no dump.json in it" in said(examine(config(tmp_path), dump=tmp_path), certain=True)


@pytest.mark.torch
def test_the_journal_of_a_process_that_did_not_end(tmp_path: Path) -> None:
    from msprobe.core.store.journal import VERSION
    from msprobe.core.store.layout import JOURNAL

    place = dump(tmp_path)
    head = f'{{"v":{VERSION},"task":"statistics","level":"L1"}}\n{{"e":"A.b.0.forward","p":null}}\n'
    (place / JOURNAL).write_text(head)
    found = said(examine(config(tmp_path)), certain=False)
    assert "has a journal: its process is still running, or ended without step()" in found


@pytest.mark.parametrize(("fields", "status"), [({}, 0), ({"rank": [9]}, 1)])
def test_the_command(tmp_path: Path, fields: dict[str, Any], status: int, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps(config(tmp_path, **fields)))
    assert run(["doctor", str(path), "--world", "2"]) == status
    out = capsys.readouterr().out
    assert out.startswith("reason: " if status else "no reason found")


def test_the_command_refers_to_its_notes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.json"
    path.write_text(json.dumps(config(tmp_path, step=[3])))
    assert run(["doctor", str(path)]) == 0
    assert capsys.readouterr().out.endswith("leaves data, under what the notes say\n")


def test_the_command_without_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "absent.json"]) == 2
    assert "no such config file" in capsys.readouterr().err


def test_a_step_beyond_all_recorded_ones_is_a_reason(tmp_path: Path) -> None:
    dump(tmp_path)
    found = examine(config(tmp_path, step=[50]))
    assert "there is no data of step 50; the dump has step 0" in said(found, certain=True)


def test_a_fragment_gets_what_it_may_have_meant(tmp_path: Path) -> None:
    dump(tmp_path)
    found = examine(config(tmp_path, statistics={"list": ["reluu"]}))
    assert "list has 'reluu', but no entry of the dump has this name; near it: relu" in said(found, certain=True)


@pytest.mark.parametrize(
    ("stack", "why"), [("{}", "construct.json is missing or empty"), (None, "extra_info was false")]
)
def test_a_dump_without_its_module_tree(tmp_path: Path, stack: str | None, why: str) -> None:
    place = dump(tmp_path)
    (place / "dump.json").write_text(
        json.dumps({"task": "statistics", "level": "L0", "data": {"Module.a.A.forward.0": {"output": []}}})
    )
    if stack is not None:
        (place / "stack.json").write_text(stack)
    assert f"has no module tree ({why})" in said(examine(config(tmp_path, level="L0")), certain=False)
