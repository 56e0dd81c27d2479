"""Families of models, each with a training of a few steps, recorded at any level and in any precision."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from msprobe.pytorch import PrecisionDebugger
from tests.emulated.device import Device
from tests.fresh_debugger import forget

Model = nn.Module
Loss = Callable[[Any, int], Tensor]
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32, "fp64": torch.float64}


def _seeded(step: int) -> torch.Generator:
    return torch.Generator().manual_seed(100 + step)


def _text(step: int, vocabulary: int = 96, shape: tuple[int, int] = (3, 20)) -> Tensor:
    return torch.randint(2, vocabulary, shape, generator=_seeded(step))


def _language_loss(model: Any, step: int) -> Tensor:
    text = _text(step)
    return model(input_ids=text, labels=text).loss


def gpt2() -> tuple[Model, Loss]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=96, n_positions=32, n_embd=48, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=1)
    config.attn_pdrop = config.embd_pdrop = config.resid_pdrop = 0.0
    return GPT2LMHeadModel(config), _language_loss


def llama() -> tuple[Model, Loss]:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"vocab_size": 96, "hidden_size": 48, "intermediate_size": 96, "max_position_embeddings": 32}
    heads = {"num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2}
    return LlamaForCausalLM(LlamaConfig(**sizes, **heads, bos_token_id=0, eos_token_id=1)), _language_loss


def mixtral() -> tuple[Model, Loss]:
    from transformers import MixtralConfig, MixtralForCausalLM

    sizes = {"vocab_size": 96, "hidden_size": 48, "intermediate_size": 64, "max_position_embeddings": 32}
    heads = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    experts = {"num_local_experts": 4, "num_experts_per_tok": 2, "output_router_logits": True}
    return MixtralForCausalLM(MixtralConfig(**sizes, **heads, **experts)), _language_loss


def bert() -> tuple[Model, Loss]:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(vocab_size=96, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96)
    config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.0
    return BertForMaskedLM(config), _language_loss


def t5() -> tuple[Model, Loss]:
    from transformers import T5Config, T5ForConditionalGeneration

    sizes = {"vocab_size": 96, "d_model": 48, "d_kv": 12, "d_ff": 96, "num_layers": 2, "num_heads": 4}
    return T5ForConditionalGeneration(T5Config(**sizes, dropout_rate=0.0, decoder_start_token_id=0)), _language_loss


class ResNet(nn.Module):
    """Residual convolutions with batch norms; the convolutions have a bias, whose gradient is zero by mathematics."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
                nn.Conv2d(width, width, 3, padding=1),
                nn.BatchNorm2d(width),
            )
            for _ in range(3)
        )
        self.pool = nn.AdaptiveAvgPool2d(2)
        self.head = nn.Linear(width * 4, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = F.relu(x + block(x))
        return self.head(self.pool(x).flatten(1))


def _image_loss(model: Any, step: int) -> Tensor:
    dtype = next(model.parameters()).dtype
    images = torch.randn(4, 3, 12, 12, generator=_seeded(step)).to(dtype)
    labels = torch.randint(10, (4,), generator=_seeded(step))
    return F.cross_entropy(model(images), labels)


def resnet() -> tuple[Model, Loss]:
    return ResNet(), _image_loss


class UNet(nn.Module):
    """Down and up again with group norms, SiLU and a skip connection; predicts an image."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.GroupNorm(4, width), nn.SiLU())
        self.middle = nn.Sequential(
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.GroupNorm(4, 2 * width), nn.SiLU()
        )
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.out = nn.Sequential(nn.Conv2d(2 * width, width, 3, padding=1), nn.SiLU(), nn.Conv2d(width, 3, 1))

    def forward(self, x: Tensor) -> Tensor:
        skip = self.down(x)
        return self.out(torch.cat((skip, self.up(self.middle(skip))), 1))


def _denoise_loss(model: Any, step: int) -> Tensor:
    dtype = next(model.parameters()).dtype
    clean = torch.randn(2, 3, 16, 16, generator=_seeded(step)).to(dtype)
    noise = torch.randn(2, 3, 16, 16, generator=_seeded(step + 50)).to(dtype)
    return F.mse_loss(model(clean + 0.5 * noise), noise)


def unet() -> tuple[Model, Loss]:
    return UNet(), _denoise_loss


class Tagger(nn.Module):
    """A bidirectional LSTM over embedded tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(96, 24)
        self.lstm = nn.LSTM(24, 32, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, 7)

    def forward(self, text: Tensor) -> Tensor:
        return self.head(self.lstm(self.embed(text))[0])


def _tagger_loss(model: Any, step: int) -> Tensor:
    text = _text(step)
    return F.cross_entropy(model(text).flatten(0, 1), text.flatten() % 7)


def lstm() -> tuple[Model, Loss]:
    return Tagger(), _tagger_loss


class Encoder(nn.Module):
    """PyTorch's own transformer encoder on vectors, with attention in one function."""

    def __init__(self) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=False)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(x).mean(1))


def _vector_loss(model: Any, step: int) -> Tensor:
    x = torch.randn(4, 10, 32, generator=_seeded(step)).to(next(model.parameters()).dtype)
    return F.cross_entropy(model(x), torch.arange(4) % 5)


def encoder() -> tuple[Model, Loss]:
    return Encoder(), _vector_loss


FAMILIES: dict[str, Callable[[], tuple[Model, Loss]]] = {
    build.__name__: build for build in (gpt2, llama, mixtral, bert, t5, resnet, unet, lstm, encoder)
}
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adamw": lambda parameters, **s: torch.optim.AdamW(parameters, **{"lr": 3e-3, **s}),
    "sgd": lambda parameters, **s: torch.optim.SGD(parameters, **{"lr": 0.05, "momentum": 0.9, **s}),
    "rmsprop": lambda parameters, **s: torch.optim.RMSprop(parameters, **{"lr": 1e-3, **s}),
}


def train(
    folder: Path,
    family: str,
    precision: str = "fp32",
    device: str = "",
    level: str = "mix",
    steps: int = 3,
    optimizer: str = "adamw",
    change: Callable[[Any], None] | None = None,
    task: str = "statistics",
    settings: dict[str, Any] | None = None,
    clip: float | None = 1.0,
) -> list[float]:
    """Record a training of a family; ``precision`` is a dtype, or ``amp-`` and one. Return the losses."""
    forget()
    torch.manual_seed(0)
    model, loss_of = FAMILIES[family]()
    amp, dtype = precision.startswith("amp-"), DTYPES[precision.removeprefix("amp-")]
    if not amp:
        model.to(dtype)
    if change is not None:
        change(model)
    update = OPTIMIZERS[optimizer](model.parameters(), **(settings or {}))
    debugger = PrecisionDebugger({"dump_path": str(folder), "level": level, "task": task})
    losses = []
    with Device(device) if device else contextlib.nullcontext():
        for step in range(steps):
            debugger.start(model)
            update.zero_grad()
            with torch.autocast("cpu", dtype) if amp else contextlib.nullcontext():
                loss = loss_of(model, step)
            loss.backward()
            if clip is not None:
                torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
            update.step()
            debugger.stop()
            debugger.step()
            losses.append(loss.item())
    forget()
    return losses
