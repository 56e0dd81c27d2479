"""Compare without a mapping file: models written differently agree, and a fault is named where it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import nn

import msprobe
from tests.compare.layer_inference.conftest import Record
from tests.compare.layer_inference.transformers import Gpt, SelfAttention, Transformer, Wrapper, copy_weights

pytestmark = [pytest.mark.torch, pytest.mark.slow]


@pytest.fixture
def compared(record: Record, tmp_path: Path) -> Callable[..., Any]:
    """``compared(target, golden)``: both models recorded and compared by inference, with files in ``tmp_path/out``."""

    def compare(target: nn.Module, golden: nn.Module) -> Any:
        record(target, "target")
        record(golden, "golden")
        options: dict[str, Any] = {"layer_mapping": True, "output": tmp_path / "out"}
        return msprobe.compare(tmp_path / "target", tmp_path / "golden", **options)

    return compare


def _fresh(model: nn.Module) -> nn.Module:
    """The model without gradients of a run before."""
    model.zero_grad(set_to_none=True)
    return model


def _gpt(model: nn.Module, **options: Any) -> Gpt:
    gpt = Gpt(**options)
    copy_weights(model, gpt)
    return gpt


VARIANTS = {
    "renamed": lambda model: _gpt(model),
    "wrapped": lambda model: Wrapper(_gpt(model)),
    "fused": lambda model: _gpt(model, attention=SelfAttention),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_other_code_with_the_same_weights_agrees(compared: Callable[..., Any], variant: str) -> None:
    model = Transformer()
    result = compared(VARIANTS[variant](model), model)
    assert result.verdict == "same", result.summary
    assert result.summary.counts.pairs > 150


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_fault_is_named(compared: Callable[..., Any], variant: str) -> None:
    model = Transformer()
    target = VARIANTS[variant](model)
    with torch.no_grad():
        for name, parameter in target.named_parameters():
            if name.endswith("h.1.feed_forward.2.weight"):
                parameter[5] *= 1.5
    found = compared(target, model).summary.first_divergence
    assert found is not None
    assert found.module.removeprefix("module.") == "h.1.feed_forward.2.Linear"
    assert found.golden == "Module.layers.1.mlp.down.Linear.forward.0"


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("turned", [False, True], ids=["fused_target", "fused_golden"])
@pytest.mark.parametrize("place", ["weight", "gradient"])
def test_a_fault_inside_a_fused_layer_is_named(compared: Callable[..., Any], place: str, turned: bool) -> None:
    model = Transformer()
    fused = _gpt(model, attention=SelfAttention)
    weight = fused.h[1].self_attention.qkv.weight
    if place == "weight":
        with torch.no_grad():
            weight[3] *= 3
    else:
        weight.register_hook(lambda gradient: gradient * 2)
    found = compared(*((model, fused) if turned else (fused, model))).summary.first_divergence
    assert found is not None and found.kind == "value"
    phase = "forward" if place == "weight" else "parameters_grad"
    sides = (found.golden, found.target) if turned else (found.target, found.golden)
    assert sides == (f"Module.h.1.self_attention.qkv.Linear.{phase}.0", f"Module.layers.1.attn.q_proj.Linear.{phase}.0")
    assert found.slot.endswith(".weight")


def test_the_written_map_leads_to_the_same_answer(compared: Callable[..., Any], tmp_path: Path) -> None:
    model = Transformer()
    inferred = compared(_gpt(model), model)
    (file,) = (tmp_path / "out").glob("layer_mapping_*.yaml")
    sections = yaml.safe_load(file.read_text())
    assert sections["TopLayer"] == {"wte": "embed", "h": "layers", "ln_f": "norm", "lm_head": "head"}
    again = msprobe.compare(tmp_path / "target", tmp_path / "golden", layer_mapping=file)
    modules = [row.golden for row in again.rows() if row.target.startswith("Module.") and row.golden != "N/A"]
    assert modules == [
        row.golden for row in inferred.rows() if row.target.startswith("Module.") and row.golden != "N/A"
    ]
    assert again.verdict == inferred.verdict == "same"


@pytest.mark.parametrize("turned", [False, True], ids=["fused_target", "fused_golden"])
def test_the_written_map_says_what_is_fused(compared: Callable[..., Any], tmp_path: Path, turned: bool) -> None:
    model = Transformer()
    fused = _gpt(model, attention=SelfAttention)
    assert compared(*((model, fused) if turned else (fused, model))).verdict == "same"
    (file,) = (tmp_path / "out").glob("layer_mapping_*.yaml")
    sections = yaml.safe_load(file.read_text())
    again = msprobe.compare(tmp_path / "target", tmp_path / "golden", layer_mapping=sections)
    assert again.verdict == "same", again.summary
    without = {
        name: {left: right for left, right in rules.items() if " + " not in left + right}
        for name, rules in sections.items()
    }
    apart = msprobe.compare(tmp_path / "target", tmp_path / "golden", layer_mapping=without)
    assert apart.verdict == "same", apart.summary  # what leaves the step agrees
    assert apart.summary.counts.pairs < again.summary.counts.pairs


def test_the_summary_tells_what_was_paired(compared: Callable[..., Any]) -> None:
    model = Transformer()
    told = compared(Wrapper(_gpt(model, attention=SelfAttention)), model).summary.reason
    assert "layers were paired by inference: 30 pairs, 3 fused, 1 only in the target" in told


def test_a_dropped_layer_leaves_the_rest_comparable(compared: Callable[..., Any]) -> None:
    model = Transformer(4)
    target = Transformer(4)
    target.load_state_dict(model.state_dict())
    del target.layers[2]
    result = compared(target, model)
    rows = {row.target: row for row in result.rows() if ".forward.0.output.0" in row.target}
    assert rows["Module.layers.1.Block.forward.0.output.0"].level == "pass"
    last = rows["Module.layers.2.Block.forward.0.output.0"]
    assert last.golden == "Module.layers.3.Block.forward.0.output.0"
    assert result.verdict == "diverged"


def test_values_of_one_side_only_are_no_pass(compared: Callable[..., Any]) -> None:
    model = Transformer()
    lone = [row for row in compared(Wrapper(_gpt(model)), model).rows() if row.golden == "N/A"]
    assert lone and {row.level for row in lone} == {"warning"}
