"""Functions of the user are looked up below modules that he names, and nowhere else."""

from __future__ import annotations

import math
import os.path

import pytest

from msprobe.core.backend.custom_functions import find_custom, import_custom
from msprobe.core.errors import InterfaceError


def test_names_below_a_module() -> None:
    modules = import_custom({"Lib": "math", "os.path": "os.path", "Texts": "builtins.str"})
    assert find_custom(modules, "Lib", "sqrt") is math.sqrt
    assert find_custom(modules, "os", "path.join") is os.path.join
    assert find_custom(modules, "Texts", "upper") is str.upper
    assert find_custom(modules, "Lib", "no_such") is None
    assert find_custom(modules, "Lib", "pi") is None
    assert find_custom(modules, "Other", "sqrt") is None
    assert find_custom({}, "os", "system") is None


@pytest.mark.parametrize("name", ["no_such_module", "math.no_such", "os.no_such.path"])
def test_what_cannot_be_imported_is_said(name: str) -> None:
    with pytest.raises(InterfaceError, match=f"--custom {name}: no such module"):
        import_custom({"Lib": name})
