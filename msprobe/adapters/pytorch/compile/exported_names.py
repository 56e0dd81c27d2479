"""Which function of the program a node of an exported program comes from, and at which lines of the program.

``torch.export`` replaces ``nn.functional.layer_norm(x, ...)`` by operators of ATen. It keeps in the metadata of a node
the function that the program called (``torch_fn``), the modules around the call (``nn_module_stack``) and the frames.
From them the node gets the name that the call has in a dump of the eager program.
"""

from __future__ import annotations

import inspect
import linecache
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch

from msprobe.adapters.pytorch.compile.program_frames import Frame, frames_of
from msprobe.adapters.pytorch.recorded_names import OWNERS, read_names
from msprobe.core.interruption import let_through

Api = tuple[str, str]
"""Prefix and name of a record, as ``("Functional", "gelu")``."""

_SIGNS = {
    **dict.fromkeys(("add", "sub", "mul", "pow", "neg", "matmul", "eq", "ne", "lt", "le", "gt", "ge"), ""),
    "div": "truediv",
    **{f"bitwise_{name}": name for name in ("and", "or", "xor")},
    **{f"{name}_": f"i{name}" for name in ("add", "sub", "mul", "div", "pow")},
}
_CHARACTERS = {"add": r"\+", "mul": r"\*(?!\*)"}
_UNSEEN = frozenset(("__rdiv__",))  # written as ``__rtruediv__``, which no dump records: what it calls is recorded
_KINDS = {"builtin_function_or_method": ("Functional", "Torch"), "function": ("Functional", "Tensor", "Torch")}


class ModuleLevel(NamedTuple):
    """One module around a node.

    Attributes:
        key: stands for one call of the module.
        path: its place in the model, empty for the model itself.
        kind: the name of its class.
        of_torch: whether the class is one of torch.
    """

    key: str
    path: str
    kind: str
    of_torch: bool = False


def modules_around(node: torch.fx.Node) -> tuple[ModuleLevel, ...]:
    """Return the modules around a node, outermost first; the model itself is not among them."""
    stack = node.meta.get("nn_module_stack") or {}
    levels = (
        ModuleLevel(str(key), str(path), _class_name(kind), _class_path(kind).startswith("torch.nn."))
        for key, (path, kind) in stack.items()
    )
    return tuple(level for level in levels if level.path)


def model_class(graph: torch.fx.Graph) -> str | None:
    """Return the name of the class that a program was exported from; None where no node says it."""
    stacks = (node.meta.get("nn_module_stack") for node in graph.nodes)
    roots = (kind for stack in stacks if stack for path, kind in stack.values() if not path)
    return next((_class_name(kind) for kind in roots), None)


def _class_name(kind: Any) -> str:
    return _class_path(kind).rpartition(".")[2]


def _class_path(kind: Any) -> str:
    return kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__name__}"


def called_function(node: torch.fx.Node) -> str:
    """Return what stands for the call of the program that a node is a part of: nodes of one call have the same."""
    torch_fn = node.meta.get("torch_fn")
    return node.name if not torch_fn else str(torch_fn[0])


def api_of(node: torch.fx.Node) -> Api | None:
    """Return the name under which the call of the program is recorded; None for one that no dump has."""
    target = node.target
    namespace = getattr(target, "namespace", None)
    operator = str(getattr(getattr(target, "overloadpacket", None), "__name__", ""))
    if isinstance(target, torch._ops.OpOverload) and namespace not in ("aten", "prim"):
        return str(namespace), operator
    kind, _, name = str((node.meta.get("torch_fn") or ("", ""))[1]).rpartition(".")
    line = _source(frames_in_program(node))
    if name in _UNSEEN:
        return _recorded(_of_tensor(operator, "", node), ("Tensor",))
    if not name:
        return _recorded(operator, ("Functional", "Torch", "Tensor"))
    if kind not in _KINDS:
        return _recorded(_of_tensor(name, line, node), ("Tensor",)) or _recorded(name, ("Tensor",))
    named = ["Torch"] if f"torch.{name}(" in line else []
    return _recorded(name, (*named, *_KINDS[kind]), kind)


def _recorded(name: str, prefixes: Sequence[str], kind: str = "") -> Api | None:
    """Return the first of the functions of this name that dumps have and that is of this kind."""
    choices = ((prefix, name) for prefix in prefixes)
    return next((api for api in choices if api in _table() and (not kind or _kind_of(api) == kind)), None)


def _kind_of(api: Api) -> str:
    """Return what the function of the program is called by torch: written in C or in Python."""
    return type(inspect.unwrap(getattr(OWNERS[api[0]], api[1], _kind_of))).__name__


def _of_tensor(name: str, line: str, node: torch.fx.Node) -> str:
    """Return the method that was called: torch names operators such as ``+`` as their methods."""
    sign = _SIGNS.get(name)
    if sign is None or f".{name}(" in line or _is_method(name, node):
        return name
    character = _CHARACTERS.get(name)
    number_first = character is not None and re.search(rf"(?<![\w.)\]])\d[\d.e]*\s*{character}", line)
    if number_first and len(node.args) > 1 and isinstance(node.args[1], (int, float)):
        return f"__r{name}__"
    return f"__{sign or name}__"


def _is_method(name: str, node: torch.fx.Node) -> bool:
    """Return whether a method was called as such: Dynamo says so, or it writes in place in a module of torch."""
    sources = node.meta.get("source_fn_stack") or [("", None)]
    source = sources[-1][1]
    return source == name or (inspect.isclass(source) and name.endswith("_"))


@lru_cache(maxsize=1)
def _table() -> frozenset[Api]:
    names = read_names()
    return frozenset(
        (prefix, name) for table in ("apis", "extra") for prefix, listed in names[table].items() for name in listed
    )


def _source(frames: Sequence[Frame]) -> str:
    return linecache.getline(frames[-1][0], frames[-1][1]) if frames else ""


# ---------------------------------------------------------------- arguments as the program wrote them


def has_own_arguments(api: Api, node: torch.fx.Node) -> bool:
    """Return whether the arguments of an operator are those of the function of the program, maybe in another order."""
    name = api[1].strip("_")
    operator = str(getattr(getattr(node.target, "overloadpacket", None), "__name__", "")).strip("_")
    return api[1].startswith("__") or operator.startswith(name)


def argument_order(api: Api, node: torch.fx.Node) -> tuple[int, ...] | None:
    """Return where the arguments of the function of the program stand in those of a node, in their order.

    ``nn.functional.embedding(input, weight)`` is ``aten.embedding(weight, indices)``, and ``aten.layer_norm`` has an
    argument that ``layer_norm`` lacks. The result is None where the function does not say its arguments.
    """
    owner = OWNERS.get(api[0])
    schema = getattr(node.target, "_schema", None)
    names = [] if owner is None else _parameters(getattr(owner, api[1], None))
    if schema is None or not names:
        return None
    own = [_SPELLINGS.get(argument.name, argument.name) for argument in schema.arguments[: len(node.args)]]
    order = [own.index(name) for name in names if name in own]
    values = [at for at, arg in enumerate(node.args) if isinstance(arg, (torch.fx.Node, list, tuple))]
    return tuple(order) if set(values) <= set(order) else None


_SPELLINGS = {"self": "input", "indices": "input", "train": "training"}
"""Names of arguments that the operator and the function of the program spell differently."""


def _parameters(function: Callable[..., Any] | None) -> list[str]:
    try:
        return [] if function is None else list(inspect.signature(inspect.unwrap(function)).parameters)
    except (TypeError, ValueError) as error:  # a function written in C
        let_through(error)
        return []


# ---------------------------------------------------------------- frames


def frames_in_program(node: torch.fx.Node) -> tuple[Frame, ...]:
    """Return the lines of the program that a node comes from, outermost first, without those of the export."""
    return tuple(frame for frame in frames_of(node.stack_trace) if "/torch/_" not in frame[0].replace("\\", "/"))


def frames_around(frames: Sequence[Frame], levels: Sequence[ModuleLevel]) -> tuple[Frame, ...]:
    """Return the frames up to the line that called a module.

    Args:
        frames: those of a node inside the module, outermost first. Dynamo leaves out those of torch.
        levels: the modules around the node, down to the one that was called.
    """
    starts = [number for number, frame in enumerate(frames) if frame[2] == "forward"]
    shown = any("/torch/nn/" in frame[0].replace("\\", "/") for frame in frames)
    if levels[-1].of_torch and not shown:
        return tuple(frames)
    above = 1 + sum(shown or not level.of_torch for level in levels[:-1])  # the model itself, and what lies between
    return tuple(frames[: starts[above]] if len(starts) > above else frames[:-1])
