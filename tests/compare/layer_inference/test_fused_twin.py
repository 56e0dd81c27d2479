"""Gated transformers of two frameworks, of which one has q, k, v and gate, up fused: compared without a mapping."""

from __future__ import annotations

from pathlib import Path

import pytest

import msprobe
from tests.compare.layer_inference.fused_sizes import PARTS
from tests.compare.layer_inference.twin_recordings import record_fused
from tests.recordings import Recordings

pytestmark = [pytest.mark.mindspore, pytest.mark.slow]
MADE = [(mindspore, pytorch) for mindspore in ("fused", "split") for pytorch in ("fused", "split")]
FAULTS = [
    ("layers.0.self_attn.qkv_proj", "split"),
    ("layers.1.mlp.gate_up_proj", "split"),
    ("layers.1.self_attn.o_proj", "split"),
    ("layers.0.self_attn.k_proj", "fused"),
    ("layers.1.mlp.up_proj", "fused"),
    ("lm_head", "fused"),
]


@pytest.fixture(scope="module")
def folder(recordings: Recordings) -> Path:
    return recordings(record_fused)


def _sides(folder: Path, mindspore: str, pytorch: str, turned: bool) -> tuple[Path, Path]:
    sides = folder / "mindspore" / mindspore, folder / "pytorch" / pytorch
    return sides[::-1] if turned else sides


@pytest.mark.parametrize("turned", [False, True], ids=["mindspore-first", "pytorch-first"])
@pytest.mark.parametrize(("mindspore", "pytorch"), MADE, ids="-".join)
def test_the_same_weights_are_the_same(folder: Path, mindspore: str, pytorch: str, turned: bool) -> None:
    summary = msprobe.compare(*_sides(folder, mindspore, pytorch, turned)).summary
    assert summary.verdict == "same" and not summary.incomplete, summary
    assert summary.counts.passed == summary.counts.pairs > 240


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("turned", [False, True], ids=["mindspore-first", "pytorch-first"])
@pytest.mark.parametrize(("fault", "pytorch"), FAULTS, ids=[fault for fault, _ in FAULTS])
def test_the_faulty_layer_is_named(folder: Path, fault: str, pytorch: str, turned: bool) -> None:
    found = msprobe.compare(*_sides(folder, fault, pytorch, turned)).summary.first_divergence
    assert found is not None and found.slot == "parameters.weight"
    last = fault.rpartition(".")[2]
    whole = next((whole for whole, parts in PARTS.items() if last in parts), last)
    known = {fault, fault.replace(last, whole)}
    named = f"{found.target} {found.golden} {found.reason}"
    assert any(f".{name}." in named for name in known), found
    assert last in found.reason or last in f"{found.target} {found.golden}"
