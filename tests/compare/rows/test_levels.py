"""Counts, tables, graphs and the first divergence agree about the level of every row, whatever excuses it."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe.analyze.diff_analyze import entry_records
from msprobe.analyze.first_divergence import first_divergence
from msprobe.compare.alignment.options import MappingOptions
from msprobe.compare.comparison import Comparison, compare_dumps, counts, level_names_of
from msprobe.compare.inputs.mode import Policy
from msprobe.core.store.reader import Dump, find_dumps, load_dump
from msprobe.numerics.verdict import Level
from msprobe.visualize.values.row_verdicts import row_verdicts
from tests.compare.dumps import call, gradient, module, tensor, write

LAYER = {"Module.fc.Linear.forward.0": module([tensor()], [tensor()], weight=tensor())}
RELU = {"Functional.relu.0.forward": call([tensor()], [tensor()])}
ADD = {"Tensor.add.0.forward": call([tensor(), tensor(2.0)], [tensor(3.0)])}
TURNED_ADD = {"Tensor.add.0.forward": call([tensor(2.0), tensor()], [tensor(3.0)])}
BLOCK = "Module.block.b.Linear"
REPEATED = {
    f"{BLOCK}.forward.0": call([tensor()], [tensor()]),
    f"{BLOCK}.backward.0": gradient([tensor()], [tensor()]),
}
FUSED = {"Module.qkv.L.forward.0": module([tensor()], [], weight=tensor(shape=(4, 4), Max=2.0, Min=-2.0, Norm=5.0))}
PARTS = {
    f"Module.{part}.L.forward.0": module([tensor()], [], weight=tensor(shape=(2, 4), Max=2.0, Min=-2.0, Norm=norm))
    for part, norm in (("q", 3.0), ("k", 4.0))
}
LAYERS = {"layer_mapping": {"TopLayer": {}}}


def _again(scale: float) -> dict[str, Any]:
    return {f"{BLOCK}.forward.1": {**call([tensor()], [tensor(scale)]), "is_recompute": True}}


def _empty(scale: float) -> dict[str, Any]:
    return {"Torch.empty.0.forward": call([], [tensor(scale)]), **RELU}


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "uninitialised": (_empty(1.0), _empty(7.0), {}),
    "recomputed": (REPEATED | _again(1.0), REPEATED, {}),
    "recomputed-with-other-values": (REPEATED | _again(2.0), REPEATED, {}),
    "recomputed-without-original": (LAYER | _again(1.0), LAYER, {}),
    "dump-levels": (LAYER, LAYER | RELU, {"levels": ("L0", "mix")}),
    "other-code": (LAYER | RELU, LAYER, LAYERS),
    "lost-layer": (LAYER, LAYER | {"Module.gate.Linear.forward.0": module([tensor()], [tensor(2.0)])}, LAYERS),
    "idle-layer": (LAYER, LAYER | {"Module.gate.Linear.forward.0": LAYER["Module.fc.Linear.forward.0"]}, LAYERS),
    "missing-direction": (LAYER, LAYER | {"Module.fc.Linear.backward.0": gradient([tensor()], [tensor()])}, LAYERS),
    "commuted-operands": (ADD, TURNED_ADD, LAYERS),
    "fused-layers": (FUSED | LAYER, PARTS | LAYER, {"layer_mapping": {"TopLayer": {"qkv": "q + k"}}}),
    "cut-off": (LAYER, LAYER | RELU, {"died": True}),
    "missing-call": (LAYER, LAYER | RELU, {}),
    "missing-module": (LAYER, LAYER | {"Module.gate.Linear.forward.0": module([tensor(3.0)], [tensor(4.0)])}, {}),
    "another-value": (LAYER | RELU, LAYER | {"Functional.relu.0.forward": call([tensor()], [tensor(2.0)])}, {}),
}
DIVERGED = {"recomputed-with-other-values", "lost-layer", "missing-direction", "missing-module", "another-value"}
RECORDED_ALIKE = {"recomputed", "cut-off", "commuted-operands", "fused-layers"}


def _load(folder: Path, data: dict[str, Any], level: str) -> Dump:
    write(folder, data)
    document = json.loads((folder / "dump.json").read_text())
    (folder / "dump.json").write_text(json.dumps({**document, "level": level}))
    return load_dump(find_dumps(folder)[0])


def _compared(folder: Path, case: str, policy: Policy, *, turned: bool) -> Comparison:
    ours, theirs, how = CASES[case]
    first, second = how.get("levels", ("mix", "mix"))
    target, golden = _load(folder / "t", ours, first), _load(folder / "g", theirs, second)
    target = dataclasses.replace(target, recovered=how.get("died", False))
    sides = (golden, target) if turned else (target, golden)
    mapping = MappingOptions()
    if "layer_mapping" in how:
        top = how["layer_mapping"]["TopLayer"]
        named = {"TopLayer": {other: own for own, other in top.items()} if turned else top}
        mapping = MappingOptions(layer_mapping=named)
    return compare_dumps(*sides, policy, mapping=mapping)


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("turned", [False, True], ids=["as-written", "sides-exchanged"])
@pytest.mark.parametrize("policy", list(Policy), ids=str)
@pytest.mark.parametrize("case", CASES)
def test_all_readers_agree_about_the_level_of_every_row(
    tmp_path: Path, case: str, policy: Policy, turned: bool
) -> None:
    comparison = _compared(tmp_path, case, policy, turned=turned)
    in_table = [row.level for row in comparison.rows()]
    assert level_names_of(comparison) == in_table
    assert [Level(level).name.lower() for level in row_verdicts(comparison).levels] == in_table
    paired = Counter(np.array(in_table)[comparison.table.lone == 0].tolist())
    counted = counts(comparison, in_table)
    assert (counted.passed, counted.warning, counted.error) == tuple(
        paired[name] for name in ("pass", "warning", "error")
    )
    messages = row_verdicts(comparison).messages
    assert all(
        list(messages(at)[:1]) == list(row.messages[:1]) for at, row in enumerate(comparison.rows()) if row.messages
    )


@pytest.mark.parametrize("turned", [False, True], ids=["as-written", "sides-exchanged"])
@pytest.mark.parametrize("case", CASES)
def test_the_first_divergence_is_what_no_excuse_covers(tmp_path: Path, case: str, turned: bool) -> None:
    comparison = _compared(tmp_path, case, Policy.DEFAULT, turned=turned)
    found = first_divergence(comparison)
    assert (found is not None) == (case in DIVERGED)
    assert all(call["is_same"] for call in entry_records(comparison).values()) == (found is None)
    if found is None:
        assert "error" not in level_names_of(comparison)
        assert case == "uninitialised" or case in RECORDED_ALIKE or "warning" in level_names_of(comparison)
    else:
        start, stop = comparison.table.starts[found.entry : found.entry + 2].tolist()
        assert {"warning", "error"} & set(level_names_of(comparison)[start:stop])
        assert found.entry not in comparison.row_levels.overrides or comparison.table.changed
