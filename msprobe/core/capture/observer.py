"""The interface between taps and recorders: a tap reports each call to the observer of a ``CurrentObserver``.

The observer answers the begin of a call with a token, and the tap returns the token with the end of the call. A
``CallSite`` names the calls of one wrapped function.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

Group = tuple[Mapping[str, Any], Iterable[str | None]]
"""The settings of one parameter group of an optimizer, and the names of its parameters; None for one without a name."""


class Observer(Protocol):
    """Receives the begin and the end of calls.

    No method may raise, because it runs inside the user's call. A token of None means that the call is not recorded.
    """

    def api_begin(self, site: CallSite, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Begin the call of an API and return its token."""
        ...

    def end(self, token: Any, result: Any) -> None:
        """End the call of an API that returned ``result``."""
        ...

    def fail(self, token: Any, error: BaseException) -> None:
        """End the call of an API that raised ``error``."""
        ...

    def communicates(self, token: Any, ranks: Any, arguments: Any) -> None:
        """Note that the call runs in the group whose members ``ranks(arguments)`` returns."""
        ...

    def module_begin(self, site: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Begin the call of a module and return its token."""
        ...

    def module_end(self, token: Any, result: Any) -> None:
        """End the call of a module that returned ``result``."""
        ...

    def module_fail(self, token: Any, error: BaseException) -> None:
        """End the call of a module that raised ``error``."""
        ...

    def parameter_gradient(self, site: Any, key: str, gradient: Any) -> None:
        """Record the gradient of the parameter ``key`` of a module."""
        ...

    def enter(self, name: str) -> Any:
        """Begin a scope such as ``optimizer`` and return its token."""
        ...

    def leave(self, token: Any) -> None:
        """End a scope."""
        ...

    def optimizer_step(self, optimizer: Any, groups: Callable[[Any], Sequence[Group]]) -> None:
        """Note that a step of ``optimizer`` begins, whose parameter groups ``groups(optimizer)`` returns."""
        ...

    def gradient_call(self, kind: str) -> None:
        """Note that the program calls ``backward`` or ``zero_grad``."""
        ...

    def value_read(self, kind: str, value: Any, numbers: Callable[[], list[float]] | None) -> None:
        """Note that the program takes the numbers out of a tensor, by a call of ``kind`` (``item``, ``tolist``).

        They are what ``numbers()`` returns; it is None where they are many.
        """
        ...

    def value_moved(self, site: CallSite, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> None:
        """Note that a call which is never recorded itself has moved values: ``result`` is made of its arguments."""
        ...

    def training_call(self, kind: str, facts: Callable[[], Mapping[str, Any] | None], optimizer: Any) -> None:
        """Note a call that moves a training on, with what ``facts()`` says of it: nothing is noted where that is None.

        ``optimizer`` is the one that the call concerns, or None.
        """
        ...

    def graph_run(self, parts: Sequence[str]) -> Any:
        """Begin a run of a static graph whose model calls ``parts``, and return the receiver of its values."""
        ...

    def graphs(self) -> Any:
        """Return the receiver of the values of static graphs."""
        ...


class CurrentObserver:
    """Hold the observer: the taps live as long as the session, an observer lives for one step.

    ``StartFilters.show`` sets it when taps are attached. Whoever reports reads it once, as another thread may stop.
    Between stop and step it takes what earlier calls still bring, and no calls: the program may have kept a wrapper and
    call it.

    Args:
        on_rank: called when this process has just got its rank.

    Attributes:
        observer: takes calls; None while none are recorded.
        stopped: the last observer, between stop and step.
        module_call: the ``__call__`` of modules whose wrapper reports calls; wrappers of others report nothing.
    """

    __slots__ = ("module_call", "observer", "on_rank", "stopped")

    def __init__(self, on_rank: Callable[[], None] | None = None) -> None:
        self.observer: Observer | None = None
        self.stopped: Observer | None = None
        self.module_call: Callable[..., Any] | None = None
        self.on_rank = on_rank

    @property
    def late_observer(self) -> Observer | None:
        """What takes gradients and results of calls that ran before."""
        return self.observer or self.stopped

    def stop(self) -> None:
        """Take no more calls, only what earlier ones still bring."""
        self.stopped = self.late_observer  # first: other threads ask at any moment, and lose a gradient in between
        self.observer = None

    def clear(self) -> None:
        """Take nothing more."""
        self.observer = self.stopped = None


class CallSite:
    """The names of the calls of one API, made from a prefix built once and a counter.

    Attributes:
        passes_risk: whether the API passes the risk test. A site that does not pass it is not recorded, and still
            counts its calls, because the call numbers of a dump do not depend on what was filtered.
        differentiable: False for calls through which no gradient flows, so that their backward is not looked for.
        attributes: of an operator that is an object, the arguments that made it; None for a function.
    """

    attributes: Mapping[str, Any] | None = None

    __slots__ = ("api", "calls", "differentiable", "passes_risk", "prefix", "stem")

    def __init__(self, prefix: str, api: str) -> None:
        self.prefix = prefix
        self.api = api
        self.stem = f"{prefix}.{api}."
        self.passes_risk = True
        self.differentiable = True
        self.calls: Iterator[int] = itertools.count()

    def reset(self) -> None:
        """Number the calls from 0 again: a new step begins. ``next`` on the counter is atomic, so no lock is needed."""
        self.calls = itertools.count()


class OperatorSite(CallSite):
    """The calls of one operator that is an object: named and counted as those of its API.

    Args:
        shared: the site of the API, which is numbered again in each step.
        attributes: the arguments that made the operator, by name; None where they are not known.
    """

    __slots__ = ("attributes", "shared")

    def __init__(self, shared: CallSite, attributes: Mapping[str, Any] | None) -> None:
        self.prefix, self.api, self.stem = shared.prefix, shared.api, shared.stem
        self.passes_risk, self.differentiable = shared.passes_risk, shared.differentiable
        self.shared, self.attributes = shared, attributes

    @property
    def calls(self) -> Iterator[int]:  # type: ignore[override]
        """The counter of the API."""
        return self.shared.calls
