"""Modules of a layout are fed what one process was given: a right run is the same, and every wrong module is named."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

import msprobe
from msprobe.compare.rows.summary import CompareSummary
from msprobe.jobs.split_inputs import write_split_inputs
from tests.layout_bed.judge import sizes
from tests.layout_bed.runs import DUMP
from tests.layouts.layouts import LAYOUTS, Layout
from tests.matrices import matrix_params
from tests.ranks import run_ranks

pytestmark = [pytest.mark.torch, pytest.mark.slow]

LAYER = "decoder.layers.{}.{}"
ATTENTION = {LAYER.format(number, "self_attention.core_attention") for number in range(4)}
"""The modules that the fault ``scale`` is in."""
MLPS = {LAYER.format(number, "mlp") for number in range(4)}
"""The modules that the fault ``activation`` is in: between its linear layers, so no module of its own."""
ROWS = {LAYER.format(number, name) for number in range(4) for name in ("self_attention.linear_proj", "mlp.linear_fc2")}
"""The row-parallel layers."""
EMBEDDING = {"embedding"}
FAULTS = {
    "tp2": {"scale+row-not-reduced": ATTENTION | ROWS, "embedding-mask+activation": EMBEDDING | MLPS},
    "tp2_sp": {"scale+bias-on-each-rank": ATTENTION | ROWS},
    "pp2": {"scale+activation": ATTENTION | MLPS},
    "dp2": {"scale": ATTENTION},
    "cp2": {"scale+activation": ATTENTION | MLPS},
    "cp2_zigzag": {},
    "tp2_pp2": {"scale+row-not-reduced": ATTENTION | ROWS},
    "tp2_dp2": {"scale": ATTENTION},
    "tp2_sp_cp2": {},
    "pp2_vpp2": {"scale": ATTENTION},
    "tp2_sp_pp2_vpp2": {},
    "dp2_fsdp2": {"scale": ATTENTION},
    "ep2_tp2_sp": {},
    "tp2_bf16": {},
}
"""By layout the faults that are planted together, and the modules that have to be named: these and no others."""


def record(layout: Layout, task: str, *runs: str, store: Path) -> None:
    run_ranks(
        "tests.layouts.fed_job",
        layout.size,
        lambda rank: [rank, store, layout.name, task, *runs],
        MSPROBE_LOG_LEVEL="4",
    )


def compared(folder: Path, run: str, layout: Layout) -> CompareSummary:
    parallel = sizes(layout)
    return msprobe.compare(
        folder / run / DUMP, folder / "golden" / DUMP, target_parallel=parallel, executor="serial"
    ).summary


@pytest.mark.parametrize("name", matrix_params("layouts", list(FAULTS), {"tp2"}))
def test_every_wrong_module_is_named_and_none_beside_them(name: str, tmp_path: Path) -> None:
    layout = LAYOUTS[name]
    record(LAYOUTS[layout.single], "tensor", f"{tmp_path}/golden=", store=tmp_path / "one")
    first = next(iter(FAULTS[name]), "")
    record(layout, "statistics", f"{tmp_path}/before={first}", store=tmp_path / "before-store")  # a wrong run will do
    dumps = (tmp_path / run / DUMP for run in ("before", "golden"))
    written = write_split_inputs(*dumps, tmp_path / "inputs", sizes(layout))
    assert written.plans == 2 * layout.size
    record(layout, "statistics", f"{tmp_path}/right=", *(f"{tmp_path}/{one}={one}" for one in FAULTS[name]),
           store=tmp_path / "fed")  # fmt: skip
    right = compared(tmp_path, "right", layout)
    assert (right.verdict, right.wrong_modules) == ("same", [])
    for fault, modules in FAULTS[name].items():
        wrong = compared(tmp_path, fault, layout)
        assert wrong.verdict == "diverged"
        assert {(one.module or "").rpartition(".")[0] for one in wrong.wrong_modules} == modules, fault
        assert {one.step for one in wrong.wrong_modules} == {0}
