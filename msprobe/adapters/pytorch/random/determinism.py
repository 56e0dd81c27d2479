"""``seed_all``: seed the random generators, and optionally use deterministic operators and switch dropout off.

``seed_all(rm_dropout=True)`` calls ``remove_dropout``, which makes operators that drop values work with probability 0.
PyTorch's own schemas say which operators these are, and which of their arguments is the probability:

    dropout, alpha_dropout, feature_dropout, ...    p
    lstm, gru, rnn_tanh, rnn_relu                   dropout
    scaled_dot_product_attention                    dropout_p

The functions and modules of ``torch.nn`` call them. Code that TorchScript compiles keeps its dropout.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import torch

from msprobe.adapters.pytorch.compile.recompilation import skip_in_dynamo
from msprobe.adapters.pytorch.random.random_trace import RandomState, random_patches
from msprobe.core.capture.patching import Patches, name_after_owner
from msprobe.core.capture.random_sources import RandomSource
from msprobe.core.dump.session import process_debugger
from msprobe.core.host import check_seed, seed_host
from msprobe.core.interruption import ignored
from msprobe.core.log import first_time, logger

_OPERATOR_OWNERS = (torch, torch._VF, torch._C._nn, torch.nn.functional)

_fixed_state: Patches | None = None


def seed_all(seed: int = 1234, mode: bool = False, rm_dropout: bool = False, is_enhanced: bool = False) -> None:
    """Make two runs comparable.

    Args:
        seed: for Python, numpy and torch (every device), 0 to 2**32 - 1.
        mode: also ask torch for deterministic operators (slower).
        rm_dropout: let every dropout pass values through unchanged, until the process ends.
        is_enhanced: every call of a random function starts from the same state, so it returns the same numbers each
            time. Good for telling whether randomness is the cause of a difference, and for nothing else.

    Raises:
        MsprobeException: an argument is of the wrong type or out of range.
    """
    check_seed(seed, mode=mode, rm_dropout=rm_dropout, is_enhanced=is_enhanced)
    seed_host(seed)
    os.environ["HCCL_DETERMINISTIC"] = "True"
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(mode)
    _seed_devices(seed)
    if (
        (rm_dropout or is_enhanced)
        and process_debugger.peek() is not None
        and first_time("seed_all after the debugger")
    ):
        logger.warning("seed_all: call it before PrecisionDebugger is made; recorded functions stay random otherwise")
    _end_fixed_state()
    if rm_dropout:
        remove_dropout()
    if is_enhanced:
        _fix_state()


def _seed_devices(seed: int) -> None:
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    npu = getattr(torch, "npu", None)
    if npu is not None and npu.is_available():
        npu.manual_seed_all(seed)
        os.environ.update(LCCL_DETERMINISTIC="1", CLOSE_MATMUL_K_SHIFT="1", ATB_LLM_LCOC_ENABLE="0")


def _fix_state() -> None:
    """Start each call of a random function from one state, until a later ``seed_all`` ends that."""
    global _fixed_state
    state = RandomState()

    def around(
        source: RandomSource, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        state.restore(source.library)
        try:
            return original(*args, **kwargs)
        finally:
            state.restore(source.library)

    _fixed_state = random_patches(around)
    _fixed_state.apply()
    logger.info("every call of a random function returns the same numbers from now on (is_enhanced)")


def _end_fixed_state() -> None:
    global _fixed_state
    if _fixed_state is not None:
        _fixed_state.undo()
        _fixed_state = None


def remove_dropout() -> None:
    """Replace the operators that drop values, until the process ends; a second call changes nothing."""
    for name, argument, positions in _dropout_operators():
        for owner in _OPERATOR_OWNERS:
            original = getattr(owner, name, None)
            if callable(original) and not isinstance(original, FunctionType):  # those in Python call the others
                replacement = _without_dropout(original, argument, positions)
                name_after_owner(replacement, owner, name)
                setattr(owner, name, replacement)
                _register_in_scripts(replacement, name)
    logger.info("dropout passes its input through from now on, in recurrent layers and attention too")


def _dropout_operators() -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Yield each public operator that drops values: its name, the argument with the probability and its positions."""
    operators: dict[tuple[str, str], set[int]] = {}
    for full in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = full.partition("::")
        name, _, overload = rest.partition(".")
        if namespace != "aten" or name.startswith("_"):
            continue
        for position, argument in enumerate(torch._C._get_schema(f"aten::{name}", overload).arguments):
            if argument.name in ("dropout", "dropout_p") or (argument.name == "p" and "dropout" in name):
                operators.setdefault((name, argument.name), set()).add(position)
    for (name, argument), positions in operators.items():
        yield name, argument, tuple(sorted(positions, reverse=True))


def _without_dropout(original: Callable[..., Any], argument: str, positions: tuple[int, ...]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        position = _probability_position(args, positions)
        if position is None:
            return original(*args, **{**kwargs, argument: 0.0})
        return original(*args[:position], 0.0, *args[position + 1 :], **kwargs)

    skip_in_dynamo(call)
    return call


def _probability_position(args: tuple[Any, ...], positions: tuple[int, ...]) -> int | None:
    """Return the position of the probability in ``args``, or None.

    Recurrent layers have two forms; in one of them the later of ``positions`` holds a bool.
    """
    matches = [position for position in positions if position < len(args) and not isinstance(args[position], bool)]
    return matches[0] if matches else None


def _register_in_scripts(replacement: Callable[..., Any], name: str) -> None:
    """Have TorchScript accept ``replacement``: it knows operators by identity, and cannot read this one."""
    with ignored(ImportError, AttributeError):
        from torch.jit._builtins import _register_builtin

        _register_builtin(replacement, f"aten::{name}")
