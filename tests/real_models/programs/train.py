"""The training script of all families: two steps with AdamW, recorded by a debugger."""

import math
import zlib
from contextlib import nullcontext

import task
import torch

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "autocast": torch.float32}
STEPS = 2


def initial(name, parameter):
    """Return the first value of a parameter, which follows from its name."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    noise = torch.randn(parameter.shape, generator=generator)
    if parameter.dim() < 2:
        return 1 + 0.1 * noise if name.endswith("weight") else 0.1 * noise
    return noise / math.sqrt(parameter[0].numel())


def initialize(model):
    for name, parameter in model.named_parameters():
        if name.split(".")[-1] not in task.KEPT:
            parameter.data.copy_(initial(name, parameter))


def build_model(dtype, attention):
    model = task.build(attention)
    initialize(model)
    return model.to(DTYPES[dtype])


def build_optimizer(model, dtype):
    eps = 1e-4 if dtype == "fp16" else 1e-8
    return torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=eps, weight_decay=0.1)


def learn(model, inputs, dtype):
    with torch.autocast("cpu", torch.bfloat16) if dtype == "autocast" else nullcontext():
        loss = task.loss(model, inputs)
    loss.backward()
    return loss


def to_dtype(inputs, dtype):
    return {
        name: value.to(DTYPES[dtype]) if torch.is_tensor(value) and value.is_floating_point() else value
        for name, value in inputs.items()
    }


def train(debugger, dtype="fp32", attention="eager"):
    torch.manual_seed(0)
    model = build_model(dtype, attention)
    model.train()
    torch.manual_seed(1)
    optimizer = build_optimizer(model, dtype)
    losses = []
    for step in range(STEPS):
        inputs = to_dtype(task.batch(step), dtype)
        debugger.start(model)
        optimizer.zero_grad()
        loss = learn(model, inputs, dtype)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        debugger.stop()
        debugger.step()
        losses.append(loss.item())
    return losses
