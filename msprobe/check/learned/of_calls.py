"""Examples that the calls of a step give: settings of functions, what modules call and in which order, results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from msprobe.check.facts.calls import Call
from msprobe.check.facts.patterns import NUMBER, pattern_of
from msprobe.check.facts.read_step import CAST_DOWN, StepView
from msprobe.check.facts.step_facts import NO_GRADIENTS, Seen, StepFacts
from msprobe.check.learned.arguments import factor, inner_size, scale, settings
from msprobe.check.learned.of_results import see_loss, see_result
from msprobe.check.learned.of_training import see_step
from msprobe.check.learned.table import EQUALS, INCLUDES, ORDERED, SeenTable
from msprobe.compare.records.entries import OF_PARAMETERS, path_of, stem_of
from msprobe.compare.records.optimizer_steps import optimizer_steps
from msprobe.core.naming.names import is_module_name
from msprobe.trace.values import mark

_WORKING = re.compile(
    r"dropout|norm|softmax|relu|gelu|silu|tanh|sigmoid|linear|conv|^b?mm$|matmul|addmm|attention|embedding|entropy|loss"
    r"|all_reduce|all_gather|reduce_scatter|all_to_all|broadcast|lstm|gru|pool|interpolate"
)
"""Functions whose presence belongs to the program; others come and go with masks and shapes of the data."""
_DIGITS = 6


class Around(NamedTuple):
    """The module around a call."""

    owner: str
    path: str


def observe(view: StepView, with_sizes: bool = True) -> list[Seen]:
    """Return the examples in one step of one rank.

    Args:
        view: the step.
        with_sizes: whether those of sizes are wanted.
    """
    table = SeenTable(with_sizes)
    walk = _Walk(view, table)
    for call in view.calls:
        if call.phase == "forward" and call.parent not in OF_PARAMETERS and not call.body.get("is_recompute"):
            walk.read(call)
    for step in optimizer_steps(view.dump):
        owner = f"optimizer {step.optimizer}"
        table.add(("argument", owner, "", "class", "", EQUALS), step.kind, name=owner)
        for name, value in step.settings.items():
            if name not in _NO_SETTINGS and isinstance(value, bool | int | float | str | list | tuple):
                subject = ("argument", f"{owner} ({step.kind})", "", f"{name} of group {step.group}", "", EQUALS)
                table.add(subject, _plain(value), name=f"{owner}, group {step.group}")
    see_step(table, view.facts)
    return table.seen()


_NO_SETTINGS = frozenset({"lr", "initial_lr", "params", "foreach", "fused", "capturable", "differentiable", "momentum",
                          "max_lr", "min_lr", "max_momentum", "base_momentum", "betas_cycle", "step"})  # fmt: skip
"""What schedules move, and what says nothing of the result."""


def _plain(value: Any) -> str | bool | float:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def precision_of(facts: StepFacts) -> str:
    """Return the dtype of most parameters of a step, with that of automatic casts: the precision of the program."""
    sizes: dict[str, int] = {}
    for parameter in facts.parameters.values():
        value = parameter.used or parameter.left
        if value is not None:
            sizes[value.dtype] = sizes.get(value.dtype, 0) + value.size
    casts: dict[str, int] = {}
    for call in facts.functions:
        casts[call.autocast or ""] = casts.get(call.autocast or "", 0) + 1
    dtype = max(sizes, key=lambda name: sizes[name], default="")
    cast = max(casts, key=lambda name: casts[name], default="")
    return f"parameters in {dtype or 'no dtype'}" + (f" under autocast {cast}" if cast else "")


class _Walk:
    """Reads forward calls in the order in which they end."""

    def __init__(self, view: StepView, table: SeenTable) -> None:
        self._table = table
        self._data: Mapping[str, Any] = view.dump.data
        self._precision = precision_of(view.facts)
        self._inside: dict[str, set[str]] = {}
        self._children: dict[str, dict[str, None]] = {}
        self._uses: dict[tuple[str, str], int] = {}
        self._product: dict[str, tuple[int, int]] = {}
        self._modes: dict[str, str] = {}

    def read(self, call: Call) -> None:
        if call.is_module:
            self._read_module(call)
        elif call.parent:
            self._read_function(call, _around(call.parent))
        else:
            self._read_function(call, Around("", ""))

    def _mode(self, name: str, body: Mapping[str, Any]) -> str:
        """Return the mode that a module is in, and whether gradients are recorded."""
        found = self._modes.get(name)
        if found is None:
            training, autograd = body.get("training"), body.get("autograd")
            words = ["training" if training else "evaluation"] if isinstance(training, bool) else []
            found = self._modes[name] = ", ".join(words + (["no gradients"] if autograd in NO_GRADIENTS else []))
        return found

    def _read_module(self, call: Call) -> None:
        table, path = self._table, pattern_of(call.path)
        owner, mode = call.function, self._mode(call.name, call.body)
        where = call.name, call.place, call.path
        body = call.body
        if isinstance(body.get("training"), bool):
            gradients = "no gradients" if body.get("autograd") in NO_GRADIENTS else "with gradients"
            value = "training" if body["training"] else "evaluation"
            subject = ("argument", owner, call.path, "mode", gradients, EQUALS)
            table.add_with_place(subject, value, call.name, call.place)
        inside, children = self._inside.pop(call.name, None), self._children.pop(call.name, None)
        if inside and not (len(inside) == 1 and next(iter(inside)).replace("_", "") in owner.lower()):
            table.add(("contained", owner, path, "functions", mode, INCLUDES), tuple(sorted(inside)), *where)
        if children:
            names = tuple(children)
            table.add(("contained", owner, path, "modules", mode, INCLUDES), tuple(sorted(names)), *where)
            if len(names) > 1:
                table.add(("order", owner, path, "modules", mode, ORDERED), names, *where)
        if call.parent:
            self._children.setdefault(call.parent, {})[_child(path, pattern_of(call.module), owner)] = None
        see_result(table, (owner, path, mode), call, self._precision)

    def _read_function(self, call: Call, around: Around) -> None:
        name, table = call.function, self._table
        module = self._data.get(call.parent) if call.parent else None
        mode = self._mode(call.parent, module) if isinstance(module, dict) else ""
        where = call.name, call.place, call.module
        if call.parent and _is_working(name):
            self._inside.setdefault(call.parent, set()).add(name)
        for setting, value in settings(call).items():
            table.add(("argument", *around, f"{setting} of {name}", mode, EQUALS), value, *where)
        self._read_factor(call, around, mode)
        if name in CAST_DOWN and call.returned:
            dtype = str(call.returned[0].raw.get("dtype")).removeprefix("torch.")
            table.add(("output", *around, f"dtype of {name}", self._precision, EQUALS), dtype, *where)
        see_loss(table, around, call)

    def _read_factor(self, call: Call, around: Around, mode: str) -> None:
        size = inner_size(call)
        if size is not None and call.returned:
            self._product[call.parent] = mark(call.returned[0].raw), size
            return
        if not call.parent or not call.given:
            return
        number = factor(call)
        if number is None:
            return
        use = self._uses[call.parent, call.function] = self._uses.get((call.parent, call.function), 0) + 1
        product = self._product.get(call.parent)
        where = call.name, call.place, call.module
        if product is not None and product[0] == mark(call.given[0].raw):
            what, value = "scale x root of the head's size after a product", scale(number, product[1])
            self._table.add(("argument", *around, what, mode, EQUALS), value, *where)
        elif "float" in str(call.given[0].raw.get("dtype")):
            shape = call.given[0].raw.get("shape")
            width = shape[-1] if isinstance(shape, list) and shape else 1
            words = ", ".join(part for part in (mode, f"tensors of width {width}") if part)
            what = f"factor of {call.function} ({use})"
            self._table.add(("argument", *around, what, words, EQUALS), float(f"{number:.{_DIGITS}g}"), *where)


def _child(path: str, parent: str, owner: str) -> str:
    """Return how a module calls a part of it; a numbered one also has its class, as it may be anything."""
    own = path[len(parent) + 1 :] if parent and path.startswith(f"{parent}.") else path
    return f"{own} ({owner})" if own.rpartition(".")[2] == NUMBER else own


@lru_cache(maxsize=1 << 14)
def _around(parent: str) -> Around:
    if not is_module_name(parent):
        return Around("", "")
    stem = stem_of(parent)
    return Around(stem.rpartition(".")[2], pattern_of(path_of(stem)))


@lru_cache(maxsize=1 << 10)
def _is_working(name: str) -> bool:
    return bool(_WORKING.search(name))
