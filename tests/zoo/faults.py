"""The planted faults: what is wrong, where, and which module a good tool names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MethodType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.zoo.model import Decoder, Gate, Training, sgd

ROOT = "Decoder"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Args:
        kind: what sort of mistake it is.
        plant: puts it into a healthy training.
        modules: path and class of the truly faulty module. More than one only where either answer is right: a call that
            is missing or in the wrong order is the caller's mistake and shows at the called module.
        api: for faults outside of every module, the API that is given the wrong thing.
        golden: the healthy run to compare with.
    """

    kind: str
    plant: Callable[[Training], None]
    modules: tuple[str, ...] = ()
    api: str | None = None
    golden: str = "adamw"


def _set(path: str, name: str, value: Any) -> Callable[[Training], None]:
    """Another value of an attribute of one module."""

    def plant(training: Training) -> None:
        module = training.model.get_submodule(path)
        assert getattr(module, name) != value
        setattr(module, name, value)

    return plant


def _method(path: str, name: str, function: Callable[..., Any]) -> Callable[[Training], None]:
    """Another code of a method of one module."""

    def plant(training: Training) -> None:
        module = training.model.get_submodule(path)
        assert callable(getattr(module, name))
        setattr(module, name, MethodType(function, module))

    return plant


def _weight(path: str, change: Callable[[Tensor], None], name: str = "weight") -> Callable[[Training], None]:
    """Another value of a parameter from the start."""

    def plant(training: Training) -> None:
        with torch.no_grad():
            change(training.model.get_submodule(path).get_parameter(name))

    return plant


def _training(**changes: Any) -> Callable[[Training], None]:
    def plant(training: Training) -> None:
        for name, value in changes.items():
            setattr(training, name, value)

    return plant


def _settings(**changes: Any) -> Callable[[Training], None]:
    return lambda training: training.settings.update(changes)


# What single methods and functions do wrong


class _NoProduct(torch.autograd.Function):
    """The gate whose gradient forgets the product rule."""

    forward = staticmethod(Gate.forward)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * torch.sigmoid(ctx.saved_tensors[0])


class _NanGradient(torch.autograd.Function):
    """The gate whose gradient has one NaN."""

    forward = staticmethod(Gate.forward)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        result = Gate.backward(ctx, grad).clone()
        result[0, 0, 0] = float("nan")
        return result


class _DoubledGradient(torch.autograd.Function):
    """Passes values on and doubles gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return 2 * grad


def _scores_unscaled(self: Any, query: Tensor, key: Tensor) -> Tensor:
    return torch.matmul(query, key.transpose(-2, -1))


def _scores_half(self: Any, query: Tensor, key: Tensor) -> Tensor:
    return torch.matmul(query.half(), key.half().transpose(-2, -1)).float() * self.scale


def _scores_tensor_scale(self: Any, query: Tensor, key: Tensor) -> Tensor:
    return torch.matmul(query, key.transpose(-2, -1)) * (self.scale * 1.001)


def _turn_doubled(self: Any, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    return _DoubledGradient.apply(self.rotary(query)), self.rotary(key)


def _turn_query_only(self: Any, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    return self.rotary(query), key


def _turn_detached(self: Any, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    return self.rotary(query), self.rotary(key.detach())


def _rotate_backwards(self: Any, x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * self.cos + second * self.sin, first * self.sin - second * self.cos), dim=-1)


def _merge_view(self: Any, mixed: Tensor) -> Tensor:
    return mixed.reshape(mixed.shape[0], mixed.shape[2], -1)


def _merge_twisted(self: Any, mixed: Tensor) -> Tensor:
    return mixed.transpose(1, 3).reshape(mixed.shape[0], mixed.shape[2], -1)


def _split_twisted(self: Any, x: Tensor) -> Tensor:
    return x.view(x.shape[0], x.shape[1], -1, self.heads).transpose(2, 3).transpose(1, 2)


def _activate_bf16(self: Any, x: Tensor) -> Tensor:
    return F.gelu(x.bfloat16().float(), approximate=self.approximate)


def _activate_clamped(self: Any, x: Tensor) -> Tensor:
    return F.gelu(x, approximate=self.approximate).clamp(max=0.5)


def _activate_relu(self: Any, x: Tensor) -> Tensor:
    return F.relu(x)


def _squeeze_late(self: Any, x: Tensor) -> Tensor:
    return torch.tanh((x * self.half_scale).half()).float() / self.half_scale


def _think_without_residual(self: Any, x: Tensor) -> Tensor:
    return self.mlp(self.mlp_norm(x))


def _think_wrong_residual(self: Any, x: Tensor) -> Tensor:
    normal = self.mlp_norm(x)
    return normal + self.mlp(normal)


def _think_without_norm(self: Any, x: Tensor) -> Tensor:
    return x + self.mlp(x)


def _think_detached(self: Any, x: Tensor) -> Tensor:
    return x + self.mlp(self.mlp_norm(x)).detach()


def _think_inplace(self: Any, x: Tensor) -> Tensor:
    return (x + self.mlp(self.mlp_norm(x))).add_(1e-2)


def _attend_hooked(self: Any, x: Tensor) -> Tensor:
    result = x + self.drop(self.attention(self.attention_norm(x)))
    result.register_hook(lambda grad: grad * 0.5)
    return result


def _attend_shifted(self: Any, x: Tensor) -> Tensor:
    return x + self.drop(self.attention(self.attention_norm(x))).roll(1, dims=1)


def _rms_mean_subtracted(self: Any, x: Tensor) -> Tensor:
    x = x - x.mean(dim=-1, keepdim=True)
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + self.eps) * self.weight


def _swap_rows(weight: Tensor) -> None:
    weight[[3, 7]] = weight[[7, 3]]


def _transpose(weight: Tensor) -> None:
    weight.copy_(weight.T.clone())


def _one_element(weight: Tensor) -> None:
    weight[3, 5] += 0.05


def _first_bias(bias: Tensor) -> None:
    bias[0] += 0.01


def _freeze(path: str) -> Callable[[Training], None]:
    return lambda training: training.model.get_submodule(path).weight.requires_grad_(False)


def _hook_parameter(path: str) -> Callable[[Training], None]:
    return lambda training: training.model.get_submodule(path).weight.register_hook(lambda grad: grad * 1.5)


def _rotary_base(training: Training) -> None:
    training.model.blocks[1].attention.rotary.fill(1_000.0)


def _corrupt_later(model: Decoder, step: int) -> None:
    if step == 1:
        with torch.no_grad():
            model.blocks[1].mlp.down.weight[0] *= 1.5


def _swap_blocks(training: Training) -> None:
    blocks = training.model.blocks
    blocks[0], blocks[1] = blocks[1], blocks[0]


def _sgd(training: Training) -> None:
    training.optimizer = sgd


def _momentum(training: Training) -> None:
    _sgd(training)
    training.settings["momentum"] = 0.8


GOLDEN: dict[str, Callable[[Training], None]] = {"adamw": lambda training: None, "sgd": _sgd}

_A0, _A1 = "blocks.0.attention.Attention", "blocks.1.attention.Attention"
_M0, _M1 = "blocks.0.mlp.MLP", "blocks.1.mlp.MLP"
_B0, _B1 = "blocks.0.Block", "blocks.1.Block"
_R1 = "blocks.1.attention.rotary.Rotary"

FAULTS: dict[str, Fault] = {
    "layernorm-eps": Fault("wrong constant", _set("blocks.1.mlp_norm", "eps", 1e-3), ("blocks.1.mlp_norm.LayerNorm",)),
    "rmsnorm-eps": Fault("wrong constant", _set("blocks.0.attention_norm", "eps", 1e-4), ("blocks.0.attention_norm.RMSNorm",)),
    "rope-base": Fault("wrong constant", _rotary_base, (_R1,)),
    "scale-off-by-permille": Fault("wrong constant", _method("blocks.1.attention", "scores", _scores_tensor_scale), (_A1,)),
    "softmax-axis": Fault("wrong constant", _set("blocks.0.attention", "softmax_dim", -2), (_A0,)),
    "mask-off-by-one": Fault("causal mask", _set("blocks.0.attention", "first_hidden", 2), (_A0,)),
    "mask-missing": Fault("causal mask", _method("blocks.1.attention", "mask", lambda self, scores: scores), (_A1,)),
    "scale-one": Fault("missing attention scale", _set("blocks.0.attention", "scale", 1.0), (_A0,)),
    "scale-missing": Fault("missing attention scale", _method("blocks.1.attention", "scores", _scores_unscaled), (_A1,)),
    "bf16-round-trip": Fault("precision cast", _method("blocks.0.mlp", "activate", _activate_bf16), (_M0,)),
    "fp16-scores": Fault("precision cast", _method("blocks.1.attention", "scores", _scores_half), (_A1,)),
    "transposed-weight": Fault("transposed weight", _weight("blocks.1.attention.out", _transpose), ("blocks.1.attention.out.Linear",)),
    "one-weight-element": Fault("wrong weight element", _weight("blocks.0.mlp.down", _one_element), ("blocks.0.mlp.down.Linear",)),
    "wrong-bias": Fault("wrong bias", _weight("blocks.1.mlp.up", _first_bias, "bias"), ("blocks.1.mlp.up.Linear",)),
    "embedding-rows-swapped": Fault("embedding row swapped", _weight("embed.tokens", _swap_rows), ("embed.tokens.Embedding",)),
    "weight-corrupted-later": Fault("wrong weight element", _training(meddle=_corrupt_later), ("blocks.1.mlp.down.Linear",)),
    "wrong-backward": Fault("wrong backward", _set("blocks.0.mlp.swish", "function", _NoProduct), ("blocks.0.mlp.swish.Swish",)),
    "doubled-backward": Fault("wrong backward", _method("blocks.1.attention", "turn", _turn_doubled), (_A1,)),
    "detached-key": Fault("detached branch", _method("blocks.0.attention", "turn", _turn_detached), (_A0,)),
    "detached-mlp": Fault("detached branch", _method("blocks.1", "think", _think_detached), (_B1,)),
    "gradient-hook": Fault("gradient hook", _method("blocks.0", "attend", _attend_hooked), (_B0,)),
    "parameter-hook": Fault("gradient hook", _hook_parameter("blocks.1.mlp.down"), ("blocks.1.mlp.down.Linear",)),
    "learning-rate": Fault("learning rate", _settings(lr=1.1e-2), ("optimizer",)),
    "weight-decay": Fault("weight decay", _settings(weight_decay=0.0), ("optimizer",)),
    "betas": Fault("momentum or betas", _settings(betas=(0.9, 0.99)), ("optimizer",)),
    "momentum": Fault("momentum or betas", _momentum, ("optimizer",), golden="sgd"),
    "clip-norm": Fault("gradient clipping", _training(clip=0.4), ("clip_grad",)),
    "dropout-on": Fault("dropout", _set("blocks.0.drop", "p", 0.1), ("blocks.0.drop.Dropout",)),
    "nan-forward": Fault("NaN", _set("blocks.1.attention", "first_hidden", 0), (_A1,)),
    "nan-backward": Fault("NaN", _set("blocks.1.mlp.swish", "function", _NanGradient), ("blocks.1.mlp.swish.Swish",)),
    "overflow": Fault("overflow in fp16", _set("blocks.0.mlp", "half_scale", 2.0**20), (_M0,)),
    "label-shift": Fault("index shift", _training(label_shift=2), api="Functional.cross_entropy"),
    "position-shift": Fault("index shift", _set("embed", "first", 1), ("embed.Embed",)),
    "rolled-residual": Fault("index shift", _method("blocks.1", "attend", _attend_shifted), (_B1,)),
    "merge-without-transpose": Fault("bad reshape", _method("blocks.0.attention", "merge", _merge_view), (_A0,)),
    "merge-transposed-twice": Fault("bad reshape", _method("blocks.1.attention", "merge", _merge_twisted), (_A1,)),
    "heads-and-channels-mixed": Fault("bad reshape", _method("blocks.0.attention", "split", _split_twisted), (_A0,)),
    "residual-dropped": Fault("residual dropped", _method("blocks.1", "think", _think_without_residual), (_B1,)),
    "residual-after-norm": Fault("residual dropped", _method("blocks.0", "think", _think_wrong_residual), (_B0,)),
    "gelu-tanh": Fault("wrong activation", _set("blocks.0.mlp", "approximate", "tanh"), (_M0,)),
    "relu-for-gelu": Fault("wrong activation", _method("blocks.1.mlp", "activate", _activate_relu), (_M1,)),
    "blocks-swapped": Fault("layer order", _swap_blocks, ("blocks.0.attention.query.Linear",)),
    "blocks-run-backwards": Fault(
        "layer order", _method("", "pile", lambda self: [self.blocks[1], self.blocks[0]]), (ROOT, "blocks.0.Block", "blocks.1.Block")
    ),
    "frozen-weight": Fault("frozen parameter", _freeze("blocks.0.mlp.up"), ("blocks.0.mlp.up.Linear",)),
    "extra-clamp": Fault("extra op", _method("blocks.1.mlp", "activate", _activate_clamped), (_M1,)),
    "extra-in-place": Fault("extra op", _method("blocks.0", "think", _think_inplace), (_B0,)),
    "mean-subtracted": Fault("extra op", _method("norm", "forward", _rms_mean_subtracted), ("norm.RMSNorm",)),
    "norm-missing": Fault("missing op", _method("blocks.1", "think", _think_without_norm), (_B1, "blocks.1.mlp_norm.LayerNorm")),
    "rotary-on-query-only": Fault("missing op", _method("blocks.1.attention", "turn", _turn_query_only), (_A1, _R1)),
    "rotary-sign": Fault("wrong formula", _method("blocks.1.attention.rotary", "forward", _rotate_backwards), (_R1,)),
    "scaled-after-tanh": Fault("wrong formula", _method("blocks.0.mlp", "squeeze", _squeeze_late), (_M0,)),
    "loss-sum": Fault("loss reduction", _training(reduction="sum"), api="Functional.cross_entropy"),
}
