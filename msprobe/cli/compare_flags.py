"""Flags that commands share: ``mapping_flags`` say which entries, ranks and steps of two runs belong together.

``compare`` and ``graph_visualize`` have them. ``legacy_flags`` are flags of ``compare`` for scripts that were written
for the published tool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

Command = TypeVar("Command", bound=Callable[..., Any])
_NO_FILE = "\0built in"
_FILE_FLAGS = ("cell_mapping", "api_mapping", "layer_mapping")


def mapping_flags(command: Command) -> Command:
    """Add the flags to a command and return it; the command gets them as keywords, see ``mapping_keywords``."""
    for option in reversed(_MAPPING_OPTIONS):
        command = option(command)
    return command


def mapping_keywords(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with True for a mapping flag without a file."""
    return {name: True if name in _FILE_FLAGS and value == _NO_FILE else value for name, value in options.items()}


def _with_optional_file(short: str, name: str, text: str) -> Callable[[Command], Command]:
    long = f"--{name}"
    return click.option(
        short, long, long.replace("_", "-"), name, is_flag=False, flag_value=_NO_FILE, metavar="[FILE]", help=text
    )


_MAPPING_OPTIONS = (
    click.option(
        "-fm",
        "--fuzzy_match",
        "--fuzzy-match",
        "fuzzy_match",
        is_flag=True,
        help="Pair calls by name and order, ignoring their numbers.",
    ),
    _with_optional_file("-cm", "cell_mapping", "Rename modules of the target; without FILE only Cell to Module."),
    _with_optional_file("-am", "api_mapping", "MindSpore functions to PyTorch's; without FILE the built-in table."),
    click.option(
        "-dm",
        "--data_mapping",
        "--data-mapping",
        "data_mapping",
        type=click.Path(),
        metavar="FILE",
        help="Items of the target, each with its golden item.",
    ),
    _with_optional_file("-lm", "layer_mapping", "Names of layers by class; without FILE they are inferred."),
    click.option(
        "--pair",
        type=click.Choice(["number", "order"]),
        default="number",
        show_default=True,
        help="How ranks and steps of the two sides pair.",
    ),
    click.option("--rank", metavar="0-2,5", help="Compare only these ranks."),
    click.option("--step", metavar="0-2,5", help="Compare only these steps."),
    click.option(
        "--target-parallel",
        metavar="tp=N,pp=N",
        help="Over how many ranks the target spreads a model: its ranks are merged before they are compared.",
    ),
    click.option("--golden-parallel", metavar="tp=N,pp=N", help="The same for the golden run."),
)


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
