"""Every kind of layer that PyTorch and MindSpore have: correct pairs are the same, each fault is named at its layer."""

from __future__ import annotations

from pathlib import Path

import pytest

import msprobe
from msprobe.jobs.compare import CompareResult
from tests.matrices import matrix_params
from tests.recordings import Recordings
from tests.twins.kinds import BUFFER, CLEAN, LAYER, LEVELS, VARIANTS, kinds
from tests.twins.recorded import record_layers

pytestmark = [pytest.mark.mindspore, pytest.mark.slow]

SAMPLE = (
    *("Conv1d", "BatchNorm2d", "BatchNorm3d-eval", "LSTM-bidirectional", "MultiheadAttention", "CrossEntropyLoss"),
    "exp-large",
)
REST = tuple(name for table in ("layers", "losses", "exponentials") for name in kinds(table) if name not in SAMPLE)
_OWN_TANH = "at level L0 nothing says that a module of the program's own computes a tanh, which is 1e-4 off"
_LONE_TANH = "at level L1 the tanh of MindSpore is a call that PyTorch's loop over the steps does not make"
NOT_SAME = {
    **{
        (
            "SELU",
            level,
        ): "the gradient of nn.SeLU of MindSpore 2.10 is wrong for negative numbers (-0.55 for 0.24 at -2)"
        for level in LEVELS
    },
    ("tanh", "L0"): _OWN_TANH,
    ("RNN-wide", "L1"): _LONE_TANH,
    ("GRU-wide", "L1"): _LONE_TANH,
}
"""Correct pairs that differ on a CPU, and why."""
NOTHING_IN_COMMON = ("MSELoss", "CosineEmbeddingLoss", "PoissonNLLLoss")
"""Losses of which the two frameworks have no function in common, so that there is nothing to compare at level L1."""
IN_TRAINING = "in training the running statistics change no result, and PyTorch records none where no call takes them"
NOT_NAMED = {
    **{(name, "L0", BUFFER): IN_TRAINING for name, kind in kinds("layers").items() if kind.training},
    ("BatchNorm2d-without-affine", "mix", BUFFER): "MindSpore's call takes two tensors more, so the calls are no pair",
}
"""Faults that no recorded value shows, by kind, level and variant, and why."""

CASES = [pytest.param(name, level, id=f"{name}-{level}") for name in (*SAMPLE, *REST) for level in LEVELS]
IN_CI = {f"{name}-{level}" for name in SAMPLE for level in LEVELS}
every_layer = pytest.mark.parametrize(("name", "level"), matrix_params("twins", CASES, IN_CI))


class Twins:
    """The recordings of one kind at one level."""

    def __init__(self, folder: Path, name: str, level: str) -> None:
        self.folders = [folder / framework / level / name for framework in ("pytorch", "mindspore")]

    def compare(self, first: str, second: str, *, swapped: bool, **options: object) -> CompareResult:
        """Compare a variant of PyTorch's layer with one of MindSpore's, or the other way round."""
        sides = [self.folders[0] / first, self.folders[1] / second]
        return msprobe.compare(*(reversed(sides) if swapped else sides), **options)


@pytest.fixture
def twins(recordings: Recordings, name: str, level: str) -> Twins:
    return Twins(recordings(record_layers, *(SAMPLE if name in SAMPLE else REST)), name, level)


@every_layer
@pytest.mark.parametrize("options", [{}, {"api_mapping": True}], ids=["inferred", "am"])
def test_correct_layers_are_the_same(twins: Twins, name: str, level: str, options: dict[str, object]) -> None:
    for swapped in (False, True):
        result = twins.compare(CLEAN, CLEAN, swapped=swapped, **options)
        if level == "L1" and name in NOTHING_IN_COMMON:
            assert result.verdict == "not_comparable"
            continue
        assert (result.verdict == "same") is ((name, level) not in NOT_SAME), result.summary
        if level == "L1":
            continue
        compared = {row.target for row in result.rows() if "N/A" not in (row.target, row.golden)}
        assert any(f".{LAYER}." in row and ".forward.0.output" in row for row in compared), sorted(compared)


@pytest.mark.matrix("wide", sample=2)
@every_layer
def test_the_layer_with_the_fault_is_named(twins: Twins, name: str, level: str) -> None:
    found = {}
    for variant in VARIANTS[1:]:
        if not (twins.folders[0] / variant).exists():
            continue
        for sides in ((variant, CLEAN), (CLEAN, variant)):
            for swapped in (False, True):
                result = twins.compare(*sides, swapped=swapped)
                found[variant, sides, swapped] = result.verdict != "same" if level == "L1" else _named(result)
    wrong = {case for case, named in found.items() if not named}
    assert wrong == {case for case in found if (name, level, case[0]) in NOT_NAMED}


def _named(result: CompareResult) -> bool:
    """Return whether the first divergence lies in the layer."""
    first = result.summary.first_divergence
    if first is None:
        return False
    names = (first.target or "", first.golden or "", f".{first.module}.")
    return any(f".{LAYER}." in name for name in names)
