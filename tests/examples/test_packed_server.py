"""The rows of one request agree, however a server batches them; a planted fault is named at its call and token."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("torch")

from msprobe.compare.rows.summary import FirstDivergence
from msprobe.jobs.compare import CompareResult, compare
from msprobe.report.summary_text import summary_text
from tests import forked
from tests.matrices import matrix_params

SERVER = Path(__file__).resolve().parents[2] / "examples" / "serving" / "packed_server.py"
ALONE = "a;a;a"
FAULTS = ("position", "slot", "mask", "scale")
Record = Callable[..., Path]
pytestmark = pytest.mark.torch


@dataclass(frozen=True)
class Case:
    """A run that answers request ``a`` in its own way. ``first`` is the first token it computes in recorded steps, and
    ``last`` the last one of its first step: those at which the faults are planted."""

    name: str
    arguments: tuple[str, ...]
    first: int = 0
    last: int = 13


CASES = (
    Case("batched", ("a,b,c;a,b,c",)),
    Case("chunked", ("a:5,b;a:4;a,b;a",), last=4),
    Case("padded", ("a,b;a,b", "--graphs", "4,32")),
    Case("prefix", ("a,b;a,b", "--prefix", "10"), first=10),
)

NAMED = [pytest.param(case, id=case.name) for case in CASES]


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Record:
    """Run the server once for each plan."""
    folder, known = tmp_path_factory.mktemp("packed"), dict[tuple[str, ...], Path]()

    def run(*arguments: str) -> Path:
        if arguments not in known:
            known[arguments] = folder / str(len(known))
            done = forked.run([SERVER, known[arguments], *arguments], timeout=120)
            assert done.returncode == 0, (done.stdout + done.stderr).decode()
        return known[arguments]

    return run


def divergence(result: CompareResult) -> FirstDivergence:
    found = result.summary.first_divergence
    assert result.verdict == "diverged" and found is not None, result.summary.reason
    return found


@pytest.mark.parametrize("case", matrix_params("serving", NAMED, {"batched"}))
def test_a_request_agrees_in_any_batch(record: Record, case: Case, tmp_path: Path) -> None:
    target, golden = record(*case.arguments), record(ALONE)
    result = compare(target, golden, target_request="a", output=tmp_path)
    assert result.verdict == "same", result.summary.reason
    assert compare(golden, target, target_request="a").verdict == "same"
    assert compare(target, golden).verdict != "same"  # the batches differ
    assert "of request a: " in result.summary.reason and "compared in their rows" in result.summary.reason
    names = [Path(name).name for name in result.summary.results]
    assert len(set(names)) == len(result.pairs) and all("_tokens" in name for name in names)


@pytest.mark.parametrize("fault", matrix_params("serving", FAULTS, {"slot"}))
@pytest.mark.parametrize("case", matrix_params("serving", NAMED, {"batched"}))
def test_a_fault_is_named_at_its_call_and_token(record: Record, case: Case, fault: str) -> None:
    found = divergence(compare(record(*case.arguments, "--fault", fault), record(ALONE), target_request="a"))
    expected = {
        "position": ("Module.embed_positions.Embedding.forward.0", case.last),
        "slot": ("Torch.matmul.0.forward", 2),  # the third slot of the context, whichever token reads it
        "mask": ("Functional.softmax.0.forward", case.first),
        "scale": ("Tensor.__mul__.2.forward of the golden run alone", case.first),
    }
    assert (found.name, found.token) == expected[fault] and found.request == "a"
    if fault != "position":
        assert found.module == "layers.0.self_attn.Attention"


@pytest.mark.matrix("serving")
def test_a_fault_of_a_neighbour_is_none(record: Record) -> None:
    """The first request of the batch is wrong, and not the one that is compared."""
    for fault in ("position", "slot", "mask"):
        wrong = record("b,a;b,a", "--fault", fault)
        assert compare(wrong, record(ALONE), target_request="a").verdict == "same"
        assert compare(wrong, record("a,b;a,b"), target_request="b").verdict == "diverged"


@pytest.mark.matrix("serving")
def test_another_order_of_the_batch(record: Record) -> None:
    left, right = record("b,a,c;b,a,c"), record("c,a,b;a,c,b")
    for name in "abc":
        assert compare(left, right, target_request=name).verdict == "same"
    assert compare(left, right).verdict == "diverged"
    wrong = divergence(compare(record("b,a,c;b,a,c", "--fault", "position"), right, target_request="b"))
    assert (wrong.target, wrong.token) == ("Module.embed_positions.Embedding.forward.0", 6)


@pytest.mark.matrix("serving")
def test_as_many_tokens_as_heads(record: Record) -> None:
    """In the second step (tokens, heads, width) is (4, 4, 16) on both sides: values tell which axis is cut."""
    left, right = record("a,b,c,d;a,b,c,d"), record("d,b,a,c;c,d,b,a")
    for name in "abcd":
        assert compare(left, right, target_request=name).verdict == "same"
    wrong = record("a,b,c,d;a,b,c,d", "--fault", "position")
    found = divergence(compare(wrong, right, target_request="a", step="1"))
    assert (found.target or "").startswith("Module.embed_") and found.token == 14


@pytest.mark.matrix("serving")
def test_chunks_against_other_chunks(record: Record) -> None:
    """Each step pairs with those that have its tokens, and every pair says which."""
    result = compare(record("a:5,b;a:4;a,b;a"), record("a:3;a:8,c;a;a"), target_request="a")
    assert result.verdict == "same", result.summary.reason
    tokens = [outcome.tokens for outcome in result.outcomes]
    assert tokens == ["0-2", "3-4", "5-8", "9-10", "11-13", "14"]
    assert result.outcomes[1].place.endswith("tokens 3-4")


@pytest.mark.matrix("serving")
def test_attention_in_a_loop_over_the_requests(record: Record) -> None:
    """The calls of the request alone are compared, with a run of one request, a packed one, and another loop."""
    right, wrong = record("b,a,c;b,a,c", "--loop"), record("a,b,c;a,b,c", "--loop", "--fault", "slot")
    for golden in (record(ALONE), record("c,a,b;a,c,b"), record("a:5,b;c,a:4;a,b;a", "--loop")):
        assert compare(right, golden, target_request="a").verdict == "same"
        found = divergence(compare(wrong, golden, target_request="a"))
        assert (found.target, found.token) == ("Torch.matmul.0.forward", 2)
    found = divergence(compare(record("a,b;a,b", "--loop", "--fault", "scale"), record(ALONE), target_request="a"))
    assert (found.name, found.token) == ("Tensor.__mul__.2.forward of the golden run alone", 0)


@pytest.mark.matrix("serving")
def test_several_new_tokens_of_a_request_in_a_step(record: Record) -> None:
    """As with speculative decoding: three tokens are checked at once, beside one and two of others."""
    plan = "a:8,b;b,a:3,c;a,c,b:1;a"
    assert compare(record(plan), record(ALONE), target_request="a").verdict == "same"
    found = divergence(compare(record(plan, "--fault", "position"), record(ALONE), target_request="a"))
    assert (found.target, found.token) == ("Module.embed_positions.Embedding.forward.0", 7)


@pytest.mark.matrix("serving")
def test_modules_alone(record: Record) -> None:
    batch, alone = record("b,a,c;b,a,c", "--level", "L0"), record(ALONE, "--level", "L0")
    assert compare(batch, alone, target_request="a").verdict == "same"
    wrong = record("a,b,c;a,b,c", "--level", "L0", "--fault", "scale")
    found = divergence(compare(wrong, alone, target_request="a"))
    # One key has the weight 1 whatever its score is, so token 0 is right.
    assert (found.target, found.token) == ("Module.layers.0.self_attn.Attention.forward.0", 1)


PLAIN = """
import sys
sys.path.insert(0, {folder!r})
import torch
from model import Decoder
from packed_server import PROMPTS, build
from msprobe.pytorch import PrecisionDebugger
model = Decoder().eval()
model.load_state_dict(build().state_dict())
debugger = PrecisionDebugger(task="tensor", dump_path=sys.argv[1], level="L0")
tokens = list(PROMPTS["a"].encode())
with torch.inference_mode():
    for _ in range(2):
        debugger.start(model=model, scheduled_tokens={{"a": len(tokens)}}, computed_tokens={{"a": 0}})
        tokens.append(int(model(torch.tensor([tokens]))[0, -1].argmax()))
        debugger.stop()
        debugger.step()
"""


@pytest.mark.matrix("serving")
def test_a_plain_model_without_a_cache(record: Record, tmp_path: Path) -> None:
    """Tensors of (1, tokens, width) against packed ones of (tokens, width)."""
    script, plain = tmp_path / "plain.py", tmp_path / "plain"
    script.write_text(PLAIN.format(folder=str(SERVER.parent)), encoding="utf-8")
    assert forked.run([script, plain], timeout=120).returncode == 0
    for plan in ("b,a,c;b,a,c", "a:5;a,c;a"):
        assert compare(record(plan, "--level", "L0"), plain, target_request="a").verdict == "same"
    wrong = record("a,b,c;a,b,c", "--level", "L0", "--fault", "position")
    found = divergence(compare(wrong, plain, target_request="a"))
    assert (found.target, found.token) == ("Module.embed_positions.Embedding.forward.0", 13)


@pytest.mark.matrix("serving")
def test_statistics_tell_only_of_the_same_rows(record: Record) -> None:
    alone, batch = record(ALONE, "--task", "statistics"), record("b,a;b,a", "--task", "statistics")
    result = compare(batch, alone, target_request="a")
    assert result.verdict == "incomplete" and "a slice needs whole tensors" in result.summary.reason
    assert compare(record("a;a", "--task", "statistics"), alone, target_request="a").verdict == "same"
    wrong = record("a;a", "--task", "statistics", "--fault", "scale")
    assert compare(wrong, alone, target_request="a").verdict == "diverged"


@pytest.mark.matrix("serving")
def test_a_run_that_recorded_one_request_alone(record: Record) -> None:
    """Its rows were cut while they were recorded, so that statistics are of the same rows."""
    for task in ("tensor", "statistics"):
        options = "--level", "L0", "--task", task
        alone, only = record("a;a", *options), record("b,a,c;b,a,c", *options, "--request-id", "a")
        result = compare(only, alone, target_request="a")
        # The logits have a row per request, which is not cut: of them statistics say nothing.
        assert result.verdict == ("same" if task == "tensor" else "incomplete"), result.summary.reason
        wrong = record("a,b,c;a,b,c", *options, "--request-id", "a", "--fault", "scale")
        found = divergence(compare(wrong, alone, target_request="a"))
        assert found.target == "Module.layers.0.self_attn.Attention.forward.0"
        assert found.token == (1 if task == "tensor" else None)


def test_the_token_is_printed_and_in_the_document(record: Record) -> None:
    result = compare(record("a,b,c;a,b,c", "--fault", "slot"), record(ALONE), target_request="a")
    assert "  token:  token 2 of request a" in summary_text(result.summary).splitlines()
    first = json.loads(json.dumps(result.summary.document()))["first_divergence"]
    assert (first["request"], first["token"]) == ("a", 2)


def test_an_unknown_request_and_no_common_token(record: Record) -> None:
    batch, alone = record("a,b,c;a,b,c"), record(ALONE)
    result = compare(batch, alone, target_request="nobody")
    assert result.verdict == "not_comparable"
    assert result.summary.reason == "the target has no request 'nobody'; there is a, b, c"
    result = compare(batch, alone, target_request="a", golden_request="a@99")
    assert result.summary.reason == (
        "no token of request 'a' is on both sides: tokens 0-14 in the target, tokens 99-114 in the golden run"
    )


@pytest.mark.matrix("serving")
def test_tokens_of_one_side_are_told(record: Record) -> None:
    result = compare(record("a,b;a,b", "--prefix", "10"), record(ALONE), target_request="a")
    assert result.summary.unpaired == ["tokens 0-9, 15 of request a only in the golden run"]
