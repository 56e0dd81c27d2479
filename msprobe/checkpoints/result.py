"""What the comparison of two checkpoints says: each parameter, the verdict, lines for a terminal, documents.

The result document maps each name to ``{"l2", "cos", "numel", "shape"}``. Where the two sides differ in shape,
``numel`` and ``shape`` are pairs, with null for a side that lacks the parameter, and l2 and cos are null. ``problem``
is present when a parameter cannot be compared for another reason, ``relation`` where one side is the other rearranged.
Parameters of the first checkpoint come first, in its order, then those that only the second has.

The summary (``--json``) has the verdict, counts, and the parameters that are not equal, the worst first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from msprobe.checkpoints.similarity import Similarity
from msprobe.core.store.tensor_reader import LazyTensor
from msprobe.core.tensors.dtypes import same_dtype

ParameterKind = Literal["problem", "first_only", "second_only", "shape", "different", "rounding", "equal"]
_WORST = 5
_FEW_STEPS = 64
_COUNTED: dict[ParameterKind, str] = {
    "equal": "equal",
    "rounding": "within one unit in the last place",
    "different": "different",
    "shape": "of another shape",
    "first_only": "only in the first",
    "second_only": "only in the second",
    "problem": "not comparable",
}
_WORST_FIRST: tuple[ParameterKind, ...] = ("problem", "first_only", "second_only", "shape", "different", "rounding")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One name in the two checkpoints; a side that lacks it is None."""

    name: str
    first: LazyTensor | None
    second: LazyTensor | None
    similarity: Similarity = field(default_factory=Similarity)
    relation: str = ""
    """How the second side holds the elements of the first one, where it does: transposed, in another order, padded."""

    @property
    def kind(self) -> ParameterKind:
        """Return what the comparison says about this parameter."""
        if self.second is None:
            return "first_only"
        if self.first is None:
            return "second_only"
        if self.similarity.problem:
            return "problem"
        if self.first.shape != self.second.shape:
            return "shape"
        if self.similarity.l2 == 0.0:
            return "equal"
        is_float = self.similarity.cos is not None and "int" not in self.first.dtype and self.first.dtype != "bool"
        steps = self.similarity.steps
        return "rounding" if is_float and steps is not None and steps <= 1 else "different"

    def entry(self) -> dict[str, Any]:
        """Return the value of this parameter in the document."""
        numel = [None if side is None else side.numel for side in (self.first, self.second)]
        shape = [None if side is None else list(side.shape) for side in (self.first, self.second)]
        same = shape[0] == shape[1]
        entry = {
            "l2": self.similarity.l2,
            "cos": self.similarity.cos,
            "numel": numel[0] if same else numel,
            "shape": shape[0] if same else shape,
        }
        words = {"problem": self.similarity.problem, "relation": self.relation}
        return entry | {key: text for key, text in words.items() if text}

    def summary_entry(self) -> dict[str, Any]:
        """Return the parameter as the summary has it."""
        types = [None if side is None else side.dtype for side in (self.first, self.second)]
        return {"name": self.name, "kind": self.kind, **self.entry(), "dtypes": types, "ulps": self.similarity.steps}

    def types(self) -> str:
        """Return both types in words when they differ, otherwise an empty text."""
        if self.first is None or self.second is None or same_dtype(self.first.dtype, self.second.dtype):
            return ""
        return f"{self.first.dtype} against {self.second.dtype}"

    def line(self) -> str:
        """Return the line about this parameter for a terminal."""
        name = _safe(self.name)
        if self.first is None or self.second is None:
            return f"{name}: only in the {'first' if self.second is None else 'second'}"
        if self.similarity.problem:
            return f"{name}: {_safe(self.similarity.problem)}"
        if self.first.shape != self.second.shape:
            return f"{name}: shape {list(self.first.shape)} against {list(self.second.shape)}{self._relation()}"
        cos = "none, one side is zero" if self.similarity.cos is None else f"{self.similarity.cos:.9g}"
        return f"{name}: cos {cos}, l2 {self.similarity.l2:.4g}{self._steps()}{self._relation()}"

    def _relation(self) -> str:
        return f"; it is {self.relation}" if self.relation else ""

    def _steps(self) -> str:
        """Return the distance in units in the last place where that is a small number."""
        steps = self.similarity.steps
        if steps is None or steps > _FEW_STEPS or self.kind not in {"rounding", "different"}:
            return ""
        if steps == 0:
            return ", equal after rounding to the coarser type"
        return f", at most {steps} unit{'s' if steps > 1 else ''} in the last place"

    def badness(self) -> tuple[int, float, float]:
        """Return the sort key that puts the worst parameters first."""
        kind = _WORST_FIRST.index(self.kind) if self.kind != "equal" else len(_WORST_FIRST)
        cos = -2.0 if self.similarity.cos is None else self.similarity.cos
        return kind, cos, -(self.similarity.l2 or 0.0)


@dataclass(frozen=True, slots=True)
class CheckpointComparison:
    """The parameters of two checkpoints, and the layout of each."""

    parameters: list[Parameter]
    layouts: tuple[str, str]
    skipped: tuple[list[str], list[str]]

    @property
    def same(self) -> bool:
        """Return whether all parameters are on both sides and equal."""
        return all(parameter.kind == "equal" for parameter in self.parameters)

    def document(self) -> dict[str, Any]:
        """Return the result document that the module describes."""
        return {parameter.name: parameter.entry() for parameter in self.parameters}

    def counts(self) -> dict[str, int]:
        """Return how many parameters are of each kind that occurs."""
        kinds = [parameter.kind for parameter in self.parameters]
        return {kind: kinds.count(kind) for kind in _COUNTED if kind in kinds}

    def worst_first(self) -> list[Parameter]:
        """Return the parameters that are not equal."""
        return sorted((one for one in self.parameters if one.kind != "equal"), key=Parameter.badness)

    def summary(self) -> dict[str, Any]:
        """Return the summary that the module describes."""
        sides = [{"layout": layout, "left_out": len(skipped)} for layout, skipped in self._sides()]
        return {
            "verdict": "same" if self.same else "diverged",
            "first": sides[0],
            "second": sides[1],
            "counts": self.counts(),
            "parameters": [parameter.summary_entry() for parameter in self.worst_first()],
        }

    def lines(self) -> Iterator[str]:
        """Yield the lines of the summary, and lines about the least similar parameters."""
        for side, (layout, skipped) in zip(("First", "Second"), self._sides(), strict=True):
            example = f", such as {', '.join(map(_safe, skipped[:_WORST]))}," if skipped else ""
            rest = f"; {len(skipped)} values that are not weights{example} left out" if skipped else ""
            yield f"{side}: {_safe(layout)}{rest}"
        counts = ", ".join(f"{count} {_COUNTED[kind]}" for kind, count in self.counts().items())  # type: ignore[index]
        yield f"Verdict: {'SAME' if self.same else 'DIVERGED'} ({len(self.parameters)} parameters: {counts})"
        if cast := [(item, types) for item in self.parameters if (types := item.types())]:
            first, types = cast[0]
            yield f"  {len(cast)} of another type, such as {_safe(first.name)}: {types}; their values are compared"
        worst = self.worst_first()
        for kind in _WORST_FIRST:
            group = [parameter for parameter in worst if parameter.kind == kind]
            yield from (f"  {parameter.line()}" for parameter in group[:_WORST])
            if len(group) > _WORST:
                yield f"  ... and {len(group) - _WORST} more {_COUNTED[kind]}"

    def _sides(self) -> list[tuple[str, list[str]]]:
        return list(zip(self.layouts, self.skipped, strict=True))


def _safe(name: str) -> str:
    """Return a name without control characters, which could change the state of a terminal."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in name)
