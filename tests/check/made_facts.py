"""Facts made by hand, for tests of rules that look at several steps and ranks."""

from __future__ import annotations

from typing import Any

from msprobe.check.facts.run_facts import RunFacts
from msprobe.check.facts.step_facts import Collective, ModuleCall, Parameter, StepFacts, Tensor, TrainingCall, Update

ONE_STEP = {"level": "mix", "framework": "pytorch", "entries": 10, "document": "dump.json"}


def tensor(norm: float, *shape: int, dtype: str = "float32", **changed: Any) -> Tensor:
    return Tensor(dtype, shape or (4,), norm, -norm, norm / 8, norm, norm / 4)._replace(**changed)


def facts(step: int = 0, rank: int = 0, **more: Any) -> StepFacts:
    return StepFacts(step=step, rank=rank, **{**ONE_STEP, **more})


def run_of(*steps: StepFacts) -> RunFacts:
    return RunFacts.from_steps(steps)


def parameter(used: float | None, left: float, **more: Any) -> Parameter:
    before = None if used is None else tensor(used, 4, 4)  # of a module that is not called
    return Parameter(True, "fc", "Linear", before, tensor(left, 4, 4), **more)


def module(path: str, norm: float, **more: Any) -> ModuleCall:
    given = {
        "name": f"Module.{path}.Block.forward.0", "place": 0, "path": path, "kind": "Block", "training": True,
        "autograd": "grad", "autocast": None, "recompute": False, "given": None, "returned": tensor(norm, 4),
        "frozen": False, "parent": "",
    }  # fmt: skip
    return ModuleCall(**{**given, **more})


def collective(function: str, gives: float, gets: float, **more: Any) -> Collective:
    values = {
        "name": f"Distributed.{function}.0.forward", "place": 3, "function": function, "group": (0, 1), "operation": "",
        "peer": None, "given": (tensor(gives),), "returned": (tensor(gets),), "sizes_in": None, "sizes_out": None,
        "module": "", "in_forward": False,
    }  # fmt: skip
    return Collective(**{**values, **more})


def trained_step(number: int, *kinds: str, gets: float | None, rate: float = 0.1, dtype: str = "float32") -> StepFacts:
    """Return a step with one parameter that an optimizer holds and that stays as it is."""
    gradients = None if gets is None else {"fc.weight": tensor(gets, 4, 4)}
    update = Update(0, "Adam", (rate,), ("fc.weight",), gradients, (), (), 0, 9, (), {"fc.weight": rate})
    same = parameter(8.0, 8.0)
    same = same._replace(used=tensor(8.0, 4, 4, dtype=dtype), left=tensor(8.0, 4, 4, dtype=dtype))
    calls = [TrainingCall(kind, 9, {}, ()) for kind in kinds]
    return facts(
        number, training=calls, updates=[update], has_backward=True, parameters={"fc.weight": same},
        gradients={"fc.weight": [tensor(1.0, 4, 4)]},
    )  # fmt: skip
