"""Tags of targets, as mindstudio-probe gives them to the same names."""

from __future__ import annotations

import pytest

from msprobe.trend.rows import tags_of

MODULE, CELL, PARAMETERS = ("Module", "default"), ("Cell", "default"), ("parameters", "default")


@pytest.mark.parametrize(
    ("target", "tags"),
    [
        pytest.param("Functional.a.b.input.0", {("Functional.a.b", "function"), ("input.0", "index")}, id="function"),
        pytest.param("Module.Net.output.1", {MODULE, ("Net", "module"), ("output.1", "index")}, id="root"),
        pytest.param(
            "Module.model.layers.0.mlp.MLP.input.0",
            {MODULE, ("model", "module"), ("layers.0", "layer"), ("mlp.MLP", "module"), ("input.0", "index")},
            id="layer",
        ),
        pytest.param(
            "Cell.a.12.3.b.4.C.output.0",
            {CELL, ("a.12", "layer"), ("b.4", "layer"), ("C", "module"), ("output.0", "index")},
            id="a-number-behind-a-number",
        ),
        pytest.param(
            "Module.0.Linear.input.0", {MODULE, ("Linear", "module"), ("input.0", "index")}, id="only-a-number"
        ),
        pytest.param(
            "Module.Net.parameters.w",
            {MODULE, PARAMETERS, ("Net", "module"), ("parameters.w", "index")},
            id="parameter",
        ),
        pytest.param(
            "Module.Net.parameters.a.b",
            {MODULE, PARAMETERS, ("Net.parameters", "module"), ("a.b", "index")},
            id="parameter-with-a-dot",
        ),
        pytest.param("Module.q.7.Q.w", {MODULE, ("q.7", "layer"), ("Q.w", "index")}, id="gradient"),
    ],
)
def test_tags(target: str, tags: set[tuple[str, str]]) -> None:
    found = tags_of(target)
    assert set(found) == tags and len(found) == len(tags)
