"""Functions of torch that are recorded and of which torch has no samples: one call of each, in any dtype of floats.

A call is an expression of a few lines, by the name of the function. ``call_all`` makes those that have a kernel, and
``run_again`` judges their records as ``acc_check`` does.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from msprobe.adapters.pytorch.replay.runner import make_replayer
from msprobe.core.backend.replaying import CannotReplayError
from msprobe.core.store.reader import only_dump
from msprobe.numerics.kinds import Level
from msprobe.replay.cases import cases_of, prepare
from msprobe.replay.judged_call import judge_call

Make = Callable[..., torch.Tensor]
Call = Callable[[], Any]


def call_all(dtype: torch.dtype) -> tuple[set[str], set[str]]:
    """Call each function; return the names of those that ran, and of those without a kernel for the dtype."""
    torch.manual_seed(0)
    ran, lacking = set(), set()
    for name, call in calls(dtype):
        try:
            result = call()
        except (RuntimeError, NotImplementedError):
            lacking.add(name)
            continue
        ran.add(name)
        floats = [each for each in _tensors(result) if each.requires_grad and each.is_floating_point()]
        if floats:
            with contextlib.suppress(RuntimeError, NotImplementedError):  # a forward kernel alone
                sum(each.float().sum() for each in floats).backward()  # type: ignore[union-attr]
    return ran, lacking


def run_again(dump: Path) -> dict[str, list[str]]:
    """Run the recorded calls of a dump again; return the values with an error by the name of each function that ran."""
    replayer = make_replayer()
    found: dict[str, list[str]] = {}
    for case in cases_of(only_dump(dump)):
        try:
            answer = judge_call(prepare(case), replayer, "cpu")
        except CannotReplayError:
            continue
        values = (*answer.forward, *answer.backward)
        wrong = [f"{case.name} {value.slot}" for value in values if value.conditioned.level is Level.ERROR]
        found.setdefault(case.api.api, []).extend(wrong)
    return found


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)


def calls(dtype: torch.dtype) -> Iterator[tuple[str, Call]]:
    """Yield each function's name and a call of it."""

    def x(*shape: int) -> torch.Tensor:
        return torch.randn(*shape).to(dtype).requires_grad_()

    def plain(*shape: int) -> torch.Tensor:
        return torch.rand(*shape).add(0.5).to(dtype)

    yield from _operators(x, plain)
    yield from _foreach(plain)
    yield from _layers(x, plain)
    yield from _pools(x)
    yield from _cells(x)
    yield from _random(x, plain)


def _operators(x: Make, plain: Make) -> Iterator[tuple[str, Call]]:
    flags, counts = torch.tensor([1, 0, 3]), torch.tensor([4, 8, 2])

    def written() -> torch.Tensor:
        values = plain(3, 4)
        values[1] = 2.0
        return values

    yield "__and__", lambda: flags & counts
    yield "__or__", lambda: flags | counts
    yield "__iand__", lambda: flags.clone().__iand__(counts)
    yield "__ior__", lambda: flags.clone().__ior__(counts)
    yield "__rshift__", lambda: counts >> 1
    yield "__irshift__", lambda: counts.clone().__irshift__(1)
    yield "__floordiv__", lambda: plain(5) // 0.3
    yield "__ifloordiv__", lambda: plain(5).__ifloordiv__(0.3)
    yield "__truediv__", lambda: x(5) / plain(5)
    yield "__setitem__", written
    yield "_add_relu", lambda: torch._VF._add_relu(plain(5), plain(5))
    yield "_aminmax", lambda: torch._aminmax(plain(4, 5))
    yield "affine_grid_generator", lambda: torch.affine_grid_generator(x(2, 2, 3), (2, 1, 3, 4), False)
    yield "chain_matmul", lambda: torch.chain_matmul(x(3, 4), x(4, 5), x(5, 2))
    yield "fill_diagonal_", lambda: plain(4, 4).fill_diagonal_(2.0)
    yield "frobenius_norm", lambda: torch.frobenius_norm(x(3, 4), dim=(0, 1))
    yield "nuclear_norm", lambda: torch.nuclear_norm(x(3, 4))
    yield "native_norm", lambda: torch.native_norm(plain(3, 4))
    yield "norm_except_dim", lambda: torch.norm_except_dim(x(3, 4), 2, 0)
    yield "range", lambda: torch.range(0, 4)
    yield "type_as", lambda: x(3).type_as(torch.zeros(1, dtype=torch.float64))
    yield "unsafe_split_with_sizes", lambda: torch.unsafe_split_with_sizes(x(5, 2), [2, 3])
    yield "map_", lambda: plain(3).map_(plain(3), lambda own, other: own + other)
    yield "map2_", lambda: plain(3).map2_(plain(3), plain(3), lambda own, one, two: own + one * two)
    for window in ("bartlett_window", "blackman_window", "hamming_window", "hann_window", "kaiser_window"):
        yield window, lambda window=window: getattr(torch, window)(8)
    sparse = torch.eye(3).to_sparse()
    yield "smm", lambda: torch.smm(sparse, torch.rand(3, 2))
    yield "spmm", lambda: torch.spmm(sparse, torch.rand(3, 2))
    yield "hspmm", lambda: torch.hspmm(sparse, torch.rand(3, 2))
    yield "saddmm", lambda: torch.saddmm(torch.rand(3, 2), sparse, torch.rand(3, 2))
    yield "sspaddmm", lambda: torch.sspaddmm(sparse, sparse, torch.rand(3, 3))
    yield "dsmm", lambda: torch.dsmm(torch.rand(3, 3), torch.rand(3, 2))
    yield "hsmm", lambda: torch.hsmm(sparse, torch.rand(3, 2))
    yield "sparse_coo_tensor", lambda: torch.sparse_coo_tensor(torch.tensor([[0, 1]]), torch.rand(2), (3,))


def _foreach(plain: Make) -> Iterator[tuple[str, Call]]:
    def group() -> list[torch.Tensor]:
        return [plain(3), plain(2, 2)]

    for name in ("abs", "neg", "sqrt", "reciprocal", "rsqrt", "sign", "zero"):
        for ending in ("", "_"):
            function = getattr(torch, f"_foreach_{name}{ending}", None)
            if function is not None:
                yield f"_foreach_{name}{ending}", lambda function=function: function(group())
    for name in ("add", "sub", "mul", "div", "maximum", "clamp_max", "clamp_min", "pow", "copy"):
        for ending in ("", "_"):
            function = getattr(torch, f"_foreach_{name}{ending}", None)
            if function is not None:
                yield f"_foreach_{name}{ending}", lambda function=function: function(group(), group())
    for name in ("addcdiv", "addcmul", "lerp"):
        for ending in ("", "_"):
            function = getattr(torch, f"_foreach_{name}{ending}")
            yield f"_foreach_{name}{ending}", lambda function=function: function(group(), group(), group())
    yield "_foreach_norm", lambda: torch._foreach_norm(group())
    flags = {"lr": 0.1, "weight_decay": 0.01, "maximize": False}
    adam = {**flags, "beta1": 0.9, "beta2": 0.99, "eps": 1e-8, "amsgrad": False}
    steps = [torch.ones(()), torch.ones(())]
    yield (
        "_fused_adam_",
        lambda: torch._fused_adam_(group(), group(), group(), group(), [], [s.clone() for s in steps], **adam),
    )
    yield (
        "_fused_adamw_",
        lambda: torch._fused_adamw_(group(), group(), group(), group(), [], [s.clone() for s in steps], **adam),
    )
    yield (
        "_fused_sgd_",
        lambda: torch._fused_sgd_(
            group(), group(), group(), **flags, momentum=0.9, dampening=0.0, nesterov=False, is_first_step=False
        ),
    )
    yield (
        "_fused_adagrad_",
        lambda: torch._fused_adagrad_(
            group(), group(), group(), [s.clone() for s in steps], **flags, lr_decay=0.0, eps=1e-8
        ),
    )


def _layers(x: Make, plain: Make) -> Iterator[tuple[str, Call]]:
    def statistics() -> tuple[torch.Tensor, torch.Tensor]:
        return plain(4), plain(4)

    conv = ((1, 1), (0, 0), (1, 1), False, (0, 0), 1)
    yield (
        "_convolution",
        lambda: torch._convolution(x(2, 3, 5, 5), x(4, 3, 3, 3), plain(4), *conv, False, False, True, True),
    )
    yield "convolution", lambda: torch.convolution(x(2, 3, 5, 5), x(4, 3, 3, 3), plain(4), *conv)
    yield "conv_tbc", lambda: torch.conv_tbc(x(6, 2, 3), x(2, 3, 4), plain(4))
    yield (
        "_batch_norm_impl_index",
        lambda: torch._batch_norm_impl_index(x(5, 4), plain(4), plain(4), *statistics(), True, 0.1, 1e-5, False)[:3],
    )
    yield "batch_norm_update_stats", lambda: torch.batch_norm_update_stats(plain(5, 4), *statistics(), 0.1)
    yield "affine_grid", lambda: F.affine_grid(x(2, 2, 3), [2, 1, 3, 4], align_corners=False)
    yield "grid_sampler", lambda: torch.grid_sampler(x(1, 2, 4, 4), plain(1, 3, 3, 2) * 0.5, 0, 0, False)
    yield "fold", lambda: F.fold(x(1, 12, 9), (4, 4), (2, 2))
    yield "upsample", lambda: F.upsample(x(1, 2, 4, 4), scale_factor=2)
    yield "embedding_renorm_", lambda: torch.embedding_renorm_(plain(5, 3), torch.tensor([1, 2]), 0.5, 2.0)


def _pools(x: Make) -> Iterator[tuple[str, Call]]:
    shapes = {1: (2, 3, 8), 2: (2, 3, 8, 8), 3: (2, 3, 8, 8, 8)}
    yield "_adaptive_avg_pool2d", lambda: torch._adaptive_avg_pool2d(x(*shapes[2]), (2, 2))
    for dims, shape in shapes.items():
        maximum = getattr(F, f"max_pool{dims}d_with_indices")
        adaptive = getattr(F, f"adaptive_max_pool{dims}d_with_indices")
        yield f"max_pool{dims}d_with_indices", lambda maximum=maximum, shape=shape: maximum(x(*shape), 2)
        yield f"adaptive_max_pool{dims}d_with_indices", lambda adaptive=adaptive, shape=shape: adaptive(x(*shape), 2)
        norm = getattr(F, f"lp_pool{dims}d")
        yield f"lp_pool{dims}d", lambda norm=norm, shape=shape: norm(x(*shape), 2.0, 2)


def _cells(x: Make) -> Iterator[tuple[str, Call]]:
    def weights(gates: int) -> list[torch.Tensor]:
        return [x(gates * 4, 3), x(gates * 4, 4), x(gates * 4), x(gates * 4)]

    def state() -> tuple[torch.Tensor, torch.Tensor]:
        return x(1, 2, 4), x(1, 2, 4)

    ending = (True, 1, 0.0, False, False, False)
    yield "gru", lambda: torch.gru(x(5, 2, 3), x(1, 2, 4), weights(3), *ending)
    yield "lstm", lambda: torch.lstm(x(5, 2, 3), state(), weights(4), *ending)
    yield "gru_cell", lambda: torch.gru_cell(x(2, 3), x(2, 4), *weights(3))
    yield "lstm_cell", lambda: torch.lstm_cell(x(2, 3), (x(2, 4), x(2, 4)), *weights(4))


def _random(x: Make, plain: Make) -> Iterator[tuple[str, Call]]:
    yield "bernoulli", lambda: torch.bernoulli(plain(40) * 0.5)
    yield "bernoulli_", lambda: plain(40).bernoulli_(0.3)
    yield "binomial", lambda: torch.binomial(torch.full((20,), 5.0), torch.full((20,), 0.5))
    yield "poisson", lambda: torch.poisson(plain(20))
    yield "normal", lambda: torch.normal(0.0, 1.0, (30,))
    yield "normal_", lambda: plain(30).normal_()
    yield "multinomial", lambda: torch.multinomial(plain(6), 4)
    yield "dropout1d", lambda: F.dropout1d(x(4, 6, 8), 0.5)
    yield "feature_dropout", lambda: torch.feature_dropout(x(4, 6, 8), 0.5, True)
    yield "feature_dropout_", lambda: torch.feature_dropout_(plain(4, 6, 8), 0.5, True)
    yield "gumbel_softmax", lambda: F.gumbel_softmax(x(4, 6))
    for dims, shape in ((2, (2, 3, 8, 8)), (3, (2, 3, 8, 8, 8))):
        for ending in ("", "_with_indices"):
            pool = getattr(F, f"fractional_max_pool{dims}d{ending}")
            yield (
                f"fractional_max_pool{dims}d{ending}",
                lambda pool=pool, shape=shape: pool(x(*shape), 2, output_size=3),
            )
