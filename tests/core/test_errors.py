"""The error tree: classes, codes and texts that callers rely on."""

import pickle
from collections.abc import Callable

import pytest

from msprobe.core import errors
from msprobe.core.errors import (
    ABSENT,
    ConfigError,
    FileCheckException,
    InterfaceError,
    MsprobeException,
    NotComparableError,
    Problem,
    ReadError,
    ScopeConfigError,
    ScopeException,
    argument_text,
    config_error,
    json_text,
)

ALL = [
    *(MsprobeException(code, "what, where") for code in range(6)),
    *(FileCheckException(code, "what, where") for code in range(6)),
    *(ScopeException(code, "what, where") for code in range(3)),
    InterfaceError("what, where"),
    ReadError("what, where"),
    NotComparableError("what, where"),
    ConfigError([Problem("a.b[0]", [1], "must be text")], "c.json"),
    ScopeConfigError([Problem("a.scope", ABSENT, "is required", kind="scope")], "c.json"),
]


@pytest.mark.parametrize("error", ALL, ids=lambda error: f"{type(error).__name__}-{error.code}")
def test_text_is_prefix_and_detail(error: MsprobeException) -> None:
    assert isinstance(error, MsprobeException)
    assert str(error) == type(error).prefixes[error.code] + error.error_info
    assert str(error).startswith("[msprobe] ")


@pytest.mark.parametrize("error", ALL, ids=lambda error: f"{type(error).__name__}-{error.code}")
def test_errors_cross_process_borders(error: MsprobeException) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.code) == (type(error), str(error), error.code)


def test_every_class_of_the_module_is_in_the_tree_of_the_docstring() -> None:
    classes = {name for name, value in vars(errors).items() if isinstance(value, type)}
    raised = {name for name in classes if issubclass(getattr(errors, name), Exception)}
    assert all(name in (errors.__doc__ or "") for name in raised)


@pytest.mark.parametrize("detail", ["", "  \n"])
def test_an_empty_detail_is_never_shown_empty(detail: str) -> None:
    assert MsprobeException(0, detail).error_info.strip()


def test_an_unknown_code_is_a_programming_error() -> None:
    with pytest.raises(ValueError, match="known codes"):
        MsprobeException(6, "text")
    with pytest.raises(ValueError, match="at least one Problem"):
        ConfigError([])


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem("a[1]", "x", "allowed: y", '"y"'), 'a[1]: got "x"; allowed: y; did you mean "y"?'),
        (Problem("a", ABSENT, "is required"), "a: is required"),
        (Problem("", None, "must be an object"), "got null; must be an object"),
        (Problem("a", 1, "must be text", argument=True), "a (argument): got 1; must be text"),
    ],
)
def test_a_problem_reads_as_one_line(problem: Problem, text: str) -> None:
    assert str(problem) == text


def test_a_config_error_has_one_line_per_problem() -> None:
    error = ConfigError([Problem("a", 1, "x"), Problem("b", 2, "y")], "c.json")
    assert error.error_info.splitlines() == ["c.json: a: got 1; x", "c.json: b: got 2; y"]
    assert error.code == MsprobeException.INVALID_PARAM_ERROR


def test_only_scope_problems_make_a_scope_error() -> None:
    scope, other = Problem("a.scope", 1, "x", kind="scope"), Problem("a.list", 1, "x")
    assert isinstance(config_error([scope], "c"), ScopeException)
    assert config_error([scope], "c").code == ScopeException.INVALID_SCOPE
    assert not isinstance(config_error([scope, other], "c"), ScopeException)


class Ones:
    """Looks like a number and is none, as an integer of numpy does."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        if not self.text:
            raise RuntimeError("no text")
        return self.text


@pytest.mark.parametrize("how", [argument_text, json_text])
def test_a_value_of_another_type_is_shown_with_it(how: Callable[[object], str]) -> None:
    assert how(Ones("1\n1")) == "1 1 (Ones)"
    assert how(Ones("Ones(1)")) == "Ones(1)"
    assert how(Ones("")) == "a value that cannot be shown (Ones)"
    assert how(1) == "1"


def test_arguments_are_shown_as_python_and_configurations_as_json() -> None:
    assert [argument_text(value) for value in (True, None, "a")] == ["True", "None", "'a'"]
    assert [json_text(value) for value in (True, None, "a")] == ["true", "null", '"a"']


def test_values_are_shown_short_and_on_one_line() -> None:
    loop: list[object] = []
    loop.append(loop)
    assert json_text("ü\n") == '"ü\\n"'
    assert json_text(object()).startswith("<object")
    assert json_text(loop)
    assert json_text("\ud800") == '"\\ud800"'
    assert len(json_text("x" * 1000)) == 80
