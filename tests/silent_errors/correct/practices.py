"""Correct trainings with what people do around a loop, each of which looks like an error to a hasty rule."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from msprobe.pytorch import PrecisionDebugger
from tests.silent_errors.frame import Options, debugger, options, recorded

WORDS, WIDTH, STEPS = 40, 16, 3


class Block(nn.Module):
    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 2, dropout=dropout, batch_first=True)
        self.up, self.down, self.drop = nn.Linear(WIDTH, 32), nn.Linear(32, WIDTH), nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        normed = self.norm1(x)
        x = x + self.attention(normed, normed, normed, attn_mask=mask, is_causal=True, need_weights=False)[0]
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))


class Language(nn.Module):
    """A small model of text."""

    def __init__(self, layers: int = 2, dropout: float = 0.0, *, tied: bool = False, recompute: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block(dropout) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.recompute, self.keep = recompute, 1.0
        if tied:
            self.head.weight = self.embed.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        for block in self.blocks:
            if self.training and self.keep < 1.0 and torch.rand(()) > self.keep:
                continue
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return self.head(self.norm(x))


def text(batch: int = 4) -> Tensor:
    return torch.randint(0, WORDS, (batch, 9))


def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def adamw(model: nn.Module, lr: float = 1e-3) -> torch.optim.Optimizer:
    """Return the optimizer with the usual two groups: no decay of biases and norms."""
    trained = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.dim() > 1]},
        {"params": [p for p in trained if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=lr)


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    optimizer.zero_grad()
    loss_of(model, text()).backward()
    optimizer.step()


def plain(
    given: Options,
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None = None,
    after: Callable[[], object] = lambda: None,
) -> None:
    optimizer = optimizer or adamw(model)
    probe = debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            step(model, optimizer)
            after()


def accumulation(given: Options) -> None:
    """Each step sums the gradients of four micro batches."""
    model = Language()
    optimizer, probe = adamw(model), debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            for _ in range(4):
                (loss_of(model, text()) / 4).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)


class LoRA(nn.Module):
    """Adds a product of two thin matrices to a layer that stays as it is; the second begins at zero."""

    def __init__(self, base: nn.Linear, rank: int = 2) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a, self.b = nn.Linear(base.in_features, rank, bias=False), nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.b.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + self.b(self.a(x)) * 2.0


def lora(given: Options) -> None:
    """Adapters on a frozen model."""
    model = Language().requires_grad_(False)
    for block in model.blocks:
        block.up, block.down = LoRA(block.up), LoRA(block.down)
    plain(given, model, adamw(model))


def tying(given: Options) -> None:
    """The head is the embedding."""
    plain(given, Language(tied=True))


class Experts(nn.Module):
    """Eight experts, of which a batch may leave some out."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.router = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, 8, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 24), nn.SiLU(), nn.Linear(24, WIDTH)) for _ in range(8)
        )
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        flat = x.flatten(0, 1)
        weight, choice = self.router(flat).softmax(-1).max(-1)
        result = torch.zeros_like(flat)
        for number, expert in enumerate(self.experts):
            rows = (choice == number).nonzero().flatten()
            if len(rows):
                result = result.index_add(0, rows, expert(flat[rows]) * weight[rows, None])
        return self.head(x + result.view_as(x))


def unused_experts(given: Options) -> None:
    """Few tokens, so that some experts get none in some steps."""
    model = Experts()
    optimizer, probe = adamw(model), debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            optimizer.zero_grad()
            loss_of(model, text(1)).backward()
            optimizer.step()


def validation(given: Options) -> None:
    """An evaluation lies in every recorded step, with dropout off."""
    model = Language(dropout=0.2)
    optimizer, probe = adamw(model), debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            model.train()
            step(model, optimizer)
            model.eval()
            with torch.no_grad():
                loss_of(model, text())


def warm_up(given: Options) -> None:
    """The rate of the first step is zero."""
    model = Language()
    optimizer = adamw(model)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda number: min(number / 4, 1.0))
    plain(given, model, optimizer, scheduler.step)


def ema(given: Options) -> None:
    """A copy of the model follows as a moving average."""
    model = Language()
    slow = copy.deepcopy(model).requires_grad_(False).eval()
    both = nn.ModuleDict({"model": model, "slow": slow})

    @torch.no_grad()
    def follow() -> None:
        for old, new in zip(slow.parameters(), model.parameters(), strict=True):
            old.mul_(0.99).add_(new, alpha=0.01)

    optimizer, probe = adamw(model), debugger(given)
    for _ in range(STEPS):
        with recorded(probe, both):
            step(model, optimizer)
            follow()
            with torch.no_grad():
                loss_of(slow, text())


def _images(frozen: bool) -> nn.Sequential:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(8 * 16, 4),
    )
    model[1].eval().requires_grad_(not frozen)
    return model


def frozen_norm(given: Options) -> None:
    """The first batch norm keeps the statistics of an earlier training, on purpose."""
    model = _images(frozen=True)
    model[0].requires_grad_(False)
    optimizer, probe = adamw(model), debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            optimizer.zero_grad()
            F.cross_entropy(model(torch.randn(6, 3, 8, 8)), torch.randint(0, 4, (6,))).backward()
            optimizer.step()


def transfer(given: Options) -> None:
    """All but the last layer is frozen, with ``requires_grad`` alone, as in the tutorial of torch on transfer
    learning."""
    model = _images(frozen=False)
    model.train()
    for parameter in model.parameters():
        parameter.requires_grad = False
    model[-1] = nn.Linear(8 * 16, 2)
    optimizer, probe = torch.optim.SGD(model[-1].parameters(), lr=0.001, momentum=0.9), debugger(given)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=7, gamma=0.1)
    for _ in range(STEPS):
        with recorded(probe, model):
            optimizer.zero_grad()
            F.cross_entropy(model(torch.randn(6, 3, 8, 8)), torch.randint(0, 2, (6,))).backward()
            optimizer.step()
    scheduler.step()


def recomputation(given: Options) -> None:
    """Activations are computed again in backward, with the same dropout."""
    plain(given, Language(dropout=0.1, recompute=True))


def compiled(given: Options) -> None:
    """The model runs as compiled code."""
    model = Language()
    fast = torch.compile(model, backend="eager")
    optimizer, probe = adamw(model), debugger(given)
    for _ in range(STEPS):
        with recorded(probe, fast):
            optimizer.zero_grad()
            loss_of(fast, text()).backward()
            optimizer.step()


def resume(given: Options) -> None:
    """After two steps the model and its optimizer come from a checkpoint."""
    model = Language()
    optimizer, probe = adamw(model), debugger(given)
    for number in range(4):
        if number == 2:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder, "checkpoint.pt")
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
                saved = torch.load(file, weights_only=True)
            model = Language()
            model.load_state_dict(saved["model"])
            optimizer = adamw(model)
            optimizer.load_state_dict(saved["optimizer"])
        with recorded(probe, model):
            step(model, optimizer)


def lbfgs(given: Options) -> None:
    """An optimizer that calls the model several times in a step."""
    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.5, max_iter=4)
    x = torch.randn(30, 6)
    y = x.square().sum(-1, keepdim=True)
    probe = debugger(given)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss

    for _ in range(STEPS):
        with recorded(probe, model):
            optimizer.step(closure)


def layer_drop(given: Options) -> None:
    """Whole layers are left out at random."""
    model = Language(layers=4)
    model.keep = 0.7
    plain(given, model)


def spectral_norm(given: Options) -> None:
    """A normalised layer that is trained before it is evaluated."""
    model = nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(8, 16)), nn.ReLU(), nn.Linear(16, 1))
    optimizer, probe = torch.optim.SGD(model.parameters(), lr=0.1), debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            optimizer.zero_grad()
            model(torch.randn(5, 8)).square().mean().backward()
            optimizer.step()


def scaler(given: Options) -> None:
    """Losses are scaled, at first so much that float16 gradients are infinite: the scaler leaves those steps out."""
    model = Language()
    optimizer, probe = adamw(model), debugger(given)
    scale = torch.amp.GradScaler("cpu", init_scale=2.0**26, backoff_factor=2.0**-6)
    for _ in range(4):
        with recorded(probe, model):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                loss = loss_of(model, text())
            scale.scale(loss).backward()
            scale.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scale.step(optimizer)
            scale.update()


def growing(given: Options) -> None:
    """Layers are released one after another, and the optimizer gets them."""
    model = Language().requires_grad_(False)
    model.head.requires_grad_(True)
    optimizer, probe = torch.optim.SGD(model.head.parameters(), lr=0.05), debugger(given)
    for number in range(STEPS):
        if number == 1:
            model.blocks[1].requires_grad_(True)
            optimizer.add_param_group({"params": list(model.blocks[1].parameters()), "lr": 0.01})
        with recorded(probe, model):
            step(model, optimizer)


def workers(given: Options) -> None:
    """A data loader with workers, shuffled, over two epochs."""
    data = DataLoader(TensorDataset(torch.randint(0, WORDS, (16, 9))), batch_size=8, shuffle=True, num_workers=2)
    model = Language()
    optimizer = adamw(model)
    probe: PrecisionDebugger = debugger(given)
    for _ in range(2):
        for (tokens,) in data:
            with recorded(probe, model):
                optimizer.zero_grad()
                loss_of(model, tokens).backward()
                optimizer.step()


PROGRAMS: dict[str, Callable[[Options], None]] = {
    each.__name__: each
    for each in (
        accumulation, lora, tying, unused_experts, validation, warm_up, ema, frozen_norm, transfer, recomputation,
        compiled,
        resume, lbfgs, layer_drop, spectral_norm, scaler, growing, workers,
    )
}  # fmt: skip

if __name__ == "__main__":
    given = options()
    PROGRAMS[given.name](given)
