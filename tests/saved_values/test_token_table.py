"""``msprobe compare`` of two folders of SingleSave, value by value and token by token; planted differences."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from msprobe.cli.main import run
from msprobe.core import SingleSave

pytestmark = pytest.mark.torch

PROMPT, RESPONSE, VOCABULARY = 3, 24, 50
Values = dict[str, Any]


@pytest.fixture
def save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Values], Path]:
    """Return a function that saves values as one step in a folder of its own."""
    monkeypatch.setattr(SingleSave, "_instance", None)

    def write(name: str, values: Values) -> Path:
        SingleSave(str(tmp_path / name)).save(values)
        return tmp_path / name

    return write


@pytest.fixture
def logits() -> torch.Tensor:
    """Logits of (2, RESPONSE, VOCABULARY) tokens that span several nats, as those of a trained model."""
    return 3 * torch.randn(2, RESPONSE, VOCABULARY, generator=torch.Generator().manual_seed(1))


def ids_of(logits: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    probabilities = torch.softmax(logits, -1).flatten(0, 1)
    return torch.multinomial(probabilities, 1, generator=generator).reshape(logits.shape[:2])


def log_probs(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(logits.float(), -1).gather(-1, ids[..., None])[..., 0]


def values_of(logits: torch.Tensor, ids: torch.Tensor) -> Values:
    return {"ids": ids, "log_probs": log_probs(logits, ids), "mask": torch.ones_like(ids)}


Result = tuple[int, dict[str, Any]]


def compared(target: Path, golden: Path, *words: str) -> Result:
    """Return the exit status and the JSON document."""
    out = target.parent / "out"
    arguments = ["compare", "-tp", str(target), "-gp", str(golden), "-o", str(out), "--json", str(out / "r.json")]
    status = run([*arguments, "--mask", "mask", "--fail-on", "diverged", *words])
    return status, json.loads((out / "r.json").read_text()) if (out / "r.json").exists() else {}


def test_bfloat16_rollouts_agree(save: Any, logits: torch.Tensor) -> None:
    ids = ids_of(logits)
    rollout = {**values_of(logits.bfloat16(), ids)}
    rollout["log_probs"] = rollout["log_probs"].bfloat16()
    status, found = compared(save("rollout", rollout), save("train", values_of(logits, ids)))
    assert (status, found["verdict"], found["first_difference"]) == (0, "same", None)


def test_what_was_computed_in_bfloat16_and_saved_in_float32(save: Any, logits: torch.Tensor) -> None:
    ids = ids_of(logits)
    rollout, train = save("rollout", values_of(logits.bfloat16(), ids)), save("train", values_of(logits, ids))
    status, found = compared(rollout, train)
    assert status == 1 and "agrees within the rounding of bfloat16" in found["first_difference"]["reason"]
    assert compared(rollout, train, "--computed-in", "bfloat16")[1]["verdict"] == "same"


@pytest.mark.parametrize("temperature", [0.8, 0.9, 1.1])
def test_a_temperature_that_one_side_lacks(save: Any, logits: torch.Tensor, temperature: float) -> None:
    ids = ids_of(logits)
    rollout = save("rollout", values_of(logits / temperature, ids))
    status, found = compared(rollout, save("train", values_of(logits, ids)), "--computed-in", "bfloat16")
    assert (status, found["first_difference"]["name"]) == (1, "log_probs")


def _one_token(values: Values) -> None:
    values["log_probs"][1, 5] -= 3.0


def _shifted_by_one(values: Values) -> None:
    values["log_probs"][1, 5:] = values["log_probs"][1].roll(1)[5:]


def _nan(values: Values) -> None:
    values["log_probs"][1, 5] = float("nan")


def _other_token(values: Values) -> None:
    values["ids"][1, 5] += 1
    values["log_probs"][1, 5] -= 3.0


def _token_of_the_mask(values: Values) -> None:
    values["mask"][1, 5:] = 0


@pytest.mark.parametrize(
    ("plant", "name", "words"),
    [
        (_one_token, "log_probs", "times the tolerance of bfloat16"),
        (_shifted_by_one, "log_probs", "times the tolerance of bfloat16"),
        (_nan, "log_probs", "NaN or infinity on one side only"),
        (_other_token, "ids", "1 of 24 tokens are others"),
        (_token_of_the_mask, "ids", "5 tokens against 24"),
    ],
)
def test_planted(save: Any, logits: torch.Tensor, plant: Callable[[Values], None], name: str, words: str) -> None:
    ids = ids_of(logits)
    rollout = values_of(logits.bfloat16(), ids.clone())
    rollout["log_probs"] = rollout["log_probs"].bfloat16()
    plant(rollout)
    status, found = compared(save("rollout", rollout), save("train", values_of(logits, ids)))
    first = found["first_difference"]
    assert (status, first["name"], first["sequence"], first["token"]) == (1, name, 1, 5)
    assert words in first["reason"]


def test_left_padding_against_right_padding(save: Any, logits: torch.Tensor) -> None:
    ids = ids_of(logits)
    left, right = values_of(logits, ids), values_of(logits, ids)
    lengths = (RESPONSE, RESPONSE - 7)
    for name, pad in (("ids", 0), ("log_probs", float("nan")), ("mask", 0)):
        rows = [left[name][row, :length] for row, length in enumerate(lengths)]
        padded = [torch.full((RESPONSE + 4 - length,), pad, dtype=left[name].dtype) for length in lengths]
        left[name] = torch.stack([torch.cat([pads, row]) for pads, row in zip(padded, rows, strict=True)])
        right[name] = torch.stack([torch.cat([row, pads[4:]]) for pads, row in zip(padded, rows, strict=True)])
    assert compared(save("rollout", left), save("train", right))[1]["verdict"] == "same"


def test_a_value_that_does_not_fit_its_mask(save: Any, logits: torch.Tensor) -> None:
    train = values_of(logits, ids_of(logits))
    rollout = {**train, "log_probs": train["log_probs"][:, 1:]}
    status, found = compared(save("rollout", rollout), save("train", train))
    assert status == 1
    assert "shape [2, 23] do not fit a mask of shape [2, 24] in the target" in found["first_difference"]["reason"]


def test_what_one_side_lacks_is_incomplete(save: Any, logits: torch.Tensor) -> None:
    train = values_of(logits, ids_of(logits))
    rollout = {name: train[name] for name in ("ids", "mask")} | {"reward": 1.0}
    status, found = compared(save("rollout", rollout), save("train", {**train, "reward": 1.0}))
    assert (status, found["verdict"]) == (1, "incomplete")
    assert found["incomplete"] == ["step 0 rank 0 micro step 0 log_probs: only in the golden folder"]


def test_sequences_in_lists(save: Any, logits: torch.Tensor) -> None:
    train = values_of(logits, ids_of(logits))
    listed = {name: [value[0], value[1, :9]] for name, value in train.items()}
    moved = {**listed, "log_probs": [train["log_probs"][0], train["log_probs"][1, :9] - 1.0]}
    status, found = compared(save("rollout", moved), save("train", listed))
    assert (status, found["first_difference"]["id"], found["first_difference"]["token"]) == (1, "1", 0)


@pytest.fixture
def folders(save: Any, tmp_path: Path) -> tuple[Path, Path]:
    """A rollout and a training; the second sequence differs from its second token on, in the second step."""
    logs = torch.tensor([[-1.0, -2.0, -3.0], [-1.0, -2.0, -9.0]])
    for name in ("rollout", "train"):
        for step in range(2):
            moved = torch.tensor([[0.0, 0.0, 0.0], [0.0, 2.0, 0.0]]) * (name == "rollout") * step
            mask = torch.tensor([[1, 1, 1], [1, 1, 0]])
            save(name, {"log_probs": (logs - moved).bfloat16(), "response_mask": mask, "reward": 1.0})
            SingleSave(str(tmp_path / name)).step()
    return tmp_path / "rollout", tmp_path / "train"


def test_tokens(folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "-tp", str(folders[0]), "-gp", str(folders[1]), "-o", str(tmp_path / "out")]
    assert run([*words, "--mask", "response_mask", "--fail-on", "diverged"]) == 1
    out = capsys.readouterr().out
    assert "log_probs: 5 sequences" not in out
    assert "log_probs: 4 sequences, 1 differ; largest gap 2 at step 1 rank 0 micro step 0 sequence 1 token 1" in out
    assert "First: step 1 rank 0 micro step 0 log_probs sequence 1 token 1" in out
    assert "reward: 2 values, 0 differ" in out
    rows = list(csv.DictReader((tmp_path / "out/token_comparison.csv").read_text("utf-8-sig").splitlines()))
    assert [(row["step"], row["sequence"], row["tokens"], row["level"]) for row in rows] == [
        ("0", "0", "3", "pass"), ("0", "1", "2", "pass"), ("0", "all", "5", "pass"),
        ("1", "0", "3", "pass"), ("1", "1", "2", "error"),
    ]  # fmt: skip
    assert (tmp_path / "out/token_comparison.xlsx").is_file()


def test_values(folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "-tp", str(folders[0]), "-gp", str(folders[1]), "-o", str(tmp_path / "out")]
    assert run(words) == 0
    out = capsys.readouterr().out
    assert "log_probs: 2 values, 1 differ" in out and "reward: 2 values, 0 differ" in out
    assert "First: step 1 rank 0 micro step 0 log_probs (" in out
    assert out.endswith("Verdict: DIVERGED\n")
    row = next(csv.DictReader((tmp_path / "out/log_probs.csv").read_text("utf-8-sig").splitlines()))
    assert row["note"] == "bfloat16, saved as float32"
    assert run(["compare", "-tp", str(folders[1]), "-gp", str(folders[1]), "-o", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.endswith("Verdict: SAME\n")


def test_a_damaged_file_is_no_pass(folders: tuple[Path, Path], tmp_path: Path, capsys: Any) -> None:
    damaged = folders[0] / "data/reward/step1/rank0/micro_step0/reward.npy"
    damaged.write_bytes(damaged.read_bytes()[:-3])
    words = ["compare", "-tp", str(folders[0]), "-gp", str(folders[0]), "-o", str(tmp_path / "out")]
    assert run([*words, "--fail-on", "diverged"]) == 1
    out = capsys.readouterr().out
    assert "Not compared: step 1 rank 0 micro step 0 reward: a file cannot be read" in out
    assert out.endswith("Verdict: INCOMPLETE\n")


def test_wrong_input(folders: tuple[Path, Path], save: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["compare", "-tp", str(folders[0]), "-gp", str(folders[1]), "-o", str(tmp_path / "out"), "--mask"]
    other = save("other", {"unlike": 1})
    for arguments, status, text in (
        ([*words, "absent"], 2, "no value is named absent; saved are log_probs, response_mask, reward"),
        ([*words, "reward"], 2, "no value has the shape of reward"),
        ([*words, "response_mask", "--computed-in", "int8"], 2, "--computed-in int8: give a floating-point type"),
        (["compare", "-tp", str(tmp_path), "-gp", str(tmp_path), "--mask", "m"], 2, "nothing that SingleSave wrote"),
        (["compare", "-tp", str(other), "-gp", str(folders[0])], 3, "hold no value of the same name"),
    ):
        assert run(arguments) == status, arguments
        error = capsys.readouterr().err
        assert text in error and error.count("\n") == 1


def test_a_mask_of_weights_is_a_value_too(save: Callable[[str, Values], Path], logits: torch.Tensor) -> None:
    values = values_of(logits, ids_of(logits))
    weights = values["mask"] * 0.5
    wrong = weights.clone()
    wrong[1, 3] = 0.75
    sides = save("target", {**values, "mask": wrong}), save("golden", {**values, "mask": weights})
    status, summary = compared(*sides, "--mask", "mask", "--fail-on", "diverged")
    assert (status, summary["verdict"]) == (1, "diverged")
    first = summary["first_difference"]
    assert (first["name"], first["sequence"], first["token"]) == ("mask", 1, 3)
