"""The adapters have the same folder and file names for the same role; what only one of them has needs a reason."""

from __future__ import annotations

from tests.rules.tree import ROOT, sources

ADAPTERS = ("pytorch", "mindspore", "msadapter")
EVERYWHERE = {
    "backend.py",
    "debugger.py",
    "runtime.py",
    "taps/api_tap.py",
    "taps/module_tap.py",
    "taps/collective_tap.py",
}
OWN = {
    "pytorch": {
        "auto_attach.py": "msprobe run attaches to PyTorch programs only",
        "compat_api.py": "names of earlier versions that exist for PyTorch only",
        "compile/": "torch.compile",
        "random/random_trace.py": "random_save exists for PyTorch only",
        "taps/operator_tap.py": "the prefix Aten",
        "taps/optimizer_tap.py": "optimizers of PyTorch are no modules",
        "taps/package_taps.py": "NPU, MindSpeed and Triton are packages beside torch",
        "tensors/checkpoint_reader.py": "checkpoints of torch.save",
        "tensors/measurement_cache.py": "large CPU tensors are measured once",
        "tensors/memory.py": "the storage of a tensor",
        "tensors/saver.py": "files of task tensor are written without a copy",
        "tensors/sharding.py": "DTensor and FSDP",
    },
    "mindspore": {
        "graph/": "static graphs",
        "kernel/": "kernel dumps of MindSpore's runtime",
        "runtime/facts.py": "facts of the runtime that differ between versions of MindSpore",
        "runtime/versions.py": "what differs between versions of MindSpore",
        "taps/jit_tap.py": "functions under ms.jit",
        "taps/output_gradient_tap.py": "MindSpore before 2.9",
        "taps/tensor_gradient.py": "gradients of single tensors",
        "tensors/bfloat16.py": "numpy has no bfloat16, and MindSpore converts to numpy",
    },
    "msadapter": {
        "detection.py": "tells MSAdapter from the real torch",
    },
}
"""Adapter -> file, or folder with a slash at its end -> why the others lack it."""


def files(adapter: str) -> set[str]:
    """Return the files of an adapter, relative to its folder, without the ``__init__.py`` files."""
    folder = ROOT / "msprobe" / "adapters" / adapter
    paths = sources(f"msprobe/adapters/{adapter}")
    return {path.relative_to(folder).as_posix() for path in paths if path.name != "__init__.py"}


def has_reason(adapter: str, file: str) -> bool:
    return any(file == name or (name.endswith("/") and file.startswith(name)) for name in OWN[adapter])


def test_every_adapter_has_the_same_core() -> None:
    lacking = {adapter: EVERYWHERE - files(adapter) for adapter in ADAPTERS}
    assert {adapter: names for adapter, names in lacking.items() if names} == {}


def test_what_only_one_adapter_has_needs_a_reason() -> None:
    faults = []
    for adapter in ADAPTERS:
        elsewhere = set().union(*(files(other) for other in ADAPTERS if other != adapter))
        faults += [f"{adapter}/{name}" for name in sorted(files(adapter) - elsewhere) if not has_reason(adapter, name)]
    assert faults == [], "use the name that the other adapters use, or give a reason in OWN"


def test_every_reason_is_needed() -> None:
    stale = []
    for adapter, reasons in OWN.items():
        own = files(adapter)
        stale += [f"{adapter}/{name}" for name in reasons if not any(file.startswith(name) for file in own)]
    assert stale == []
