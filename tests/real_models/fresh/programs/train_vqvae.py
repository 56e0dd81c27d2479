"""The training script of the auto-encoder with codes: Adam with a warm-up, and a moving average of the weights."""

import copy
import math
import zlib

import task
import torch

STEPS = 3


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


@torch.no_grad()
def follow(average, model):
    for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
        slow.mul_(0.9).add_(fast, alpha=0.1)


def train(debugger, dtype="fp32", attention="eager"):
    model = build_model(attention)
    model.train()
    torch.manual_seed(1)
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.95), amsgrad=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (step + 1) / STEPS)
    losses = []
    for step in range(STEPS):
        inputs = task.batch(step)
        debugger.start(model)
        loss = task.loss(model, inputs)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimizer.step()
        schedule.step()
        follow(average, model)
        debugger.stop()
        debugger.step()
        losses.append(loss.item())
    return losses
