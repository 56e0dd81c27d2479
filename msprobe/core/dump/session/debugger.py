"""The base of ``PrecisionDebugger`` in every framework: the documented API over the one session of the process.

Every method works on the class as well as on the object, because the documented way to collect from another file is
``PrecisionDebugger.start()``. There is one debugger per process; a construction that fails leaves nothing behind.

The functions below the class check what users pass in: the function of ``register_custom_api``, the numbers of
``start``, and its models. The taps of the adapters call ``models_with_prefixes`` and ``counted_model`` too.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from msprobe.core.backend.protocols import Backend
from msprobe.core.backend.support import Support, check_support
from msprobe.core.capture.observer import CurrentObserver
from msprobe.core.capture.thread_state import ThreadState
from msprobe.core.config import DumpConfig, load_config
from msprobe.core.config.load import attributed
from msprobe.core.config.models import TASKS
from msprobe.core.config.path_checks import require_paths
from msprobe.core.config.perturbed_run import fields_of_environment
from msprobe.core.config.problems import nearest
from msprobe.core.config.watch import ConfigWatch
from msprobe.core.dump.record.error_boundary import log_unexpected
from msprobe.core.dump.record.saved_values import save_fault
from msprobe.core.dump.session import process_debugger
from msprobe.core.dump.session.kernel_session import KernelSession
from msprobe.core.dump.session.reload import WatchedSession, open_session, watch_of
from msprobe.core.dump.session.run_boundary import RunBoundary, is_other_run
from msprobe.core.dump.session.service import Service, Settings, settings_of
from msprobe.core.dump.session.session import DumpSession
from msprobe.core.errors import MsprobeException, argument_text
from msprobe.core.html_card import html_card
from msprobe.core.interruption import from_outside, import_whole, passes_on
from msprobe.core.log import first_time, logger
from msprobe.core.store.runs import begin_run

F = TypeVar("F", bound=Callable[..., Any])


class _CollectedBlock:
    """The context of ``collect``. It is no generator, which could not pass on a StopIteration."""

    def __init__(self, debugger: type[Debugger], model: Any, arguments: Mapping[str, Any]) -> None:
        self._debugger = debugger
        self._model = model
        self._arguments = arguments

    def __enter__(self) -> None:
        self._debugger.start(self._model, **self._arguments)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        session = process_debugger.peek()
        try:
            if error is not None and isinstance(session, DumpSession):
                session.fail(error)
        finally:  # also where a handler of a signal raises in between
            self._debugger.stop()
            self._debugger.step()


def _released_when_interrupted(function: F) -> F:
    """Decorate a function that attaches or detaches: an exception from outside leaves nothing attached."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            session = process_debugger.peek()
            if isinstance(session, DumpSession) and from_outside(error):
                session.release()
            raise

    return call  # type: ignore[return-value]


class Debugger:
    """Collect the values that flow through a model; a framework's ``PrecisionDebugger`` defines what it supports.

    Args:
        config_path: config.json, or a dict with its content; None for the documented defaults.
        task, dump_path, level, step: override the fields of the same name in the file.
        model: the model of a ``start()`` without one. The older order ``..., level, model, step`` works too.
        further: other common fields of the file, such as ``rank=[0]``, which they override too.

    Raises:
        ConfigError: the configuration is wrong, or asks for what the framework does not support.
        FileCheckException: the configuration file cannot be used.

    Constructing it again in the same process returns the existing debugger; with another dump_path, task or level it
    ends the run of that one and begins a new one (``run_boundary`` says what else begins one), with the file and the
    folder of before where they are not said. ``with`` closes it.
    """

    support: ClassVar[Support]
    _instance: ClassVar[Any] = None
    _model: ClassVar[Any] = None
    _probe: ClassVar[Any] = None
    _arguments: ClassVar[tuple[Any, dict[str, Any]]] = (None, {})
    _source: ClassVar[tuple[Any, dict[str, Any]]] = (None, {})
    """The file of the present run, and its folder where an argument has named it."""
    _make_session: ClassVar[Any] = None
    _boundary: ClassVar[RunBoundary] = RunBoundary()
    gives_way: ClassVar[bool] = False
    """Whether the debugger of the process was made in advance, for a program that may still make its own."""
    config: Settings
    service: Service

    @passes_on
    def __new__(
        cls,
        config_path: Any = None,
        task: str | None = None,
        dump_path: str | None = None,
        level: str | None = None,
        step: Any = None,
        model: Any = None,
        **further: Any,
    ) -> Any:
        with process_debugger.LOCK:
            if cls.is_model(step):  # the older order of arguments
                model, step = step, model
            _check_fields(further)
            fields = {"task": task, "dump_path": dump_path, "level": level, "step": step, **further}
            return cls._construct(config_path, fields, model)

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the folder, what is recorded, and how many steps ended."""
        config, session = self.config, process_debugger.peek()
        running = session is not None and type(self)._instance is self
        steps = f"{session.loop}" if running else "closed"
        shown = {name: str(getattr(config, name)) for name in ("dump_path", "task", "level")}
        return html_card("PrecisionDebugger", "good" if running else "unsure", [*shown.items(), ("steps", steps)])

    @classmethod
    def _construct(
        cls,
        config_path: Any,
        fields: Mapping[str, Any],
        model: Any = None,
        make_session: Callable[[DumpConfig, ConfigWatch | None], DumpSession] | None = None,
    ) -> Any:
        """Return the debugger of the process, which is constructed when there is none.

        Args:
            config_path: as that of the class.
            fields: fields of the configuration that override those of the file; None overrides nothing.
            model: as that of the class.
            make_session: returns the session that serves a configuration; None for the usual one.

        Raises:
            ConfigError, FileCheckException: as the class.
        """
        with process_debugger.LOCK:
            cls._withdraw()
            overrides = {name: value for name, value in fields.items() if value is not None} | fields_of_environment()
            arguments = (config_path, overrides)
            present = process_debugger.peek() if cls._instance is not None else None
            if present is not None and (repr(arguments) == repr(cls._arguments) or not (config_path or overrides)):
                cls._boundary.make_again()
                return cls._instance
            if present is not None and config_path is None:  # the file and the folder stay
                config_path, folder = cls._source
                overrides = {**folder, **overrides}
            accept = functools.partial(cls._accept, config_path, overrides)
            watch = watch_of(config_path, overrides, accept)  # before the file is read: no change falls in between
            config = load_config(config_path, **overrides)
            accept(config)
            if present is not None and not (isinstance(present, DumpSession) and is_other_run(config, present.config)):
                cls._warn_of_other_arguments(arguments)
                return cls._instance
            earlier = cls._instance
            cls._begin_run(functools.partial(make_session or cls.make_session, config, watch), arguments)
            cls._source = config_path, {name: overrides[name] for name in ("dump_path",) if name in overrides}
            cls._model = model
            if earlier is not None:
                vars(earlier)["start"] = functools.partial(cls._start_of_other_run, earlier.config.dump_path)
            if config.enable_dataloader:
                cls.follow_data_loaders()
            return cls._instance

    @classmethod
    def _begin_run(cls, make_session: Callable[[], Any], arguments: tuple[Any, dict[str, Any]]) -> None:
        """End the session that there is, as the end of the process would, and begin another one."""
        earlier = process_debugger.peek()
        if earlier is not None:  # `_instance = None` asks for a fresh object, other arguments for another run
            if cls._instance is not None and earlier.started:
                cls._boundary.interrupt(earlier, None)
            process_debugger.put(None)
            earlier.close()
            begin_run()
        with attributed(*arguments):
            session = make_session()
        process_debugger.put(session, in_force=lambda: cls._instance is not None)
        cls._instance = super().__new__(cls)
        cls._instance.config = settings_of(session.config, session.backend.name)
        cls._instance.service = Service(session)
        cls._arguments, cls._make_session, cls._boundary = arguments, make_session, RunBoundary()

    @classmethod
    def _begin_run_again(cls) -> Any:
        """Begin another run of the same folder, and return its session; the object of the user stays."""
        instance = cls._instance
        cls._begin_run(cls._make_session, cls._arguments)
        session = process_debugger.current()
        instance.config, instance.service = cls._instance.config, cls._instance.service
        cls._instance = instance
        logger.info("another run begins in %s: its steps are numbered from 0", session.config.dump_path)
        return session

    @classmethod
    def _start_of_other_run(cls, ended: str, *args: Any, **kwargs: Any) -> None:
        """Begin collecting, called on the debugger of a run that has ended."""
        if first_time(("start of another run", ended)):
            present = cls._instance.config.dump_path if cls._instance is not None else "no folder"
            logger.warning(
                "start() was called on the debugger of %s, whose run ended when another one was constructed: what is "
                "collected goes into %s; use the debugger that was constructed last",
                ended,
                present,
            )
        cls.start(*args, **kwargs)

    @classmethod
    def _warn_of_other_arguments(cls, arguments: tuple[Any, dict[str, Any]]) -> None:
        """Warn that the debugger is constructed again with another configuration, which has no effect."""
        if first_time(("constructed again", repr(arguments))):
            logger.warning(
                "PrecisionDebugger exists already in this process and keeps its configuration: what it is constructed "
                "with now is not used"
            )

    @classmethod
    def is_model(cls, value: Any) -> bool:
        """Return whether ``value`` is a model, as ``start(model=...)`` takes it."""
        raise NotImplementedError

    @classmethod
    def make_backend(cls, config: DumpConfig, current: CurrentObserver, thread: ThreadState) -> Backend:
        """Return the framework's capabilities for one session."""
        raise NotImplementedError

    @classmethod
    def make_session(cls, config: DumpConfig, watch: ConfigWatch | None) -> Any:
        """Return the session that serves ``config``: a ``KernelSession`` where the runtime dumps kernels by itself."""
        if cls.support.runtime_kernels and config.level == "L2" and config.task_spec.kernels:
            return KernelSession(config, cls.make_backend)
        return open_session(config, cls.make_backend, watch)

    @classmethod
    def _accept(cls, source: Any, arguments: Mapping[str, Any], config: DumpConfig) -> None:
        """Raise ConfigError for what is not supported; the message names the field and where it was set."""
        with attributed(source, arguments):
            cls.check(config)
            require_paths(config)

    @classmethod
    def check(cls, config: DumpConfig) -> None:
        """Raise ConfigError when the framework does not support what ``config`` asks for."""
        check_support(config, cls.support)

    @classmethod
    def follow_data_loaders(cls) -> None:
        """Let data loaders start and end the steps. Adapters may override it."""
        logger.warning("enable_dataloader is for PyTorch and has no effect here; call start(), stop() and step()")

    @classmethod
    def before_first_start(cls, session: DumpSession) -> None:
        """Called before a start that opens a step. Adapters may override it. May raise ConfigError."""

    @classmethod
    @_released_when_interrupted
    @log_unexpected
    def start(
        cls,
        model: Any = None,
        token_range: Any = None,
        rank_id: int | None = None,
        scheduled_tokens: Any = None,
        computed_tokens: Any = None,
        **unknown: Any,
    ) -> None:
        """Begin collecting.

        Args:
            model: the module or cell whose children are recorded, or a list, tuple or mapping (by name) of them; needed
                at L0 and mix.
            token_range: ``[first, last]``: collect only during these forward calls of the model, counted from 0.
            rank_id: names the folder of this process instead of the rank in the job.
            scheduled_tokens: for serving: how many tokens of each request this step holds, by request id.
            computed_tokens: how many tokens of a request were computed before, by request id, where the earlier steps
                do not tell it (a cached prefix).

        Arguments that no version knows are ignored with a warning.
        """
        with process_debugger.LOCK:
            session = process_debugger.current()
            _warn_unknown("start", unknown, "model", "token_range", "rank_id", "scheduled_tokens", "computed_tokens")
            if not session.opened:
                cls.before_first_start(session)
            if cls._instance is not None and not cls._instance.service.before_start():
                return
            rank = None if rank_id is None else _index("rank_id", rank_id)
            model = cls._model if model is None else model
            if cls._instance is not None and cls._boundary.start(session, model):
                session = cls._begin_run_again()
            session.start(
                model=model,
                rank_id=rank,
                token_range=token_range,
                scheduled_tokens=scheduled_tokens,
                computed_tokens=computed_tokens,
            )

    @classmethod
    @_released_when_interrupted
    @log_unexpected
    def stop(cls) -> None:
        """Stop collecting and publish dump.json; ``start`` continues in the same step."""
        with process_debugger.LOCK:
            process_debugger.current().stop()

    @classmethod
    @_released_when_interrupted
    @log_unexpected
    def step(cls, dump: bool = True, **unknown: Any) -> None:
        """End the step; what is collected next belongs to the next one. ``dump=False`` removes what it recorded."""
        with process_debugger.LOCK:
            _warn_unknown("step", unknown, "dump")
            process_debugger.current().step(dump)

    @classmethod
    @passes_on
    def close(cls) -> None:
        """End collecting for good, as the end of the process does; a debugger that is constructed then is a new one."""
        with process_debugger.LOCK:
            session = process_debugger.peek()
            process_debugger.put(None)
            cls._instance = cls._model = None
            if session is not None:
                session.close()
                begin_run()

    @classmethod
    def _withdraw(cls) -> None:
        """Take back a debugger that gives way, and what it has tried to record."""
        if cls.gives_way:
            session = process_debugger.peek()
            process_debugger.put(None)
            cls._instance, cls.gives_way = None, False
            if isinstance(session, DumpSession):
                if session.opened:
                    session.stop()
                    session.step(dump=False)
                session.abandon()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """Close the debugger; an exception of the block ends the step that is open."""
        session = process_debugger.peek()
        if error is not None and isinstance(session, DumpSession):
            session.fail(error)
        self.close()

    @classmethod
    def collect(cls, model: Any = None, **arguments: Any) -> contextlib.AbstractContextManager[None]:
        """Collect a block as one step: ``start(model, ...)`` before it, ``stop`` and ``step`` after it."""
        return _CollectedBlock(cls, model, arguments)

    @classmethod
    @log_unexpected
    def _maybe_reload_config(cls, force: bool = False) -> bool:
        """Look at the configuration file of ``dump_enable``; return whether it was read again.

        Not private in practice: serving frameworks call it after they have edited the file.

        Args:
            force: look now, even if the file was looked at a moment ago.
        """
        with process_debugger.LOCK:
            session = process_debugger.current()
            return isinstance(session, WatchedSession) and session.check(force)

    @classmethod
    @log_unexpected
    def save(cls, variable: Any, name: str, save_backward: bool = True) -> None:
        """Record one value as ``{name}.{n}.debug`` in debug.json, and the gradients of its tensors as ``{name}_grad``.

        It works at every level, between start and stop or not; level debug records nothing else. A value that cannot
        be saved is left out with a warning.
        """
        with process_debugger.LOCK:
            session = process_debugger.current()
            fault = save_fault(variable, name, save_backward, session.backend.values.is_tensor)
            if fault is None:
                session.save(variable, name, save_backward)
            else:
                logger.warning("save: %s; nothing is saved", fault)

    @classmethod
    @log_unexpected
    def trigger(cls, reason: Any = "trigger") -> None:
        """Write the steps that ``ring`` keeps in memory, and the present one. Any thread may call it.

        Args:
            reason: stands in the headers of the dumps; the same reason writes again after ``ring.cool_down`` steps.
        """
        if not isinstance(reason, str) or not reason:
            raise MsprobeException(0, f"trigger: reason must be a text, got {argument_text(reason)}")
        process_debugger.current()
        process_debugger.trigger("trigger", reason, asked=True)

    @classmethod
    @log_unexpected
    def monitor(cls, model: Any) -> None:
        """Watch the gradients of ``model`` at each step of an optimizer from now on (task ``grad_probe``).

        Raises:
            MsprobeException: the task is another one, or ``model`` is no model.
        """
        with process_debugger.LOCK:
            session = process_debugger.current()
            earlier, cls._probe = cls._probe, None
            if earlier is not None:
                earlier.detach()
            begin = import_whole("msprobe.monitor.grad_probe.probe").begin
            cls._probe = begin(session.config, cls.support.framework, model)

    @classmethod
    @passes_on
    def set_init_step(cls, step: int) -> None:
        """Number the steps from ``step`` on."""
        with process_debugger.LOCK:
            process_debugger.current().set_init_step(_index("step", step))

    @classmethod
    @passes_on
    def register_custom_api(cls, module: Any, api: Any, api_prefix: Any = None) -> None:
        """Record calls of ``module.api`` too, as ``{api_prefix}.{api}``; the prefix defaults to the module's name."""
        with process_debugger.LOCK:
            session = process_debugger.current()
            check_function(module, api, api_prefix)
            session.backend.apis.add(module, api, api_prefix or owner_name(module))
            plan = getattr(session, "plan", None)  # a runtime that dumps kernels has none
            if plan is not None and plan.apis:
                logger.info("API %s of %s is recorded from now on", api, owner_name(module))
            else:
                level = session.config.level
                logger.warning("level %s records no functions: API %s of %s is not", level, api, owner_name(module))

    @classmethod
    @log_unexpected
    def restore_custom_api(cls, module: Any, api: str) -> None:
        """Record ``module.api`` no longer."""
        with process_debugger.LOCK:
            process_debugger.current().backend.apis.remove(module, api)


def _check_fields(names: Mapping[str, Any]) -> None:
    """Raise MsprobeException for a keyword of the constructor that is no common field of the configuration."""
    known = [name for name in DumpConfig.model_fields if name not in TASKS]
    for name in names:
        if name not in known:
            close = nearest(name, known)
            hint = f"did you mean {close}?" if close else f"there are {', '.join(known)}; other keys go into the file"
            raise MsprobeException(0, f"PrecisionDebugger: {name} is no common field of the configuration; {hint}")


_REGISTER = "register_custom_api"


def check_function(owner: Any, name: Any, prefix: Any) -> None:
    """Raise MsprobeException when ``owner`` has no function ``name``, or ``prefix`` is no str."""
    if isinstance(owner, str) or owner is None:
        raise MsprobeException(
            0, f"{_REGISTER}: module must be a module, class or object, not its name, got {argument_text(owner)}"
        )
    if not isinstance(name, str):
        raise MsprobeException(0, f"{_REGISTER}: api must be the name of a function (str), got {argument_text(name)}")
    if not callable(getattr(owner, name, None)):
        close = nearest(name, dir(owner))
        hint = f"did you mean {close!r}?" if close else "give the name of one that it has"
        raise MsprobeException(0, f"{_REGISTER}: {owner_name(owner)} has no function {argument_text(name)}; {hint}")
    if prefix is not None and not isinstance(prefix, str):
        raise MsprobeException(0, f"{_REGISTER}: api_prefix must be a str, got {argument_text(prefix)}")


def owner_name(owner: Any) -> str:
    """Return the prefix of the entries of its functions."""
    return str(getattr(owner, "__name__", "Custom"))


def _warn_unknown(call: str, unknown: dict[str, Any], *accepted: str) -> None:
    """Warn once about each unknown argument: arguments of other versions must not end a training."""
    for name in sorted(unknown):
        if first_time((call, name)):
            close = nearest(name, accepted)
            hint = f"; did you mean {close}?" if close else ""
            logger.warning("%s: the argument %s is unknown and ignored%s", call, name, hint)


def _index(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise MsprobeException(0, f"{name} must be an integer, got {argument_text(value)}")
    if value < 0:
        raise MsprobeException(0, f"{name} must be greater than or equal to 0, got {argument_text(value)}")
    return value


def models_with_prefixes(model: Any, kind: type, called: str, prefix: str) -> list[tuple[str, Any]]:
    """Return each model with the prefix of its children's names.

    It is ``prefix`` for one model, ``prefix.position`` in a list, ``prefix.name`` in a mapping of names to models,
    where an empty name stands for ``prefix`` alone. An empty mapping says that the models follow in later starts.

    Args:
        kind: the class of models.
        called: the name of that class in messages, such as ``torch.nn.Module``.

    Raises:
        MsprobeException: a part is no model, a name is no text, or the list is empty.
    """
    if isinstance(model, Mapping):
        parts = [(name, part, f" under {name!r}") for name, part in model.items()]
    elif isinstance(model, (list, tuple)):
        parts = [(str(position), part, f" at position {position}") for position, part in enumerate(model)]
        if not parts:
            raise MsprobeException(0, f"start(model=...): the list of models is empty; give a {called}")
    else:
        parts = [("", model, "")]
    for name, part, where in parts:
        if not isinstance(name, str):
            raise MsprobeException(0, f"start(model=...): the name of a model is a str, got {argument_text(name)}")
        if not isinstance(part, kind):
            raise MsprobeException(
                0,
                f"start(model=...): expected a {called} or a list, tuple or mapping of them, got "
                f"{type(part).__name__}{where}",
            )
    return [(f"{prefix}.{name}" if name else prefix, part) for name, part, _ in parts]


def models_in(model: Any) -> list[Any]:
    """Return what ``start(model=...)`` got as a list: the parts of a list, tuple or mapping, or the model alone."""
    if isinstance(model, Mapping):
        return list(model.values())
    return list(model) if isinstance(model, (list, tuple)) else [model]


def counted_model(model: Any, kind: type, called: str) -> Any:
    """Return the model whose calls ``token_range`` counts: the first of several.

    Raises:
        MsprobeException: it is no model, or the list is empty.
    """
    first = next(iter(models_in(model)), model)
    if not isinstance(first, kind):
        raise MsprobeException(
            0, f"start(model=...): token_range counts the calls of a {called}, got {type(first).__name__}"
        )
    return first
