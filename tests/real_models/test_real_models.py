"""Harmless changes of real models are the same, and faults are named with module and line.

``known_gaps.json`` has the cases that fail today, with what is said instead; ``python -m tests.real_models.evaluate
CACHE --gaps`` writes it anew.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.matrices import matrix_params
from tests.real_models.cases import Case
from tests.real_models.catalogue import CASES
from tests.real_models.evaluate import GAPS, record_missing
from tests.real_models.judge import judge
from tests.recordings import Recordings

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SAMPLE = {
    "benign/llama/zeroed-gradients",
    "benign/llama/sdpa",
    "benign/llama/fused-qkv",
    "benign/llama/compiled-mlp",
    "benign/resnet/foreach",
    "benign/resnet/residual-swapped",
    "benign/resnet/device-both",
    "benign/unet/sdpa-bf16",
    "benign/lstm/gradient-observer",
    "fault/llama/norm-eps",
    "fault/llama/mask-missing",
    "fault/llama/transposed-weight",
    "fault/llama/scaled-gradient",
    "fault/resnet/relu-missing",
    "fault/resnet/double-step",
    "fault/lstm/gates-swapped",
    "fault/unet/scale-bf16",
    "fault/unet/sine-and-cosine-swapped",
    "combined/llama/norm-eps+sdpa",
    "combined/llama/learning-rate+foreach",
    "fault-in-golden/llama/mask-missing",
    "fault-in-golden/resnet/relu-missing",
    "held-benign/dit/permuted-patches",
    "held-benign/gnn/scatter-for-index",
    "held-benign/policy/critic-first",
    "held-benign/recipe/average-by-lerp",
    "held-fault/gan/slope",
    "held-fault/lora/scaling",
    "held-fault/policy/clip-range",
    "held-fault/recipe/norms-decayed",
    "held-fault/vae/deviation",
    "held-combined/lora/scale+forward-hooks",
    "fresh-benign/detector/small-level-first",
    "fresh-benign/maml/all-adapted-first",
    "fresh-fault/maml/first-order",
    "fresh-fault/vqvae/decay",
    "fresh-fault/vqvae/gradient-not-passed",
}
"""Names of the cases that CI judges."""
BY_NAME = {case.name: case for case in CASES}


def _params(matrix: str, harmless: bool) -> list[object]:
    gaps: dict[str, str] = json.loads(GAPS.read_text(encoding="utf-8"))
    cases = [case.name for case in CASES if case.harmless == harmless]
    marked = [
        pytest.param(name, id=name, marks=[pytest.mark.xfail(reason=gaps[name], strict=True)] if name in gaps else [])
        for name in cases
    ]
    return matrix_params(matrix, marked, SAMPLE)


def record_cases(folder: Path, matrix: str) -> None:
    """Record what the cases of a matrix need, or those of the sample."""
    harmless = {"benign": (True,), "faults": (False,)}.get(matrix, (True, False))
    cases = [case for case in CASES if case.harmless in harmless and (matrix or case.name in SAMPLE)]
    record_missing(cases, folder)


@pytest.fixture(scope="session")
def cache(recordings: Recordings, pytestconfig: pytest.Config) -> Path:
    """The folder with the recordings of the cases that run; that of the variable REAL_MODELS_CACHE where it is set."""
    if folder := os.environ.get("REAL_MODELS_CACHE"):
        return Path(folder)
    return recordings(record_cases, pytestconfig.getoption("matrix") or "")


@pytest.mark.parametrize("name", _params("benign", harmless=True))
def test_a_harmless_change_is_the_same(name: str, cache: Path) -> None:
    answer = judge(BY_NAME[name], cache)
    assert answer.right, answer.text


@pytest.mark.matrix("wide", sample=2)
@pytest.mark.parametrize("name", _params("faults", harmless=False))
def test_module_and_line_of_a_fault_are_named(name: str, cache: Path) -> None:
    case: Case = BY_NAME[name]
    answer = judge(case, cache)
    assert answer.right, f"{case.modules} at {case.right_lines()}: {answer.text}"


def test_the_cases_are_many_and_varied() -> None:
    benign, faults = ([case for case in CASES if case.harmless == harmless] for harmless in (True, False))
    assert len(benign) >= 40
    assert len([case for case in faults if case.name.startswith("fault/")]) >= 60
    assert len([case for case in faults if case.name.startswith("combined/")]) >= 15
    assert len({case.target.family for case in faults}) >= 8


def test_the_names_of_sample_and_gaps_are_those_of_cases() -> None:
    assert len(BY_NAME) == len(CASES)
    gaps = json.loads(GAPS.read_text(encoding="utf-8"))
    assert sorted((SAMPLE | set(gaps)) - set(BY_NAME)) == []


@pytest.mark.matrix("wide", sample=3)
@pytest.mark.parametrize("family", sorted({case.target.family for case in CASES}))
def test_every_edit_fits_the_program(family: str) -> None:
    cases = [case for case in CASES if case.target.family == family]
    for text in {text for case in cases for text in case.changed.program().values()}:
        compile(text, family, "exec")
    for case in cases:
        if not case.harmless:
            assert any(case.right_lines()), case.name
