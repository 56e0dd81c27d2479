"""msprobe names the faulty module of nearly every planted fault, and calls no healthy run faulty."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from msprobe.compare.rows.summary import CompareSummary, FirstDivergence
from msprobe.jobs.compare import compare
from tests.zoo.conftest import Zoo
from tests.zoo.faults import FAULTS, names
from tests.zoo.jobs import FAULTS_OF, HARMLESS_OF

pytestmark = [pytest.mark.torch, pytest.mark.slow]

WANTED = 0.9
OUTSIDE = ("label-shift", "loss-sum", "embedding-scaled")
L1_ENTRIES = {
    "layernorm-eps": "Functional.layer_norm.1.forward",
    "softmax-axis": "Functional.softmax.0.forward",
    "mask-missing": "Tensor.masked_fill.1.forward",
    "transposed-weight": "Functional.linear.10.forward",
    "detached-key": "Torch.matmul.0.backward",
    "loss-sum": "Functional.cross_entropy.0.forward",
}


def judged(zoo: Zoo, mode: str, variant: str, golden: str = "adamw") -> CompareSummary:
    return compare(zoo(mode, variant), zoo(mode, golden)).summary


def culprit(zoo: Zoo, mode: str, fault: str) -> FirstDivergence:
    summary = judged(zoo, mode, fault, FAULTS[fault].golden)
    assert summary.verdict == "diverged" and summary.first_divergence is not None, summary
    return summary.first_divergence


def is_named(zoo: Zoo, mode: str, fault: str) -> bool:
    found = judged(zoo, mode, fault, FAULTS[fault].golden).first_divergence
    return found is not None and names(FAULTS[fault], found.module, found.target or found.golden or "")


@pytest.mark.matrix("wide", sample=12)
@pytest.mark.parametrize(
    ("mode", "fault"),
    [
        (mode, fault)
        for mode in ("mix", "L0", "md5", "tensor", "early")
        for fault in FAULTS_OF[mode]
        if mode == "mix" or FAULTS[fault].modules
    ],
)
def test_the_faulty_module_is_named(zoo: Zoo, mode: str, fault: str) -> None:
    found = culprit(zoo, mode, fault)
    assert names(FAULTS[fault], found.module, found.target or found.golden or ""), found


@pytest.mark.matrix("wide")
def test_nine_of_ten_are_named(zoo: Zoo) -> None:
    missed = [fault for fault in FAULTS if not is_named(zoo, "mix", fault)]
    lines = [f"{fault}: {FAULTS[fault].kind}, {judged(zoo, 'mix', fault).first_divergence}" for fault in missed]
    assert len(FAULTS) - len(missed) >= WANTED * len(FAULTS), "\n".join(lines)


def test_the_zoo_is_varied() -> None:
    assert len(FAULTS) >= 50
    assert len({fault.kind for fault in FAULTS.values()}) >= 24
    assert {name for name, fault in FAULTS.items() if not fault.modules} == set(OUTSIDE)


@pytest.mark.parametrize("fault", OUTSIDE)
def test_modules_alone_blame_none_for_what_lies_outside_of_them(zoo: Zoo, fault: str) -> None:
    assert culprit(zoo, "L0", fault).module is None


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize("fault", L1_ENTRIES)
def test_without_modules_the_call_is_named(zoo: Zoo, fault: str) -> None:
    found = culprit(zoo, "L1", fault)
    assert (found.target or found.golden) == L1_ENTRIES[fault], found


@pytest.mark.matrix("wide", sample=4)
@pytest.mark.parametrize(
    ("mode", "variant"), [(mode, variant) for mode in HARMLESS_OF for variant in HARMLESS_OF[mode]]
)
def test_a_harmless_change_is_the_same(zoo: Zoo, mode: str, variant: str) -> None:
    summary = judged(zoo, mode, variant)
    assert summary.verdict == "same", summary.first_divergence


@pytest.mark.parametrize(
    ("mode", "variant", "golden"),
    [
        ("mix", "new-process", "adamw"),
        pytest.param("L0", "new-process", "adamw", marks=pytest.mark.matrix("wide")),
        ("mix", "recompute-reentrant", "recompute-non-reentrant"),
        pytest.param("mix", "recompute-one-block", "recompute-reentrant", marks=pytest.mark.matrix("wide")),
        ("mix", "adamw", "recompute-non-reentrant"),
        ("L1", "recompute-reentrant", "recompute-non-reentrant"),
    ],
)
def test_two_healthy_runs_are_the_same(zoo: Zoo, mode: str, variant: str, golden: str) -> None:
    summary = judged(zoo, mode, variant, golden)
    assert summary.verdict == "same", summary.first_divergence
    assert summary.counts.passed > 0 and summary.counts.error == 0


@pytest.mark.matrix("wide")
def test_every_fault_changes_the_training(zoo: Zoo) -> None:
    def losses(variant: str) -> str:
        return (zoo("mix", variant) / "losses.json").read_text(encoding="utf-8")

    updates = {"betas", "momentum"}  # the first update is the same, and two steps see no second one
    silent = {fault for fault in FAULTS if losses(fault) == losses(FAULTS[fault].golden)}
    assert silent == updates
