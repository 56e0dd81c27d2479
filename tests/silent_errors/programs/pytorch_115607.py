"""PyTorch 115607: a compiled optimizer step stays frozen after it was compiled while all gradients were None.

The compiled step had no guard on which gradients exist. ``CompiledStep`` shows that: it captures the parameters that
have a gradient when it is first called, and runs the captured update from then on.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.silent_errors.frame import debugger, options


class CompiledStep:
    """A step of SGD with momentum, captured once for each set of guards."""

    def __init__(self, guarded: bool) -> None:
        self.guarded = guarded
        self.captured: dict[object, Callable[[], None]] = {}

    def __call__(self, optimizer: torch.optim.Optimizer) -> None:
        key = tuple(p.grad is None for group in optimizer.param_groups for p in group["params"]) if self.guarded else ()
        if key not in self.captured:
            self.captured[key] = self.capture(optimizer)
        self.captured[key]()

    def capture(self, optimizer: torch.optim.Optimizer) -> Callable[[], None]:
        (group,) = optimizer.param_groups
        parameters = [p for p in group["params"] if p.grad is not None]
        buffers = [optimizer.state[p].setdefault("momentum", torch.zeros_like(p)) for p in parameters]

        def run() -> None:
            for parameter, buffer in zip(parameters, buffers, strict=True):
                buffer.mul_(group["momentum"]).add_(parameter.grad)
                parameter.add_(buffer, alpha=-group["lr"])

        return run


class FastSGD(torch.optim.Optimizer):
    def __init__(self, parameters, lr: float, momentum: float, compiled: CompiledStep) -> None:
        super().__init__(parameters, {"lr": lr, "momentum": momentum})
        self.compiled = compiled

    @torch.no_grad()
    def step(self, closure=None):
        self.compiled(self)


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 4))
        self.decoder = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 32))

    def forward(self, x: Tensor) -> Tensor:
        return self.decoder(self.encoder(x))


def main() -> None:
    given = options()
    model = Autoencoder()
    optimizer = FastSGD(model.parameters(), 0.05, 0.9, CompiledStep(guarded=not given.fault))
    optimizer.step()  # warm-up, so that the first real step is fast
    probe = debugger(given)
    for _ in range(4):
        x = torch.randn(10, 32)
        probe.start(model)
        optimizer.zero_grad()
        F.mse_loss(model(x), x).backward()
        optimizer.step()  # planted
        probe.stop()
        probe.step()


if __name__ == "__main__":
    main()
