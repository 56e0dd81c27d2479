"""Environment variables that can change the numbers of a training, and the reason why.

Only variables of ``VARIABLES`` and those whose names begin with ``PREFIXES`` are collected. Names that look like
secrets never are, and credentials in values are replaced.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from msprobe.setup_check.levels import Level


class Variable(NamedTuple):
    """What one variable means: its name for each kind of device, and what follows from a difference.

    Attributes:
        npu, gpu: the name on each kind of device; empty where that kind has none.
        reason: why a difference can matter.
        level: how serious a difference is.
        npu_default, gpu_default: the value where the variable is not set; None where that means no value.
    """

    npu: str
    gpu: str
    reason: str
    level: Level = "warning"
    npu_default: str | None = None
    gpu_default: str | None = None


def _both(name: str, reason: str, level: Level = "warning") -> Variable:
    return Variable(name, name, reason, level)


_SUMS = "collectives may add up in another order from run to run"
_ORDER = "the order of additions inside a collective differs, and so do the last digits"

VARIABLES: tuple[Variable, ...] = (
    Variable("HCCL_DETERMINISTIC", "NCCL_DETERMINISTIC", _SUMS, "error", "False", "False"),
    Variable("HCCL_ALGO", "NCCL_ALGO", _ORDER, "error"),
    Variable("HCCL_INTRA_ROCE_ENABLE", "", "the link between devices differs", "warning", "0"),
    Variable("HCCL_INTRA_PCIE_ENABLE", "", "the link between devices differs", "warning", "1"),
    Variable(
        "ASCEND_LAUNCH_BLOCKING", "CUDA_LAUNCH_BLOCKING", "kernels run one by one: hides races", "error", "0", "0"
    ),
    Variable("ASCEND_RT_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "other devices take part", "error"),
    _both("CUBLAS_WORKSPACE_CONFIG", "without it, cuBLAS may pick kernels whose sums differ from run to run", "error"),
    _both("NVIDIA_TF32_OVERRIDE", "matrix products keep 10 bits of the mantissa instead of 23", "error"),
    _both("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "matrix products keep 10 bits of the mantissa instead of 23", "error"),
    _both("LCCL_DETERMINISTIC", _SUMS, "error"),
    _both("ATB_MATMUL_SHUFFLE_K_ENABLE", "matrix products add up in another order", "error"),
    _both("ATB_LLM_LCOC_ENABLE", "products and their sums over ranks are fused"),
    _both("CLOSE_MATMUL_K_SHIFT", "matrix products add up in another order", "error"),
    _both("INF_NAN_MODE_ENABLE", "overflow gives infinity, or the largest number", "error"),
    _both("INF_NAN_MODE_FORCE_DISABLE", "overflow gives infinity, or the largest number", "error"),
    _both("PYTHONHASHSEED", "the order of sets and of hashed names differs from run to run"),
    _both("NCCL_PROTO", _ORDER),
    _both("NCCL_NVLS_ENABLE", _ORDER),
    _both("OMP_NUM_THREADS", "sums on the host are split over another number of threads"),
    _both("MKL_NUM_THREADS", "sums on the host are split over another number of threads"),
    _both("OPENBLAS_NUM_THREADS", "sums on the host are split over another number of threads"),
    _both("MKL_CBWR", "the code path of MKL changes the order of sums"),
    _both("TOKENIZERS_PARALLELISM", "changes speed, not values"),
    _both("PYTORCH_CUDA_ALLOC_CONF", "changes where tensors lie; matters to reads of memory that nobody has written"),
    _both("PYTORCH_NPU_ALLOC_CONF", "changes where tensors lie; matters to reads of memory that nobody has written"),
    _both("CUDA_DEVICE_MAX_CONNECTIONS", "order in which communication and computation overlap"),
    _both("TASK_QUEUE_ENABLE", "kernels are submitted from another thread"),
    _both("COMBINED_ENABLE", "operators are combined into other kernels"),
    _both("NVTE_FLASH_ATTN", "another implementation of attention", "error"),
    _both("NVTE_FUSED_ATTN", "another implementation of attention", "error"),
    _both("NVTE_ALLOW_NONDETERMINISTIC_ALGO", "the backward pass of attention differs from run to run", "error"),
    _both("VLLM_ATTENTION_BACKEND", "another implementation of attention", "error"),
    _both("VLLM_ASCEND_ENABLE_NZ", "weights are stored in another layout"),
    _both("WORLD_SIZE", "another number of ranks", "error"),
    _both("LOCAL_WORLD_SIZE", "another number of ranks per machine"),
    _both("LD_PRELOAD", "libraries are replaced"),
    _both("CUDA_HOME", "another toolkit"),
    _both("ASCEND_HOME_PATH", "another toolkit"),
    _both("ASCEND_TOOLKIT_HOME", "another toolkit"),
    _both("TORCHDYNAMO_DISABLE", "functions are compiled on one side only", "error"),
    _both("TORCH_COMPILE_DISABLE", "functions are compiled on one side only", "error"),
)
PREFIXES = (
    "HCCL_", "NCCL_", "GLOO_", "ASCEND_", "CUDA_", "CUDNN_", "CUBLAS_", "NVTE_", "NPU_", "TORCH_", "PYTORCH_",
    "TORCHINDUCTOR_", "TORCHDYNAMO_", "MS_", "MINDSPORE_", "OMP_", "MKL_", "OPENBLAS_", "KMP_", "GOMP_", "ATB_",
    "VLLM_", "SGLANG_", "XLA_", "ACLNN_", "ACL_", "LCCL_", "MSPROBE_", "GLOG_", "DEEPSPEED_", "MEGATRON_", "MINDSPEED_",
    "HIP_", "ROCR_", "HSA_", "MIOPEN_", "UCX_", "BLIS_", "NUMEXPR_", "TRITON_", "FLASH_", "FLASHINFER_", "ACCELERATE_",
    "RANK_TABLE_",
)  # fmt: skip
_SECRET = re.compile(
    r"(?i)(secret|passw|passphrase|pwd|token(?!izers_par)|credential|api[_-]?key|private|auth(?!ors?(?:[_-]|$))|access[_-]key|cookie"
    r"|(?:ssh|wandb|openai|hf|encryption|signing)[_-]key)"
)
_OF_URL = re.compile(r"(?<=://)[^/\s@]+@")
_OF_OPTION = re.compile(
    r"(?i)((?:^|[\s\"'{,-])[\w-]*(?:secret|passw(?:or)?d|passphrase|pwd|token|[_-]key|apikey|credential|auth|cookie)[\w-]*"
    r"(?:[\"']?\s*[:=]\s*[\"']?|\s+))(?!-)((?:bearer |basic )?[^\s\"',}]+)"
)
_QUERY = re.compile(r"(?i)([?&][\w-]*(?:token|key|signature|secret|password)[\w-]*=)[^&\s]+")
_KNOWN_FORM = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[\w-]{16,}|gh[pousr]_[A-Za-z0-9]{16,}|glpat-[\w-]{16,}|AKIA[A-Z0-9]{12,}|xox[abprs]-[\w-]{8,})"
)
"""Tokens of Hugging Face, OpenAI, GitHub, GitLab, AWS and Slack, wherever they stand."""
HIDDEN = "***"
BY_NAME: dict[str, Variable] = {name: one for one in VARIABLES for name in (one.npu, one.gpu) if name}


def collect_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the allow-list, sorted, without secrets."""
    chosen = (name for name in variables if name in BY_NAME or name.startswith(PREFIXES))
    return {name: without_credentials(variables[name]) for name in sorted(chosen) if not is_secret(name)}


def is_secret(name: str) -> bool:
    """Return whether the name of a variable or option says that its value is a secret.

    Numbers of tokens, such as ``max_tokens``, are no secrets; ``token`` and ``hf_token`` are.
    """
    lower = name.lower()
    if lower.endswith(("tokens", "token_id", "token_ids")) or "tokenizer" in lower or "_token_" in lower:
        lower = lower.replace("token", "")
    return _SECRET.search(lower) is not None


def without_credentials(text: str) -> str:
    """Return a value or command line with credentials replaced: ``https://me:pw@host`` and ``--api-key X``."""
    text = _KNOWN_FORM.sub(HIDDEN, _OF_URL.sub(f"{HIDDEN}@", text))
    text = _QUERY.sub(rf"\g<1>{HIDDEN}", text)
    return _OF_OPTION.sub(
        lambda match: match[0] if not is_secret(match[1].strip(" =-:\"'{,")) else match[1] + HIDDEN, text
    )
