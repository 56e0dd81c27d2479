"""The inferred map as a file: short, readable YAML of the documented format, with confidence and evidence beside it."""

from __future__ import annotations

import yaml

from msprobe.compare.alignment.layer_map import FusedPair, LayerMap, LayerPair
from msprobe.compare.mapping_export import mapping_rules, mapping_text


def _pair(target: str, golden: str, cls: str = "Linear", confidence: float = 1.0) -> LayerPair:
    return LayerPair(target, golden, cls, cls, confidence, ("same class", "weights agree"))


def _blocks(count: int, inner: str = "ln_1") -> list[LayerPair]:
    found = []
    for n in range(count):
        found.append(_pair(f"h.{n}", f"layers.{n}", "Block"))
        found.append(_pair(f"h.{n}.norm", f"layers.{n}.{inner}", "LayerNorm", 0.9 - 0.1 * n))
    return found


def test_equal_layers_share_one_line() -> None:
    layer_map = LayerMap((_pair("wte", "embed", "Embedding"), *_blocks(3)))
    rules = {"TopLayer": {"wte": "embed", "h": "layers"}, "Block": {"norm": "ln_1"}}
    assert mapping_rules(layer_map) == rules
    assert yaml.safe_load(mapping_text(layer_map)) == rules


def test_each_line_says_how_sure_it_is_and_why() -> None:
    (line,) = [line for line in mapping_text(LayerMap(tuple(_blocks(3)))).splitlines() if "norm:" in line]
    assert "confidence 0.70, 3 layers, the least sure is h.2.norm: same class; weights agree" in line


def test_a_doubtful_line_is_marked() -> None:
    text = mapping_text(LayerMap((_pair("a", "b", confidence=0.4), _pair("c", "d"))))
    assert [line.partition(":")[0].strip() for line in text.splitlines() if "LOW" in line] == ["a"]


def test_layers_that_shift_keep_their_numbers() -> None:
    pairs = (_pair("h.0", "layers.0", "Block"), _pair("h.1", "layers.2", "Block"))
    assert mapping_rules(LayerMap(pairs)) == {"TopLayer": {"h.0": "layers.0", "h.1": "layers.2"}}


def test_contradicting_rules_of_one_class_move_up() -> None:
    pairs = (
        _pair("a", "a", "Block"),
        _pair("a.norm", "a.first"),
        _pair("b", "b", "Block"),
        _pair("b.norm", "b.second"),
    )
    assert mapping_rules(LayerMap(pairs)) == {
        "TopLayer": {"a": "a", "a.norm": "a.first", "b": "b", "b.norm": "b.second"}
    }


def test_a_wrapper_only_on_the_left_is_spelt_out() -> None:
    pairs = (_pair("module.fc", "fc"), _pair("module.act", "act", "ReLU"))
    assert mapping_rules(LayerMap(pairs, target_only=("module",))) == {
        "TopLayer": {"module.fc": "fc", "module.act": "act"}
    }


def test_names_that_yaml_would_misread_are_quoted() -> None:
    pairs = (_pair("0", "on"), _pair("null", "1.0"), _pair("it's", "a:b"))
    assert yaml.safe_load(mapping_text(LayerMap(pairs))) == {"TopLayer": {"0": "on", "null": "1.0", "it's": "a:b"}}


def _fused(n: int, *parts: str) -> FusedPair:
    golden = tuple(f"layers.{n}.attn.{part}" for part in parts)
    return FusedPair((f"h.{n}.attn.qkv",), golden, 0.97 - 0.1 * n, ("shapes add up",))


def test_fused_layers_are_sums_below_the_class_that_holds_them() -> None:
    pairs = [_pair(f"h.{n}.attn", f"layers.{n}.attn", "Attention") for n in range(2)]
    layer_map = LayerMap(tuple(pairs), fused=tuple(_fused(n, "q", "k", "v") for n in range(2)))
    text = mapping_text(layer_map)
    assert yaml.safe_load(text)["Attention"] == {"qkv": "q + k + v"}
    assert "qkv: q + k + v  # fused, confidence 0.87, 2 layers: shapes add up" in text


def test_fused_layers_that_differ_within_a_class_have_whole_paths() -> None:
    pairs = [_pair(f"h.{n}.attn", f"layers.{n}.attn", "Attention") for n in range(2)]
    layer_map = LayerMap(tuple(pairs), fused=(_fused(0, "q", "kv"), _fused(1, "q", "k", "v")))
    rules = yaml.safe_load(mapping_text(layer_map))["TopLayer"]
    assert rules["h.0.attn.qkv"] == "layers.0.attn.q + layers.0.attn.kv"


def test_layers_of_one_side_stand_in_comments() -> None:
    text = mapping_text(LayerMap(target_only=("drop",), golden_only=("norm",)))
    assert yaml.safe_load(text) is None
    assert "# only in the target: drop" in text and "# only in the golden run: norm" in text


def test_a_layer_without_partner_does_not_pair_by_its_name() -> None:
    pairs = (_pair("a", "b", "Block"), _pair("a.second", "b.norm"))
    layer_map = LayerMap(pairs, target_only=("a.norm", "a.drop"))
    assert mapping_rules(layer_map)["Block"] == {"second": "norm", "norm": "only_in_the_target"}
    assert "has no partner" in mapping_text(layer_map)
