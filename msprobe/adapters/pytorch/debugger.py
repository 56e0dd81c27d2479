"""``PrecisionDebugger``: the documented API over one collection session of the process.

Every method works on the class as well as on the object, because the documented way to collect from another file is
``PrecisionDebugger.start()``. There is one debugger per process; a construction that fails leaves nothing behind.
"""

from __future__ import annotations

from typing import Any

from msprobe.adapters.pytorch.backend import make
from msprobe.core.backend.support import PYTORCH, check_support
from msprobe.core.config import load_config
from msprobe.core.dump import handle
from msprobe.core.dump.session import DumpSession
from msprobe.core.errors import MsprobeException
from msprobe.core.log import logger


class PrecisionDebugger:
    """Collects what flows through a model.

    Args:
        config_path: config.json (or a dict with its content); None takes the documented defaults.
        task, dump_path, level, step: beat the fields of the file.

    Raises:
        ConfigError: something in the configuration is wrong, or not available for PyTorch.
        FileCheckException: the configuration file cannot be used.

    Constructing it again in the same process returns the debugger that is already there.
    """

    _instance: PrecisionDebugger | None = None

    def __new__(
        cls,
        config_path: Any = None,
        task: str | None = None,
        dump_path: str | None = None,
        level: str | None = None,
        step: Any = None,
    ) -> PrecisionDebugger:
        with handle.LOCK:
            if cls._instance is not None and handle.peek() is not None:
                logger.debug("PrecisionDebugger exists already in this process: its configuration stays as it is")
                return cls._instance
            config = load_config(config_path, task=task, dump_path=dump_path, level=level, step=step)
            check_support(config, PYTORCH)
            handle.put(DumpSession(config, make))
            cls._instance = super().__new__(cls)
            return cls._instance

    @classmethod
    def start(
        cls, model: Any = None, token_range: Any = None, rank_id: int | None = None, scheduled_tokens: Any = None
    ) -> None:
        """Begin collecting.

        Args:
            model: the torch.nn.Module (or a list or tuple of them) whose submodules are recorded; needed at L0 and mix.
            token_range, scheduled_tokens: not available in this version.
            rank_id: names the folder of this process instead of the rank in the job.
        """
        with handle.LOCK:
            session = handle.current()
            for name, value in (("token_range", token_range), ("scheduled_tokens", scheduled_tokens)):
                if value is not None:
                    raise MsprobeException(0, f"start({name}=...) is not available in this version; leave it out")
            session.start(model, None if rank_id is None else _index("rank_id", rank_id))

    @classmethod
    def stop(cls) -> None:
        """Stop collecting and publish dump.json; ``start`` goes on in the same step."""
        with handle.LOCK:
            handle.current().stop()

    @classmethod
    def step(cls) -> None:
        """End the step; what is collected next belongs to the next one."""
        with handle.LOCK:
            handle.current().step()

    @classmethod
    def set_init_step(cls, step: int) -> None:
        """Number the steps from ``step`` on."""
        with handle.LOCK:
            handle.current().set_init_step(_index("step", step))

    @classmethod
    def register_custom_api(cls, module: Any, api: Any, api_prefix: Any = None) -> None:
        """Record calls of ``module.api`` too, as ``{api_prefix}.{api}``; the prefix defaults to the module's name."""
        with handle.LOCK:
            session = handle.current()
            if not isinstance(api, str) or not callable(getattr(module, api, None)):
                raise MsprobeException(0, f"register_custom_api: {_name_of(module)} has no function {api!r}")
            if api_prefix is not None and not isinstance(api_prefix, str):
                raise MsprobeException(0, f"register_custom_api: api_prefix is a str, got {type(api_prefix).__name__}")
            session.backend.apis.add(module, api, api_prefix or _name_of(module))
            logger.info("API %s of %s is recorded from now on", api, _name_of(module))

    @classmethod
    def restore_custom_api(cls, module: Any, api: str) -> None:
        """Record ``module.api`` no longer."""
        with handle.LOCK:
            handle.current().backend.apis.remove(module, api)


def _name_of(module: Any) -> str:
    return str(getattr(module, "__name__", "Custom"))


def _index(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise MsprobeException(0, f"{name} must be an integer, got {value!r}")
    if value < 0:
        raise MsprobeException(0, f"{name} must be greater than or equal to 0, got {value}")
    return value
