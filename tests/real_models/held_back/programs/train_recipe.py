"""The training script of the forecast: accumulated gradients, a scaled loss, a schedule, two groups, an average."""

import math
import zlib

import task
import torch

STEPS = 3
PARTS = 2
WARMUP = 2


def initial(name, parameter):
    """Return the first value of a parameter, which follows from its name."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    noise = torch.randn(parameter.shape, generator=generator)
    if parameter.dim() < 2:
        return 1 + 0.1 * noise if name.endswith("weight") else 0.1 * noise
    return noise / math.sqrt(parameter[0].numel())


def build_model(attention):
    torch.manual_seed(0)
    model = task.build(attention)
    for name, parameter in model.named_parameters():
        parameter.data.copy_(initial(name, parameter))
    return model


def build_optimizer(model):
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=2e-3, betas=(0.9, 0.95))


def rate(step):
    return min(1.0, (step + 1) / WARMUP) * 0.5 ** max(0, step - WARMUP)


class Scaler:
    """Scales the loss, and the gradients back."""

    def __init__(self, scale):
        self.scale = scale

    def backward(self, loss):
        (loss * self.scale).backward()

    def unscale(self, parameters):
        for parameter in parameters:
            parameter.grad.mul_(1 / self.scale)


class Average:
    """Keeps a moving average of the parameters."""

    def __init__(self, model, decay):
        self.decay = decay
        self.kept = [p.detach().clone() for p in model.parameters()]

    @torch.no_grad()
    def update(self, model):
        for kept, parameter in zip(self.kept, model.parameters(), strict=True):
            kept.mul_(self.decay).add_(parameter, alpha=1 - self.decay)


def train(debugger, dtype="fp32", attention="eager"):
    model = build_model(attention)
    model.train()
    torch.manual_seed(1)
    optimizer = build_optimizer(model)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    scaler = Scaler(128.0)
    average = Average(model, 0.9)
    losses = []
    for step in range(STEPS):
        debugger.start(model)
        optimizer.zero_grad()
        for part in range(PARTS):
            loss = task.loss(model, task.batch(step, part))
            scaler.backward(loss / PARTS)
        scaler.unscale(model.parameters())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        schedule.step()
        average.update(model)
        debugger.stop()
        debugger.step()
        losses.append(loss.item())
    return losses
