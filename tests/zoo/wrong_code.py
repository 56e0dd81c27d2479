"""Code with a mistake in it: what a method, a gradient or a weight of a module of the zoo becomes."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.zoo.model import Gate


class NoProduct(torch.autograd.Function):
    """The gate whose gradient forgets the product rule."""

    forward = staticmethod(Gate.forward)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * torch.sigmoid(ctx.saved_tensors[0])


class NanGradient(torch.autograd.Function):
    """The gate whose gradient has one NaN."""

    forward = staticmethod(Gate.forward)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        result = Gate.backward(ctx, grad).clone()
        result[0, 0, 0] = float("nan")
        return result


class DoubledGradient(torch.autograd.Function):
    """Passes values on and doubles gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return 2 * grad


def scores_unscaled(self: Any, query: Tensor, key: Tensor) -> Tensor:
    return torch.matmul(query, key.transpose(-2, -1))


def scores_half(self: Any, query: Tensor, key: Tensor) -> Tensor:
    return torch.matmul(query.half(), key.half().transpose(-2, -1)).float() * self.scale


def scores_tensor_scale(self: Any, query: Tensor, key: Tensor) -> Tensor:
    return torch.matmul(query, key.transpose(-2, -1)) * (self.scale * 1.001)


def turn_doubled(self: Any, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    return DoubledGradient.apply(self.rotary(query)), self.rotary(key)


def turn_query_only(self: Any, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    return self.rotary(query), key


def turn_detached(self: Any, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    return self.rotary(query), self.rotary(key.detach())


def rotate_backwards(self: Any, x: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * self.cos + second * self.sin, first * self.sin - second * self.cos), dim=-1)


def merge_view(self: Any, mixed: Tensor) -> Tensor:
    return mixed.reshape(mixed.shape[0], mixed.shape[2], -1)


def merge_twisted(self: Any, mixed: Tensor) -> Tensor:
    return mixed.transpose(1, 3).reshape(mixed.shape[0], mixed.shape[2], -1)


def split_twisted(self: Any, x: Tensor) -> Tensor:
    return x.view(x.shape[0], x.shape[1], -1, self.heads).transpose(2, 3).transpose(1, 2)


def activate_bf16(self: Any, x: Tensor) -> Tensor:
    return F.gelu(x.bfloat16().float(), approximate=self.approximate)


def activate_clamped(self: Any, x: Tensor) -> Tensor:
    return F.gelu(x, approximate=self.approximate).clamp(max=0.5)


def activate_relu(self: Any, x: Tensor) -> Tensor:
    return F.relu(x)


def squeeze_late(self: Any, x: Tensor) -> Tensor:
    return torch.tanh((x * self.half_scale).half()).float() / self.half_scale


def squeeze_overflowing(self: Any, x: Tensor) -> Tensor:
    return torch.tanh(torch.exp((x * self.half_scale).half() * 40).log() / 40 / self.half_scale).float()


def forward_scaled(self: Any, text: Tensor) -> Tensor:
    x = self.embed(text) * 1.01
    for block in self.pile():
        x = block(x)
    return self.head(self.norm(x))


def think_without_residual(self: Any, x: Tensor) -> Tensor:
    return self.mlp(self.mlp_norm(x))


def think_wrong_residual(self: Any, x: Tensor) -> Tensor:
    normal = self.mlp_norm(x)
    return normal + self.mlp(normal)


def think_without_norm(self: Any, x: Tensor) -> Tensor:
    return x + self.mlp(x)


def think_detached(self: Any, x: Tensor) -> Tensor:
    return x + self.mlp(self.mlp_norm(x)).detach()


def think_inplace(self: Any, x: Tensor) -> Tensor:
    return (x + self.mlp(self.mlp_norm(x))).add_(1e-2)


def attend_hooked(self: Any, x: Tensor) -> Tensor:
    result = x + self.drop(self.attention(self.attention_norm(x)))
    result.register_hook(lambda grad: grad * 0.5)
    return result


def attend_shifted(self: Any, x: Tensor) -> Tensor:
    return x + self.drop(self.attention(self.attention_norm(x))).roll(1, dims=1)


def rms_mean_subtracted(self: Any, x: Tensor) -> Tensor:
    x = x - x.mean(dim=-1, keepdim=True)
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + self.eps) * self.weight


def swap_rows(weight: Tensor) -> None:
    weight[[3, 7]] = weight[[7, 3]]


def transpose(weight: Tensor) -> None:
    weight.copy_(weight.T.clone())


def one_element(weight: Tensor) -> None:
    weight[3, 5] += 0.05


def first_bias(bias: Tensor) -> None:
    bias[0] += 0.01
