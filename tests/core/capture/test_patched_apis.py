"""What every framework's wrapped functions do alike: counted per name, put in place and taken back, registered once."""

from __future__ import annotations

import types
from typing import Any

import pytest

from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.patched_apis import WrappedApis
from msprobe.core.capture.patching import find_holder
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.errors import MsprobeException


class Fixed:
    __slots__ = ("double",)


def double(x: int) -> int:
    return 2 * x


def apis(passes_risk: Any = lambda name: True) -> WrappedApis:
    return WrappedApis(passes_risk, CurrentObserver(), ThreadState())


def test_a_registered_function_is_wrapped_inside_only() -> None:
    library, tap = types.SimpleNamespace(double=double), apis()
    tap.add(library, "double", "lib")
    assert library.double is double
    with tap.attach():
        assert library.double is not double
        assert library.double(2) == 4
    assert library.double is double


class Base:
    @staticmethod
    def static(x: int) -> int:
        return 2 * x

    @classmethod
    def of_class(cls) -> str:
        return cls.__name__


class Derived(Base):
    pass


def test_static_and_class_methods_bind_as_before() -> None:
    tap, held = apis(), dict(vars(Base))
    for name in ("static", "of_class"):
        tap.add(Base, name, "Base")
    with tap.attach():
        assert isinstance(vars(Base)["static"], staticmethod)
        assert isinstance(vars(Base)["of_class"], classmethod)
        assert (Base().static(1), Derived.static(2)) == (2, 4)
        assert (Base.of_class(), Derived().of_class()) == ("Base", "Derived")
    assert {name: vars(Base)[name] for name in held} == held


def test_the_last_registration_counts_and_a_removed_one_is_gone() -> None:
    library, tap = types.SimpleNamespace(double=double), apis()
    tap.add(library, "double", "First")
    tap.add(library, "double", "Second")
    assert tap.registered() == [(library, "double", "Second")]
    tap.remove(library, "double")
    assert tap.registered() == []
    with tap.attach():
        assert library.double is double


def test_a_listed_function_belongs_to_its_configuration_and_a_registered_one_to_the_program() -> None:
    library, tap = types.SimpleNamespace(double=double, triple=double), apis()
    tap.add(library, "double", "Program")
    for name in ("double", "triple"):
        tap.add_listed(library, name, "List")
    assert tap.registered() == [(library, "double", "Program")]
    tap.add(library, "triple", "Program")
    assert [name for _, name, _ in tap.registered()] == ["double", "triple"]


def test_an_owner_that_refuses_is_told_where_it_is_registered() -> None:
    owner, tap = Fixed(), apis()
    owner.double = double  # type: ignore[attr-defined]
    with pytest.raises(MsprobeException, match=r"lib\.double cannot be recorded: its owner lets no function"):
        tap.add(owner, "double", "lib")
    assert tap.registered() == []


def test_wrappers_of_one_api_share_their_counter_and_start_anew_together() -> None:
    tap = apis()
    site = tap.site("Torch", "relu")
    assert tap.site("Torch", "relu") is site
    assert [next(site.calls), next(site.calls)] == [0, 1]
    tap.reset()
    assert next(site.calls) == 0


@pytest.mark.parametrize("known", ["attention", "fused.attention"])
def test_the_risk_table_may_know_the_name_with_or_without_dots(known: str) -> None:
    assert apis(known.__eq__).site("MindSpeed", "attention", "fused.attention").passes_risk
    assert not apis(known.__eq__).site("MindSpeed", "other", "fused.other").passes_risk


@pytest.mark.parametrize(
    ("name", "found"),
    [
        pytest.param("f", ("root", "f"), id="plain"),
        pytest.param("inner.f", ("inner", "f"), id="dotted"),
        pytest.param("missing.f", (None, "f"), id="missing"),
        pytest.param("missing.deep.f", (None, "f"), id="missing-deep"),
    ],
)
def test_the_holder_of_a_dotted_name(name: str, found: tuple[str | None, str]) -> None:
    inner = types.SimpleNamespace(called="inner")
    root = types.SimpleNamespace(called="root", inner=inner)
    holder, last = find_holder(root, name)
    assert (getattr(holder, "called", None), last) == found
