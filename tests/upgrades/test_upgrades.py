"""Correct pairs from real life are the same, and faults in them are named with module and line.

``known_gaps.json`` has the cases that fail today, with what is said instead; ``python -m tests.upgrades.evaluate CACHE
--gaps`` writes it anew.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.matrices import FIGURE, matrix_params
from tests.real_models.judge import Answer, judge
from tests.recordings import Recordings
from tests.upgrades.catalogue import BY_NAME, CASES, KINDS, packages_of, runs_of
from tests.upgrades.evaluate import GAPS, NO_PACKAGE, record_pairs

pytestmark = [pytest.mark.torch, pytest.mark.slow]

SAMPLE = {
    "adapters/conv_lora_merged",
    "adapters-fault/conv_lora_merged/kernel-of-A-mirrored",
    "adapters-fault/lora_ranks/every-update-is-scaled-by-the-rank-of-the-first-adapter",
    "families/ebm_langevin/Langevin-with-frozen-weights-and-backward",
    "families/fourier_operator/gradient-accumulated-over-four-micro-batches",
    "families/pointnet_parts/Nesterov-SGD-and-cosine-schedule-by-hand",
    "families/vq_vae/distances-by-cdist",
    "families/vq_vae/one-hot-product-for-the-lookup",
    "families-fault/vq_vae/farthest-code-chosen",
    "families-fault/vq_vae/beta-on-the-wrong-term",
    "families-fault/vq_vae/L1-in-the-place-of-the-squared-error",
    "implementations/maml_functions",
    "implementations/moe_loop_vs_batched",
    "implementations-fault/moe_loop_vs_batched/router-gets-no-gradient-from-the-experts",
    "implementations/pinn_chain",
    "implementations/triplet_loop",
    "inference/grad_checkpoint_permuted_rows",
    "ports/gemma2_port",
    "precisions/lstm_bf16",
    "precisions-fault/lstm_bf16/first-and-not-last-state-taken",
    "rollout/paged_gqa",
    "training/actor_critic",
}
"""Names of the cases that CI judges; they need no package that the tests have not."""


def _params(*, harmless: bool) -> list[object]:
    gaps: dict[str, str] = json.loads(GAPS.read_text(encoding="utf-8"))
    marked = [
        pytest.param(name, id=name, marks=[pytest.mark.xfail(reason=gaps[name], strict=True)] if name in gaps else [])
        for name, case in BY_NAME.items()
        if case.harmless == harmless
    ]
    return matrix_params("upgrades", marked, SAMPLE)


def record_cases(folder: Path, matrix: str) -> None:
    """Record the cases of the matrix, or those of the sample."""
    record_pairs([case for case in CASES if matrix or case.name in SAMPLE], folder, jobs=2 if matrix else 1)


@pytest.fixture(scope="session")
def cache(recordings: Recordings, pytestconfig: pytest.Config) -> Path:
    """The folder with the recordings of the cases that run; that of the variable UPGRADES_CACHE where it is set."""
    if folder := os.environ.get("UPGRADES_CACHE"):
        return Path(folder)
    return recordings(record_cases, pytestconfig.getoption("matrix") or "")


@pytest.fixture
def answer_to(cache: Path, record_property: Callable[[str, object], None]) -> Callable[[str], Answer]:
    """Return a function that judges a case, and notes the answer for the page of the matrix."""

    def judged(name: str) -> Answer:
        answer = judge(BY_NAME[name], cache)
        if answer.text.startswith(NO_PACKAGE):
            pytest.skip(answer.text)
        kind = name.partition("/")[0]
        parts = (
            {"same": answer.right}
            if answer.harmless
            else {
                "diverged": answer.verdict == "diverged",
                "module": answer.module,
                "line": answer.line,
                "module and line": answer.right,
            }
        )
        for part, right in parts.items():
            record_property(FIGURE, [kind, part, right])
        return answer

    return judged


@pytest.mark.parametrize("name", _params(harmless=True))
def test_a_correct_pair_is_the_same(name: str, answer_to: Callable[[str], Answer]) -> None:
    answer = answer_to(name)
    assert answer.right, answer.text


@pytest.mark.parametrize("name", _params(harmless=False))
def test_module_and_line_of_a_fault_are_named(name: str, answer_to: Callable[[str], Answer]) -> None:
    answer = answer_to(name)
    assert answer.right, f"{BY_NAME[name].modules} at {BY_NAME[name].right_lines()}: {answer.text}"


@pytest.mark.matrix("upgrades")
def test_a_package_that_cannot_be_installed_is_said(tmp_path: Path) -> None:
    case = BY_NAME["precisions/lstm_bf16"]
    without = replace(case, changed=replace(case.changed, packages=("absent @ file:///absent.whl",)))
    record_pairs([without], tmp_path, jobs=1)
    assert judge(without, tmp_path).text.startswith(f"{NO_PACKAGE}absent @ file:///absent.whl: ")


def test_the_pairs_are_many_and_varied() -> None:
    pairs = [case.name for case in CASES if case.harmless]
    assert len(CASES) == len(BY_NAME)
    assert len([name for name in pairs if not name.startswith("families/")]) >= 60
    assert len({name.split("/")[1] for name in pairs if name.startswith("families/")}) >= 15
    assert {name.split("/")[0] for name in pairs} == set(KINDS)


def test_the_names_of_sample_and_gaps_are_those_of_cases() -> None:
    gaps = json.loads(GAPS.read_text(encoding="utf-8"))
    assert sorted((SAMPLE | set(gaps)) - set(BY_NAME)) == []
    assert [run.family for run in runs_of([BY_NAME[name] for name in SAMPLE]) if packages_of(run)] == []


def test_every_edit_fits_its_program() -> None:
    for run in runs_of(CASES):
        for text in run.program().values():
            compile(text, run.family, "exec")
    assert [case.name for case in CASES if not case.harmless and not case.right_lines()[0]] == []
