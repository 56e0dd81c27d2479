"""Number formats: automatic casts reach every function they should; layers of one kind and all steps have one dtype."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from msprobe.check.facts.patterns import pattern_of
from msprobe.check.facts.read_step import IN_PLACE_PRODUCTS
from msprobe.check.facts.run_facts import RunFacts
from msprobe.check.facts.step_facts import HALF_PRECISION, FunctionCall, ModuleCall, StepFacts
from msprobe.check.findings import Certainty, Finding
from msprobe.check.needs import CALLS, MODULES, STEPS
from msprobe.check.rule import Rule, of_module_call

_ON_EVERY_DEVICE = frozenset({
    *("linear", "matmul", "mm", "bmm", "addmm", "addbmm", "baddbmm", "conv1d", "conv2d", "conv3d"),
    *("scaled_dot_product_attention", "__matmul__"),
})


def _trained(facts: StepFacts) -> list[FunctionCall]:
    return [
        one for one in facts.functions if one.autograd in {None, "grad"} and not one.evaluation and not one.backward
    ]


def casts_missing(run: RunFacts) -> Iterator[Finding]:
    """Yield functions that run in float32 although automatic casts are on, or where others like them are cast."""
    for facts in run.every():
        yield from _inside_autocast(facts.rank, facts)
        yield from _beside_casts(facts.rank, facts)
        yield from _in_place(facts.rank, facts)


def _inside_autocast(rank: int, facts: StepFacts) -> Iterator[Finding]:
    for one in facts.functions:
        if (
            one.autocast in HALF_PRECISION
            and one.given == "float32" == one.returned
            and one.function in _ON_EVERY_DEVICE
        ):
            reason = (
                f"{one.function} runs inside autocast to {one.autocast}, gets float32 and returns float32: the cast is "
                "not applied to it"
            )
            yield _finding("autocast_not_applied", facts, rank, one, reason, "certain")
            return


def _beside_casts(rank: int, facts: StepFacts) -> Iterator[Finding]:
    calls = _trained(facts)
    cast = [one for one in calls if one.given == "float32" and one.returned in HALF_PRECISION]
    if len(cast) < 2:
        return
    blocks = {_template(one.module) for one in cast if _template(one.module) != one.module}
    beside = {one.module.rpartition(".")[0] for one in cast if one.module}
    told: set[str] = set()
    for one in calls:
        if one.given != "float32" or one.returned != "float32" or one.function not in _ON_EVERY_DEVICE:
            continue
        where = f"{one.function} in {one.module}"
        if where in told or one.autocast is not None:
            continue
        told.add(where)
        like = next((other for other in cast if _template(other.module) == _template(one.module)), None)
        inside = bool(one.module) and (one.module in beside or one.module.rpartition(".")[0] in beside)
        repeated = like is not None and _template(one.module) in blocks and like.function == one.function
        certainty: Certainty = "likely" if repeated or (inside and "." in one.module) else "possible"
        other = like or cast[0]
        reason = (
            f"{one.function} of {one.module or 'the model'} gets float32 and stays in float32, while {other.function} "
            f"of {other.module or 'the model'} is cast to {other.returned}: the automatic cast does not reach it"
        )
        yield _finding("autocast_not_applied", facts, rank, one, reason, certainty)


def _in_place(rank: int, facts: StepFacts) -> Iterator[Finding]:
    """Yield products in place, which automatic casts leave in float32, beside functions that are cast."""
    calls = _trained(facts)
    cast = [one for one in calls if one.given == "float32" and one.returned in HALF_PRECISION]
    for one in calls if len(cast) > 1 else ():
        if one.function in IN_PLACE_PRODUCTS and one.given == "float32" == one.returned:
            reason = (
                f"{one.function} of {one.module or 'the model'} stays in float32, while {cast[0].function} of "
                f"{cast[0].module or 'the model'} is cast to {cast[0].returned}: automatic casts do not reach "
                "functions that work in place"
            )
            yield _finding("autocast_not_applied", facts, rank, one, reason, "possible")
            return


def _finding(rule: str, facts: StepFacts, rank: int, one: FunctionCall, reason: str, certainty: Certainty) -> Finding:
    return Finding(rule, reason, certainty, facts.step, rank, one.module or None, call=one.name, place=one.place)


def _template(path: str) -> str:
    """Return the path of a layer with its numbers left out, which layers of one kind share."""
    return pattern_of(path)


def layers_differ(run: RunFacts) -> Iterator[Finding]:
    """Yield layers that return another dtype than most layers of their kind."""
    for facts in run.every():
        kinds: dict[tuple[str, str], dict[str, list[ModuleCall]]] = defaultdict(lambda: defaultdict(list))
        for call in facts.modules:
            if call.returned is None or not call.returned.is_float or call.recompute or call.autograd == "no_grad":
                continue
            template = _template(call.path)
            if template != call.path and not call.path.rpartition(".")[2].isdigit():
                kinds[template, call.kind][call.returned.dtype].append(call)
        for dtypes in kinds.values():
            yield from _unusual(facts, dtypes)


def _unusual(facts: StepFacts, dtypes: dict[str, list[ModuleCall]]) -> Iterator[Finding]:
    (usual, most), *others = sorted(dtypes.items(), key=lambda item: -len(item[1]))
    for dtype, few in others:
        call = few[0]
        if len(few) > len(most) or call.path in {one.path for one in most}:
            continue
        reason = (
            f"{call.kind} {call.path} returns {dtype}, and {len(most)} layers of its kind return {usual}, such as "
            f"{most[0].path}"
        )
        certainty: Certainty = "likely" if len(most) > len(few) or len(most) == 1 else "possible"
        yield of_module_call("dtype_differs_between_layers", reason, certainty, facts, call)


def steps_differ(run: RunFacts) -> Iterator[Finding]:
    """Yield modules that return another dtype in a later step, in the same mode."""
    for _, steps in run.by_rank():
        seen: dict[tuple[str, int, bool | None, str | None], tuple[int, str]] = {}
        for facts, call, number in _numbered(steps):
            assert call.returned is not None
            key = call.path, number, call.training, call.autograd
            step, dtype = seen.setdefault(key, (facts.step, call.returned.dtype))
            if dtype != call.returned.dtype:
                reason = (
                    f"{call.kind} {call.path} returns {dtype} in step {step} and {call.returned.dtype} from step "
                    f"{facts.step} on, in the same mode"
                )
                yield of_module_call("dtype_changes_between_steps", reason, "likely", facts, call)
                break


def _numbered(steps: list[StepFacts]) -> Iterator[tuple[StepFacts, ModuleCall, int]]:
    """Yield the calls of modules that return floating point numbers, each with its number in its step."""
    for facts in steps:
        counts: dict[str, int] = defaultdict(int)
        for call in facts.modules:
            number, counts[call.path] = counts[call.path], counts[call.path] + 1
            if call.returned is not None and call.returned.is_float and not call.recompute:
                yield facts, call, number


RULES = (
    Rule(
        "autocast_not_applied",
        "number formats",
        "Automatic casts reach every function of their list.",
        (CALLS,),
        "certain",
        "Call the layer inside the autocast block, and mark hand-written functions with custom_fwd.",
        of_run=casts_missing,
    ),
    Rule(
        "dtype_differs_between_layers",
        "number formats",
        "Layers of one kind return one dtype.",
        (MODULES,),
        "likely",
        "See what converts one layer alone.",
        of_run=layers_differ,
    ),
    Rule(
        "dtype_changes_between_steps",
        "number formats",
        "A module returns the same dtype in all steps of one mode.",
        (MODULES, STEPS),
        "likely",
        "See which autocast block or conversion depends on the step.",
        of_run=steps_differ,
    ),
)
