"""``msprobe install_deps``: says which optional packages are missing; it installs nothing."""

from __future__ import annotations

import click


@click.command("install_deps")
@click.option(
    "-m",
    "--mode",
    type=click.Choice(["offline", "all"]),
    default="all",
    show_default=True,
    help="What for. offline: what offline_dump and compare -m offline_model need.",
)
@click.option("--no_check", is_flag=True, help="Accepted; nothing is downloaded, so no certificate is checked.")
def command(mode: str, no_check: bool) -> int:
    """Say which optional packages are missing, and how to install them.

    Nothing is installed: the environment of a training is left as it is. Exit status: 0 all there, 1 some are missing.
    """
    from msprobe.core.distribution import EXTRAS, install_command, missing_for

    chosen = ("onnx",) if mode == "offline" else tuple(EXTRAS)
    lacking = {name: missing for name in chosen if (missing := missing_for(name))}
    for name in chosen:
        state = f"missing: {', '.join(lacking[name])}" if name in lacking else "installed"
        click.echo(f"{name}: {state} ({EXTRAS[name].purpose})")
    if lacking:
        click.echo(f"To install: {install_command(*lacking)}")
    return 1 if lacking else 0
