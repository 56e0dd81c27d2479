"""What a set-up check sees of a PyTorch program: its build and switches, inputs, weights and random calls."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from msprobe.adapters.pytorch.random.random_trace import random_patches
from msprobe.adapters.pytorch.runtime import TorchRuntime
from msprobe.adapters.pytorch.taps.parameter_names import plain_name, unwrapped
from msprobe.adapters.pytorch.tensors.tensor_ops import TorchTensorOps
from msprobe.core.capture.random_sources import RandomSource
from msprobe.core.interruption import ignored, let_through
from msprobe.core.tensors.projection import KEY
from msprobe.setup_check.collection.content_hash import content_hash, element_sum
from msprobe.setup_check.collection.hyperparameters import plain_setting
from msprobe.setup_check.collection.watch import OnForward, OnRandom
from msprobe.setup_check.document import TensorFacts

_LIBRARIES = {
    "python_random": "random",
    "numpy_random": "np.random",
    "torch_random": "torch",
    "tensor_random": "torch.Tensor",
    "functional_random": "torch.nn.functional",
}
_CUDA = torch.backends.cuda
_SWITCHES_OF_DEVICES = (
    ("matmul.allow_tf32", _CUDA.matmul, "allow_tf32"),
    ("cudnn.allow_tf32", torch.backends.cudnn, "allow_tf32"),
    ("matmul.allow_fp16_reduced_precision_reduction", _CUDA.matmul, "allow_fp16_reduced_precision_reduction"),
    ("matmul.allow_bf16_reduced_precision_reduction", _CUDA.matmul, "allow_bf16_reduced_precision_reduction"),
    ("flash attention", _CUDA, "flash_sdp_enabled"),
    ("memory efficient attention", _CUDA, "mem_efficient_sdp_enabled"),
    ("cudnn attention", _CUDA, "cudnn_sdp_enabled"),
)
_SEEDS = (
    RandomSource("torch_random", torch, "manual_seed"),
    RandomSource("python_random", random, "seed"),
    RandomSource("numpy_random", np.random, "seed"),
)


def make_watch() -> TorchSetupWatch:
    """Return the watch of this framework."""
    return TorchSetupWatch()


class TorchSetupWatch:
    """Implements ``SetupWatch`` for PyTorch."""

    def __init__(self) -> None:
        self._ops = TorchTensorOps(precision="high")
        self._runtime = TorchRuntime()

    def rank(self) -> int:
        return self._runtime.rank() or 0

    def facts(self) -> dict[str, Any]:
        return {**_build(), **_switches(), **_device_switches()}

    def is_tensor(self, value: Any) -> bool:
        return isinstance(value, torch.Tensor)

    def describe(self, tensor: Any) -> TensorFacts:
        with torch.no_grad():
            node = self._ops.describe(tensor.detach(), True, projection=True)
            self._ops.settle()
            content, elements = self._hashes(tensor)
        values = {name.lower(): _number(node.get(name)) for name in ("Max", "Min", "Mean", "Norm", KEY)}
        return TensorFacts(
            dtype=str(tensor.dtype), shape=list(tensor.shape), content=content, elements=elements, **values
        )

    def _hashes(self, tensor: torch.Tensor) -> tuple[str, str]:
        """Return both hashes; empty for a tensor without readable bytes (meta, sparse, quantized)."""
        try:
            whole = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
            data = whole.reshape(-1).view(torch.uint8).numpy()
        except (RuntimeError, NotImplementedError, TypeError) as error:
            let_through(error)
            return "", ""
        width = tensor.element_size() // (2 if tensor.is_complex() else 1)
        return content_hash(data, str(tensor.dtype), tuple(tensor.shape)), element_sum(data, width)

    def weights(self, model: Any) -> Iterator[tuple[str, Any]]:
        inner = unwrapped(model)
        yield from ((plain_name(name), one) for name, one in (*inner.named_parameters(), *inner.named_buffers()))

    def watch_forward(self, model: Any, on_forward: OnForward) -> Callable[[], None]:
        def before(_model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if not torch.compiler.is_compiling():  # a compiler that reads this call must find nothing in it
                on_forward(args, kwargs)

        handle = model.register_forward_pre_hook(before, prepend=True, with_kwargs=True)
        return lambda: handle.remove()

    def watch_random(self, on_random: OnRandom) -> Callable[[], None]:
        def around(source: Any, original: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            on_random(f"{_LIBRARIES[source.library]}.{source.name}")
            return original(*args, **kwargs)

        patches = random_patches(around, _SEEDS)
        patches.apply()
        return patches.undo


def _build() -> dict[str, Any]:
    backends = torch.backends
    return {
        "version": torch.__version__,
        "commit": torch.version.git_version,
        "debug build": torch.version.debug,
        "cuda": torch.version.cuda,
        "cudnn": backends.cudnn.version() if torch.cuda.is_available() else None,
        "hip": torch.version.hip,
        "nccl": _nccl_version(),
        "torch_npu": getattr(sys.modules.get("torch_npu"), "__version__", None),
        "devices": _devices(),
        "mkl": backends.mkl.is_available(),
        "mkldnn": backends.mkldnn.is_available(),
        "cpu kernels": backends.cpu.get_cpu_capability(),
    }


def _switches() -> dict[str, Any]:
    backends = torch.backends
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return {
        "seed": torch.initial_seed(),
        "world size": torch.distributed.get_world_size() if distributed else 1,
        "collectives": torch.distributed.get_backend() if distributed else None,
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "deterministic algorithms warn only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "fill uninitialized memory": torch.utils.deterministic.fill_uninitialized_memory,
        "cudnn.enabled": backends.cudnn.enabled,
        "cudnn.deterministic": backends.cudnn.deterministic,
        "cudnn.benchmark": backends.cudnn.benchmark,
        "mkldnn.enabled": backends.mkldnn.enabled,
        "float32 matmul precision": torch.get_float32_matmul_precision(),
        "default dtype": str(torch.get_default_dtype()),
        "threads": torch.get_num_threads(),
        "threads between operators": torch.get_num_interop_threads(),
        "anomaly detection": torch.is_anomaly_enabled(),
    }


def _device_switches() -> dict[str, Any]:
    """Return switches of devices; one that this build refuses to tell is left out."""
    found: dict[str, Any] = {}
    for name, owner, attribute in _SWITCHES_OF_DEVICES:
        with ignored(Exception):  # of torch: both interfaces of TF32 were used, or another version
            value = getattr(owner, attribute)
            found[name] = plain_setting(value() if callable(value) else value)
    with ignored(Exception):  # of torch_npu
        npu = torch.npu if "torch_npu" in sys.modules else None
        if npu is not None:
            found.update({"npu matmul.allow_hf32": npu.matmul.allow_hf32, "npu conv.allow_hf32": npu.conv.allow_hf32})
    return found


def _devices() -> str | None:
    if not torch.cuda.is_available():
        return None
    names = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    return ", ".join(f"{names.count(name)} x {name}" for name in sorted(set(names)))


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _nccl_version() -> str | None:
    if not torch.cuda.is_available():
        return None
    version = torch.cuda.nccl.version()
    return ".".join(map(str, version)) if isinstance(version, tuple) else str(version)
