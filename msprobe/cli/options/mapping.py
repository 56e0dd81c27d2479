"""Flags that commands share: ``mapping_flags`` say which entries, ranks and steps of two runs belong together.

``compare`` and ``graph_visualize`` have them. Flags about entries are made from the table ``MAPPING_OPTIONS``.
``legacy_flags`` are flags of ``compare`` for scripts that were written for the published tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import click

from msprobe.cli.options.shared import shared

if TYPE_CHECKING:
    from msprobe.compare.alignment.options import MappingOption

Command = TypeVar("Command", bound=Callable[..., Any])
_BUILT_IN = "\0built in"
"""The value of a mapping flag without a file."""


def mapping_flags(command: Command) -> Command:
    """Add the flags to a command and return it; the command gets them as keywords, see ``mapping_keywords``."""
    from msprobe.compare.alignment.options import MAPPING_OPTIONS

    for option in reversed([*map(_flag, MAPPING_OPTIONS), *_RANKS_AND_STEPS]):
        command = option(command)
    return command


def mapping_keywords(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options with True for a mapping flag without a file."""
    return {name: True if value == _BUILT_IN else value for name, value in options.items()}


def _flag(option: MappingOption) -> Callable[[Command], Command]:
    """Return the click option of an option about entries."""
    long = f"--{option.keyword}"
    names = (option.flag, *dict.fromkeys((long, long.replace("_", "-"))), option.keyword)
    return click.option(*names, help=option.help, **dict(_parameters(option)))


def _parameters(option: MappingOption) -> Iterator[tuple[str, Any]]:
    """Yield the parameters of ``click.option`` that depend on what the option takes."""
    from msprobe.compare.alignment.options import Value

    if option.value is Value.SWITCH:
        yield "is_flag", True
    elif option.value is Value.FILE:
        yield "type", click.Path()
        yield "metavar", "FILE"
    else:
        yield "is_flag", False
        yield "flag_value", _BUILT_IN
        yield "metavar", "[FILE]"


_RANKS_AND_STEPS = (
    click.option(
        "--pair",
        type=click.Choice(["number", "order"]),
        default="number",
        show_default=True,
        help="How ranks and steps of the two sides pair.",
    ),
    shared("rank", help="Compare only these ranks."),
    shared("step", help="Compare only these steps; A:B compares step A of the target with step B of the golden run."),
    shared(
        "run",
        metavar="N[,M]",
        help="Which run to read of a folder that holds several, 1 for the oldest (default: the newest); N,M for target "
        "and golden run; all.",
    ),
    shared(
        "target_parallel",
        help="Over how many ranks the target spreads a model (tensor, pipeline, context, data and expert parallelism, "
        "chunks of a stage, and data-parallel ranks that share parameters): its ranks are merged before they are "
        "compared.",
    ),
    click.option("--golden-parallel", metavar="tp=N,...", help="The same for the golden run."),
    click.option(
        "--precision",
        type=click.Choice(["tf32", "hf32"]),
        help="One device multiplies float32 matrices in this precision: judge what follows from products by it.",
    ),
    click.option(
        "--ignore-dtype",
        "ignore_dtype",
        is_flag=True,
        help="Compare floating-point values of different dtypes (a run in bfloat16 with one in float32), judged by the "
        "coarser one.",
    ),
    click.option(
        "--target-slice",
        metavar="AXIS/LENGTH=RANGE,...",
        help="Compare a part of the target's tensors (task tensor): 0/8=2 is row 2 of axis 0 where it has length 8, "
        "*/32=:17 the first 17 of every axis of length 32.",
    ),
    click.option("--golden-slice", metavar="AXIS/LENGTH=RANGE,...", help="The same for the golden run."),
)


def legacy_flags(command: Command) -> Command:
    """Add the flags to a command and return it; the command gets those of the consistency check as keywords."""
    for option in _LEGACY_OPTIONS:
        command = option(command)
    return command


def request_flags(command: Command) -> Command:
    """Add the flags that name a request of a server to a command and return it."""
    for option in reversed(_REQUESTS):
        command = option(command)
    return command


_REQUESTS = (
    click.option(
        "--target-request",
        metavar="ID[@POSITION]",
        help="Compare the tokens of one request of a server, whatever else was in its batches; POSITION is that of its "
        "first recorded token (default: as recorded).",
    ),
    click.option(
        "--golden-request", metavar="ID[@POSITION]", help="The same for the golden run, where it has another id there."
    ),
)


_MODES = ("auto", "offline_data", "torchair", "offline_model", "atb")
_LEGACY_OPTIONS = (
    click.option(
        "-m",
        "--mode",
        type=click.Choice(_MODES),
        default="auto",
        show_default=True,
        help="What is compared. auto: dumps; offline_model: runs the .onnx file after -tp and compares it with the "
        "dump or the .onnx file after -gp; offline_data, atb, torchair: folders of tensor files of kernels.",
    ),
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
