"""Dumps that TorchAir, the compiler of graphs for NPU, writes by itself: configurations that ask for them.

    config = set_fx_dump_config("dump")                                    # nodes of the FX graph, as .npy
    config = set_ge_dump_config("dump", dump_mode="output")                # operators of the compiled graph
    model = torch.compile(model, backend=torchair.get_npu_backend(compiler_config=config))

The files are compared with ``msprobe compare -m torchair``. Only TorchAir runs these graphs: without it,
``backend="msprobe"`` records a compiled model on any device. Tried with a stand-in of TorchAir; not run on an NPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from msprobe.core.errors import InterfaceError, MsprobeException, argument_text
from msprobe.core.host import require_local
from msprobe.core.interruption import import_whole
from msprobe.core.store.safe_files import make_folder

_MODULES = ("torchair", "torch_npu.dynamo.torchair")
_MODES = ("all", "input", "output")
_INSTEAD = 'without TorchAir, torch.compile(model, backend="msprobe") records a compiled model on any device'


class CompilerConfig(Protocol):
    """The configuration of TorchAir, as far as it is used here."""

    debug: Any
    dump_config: Any
    fusion_config: Any


def set_fx_dump_config(
    dump_path: str = "", op_list: Sequence[str] | None = None, compiler_config: CompilerConfig | None = None
) -> CompilerConfig:
    """Return a configuration with which TorchAir runs the FX graph and writes the results of its nodes.

    Args:
        dump_path: the files lie below ``msprobe_fx_dump`` in it.
        op_list: names of operators; only these are written.
        compiler_config: the configuration to change; a new one by default.

    Raises:
        InterfaceError: TorchAir is not installed.
        MsprobeException, TypeError: an argument is wrong.
    """
    names = _texts("op_list", op_list)
    config = _config(compiler_config)
    if names:
        config.debug.data_dump.filter = _only(frozenset(names))
    config.debug.data_dump.type = "npy"
    config.debug.data_dump.path = _folder(dump_path, "msprobe_fx_dump")
    return config


def set_ge_dump_config(
    dump_path: str = "",
    dump_mode: str = "all",
    fusion_switch_file: str | None = None,
    dump_token: int | str | Sequence[int] | None = None,
    dump_layer: str | Sequence[str] | None = None,
    compiler_config: CompilerConfig | None = None,
) -> CompilerConfig:
    """Return a configuration with which the compiled graph writes inputs and outputs of its operators.

    Args:
        dump_path: the files lie below ``msprobe_ge_dump`` in it.
        dump_mode: ``all``, ``input`` or ``output``.
        fusion_switch_file: a file that says which fusions are off.
        dump_token: the runs of the graph that are written, counted from 0; all by default.
        dump_layer: names of the operators that are written; all by default.
        compiler_config: the configuration to change; a new one by default.

    Raises:
        InterfaceError: TorchAir is not installed.
        MsprobeException, TypeError: an argument is wrong.
    """
    if dump_mode not in _MODES:
        raise _wrong("set_ge_dump_config", "dump_mode", f"one of {', '.join(_MODES)}", dump_mode)
    if fusion_switch_file is not None and not Path(fusion_switch_file).is_file():
        raise _wrong("set_ge_dump_config", "fusion_switch_file", "a file that exists", fusion_switch_file)
    layers = _texts("dump_layer", [dump_layer] if isinstance(dump_layer, str) else dump_layer)
    tokens = [] if dump_token is None else [dump_token] if isinstance(dump_token, (int, str)) else list(dump_token)
    config = _config(compiler_config)
    folder = _folder(dump_path, "msprobe_ge_dump")
    config.debug.graph_dump.type = "txt"
    config.debug.graph_dump._path = folder
    if fusion_switch_file is not None:
        config.fusion_config.fusion_switch_file = str(fusion_switch_file)
    config.dump_config.enable_dump = True
    config.dump_config.dump_mode = dump_mode
    config.dump_config.dump_path = folder
    if tokens:
        config.dump_config.dump_step = "|".join(map(str, tokens))
    if layers:
        config.dump_config.dump_layer = " ".join(layers)
    return config


def _config(given: CompilerConfig | None) -> CompilerConfig:
    """Return the given configuration, or a new one of TorchAir."""
    if given is not None:
        return given
    for module in _MODULES:
        try:
            made: CompilerConfig = import_whole(f"{module}.configs.compiler_config").CompilerConfig()
        except ImportError:
            continue
        return made
    raise InterfaceError(f"TorchAir is not installed, which runs graphs on an NPU; {_INSTEAD}")


def _folder(path: str, name: str) -> str:
    require_local(path, "dump_path")
    folder = Path(path or ".").absolute() / name
    make_folder(folder)
    return str(folder)


def _texts(name: str, values: Any) -> list[str]:
    if values is None:
        return []
    if isinstance(values, str) or not all(isinstance(one, str) for one in values):
        raise TypeError(f"{name}: must be a list of names, got {argument_text(values)}")
    return list(values)


def _only(names: frozenset[str]) -> Any:
    """Return a filter of TorchAir: it is given a node, and returns it, or None to leave it out."""

    def chosen(node: Any) -> Any:
        return node if getattr(node, "name", str(node)) in names or str(getattr(node, "target", "")) in names else None

    return chosen


def _wrong(function: str, argument: str, wanted: str, value: object) -> MsprobeException:
    return MsprobeException(0, f"{function}: {argument} is {wanted}, got {argument_text(value)}")
