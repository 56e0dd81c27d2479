"""Entries of a mapping that name nothing: told with file, name and the nearest name, and an error where none fits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from msprobe.analyze.diff_analyze import diff_analyze
from msprobe.compare.alignment.check_mappings import read_mapping_options
from msprobe.core.errors import ReadError
from msprobe.jobs.compare import compare
from msprobe.visualize.job import Request, visualize
from tests.compare.dumps import call, module, tensor, write

DATA = {
    "Module.net.encoder.Encoder.forward.0": module([tensor()], [tensor()]),
    "Module.net.encoder.proj.Linear.forward.0": module([tensor()], [tensor()], weight=tensor()),
    "Torch.sigmoid.0.forward": call([tensor()], [tensor()]),
}
RIGHT: dict[str, Any] = {
    "layer_mapping": {"TopLayer": {"net": "net"}, "Encoder": {"proj": "proj"}},
    "cell_mapping": {"net.encoder.proj.Linear": "net.encoder.proj.Linear", "Encoder": "Encoder"},
    "data_mapping": {"Torch.sigmoid.0.forward.input.0": "Torch.sigmoid.0.forward.input.0"},
    "api_mapping": [{"ms_api": "Torch.sigmoid", "pt_api": "Torch.sigmoid"}],
}
WRONG: dict[str, tuple[Any, str]] = {
    "layer_mapping": ({"Encoder": {"prj": "proj"}}, "'Encoder.prj': the target has no 'prj', the nearest is 'proj'"),
    "layer_mapping class": (
        {"Encodr": {"proj": "proj"}},
        "'Encodr.proj': the target has no 'Encodr', the nearest is 'Encoder'",
    ),
    "layer_mapping golden": (
        {"Encoder": {"proj": "projj"}},
        "'Encoder.proj': the golden run has no 'projj', the nearest is 'proj'",
    ),
    "layer_mapping fused": ({"Encoder": {"proj": "proj + up"}}, "'Encoder.proj': the golden run has no 'up'"),
    "cell_mapping": (
        {"net.encoder.prj.Linear": "net.encoder.proj.Linear"},
        "the target has no 'net.encoder.prj.Linear', the nearest is 'net.encoder.proj.Linear'",
    ),
    "cell_mapping part": ({"Encoder": "Enkoder"}, "'Encoder': the golden run has no 'Enkoder'"),
    "data_mapping": (
        {"Torch.sigmoid.0.forward.input.1": "N/A"},
        "the target has no 'Torch.sigmoid.0.forward.input.1', the nearest is 'Torch.sigmoid.0.forward.input.0'",
    ),
    "api_mapping": (
        [{"ms_api": "Torch.sigmoidd", "pt_api": "Torch.sigmoid"}],
        "the target has no 'Torch.sigmoidd', the nearest is 'Torch.sigmoid'",
    ),
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write(tmp_path / "run", DATA)


def both(right: Any, wrong: Any) -> Any:
    return [*right, *wrong] if isinstance(right, list) else {**right, **wrong}


@pytest.mark.parametrize("case", list(RIGHT))
def test_a_mapping_that_fits_is_no_news(case: str, run: Path) -> None:
    result = compare(run, run, **{case: RIGHT[case]})
    assert (result.verdict, result.summary.reason) == ("same", "")


@pytest.mark.parametrize("case", list(WRONG))
def test_a_name_that_nothing_has_is_told_with_its_file(case: str, run: Path, tmp_path: Path) -> None:
    keyword, (wrong, message) = case.partition(" ")[0], WRONG[case]
    right: Any = {"layer_mapping": {"TopLayer": {"net": "net"}}, "cell_mapping": {"proj": "proj"}}
    path = tmp_path / "names.yaml"
    path.write_text(yaml.safe_dump(both(right.get(keyword, RIGHT[keyword]), wrong)))
    reason = compare(run, run, **{keyword: path}).summary.reason
    assert f"{path}: 1 of its 2 entries fit nothing in the dumps: " in reason
    assert message in reason


@pytest.mark.parametrize("case", list(WRONG))
def test_a_mapping_of_which_nothing_fits_is_an_error_and_leaves_nothing(case: str, run: Path, tmp_path: Path) -> None:
    keyword, (wrong, message) = case.partition(" ")[0], WRONG[case]
    with pytest.raises(ReadError, match="none of its 1 entries fits the dumps, so it is not applied: ") as error:
        compare(run, run, output=tmp_path / "out", **{keyword: wrong})
    assert message in str(error.value) and not (tmp_path / "out").exists()


def test_one_file_serves_many_ranks(tmp_path: Path) -> None:
    """Each rank holds one stage; an entry that fits one of them fits."""
    stages = {
        rank: {f"Module.net.{name}.Linear.forward.0": module([tensor()], [tensor()], weight=tensor())}
        for rank, name in ((0, "first"), (1, "second"))
    }
    for rank, data in stages.items():
        write(tmp_path / "run" / "step0" / f"rank{rank}", data)
    run = tmp_path / "run"
    fits = {"TopLayer": {"net.first": "net.first", "net.second": "net.second"}}
    assert compare(run, run, layer_mapping=fits).summary.reason == ""
    fits["TopLayer"]["net.third"] = "net.third"
    told = "1 of its 3 entries fit nothing in the dumps: 'TopLayer.net.third'"
    for executor in ("serial", "processes:2"):
        assert told in compare(run, run, layer_mapping=fits, executor=executor).summary.reason
    nothing: Any = {"TopLayer": {"net.third": "net.third"}}
    with pytest.raises(ReadError, match="none of its 1 entries fits"):
        compare(run, run, layer_mapping=nothing, output=tmp_path / "tables")
    assert list((tmp_path / "tables").iterdir()) == []
    with pytest.raises(ReadError, match="none of its 1 entries fits"):
        diff_analyze(run, run, tmp_path / "calls", mapping=read_mapping_options({"layer_mapping": nothing}))
    assert not (tmp_path / "calls").exists()


def test_an_inferred_map_may_say_that_a_layer_has_no_partner(run: Path) -> None:
    mapping = {"TopLayer": {"net": "net"}, "Encoder": {"proj": "only_in_the_target"}}
    assert "fit nothing" not in compare(run, run, layer_mapping=mapping).summary.reason


def test_the_pytorch_side_of_an_api_mapping_may_be_the_target(run: Path, tmp_path: Path) -> None:
    data = {"Mint.sigmoid.0.forward": call([tensor()], [tensor()])}
    golden = write(tmp_path / "golden", data)
    document = json.loads((golden / "dump.json").read_text())
    (golden / "dump.json").write_text(json.dumps({**document, "framework": "mindspore"}))
    given = [{"ms_api": "Mint.sigmoid", "pt_api": "Torch.sigmoid"}]
    assert "fit" not in compare(run, golden, api_mapping=given).summary.reason


def test_the_other_tools_tell_it_too(run: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    options = read_mapping_options({"cell_mapping": {"Encoder": "Encoder", "Linaer": "Linear"}})
    visualize(Request(target=run, golden=run, output=tmp_path / "graph", mapping=options))
    diff_analyze(run, run, tmp_path / "calls", mapping=options)
    told = [record.getMessage() for record in caplog.records if "fit nothing" in record.getMessage()]
    assert len(told) == 2 and all("'Linaer': the target has no 'Linaer'" in line for line in told)
    lost = read_mapping_options({"cell_mapping": {"Linaer": "Linear"}})
    with pytest.raises(ReadError, match="none of its 1 entries fits"):
        visualize(Request(target=run, golden=run, output=tmp_path / "none", mapping=lost))
    assert list((tmp_path / "none").iterdir()) == []
