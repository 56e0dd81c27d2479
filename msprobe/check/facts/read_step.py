"""Read the facts of one step of one rank from its dump, in one walk over the records.

``read_step`` also runs the rules that judge one step by itself, because they see whole records (``StepView``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from msprobe.check.facts.calls import Call, is_finite, path_of_gradients, read_call
from msprobe.check.facts.dataflow import mark_of, numbers_of_parameters, reaching_modules, readers, unknown_weights
from msprobe.check.facts.read_header import (
    aliases,
    end_of,
    group_ranks,
    header_parameters,
    plain_name,
    shared_names,
    training_calls,
    updates_of,
)
from msprobe.check.facts.step_facts import (
    BatchTensor,
    Collective,
    FunctionCall,
    ModuleCall,
    OutsideWeight,
    Parameter,
    Seen,
    StepFacts,
    Tensor,
)
from msprobe.check.facts.tensors import tensor_of
from msprobe.check.findings import Finding
from msprobe.compare.records.call_modes import is_in_evaluation
from msprobe.compare.records.entries import CLIPPING, OF_PARAMETERS, path_of
from msprobe.core.errors import ReadError, error_text
from msprobe.core.host import paused_gc
from msprobe.core.naming.names import is_communication
from msprobe.core.store.reader import Dump, Place, damage_named, load_dump
from msprobe.core.store.record_walk import NO_DATA, PARAMETER_GRAD, SHARD, VMAP_AXES, is_tensor, leaves
from msprobe.trace.values import count_of, has_mark

CAST_DOWN = frozenset({
    *("linear", "matmul", "__matmul__", "mm", "bmm", "addmm", "addbmm", "baddbmm", "einsum", "mv", "addmv"),
    *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    *("scaled_dot_product_attention", "chain_matmul", "multi_dot", "prelu", "lstm_cell", "gru_cell"),
})
"""Functions that ``torch.autocast`` runs in the lower precision
(https://docs.pytorch.org/docs/stable/amp.html#cuda-ops-that-can-autocast-to-float16)."""
IN_PLACE_PRODUCTS = frozenset({"addmm_", "addbmm_", "baddbmm_", "addmv_"})
"""Functions of the same kinds that it leaves alone, as they work in place."""
_MAX_BATCH = 64
_OF_OTHERS = frozenset({NO_DATA, VMAP_AXES})
"""Keys of what stands in the place of a parameter, where a module is called with others."""


@dataclass(frozen=True)
class StepView:
    """One step of one rank as the rules of single steps see it: the dump, its calls, and the facts."""

    dump: Dump
    calls: list[Call]
    facts: StepFacts
    evaluation: Callable[[str], bool]
    non_finite: bool = False

    def finding(self, rule: str, call: Call, reason: str, **more: Any) -> Finding:
        """Return a finding about a call of this step."""
        given = {"step": self.facts.step, "rank": self.facts.rank, "call": call.name, "place": call.place}
        return Finding(rule, reason, **{**given, "module": call.path or None, **more})


StepRule = Callable[[StepView], Iterable[Finding]]
Observe = Callable[[StepView], list[Seen]]
"""Returns the examples of relations in a step."""


def read_step(place: Place, rank: int, rules: Sequence[StepRule] = (), observe: Observe | None = None) -> StepFacts:
    """Return the facts of one document, with what the rules find in it, and the examples of relations.

    Raises:
        ReadError: the document is damaged.
    """
    with paused_gc():
        dump = load_dump(place)
        try:
            with damage_named(place):
                view = _Reader(dump, rank).view()
                found = [finding for rule in rules for finding in rule(view)]
                seen = observe(view) if observe is not None else []
        except (TypeError, ValueError, OverflowError) as error:
            text = f"{place.document}: a record has values of types that it cannot have ({error_text(error)})"
            raise ReadError(text) from error
    return replace(view.facts, local=found, seen=seen)


class _Reader:
    """Walks the records of a dump once."""

    def __init__(self, dump: Dump, rank: int) -> None:
        self._dump = dump
        self._rank = rank
        self._known = header_parameters(dump)
        self._aliases = aliases(shared_names(dump), self._known)
        self._parameters: dict[str, Parameter] = dict(self._known)
        self._gradients: dict[str, list[Tensor]] = {}
        self._modules: list[ModuleCall] = []
        self._functions: list[FunctionCall] = []
        self._collectives: list[Collective] = []
        self._batch: list[BatchTensor] = []
        self._fed: dict[tuple[str, bool], list[str]] = {}  # the calls that get data, in training and in evaluation
        self._made: set[int] = set()
        self._frozen = {
            mark_of(one.left) for one in self._known.values() if one.left is not None and not one.requires_grad
        }
        self._calls: list[Call] = []
        self._evaluated: dict[str, bool] = {}
        self._outside: list[OutsideWeight] = []
        self._non_finite = False
        self._backward = False
        self._reached: set[tuple[str, int]] = set()
        self._groups = group_ranks(dump)

    def view(self) -> StepView:
        for place, (name, body) in enumerate(self._dump.data.items()):
            if isinstance(body, dict):
                self._read(place, name, body)
        dump = self._dump
        training = training_calls(dump)
        self._follow_parameters()
        reached = {call.name for call in self._calls if (call.stem, call.number) in self._reached}
        facts = StepFacts(
            step=dump.place.step or 0,
            rank=self._rank,
            document=str(dump.place.document),
            level=dump.level or "",
            framework=dump.framework or "",
            ended=end_of(dump),
            entries=len(dump.data),
            has_training_records="training_calls" in dump.header or "model_parameters" in dump.header,
            has_backward=self._backward or any(call.kind == "backward" for call in training),
            parameters=self._parameters,
            gradients=self._gradients,
            updates=updates_of(dump),
            training=training,
            modules=[call._replace(reached=True) if call.name in reached else call for call in self._modules],
            functions=self._functions,
            collectives=self._collectives,
            batch=self._batch,
            shared=shared_names(dump),
            outside=self._outside,
        )
        return StepView(dump, self._calls, facts, self._in_evaluation, self._non_finite)

    def _follow_parameters(self) -> None:
        """Note which parameters a function reads, and whether what it makes of them reaches a backward pass."""
        names: dict[int, list[str]] = {}
        for name, parameter in self._parameters.items():
            value = parameter.used or parameter.left
            if value is not None:
                names.setdefault(mark_of(value), []).append(name)
        for value_mark, alive in readers(self._calls, names.keys()):
            for name in names[value_mark]:
                parameter = self._parameters[name]
                self._parameters[name] = parameter._replace(read=True, live=parameter.live or alive)
        lonely = {
            value.largest: name
            for name, parameter in self._parameters.items()
            if (value := parameter.used or parameter.left) is not None and value.size == 1 and not parameter.read
        }
        for number in numbers_of_parameters(self._calls, lonely.keys()):
            name = lonely[number]
            self._parameters[name] = self._parameters[name]._replace(read=True, live=True)
        outside = unknown_weights(self._calls, names.keys())
        self._follow_uncalled(outside)
        for call in reaching_modules(self._calls, outside):
            weight = call.tensor(1, "weight")
            assert weight is not None
            self._outside.append(OutsideWeight(call.name, call.place, call.module, call.function, weight))

    def _follow_uncalled(self, outside: Collection[Call]) -> None:
        """Note as which value a function reads a parameter whose module is never called, as a head that has the weight
        of an embedding does, where only one of that shape can be meant."""
        read = {mark_of(weight): weight for call in outside if (weight := call.tensor(1, "weight")) is not None}
        for weight in read.values():
            alike = [name for name, one in self._parameters.items() if _is_uncalled(one, weight.shape)]
            if len(alike) == 1 and [one.shape for one in read.values()].count(weight.shape) == 1:
                self._parameters[alike[0]] = self._parameters[alike[0]]._replace(used=weight, read=True, live=True)

    def _name(self, path: str, key: str) -> str:
        name = plain_name(path, key, self._known)
        return self._aliases.get(name, name)

    def _read(self, place: int, name: str, body: dict[str, Any]) -> None:
        call = read_call(place, name, body, self._dump.construct)
        if call is None:
            self._read_gradients(name, body)
            return
        self._non_finite = self._non_finite or not call.is_finite
        self._calls.append(call)
        if call.phase == "backward":
            self._backward = True
            if call.is_module:
                self._reached.add((call.stem, call.number))
            return
        self._read_forward(call)

    def _read_forward(self, call: Call) -> None:
        if call.is_module:
            self._read_module(call)
        elif is_communication(call.name):
            self._collectives.append(self._collective(call))
        elif (call.function in CAST_DOWN or call.function in IN_PLACE_PRODUCTS) and call.parent not in OF_PARAMETERS:
            self._read_function(call)
        if call.parent not in OF_PARAMETERS and not self._backward:
            self._read_batch(call)
        self._made.update(call.returned_marks)

    def _in_evaluation(self, name: str) -> bool:
        found = self._evaluated.get(name)
        if found is None:
            found = self._evaluated[name] = is_in_evaluation(name, self._dump.data, self._dump.construct)
        return found

    def _read_gradients(self, record: str, body: Mapping[str, Any]) -> None:
        path = path_of_gradients(record)
        for leaf in () if path is None else leaves(record, body):
            if leaf.slot == PARAMETER_GRAD and is_tensor(leaf.raw):
                self._non_finite = self._non_finite or not is_finite(leaf.raw)
                name = self._name(path or "", leaf.suffix.lstrip("."))
                self._gradients.setdefault(name, []).append(tensor_of(leaf.raw))

    def _read_module(self, call: Call) -> None:
        path, body = path_of(call.stem), call.body
        trained = body.get("autograd") in (None, "grad")
        needs = []
        for leaf in call.parameters:
            key = leaf.suffix.partition(".parameters.")[2]
            name = self._name(path, key)
            requires = leaf.raw.get("requires_grad") is True
            needs.append(requires)
            known = self._parameters.get(name)
            used = known.used if known is not None and known.used is not None else tensor_of(leaf.raw)
            self._parameters[name] = Parameter(
                requires_grad=known.requires_grad if known is not None and name in self._known else requires,
                module=path,
                kind=call.function,
                used=used,
                left=known.left if known is not None else None,
                sharded=SHARD in leaf.raw or "placements" in leaf.raw or (known is not None and known.sharded),
                called=leaf.raw.keys().isdisjoint(_OF_OTHERS) or (known is not None and known.called),
                keeps_gradient=known is not None and known.keeps_gradient,
            )
        training, autograd = body.get("training"), body.get("autograd")
        self._modules.append(
            ModuleCall(
                name=call.name,
                place=call.place,
                path=path,
                kind=call.function,
                training=training if isinstance(training, bool) else None,
                autograd=autograd if isinstance(autograd, str) else None,
                autocast=body.get("autocast"),
                recompute=body.get("is_recompute") is True,
                given=next((tensor_of(leaf.raw) for leaf in call.given), None),
                returned=call.result,
                frozen=bool(needs) and not any(needs) and trained,
                parent=call.module,
            )
        )

    def _read_function(self, call: Call) -> None:
        given = [leaf.raw for leaf in call.given if "float" in str(leaf.raw.get("dtype"))]
        result = call.result
        if given and result is not None and result.is_float:
            self._functions.append(
                FunctionCall(
                    name=call.name,
                    place=call.place,
                    function=call.function,
                    module=call.module,
                    autocast=call.body.get("autocast"),
                    autograd=call.body.get("autograd"),
                    given=tensor_of(given[0]).dtype,
                    returned=result.dtype,
                    evaluation=self._in_evaluation(call.name),
                    backward=self._backward,
                )
            )

    def _read_batch(self, call: Call) -> None:
        if len(self._batch) >= _MAX_BATCH:
            return
        for leaf, own in zip(call.given, call.given_marks, strict=True):
            raw = leaf.raw
            if raw.get("requires_grad") is True or own in self._made or own in self._frozen or count_of(raw) < 2:
                continue
            if not has_mark(raw):
                continue
            self._made.add(own)
            consumer, use = f"{call.name}{leaf.suffix}", f"{self._use(call)}{leaf.suffix}"
            self._batch.append(BatchTensor(consumer, call.path, tensor_of(raw), call.place, use))

    def _use(self, call: Call) -> str:
        evaluation = self._in_evaluation(call.name)
        fed = self._fed.setdefault((call.stem, evaluation), [])
        if call.name not in fed[-1:]:
            fed.append(call.name)
        return f"{call.stem}.{'evaluation' if evaluation else 'training'}.{len(fed)}"

    def _collective(self, call: Call) -> Collective:
        group_id = call.body.get("group_id")
        group = self._groups.get(group_id) if isinstance(group_id, str) else None
        operation = call.argument(1, "op")
        return Collective(
            name=call.name,
            place=call.place,
            function=call.function,
            group=group,
            operation=operation if isinstance(operation, str) else "",
            peer=next(_peers(call), None),
            given=tuple(tensor_of(leaf.raw) for leaf in call.given),
            returned=tuple(tensor_of(leaf.raw) for leaf in call.returned),
            sizes_in=_sizes(call, 3, "input_split_sizes"),
            sizes_out=_sizes(call, 2, "output_split_sizes"),
            module=call.module,
            in_forward=not self._backward and call.parent not in OF_PARAMETERS and call.parent != CLIPPING,
        )


def _is_uncalled(one: Parameter, shape: tuple[int, ...]) -> bool:
    known = one.left is not None and one.left.shape == shape
    return known and one.requires_grad and not one.called and not one.read and not one.sharded


def _peers(call: Call) -> Iterator[int]:
    for name in ("src", "dst", "group_src", "group_dst"):
        value = call.argument(99, name)
        if isinstance(value, int):
            yield value
    value = call.argument(1, "src")
    if isinstance(value, int) and not isinstance(value, bool):
        yield value


def _sizes(call: Call, position: int, name: str) -> tuple[int, ...] | None:
    if call.function != "all_to_all_single":
        return None
    node = call.argument(position, name)
    if not isinstance(node, list):
        return None
    numbers = [part.get("value") if isinstance(part, dict) else part for part in node]
    sizes = tuple(number for number in numbers if isinstance(number, int))
    return sizes if sizes and len(sizes) == len(numbers) else None
