"""The models of a program: the modules that are called from outside any module, each under a name (docs/adr/0030).

A model *trains* if an optimizer holds one of its parameters; as long as no optimizer holds parameters of modules, if
one of its parameters requires a gradient.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from torch import nn

from msprobe.adapters.pytorch.attach.call_modes import TrainingCalls
from msprobe.adapters.pytorch.attach.iterations import Site
from msprobe.adapters.pytorch.attach.module_tree import (
    ModuleTree,
    modules_in,
    parameters_in,
    parameters_of,
    wrapped_modules,
)
from msprobe.adapters.pytorch.compile.compiled_models import class_name, is_compiled
from msprobe.core.log import first_time

MAIN = ""
"""The name of the one model that is trained: its modules are named as ``start(model)`` names them."""
_MOST_CLASSES = 8


class Model:
    """One model. It is held weakly.

    Attributes:
        name: the part of the names of its modules that stands for it; ``MAIN`` for none.
        kind: its class.
        number: the id of its module, also when that is gone.
        trains: whether it is trained.
        calls: which of its calls belong to a training.
        recorded: whether it was called in an iteration.
        is_part: whether it was never recorded, and is a part of a model that was made later.
    """

    def __init__(self, name: str, module: nn.Module, trains: bool, calls: TrainingCalls) -> None:
        self.name = name
        self.kind = class_name(module)
        self.number = id(module)
        self.trains = trains
        self.calls = calls
        self.recorded = self.is_part = False
        self._module = weakref.ref(module)

    @property
    def module(self) -> nn.Module | None:
        """The module, as long as it lives."""
        return self._module()

    def __str__(self) -> str:
        named = self.kind if self.name == MAIN else f"{self.kind} as Module.{self.name}"
        return named if self.trains else f"{named} (not trained)"


class Call(NamedTuple):
    """A call of a model, whose ``module`` it is, or of one ``part`` of it."""

    model: Model
    module: nn.Module
    part: nn.Module
    site: Site


class Models:
    """Finds the models in the calls of modules.

    Args:
        wanted: the class of the only model; None for all models.
        held: returns the parameters of modules that optimizers hold, by id.

    Attributes:
        called: the classes of the modules that were called, and are no model.
    """

    def __init__(self, wanted: str | None, held: Callable[[], Mapping[int, nn.Parameter]]) -> None:
        self.called: dict[str, None] = {}
        self.wanted = wanted
        self._held = held
        self._training = False
        self._models: list[Model] = []
        self._by_call: dict[int, tuple[weakref.ref[nn.Module], Model]] = {}
        self._untrained_parts: set[int] = set()  # the ids of parts of a trained model that no optimizer holds

    def __iter__(self) -> Iterator[Model]:
        return iter(self._models)

    @property
    def settled(self) -> bool:
        """Whether the only model is known: calls of other modules need not be looked at."""
        return self.wanted is not None and bool(self.living())

    def living(self) -> dict[str, nn.Module]:
        """Return the models that still exist, by name."""
        return {model.name: module for model in self._models if (module := model.module) is not None}

    def expect_training(self, search: bool) -> list[nn.Module]:
        """Take note that the program has made an optimizer.

        Args:
            search: look for what optimizers train; this walks over all objects of the process.

        Returns:
            All modules inside of the outermost ones that optimizers train something of, called or not.
        """
        self._training = True
        for model in self._models:
            model.calls.expect_training()
        if not search:
            return []
        tree = ModuleTree(self._held())
        for model in self._models if tree.trained else ():
            module = model.module
            model.trains = module is not None and not parameters_of(module).isdisjoint(tree.trained)
            model.is_part = module is not None and not model.recorded and tree.model_of(module) is not module
        for part, model in list(self._by_call.values()) if tree.trained else ():
            self._note_part(part(), model, tree)
        return [module for top, _ in tree.models() for module in modules_in(top)]

    def drop_parts(self) -> None:
        """Forget the models that have turned out to be parts: the next call of one is a call of its model."""
        self._models = [model for model in self._models if not model.is_part]
        self._by_call = {key: entry for key, entry in self._by_call.items() if not entry[1].is_part}

    def trains(self, model: Model, part: nn.Module) -> bool:
        """Return whether a call of ``part``, which is a model or a part of one, calls something that is trained; what
        was frozen after its training is not."""
        if not model.trains or id(part) in self._untrained_parts:
            return False
        return any(parameter.requires_grad for parameter in parameters_in(part))

    def _note_part(self, part: nn.Module | None, model: Model, tree: ModuleTree) -> None:
        if part is not None and model.trains and tree.trained and parameters_of(part).isdisjoint(tree.trained):
            self._untrained_parts.add(id(part))
        else:
            self._untrained_parts.discard(id(part))

    def why_nothing(self, unseen: int, hint: str, *, has_begun: bool) -> str:
        """Return in words why nothing was recorded.

        Args:
            unseen: how many steps optimizers have made before any call of a model.
            hint: is added where no call was seen.
            has_begun: whether a step was begun.
        """
        kinds = ", ".join(model.kind for model in self)
        if has_begun and kinds and not any(model.trains for model in self):
            return (
                f"no optimizer holds a parameter of {kinds}, and no training followed what was called{hint}; make a "
                "PrecisionDebugger in the script to record it"
            )
        if unseen and self.wanted is None:
            return (
                f"an optimizer has made {unseen} step(s), and no call of a model was seen before{hint}; call the model "
                "itself, model(x), in the training, or make a PrecisionDebugger in the script"
            )
        left_out = next((model for model in self if model.calls.only_left_out), None)
        if left_out is not None:
            return (
                f"{left_out.kind} was called without autograd only, which counts as evaluation in a program that makes "
                "an optimizer; make a PrecisionDebugger in the script to record it"
            )
        sought = "a model with parameters" if self.wanted is None else f"a module of class {self.wanted}"
        if self.called:
            return f"{sought} was never called; called were: {', '.join(self.called)}{hint}"
        return (
            f"{sought} was never called, nor any other module{hint}; calls of functions alone are collected where the "
            "program makes modules or trains, or makes a PrecisionDebugger and calls start()"
        )

    def known(self, module: nn.Module) -> Model | None:
        """Return the model that calls of ``module`` are calls of; None where none was found yet."""
        entry = self._by_call.get(id(module))
        return entry[1] if entry is not None and entry[0]() is module else None

    def find(self, module: nn.Module) -> Model | None:
        """Return the model that a call of ``module`` from outside any module is one of; None for no model."""
        model = self.known(module)
        if model is not None:
            return model
        if self.wanted is not None:
            return self._find_wanted(module)
        if next(module.parameters(), None) is None or vars(module).get("_is_replica"):
            self._note(module)
            return None
        return self._remember(wrapped_modules(module), wrapped_modules(module)[-1])

    def _find_wanted(self, module: nn.Module) -> Model | None:
        """Look for the module of the class asked for; also inside compiled code, whose calls are not seen."""
        if self.settled:
            return None
        parts = module.modules() if is_compiled(module) else [module]
        part = next((part for part in parts if self.wanted in _class_names(part)), None)
        if part is None:
            self._note(module)
            return None
        compiled = [one for one in wrapped_modules(module) if is_compiled(one)]
        return self._remember([part, *compiled], part)

    def _note(self, module: nn.Module) -> None:
        if len(self.called) < _MOST_CLASSES:
            self.called[class_name(module)] = None

    def _remember(self, entries: Iterable[nn.Module], called: nn.Module) -> Model:
        tree = ModuleTree(self._held())
        module, trains, main = self._place(called, tree)
        model = next((one for one in self._models if one.module is module), None)
        if model is None:
            model = Model(self._name(module, main), module, trains, TrainingCalls(self._training))
            self._models = [one for one in self._models if one.module is not None]
            self._models.append(model)
        for one in (*entries, module):
            self._by_call[id(one)] = weakref.ref(one), model
            self._note_part(one, model, tree)
        return model

    def _place(self, called: nn.Module, tree: ModuleTree) -> tuple[nn.Module, bool, bool]:
        """Return the model that a module belongs to, whether that is trained, and whether it may be the main one."""
        if not tree.trained:
            return called, any(one.requires_grad for one in called.parameters()), True
        module = called if self.wanted is not None else tree.model_of(called)
        trains = not tree.trained.isdisjoint(parameters_of(module))
        return module, trains, self.wanted is not None or (trains and len(tree.models()) == 1)

    def _name(self, module: nn.Module, main: bool) -> str:
        """Return a name that no living model has: none for the main model, else the class, with an ordinal."""
        taken = self.living()
        if main and MAIN not in taken:
            return MAIN
        kind = class_name(module)
        names = itertools.chain([kind], (f"{kind}_{number}" for number in itertools.count(1)))
        return next(name for name in names if name not in taken)


def _class_names(module: nn.Module) -> tuple[str, str]:
    kind = type(module)
    return kind.__name__, f"{kind.__module__}.{kind.__name__}"


def not_named(models: Iterable[Model]) -> list[str]:
    """Return the models in words, without those that were named before as left out."""
    return [str(model) for model in models if first_time(f"run: {model} left out")]
