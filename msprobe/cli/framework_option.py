"""The option ``--framework`` of several commands."""

from typing import Any

import click


class FrameworkName(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click only
    """The name of a framework in the table of support. The table is imported when a command runs, not before."""

    name = "framework"

    def get_metavar(self, *args: Any, **kwargs: Any) -> str | None:
        """Return the names for the help text."""
        return _choice().get_metavar(*args, **kwargs)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name, or fail with the names that exist."""
        return _choice().convert(value, param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> Any:
        """Return the names that begin with ``incomplete``."""
        return _choice().shell_complete(ctx, param, incomplete)


def _choice() -> "click.Choice[str]":
    from msprobe.core.backend.support import FRAMEWORKS

    return click.Choice(FRAMEWORKS)
