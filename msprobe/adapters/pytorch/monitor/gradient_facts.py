"""What the gradient probe keeps of one gradient of PyTorch."""

from __future__ import annotations

from typing import Any

import torch

from msprobe.adapters.pytorch.tensors.memory import with_memory
from msprobe.adapters.pytorch.tensors.tensor_ops import TorchTensorOps
from msprobe.core.config.sections import GradProbeSection
from msprobe.monitor.grad_probe.files import GradientFacts
from msprobe.monitor.grad_probe.signs import Signs

_OPS = TorchTensorOps(precision="high")


def gradient_facts(name: str, gradient: Any, section: GradProbeSection) -> GradientFacts:
    """Return statistics, and by the level a checksum, signs, or shares of intervals."""
    with torch.no_grad():
        plain = with_memory(gradient.detach())
        if plain is None:
            return GradientFacts(name, tuple(gradient.shape), None, None, None)
        level, bounds = section.grad_level, section.bounds
        node = _OPS.describe(plain, True)
        _OPS.settle()
        statistics = node.get("Max"), node.get("Min"), node.get("Norm")
        checksum = _OPS.checksum(plain.float(), "crc32") or "" if level == "L0" else ""
        host = plain if plain.is_cpu else plain.cpu()
        signs = None if level == "L0" else Signs.of(host.float().numpy())
        shares = _shares(plain, bounds) if level == "L2" else ()
    return GradientFacts(name, tuple(plain.shape), *statistics, checksum, signs, shares)


def _shares(gradient: torch.Tensor, bounds: tuple[float, ...]) -> tuple[float, ...]:
    """Return the share of elements in each interval, the right end included, then that of zeros."""
    elements = gradient.numel()
    if not elements:
        return (0.0,) * (len(bounds) + 2)
    flat = gradient.reshape(-1).float()
    ends = torch.tensor(bounds, dtype=torch.float32, device=flat.device)
    counts = torch.bincount(torch.bucketize(flat, ends), minlength=len(bounds) + 1)
    counted = [*counts.tolist(), int((flat == 0).sum())]
    return tuple(count / elements for count in counted)
