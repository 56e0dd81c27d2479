"""The layer map of models that were written differently and hold the same weights, recorded for real."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from msprobe.compare.alignment.layer_map import LayerMap
from msprobe.compare.layer_inference.infer import infer_layer_map
from tests.compare.layer_inference.conftest import Record
from tests.compare.layer_inference.transformers import (
    LAYERS,
    Gpt,
    SelfAttention,
    Transformer,
    Wrapper,
    copy_weights,
    gpt_path,
)

pytestmark = [pytest.mark.torch, pytest.mark.slow]


def _found(layer_map: LayerMap) -> dict[str, str]:
    return {pair.golden: pair.target for pair in layer_map.pairs}


def _called(model: nn.Module) -> set[str]:
    silent = (nn.ModuleList,)
    return {path for path, module in model.named_modules() if path and not isinstance(module, silent)}


def test_a_model_is_itself(record: Record) -> None:
    model = Transformer()
    dump = record(model, "golden")
    found = infer_layer_map(dump, dump)
    assert _found(found) == {path: path for path in _called(model)}
    assert {pair.confidence for pair in found.pairs} == {1.0}
    assert not found.fused and not found.target_only and not found.golden_only


@pytest.mark.parametrize("same_weights", [True, False], ids=["same_weights", "other_weights"])
def test_other_names_order_and_nesting(record: Record, same_weights: bool) -> None:
    model, gpt = Transformer(), Gpt()
    if same_weights:
        copy_weights(model, gpt)
    found = infer_layer_map(record(gpt, "target"), record(model, "golden"))
    wanted = {path: gpt_path(path) for path in _called(model)}
    wrong = {golden: target for golden, target in _found(found).items() if wanted[golden] != target}
    assert {pair.golden for pair in found.pairs} == wanted.keys()
    assert not wrong or (not same_weights and all(".attn." in golden for golden in wrong))
    for golden, target in wrong.items():
        assert found.by_target[target].confidence < 0.75, golden


def test_a_wrapper_is_transparent(record: Record) -> None:
    model = Transformer()
    golden = record(model, "golden")
    found = infer_layer_map(record(Wrapper(Wrapper(model)), "target"), golden)
    assert _found(found) == {path: f"module.module.{path}" for path in _called(model)}
    assert found.target_only == ("module", "module.module")
    back = infer_layer_map(golden, record(Wrapper(Wrapper(model)), "again"))
    assert {pair.target: pair.golden for pair in back.pairs} == _found(found)


def test_a_container_in_between_is_transparent(record: Record) -> None:
    flat = nn.Sequential(
        nn.Embedding(23, 16), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 23)
    )
    nested = nn.Sequential(flat[0], nn.Sequential(flat[1], flat[2], flat[3]), flat[4], flat[5])
    found = infer_layer_map(record(nested, "target"), record(flat, "golden"))
    assert _found(found) == {"0": "0", "1": "1.0", "2": "1.1", "3": "1.2", "4": "2", "5": "3"}
    assert found.target_only == ("1",)


@pytest.mark.matrix("wide", sample="each value")
@pytest.mark.parametrize("same_weights", [True, False], ids=["same_weights", "other_weights"])
@pytest.mark.parametrize("turned", [False, True], ids=["fused_target", "fused_golden"])
def test_fused_layers(record: Record, same_weights: bool, turned: bool) -> None:
    model, gpt = Transformer(), Gpt(SelfAttention)
    if same_weights:
        copy_weights(model, gpt)
    left, right = record(gpt, "target"), record(model, "golden")
    found = infer_layer_map(right, left) if turned else infer_layer_map(left, right)
    fused = {(pair.golden, pair.target) if turned else (pair.target, pair.golden) for pair in found.fused}
    parts = ("q_proj", "k_proj", "v_proj")
    assert fused == {
        ((f"h.{n}.self_attention.qkv",), tuple(f"layers.{n}.attn.{part}" for part in parts)) for n in range(LAYERS)
    }
    assert all((pair.confidence > 0.9) == same_weights for pair in found.fused)
    assert not found.target_only and not found.golden_only


def test_gate_and_up_around_an_activation(record: Record) -> None:
    golden, target = _Gated(), _FusedGated()
    with torch.no_grad():
        target.embed.weight.copy_(golden.embed.weight)
        target.gate_up.weight.copy_(torch.cat([golden.gate.weight, golden.up.weight]))
        target.down.weight.copy_(golden.down.weight)
    found = infer_layer_map(record(target, "target"), record(golden, "golden"))
    assert [(pair.target, pair.golden) for pair in found.fused] == [(("gate_up",), ("gate", "up"))]
    assert _found(found) == {"embed": "embed", "act": "act", "down": "down"}


def test_a_dropped_layer_shifts_nothing(record: Record) -> None:
    model = Transformer(4)
    golden = record(model, "golden")
    del model.layers[1]
    found = infer_layer_map(record(model, "target"), golden)
    layers = {golden: target for golden, target in _found(found).items() if golden.count(".") == 1}
    assert layers == {"layers.0": "layers.0", "layers.2": "layers.1", "layers.3": "layers.2"}
    assert {path for path in found.golden_only if path.count(".") == 1} == {"layers.1"}


def test_a_dropped_layer_of_unknown_weights_is_a_guess_and_says_so(record: Record) -> None:
    golden, target = _Bare(4), _Bare(3)
    found = infer_layer_map(record(target, "target"), record(golden, "golden"))
    doubtful = {pair.target for pair in found.doubtful}
    assert {pair.target for pair in found.pairs if pair.target.startswith("steps.")} <= doubtful
    assert any("guess" in words for pair in found.doubtful for words in pair.evidence)


def test_a_fault_does_not_lose_its_layer(record: Record) -> None:
    model, gpt = Transformer(), Gpt()
    copy_weights(model, gpt)
    with torch.no_grad():
        gpt.h[1].feed_forward[0].weight[3] *= 1.7
    found = infer_layer_map(record(gpt, "target"), record(model, "golden"))
    assert _found(found) == {path: gpt_path(path) for path in _called(model)}
    faulty = found.by_target["h.1.feed_forward.0"]
    assert any(words.startswith("weights ") and "apart by" in words for words in faulty.evidence)


class _Gated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(23, 16)
        self.gate = nn.Linear(16, 32, bias=False)
        self.act = nn.SiLU()
        self.up = nn.Linear(16, 32, bias=False)
        self.down = nn.Linear(32, 23, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        return self.down(self.act(self.gate(x)) * self.up(x))


class _FusedGated(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(23, 16)
        self.gate_up = nn.Linear(16, 64, bias=False)
        self.act = nn.SiLU()
        self.down = nn.Linear(32, 23, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_up(self.embed(x)).chunk(2, -1)
        return self.down(self.act(gate) * up)


class _Bare(nn.Module):
    """Layers that look the same, each under a name that says nothing."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(23, 16)
        self.steps = nn.ModuleDict({
            f"{'abcd'[n] if count == 4 else 'wxyz'[n]}": nn.Linear(16, 16) for n in range(count)
        })
        self.head = nn.Linear(16, 23)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        for step in self.steps.values():
            x = step(x)
        return self.head(x)
