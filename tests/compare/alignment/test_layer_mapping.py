"""Layer mapping: classes rename their children, over several levels, for modules and functions."""

from __future__ import annotations

from typing import Any

import pytest

from msprobe.compare.alignment.layer_mapping import layer_mapping
from msprobe.compare.alignment.protocol import Side
from msprobe.compare.records.entries import entry_keys
from msprobe.core.errors import ReadError
from tests.compare.alignment.sides import dump, pairs

ROOT = "Module.net.Net.forward.0"


def model(*names: str, prefix: str = "Module", parents: dict[str, str] | None = None) -> Side:
    """Entries by path and class (``fc.Linear``) or as they are (``Torch.add.0.forward``)."""
    entries = [name if name.endswith("ward") else f"{prefix}.{name}.forward.0" for name in names]
    construct: dict[str, Any] = dict.fromkeys(entries) | (parents or {})
    made = dump({name: {} for name in entries}, construct)
    return Side(made, entry_keys(made.data, construct))


def test_children_are_renamed_by_class() -> None:
    target = model(
        "net.a.Block", "net.b.Block", "net.a.attn.Attention", "net.b.attn.Attention", "net.attn.X", prefix="Cell"
    )
    golden = model("net.a.B", "net.b.B", "net.a.self_attention.A", "net.b.self_attention.A", "net.attn.X")
    found = pairs(layer_mapping({"Block": {"attn": "self_attention"}}), target, golden)
    assert len(found) == 5
    assert ("Cell.net.a.attn.Attention.forward.0", "Module.net.a.self_attention.A.forward.0") in found
    assert ("Cell.net.attn.X.forward.0", "Module.net.attn.X.forward.0") in found


@pytest.mark.parametrize("top", ["TopLayer", "Cell"])
def test_the_top_has_a_section_with_two_names(top: str) -> None:
    found = pairs(
        layer_mapping({top: {"network": "module.module"}}), model("network.fc.A"), model("module.module.fc.B")
    )
    assert found == [("Module.network.fc.A.forward.0", "Module.module.module.fc.B.forward.0")]


def test_a_left_name_may_span_levels_and_the_longest_wins() -> None:
    rules = {"TopLayer": {"language_model": "lm", "language_model.encoder": "decoder"}}
    found = pairs(
        layer_mapping(rules),
        model("language_model.encoder.fc.A", "language_model.head.A"),
        model("decoder.fc.A", "lm.head.A"),
    )
    assert len(found) == 2


def test_text_after_a_bracket_is_a_note() -> None:
    assert len(pairs(layer_mapping({"TopLayer": {"a": "b (the same)"}}), model("a.A"), model("b.A"))) == 1


def test_fused_children_are_told_for_the_rows() -> None:
    target = model("net.a.Attention", "net.a.qkv.L", "net.a.out.L")
    golden = model("net.a.A", "net.a.q.L", "net.a.k.L", "net.a.qkv.L", "net.a.out.L")
    found = layer_mapping({"Attention": {"qkv": "q + k"}}).align(target, golden)
    assert found.pairs == [(0, 0), (2, 4)]
    assert found.fused == [(("net.a.qkv",), ("net.a.q", "net.a.k"))]
    back = layer_mapping({"A": {"q + k": "qkv"}}).align(golden, target)
    assert back.pairs == [(0, 0), (4, 2)] and back.fused == [(("net.a.q", "net.a.k"), ("net.a.qkv",))]


def test_several_layers_on_both_sides_are_refused() -> None:
    with pytest.raises(ReadError, match="several layers on both sides"):
        layer_mapping({"Attention": {"q + k": "a + b"}})


def test_functions_pair_inside_their_module() -> None:
    first, second = "Module.a.A.forward.0", "Module.b.A.forward.0"
    target = model("a.A", "b.A", "Mint.cos.0.forward", "Mint.cos.1.forward")
    golden = model("a.A", "b.A", "Torch.cos.0.forward", "Torch.cos.1.forward")
    target.dump.construct.update({"Mint.cos.0.forward": second, "Mint.cos.1.forward": first})
    golden.dump.construct.update({"Torch.cos.0.forward": first, "Torch.cos.1.forward": second})
    found = pairs(layer_mapping(True), target, golden)
    assert ("Mint.cos.0.forward", "Torch.cos.1.forward") in found
    assert ("Mint.cos.1.forward", "Torch.cos.0.forward") in found


def test_a_module_and_a_function_of_one_name_are_not_mixed_up() -> None:
    names = "relu.ReLU", "Torch.relu.0.forward"
    found = pairs(layer_mapping(True), model(*names), model(*reversed(names)))
    assert found == [(name, name) for name in ("Module.relu.ReLU.forward.0", "Torch.relu.0.forward")]


def test_the_layers_of_a_stage_count_from_zero() -> None:
    target = model("lm.encoder.ParallelTransformer", *(f"lm.encoder.layers.{n}.Layer" for n in (4, 5)))
    golden = model("lm.encoder.ParallelTransformer", *(f"lm.encoder.layers.{n}.Layer" for n in (0, 1)))
    found = pairs(layer_mapping(True), target, golden)
    assert ("Module.lm.encoder.layers.5.Layer.forward.0", "Module.lm.encoder.layers.1.Layer.forward.0") in found


def test_backward_has_the_place_of_its_forward() -> None:
    target = model(
        "a.A", "Mint.cos.0.forward", "Mint.cos.0.backward", parents={"Mint.cos.0.forward": "Module.a.A.forward.0"}
    )
    golden = model(
        "b.A", "Torch.cos.0.forward", "Torch.cos.0.backward", parents={"Torch.cos.0.forward": "Module.b.A.forward.0"}
    )
    found = pairs(layer_mapping({"TopLayer": {"a": "b"}}), target, golden)
    assert ("Mint.cos.0.backward", "Torch.cos.0.backward") in found
