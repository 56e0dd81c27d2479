"""How weights of equal layers begin, and batches that repeat."""

from __future__ import annotations

import pytest

from msprobe.check.facts.step_facts import BatchTensor
from msprobe.check.rules.beginnings import repeated_batches, unlike_siblings
from tests.check.made_facts import facts, parameter, run_of, tensor


@pytest.mark.parametrize(("odd", "told"), [(1.3, []), (0.001, ["layers.2.fc.weight"]), (0.0, ["layers.2.fc.weight"])])
def test_a_weight_far_from_those_of_the_other_layers_is_told(odd: float, told: list[str]) -> None:
    norms = [1.0, 1.1, odd, 0.9, 1.2]
    begin = {f"layers.{n}.fc.weight": parameter(norm, norm) for n, norm in enumerate(norms)}
    assert [one.parameter for one in unlike_siblings(run_of(facts(parameters=begin)))] == told


SAMPLES, LENGTHS, MASK = (
    "Functional.conv1d.0.forward.input.0",
    "VF.lstm.0.forward.input.1",
    "Tensor.mul.0.forward.input.1",
)
OTHER, REPEATED, SAME = (1.0, 2.0, 3.0, 4.0), (1.0, 2.0, 1.0, 3.0), (1.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("samples", "others", "told"), [(OTHER, REPEATED, []), (REPEATED, REPEATED, [2]), (SAME, OTHER, [])]
)
def test_a_batch_repeats_only_where_its_samples_do(
    samples: tuple[float, ...], others: tuple[float, ...], told: list[int]
) -> None:
    """Packed sequences may have the same lengths, and so may a mask, which may be larger than the samples."""
    steps = []
    for step, (sample, other) in enumerate(zip(samples, others, strict=True)):
        mask = tensor(1.0, 4, 99, 99, dtype="bool", smallest=0.0, mean=other / 8)
        values = {SAMPLES: tensor(sample, 4, 24, 33), LENGTHS: tensor(other, 17, dtype="int64"), MASK: mask}
        steps.append(facts(step, batch=[BatchTensor(name, "", value, 0) for name, value in values.items()]))
    found = list(repeated_batches(run_of(*steps)))
    assert [one.step for one in found] == told
    assert all(one.is_hint and one.call == "Functional.conv1d.0.forward" for one in found)
