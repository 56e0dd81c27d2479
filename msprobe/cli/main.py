"""The command ``msprobe``: a table of commands, each of which is imported only when it runs.

``main`` is the entry point. ``run`` is the only place where an error of this tool becomes a line on stderr and an exit
status: 0 done, 1 what a command defines (``--fail-on``), 2 wrong usage or unreadable input, 3 not comparable.

SIGTERM and SIGHUP end a command as Ctrl-C does: it cleans up, and the exit status says which signal it was.
"""

from __future__ import annotations

import gc
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NamedTuple, NoReturn

import click

from msprobe import __version__
from msprobe.cli.options.help_text import OVERVIEW, complete, epilog, normalized
from msprobe.cli.options.shared import shared
from msprobe.cli.options.types import PublishedFramework
from msprobe.core.distribution import distributions_beside, mixture
from msprobe.core.errors import MEMORY_ERROR, MsprobeException, NotComparableError

EXIT_USAGE = 2
EXIT_NOT_COMPARABLE = 3
_EXIT_INTERRUPTED = 130
_EXIT_BROKEN_PIPE = 141
_MAY_BE_EMPTY = ("--rank", "--step")
_ENDING = (signal.SIGTERM, signal.SIGHUP)


class CommandEntry(NamedTuple):
    """A command: ``target`` is ``module:attribute`` of a click command, ``summary`` its line in ``msprobe --help``."""

    target: str
    summary: str


COMMANDS: dict[str, CommandEntry] = {
    "acc_check": CommandEntry(
        "msprobe.cli.checks.acc_check:command", "Run recorded calls again and judge each against float64."
    ),
    "accept": CommandEntry(
        "msprobe.cli.comparison.accept:command", "Accept the first divergence of a result from now on."
    ),
    "anomaly_processor": CommandEntry(
        "msprobe.cli.analysis.anomaly_processor:command", "Name the first alerts of all ranks of a monitor."
    ),
    "answers": CommandEntry(
        "msprobe.cli.analysis.answers:command", "Name the odd answers of a language model (repeated, garbled, NaN)."
    ),
    "api_precision_compare": CommandEntry(
        "msprobe.cli.checks.api_precision_compare:command", "Judge what acc_check measured on two devices."
    ),
    "check": CommandEntry(
        "msprobe.cli.analysis.check:command", "Name what cannot be right in one run, without a golden one."
    ),
    "code_mapping": CommandEntry(
        "msprobe.cli.collection.code_mapping:command", "Link kernels of a MindSpore graph to lines of Python."
    ),
    "compare": CommandEntry(
        "msprobe.cli.comparison.compare:command", "Compare two dumps and name the first divergence."
    ),
    "config_check": CommandEntry(
        "msprobe.cli.comparison.config_check:command", "Compare the set-ups of two trainings, or two checkpoints."
    ),
    "data2db": CommandEntry("msprobe.cli.analysis.data2db:command", "Follow the statistics of a dump over its steps."),
    "doctor": CommandEntry(
        "msprobe.cli.collection.doctor:command", "Say what is installed, or why a dump is, or would be, empty."
    ),
    "import": CommandEntry(
        "msprobe.cli.collection.import_kernels:command", "Make a dump of what MindSpore's runtime dumped."
    ),
    "install_deps": CommandEntry(
        "msprobe.cli.collection.install_deps:command", "Say which optional packages are missing."
    ),
    "graph_visualize": CommandEntry(
        "msprobe.cli.analysis.graph_visualize:command", "Draw a dump, or two with their differences, as a graph."
    ),
    "merge_result": CommandEntry(
        "msprobe.cli.comparison.merge_result:command", "Put the tables of many ranks side by side."
    ),
    "multi_acc_check": CommandEntry(
        "msprobe.cli.checks.acc_check:multi_command", "Do what acc_check does, in several processes."
    ),
    "multi_run_ut": CommandEntry("msprobe.cli.checks.acc_check:multi_run_ut", "Older name of multi_acc_check."),
    "nan_analyze": CommandEntry("msprobe.cli.analysis.overflow_check:nan_analyze", "Older name of overflow_check."),
    "noise": CommandEntry(
        "msprobe.cli.comparison.noise:command", "Learn from reruns how far two runs normally differ."
    ),
    "offline_dump": CommandEntry(
        "msprobe.cli.collection.offline_dump:command", "Run an ONNX model and record every node of it."
    ),
    "op_generate": CommandEntry(
        "msprobe.cli.checks.op_generate:command", "Write a script that runs one recorded call alone."
    ),
    "overflow_check": CommandEntry(
        "msprobe.cli.analysis.overflow_check:command", "Name the call that made the first NaN."
    ),
    "parse": CommandEntry(
        "msprobe.cli.analysis.parse:command", "Convert, show and compare tensor files of kernels (ATB, ACL)."
    ),
    "run": CommandEntry("msprobe.cli.collection.run:command", "Run an unmodified training script and collect from it."),
    "run_overflow_check": CommandEntry(
        "msprobe.cli.checks.run_overflow_check:command", "Tell which recorded overflows the CPU has too."
    ),
    "run_ut": CommandEntry("msprobe.cli.checks.acc_check:run_ut", "Older name of acc_check."),
    "split_inputs": CommandEntry(
        "msprobe.cli.collection.split_inputs:command", "Cut the inputs of a good run for the ranks of another one."
    ),
    "support": CommandEntry("msprobe.cli.collection.support:command", "Print what each framework can be asked for."),
    "trace": CommandEntry("msprobe.cli.analysis.trace:command", "Tell where a value comes from and who uses it."),
    "validate": CommandEntry(
        "msprobe.cli.collection.validate:command", "Check a config.json and say everything wrong in it."
    ),
    "view": CommandEntry("msprobe.cli.analysis.view:command", "Show graphs in the browser, or write one offline page."),
}


class LazyGroup(click.Group):
    """A group whose help comes from the table, so that showing it imports no command."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command and return it; None for an unknown name."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, attribute = entry.target.split(":")
        from msprobe.core.host import paused_gc

        with paused_gc():  # a fiftieth of the time of a short comparison
            command: click.Command = getattr(importlib.import_module(module), attribute)
            gc.freeze()  # modules stay, and no collection has to walk them
        return complete(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name].summary) for name in self.list_commands(ctx)])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the first word.

        Raises:
            UsageError: there is no such command, or it has no such option; the message says what to do instead.
        """
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            ctx.fail(_no_command(name))
        if name != "run":  # the words behind it belong to a program of the user
            _refuse_wrong_words(name, args[1:])
        return super().resolve_command(ctx, args)


def _no_command(name: str) -> str:
    """Return the message for a name that is no command; it names the closest command."""
    import difflib  # loaded for a wrong name only

    from msprobe.cli.options.published_names import command_advice

    if advice := command_advice(name):
        return f"no such command {name!r}: it {advice}"
    close = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"commands: {', '.join(sorted(COMMANDS))}"
    return f"no such command {name!r}; {hint}"


def _refuse_wrong_words(command: str, words: Sequence[str]) -> None:
    """Raise UsageError for an empty path, and for an option of the published tool that ``command`` does not have."""
    from msprobe.cli.options.published_names import option_advice

    for before, word in zip(("", *words), words, strict=False):
        if not word and before not in _MAY_BE_EMPTY:
            place = f"behind {before}" if before else "as the first word"
            raise click.UsageError(f"{command}: an empty text stands {place}, as of an unset variable; give it")
        if word.startswith("-") and (advice := option_advice(command, word)):
            raise click.UsageError(f"{command} has no option {word.partition('=')[0]}: it {advice}")


@click.group(
    cls=LazyGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "token_normalize_func": normalized},
    epilog=f"{epilog(OVERVIEW)}\n\nmsprobe COMMAND --help tells more about one command.",
)
@click.version_option(
    __version__,
    "-V",
    "--version",
    prog_name="msprobe",
    message="%(prog)s %(version)s",
)
@shared(
    "framework",
    type=PublishedFramework(),
    metavar="FRAMEWORK",
    help="As older scripts write it; only doctor and validate use it, all others find it in the dump.",
)
@click.pass_context
def cli(ctx: click.Context, framework: str | None) -> None:
    """Find the first operation that went wrong in a training."""
    ctx.default_map = {name: {"framework": framework} for name in ("doctor", "validate")} if framework else None
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        return
    from msprobe.core.log import use_stream  # logging is not free, and help does not log

    use_stream("stderr")


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit. ``arguments`` default to those of the process."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name this terminal cannot show must not end the command
    for beside in distributions_beside():
        print(f"msprobe: warning: {mixture(beside)}", file=sys.stderr)
    words = sys.argv[1:] if arguments is None else arguments
    trains = _is_run(words)
    if trains:  # a training handles its signals itself
        sys.exit(run(words))
    raise_on_termination()
    interrupts = Interrupts()
    try:
        status = run(words)
    except Exception:
        if not interrupts.seen:
            raise
        status = _fail("interrupted", _EXIT_INTERRUPTED)
    # Objects of a training may need to be finalized, those of other commands need not be.
    gc.freeze()  # the collection at the end of the process would take a twentieth of a second
    sys.exit(status)


def _is_run(words: Sequence[str]) -> bool:
    """Return whether the command is ``run``, with or without options before it."""
    index = 0
    while words[index : index + 1] and words[index].startswith("-"):
        index += 2 if words[index] in ("-f", "--framework") else 1
    return list(words[index : index + 1]) == ["run"]


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status.

    A command ends with another status than 0 by returning an int or by ``ctx.exit(status)``.
    """
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        status = _invoke(list(words))  # click takes words out of the list
        if sys.stdout is not None:  # None where the program was started without it
            sys.stdout.flush()
    except click.ClickException as error:
        return _fail(_usage(error, words), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted", _EXIT_INTERRUPTED)
    except Terminated as end:
        return _fail(f"ended by {end.name}", end.status)
    except NotComparableError as error:
        return _fail(str(error), EXIT_NOT_COMPARABLE)
    except MsprobeException as error:
        return _fail(str(error), EXIT_USAGE)
    except BrokenPipeError:
        return _output_closed()
    except OSError as error:
        return _fail(system_error(error), EXIT_USAGE)
    except MemoryError:
        return _fail(MEMORY_ERROR, EXIT_USAGE)
    return status


def _invoke(arguments: list[str]) -> int:
    """Do what ``click.Group.main`` does, but raise for a broken pipe: its status 1 means "diverged" here."""
    for word in arguments:
        if "\0" in word:  # the system call behind a path or a name would raise
            raise click.UsageError(f"the argument {word!r} holds a NUL character: remove it")
    try:
        with cli.make_context("msprobe", arguments) as context:
            status = cli.invoke(context)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    return status if isinstance(status, int) else 0


def _fail(message: str, status: int) -> int:
    line = "; ".join(part.strip() for part in message.splitlines() if part.strip())
    print(f"msprobe: error: {line.removeprefix('[msprobe] ')}", file=sys.stderr)
    return status


def _usage(error: click.ClickException, words: Sequence[str]) -> str:
    if not isinstance(error, click.UsageError):
        return error.format_message().rstrip(".")
    from msprobe.cli.options.nearest_line import near, nearest_line, unknown_word  # loaded for a wrong line only

    if isinstance(error, click.NoSuchOption):
        close = near(error.option_name, error.possibilities or ())
        error = click.NoSuchOption(error.option_name, possibilities=close, ctx=error.ctx)
    message = error.format_message().rstrip(".")
    if isinstance(error, click.NoSuchOption):
        message = message.replace(error.option_name, unknown_word(error, words).partition("=")[0], 1)
    if error.ctx is None and isinstance(error, click.BadOptionUsage):
        error.ctx = _context(words)  # the parser does not know it
    if line := nearest_line(error, words):
        message = f"{message}; try: {line}"
    command = next((word for word in words if word in COMMANDS), "")
    path = error.ctx.command_path if error.ctx else f"msprobe {command}".strip()
    return f"{message} (see {path} --help)"


def _context(words: Sequence[str]) -> click.Context:
    """Return a context of the command of a line, or of the command inside it; nothing is parsed."""
    context = click.Context(cli, info_name="msprobe")
    for word in words:
        command = context.command.get_command(context, word) if isinstance(context.command, click.Group) else None
        if command is not None:
            context = click.Context(command, info_name=word, parent=context)
    return context


def system_error(error: OSError) -> str:
    """Return an error of the system as one line: the file, and what the system says."""
    reason = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {reason}" if error.filename else reason


def _output_closed() -> int:
    """End quietly when the reader of the output is gone (``msprobe ... | head``); Python must not complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return _EXIT_BROKEN_PIPE


# ---------------------------------------------------------------- signals


class Terminated(SystemExit):
    """The exception that a signal raises in the command, so that every ``with`` block is left.

    ``status`` is the exit status that a shell gives (128 + number of the signal).
    """

    def __init__(self, number: int) -> None:
        self.status = 128 + number
        super().__init__(self.status)
        self.name = signal.Signals(number).name


class Interrupts:
    """Whether Ctrl-C was pressed: a library that is imported may turn ``KeyboardInterrupt`` into an own error."""

    def __init__(self) -> None:
        self.seen = False
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._raise)

    def _raise(self, number: int, frame: FrameType | None) -> None:
        self.seen = True
        raise KeyboardInterrupt


def raise_on_termination() -> None:
    """Raise ``Terminated`` in the main thread when SIGTERM or SIGHUP arrives; the main thread has to call this.

    A signal that is ignored (nohup), or that has a handler already, keeps its behaviour.
    """
    handled = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in handled:
        signal.signal(number, _raise_terminated)

    def hold() -> None:  # a signal that arrives before a copy has its own handlers would be lost
        signal.pthread_sigmask(signal.SIG_BLOCK, handled)

    def release() -> None:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, handled)

    def release_copy() -> None:  # only the parent cleans up
        for number in handled:
            signal.signal(number, signal.SIG_DFL)
        release()

    os.register_at_fork(before=hold, after_in_parent=release, after_in_child=release_copy)


def _raise_terminated(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # `timeout` sends it twice, and the second one must not interrupt the cleanup
    raise Terminated(number)
