"""What one accuracy pre-check is asked for, as plain data that can be sent to another process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from msprobe.core.config.fields import PathText
from msprobe.core.config.load import read_file
from msprobe.core.errors import InterfaceError

PolicyName = Literal["default", "reference"]
SECTIONS = ("acc_check", "run_ut")
MOST_DIGITS = 20


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """How one call is checked.

    Attributes:
        device: the device under test.
        policy: ``default`` judges by rounding and conditioning, ``reference`` by the first published stage.
        seed: with the name of a call, it decides which values are drawn.
        quantizing: functions whose integer results may be off by one.
        error_data: the folder for tensors of calls that do not pass; None to keep none.
        digits: the decimals of figures in the tables.
        custom: modules of the user, by the prefix of their records: ``(("Lib", "package.module"),)``.
    """

    device: str
    policy: PolicyName = "default"
    seed: int = 0
    quantizing: tuple[str, ...] = ()
    error_data: str | None = None
    digits: int = 14
    custom: tuple[tuple[str, str], ...] = ()

    def text(self) -> str:
        """Return the settings as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> CheckSettings:
        """Return the settings that ``text`` wrote."""
        content = json.loads(text)
        custom = tuple((prefix, module) for prefix, module in content["custom"])
        return cls(**{**content, "quantizing": tuple(content["quantizing"]), "custom": custom})


class CheckConfig(BaseModel):
    """The file of ``-config``: its section ``acc_check``, or the same keys at the top."""

    model_config = ConfigDict(extra="ignore")

    white_list: tuple[str, ...] = ()
    black_list: tuple[str, ...] = ()
    error_data_path: PathText = "./"
    precision: int = Field(default=14, ge=0, le=MOST_DIGITS)
    quantization_api_list: tuple[str, ...] = ()


def read_config(path: Path | None) -> CheckConfig:
    """Return the settings of a config.json or config.yaml; the defaults without one.

    Raises:
        MsprobeException: it cannot be read, or a value is wrong.
    """
    if path is None:
        return CheckConfig()
    content = read_file(path, least="{}").raw
    section: Any = next((content[name] for name in SECTIONS if name in content), content)
    if not isinstance(section, Mapping):
        raise InterfaceError(f"{path}: acc_check must be an object with keys such as white_list and black_list")
    try:
        return CheckConfig.model_validate({key: value for key, value in section.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise InterfaceError(f"{path}: {place}: {first['msg']}, got {first['input']!r:.60}") from error
