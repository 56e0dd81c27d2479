"""Faults around optimizers and schedules: who holds a parameter, whether it moves, and how the rate changes."""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, OneCycleLR

from tests.silent_errors.frame import Options, debugger, options, recorded

STEPS = 3


class Residual(nn.Module):
    """A network of images that makes the projection of its shortcut when it first needs one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.short: nn.Module | None = None
        self.classes = nn.Linear(8, 5)

    def forward(self, image: Tensor) -> Tensor:
        if self.short is None:
            self.short = nn.Conv2d(3, 8, 1)
        x = self.second(F.relu(self.first(image))) + self.short(image)
        return self.classes(F.relu(x).mean((2, 3)))


def late_layer(given: Options) -> None:
    """A layer is made in the first forward pass, after the optimizer."""
    model = Residual()
    if not given.fault:
        model(torch.randn(1, 3, 8, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    if given.fault:
        model(torch.randn(1, 3, 8, 8))
    probe = debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            optimizer.zero_grad()
            F.cross_entropy(model(torch.randn(4, 3, 8, 8)), torch.randint(0, 5, (4,))).backward()  # planted: late_layer
            optimizer.step()


class Deep(nn.Module):
    """A perceptron of many layers."""

    def __init__(self, fault: bool) -> None:
        super().__init__()
        layers = [nn.Linear(16, 16) for _ in range(3)]
        self.layers = layers if fault else nn.ModuleList(layers)
        self.head = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = F.gelu(layer(x))  # planted: unregistered_layers
        return self.head(x)


def unregistered_layers(given: Options) -> None:
    """Layers are kept in a list of Python, so parameters() does not give them to the optimizer."""
    model = Deep(given.fault)
    optimizer, probe = torch.optim.NAdam(model.parameters(), lr=1e-3), debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            F.cross_entropy(model(torch.randn(6, 16)), torch.randint(0, 4, (6,))).backward()
            optimizer.step()
            optimizer.zero_grad()


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm_tokens, self.norm_channels = nn.LayerNorm(12), nn.LayerNorm(12)
        self.tokens, self.channels = nn.Linear(9, 9), nn.Linear(12, 12)

    def forward(self, x: Tensor) -> Tensor:
        x = x + F.silu(self.tokens(self.norm_tokens(x).mT)).mT
        return x + F.silu(self.channels(self.norm_channels(x)))


def groups_with_a_hole(given: Options) -> None:
    """Weights decay and biases do not; weights of norms are in neither group."""
    model = nn.ModuleDict({"blocks": nn.Sequential(Mixer(), Mixer()), "head": nn.Linear(12, 3)})
    named = list(model.named_parameters())
    decay = [p for name, p in named if p.dim() > 1]
    rest = [p for name, p in named if (name.endswith("bias") if given.fault else p.dim() < 2)]
    groups = [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3)
    probe = debugger(given)
    for _ in range(STEPS):
        x = torch.randn(4, 9, 12)
        with recorded(probe, model):
            optimizer.zero_grad()
            scores = model["head"](model["blocks"](x).mean(1))
            F.cross_entropy(scores, torch.randint(0, 3, (4,))).backward()
            optimizer.step()  # planted: groups_with_a_hole


def trains_the_copy(given: Options) -> None:
    """The optimizer holds the parameters of the average, not those of the model."""
    model = nn.Sequential(nn.Linear(10, 32), nn.Mish(), nn.LayerNorm(32), nn.Linear(32, 2))
    average = copy.deepcopy(model)
    held = average if given.fault else model
    optimizer, probe = torch.optim.RAdam(held.parameters(), lr=1e-2), debugger(given)
    for _ in range(STEPS):
        x = torch.randn(7, 10)
        with recorded(probe, model):
            model.zero_grad()
            F.huber_loss(model(x), x[:, :2]).backward()
            optimizer.step()  # planted: trains_the_copy
            with torch.no_grad():
                for mean, own in zip(average.parameters(), model.parameters(), strict=True):
                    mean.lerp_(own, 0.1)


def below_rounding(given: Options) -> None:
    """Weights in bfloat16 with updates far below their last digit never move; float32 masters would."""
    model = nn.Sequential(nn.Linear(24, 24), nn.GELU(), nn.Linear(24, 24), nn.GELU(), nn.Linear(24, 8))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.5)
    model = model.bfloat16() if given.fault else model
    optimizer, probe = torch.optim.Adam(model.parameters(), lr=1e-5), debugger(given)
    dtype = next(model.parameters()).dtype
    for _ in range(STEPS):
        with recorded(probe, model):
            optimizer.zero_grad()
            scores = model(torch.randn(8, 24, dtype=dtype)).float()
            F.cross_entropy(scores, torch.randint(0, 8, (8,))).backward()
            optimizer.step()  # planted: below_rounding


def resized_embedding(given: Options) -> None:
    """New words get an embedding of their own after the optimizer was made."""
    model = nn.ModuleDict({"words": nn.Embedding(20, 12), "body": nn.RNN(12, 16, batch_first=True)})
    model["guess"] = nn.Linear(16, 24)

    def resize() -> None:
        wider = nn.Embedding(24, 12)
        with torch.no_grad():
            wider.weight[:20] = model["words"].weight
        model["words"] = wider

    if not given.fault:
        resize()
    optimizer = torch.optim.Adamax(model.parameters(), lr=2e-3)
    if given.fault:
        resize()  # planted: resized_embedding
    probe = debugger(given)
    for _ in range(STEPS):
        words = torch.randint(0, 24, (5, 8))
        with recorded(probe, model):
            optimizer.zero_grad()
            hidden, _ = model["body"](model["words"](words[:, :-1]))
            F.cross_entropy(model["guess"](hidden).flatten(0, 1), words[:, 1:].flatten()).backward()
            optimizer.step()


def rate_written_back(given: Options) -> None:
    """The loop writes its own rate into the optimizer, and so undoes each step of the schedule."""
    model = nn.Sequential(nn.Linear(9, 20), nn.Tanh(), nn.Linear(20, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, weight_decay=1e-3)
    schedule, probe = CosineAnnealingLR(optimizer, 10), debugger(given)
    for _ in range(4):
        x = torch.randn(16, 9)
        with recorded(probe, model):
            optimizer.zero_grad()
            F.mse_loss(model(x), x.sum(-1, keepdim=True)).backward()
            optimizer.step()
            schedule.step()  # planted: rate_written_back
            if given.fault:
                for group in optimizer.param_groups:
                    group["lr"] = 0.2


def schedule_first(given: Options) -> None:
    """The schedule steps before the optimizer, so the first rate of the cycle is never used."""
    model = nn.Sequential(nn.Conv1d(4, 10, 3), nn.ReLU(), nn.Flatten(), nn.Linear(60, 5))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule, probe = OneCycleLR(optimizer, 1e-2, total_steps=30), debugger(given)
    for _ in range(STEPS):
        with recorded(probe, model):
            for _ in range(2):
                (F.cross_entropy(model(torch.randn(6, 4, 8)), torch.randint(0, 5, (6,))) / 2).backward()
            if given.fault:
                schedule.step()  # planted: schedule_first
            optimizer.step()
            optimizer.zero_grad()
            if not given.fault:
                schedule.step()


def warm_up_of_the_old_one(given: Options) -> None:
    """The warm-up drives an optimizer that was made again, after the layers were thawed."""
    model = nn.ModuleDict({"trunk": nn.Linear(11, 22), "tip": nn.Linear(22, 6)})
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    schedule = LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 10))
    if given.fault:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    probe = debugger(given)
    for _ in range(4):
        with recorded(probe, model):
            optimizer.zero_grad()
            hidden = F.leaky_relu(model["trunk"](torch.randn(5, 11)))
            F.cross_entropy(model["tip"](hidden), torch.randint(0, 6, (5,))).backward()
            optimizer.step()
            schedule.step()  # planted: warm_up_of_the_old_one


def clipped_before_the_pass(given: Options) -> None:
    """Gradients are clipped before the backward pass brings them, so nothing is ever clipped."""
    model = nn.Sequential(nn.Linear(6, 30), nn.Softplus(), nn.Linear(30, 6))
    optimizer, probe = torch.optim.SGD(model.parameters(), lr=0.01), debugger(given)
    for _ in range(STEPS):
        x = torch.randn(10, 6) * 5
        with recorded(probe, model):
            optimizer.zero_grad(set_to_none=False)
            loss = F.mse_loss(model(x), x)
            if given.fault:
                nn.utils.clip_grad_norm_(model.parameters(), 0.1)  # planted: clipped_before_the_pass
            loss.backward()
            if not given.fault:
                nn.utils.clip_grad_norm_(model.parameters(), 0.1)
            optimizer.step()


def clipped_before_unscaling(given: Options) -> None:
    """Gradients are clipped while they still carry the factor of the scaler, so each step is far too small."""
    model = nn.ModuleDict({"words": nn.EmbeddingBag(40, 16), "hidden": nn.Linear(16, 32), "out": nn.Linear(32, 4)})
    optimizer, probe = torch.optim.SGD(model.parameters(), lr=0.1), debugger(given)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    for _ in range(STEPS):
        words = torch.randint(0, 40, (8, 6))
        with recorded(probe, model):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                scores = model["out"](F.silu(model["hidden"](model["words"](words))))
                loss = F.cross_entropy(scores, torch.randint(0, 4, (8,)))
            scaler.scale(loss).backward()
            if not given.fault:
                scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)  # planted: clipped_before_unscaling
            scaler.step(optimizer)
            scaler.update()


PROGRAMS: dict[str, Callable[[Options], None]] = {
    each.__name__: each
    for each in (
        late_layer, unregistered_layers, groups_with_a_hole, trains_the_copy, below_rounding, resized_embedding,
        rate_written_back, schedule_first, warm_up_of_the_old_one, clipped_before_the_pass,
        clipped_before_unscaling,
    )
}  # fmt: skip

if __name__ == "__main__":
    given = options()
    PROGRAMS[given.name](given)
