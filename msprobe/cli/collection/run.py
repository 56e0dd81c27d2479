"""``msprobe run --config c.json -- python train.py``: collect from a training script without changing it."""

import click

from msprobe.cli.options.shared import shared


@click.command("run", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@shared("config", required=True, help="What to collect (.json, .yaml).")
@click.option("-m", "--model", help="Class of the model; default: the outermost module that is called first.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def command(config: str, model: str | None, command: tuple[str, ...]) -> int:
    """Run COMMAND and collect from the Python processes it starts.

    Collecting starts at the first forward call of the model and goes to the next step after each optimizer step.
    COMMAND is a program with its arguments, such as `python train.py --epochs 1` or `torchrun --nproc-per-node 2
    train.py`; a .py file alone is run with this Python. The exit status is that of COMMAND.
    """
    import json
    import os
    import shutil
    import sys
    from pathlib import Path

    from msprobe.core.config import load_config
    from msprobe.core.errors import InterfaceError

    load_config(config)  # reports errors before the program starts
    program = (sys.executable, *command) if command[0].endswith(".py") else command
    executable = shutil.which(program[0])
    if executable is None:
        raise InterfaceError(f"run: there is no program {program[0]!r}; write it as without msprobe, behind --")
    if program is not command and not Path(command[0]).is_file():
        raise InterfaceError(f"run: there is no file {command[0]} (working directory: {os.getcwd()}); check the path")
    bootstrap = Path(__file__).parents[2] / "bootstrap"
    search_path = [str(bootstrap), *filter(None, [os.environ.get("PYTHONPATH")])]
    request = {"config": str(Path(config).absolute()), "model": model}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(search_path), "MSPROBE_RUN": json.dumps(request)}
    sys.stdout.flush()
    os.execve(executable, list(program), environment)
