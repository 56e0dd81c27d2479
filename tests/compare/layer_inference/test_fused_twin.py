"""Gated transformers of two frameworks, of which one has q, k, v and gate, up fused: compared without a mapping."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import msprobe
from tests.compare.layer_inference.fused_sizes import PARTS

pytestmark = [pytest.mark.mindspore, pytest.mark.slow]
ROOT = Path(__file__).parents[3]
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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dumps below ``pytorch`` and ``mindspore``, each made by a process of its own."""
    root = tmp_path_factory.mktemp("fused")
    for framework in ("pytorch", "mindspore"):
        module = f"tests.compare.layer_inference.fused_{framework}"
        command = [sys.executable, "-m", module, str(root / "weights.npz"), str(root / framework)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr
    return root


def _sides(folder: Path, mindspore: str, pytorch: str, turned: bool) -> tuple[Path, Path]:
    sides = folder / "mindspore" / mindspore, folder / "pytorch" / pytorch
    return sides[::-1] if turned else sides


@pytest.mark.parametrize("turned", [False, True], ids=["mindspore-first", "pytorch-first"])
@pytest.mark.parametrize(("mindspore", "pytorch"), MADE, ids="-".join)
def test_the_same_weights_are_the_same(folder: Path, mindspore: str, pytorch: str, turned: bool) -> None:
    summary = msprobe.compare(*_sides(folder, mindspore, pytorch, turned)).summary
    assert summary.verdict == "same" and not summary.incomplete, summary
    assert summary.counts.passed == summary.counts.pairs > 240


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
