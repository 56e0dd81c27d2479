"""Names of places in models of one kind."""

from __future__ import annotations

from msprobe.check.facts.patterns import pattern_of, same_place


def test_patterns_of_paths() -> None:
    assert pattern_of("module.layers.12.mlp.0") == "layers.{n}.mlp.{n}"
    assert pattern_of("body.module.0.weight") == "body.{n}.weight"
    assert same_place("a.b", ["x.a.b", "c"]) == "x.a.b"
    assert same_place("a.b", ["x.a.b", "y.a.b"]) is None
    assert same_place("", ["a"]) is None
