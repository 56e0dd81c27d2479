"""Ways to write down a planted fault."""

from __future__ import annotations

from tests.real_models.cases import Case
from tests.real_models.runs import TRAIN, Edit, Run

OPTIMIZER = ("optimizer",)
OUTSIDE = ("",)
"""No module makes the call."""
STEP = "        optimizer.step()"


def built(code: str) -> Edit:
    """What is wrong is a value in the model when it is built."""
    return Edit("    model.train()\n", f"    model.train()\n    with torch.no_grad():\n        {code}\n", TRAIN)


def swapped(parameter: str, first: int, second: int) -> Edit:
    return built(f"{parameter}[[{first}, {second}]] = {parameter}[[{second}, {first}]]")


SCALED_GRADIENT = """class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return grad * {factor}{here}


"""


def scaled_gradient(before: str, factor: str, here: str = "") -> Edit:
    return Edit(before, SCALED_GRADIENT.format(factor=factor, here=here) + before)


def fault(
    name: str,
    modules: str | tuple[str, ...],
    *edits: Edit,
    at: str | tuple[str, ...] = (),
    healthy_at: str | tuple[str, ...] = (),
    near: str | tuple[str, ...] = (),
    golden: tuple[Edit, ...] = (),
    **arguments: str,
) -> Case:
    """Return a case; ``name`` begins with the family; ``golden`` are edits of the golden program."""
    family = name.partition("/")[0]
    return Case(
        f"fault/{name}",
        Run(family).edited(*edits, **arguments),
        Run(family).edited(*golden, **arguments),
        (modules,) if isinstance(modules, str) else modules,
        (at,) if isinstance(at, str) else at,
        (healthy_at,) if isinstance(healthy_at, str) else healthy_at,
        (near,) if isinstance(near, str) else near,
    )


LR = Edit("lr=1e-3", "lr=2e-3", TRAIN)
BETAS = Edit("betas=(0.9, 0.95)", "betas=(0.9, 0.99)", TRAIN)
NO_DECAY = Edit("weight_decay=0.1", "weight_decay=0.0", TRAIN)
