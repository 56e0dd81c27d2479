"""A debugger that is only ever refused: what a user meets whose configuration is wrong, without a framework."""

from __future__ import annotations

from typing import Any

import pytest

from msprobe.core.backend.support import PYTORCH
from msprobe.core.dump.session.debugger import Debugger
from msprobe.core.errors import MsprobeException


class Refusing(Debugger):
    """What PyTorch's debugger is until it has accepted its configuration."""

    support = PYTORCH

    @classmethod
    def is_model(cls, value: Any) -> bool:
        return False

    @classmethod
    def make_session(cls, *_: Any) -> Any:
        raise AssertionError("the configuration was accepted")


def error_of(source: Any, **arguments: Any) -> MsprobeException:
    with pytest.raises(MsprobeException) as caught:
        Refusing(source, **arguments)
    return caught.value
