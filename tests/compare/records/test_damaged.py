"""Damaged, hostile and foreign input: a clear error or a stated problem, never a traceback, never a silent pass."""

import copy
import io
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import nn

from msprobe.analyze.diff_analyze import diff_analyze
from msprobe.analyze.noise_learning import learn
from msprobe.analyze.overflow import check_overflow
from msprobe.check.job import check
from msprobe.cli.main import run as msprobe
from msprobe.compare.alignment.check_mappings import read_mapping_options
from msprobe.core.errors import MsprobeException, ReadError
from msprobe.core.store.reader import damage_named, find_dumps
from msprobe.core.store.record_walk import first_damage
from msprobe.jobs.compare import compare
from msprobe.jobs.overflow_rerun import rerun_overflows
from msprobe.pytorch import PrecisionDebugger
from msprobe.trend.job import write_trend
from msprobe.visualize.job import Request, visualize
from tests.compare.dumps import call, gradient, module, number, tensor, write
from tests.fresh_debugger import forget
from tests.recordings import Recordings, copy_of

RELU = "Functional.relu.0.forward"
LINEAR = "Module.fc.Linear.forward.0"
DATA: dict[str, Any] = {
    LINEAR: module([tensor()], [tensor(0.5)], weight=tensor(), bias=tensor(shape=(8,))),
    RELU: call(
        [tensor(0.5), number(3)],
        [tensor(0.4), None],
        inplace=number(False),
        part={"type": "slice", "value": [0, 1, None]},
        peers={"class_type": "torch.distributed.P2POp", "tensor": tensor(), "op": "isend", "peer": 1},
    ),
    "Distributed.all_reduce.0.forward": call([tensor()], [tensor()], group={"type": "torch.ProcessGroup"}),
    "Functional.relu.0.backward": gradient([tensor()], [tensor(), None]),
    "Module.fc.Linear.backward.0": gradient([tensor()], [tensor()]),
    "Module.fc.Linear.parameters_grad": {"weight": [tensor()], "bias": [tensor(shape=(8,))]},
    "loss.0.debug": tensor(),
}
OTHER = {**DATA, LINEAR: module([tensor()], [tensor(0.7)], weight=tensor(), bias=tensor(shape=(8,)))}
CONSTRUCT = {RELU: LINEAR, LINEAR: None, "Module.fc.Linear.backward.0": None}
STACK = {name: ["File a.py, line 1, in f, \n x"] for name in DATA}
ODD = [
    None,
    True,
    -1,
    0,
    1e308,
    float("nan"),
    float("-inf"),
    10**30,
    -(10**400),
    "",
    "x",
    "../../etc",
    "=1+1",
    "a/b\x00",
    "NaN",
]
NESTED = [
    [],
    {},
    [[]],
    [-1, 2],
    ["a", 10**12],
    [10**200, 10**200],
    {"type": 3},
    {"type": "torch.Tensor"},
    {"": {"": [1]}},
]
SCALARS = st.sampled_from(ODD) | st.text(max_size=4) | st.floats() | st.integers()
VALUES = SCALARS | st.sampled_from(NESTED) | st.dictionaries(st.text(max_size=5), SCALARS, max_size=2)
KEYS = st.sampled_from([
    "md5",
    "Max",
    "dtype",
    "shape",
    "type",
    "data_name",
    "is_recompute",
    "",
    ".forward",
    "..",
    RELU,
])


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of everything in a document but the document itself."""
    for key, child in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield (*path, key)
        yield from places(child, (*path, key))


def tensors(node: Any) -> list[dict[str, Any]]:
    """All tensors of a document."""
    children = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    own = [node] if isinstance(node, dict) and "dtype" in node else []
    return own + [leaf for child in children for leaf in tensors(child)]


@st.composite
def mutations(draw: st.DrawFn) -> list[tuple[int, str, Any, Any]]:
    """Some changes: where (a number, taken modulo the size of the document), which kind, key and value."""
    change = st.tuples(
        st.integers(0, 10_000), st.sampled_from(["set", "drop", "add"]), KEYS | st.text(max_size=9), VALUES
    )
    return draw(st.lists(change, min_size=1, max_size=3))


def mutated(document: Any, changes: list[tuple[int, str, Any, Any]]) -> Any:
    document = copy.deepcopy(document)
    for number_, kind, key, value in changes:
        known = list(places(document))
        if not known:
            break
        *path, last = known[number_ % len(known)]
        node = document
        for part in path:
            node = node[part]
        if kind == "drop":
            del node[last]
        elif kind == "add" and isinstance(node, dict):
            node[key] = copy.deepcopy(value)
        else:
            node[last] = copy.deepcopy(value)
    return document


def written(folder: Path, task: str, data: dict[str, Any] = DATA) -> Path:
    return write(folder, with_files(folder, data) if task == "tensor" else data, CONSTRUCT, STACK, task)


def with_files(folder: Path, data: dict[str, Any]) -> dict[str, Any]:
    """The records with a tensor file for each tensor."""
    data = copy.deepcopy(data)
    (folder / "dump_tensor_data").mkdir(parents=True)
    content = io.BytesIO()
    np.save(content, np.ones((4, 8), np.float32))
    for number_, leaf in enumerate(tensors(data)):
        leaf["data_name"] = f"{number_}.npy"
        (folder / "dump_tensor_data" / leaf["data_name"]).write_bytes(content.getvalue())
    return data


def damage(path: Path, change: Callable[[Any], Any]) -> None:
    path.write_text(json.dumps(change(json.loads(path.read_text()))))


WAYS: list[dict[str, Any]] = [
    {},
    {"fuzzy_match": True},
    {"layer_mapping": True},
    {"consistent_check": True, "backend": "fsdp"},
    {"target_parallel": "tp=2", "golden_parallel": "tp=2"},
]


@pytest.mark.slow
@pytest.mark.matrix("fuzz", sample=True, examples=10_000)
@settings(max_examples=60)
@given(
    mutations(),
    st.sampled_from(["dump.json", "dump.json", "stack.json", "construct.json"]),
    st.sampled_from(["statistics", "tensor"]),
    st.sampled_from(["default", "reference"]),
    st.sampled_from(WAYS),
)
@example([(3, "set", "", 7)], "dump.json", "statistics", "default", {})
@example([(2, "set", "", True)], "dump.json", "statistics", "default", {})
@example([(7, "set", "", None)], "dump.json", "tensor", "default", {})  # a whole tensor
@example([(3, "set", "", 7)], "stack.json", "statistics", "default", {})  # the frames of a call
@example([(4, "set", "", 7)], "stack.json", "statistics", "default", {})  # one of its frames
@example([(0, "set", "", {"": None})], "construct.json", "statistics", "default", {})  # the parent of a call
def test_any_change_of_a_document_is_borne(
    tmp_path_factory: pytest.TempPathFactory,
    changes: list[tuple[int, str, Any, Any]],
    document: str,
    task: str,
    policy: str,
    way: dict[str, Any],
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    target, golden = folder / "t", folder / "g"
    for rank in ("rank0", "rank1") if "target_parallel" in way else ("rank0",):
        written(target / rank, task), written(golden / rank, task, OTHER)
    damage(target / rank / document, lambda content: mutated(content, changes))
    for left, right in ((target, golden), (golden, target), (target, target)):
        try:
            result = compare(left, right, policy=policy, output=folder / "o", junit=folder / "r.xml", **way)
        except MsprobeException as error:
            assert str(error)
        else:
            assert sum(1 for _ in result.rows()) >= result.summary.counts.pairs


def with_largest(content: dict[str, Any], value: int) -> dict[str, Any]:
    """Return the document with this as the largest element of every first result, of functions and of modules."""
    for body in content["data"].values():
        if isinstance(body.get("output"), list) and isinstance(body["output"][0], dict):
            body["output"][0]["Max"] = value
    return content


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("value", [10**400, -(10**4000)], ids=["400_digits", "4000_digits"])
@pytest.mark.parametrize("policy", ["default", "reference"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(way) or "by-name")
def test_a_number_larger_than_any_float_is_not_compared(
    tmp_path: Path, value: int, policy: str, way: dict[str, Any]
) -> None:
    target, golden = tmp_path / "t", tmp_path / "g"
    for rank in ("rank0", "rank1"):
        for side in (target, golden):
            written(side / rank, "statistics")
        damage(target / rank / "dump.json", lambda content: with_largest(content, value))
    for left, right in ((target, golden), (golden, target)):
        options = {"policy": policy, "output": tmp_path / "o", "html": tmp_path / "r.html", "xlsx": True, **way}
        assert compare(left, right, **options).verdict == "incomplete"
        assert diff_analyze(left, right, tmp_path / "o", policy, read_mapping_options(way)).incomplete


LARGE = int("9" * 400)
NO_NUMBERS = {"list": [1, 2], "table": {"a": 1}, "text": "N/A", "digits": LARGE, "digits-as-text": str(LARGE)}


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("value", NO_NUMBERS)
@pytest.mark.parametrize("name", ["Max", "Min", "Mean", "Norm", "Projection"])
@pytest.mark.parametrize("policy", ["default", "reference"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: "-".join(way) or "by-name")
def test_a_statistic_that_is_no_number_is_not_compared(
    tmp_path: Path, name: str, value: str, policy: str, way: dict[str, Any]
) -> None:
    data = copy.deepcopy(DATA)
    data[LINEAR]["output"][0][name] = NO_NUMBERS[value]
    damaged, whole = tmp_path / "d", tmp_path / "w"
    for rank in ("rank0", "rank1") if "target_parallel" in way else ("rank0",):
        written(damaged / rank, "statistics", data), written(whole / rank, "statistics")
    unordered = name == "Projection" and "target_parallel" in way  # what is put together of pieces has no order
    for left, right in ((damaged, damaged), (damaged, whole), (whole, damaged)):
        verdict = compare(left, right, policy=policy, **way).verdict
        assert verdict == "incomplete" or (unordered and verdict == "same")


FORMS: dict[str, tuple[str, Any]] = {
    "negative": ("shape", [-1, 8]),
    "nested": ("shape", [[4], 8]),
    "text": ("shape", "4,8"),
    "number": ("shape", 10**30),
    "too-large": ("shape", [10**30, 8]),
    "dtype-number": ("dtype", 3),
    "dtype-null": ("dtype", None),
    "dtype-list": ("dtype", ["torch.float32"]),
}


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("task", ["statistics", "tensor", "checksums"])
def test_a_tensor_whose_shape_or_dtype_no_tensor_has_is_not_compared(tmp_path: Path, form: str, task: str) -> None:
    whole = copy.deepcopy(DATA)
    for leaf in tensors(whole) if task == "checksums" else ():
        leaf["md5"] = f"{leaf['Max']}"
    data = copy.deepcopy(whole)
    key, value = FORMS[form]
    data[LINEAR]["output"][0][key] = value
    stored = "tensor" if task == "tensor" else "statistics"
    left, right = written(tmp_path / "d", stored, data), written(tmp_path / "w", stored, whole)
    for sides in ((left, left), (left, right), (right, left)):
        result = compare(*sides)
        assert result.verdict == "incomplete"
        assert "damaged in a record" in " ".join(result.summary.incomplete)
        assert diff_analyze(*sides, tmp_path / "o", "default").incomplete
    assert task == "checksums" or "damaged in a record" in " ".join(learn([left, right]).lines)
    with pytest.raises(ReadError, match=rf"'{key}'"):
        check([left])


@pytest.mark.parametrize("value", [["a"], {"a": "b"}], ids=["list", "table"])
def test_a_checksum_that_is_no_text_is_not_compared(tmp_path: Path, value: Any) -> None:
    data = {RELU: call([tensor(md5="0a")], [tensor(md5="0b")])}
    whole = write(tmp_path / "w", data, task="statistics")
    data[RELU]["output"][0]["md5"] = value
    damaged = write(tmp_path / "d", data, task="statistics")
    for left, right in ((damaged, damaged), (damaged, whole), (whole, damaged)):
        assert compare(left, right).verdict != "same"


@pytest.mark.parametrize(
    ("key", "value"),
    [("md5", []), ("md5", {}), ("Mean", 10**400), ("Mean", -(10**400))],
    ids=["md5-list", "md5-object", "large-mean", "large-negative-mean"],
)
def test_odd_values_in_calls_of_one_side_are_borne(tmp_path: Path, key: str, value: Any) -> None:
    """The calls that made a value are looked up by checksums and statistics."""
    extra = {"Module.x.E.forward.0": module([tensor()], [tensor(0.2)]), **DATA}
    sides = write(tmp_path / "t", extra, CONSTRUCT), write(tmp_path / "g", OTHER, CONSTRUCT)
    for side in sides:
        damage(
            side / "dump.json", lambda document: [leaf.update({key: value}) for leaf in tensors(document)] and document
        )
    assert compare(*sides).verdict != "same"
    assert compare(*sides[::-1]).verdict != "same"


def train(folder: Path) -> None:
    """Record a step of two ranks, with the operators of the optimizer."""
    forget()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": "mix", "task": "statistics"})
    with debugger.collect(model=model):
        model(torch.ones(3, 4)).square().mean().backward()
        optimizer.step()
    forget()
    (process,) = (folder / "step0").iterdir()
    shutil.copytree(process, folder / "step0" / "rank1")
    process.rename(folder / "step0" / "rank0")


def read_by_all(bad: Path, good: Path, output: Path, way: str) -> None:
    split = {"target_parallel": way, "golden_parallel": way} if way else {}
    compare(bad, good, output=output, html=output / "r.html", **split)
    compare(good, bad, policy="reference", **split)
    diff_analyze(bad, good, output, mapping=read_mapping_options(split))
    if not way:
        learn([bad, good])
        visualize(Request(bad, output, good))


@pytest.mark.parametrize(
    ("entry", "path", "value", "way"),
    [
        ("Module.0.Linear.forward.0", ("parameters", "bias", "Norm"), LARGE, ""),
        ("Functional.linear.0.forward", ("output", 0, "Projection"), -LARGE, ""),
        ("Module.0.Linear.forward.0", ("parameters", "bias", "Max"), [[1]], ""),
        ("Tensor.sqrt.0.forward", ("output", 0, "Min"), {"a": 1}, ""),
        ("Module.0.Linear.forward.0", ("parameters", "weight", "Min"), [], "tp=2"),
        ("Tensor.addcdiv_.0.forward", ("input_args", 0, "Max"), [1.0], "tp=2"),
    ],
)
def test_a_statistic_that_is_no_number_is_named_where_it_cannot_be_borne(
    recordings: Recordings, tmp_path: Path, entry: str, path: tuple[Any, ...], value: Any, way: str
) -> None:
    good = recordings(train)
    bad = copy_of(good, tmp_path / "bad")

    def change(content: dict[str, Any]) -> dict[str, Any]:
        node = content["data"][entry]
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = value
        return content

    damage(bad / "step0" / "rank0" / "dump.json", change)
    try:
        read_by_all(bad, good, tmp_path / "out", way)
    except ReadError as error:
        assert f"rank0/dump.json: damaged at data['{entry}']" in error.error_info
        assert "\n" not in error.error_info and len(error.error_info) < 500


ONE_RUN: dict[str, Callable[[Path, Path], object]] = {
    "overflow_check": lambda folder, output: check_overflow(folder),
    "check": lambda folder, output: check([folder]),
    "data2db": write_trend,
    "run_overflow_check": lambda folder, output: rerun_overflows(folder, output, "cpu", seconds=60),
}
"""What reads the statistics of one dump alone."""


@pytest.mark.parametrize("value", NO_NUMBERS)
@pytest.mark.parametrize("tool", ONE_RUN)
def test_a_statistic_that_is_no_number_is_no_finite_one(tmp_path: Path, tool: str, value: str) -> None:
    wrong = tensor(Max=NO_NUMBERS[value])
    folder = write(tmp_path / "step0" / "rank0", {RELU: call([tensor()], [wrong])}, {RELU: None})
    with pytest.raises(ReadError) as caught:
        ONE_RUN[tool](folder, tmp_path / "out")
    assert f"damaged at data['{RELU}']['output'][0]['Max']" in str(caught.value)


def test_the_first_damage_of_a_document() -> None:
    def said(value: dict[str, Any], **header: Any) -> str:
        return first_damage({"task": "statistics", **header, "data": {RELU: call([value], [tensor()])}})

    where = f"data['{RELU}']['input_args'][0]"
    assert said(tensor()) == said(tensor(Max="nan", Mean=None, md5="0a")) == ""
    assert said(tensor(Max=[1])) == f"{where}['Max']: a list and no number"
    assert said(tensor(Norm=10**400)) == f"{where}['Norm']: an integer too large for a statistic"
    assert said(tensor(Min="much")) == f"{where}['Min']: a text and no number"
    assert said(tensor(md5={})) == f"{where}['md5']: no text"
    assert said(tensor() | {"dtype": [5]}) == f"{where}['dtype']: no text"
    assert said(tensor() | {"shape": [[4], 8]}) == f"{where}['shape']: no list of lengths"
    parameter = {"name": "a", "value": tensor(Min={})}
    assert said(tensor(), model_parameters=[parameter]) == "model_parameters[0]['value']['Min']: a table and no number"
    assert first_damage({"task": "statistics", "data": {"loss.0.debug": 3, "other": []}}) == ""


def test_an_error_over_a_whole_dump_is_no_damage(tmp_path: Path) -> None:
    write(tmp_path / "rank0", DATA)
    with pytest.raises(TypeError, match="of msprobe itself"), damage_named(*find_dumps(tmp_path)):
        raise TypeError("of msprobe itself")


PIECES = [
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b'"',
    b"null",
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"\\u0000",
    b"\\ud800",
    b"\xff",
]


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 40), st.sampled_from(PIECES)), min_size=1, max_size=3),
    st.sampled_from(["dump.json", "stack.json", "construct.json"]),
)
@example([(1949, 18, b"{")], "dump.json")  # the name of an entry
@example([(1949, 11, b"{")], "dump.json")
def test_any_bytes_of_a_document_are_borne(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int, bytes]], document: str
) -> None:
    folder = tmp_path_factory.mktemp("bytes")
    target, golden = written(folder / "t", "statistics"), written(folder / "g", "statistics", OTHER)
    content = bytearray((target / document).read_bytes())
    for place, size, piece in changes:
        at = place % (len(content) + 1)
        content[at : at + size] = piece
    (target / document).write_bytes(content)
    for left, right in ((target, golden), (golden, target)):
        try:
            summary = compare(left, right, output=folder / "o").summary
        except MsprobeException as error:
            assert document in str(error)
        else:
            assert summary.counts.pairs > 0 or summary.verdict == "not_comparable"


@settings(max_examples=100)
@given(st.integers(0, 2000), st.sampled_from(["dump.json", "stack.json", "construct.json"]))
def test_a_cut_document_is_an_error(tmp_path_factory: pytest.TempPathFactory, size: int, document: str) -> None:
    folder = tmp_path_factory.mktemp("cut")
    target = written(folder / "t", "statistics")
    content = (target / document).read_bytes()
    (target / document).write_bytes(content[: min(size, len(content) - 1)])
    with pytest.raises(MsprobeException, match="not valid JSON"):
        compare(target, written(folder / "g", "statistics"))


@settings(max_examples=100)
@given(
    st.sampled_from([(LINEAR, "input_args", 0), (RELU, "output", 0), ("Functional.relu.0.backward", "input", 0)]),
    st.sampled_from(["Max", "Min", "Mean", "Norm"]),
    st.none() | st.sampled_from(["", "x", "N/A", [], {}, True, float("nan"), float("inf"), -1e30]),
)
def test_a_broken_statistic_is_never_a_pass(
    tmp_path_factory: pytest.TempPathFactory, place: tuple[str, str, int], name: str, value: Any
) -> None:
    folder = tmp_path_factory.mktemp("statistic")
    data = copy.deepcopy(DATA)
    entry, section, at = place
    data[entry][section][at][name] = value
    target, golden = write(folder / "t", data), write(folder / "g", DATA)
    for left, right in ((target, golden), (golden, target)):
        result = compare(left, right)
        row = next(row for row in result.rows() if row.target.startswith(entry) and section[:5] in row.target)
        assert row.level != "pass" or result.verdict != "same"


def edits(text: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "dump.json").write_text(text) and None


def stacks(value: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "stack.json").write_text(f'{{"0": {value}}}') and None


CASES = {
    "empty-file": edits(""),
    "a-list": edits("[]"),
    "no-task": edits('{"data": {}}'),
    "data-is-a-list": edits('{"task": "statistics", "data": []}'),
    "an-entry-is-a-number": edits('{"task": "statistics", "data": {"Functional.relu.0.forward": 3}}'),
    "binary": lambda folder: (folder / "dump.json").write_bytes(b"\x80\x02}q\x00.") and None,
    "not-utf-8": lambda folder: (folder / "dump.json").write_bytes(b'{"task": "\xff"}') and None,
    "deep": edits('{"task": "statistics", "data": {"a": ' + '{"input_args": [' * 50_000 + "]}" * 50_000 + "}}"),
    "a-folder": lambda folder: (folder / "dump.json").unlink() or (folder / "dump.json").mkdir(),
    "unreadable-stack": stacks("3"),
    "stack-without-frames": stacks('[["a"], 3]'),
    "stack-of-other-frames": stacks('[["a"], [3]]'),
    "stack-of-no-names": stacks('["a", ["File a.py, line 1, in f"]]'),
    "old-stack-of-other-frames": stacks('["File a.py, line 1, in f", null]'),
}


@pytest.mark.parametrize("name", CASES)
def test_one_line_and_status_2(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target, golden = written(tmp_path / "t", "statistics"), written(tmp_path / "g", "statistics")
    CASES[name](target)
    for left, right in ((target, golden), (golden, target)):
        status = msprobe(["compare", "-tp", str(left), "-gp", str(right), "-o", str(tmp_path / "o")])
        lines = capsys.readouterr().err.strip().splitlines()
        assert (status, len(lines)) == (2, 1) and str(target.parent) in lines[0]


def test_a_cyclic_construct(tmp_path: Path) -> None:
    cycle = {RELU: LINEAR, LINEAR: RELU, "Module.fc.Linear.backward.0": "Module.fc.Linear.backward.0"}
    data = copy.deepcopy(DATA)
    data[RELU]["output"][0] = tensor(3.0)
    target, golden = write(tmp_path / "t", data, cycle), write(tmp_path / "g", DATA, cycle)
    found = compare(target, golden).summary.first_divergence
    assert found is not None and found.target == RELU


def test_nan_in_json_is_a_value(tmp_path: Path) -> None:
    data = copy.deepcopy(DATA)
    data[RELU]["output"][0]["Max"] = float("nan")
    target, golden = write(tmp_path / "t", data), write(tmp_path / "g", DATA)
    found = compare(target, golden).summary.first_divergence
    assert found is not None and found.kind == "non_finite"


def test_names_with_separators_stay_in_the_table(tmp_path: Path) -> None:
    name = 'Functional.a/b\\c,"d"\n;=e.0.forward'
    target = write(tmp_path / "t", {name: call([], [tensor()])})
    result = compare(target, target, output=tmp_path / "o")
    assert [row.target for row in result.rows()] == [name + ".output.0"]
    assert [path.parent for path in (tmp_path / "o").iterdir()] == [tmp_path / "o"]


def test_a_file_name_that_leaves_the_folder_is_refused(tmp_path: Path) -> None:
    data = {RELU: call([tensor(data_name="../../secret.pt")], [tensor(data_name="a.pt")])}
    target = write(tmp_path / "t", data, task="tensor")
    result = compare(target, target)
    messages = ["; ".join(row.messages) for row in result.rows()]
    assert result.verdict == "not_comparable" and "does not name a file" in messages[0] and "missing" in messages[1]


@pytest.mark.parametrize("executor", ["serial", "processes:2"])
def test_a_damaged_rank_among_others_is_named_and_no_pass(tmp_path: Path, executor: str) -> None:
    for rank in range(3):
        for side in "tg":
            written(tmp_path / f"{side}/step0/rank{rank}", "statistics")
    (tmp_path / "t/step0/rank1/dump.json").write_text('{"task": "statistics", "data": {')
    result = compare(tmp_path / "t", tmp_path / "g", output=tmp_path / "o", executor=executor)
    assert result.verdict == "not_comparable" and len(result.summary.results) == 2
    assert "1 of 3 pairs" in result.summary.reason and "rank1" in result.summary.reason
    write(tmp_path / "t/step0/rank2", OTHER, CONSTRUCT)
    result = compare(tmp_path / "t", tmp_path / "g", executor=executor)
    assert result.verdict == "diverged" and "rank1" in result.summary.reason


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
@pytest.mark.parametrize("both", [False, True])
def test_a_truth_value_is_a_statistic_of_booleans_alone(tmp_path: Path, dtype: str, both: bool) -> None:
    """Also where the right number is 1, which is equal to it."""
    names = "Functional.relu.0.forward", "Functional.gelu.0.forward"
    given = [{name: call([tensor()], [tensor(dtype=dtype, Max=one)]) for name in names} for one in (True, 1.0)]
    left, right = write(tmp_path / "t", given[0]), write(tmp_path / "g", given[not both])
    summary = compare(left, right).summary
    assert (summary.verdict == "same") == (dtype == "bool")
    if dtype != "bool":
        assert "2 tensors are damaged in a record and not compared" in summary.reason


def test_damage_outside_of_the_records_of_calls_is_no_pass(tmp_path: Path) -> None:
    folder = write(tmp_path / "t", {"Functional.relu.0.forward": call([tensor()], [tensor()])})
    document = json.loads((folder / "dump.json").read_text())
    gradient = {"name": "weight", "value": tensor(Max=[1.0])}
    document["training_calls"] = [{"call": "optimizer_step", "after": 1, "gradients": [gradient]}]
    (folder / "dump.json").write_text(json.dumps(document))
    summary = compare(folder, folder).summary
    assert summary.verdict == "incomplete"
    place = "training_calls[0]['gradients'][0]['value']['Max']"
    assert summary.notes == [
        f"1 dump is damaged outside of the records of calls (first: {folder / 'dump.json'}: {place}: "
        "a list and no number)"
    ]
