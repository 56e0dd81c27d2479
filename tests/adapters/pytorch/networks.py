"""Small models, each for one way in which modules can be put together."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


class Mlp(nn.Module):
    """Two layers with arithmetic between them."""

    def __init__(self, outputs: int = 2) -> None:
        super().__init__()
        self.fc1 = nn.Linear(4, 8)
        self.act = nn.ReLU()
        self.fc2 = nn.Linear(8, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc2(self.act(self.fc1(x)) * 2)


class Keywords(nn.Module):
    """A submodule called with a keyword argument."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(input=x * 2)


class Shared(nn.Module):
    """One submodule under two names, called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = self.first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))


class Inplace(nn.Module):
    """In-place activation and in-place arithmetic on a module's output."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.act = nn.ReLU(inplace=True)
        self.last = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.last(self.act(self.fc(x)))
        h += 1
        return h


class Checkpointed(nn.Module):
    """A block, inside a named module, that is computed again in the backward pass."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.head = nn.Linear(4, 4)
        self.block = Mlp(outputs=4)
        self.tail = nn.Linear(4, 4)
        self.reentrant = reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.tail(checkpoint(self.block, self.head(x), use_reentrant=self.reentrant))


class Nested(nn.Module):
    """A model around another, so that the inner one has a name."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


class Fragile(nn.Module):
    """A submodule that raises, caught by its caller, followed by one that does not."""

    def __init__(self) -> None:
        super().__init__()
        self.narrow = nn.Linear(3, 3)
        self.wide = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            self.narrow(x)
        except RuntimeError:
            x = F.gelu(x)
        return self.wide(x)


def trained_once(seed: int) -> list[list[float]]:
    """Return a layer's gradients and weights after one step; a process that is started can import this."""
    torch.manual_seed(seed)
    model = nn.Sequential(Mlp(), nn.Dropout(0.5))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.randn(3, 4)).square().sum().backward()
    optimizer.step()
    return [part.flatten().tolist() for p in model.parameters() for part in (p.grad, p)]
