"""The option ``--framework`` of several commands."""

from typing import Any

import click


class FrameworkName(click.ParamType):
    """The name of a framework in the table of support, which is imported when a command is used and not before."""

    name = "framework"

    def get_metavar(self, *args: Any, **kwargs: Any) -> str | None:
        return _choice().get_metavar(*args, **kwargs)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return _choice().convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> Any:
        return _choice().shell_complete(ctx, param, incomplete)


def _choice() -> "click.Choice[str]":
    from msprobe.core.backend.support import FRAMEWORKS

    return click.Choice(FRAMEWORKS)
