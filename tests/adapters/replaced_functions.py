"""Compare the functions that a debugger replaces with their originals: what programs ask a function for, and pickle.

``kept_faults`` finds every attribute of a package that holds another function while calls are recorded, whichever tap
put it there, so a new tap is looked at too.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import sys
from collections.abc import Callable, Iterator
from types import FunctionType, MethodType
from typing import Any, NamedTuple

Place = tuple[Any, str]
"""A module or class, and the name of an attribute of it."""


class Facts(NamedTuple):
    """What a program can ask a function for; ``data`` is what pickle makes of it, None where it refuses."""

    name: Any
    doc: Any
    signature: str
    module: Any
    path: Any
    data: bytes | None


def replaced_places(package: str, start: Callable[[], object], stop: Callable[[], object]) -> list[Place]:
    """Return where a package holds other functions between ``start`` and ``stop`` than before."""
    before = dict(_attributes(package))
    start()
    during = dict(_attributes(package))
    stop()
    return [place for place, value in during.items() if callable(value) and before.get(place) is not value]


def _attributes(package: str) -> Iterator[tuple[Place, Any]]:
    modules = [module for name, module in list(sys.modules.items()) if name.partition(".")[0] == package]
    for module in modules:
        for name, value in list(vars(module).items()):
            yield (module, name), value
            if isinstance(value, type) and _home(value).partition(".")[0] == package:
                yield from (((value, inner), held) for inner, held in list(vars(value).items()))


def _home(kind: type) -> str:
    return str(getattr(kind, "__module__", ""))  # there are classes without one


def facts(place: Place) -> Facts:
    """Return what the function at a place says of itself now."""
    function = getattr(*place)
    try:
        signature = str(inspect.signature(function))
    except (TypeError, ValueError) as error:
        signature = type(error).__name__
    try:
        data = pickle.dumps(function)
    except (pickle.PicklingError, AttributeError, TypeError, RuntimeError):
        data = None
    names = [getattr(function, name, None) for name in ("__name__", "__doc__", "__module__", "__qualname__")]
    return Facts(names[0], names[1], signature, names[2], names[3], data)


def kept_faults(places: list[Place], start: Callable[[], object], stop: Callable[[], object]) -> list[str]:
    """Return, for each place whose function is not as without the debugger, what differs."""
    before = [facts(place) for place in places]
    originals = [getattr(*place) for place in places]
    found_before = [_finds(then, original) for then, original in zip(before, originals, strict=True)]
    start()
    during = [facts(place) for place in places]
    faults = [
        f"{_text(place)}: {fault}"
        for place, original, then, now in zip(places, originals, before, during, strict=True)
        for fault in (*_changed(place, original, then, now), *_lost(place, then, now))
    ]
    stop()
    for place, original, was_found, now in zip(places, originals, found_before, during, strict=True):
        if was_found and not _finds(now, original):
            faults.append(f"{_text(place)}: pickled while collecting, it is another function afterwards")
    return faults


def _finds(facts: Facts, original: Any) -> bool:
    """Return whether what was pickled is the original function again, as what stands now under the name says.

    Another package of the process may have put a function of its own in the place of one of torch.
    """
    return facts.data is not None and bool(pickle.loads(facts.data) == original)


def _changed(place: Place, original: Any, then: Facts, now: Facts) -> Iterator[str]:
    if then[:3] != now[:3]:
        yield f"{then[:3]} became {now[:3]}"
    if (then.module, then.path) == (now.module, now.path):
        return
    if isinstance(original, (FunctionType, MethodType)) and then.data is None:
        yield f"renamed from {then.module}.{then.path}, without a reason: it cannot be pickled"
    if _stands_at(then) == getattr(*place):
        yield f"renamed from {then.module}.{then.path}, where it stands"


def _stands_at(names: Facts) -> Any:
    """Return what stands, now, where the names of a function lead."""
    found = sys.modules.get(names.module) if names.module else None
    for part in str(names.path).split("."):
        found = None if found is None else getattr(found, part, None)
    return found


def _lost(place: Place, then: Facts, now: Facts) -> Iterator[str]:
    function = getattr(*place)
    if then.data is not None and now.data is None:
        yield f"can no longer be pickled as {now.module}.{now.path}"
    if now.data is not None and pickle.loads(now.data) != function:
        yield f"pickle finds another function at {now.module}.{now.path}"
    if then.data is not None and not callable(pickle.loads(then.data)):
        yield "what was pickled before is no function"
    if then.data is not None and copy.deepcopy(function) != function:
        yield "a deep copy is another function"


def _text(place: Place) -> str:
    owner, name = place
    return f"{owner.__name__}.{name}"
