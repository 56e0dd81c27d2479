"""What a program is in when it makes a call: the state of its random generators, and whether autograd records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True, eq=False, slots=True)
class ProgramState:
    """The state at one moment.

    Attributes:
        cpu: the state of the generator of the CPU.
        devices: the modules of the kinds of devices in use, each with the states of its generators.
        grad: whether autograd records. Kernels may be others where it does.
    """

    cpu: torch.Tensor
    devices: tuple[tuple[Any, list[torch.Tensor]], ...]
    grad: bool

    @classmethod
    def now(cls) -> ProgramState:
        """Return the present state."""
        modules = [module for kind in ("npu", "cuda") if (module := getattr(torch, kind, None)) is not None]
        used = [module for module in modules if module.is_available() and module.is_initialized()]
        states = tuple((module, module.get_rng_state_all()) for module in used)
        return cls(torch.get_rng_state(), states, torch.is_grad_enabled())

    def restore(self) -> None:
        """Give the generators this state."""
        torch.set_rng_state(self.cpu)
        for module, states in self.devices:
            module.set_rng_state_all(states)

    def has_same_numbers(self, other: ProgramState) -> bool:
        """Return whether the generators of two states draw the same numbers."""
        if not torch.equal(self.cpu, other.cpu) or len(self.devices) != len(other.devices):
            return False
        pairs = zip(self.devices, other.devices, strict=True)
        return all(len(own) == len(its) and all(map(torch.equal, own, its)) for (_, own), (_, its) in pairs)
