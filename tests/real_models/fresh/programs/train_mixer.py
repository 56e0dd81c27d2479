"""The training script of the mixer: weights of bfloat16 with float32 copies, a scaled loss in parts."""

import math
import zlib

import task
import torch

STEPS = 3
PARTS = 2
SCALE = 128.0
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def initial(name, parameter):
    """Return the first value of a parameter, which follows from its name."""
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    noise = torch.randn(parameter.shape, generator=generator)
    if parameter.dim() < 2:
        return 1 + 0.1 * noise if name.endswith("weight") else 0.1 * noise
    return noise / math.sqrt(parameter[0].numel())


def build_model(dtype, attention):
    torch.manual_seed(0)
    model = task.build(attention)
    for name, parameter in model.named_parameters():
        parameter.data.copy_(initial(name, parameter))
    return model.to(DTYPES[dtype])


class Lion(torch.optim.Optimizer):
    """Steps nearly along the sign of a mixture of gradient and momentum."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            fast, slow = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["momentum"] = torch.zeros_like(p)
                momentum = state["momentum"]
                update = (fast * momentum + (1 - fast) * p.grad).div(1e-3).tanh()
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_(update, alpha=-group["lr"])
                momentum.mul_(slow).add_(p.grad, alpha=1 - slow)


def learn(model, step):
    total = 0.0
    for part in range(PARTS):
        loss = task.loss(model, task.batch(step, part)) / PARTS
        (loss * SCALE).backward()
        total += loss.item()
    return total


@torch.no_grad()
def to_master(model, master):
    for p, q in zip(model.parameters(), master, strict=True):
        q.grad = p.grad.float() / SCALE
        p.grad = None


@torch.no_grad()
def from_master(model, master):
    for p, q in zip(model.parameters(), master, strict=True):
        p.copy_(q)


def train(debugger, dtype="bf16", attention="eager"):
    model = build_model(dtype, attention)
    model.train()
    torch.manual_seed(1)
    master = [p.detach().float().clone().requires_grad_(True) for p in model.parameters()]
    optimizer = Lion(master, lr=2e-3)
    losses = []
    for step in range(STEPS):
        debugger.start(model)
        loss = learn(model, step)
        to_master(model, master)
        torch.nn.utils.clip_grad_norm_(master, 1.0)
        optimizer.step()
        from_master(model, master)
        debugger.stop()
        debugger.step()
        losses.append(loss)
    return losses
