"""What one step of one rank says, as immutable facts that rules read: few numbers instead of a whole dump.

A step is read once (``read_step``), where its dump lies; the facts travel as text to the process that judges the run
(``facts_text``, ``facts_of_text``).
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic_core import to_json

from msprobe.check.findings import Finding


class Tensor(NamedTuple):
    """Dtype, shape and statistics of a tensor; NaN for a statistic that was not recorded."""

    dtype: str
    shape: tuple[int, ...]
    largest: float
    smallest: float
    mean: float
    norm: float
    order: float

    @property
    def key(self) -> Hashable:
        """Return what two tensors share only if their statistics, that of the order of elements too, do.

        That is the tensor itself; with NaN, which is not equal to itself, it is a text.
        """
        return repr(tuple(self)) if any(value != value for value in self[2:]) else self

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return math.prod(self.shape)

    @property
    def is_constant(self) -> bool:
        """Return whether all elements are equal, or there is none."""
        return self.largest == self.smallest or not self.size

    @property
    def is_float(self) -> bool:
        """Return whether it has floating point numbers."""
        return "float" in self.dtype.lower()

    @property
    def is_mask(self) -> bool:
        """Return whether it has whole numbers from 0 to 1 alone, which choose among samples and are none."""
        return not self.is_float and self.largest <= 1 and self.smallest >= 0

    @property
    def is_finite(self) -> bool:
        """Return whether its largest and smallest elements are finite numbers."""
        return math.isfinite(self.largest) and math.isfinite(self.smallest)

    @property
    def root_mean_square(self) -> float:
        """Return the size of its elements."""
        return self.norm / math.sqrt(max(self.size, 1))

    @property
    def is_measured(self) -> bool:
        """Return whether it has statistics at all."""
        return self.norm == self.norm or self.largest == self.largest


NO_GRADIENTS = frozenset({"no_grad", "inference"})
"""How a call says that the program has switched gradients off."""
HALF_PRECISION = frozenset({"bfloat16", "float16"})
"""Dtypes of which a last digit is large."""
ROUNDED_STATISTICS = 2e-6
"""How far statistics of equal tensors may be apart, relative to their size: they are sums in another order."""


def differ(one: Tensor, other: Tensor, near: float = ROUNDED_STATISTICS) -> bool:
    """Return whether statistics of two tensors differ by more than ``near``, relative to the size of the tensors."""
    if one == other:
        return False
    if one.dtype != other.dtype or one.shape != other.shape:
        return True
    largest = max(abs(value) for tensor in (one, other) for value in (tensor.largest, tensor.smallest))
    scales = (largest, largest, largest, max(one.norm, other.norm), max(one.norm, other.norm))
    for left, right, scale in zip(one[2:], other[2:], scales, strict=True):
        if left != right and not (left != left and right != right) and not abs(left - right) <= near * scale:
            return True
    return False


class Parameter(NamedTuple):
    """One parameter: as the first call of its module saw it, and as the step left it."""

    requires_grad: bool
    module: str = ""
    kind: str = ""
    used: Tensor | None = None
    left: Tensor | None = None
    sharded: bool = False
    called: bool = False
    read: bool = False
    live: bool = False
    keeps_gradient: bool = False


class Update(NamedTuple):
    """One step of an optimizer, with the gradients that it gets."""

    optimizer: int
    kind: str
    rates: tuple[float, ...]
    parameters: tuple[str | None, ...]
    gradients: Mapping[str, Tensor] | None
    no_gradient: tuple[str, ...]
    kept: tuple[str, ...]
    kept_count: int
    after: int
    stack: tuple[str, ...]
    rate_of: Mapping[str, float] = {}
    group_sizes: tuple[int, ...] = ()


class TrainingCall(NamedTuple):
    """A call that moves the training on, and what it says of itself."""

    kind: str
    after: int
    facts: Mapping[str, Any]
    stack: tuple[str, ...]


class ModuleCall(NamedTuple):
    """One forward call of a module."""

    name: str
    place: int
    path: str
    kind: str
    training: bool | None
    autograd: str | None
    autocast: str | None
    recompute: bool
    given: Tensor | None
    returned: Tensor | None
    frozen: bool
    parent: str
    reached: bool = False

    @property
    def without_gradients(self) -> bool:
        """Return whether the program has switched gradients off around it."""
        return self.autograd in NO_GRADIENTS


class FunctionCall(NamedTuple):
    """One call of a function that automatic casts concern."""

    name: str
    place: int
    function: str
    module: str
    autocast: str | None
    autograd: str | None
    given: str
    returned: str
    evaluation: bool
    backward: bool = False


class Collective(NamedTuple):
    """One collective as this rank made it."""

    name: str
    place: int
    function: str
    group: tuple[int, ...] | None
    operation: str
    peer: int | None
    given: tuple[Tensor, ...]
    returned: tuple[Tensor, ...]
    sizes_in: tuple[int, ...] | None
    sizes_out: tuple[int, ...] | None
    module: str
    in_forward: bool


class BatchTensor(NamedTuple):
    """A tensor that no recorded call made: the data of the step, or a buffer.

    Attributes:
        consumer: the argument that it is.
        module: the path of the module around that call.
        value: the tensor.
        place: where the call stands in the dump.
        use: the argument, by the number that its call has among those that get data in training or in evaluation: an
            evaluation that is in some steps only does not move the others.
    """

    consumer: str
    module: str
    value: Tensor
    place: int
    use: str = ""


class OutsideWeight(NamedTuple):
    """A weight that a function of the model reads and trains, and that is no parameter of the model."""

    call: str
    place: int
    module: str
    function: str
    value: Tensor


class SeenValue(NamedTuple):
    """A value that examples of a relation have, how many have it, and where the first of them is."""

    value: str | bool | float | tuple[str, ...]
    number: int
    call: str
    place: int
    name: str


class Seen(NamedTuple):
    """The examples of one relation in a step (``learned.table.Subject`` says what the parts are)."""

    kind: str
    owner: str
    path: str
    what: str
    when: str
    rule: str
    values: list[SeenValue]


@dataclass(frozen=True)
class StepFacts:
    """One step of one rank. ``local`` are the findings that the step shows by itself."""

    step: int
    rank: int
    document: str
    level: str
    framework: str
    ended: str | None = None
    entries: int = 0
    has_training_records: bool = False
    has_backward: bool = False
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    gradients: Mapping[str, list[Tensor]] = field(default_factory=dict)
    updates: list[Update] = field(default_factory=list)
    training: list[TrainingCall] = field(default_factory=list)
    modules: list[ModuleCall] = field(default_factory=list)
    functions: list[FunctionCall] = field(default_factory=list)
    collectives: list[Collective] = field(default_factory=list)
    batch: list[BatchTensor] = field(default_factory=list)
    shared: list[list[str]] = field(default_factory=list)
    outside: list[OutsideWeight] = field(default_factory=list)
    local: list[Finding] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)


@lru_cache(1)
def _adapter() -> Any:
    from pydantic import TypeAdapter  # not free, and only wanted for facts that travel

    return TypeAdapter(StepFacts)


def facts_text(facts: StepFacts) -> str:
    """Return the facts as JSON text, with NaN and infinity as numbers."""
    return to_json(facts, inf_nan_mode="constants").decode()


def facts_of_text(text: str) -> StepFacts:
    """Return the facts of a text that ``facts_text`` made."""
    facts: StepFacts = _adapter().validate_json(text)
    return facts
