"""Generation, and a training of two ranks, on another device: the same as without it, and a fault is named."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", exc_type=ImportError)

from msprobe.jobs.compare import compare
from tests.emulated.faults import PLACED_FAULTS
from tests.emulated.programs import generate, train_ranks
from tests.matrices import matrix_params
from tests.recordings import Recordings

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

PROGRAMS = {generate.__name__: generate, train_ranks.__name__: train_ranks}
FAMILIES = {
    **{("generate", family): ("fp32", "bf16", "fp16") for family in ("gpt2", "llama", "mixtral")},
    **{("train_ranks", family): ("fp32",) for family in ("gpt2", "llama", "mixtral", "resnet")},
}
GAP = pytest.mark.xfail(strict=True, reason="reduction hides which gradients are zero by mathematics: biases of convs")


def _marks(program: str, family: str) -> tuple[pytest.MarkDecorator, ...]:
    return (GAP,) if (program, family) == ("train_ranks", "resnet") else ()


CLEAN = [
    pytest.param(*name, precision, device, id="-".join((*name, precision, device)), marks=_marks(*name))
    for name, precisions in FAMILIES.items()
    for precision in precisions
    for device in ("order", "other")
]
CLEAN_SAMPLE = {"generate-llama-bf16-other", "train_ranks-gpt2-fp32-other"}


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize(("program", "family", "precision", "device"), matrix_params("devices", CLEAN, CLEAN_SAMPLE))
def test_another_device_is_the_same(
    recordings: Recordings, program: str, family: str, precision: str, device: str
) -> None:
    record = PROGRAMS[program]
    golden, target = recordings(record, family, precision), recordings(record, family, precision, device)
    for result in (compare(target, golden), compare(golden, target)):
        assert result.verdict == "same", result.summary.first_divergence


_NOISY = pytest.mark.xfail(strict=True, reason="12 % of the positions are noise in bfloat16; the line is that of `cos`")


def _fault_marks(precision: str, fault: str) -> tuple[pytest.MarkDecorator, ...]:
    return (_NOISY,) if (precision, fault) == ("bf16", "late-angle") else ()


FAULTS = [
    pytest.param(*name, precision, fault, id="-".join((*name, precision, fault)), marks=_fault_marks(precision, fault))
    for name, precisions in FAMILIES.items()
    for precision in precisions
    for fault, placed in PLACED_FAULTS.items()
    if name[1] in placed.module
    if (precision == "fp32" if fault == "louder" else name[0] == "generate")
]
FAULT_SAMPLE = {"generate-llama-fp16-late-angle", "train_ranks-gpt2-fp32-louder"}


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize(("program", "family", "precision", "fault"), matrix_params("devices", FAULTS, FAULT_SAMPLE))
def test_module_and_line_of_a_fault_are_named(
    recordings: Recordings, program: str, family: str, precision: str, fault: str
) -> None:
    record, placed = PROGRAMS[program], PLACED_FAULTS[fault]
    golden, target = recordings(record, family, precision), recordings(record, family, precision, "other", fault)
    for result in (compare(target, golden), compare(golden, target)):
        found = result.summary.first_divergence
        assert found is not None
        assert f".{placed.module[family]}." in f".{found.module}.", found
        assert f"{placed.place} " in f"{found.source} {found.golden_source} ", found
        assert found.rank == (1 if program == "train_ranks" else None)
