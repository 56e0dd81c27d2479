"""The adapters have the same folder and file names for the same role; what only one of them has needs a reason."""

from __future__ import annotations

import re

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
        "attach/attachment.py": "msprobe run attaches to PyTorch programs only",
        "attach/call_modes.py": "msprobe run attaches to PyTorch programs only",
        "attach/collection.py": "msprobe run attaches to PyTorch programs only",
        "attach/iterations.py": "msprobe run attaches to PyTorch programs only",
        "attach/models.py": "msprobe run attaches to PyTorch programs only",
        "attach/module_tree.py": "msprobe run attaches to PyTorch programs only",
        "attach/optimizers.py": "msprobe run attaches to PyTorch programs only",
        "monitor/auto_monitor.py": "msprobe run attaches to PyTorch programs only",
        "monitor/feature_watch.py": "l2_targets are computed for PyTorch only",
        "monitor/own_hook.py": "hooks of torch are saved and copied with a module",
        "monitor/float_statistics.py": "torch has operators that take many tensors at once",
        "compat_api.py": "entry points of other versions exist for PyTorch only",
        "data_loader_steps.py": "enable_dataloader exists for PyTorch only",
        "step_closures.py": "optimizers of MindSpore get gradients, and no closure that computes them",
        "triton_standard.py": "the names are asked for by torch_npu",
        "compile/compiled_functions.py": "msprobe run attaches to PyTorch programs only",
        "compile/compiled_models.py": "torch.compile wraps a model; MindSpore compiles the cells themselves",
        "compile/compiler_guard.py": "Dynamo and inductor call modules and functions while they compile",
        "compile/recompilation.py": "Dynamo compiles again when functions change; MindSpore keeps a graph per key",
        "graph_dumper.py": "AclGraphDumper exists for PyTorch only",
        "graph_save.py": "acl_save exists for PyTorch only",
        "kernel/graph_events.py": "graphs of a device are captured by torch and torch_npu",
        "tensors/captured_values.py": "graphs of a device are captured by torch and torch_npu",
        "tensors/storages.py": "MindSpore has no public way from a tensor to its storage",
        "tensors/transforms.py": "torch.func is PyTorch's",
        "taps/training/nested_backward.py": "reentrant checkpointing is PyTorch's",
        "perturbation.py": "neighbours of floats are found in their bits, which MindSpore does not show as integers",
        "compile/exported_graph.py": "torch.export is PyTorch's",
        "compile/exported_models.py": "torch.export is PyTorch's",
        "compile/exported_names.py": "torch.export is PyTorch's",
        "compile/exported_run.py": "torch.export is PyTorch's",
        "compile/program_frames.py": "graphs of torch.fx name the lines of the program",
        "compile/recorded_graph.py": "torch.compile is PyTorch's",
        "compile/torchair_dump.py": "TorchAir compiles graphs of PyTorch",
        "compiled_check/checker.py": "torch.compile is PyTorch's",
        "compiled_check/backends.py": "torch.compile is PyTorch's",
        "compiled_check/called_graphs.py": "torch.compile is PyTorch's",
        "compiled_check/node_search.py": "torch.compile is PyTorch's",
        "compiled_check/reproduction.py": "torch.compile is PyTorch's",
        "compiled_check/smallest_graph.py": "torch.compile is PyTorch's",
        "compiled_check/tensor_diff.py": "torch.compile is PyTorch's",
        "compiled_check/wrong_node.py": "torch.compile is PyTorch's",
        "compiled_check/eager_run.py": "torch.compile is PyTorch's",
        "compiled_check/module_calls.py": "torch.compile is PyTorch's",
        "compiled_check/result.py": "torch.compile is PyTorch's",
        "replay/program_state.py": "states of torch are set back; MindSpore's random calls are not run again",
        "replay/operator_watch.py": "operators are seen by a dispatch mode; MindSpore has none",
        "random/random_trace.py": "random_save exists for PyTorch only",
        "taps/distribution.py": "FSDP, DTensor and pipelines are Python code that calls functions of torch",
        "taps/operator_tap.py": "operators below the APIs, prefix Aten; MindSpore has primitives (api_tap.py)",
        "taps/compiled_api_tap.py": "torch.compile; a static graph of MindSpore has cells and kernels",
        "taps/package_taps.py": "NPU, MindSpeed and Triton are packages beside torch",
        "taps/reduction_identity.py": "Lightning knows reductions of torch by identity",
        "taps/edge_tap.py": "Tensor.item, Tensor.view and the like are torch; those of MindSpore are not observed yet",
        "taps/functional_collectives.py": "DTensor communicates by functions that return tensors under way",
        "taps/training/gradient_threads.py": "gradients of torch are attributes that any thread can read",
        "taps/training/kept_gradients.py": "autograd of torch adds to gradients; MindSpore returns them",
        "taps/training/training_calls.py": "schedulers, clipping and generation of torch are calls of the program",
        "tensors/in_flight.py": "AsyncCollectiveTensor; MindSpore has none",
        "checkpoints/tensor_export.py": "files .pt and .safetensors are tensors of torch",
        "checkpoints/checkpoint_reader.py": "checkpoints of torch.save",
        "checkpoints/distributed_checkpoint.py": "checkpoints of torch.distributed.checkpoint",
        "tensors/operation_modes.py": "dispatch and function modes see operations; MindSpore has none",
        "tensors/saver.py": "files of task tensor are written without a copy",
        "tensors/consistent.py": "programs of MindSpore read their first values from a checkpoint, in every layout",
        "tensors/megatron_marks.py": "attributes of parameters of torch that Megatron and MindSpeed set",
        "tensors/sharding.py": "DTensor and FSDP",
    },
    "mindspore": {
        "kernel/exception_dump.py": "MindSpore's runtime can dump the operands of a kernel that failed",
        "monitor/graph_steps.py": "static graphs of MindSpore; an optimizer of torch is not compiled with the model",
        "launch_mode.py": "MindSpore launches operators later than their calls, on a CPU too",
        "runtime_facts.py": "graph mode, jit level and device of MindSpore decide what is recorded",
        "taps/jit_tap.py": "functions under ms.jit run as one call; torch.compile has compile/compiled_calls.py",
        "taps/output_gradient_tap.py": "MindSpore before 2.9 has no autograd nodes",
        "taps/tensor_hooks.py": "packages over MindSpore replace Tensor.register_hook",
        "tensors/bfloat16.py": "numpy has no bfloat16, and MindSpore converts to numpy",
        "versions.py": "private names of MindSpore differ between its versions",
    },
    "msadapter": {
        "detection.py": "only MSAdapter must be distinguished from the real torch",
    },
}
"""Adapter -> file -> why the others lack it."""
_OF_MINDSPORE = "MSAdapter uses MindSpore's"
_NO_ADDRESS = "what is known as MSAdapter needs MindSpore 2.7, which does not tell where a view lies"
NOT_IN_MSADAPTER = {
    "compile/compiled_calls.py": _OF_MINDSPORE,
    "compile/compiled_probes.py": _OF_MINDSPORE,
    "compile/value_transport.py": _OF_MINDSPORE,
    "kernel/runtime_dump.py": _OF_MINDSPORE,
    "monitor/collective_watch.py": _OF_MINDSPORE,
    "monitor/gradient_facts.py": _OF_MINDSPORE,
    "monitor/meter.py": _OF_MINDSPORE,
    "monitor/module_watch.py": _OF_MINDSPORE,
    "monitor/parameter_watch.py": _OF_MINDSPORE,
    "random/determinism.py": _OF_MINDSPORE,
    "recorded_names.py": _OF_MINDSPORE,
    "setup_watch.py": "a training over MSAdapter is checked as one of MindSpore",
    "replay/live_functions.py": "tasks that run calls again while the program runs exist for PyTorch and MindSpore",
    "taps/call_counter.py": _OF_MINDSPORE,
    "taps/gradient_tap.py": _OF_MINDSPORE,
    "taps/input_tap.py": _OF_MINDSPORE,
    "taps/memory_tap.py": _NO_ADDRESS,
    "taps/parameter_names.py": _OF_MINDSPORE,
    "tensors/declared_shards.py": _OF_MINDSPORE,
    "tensors/memory.py": _NO_ADDRESS,
    "tensors/partial_writes.py": _NO_ADDRESS,
    "tensors/reductions.py": _OF_MINDSPORE,
    "tensors/tensor_ops.py": _OF_MINDSPORE,
    "tensors/unwritten.py": _NO_ADDRESS,
    "tensors/values.py": _OF_MINDSPORE,
    "trainer_callbacks.py": "trainers of PyTorch cannot be imported over MSAdapter; MindSpore's are used",
    "value_saver.py": _OF_MINDSPORE,
}
"""File of the other two adapters -> why MSAdapter has none."""
PREFIXES = {"pytorch": "Torch", "mindspore": "MindSpore", "msadapter": "MSAdapter"}
OTHER_CLASSES = {
    "kernel/runtime_dump.py": "the runtime of an NPU is switched (NpuRuntime), MindSpore's gets a request (KernelDump)",
}
"""File -> why the classes of the adapters have different roles."""


def files(adapter: str) -> set[str]:
    """Return the files of an adapter, relative to its folder, without the ``__init__.py`` files."""
    folder = ROOT / "msprobe" / "adapters" / adapter
    paths = sources(f"msprobe/adapters/{adapter}")
    return {path.relative_to(folder).as_posix() for path in paths if path.name != "__init__.py"}


def roles(adapter: str, file: str) -> set[str]:
    """Return the names of the classes in a file that begin with the prefix of the adapter, without the prefix."""
    text = (ROOT / "msprobe" / "adapters" / adapter / file).read_text(encoding="utf-8")
    return set(re.findall(rf"^class {PREFIXES[adapter]}(\w+)", text, re.MULTILINE))


def test_every_adapter_has_the_same_core() -> None:
    lacking = {adapter: EVERYWHERE - files(adapter) for adapter in ADAPTERS}
    assert {adapter: names for adapter, names in lacking.items() if names} == {}


def test_what_only_one_adapter_has_needs_a_reason() -> None:
    faults = []
    for adapter in ADAPTERS:
        elsewhere = set().union(*(files(other) for other in ADAPTERS if other != adapter))
        faults += [f"{adapter}/{name}" for name in sorted(files(adapter) - elsewhere - OWN[adapter].keys())]
    assert faults == [], "use the name that the other adapters use, or give a reason in OWN"


def test_what_msadapter_lacks_needs_a_reason() -> None:
    shared = files("pytorch") & files("mindspore")
    assert shared - files("msadapter") == NOT_IN_MSADAPTER.keys()


def test_every_reason_is_needed() -> None:
    stale = []
    for adapter, reasons in OWN.items():
        elsewhere = set().union(*(files(other) for other in ADAPTERS if other != adapter))
        stale += [f"{adapter}/{name}" for name in sorted(reasons.keys() - (files(adapter) - elsewhere))]
    assert stale == []


def test_the_same_role_has_the_same_class() -> None:
    """Where files of one name have classes such as ``TorchApiTap`` and ``MindSporeApiTap``, their roles are equal."""
    faults = []
    for file in sorted(set().union(*map(files, ADAPTERS)) - OTHER_CLASSES.keys()):
        named = {adapter: roles(adapter, file) for adapter in ADAPTERS if file in files(adapter)}
        named = {adapter: names for adapter, names in named.items() if names}
        if named and not set.intersection(*named.values()):
            faults.append(f"{file}: {named}")
    assert faults == []
