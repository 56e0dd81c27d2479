"""Layers that have other names are paired by inference: with ``-lm`` without a file, and between two frameworks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from msprobe.cli.analysis.graph_visualize import command
from msprobe.visualize.job import Request, visualize
from tests import forked
from tests.compare.layer_inference.conftest import Record
from tests.compare.layer_inference.conftest import record as record  # the fixture
from tests.compare.layer_inference.transformers import Gpt, Transformer, copy_weights
from tests.compare.layer_inference.twin_names import twin_path
from tests.compare.layer_inference.twin_recordings import FAULT, record_twins
from tests.recordings import Recordings
from tests.visualize.databases import Tables, check, read

ROOT = Path(__file__).parents[3]


def run(module: str, *arguments: object) -> None:
    done = forked.run(["-m", module, *arguments], cwd=ROOT, timeout=240, preloaded=forked.MINDSPORE)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()


def draw(target: Path, golden: Path | None, output: Path) -> Tables:
    tables = read(visualize(Request(target=target, golden=golden, output=output)))
    check(tables)
    return tables


def partners(tables: Tables) -> dict[str, str]:
    """The golden partner of each node of the target that has one."""
    links = {name: json.loads(row["matched_node_link"]) for name, row in tables.side().items()}
    return {name: link[-1] for name, link in links.items() if link}


@pytest.mark.torch
@pytest.mark.parametrize("flag", [True, False], ids=["with-lm", "without"])
def test_renamed_layers_pair_with_lm_and_no_file(flag: bool, record: Record, tmp_path: Path) -> None:
    model = Transformer()
    gpt = Gpt()
    copy_weights(model, gpt)
    with torch.no_grad():
        gpt.get_submodule("h.1.feed_forward.2").weight[5] *= 1.5
    record(gpt, "target")
    record(model, "golden")
    words = ["-tp", tmp_path / "target", "-gp", tmp_path / "golden", "-o", tmp_path / "out", *(["-lm"] if flag else [])]
    done = CliRunner().invoke(command, list(map(str, words)), standalone_mode=False)
    assert done.exception is None
    (path,) = (tmp_path / "out").glob("compare_*.vis.db")
    tables = read(path)
    check(tables)
    found = partners(tables)
    pairs = {"Module.h.1.feed_forward.2.Linear.forward.0": "Module.layers.1.mlp.down.Linear.forward.0"}
    assert {name: found.get(name) for name in pairs} == (pairs if flag else dict.fromkeys(pairs))
    if flag:
        (first,) = tables.meta["first_divergence"]
        assert (first["node"], first["golden_node"]) == next(iter(pairs.items()))


@pytest.fixture(scope="module")
def twins(recordings: Recordings) -> Path:
    return recordings(record_twins)


@pytest.mark.mindspore
@pytest.mark.slow
@pytest.mark.parametrize("sides", [("faulty", "pytorch"), ("pytorch", "faulty")], ids="-".join)
def test_two_frameworks_pair_without_a_mapping(twins: Path, sides: tuple[str, str], tmp_path: Path) -> None:
    target, golden = sides
    tables = draw(twins / target, twins / golden, tmp_path)
    found = partners(tables)
    found = found if target == "faulty" else {theirs: ours for ours, theirs in found.items()}
    layers = {name: theirs for name, theirs in found.items() if name.startswith("Cell.") and ".forward." in name}
    assert len(layers) == 3 * 12 + 3
    paths = [(name.split(".", 1)[1], theirs.split(".", 1)[1]) for name, theirs in layers.items()]
    assert [theirs for _, theirs in paths if twin_path(_path(theirs)) not in {_path(name) for name, _ in paths}] == []
    (first,) = tables.meta["first_divergence"]
    names = {"faulty": f"Cell.{FAULT}.Dense.forward.0", "pytorch": "Module.layers.1.attn.k_proj.Linear.forward.0"}
    assert (first["node"], first["golden_node"]) == (names[target], names[golden])
    assert tables.verdicts()[names[target]] == "error"


def _path(name: str) -> str:
    """``layers.0.attn`` of ``layers.0.attn.SelfAttention.forward.0``."""
    return ".".join(name.split(".")[:-3])


@pytest.mark.mindspore
@pytest.mark.slow
def test_a_dump_of_msadapter(tmp_path: Path) -> None:
    run("tests.visualize.msadapter_run", tmp_path / "good")
    run("tests.visualize.msadapter_run", tmp_path / "bad", 1.5)
    side = draw(tmp_path / "bad", None, tmp_path / "out").side()
    assert side["Functional.linear.1.forward"]["up_node"] == "Module.down.Linear.forward.0"
    assert side["Module.down.Linear.forward.0"]["node_type"] == "0"
    tables = draw(tmp_path / "bad", tmp_path / "good", tmp_path / "out")
    (first,) = tables.meta["first_divergence"]
    assert (first["node"], first["slot"]) == ("Module.down.Linear.forward.0", "parameters.weight")
    assert tables.verdicts()["Module.act.SiLU.forward.0"] == "same"
    assert tables.verdicts()["Module.down.Linear.forward.0"] == "error"
