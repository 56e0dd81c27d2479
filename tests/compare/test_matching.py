"""Sequences align, recomputation does not shift, and the subsequence is a longest one."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from msprobe.compare.match import STRATEGIES
from msprobe.compare.match.myers import common_subsequence
from msprobe.compare.pairs import entry_keys


def _pairs(strategy: str, target: list[str], golden: list[str]) -> list[tuple[str, str]]:
    left, right = (entry_keys({name: {} for name in names}, {}) for names in (target, golden))
    found = STRATEGIES[strategy].pairs(left, right)
    return sorted((left[i].name, right[j].name) for i, j in found if i is not None and j is not None)


def _length(left: list[int], right: list[int]) -> int:
    table = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=12))
def test_longest_common_subsequence(left: list[int], right: list[int]) -> None:
    found = common_subsequence(left, right, 100)
    assert found is not None and len(found) == _length(left, right)
    assert all(left[i] == right[j] for i, j in found)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(found))


def test_an_extra_call_does_not_shift_the_others() -> None:
    golden = ["Torch.a.0.forward", "Torch.mul.0.forward", "Torch.b.0.forward", "Torch.mul.0.backward"]
    target = ["Torch.mul.0.forward", "Torch.a.0.forward", "Torch.mul.1.forward", "Torch.b.0.forward"]
    target.append("Torch.mul.1.backward")
    found = _pairs("sequence", target, golden)
    assert ("Torch.mul.1.forward", "Torch.mul.0.forward") in found
    assert ("Torch.mul.1.backward", "Torch.mul.0.backward") in found


def test_backward_by_occurrence_where_numbers_differ() -> None:
    found = _pairs("exact", ["Torch.x.1.backward"], ["Torch.x.0.backward"])
    assert found == [("Torch.x.1.backward", "Torch.x.0.backward")]
