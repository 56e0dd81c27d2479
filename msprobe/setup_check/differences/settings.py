"""Differences of environment variables, packages, machine and framework."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msprobe.setup_check.collection.environment import BY_NAME, PREFIXES, VARIABLES, Variable
from msprobe.setup_check.differences.section import Row, Section, one_sided
from msprobe.setup_check.document import SetupDocument
from msprobe.setup_check.levels import Level

ENVIRONMENT = ("bench_env_name", "cmp_env_name", "bench_value", "cmp_value", "level", "reason")
PACKAGES = ("package", "bench version", "cmp version", "level", "reason")
FACTS = ("name", "bench_value", "cmp_value", "level", "reason")

_DECISIVE: Mapping[str, str] = {
    "torch": "operators and their kernels",
    "torch-npu": "kernels of the NPU",
    "mindspore": "operators and their kernels",
    "mindspeed": "fused operators",
    "megatron": "the model and its parallel layout",
    "megatron-core": "the model and its parallel layout",
    "transformers": "the model",
    "deepspeed": "the optimizer and how gradients are added up",
    "peft": "adapted layers",
    "numpy": "preparation of data",
    "datasets": "the order of samples",
    "accelerate": "mixed precision and how gradients are added up",
    "flash-attn": "kernels of attention",
    "transformer-engine": "kernels of attention and products",
    "triton": "compiled kernels",
    "apex": "fused operators",
    "vllm": "kernels of the server",
    "sglang": "kernels of the server",
}
_PUBLISHED_PACKAGES = {"transformers", "deepspeed", "megatron", "numpy", "datasets", "peft", "mindspore", "torch"}
_NPU_MARK = "ASCEND"
_COLLECTIVES = "the order of additions inside a collective differs, and so do the last digits"
_ERROR_FACTS: Mapping[str, str] = {
    "instructions": "other kernels are chosen on the host",
    "nvidia devices": "other devices round in another order",
    "ascend devices": "another number of devices",
    "deterministic algorithms": "kernels whose sums differ from run to run are allowed on one side",
    "cudnn.deterministic": "convolutions may differ from run to run",
    "cudnn.benchmark": "the fastest convolution is chosen anew in each run",
    "matmul.allow_tf32": "matrix products keep 10 bits of the mantissa instead of 23",
    "cudnn.allow_tf32": "convolutions keep 10 bits of the mantissa instead of 23",
    "float32 matmul precision": "matrix products keep fewer bits",
    "default dtype": "constants and new tensors have another precision",
    "deterministic": "kernels whose sums differ from run to run are allowed on one side",
    "version": "operators and their kernels",
    "commit": "operators and their kernels",
    "torch_npu": "kernels of the NPU",
    "world size": "another number of ranks",
    "devices": "other devices round in another order",
    "matmul.allow_fp16_reduced_precision_reduction": "sums of products are kept in float16",
    "matmul.allow_bf16_reduced_precision_reduction": "sums of products are kept in bfloat16",
    "npu matmul.allow_hf32": "matrix products keep fewer bits",
    "npu conv.allow_hf32": "convolutions keep fewer bits",
    "mode": "functions are compiled on one side only",
    "device_target": "other kernels",
}
_FACTS: Mapping[str, str] = {
    "seed": "other random numbers, unless the program sets seeds later",
    "threads": "sums on the host are split over another number of threads",
    "runtime_num_threads": "sums on the host are split over another number of threads",
    "processors": "libraries choose how many threads split a sum",
    "memory": "changes what fits, not the values",
    "cpu kernels": "other kernels are chosen on the host",
    "mkl": "products on the host come from another library",
    "mkldnn": "products on the host come from another library",
    "collectives": _COLLECTIVES,
    "nccl": _COLLECTIVES,
}
_ANY_FACT = "another machine or build may choose other kernels, whose sums have another order"


def compare_environment(first: SetupDocument, second: SetupDocument) -> Section:
    """Return the variables that differ; a variable that NPU and GPU name differently is one."""
    sides = (first.environment, second.environment)
    rows = [*_known_variables(*sides), *_other_variables(*sides)]
    return Section("env", ENVIRONMENT, tuple(rows))


def compare_packages(first: SetupDocument, second: SetupDocument) -> Section:
    """Return the packages that differ: an error for those that change numbers, otherwise a warning."""
    sides = [{_normal(name): version for name, version in one.packages.items()} for one in (first, second)]
    missing = one_sided("pip", PACKAGES, *sides)
    if missing is not None:
        return missing
    rows = []
    for name in sorted(sides[0].keys() | sides[1].keys()):
        versions = [side.get(name) for side in sides]
        if versions[0] != versions[1]:
            decisive = name in _DECISIVE
            level: Level = "error" if decisive else "warning"
            reason = _DECISIVE.get(name, "a library that other libraries may use")
            rows.append({**_row(PACKAGES[:3], name, *map(str, versions)), "level": level, "reason": reason})
    return Section("pip", PACKAGES, tuple(sorted(rows, key=lambda row: row["level"] != "error")))


def compare_facts(name: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> Section:
    """Return the facts of machine or framework that differ; ``name`` names the section."""
    missing = one_sided(name, FACTS, first, second)
    if missing is not None:
        return missing
    rows = []
    for fact in sorted(first.keys() | second.keys()):
        values = (first.get(fact), second.get(fact))
        if values[0] != values[1]:
            level: Level = "error" if fact in _ERROR_FACTS and None not in values else "warning"
            reason = _ERROR_FACTS.get(fact) or _FACTS.get(fact, _ANY_FACT)
            rows.append({**_row(FACTS[:3], fact, *values), "level": level, "reason": reason})
    return Section(name, FACTS, tuple(rows))


def _known_variables(first: Mapping[str, str], second: Mapping[str, str]) -> Iterator[Row]:
    kinds = (_is_npu(first), _is_npu(second))
    for variable in VARIABLES:
        names = [variable.npu if npu else variable.gpu for npu in kinds]
        values = [
            side.get(name, _default(variable, npu)) if name else None
            for side, name, npu in zip((first, second), names, kinds, strict=True)
        ]
        if not names[0] and not names[1]:
            continue
        if not names[0] or not names[1]:  # one kind of device has no such variable
            missing = "only cmp has this env" if not names[0] else "only bench has this env"
            shown = [name or missing for name in names]
            yield {**_row(ENVIRONMENT[:4], *shown, *values), "level": "warning", "reason": variable.reason}
        elif _same(*values):
            continue
        else:
            one_side = variable.npu == variable.gpu and None in values
            level: Level = "warning" if one_side and variable.level == "warning" else variable.level
            yield {**_row(ENVIRONMENT[:4], *names, *values), "level": level, "reason": variable.reason}


def _other_variables(first: Mapping[str, str], second: Mapping[str, str]) -> Iterator[Row]:
    """Yield variables of known libraries whose meaning is not in the table."""
    for name in sorted(first.keys() | second.keys()):
        values = (first.get(name), second.get(name))
        if name not in BY_NAME and name.startswith(PREFIXES) and values[0] != values[1]:
            shown = [
                name if value is not None else f"only {side} has this env"
                for value, side in zip(values, ("cmp", "bench"), strict=True)
            ]
            yield {
                **_row(ENVIRONMENT[:4], *shown, *values),
                "level": "warning",
                "reason": "a setting of a library that takes part",
            }


def _is_npu(variables: Mapping[str, str]) -> bool:
    return any(_NPU_MARK in name for name in variables)


def _default(variable: Variable, npu: bool) -> str | None:
    return variable.npu_default if npu else variable.gpu_default


def _same(first: str | None, second: str | None) -> bool:
    """Return whether both texts mean the same: ``1``, ``true`` and ``True`` do."""
    return first == second or (first is not None and second is not None and _truth(first) == _truth(second))


def _truth(text: str) -> str:
    lower = text.strip().lower()
    return {"true": "1", "on": "1", "false": "0", "off": "0"}.get(lower, lower)


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _row(columns: Iterable[str], *cells: Any) -> Row:
    return dict(zip(columns, cells, strict=True))
