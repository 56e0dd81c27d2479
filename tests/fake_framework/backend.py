"""The fake framework as a backend of msprobe."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

from msprobe.core.backend.protocols import Backend
from msprobe.core.capture.describe import Handler
from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.config import DumpConfig
from msprobe.core.errors import MsprobeException
from msprobe.core.selection import risk_test, uses_risk_level
from tests.fake_framework import autograd
from tests.fake_framework.gradient_tap import FakeGradientTap
from tests.fake_framework.taps import FakeApiTap, FakeModuleTap, FakeOptimizerTap
from tests.fake_framework.tensor import Tensor
from tests.fake_framework.tensor_ops import FakeTensorOps

CORE_APIS = ("linear", "matmul")
LOW_APIS = ("chunk",)


class FakeValues:
    """Implements ``Values``."""

    def is_tensor(self, kind: type) -> bool:
        return issubclass(kind, Tensor)

    def handlers(self) -> Mapping[type, Handler]:
        return {}

    def by_keyword(self) -> Mapping[str, Handler]:
        return {}


class FakeRuntime:
    """Implements ``Runtime``."""

    def rank(self) -> int | None:
        return None

    def recomputing(self) -> bool:
        return autograd.running > 0

    def repeats_without_gradients(self) -> bool:
        return False

    def in_written_backward(self) -> bool:
        return False

    def autocast(self) -> None:
        return None

    def autograd(self) -> None:
        """The fake framework always follows gradients, and has no mode."""

    def expected(self, error: BaseException) -> bool:
        return False

    def in_modes(self) -> bool:
        return False

    def outside_modes(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def watch_calls(self, model: Any, report: Callable[[], None]) -> Callable[[], None]:
        raise MsprobeException(0, "the fake framework counts no calls of models")


def make_backend(
    config: DumpConfig, current: CurrentObserver, thread: ThreadState, *, deferred: bool = False
) -> Backend:
    """The capabilities a session with this configuration needs; nothing is wrapped yet."""
    level = config.risk_level if uses_risk_level(config) else "ALL"
    return Backend(
        name="fake",
        ops=FakeTensorOps(config.precision, deferred),
        values=FakeValues(),
        runtime=FakeRuntime(),
        apis=FakeApiTap(risk_test(level, CORE_APIS, LOW_APIS), current, thread),
        modules=FakeModuleTap(current, thread),
        gradients=FakeGradientTap(),
        optimizers=FakeOptimizerTap(current),
        version="1.0",
    )
