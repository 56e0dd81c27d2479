"""What a framework must offer so that the set-up of a running program can be collected."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from msprobe.setup_check.document import TensorFacts

OnForward = Callable[[tuple[Any, ...], Mapping[str, Any]], None]
"""Called with positional and keyword arguments before a model runs."""
OnRandom = Callable[[str], None]
"""Called with the name of a function that draws random numbers, such as ``torch.randn``."""


class SetupWatch(Protocol):
    """Observes a model and the random calls of one framework; implemented by ``adapters/*/setup_watch.py``."""

    def rank(self) -> int:
        """Return the rank of this process; 0 outside of a parallel job."""

    def facts(self) -> dict[str, Any]:
        """Return version, build and switches of the framework."""

    def is_tensor(self, value: Any) -> bool:
        """Return whether a value is a tensor."""

    def describe(self, tensor: Any) -> TensorFacts:
        """Return statistics and hashes of a tensor."""

    def weights(self, model: Any) -> Iterator[tuple[str, Any]]:
        """Yield the parameters and buffers of a model by name."""

    def watch_forward(self, model: Any, on_forward: OnForward) -> Callable[[], None]:
        """Call ``on_forward`` before each run of the model; return what ends that."""

    def watch_random(self, on_random: OnRandom) -> Callable[[], None]:
        """Call ``on_random`` at each random call; return what ends that."""
