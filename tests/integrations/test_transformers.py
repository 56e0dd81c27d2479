"""The real ``transformers.Trainer`` with the callback; skipped where transformers or accelerate is not installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.fresh_debugger import forget

pytestmark = [pytest.mark.torch, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

transformers = pytest.importorskip("transformers", exc_type=ImportError)
pytest.importorskip("accelerate")
ROOT = Path(__file__).parents[2]


def llama() -> Any:
    torch.manual_seed(0)
    sizes = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 32, "max_position_embeddings": 32}
    heads = {"num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **heads))


def train(folder: str, callbacks: list[Any], accumulate: int = 1, **evaluation: Any) -> list[float]:
    line = torch.arange(8)
    arguments = transformers.TrainingArguments(
        folder,
        max_steps=2,
        per_device_train_batch_size=1,
        gradient_accumulation_steps=accumulate,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        logging_steps=1,
        **evaluation,
    )
    data = [{"input_ids": line, "labels": line}] * 8
    evaluated = data[:2] if evaluation else None
    trainer = transformers.Trainer(llama(), arguments, train_dataset=data, eval_dataset=evaluated, callbacks=callbacks)
    trainer.train()
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def test_each_optimizer_step_is_a_step_and_the_loss_is_the_same(bench: Any, tmp_path: Any) -> None:
    from msprobe.pytorch.integrations import TransformersCallback

    plain = train(str(tmp_path / "plain"), [], accumulate=2)
    observed = train(str(tmp_path / "observed"), [TransformersCallback(bench.config())], accumulate=2)
    assert observed == plain
    assert bench.folders() == ["step0/proc", "step1/proc"]
    names = bench.entries("step1/proc")
    assert {"Module.lm_head.Linear.forward.0", "Module.lm_head.Linear.forward.1"} <= set(names)
    assert "Module.lm_head.Linear.backward.1" in names


def test_a_training_script_that_knows_nothing_of_it(bench: Any, tmp_path: Path) -> None:
    """``msprobe run`` and a script with a Trainer: the losses are those of the script alone."""
    script = tmp_path / "train.py"
    script.write_text(
        "import sys; from tests.integrations.test_transformers import train; print(train(sys.argv[1], []))"
    )
    observed = observe(script, bench.config(level="mix"), "out")
    losses = [line for line in observed.splitlines() if line.startswith("[")]
    assert losses == [str(train(str(tmp_path / "alone"), []))]
    assert bench.folders() == ["step0/proc", "step1/proc"]
    for step in ("step0/proc", "step1/proc"):
        entries = bench.entries(step)
        for phase in ("forward.0", "backward.0", "parameters_grad.0"):
            assert f"Module.lm_head.Linear.{phase}" in entries
        assert any(name.startswith("Functional.") for name in entries)


def observe(script: Path, config: str, *arguments: str) -> str:
    """Run a script under ``msprobe run``, in a process that knows nothing of this one; returns what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}
    command = ["-m", "msprobe", "run", "--config", config, "--", sys.executable, str(script), *arguments]
    done = subprocess.run(
        [sys.executable, *command], cwd=script.parent, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


EVALUATION = {"eval_strategy": "steps", "eval_steps": 1, "eval_on_start": True}
EVALUATING = """
from tests.integrations.test_transformers import EVALUATION, train

train("out", [], accumulate=2, **EVALUATION)
"""


@pytest.mark.matrix("wide")
def test_evaluation_is_left_out_as_with_the_callback(bench: Any, tmp_path: Path) -> None:
    """The entries of ``msprobe run`` are those of the callback, whatever the trainer evaluates between steps."""
    from msprobe.pytorch.integrations import TransformersCallback

    script, config = tmp_path / "train.py", bench.config(level="mix")
    script.write_text(EVALUATING)
    entries = []
    for recorded in (
        lambda: train(str(tmp_path / "out"), [TransformersCallback(config)], accumulate=2, **EVALUATION),
        lambda: bench.run(script, level="mix"),
    ):
        recorded()
        forget()
        assert bench.folders() == ["step0/proc", "step1/proc"]
        entries.append([bench.entries(step) for step in ("step0/proc", "step1/proc")])
        shutil.rmtree(bench.dump)
    assert [list(step) for step in entries[0]] == [list(step) for step in entries[1]]
    assert "Module.lm_head.Linear.forward.1" in entries[1][1]
