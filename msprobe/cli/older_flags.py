"""Flags of ``msprobe compare`` that scripts of earlier versions carry: either nothing else happens anyway, or one line
says that it cannot."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])
_MODES = ("auto", "offline_data", "torchair", "offline_model", "atb")


def older_flags(command: Command) -> Command:
    """Add the flags to a command; it does not get them."""
    for option in _OPTIONS:
        command = option(command)
    return command


def _only_auto(context: click.Context, _parameter: click.Parameter, mode: str) -> None:
    if mode != "auto":
        raise click.BadParameter(
            f"mode {mode} compares files of an Ascend tool chain; this version knows auto", context
        )


def _absent(context: click.Context, parameter: click.Parameter, given: Any) -> None:
    if given:
        raise click.BadParameter(f"this version does not have it; {_INSTEAD[parameter.name or '']}", context, parameter)


_LAYERS = "-lm without a file aligns models that are written differently"
_INSTEAD = {
    "consistent_check": _LAYERS,
    "backend": _LAYERS,
}
_OPTIONS = (
    click.option("-m", "--mode", type=click.Choice(_MODES), default="auto", expose_value=False, callback=_only_auto),
    click.option("--consistent_check", is_flag=True, expose_value=False, hidden=True, callback=_absent),
    click.option("--backend", expose_value=False, hidden=True, callback=_absent),
)
