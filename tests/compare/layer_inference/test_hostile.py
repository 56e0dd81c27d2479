"""Whatever stands in a dump, inference gives a map: it looks at what it understands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from msprobe.compare.layer_inference.infer import infer_layer_map
from msprobe.compare.mapping_export import mapping_text
from msprobe.core.store.reader import Dump, Place

_scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
_tensors = st.fixed_dictionaries({
    "type": st.just("torch.Tensor"),
    "shape": st.lists(st.integers(-2, 5) | st.none(), max_size=3) | _scalars,
    "Max": _scalars,
    "Min": _scalars,
    "Mean": _scalars,
    "Norm": _scalars,
    "md5": _scalars,
})
_values = st.recursive(
    _scalars | _tensors,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
_bodies = st.dictionaries(st.sampled_from(["input_args", "input", "output", "parameters", "weight"]), _values) | _values
_names = st.builds(
    ".".join,
    st.tuples(
        st.sampled_from(["Module", "Cell", "Torch"]),
        st.text("ab0.", min_size=1, max_size=5),
        st.sampled_from(["Linear.forward.0", "X.parameters_grad", "X.parameters_grad.0", "Y.backward.1", "0.forward"]),
    ),
)
_dumps = st.builds(
    lambda data, construct: Dump(Place(Path("dump.json")), "statistics", "mix", "pytorch", data, construct=construct),
    st.dictionaries(_names, _bodies, max_size=6),
    st.dictionaries(_names, _names | _scalars, max_size=4),
)


@given(_dumps, _dumps)
def test_any_two_dumps_have_a_map(target: Dump, golden: Dump) -> None:
    found = infer_layer_map(target, golden)
    assert all(0.0 <= pair.confidence <= 1.0 for pair in (*found.pairs, *found.fused))
    assert len({pair.target for pair in found.pairs}) == len(found.pairs)
    assert len({pair.golden for pair in found.pairs}) == len(found.pairs)
    assert mapping_text(found)


def test_a_path_of_a_thousand_parts(tmp_path: Path) -> None:
    def tower(name: str) -> Dump:
        data: dict[str, Any] = {f"Module.{'.'.join([name] * depth)}.X.forward.0": {} for depth in range(1, 1000)}
        return Dump(Place(tmp_path / "dump.json"), "statistics", "mix", "pytorch", data)

    found = infer_layer_map(tower("a"), tower("b"))
    assert len(found.pairs) + len(found.target_only) == 999
