"""All modules of the program at one time, and which module is the model that a trained part belongs to."""

from __future__ import annotations

import functools
import gc
import sys
import weakref
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch import nn
from torch._C import _functorch as functorch

_MOST_GIVEN = 4
"""How many leaves are looked for of what a function is called with."""
_WRAPPERS = {"DistributedDataParallel", "DataParallel", "FullyShardedDataParallel", "OptimizedModule"}
_TRACER = torch.jit._trace.__file__
_GRAPH_MODES = torch._C._TorchDispatchModeKey.FAKE, torch._C._TorchDispatchModeKey.PROXY
_Seen = tuple[weakref.ref[nn.Module], list[weakref.ref[nn.Parameter]]]
_seen: dict[int, _Seen] = {}
"""The parameters of each module when it was last looked at outside of ``torch.func.functional_call``, by its id."""


def wrapped_modules(module: nn.Module) -> list[nn.Module]:
    """Return a module and the modules that it wraps, down to the model; each calls the next."""
    modules = [module]
    while type(modules[-1]).__name__ in _WRAPPERS:
        inner = getattr(modules[-1], "_orig_mod", None) or getattr(modules[-1], "module", None)
        if not isinstance(inner, nn.Module):
            break
        modules.append(inner)
    return modules


class Around(nn.Sequential):
    """Holds a layer that is a model alone; no module of the program."""


class ModuleTree:
    """The modules of the program as they are now. It is made, asked and dropped.

    Args:
        trained: the ids of the parameters that optimizers hold.
    """

    def __init__(self, trained: Collection[int]) -> None:
        self._parents: dict[int, list[nn.Module]] = {}
        holders: list[nn.Module] = []
        self.trained: set[int] = set()
        for module in _modules_of_program() if trained else ():
            for child in _children(module):
                self._parents.setdefault(id(child), []).append(module)
            own = {id(one) for one in _own_parameters(module)}.intersection(trained)
            if own:
                holders.append(module)
                self.trained |= own
        self._holders = holders

    def models(self) -> list[tuple[nn.Module, set[int]]]:
        """Return the outermost modules with trained parameters, and these: a parameter belongs to one of them."""
        found: list[tuple[nn.Module, set[int]]] = []
        for top in self._tops(self._holders):
            held = parameters_of(top) & self.trained
            if not any(held & others for _, others in found):
                found.append((top, held))
        return found

    def model_of(self, called: nn.Module) -> nn.Module:
        """Return the model that a call of ``called`` is one of: parts that are called one by one belong to it.

        It is that module, or the smallest one around it, that holds every parameter of the outermost module around it
        that is trained or requires a gradient, also one that was not given to an optimizer. Where another part holds
        these, it is the largest module around without any.
        """
        around, tops = list(self._around(called)), self._tops([called])
        whole = {id(one) for top in tops for one in parameters_in(top) if self._may_train(one)}
        if whole.isdisjoint(self.trained):
            return tops[0] if len(tops) == 1 and not whole else called
        model = next((one for one in around if parameters_of(one) >= whole), called)
        apart = parameters_of(called).isdisjoint(whole)
        if apart and any(parameters_of(part) >= whole for part in _children(model)):
            return next(one for one in reversed(around) if parameters_of(one).isdisjoint(whole))
        return model

    def _may_train(self, parameter: nn.Parameter) -> bool:
        return parameter.requires_grad or id(parameter) in self.trained

    def _around(self, module: nn.Module) -> Iterator[nn.Module]:
        """Yield a module and those around it, from the inside to the outside."""
        waiting, seen = deque([module]), {id(module)}
        while waiting:
            one = waiting.popleft()
            yield one
            for parent in self._parents.get(id(one), ()):
                if id(parent) not in seen:
                    seen.add(id(parent))
                    waiting.append(parent)

    def _tops(self, modules: list[nn.Module]) -> list[nn.Module]:
        around = {id(one): one for module in modules for one in self._around(module)}
        return [one for one in around.values() if not self._parents.get(id(one))]


def _modules_of_program() -> list[nn.Module]:
    return [one for one in gc.get_objects() if issubclass(type(one), nn.Module) and type(one) is not Around]


def only_prepares() -> bool:
    """Return whether what is called now prepares something: a module is being made, or calls are written down as a
    graph (``torch.jit.trace``, ``torch.export``, ``make_fx``)."""
    if torch._C._get_tracing_state() is not None or any(map(torch._C._get_dispatch_mode, _GRAPH_MODES)):
        return True
    frame: Any = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        owner = code.co_varnames[0] if code.co_name == "__init__" and code.co_argcount else ""
        if code.co_filename == _TRACER or (owner and issubclass(type(frame.f_locals.get(owner)), nn.Module)):
            return True
        frame = frame.f_back
    return False


def parameters_of(module: nn.Module) -> set[int]:
    """Return the ids of the parameters of a module and of the modules inside it."""
    return {id(parameter) for parameter in parameters_in(module)}


def parameters_in(module: nn.Module) -> Iterator[nn.Parameter]:
    """Yield the parameters of a module and of the modules inside it, also where it is called with others for once."""
    return (parameter for one in modules_in(module) for parameter in _own_parameters(one))


def differentiated(module: nn.Module) -> list[torch.Tensor]:
    """Return what a call of a module has in the place of parameters where a transform of ``torch.func``, and no other
    one around it, differentiates by that; nothing elsewhere."""
    if functorch.peek_interpreter_stack() is None:
        return []
    held = (tensor for one in modules_in(module) for tensor in (vars(one).get("_parameters") or {}).values())
    return leaves_below(one for one in held if one is not None and functorch.is_gradtrackingtensor(one))


def leaves_below(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """Return the leaves among tensors that are differentiated by: below a transform, what the program has given it;
    nothing where another transform is around."""
    leaves = (one for one in tensors if one.is_leaf)
    inside = [functorch.get_unwrapped(one) if functorch.is_gradtrackingtensor(one) else one for one in leaves]
    return [one for one in inside if not functorch.is_functorch_wrapped_tensor(one)]


def is_part_of_formula(gradients: Iterable[torch.Tensor]) -> bool:
    """Return whether gradients can be differentiated again, below the transform that returns them: an inner step of
    meta learning, forces of an energy. They are values of the forward pass."""
    inside = (functorch.get_unwrapped(one) if functorch.is_gradtrackingtensor(one) else one for one in gradients)
    return any(level.requires_grad for one in inside for level in _levels(one))


def _levels(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Yield a tensor, and what it is inside of each transform around it."""
    yield tensor
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
        yield tensor


def tensors_in(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Yield the tensors among values, and in the lists and tuples among them."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (part for part in value if isinstance(part, torch.Tensor))


def is_differentiable(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Return whether a function is called with a tensor that needs a gradient."""
    return any(one.requires_grad for one in tensors_in((*args, *kwargs.values())))


def leaves_given(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    """Return the leaves that a function is called with, or that what it is called with is made of; the first ones."""
    given = [one for one in tensors_in((*args, *kwargs.values())) if one.requires_grad]
    return [one for one in given if one.is_leaf] or leaves_of(given, _MOST_GIVEN)


def leaves_of(results: Iterable[torch.Tensor], most: int) -> list[torch.Tensor]:
    """Return the first leaves, ``most`` at most, that results of autograd are made of."""
    waiting, found = deque(one.grad_fn for one in results if one.grad_fn is not None), dict[int, torch.Tensor]()
    seen = set(waiting)
    while waiting and len(found) < most:
        node = waiting.popleft()
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            found[id(leaf)] = leaf
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return list(found.values())


def modules_in(module: nn.Module) -> Iterator[nn.Module]:
    """Yield a module and those inside it, without running code of the program."""
    waiting, seen = [module], {id(module)}
    while waiting:
        one = waiting.pop()
        yield one
        for child in _children(one):
            if id(child) not in seen:
                seen.add(id(child))
                waiting.append(child)


def _children(module: nn.Module) -> list[nn.Module]:
    if isinstance(module, torch.jit.ScriptModule):  # which keeps both outside of Python
        return list(module.children())
    held = vars(module).get("_modules") or {}
    return [one for _, one in held.items() if isinstance(one, nn.Module)]


def _own_parameters(module: nn.Module) -> list[nn.Parameter]:
    if isinstance(module, torch.jit.ScriptModule):
        return list(module.parameters(recurse=False))
    held = list((vars(module).get("_parameters") or {}).values())
    own = [one for one in held if isinstance(one, nn.Parameter)]
    if len(own) < sum(isinstance(one, torch.Tensor) for one in held):
        seen = _seen.get(id(module))
        if seen is not None and seen[0]() is module:
            return [one for ref in seen[1] if (one := ref()) is not None]
    elif own:
        key = id(module)
        _seen[key] = weakref.ref(module, functools.partial(_seen.pop, key)), [weakref.ref(one) for one in own]
    return own
