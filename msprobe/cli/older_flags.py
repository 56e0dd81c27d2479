"""Flags of ``msprobe compare`` for scripts that were written for the published tool."""

from __future__ import annotations

import click

from msprobe.cli.mapping_flags import Command

_MODES = ("auto", "offline_data", "torchair", "offline_model", "atb")


def legacy_flags(command: Command) -> Command:
    """Add the flags to a command and return it; the command gets those of the consistency check as keywords."""
    for option in _LEGACY_OPTIONS:
        command = option(command)
    return command


def _only_auto(context: click.Context, _parameter: click.Parameter, mode: str) -> None:
    if mode != "auto":
        raise click.BadParameter(
            f"mode {mode} compares files of an Ascend tool chain; this version knows auto", context
        )


_LEGACY_OPTIONS = (
    click.option("-m", "--mode", type=click.Choice(_MODES), default="auto", expose_value=False, callback=_only_auto),
    click.option(
        "--consistent_check",
        "--consistent-check",
        "consistent_check",
        is_flag=True,
        help="The target is a model in training, the golden run the same in an inference engine; needs --backend.",
    ),
    click.option(
        "--backend", type=click.Choice(["fsdp", "megatron"]), help="With --consistent_check: what trains the model."
    ),
)
