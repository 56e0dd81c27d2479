"""The training script of the translator: parts of a batch weighed by their words, a warm-up, a scaled loss."""

import math
import zlib

import task
import torch

STEPS = 3
PARTS = 2
SCALE = 64.0


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


def learn(model, step):
    batches = [task.batch(step, part) for part in range(PARTS)]
    words = sum((inputs["target"] != 0).sum() for inputs in batches)
    total = 0.0
    for inputs in batches:
        loss, _ = task.loss(model, inputs)
        loss = loss / words
        (loss * SCALE).backward()
        total += loss.item()
    return total


def train(debugger, dtype="fp32", attention="eager"):
    model = build_model(attention)
    model.train()
    torch.manual_seed(1)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, betas=(0.9, 0.98), eps=1e-9)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.25, total_iters=3)
    losses = []
    for step in range(STEPS):
        debugger.start(model)
        optimizer.zero_grad()
        loss = learn(model, step)
        for parameter in model.parameters():
            parameter.grad.div_(SCALE)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        schedule.step()
        debugger.stop()
        debugger.step()
        losses.append(loss)
    return losses
