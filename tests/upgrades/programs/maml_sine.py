"""Second-order MAML on sine regression, with learned step sizes per parameter and a multi-step outer loss."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call

INNER_STEPS = 3
META_BATCH = 6
SHOTS = 8


class FourierFeatures(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.register_buffer("freqs", 0.5 * torch.arange(1, count + 1, dtype=torch.float32))

    def forward(self, x):
        angle = x * self.freqs
        return torch.cat([torch.sin(angle), torch.cos(angle)], dim=-1)


class GatedBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.value = nn.Linear(width, width)
        self.gate = nn.Linear(width, width)

    def forward(self, x):
        h = self.norm(x)
        gate = torch.sigmoid(self.gate(h))
        return x + gate * torch.tanh(self.value(h))


class Regressor(nn.Module):
    def __init__(self, width=32, depth=2):
        super().__init__()
        self.features = FourierFeatures(4)
        self.stem = nn.Linear(8, width)
        self.blocks = nn.ModuleList(GatedBlock(width) for _ in range(depth))
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        h = F.silu(self.stem(self.features(x)))
        for block in self.blocks:
            h = block(h)
        return self.head(h)


class SineTasks:
    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def uniform(self, shape, low, high):
        return low + (high - low) * torch.rand(shape, generator=self.generator)

    def sample(self):
        amplitude = self.uniform((META_BATCH, 1, 1), 0.5, 2.0)
        phase = self.uniform((META_BATCH, 1, 1), 0.0, math.pi)
        x = self.uniform((META_BATCH, 2 * SHOTS, 1), -3.0, 3.0)
        y = amplitude * torch.sin(x + phase)
        return x[:, :SHOTS], y[:, :SHOTS], x[:, SHOTS:], y[:, SHOTS:]


def task_loss(model, params, x, y):
    prediction = functional_call(model, params, (x,))
    return F.mse_loss(prediction, y)


def adapt(model, params, log_rates, x, y):
    """The fast weights after every inner step."""
    trail = []
    for _ in range(INNER_STEPS):
        loss = task_loss(model, params, x, y)
        grads = torch.autograd.grad(loss, list(params.values()), create_graph=True)
        params = {
            name: value - log_rates[name.replace(".", "_")].exp() * grad
            for (name, value), grad in zip(params.items(), grads)
        }
        trail.append(params)
    return trail


def step_weights(epoch):
    """MAML++: early inner steps count less and less."""
    decayed = max(1.0 / INNER_STEPS - 0.05 * epoch, 0.05)
    weights = [decayed] * (INNER_STEPS - 1)
    return weights + [1.0 - sum(weights)]


def outer_loss(model, log_rates, batch, epoch):
    weights = step_weights(epoch)
    total = 0.0
    for support_x, support_y, query_x, query_y in zip(*batch):
        trail = adapt(model, dict(model.named_parameters()), log_rates, support_x, support_y)
        for weight, params in zip(weights, trail):
            total = total + weight * task_loss(model, params, query_x, query_y)
    return total / META_BATCH


def main():
    torch.manual_seed(11)
    model = Regressor()
    log_rates = nn.ParameterDict({
        name.replace(".", "_"): nn.Parameter(torch.full_like(p, math.log(0.02))) for name, p in model.named_parameters()
    })
    optimizer = torch.optim.Adam(
        [{"params": model.parameters(), "lr": 3e-3}, {"params": log_rates.parameters(), "lr": 1e-2}], eps=1e-3
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6, eta_min=1e-4)
    tasks = SineTasks(seed=5)
    for step in range(4):
        loss = outer_loss(model, log_rates, tasks.sample(), step)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        optimizer.step()
        schedule.step()
        print(f"step {step} loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
