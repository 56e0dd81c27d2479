"""Read from the header of a dump what concerns the training: parameters, steps of optimizers, calls in their order."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from itertools import groupby, takewhile
from typing import Any

from msprobe.check.facts.step_facts import Parameter, Tensor, TrainingCall, Update
from msprobe.check.facts.tensors import tensor_of
from msprobe.compare.records.optimizer_steps import optimizer_steps
from msprobe.core.store.reader import Dump
from msprobe.core.store.record_walk import SHARD, is_tensor

_CALLS, _PARAMETERS = "training_calls", "model_parameters"
WRAPPERS = re.compile(r"^(?:module\.)+|_fsdp_wrapped_module\.|_orig_mod\.|_checkpoint_wrapped_module\.")


def plain_name(path: str, key: str, known: Container[str]) -> str:
    """Return the name that a parameter of a module has in the model without wrappers."""
    name = f"{path}.{key}" if path else key
    return name if name in known else WRAPPERS.sub("", name)


def aliases(shared: list[list[str]], known: Container[str]) -> dict[str, str]:
    """Return the name under which each of several names of one tensor is known here."""
    found = {}
    for names in shared:
        chosen = next((name for name in names if name in known), names[0] if names else "")
        found.update({name: chosen for name in names if name != chosen and name not in known})
    return found


def header_parameters(dump: Dump) -> dict[str, Parameter]:
    """Return every parameter of the model as the step left it; none where the dump does not say."""
    found: dict[str, Parameter] = {}
    for item in _items(dump, _PARAMETERS):
        name, value = item.get("name"), item.get("value")
        if isinstance(name, str) and is_tensor(value):
            assert isinstance(value, dict)
            sharded = SHARD in value or "placements" in value
            found[name] = Parameter(
                value.get("requires_grad") is True,
                left=tensor_of(value),
                sharded=sharded,
                keeps_gradient=item.get("has_gradient") is not False,
            )
    return found


def training_calls(dump: Dump) -> list[TrainingCall]:
    """Return the calls that move the training on, in their order."""
    return [
        TrainingCall(
            str(item.get("call")),
            _number(item.get("after")),
            {key: _plain(value) for key, value in item.items() if key not in _NO_FACTS},
            _frames(item),
        )
        for item in _items(dump, _CALLS)
    ]


_NO_FACTS = frozenset({"call", "after", "stack", "gradients", "no_gradient"})


def updates_of(dump: Dump) -> list[Update]:
    """Return the steps of optimizers, with the gradients that each gets where the dump says so."""
    calls = _items(dump, _CALLS)
    steps = [(item, _kept_at(calls, number)) for number, item in enumerate(calls) if _is_step(item)]
    found: list[Update] = []
    for count, (_, groups) in enumerate(groupby(optimizer_steps(dump), key=lambda step: step.call)):
        parts = list(groups)
        same = [pair for pair in steps if pair[0].get("optimizer") == parts[0].optimizer]
        steps_before = sum(update.optimizer == parts[0].optimizer for update in found)
        item, kept = same[steps_before] if steps_before < len(same) else ({}, {})
        rates = tuple(part.learning_rate if part.learning_rate is not None else float("nan") for part in parts)
        found.append(
            Update(
                optimizer=parts[0].optimizer,
                kind=parts[0].kind,
                rates=rates,
                parameters=tuple(name for part in parts for name in part.parameters),
                gradients=_named(item.get("gradients")),
                no_gradient=_texts(item.get("no_gradient")),
                kept=_texts(kept.get("parameters")),
                kept_count=_number(kept.get("count")),
                after=_number(item.get("after"), count),
                stack=parts[0].stack,
                rate_of={
                    name: rate for part, rate in zip(parts, rates, strict=True) for name in part.parameters if name
                },
                group_sizes=tuple(len(part.parameters) for part in parts),
            )
        )
    return found


def _kept_at(calls: Sequence[Mapping[str, Any]], number: int) -> Mapping[str, Any]:
    """Return what says that a step gets gradients that an earlier one has used: it stands before the step, or after it
    where its closure has added to them."""
    later = takewhile(lambda item: not _is_step(item), calls[number + 1 :])
    near = [(item, False) for item in calls[number - 1 : number]] + [(item, True) for item in later]
    of_step = (item for item, by_closure in near if by_closure == (item.get("by_closure") is True))
    return next((item for item in of_step if item.get("call") == "kept_gradients"), {})


def shared_names(dump: Dump) -> list[list[str]]:
    """Return the names of parameters that are one tensor, in groups."""
    groups = dump.header.get("shared_storage")
    return [list(_texts(group)) for group in groups] if isinstance(groups, list) else []


def group_ranks(dump: Dump) -> dict[str, tuple[int, ...]]:
    """Return the ranks of each process group by its id."""
    found: dict[str, tuple[int, ...]] = {}
    for item in _items(dump, "process_groups"):
        ranks = item.get("ranks")
        if isinstance(ranks, list):
            found[str(item.get("group_id"))] = tuple(rank for rank in ranks if isinstance(rank, int))
    return found


def end_of(dump: Dump) -> str | None:
    """Return how the step ended."""
    end = dump.header.get("end")
    return str(end.get("by")) if isinstance(end, dict) else None


def _is_step(item: Mapping[str, Any]) -> bool:
    return item.get("call") == "optimizer_step"


def _items(dump: Dump, key: str) -> list[Mapping[str, Any]]:
    items = dump.header.get(key)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _named(items: Any) -> dict[str, Tensor] | None:
    if not isinstance(items, list):
        return None
    return {
        item["name"]: tensor_of(item["value"])
        for item in items
        if isinstance(item, dict) and isinstance(item.get("name"), str) and is_tensor(item.get("value"))
    }


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(part for part in value if isinstance(part, str)) if isinstance(value, list) else ()


def _frames(item: Mapping[str, Any]) -> tuple[str, ...]:
    return _texts(item.get("stack"))


def _number(value: Any, missing: int = 0) -> int:
    return value if isinstance(value, int) else missing


def _plain(value: Any) -> Any:
    """Return a fact: a number of a tensor of one element, or the value itself."""
    return tensor_of(value).largest if is_tensor(value) else value
