"""One walk over two entries finds what two walks find, or says that it cannot."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from msprobe.core.store.record_walk import leaves, leaves_of_both
from tests.compare.dumps import call, gradient, module, number, tensor

NAME = "Functional.relu.0.forward"
LEAVES = st.sampled_from([tensor(), number(1), None, 3, "x", {"type": 3}, {"class_type": "torch.distributed.P2POp"}])
TREES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "type"]), inner, max_size=3),
    max_leaves=6,
)
BODIES = st.dictionaries(st.sampled_from(["input_args", "input_kwargs", "output", "parameters", "input"]), TREES)


@given(BODIES, BODIES)
def test_twins_are_the_leaves_of_both(ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    for left, right in ((ours, ours), (ours, theirs)):
        found = leaves_of_both(NAME, NAME, left, right)
        if found is not None:
            assert found == (leaves(NAME, left), leaves(NAME, right))
            assert [leaf.suffix for leaf in found[0]] == [leaf.suffix for leaf in found[1]]


def test_ordinary_entries_are_twins() -> None:
    for body in (
        call([tensor(), number(3), None, [tensor(), {"a": number(1)}]], [tensor()], dim=number(1)),
        module([tensor()], [tensor(), tensor()], weight=tensor()),
        gradient([tensor()], [None, tensor()]),
    ):
        assert leaves_of_both(NAME, NAME, body, body) == (leaves(NAME, body), leaves(NAME, body))


def test_other_structures_are_not() -> None:
    body = call([tensor()], [tensor()])
    assert leaves_of_both(NAME, NAME, body, call([tensor(), tensor()], [tensor()])) is None
    assert leaves_of_both("x.0.debug", NAME, body, body) is None
    assert leaves_of_both(NAME, "Module.fc.Linear.parameters_grad", body, body) is None
