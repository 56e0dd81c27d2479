"""Correct runs by the trainers of others, generation, and a script that knows nothing of msprobe."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from tests.silent_errors.frame import Options, debugger, options, recorded, settings

warnings.simplefilter("ignore")


def _hf(given: Options, **keys: Any) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

    from msprobe.pytorch.integrations import TransformersCallback

    config = LlamaConfig(
        vocab_size=40,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=16,
    )
    rows = [{"input_ids": row, "labels": row} for row in torch.randint(0, 40, (24, 8))]
    arguments = TrainingArguments(
        f"{given.out}_trainer",
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
        per_device_train_batch_size=2,
        **keys,
    )
    callback = TransformersCallback(settings(given))
    Trainer(
        LlamaForCausalLM(config), arguments, train_dataset=rows, eval_dataset=rows[:4], callbacks=[callback]
    ).train()


def hf(given: Options) -> None:
    """The trainer of transformers, one epoch that ends with the schedule."""
    _hf(given, num_train_epochs=1, max_steps=4, warmup_steps=1)


def hf_accumulating(given: Options) -> None:
    """With accumulation, an evaluation each step, and recomputation of activations."""
    _hf(
        given,
        num_train_epochs=1,
        gradient_accumulation_steps=5,
        eval_strategy="steps",
        eval_steps=1,
        gradient_checkpointing=True,
    )


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.norm, self.drop, self.out = (
            nn.Linear(8, 16),
            nn.BatchNorm1d(16),
            nn.Dropout(0.1),
            nn.Linear(16, 3),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.drop(torch.relu(self.norm(self.hidden(x)))))


def _fit(given: Options, module: Any, **keys: Any) -> None:
    import lightning

    from msprobe.pytorch.integrations import LightningCallback

    rows = [(torch.randn(8), torch.randint(0, 3, ())) for _ in range(24)]
    trainer = lightning.Trainer(
        accelerator="cpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=f"{given.out}_lightning",
        callbacks=[LightningCallback(settings(given))], **keys,
    )  # fmt: skip
    trainer.fit(module, DataLoader(rows, batch_size=6), DataLoader(rows[:6], batch_size=6))


def lightning(given: Options) -> None:
    """Lightning with validation, clipping and a schedule."""
    import lightning as pl

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = Classifier()

        def training_step(self, batch: Any, index: int) -> Tensor:
            return F.cross_entropy(self.model(batch[0]), batch[1])

        def validation_step(self, batch: Any, index: int) -> None:
            F.cross_entropy(self.model(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
            schedule = {"scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 8), "interval": "step"}
            return {"optimizer": optimizer, "lr_scheduler": schedule}

    _fit(given, Module(), max_epochs=1, gradient_clip_val=1.0)


def lightning_manual(given: Options) -> None:
    """Lightning with two optimizers by hand."""
    import lightning as pl

    class Pair(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False
            self.make, self.judge = (
                nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 8)),
                nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 1)),
            )

        def training_step(self, batch: Any, index: int) -> None:
            makes, judges = self.optimizers()
            made = self.make(torch.randn(6, 4))
            loss = F.softplus(-self.judge(batch[0])).mean() + F.softplus(self.judge(made.detach())).mean()
            judges.zero_grad()
            self.manual_backward(loss)
            judges.step()
            loss = F.softplus(-self.judge(made)).mean()
            makes.zero_grad()
            self.manual_backward(loss)
            makes.step()

        def configure_optimizers(self) -> Any:
            return [torch.optim.Adam(part.parameters(), lr=1e-3) for part in (self.make, self.judge)]

    _fit(given, Pair(), max_epochs=1, limit_val_batches=0)


def _generate(given: Options, **keys: Any) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=40, n_embd=16, n_layer=2, n_head=2, n_positions=32, bos_token_id=0, eos_token_id=None, pad_token_id=1
    )
    model, probe = GPT2LMHeadModel(config).eval(), debugger(given)
    for length in (3, 5, 5):
        prompt = torch.randint(2, 40, (2, length))
        with recorded(probe, model):
            model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=4, **keys)


def generate(given: Options) -> None:
    """Greedy answers with a cache of keys and values."""
    _generate(given, do_sample=False)


def sample(given: Options) -> None:
    """Drawn answers, two for each prompt, also shorter than allowed where the end is drawn."""
    _generate(given, do_sample=True, num_return_sequences=2, eos_token_id=5)


SCRIPT = """
import torch
from torch import nn

torch.manual_seed(3)
model = nn.Sequential(nn.Linear(6, 16), nn.LayerNorm(16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, 2))
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, total_steps=8)
for epoch in range(2):
    model.train()
    for _ in range(4):
        x = torch.randn(12, 6)
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(x), (x[:, 0] > 0).long())
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
    model.eval()
    with torch.no_grad():
        model(torch.randn(12, 6))
"""


def unchanged_script(given: Options) -> None:
    """A script that is run by ``msprobe run``."""
    folder = Path(given.out).parent
    (folder / "train.py").write_text(SCRIPT, encoding="utf-8")
    (folder / "config.json").write_text(json.dumps(settings(given)), encoding="utf-8")
    words = [sys.executable, "-m", "msprobe", "run", "--config", "config.json", "--", sys.executable, "train.py"]
    subprocess.run(words, cwd=folder, env=dict(os.environ), check=True)


PROGRAMS: dict[str, Callable[[Options], None]] = {
    each.__name__: each
    for each in (hf, hf_accumulating, lightning, lightning_manual, generate, sample, unchanged_script)
}

if __name__ == "__main__":
    given = options()
    PROGRAMS[given.name](given)
