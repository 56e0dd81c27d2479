"""A run on another CPU is the same, whichever of the two is the golden one, and a fault on one of them is named."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", exc_type=ImportError)

from msprobe.jobs.compare import compare
from tests.emulated.cpus import CLEAN, CPUS, FAULT, FAULTY, record_on
from tests.emulated.families import FAMILIES, train
from tests.emulated.test_emulated_devices import UNLIKE, record_faulty
from tests.matrices import matrix_params
from tests.recordings import Recordings

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

CASES = [
    (family, precision, cpu)
    for family in FAMILIES
    for precision in ("fp32", "bf16", "amp-bf16")
    for cpu in CPUS
    if f"{family}-{precision}" not in UNLIKE and (family != "mixtral" or precision == "fp32")
]
SAMPLE = {"encoder-fp32-no-avx"}


@pytest.mark.parametrize(("family", "precision", "cpu"), matrix_params("cpus", CASES, SAMPLE))
def test_another_cpu_is_the_same(recordings: Recordings, family: str, precision: str, cpu: str) -> None:
    here, there = recordings(train, family, precision), recordings(record_on, cpu, family, precision) / CLEAN
    for result in (compare(there, here), compare(here, there)):
        assert result.verdict == "same", result.summary.first_divergence


WITH_PRODUCTS = [case for case in CASES if case[0] != "lstm"]


@pytest.mark.parametrize(("family", "precision", "cpu"), matrix_params("cpus", WITH_PRODUCTS, SAMPLE))
def test_a_fault_on_another_cpu_is_named(recordings: Recordings, family: str, precision: str, cpu: str) -> None:
    here, there = recordings(train, family, precision), recordings(record_on, cpu, family, precision)
    wanted = compare(recordings(record_faulty, family, precision, "", FAULT), here, step="0").summary.first_divergence
    assert wanted is not None
    pairs = ((there / FAULTY, here), (recordings(record_faulty, family, precision, "", FAULT), there / CLEAN))
    for target, golden in pairs:
        found = compare(target, golden, step="0").summary.first_divergence
        assert found is not None
        assert (found.module, found.target) == (wanted.module, wanted.target)
