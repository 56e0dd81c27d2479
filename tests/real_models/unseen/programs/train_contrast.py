"""The training script of momentum contrast: SGD in two groups, a slow copy, a queue, a cosine schedule."""

import math
import zlib

import task
import torch

STEPS = 3


def initial(name, parameter):
    """Return the first value of a parameter, which follows from its name."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.removeprefix("slow.").removeprefix("encoder.").encode()))
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
    weights = [p for n, p in model.encoder.named_parameters() if p.dim() > 1]
    others = [p for n, p in model.encoder.named_parameters() if p.dim() == 1]
    groups = [{"params": weights, "weight_decay": 1e-2}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.SGD(groups, lr=0.05, momentum=0.9, nesterov=True)


def train(debugger, dtype="fp32", attention="eager"):
    model = build_model(attention)
    model.train()
    torch.manual_seed(1)
    optimizer = build_optimizer(model)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    losses = []
    for step in range(STEPS):
        inputs = task.batch(step)
        debugger.start(model)
        loss, key = task.loss(model, inputs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        model.follow()
        model.enqueue(key)
        debugger.stop()
        debugger.step()
        losses.append(loss.item())
    return losses
