"""The training script of the value network: RMSprop, clipped values, a slow copy renewed every second step."""

import math
import zlib

import task
import torch

STEPS = 4
PERIOD = 2


def initial(name, parameter):
    """Return the first value of a parameter, which follows from its name."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.removeprefix("slow.").removeprefix("online.").encode()))
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


def train(debugger, dtype="fp32", attention="eager"):
    model = build_model(attention)
    model.train()
    torch.manual_seed(1)
    optimizer = torch.optim.RMSprop(model.online.parameters(), lr=3e-3, alpha=0.95, eps=1e-2, centered=True)
    losses = []
    for step in range(STEPS):
        inputs = task.batch(step)
        debugger.start(model)
        loss = task.loss(model, inputs)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(model.online.parameters(), 0.05)
        optimizer.step()
        if (step + 1) % PERIOD == 0:
            model.synchronize()
        debugger.stop()
        debugger.step()
        losses.append(loss.item())
    return losses
