"""Features of modules: spectral norms of weights, entropy of attention, and how a router spreads tokens.

The features of weights are computed once a step, those of attention and routers with each call in training mode.
Nothing draws from the generators of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from msprobe.adapters.pytorch.compile.recompilation import is_traced
from msprobe.adapters.pytorch.monitor.own_hook import OwnHook
from msprobe.adapters.pytorch.runtime import TorchRuntime
from msprobe.adapters.pytorch.tensors.memory import with_memory
from msprobe.core.capture.containers import tensors_in
from msprobe.core.dump.record.error_boundary import ErrorLog
from msprobe.monitor.unrecorded import unrecorded
from msprobe.monitor.watch import FeatureReports, Remove

ITERATIONS = 30
_AXES_OF_ATTENTION = 4
_Computed = Mapping[str, torch.Tensor]
_Compute = Callable[[nn.Module, Sequence[Any], Any], "_Computed | None"]


def spectral(weight: torch.Tensor) -> _Computed:
    """Return the spectral norm of a matrix, and its Frobenius norm over that.

    Args:
        weight: of shape [rows, columns].

    The power iteration on ``W^T W`` (G. Golub, C. Van Loan, "Matrix Computations", section 8.2) begins with the row
    of the largest norm, so that it is the same in each run.
    """
    matrix = weight.float()
    one = matrix[matrix.norm(dim=1).argmax()]
    for _ in range(ITERATIONS):
        one = nn.functional.normalize(matrix.t() @ (matrix @ one), dim=0)
    largest = (matrix @ one).norm()
    return {"sr": matrix.norm() / largest, "kernel_norm": largest}


def attention(query: torch.Tensor, key: torch.Tensor, axes: str) -> _Computed:
    """Return entropy and largest probability of the rows of causal attention: means over its first head and sample.

    Args:
        query, key: with four axes in the order of ``axes``.
        axes: ``s,b,h,d`` or ``b,s,h,d``: sequence, batch, head, channel.
    """
    first = {"s": slice(None), "b": 0, "h": 0, "d": slice(None)}
    chosen = tuple(first[axis] for axis in axes.split(","))
    one, other = query[chosen].float(), key[chosen].float()
    scores = one @ other.t() / one.shape[-1] ** 0.5
    future = torch.ones_like(scores, dtype=torch.bool).triu(1 + other.shape[0] - one.shape[0])
    shares = scores.masked_fill(future, float("-inf")).softmax(dim=-1)
    return {"entropy": _entropy(shares), "softmax_max": shares.max(dim=-1).values.mean()}


def router_weight(weight: torch.Tensor) -> _Computed:
    """Return the mean cosine of two different rows of a matrix of shape [experts, channels]."""
    rows = nn.functional.normalize(weight.float(), dim=1)
    experts = rows.shape[0]
    cosines = rows @ rows.t()
    return {"router_weight_similarity": (cosines.sum() - cosines.trace()) / max(experts * (experts - 1), 1)}


def router_logits(logits: torch.Tensor) -> _Computed:
    """Return the mean entropy over the experts, which are the last axis."""
    return {"per_token_expert_entropy": _entropy(logits.float().softmax(dim=-1))}


def _entropy(shares: torch.Tensor) -> torch.Tensor:
    return torch.special.entr(shares).sum(dim=-1).mean()


def watch_features(
    kind: str, modules: Mapping[str, nn.Module], axes: str, reports: FeatureReports
) -> tuple[Remove, Sequence[str]]:
    """Report features of the modules that can have them; see ``monitor/watch.py:FeatureWatch``."""
    computes: dict[str, tuple[_Compute, Callable[[nn.Module], bool]]] = {
        "linear_hook": (_OfWeight(spectral), _has_matrix),
        "attention_hook": (_OfAttention(axes), _always),
        "moe_router_weight_hook": (_OfWeight(router_weight), _has_matrix),
        "moe_router_logit_hook": (_of_output, _always),
    }
    compute, suited = computes[kind]
    chosen = {name: module for name, module in modules.items() if suited(module)}
    hooks = _FeatureHooks(compute, reports)
    return hooks.attach(chosen), list(chosen)


class _FeatureHooks:
    """The hooks of one kind of feature."""

    def __init__(self, compute: _Compute, reports: FeatureReports) -> None:
        self.errors = ErrorLog(None)
        self._compute = compute
        self._reports = reports
        self._runtime = TorchRuntime()
        self._handles: list[Any] = []

    def attach(self, modules: Mapping[str, nn.Module]) -> Remove:
        for name, module in modules.items():
            self._handles.append(module.register_forward_hook(self._hook(name), with_kwargs=True))
        return self.remove

    def remove(self) -> None:
        while self._handles:
            self._handles.pop().remove()

    def _hook(self, name: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
            if module.training and not is_traced():
                self.end(name, module, (args, kwargs), result)

        return OwnHook(hook)

    @unrecorded
    def end(self, name: str, module: nn.Module, given: Any, result: Any) -> None:
        if self._runtime.recomputing() or not self._reports.wants(name):
            return
        with torch.no_grad():
            computed = self._compute(module, list(tensors_in(given, torch.Tensor)), result)
        if computed is not None:
            self._reports.take(name, computed)


class _OfWeight:
    """Computes features of the weight of a module."""

    def __init__(self, formula: Callable[[torch.Tensor], _Computed]) -> None:
        self._formula = formula

    def __call__(self, module: nn.Module, given: Sequence[Any], result: Any) -> _Computed | None:
        weight = with_memory(module.weight.detach())
        return None if weight is None or not weight.numel() else self._formula(weight)


class _OfAttention:
    """Computes features of the first two inputs of a module, which are query and key."""

    def __init__(self, axes: str) -> None:
        self._axes = axes

    def __call__(self, module: nn.Module, given: Sequence[Any], result: Any) -> _Computed | None:
        pair = [one for one in given[:2] if one.dim() == _AXES_OF_ATTENTION]
        return attention(pair[0].detach(), pair[1].detach(), self._axes) if len(pair) == len(given[:2]) == 2 else None


def _of_output(module: nn.Module, given: Sequence[Any], result: Any) -> _Computed | None:
    logits = next((one for one in tensors_in(result, torch.Tensor) if one.is_floating_point() and one.dim()), None)
    return None if logits is None else router_logits(logits.detach())


def _has_matrix(module: nn.Module) -> bool:
    weight = getattr(module, "weight", None)
    return isinstance(weight, torch.Tensor) and weight.dim() == 2


def _always(module: nn.Module) -> bool:
    return True
