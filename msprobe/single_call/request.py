"""What a script is asked for: the documented file config_op.json, or options."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from msprobe.core.config.fields import PathText
from msprobe.core.config.load import read_file
from msprobe.core.errors import InterfaceError

FORWARD, BACKWARD = "forward", "backward"
RANDOM, REAL = "random_data", "real_data"
MOST_RUNS = 1000


class ScriptConfig(BaseModel):
    """The keys of config_op.json."""

    model_config = ConfigDict(extra="ignore")

    dump_json_path: PathText = ""
    api_name: str = Field(default="", max_length=300)
    extract_api_path: PathText = ""
    propagation: Literal["forward", "backward"] = "forward"
    data_mode: Literal["random_data", "real_data"] = "random_data"
    random_seed: int = Field(default=1234, ge=0)
    iter_times: int = Field(default=1, ge=1, le=MOST_RUNS)


@dataclass(frozen=True, slots=True)
class ScriptRequest:
    """One script.

    Attributes:
        dump: the document with the record of the call.
        name: the call, ``Functional.linear.0``; "" for the only one of the document.
        backward: whether its gradients are judged too.
        real: whether its inputs are those of tensor files; otherwise the script draws them.
        seed: the seed of drawn inputs.
        runs: how often the script draws inputs and runs.
        pytest: whether the file is a test for pytest.
        extract: the document that gets the records of the call alone; None for none.
    """

    dump: Path
    name: str = ""
    backward: bool = False
    real: bool = True
    seed: int = 1234
    runs: int = 1
    pytest: bool = False
    extract: Path | None = None


def read_request(path: Path, pytest: bool = False) -> ScriptRequest:
    """Return what a config_op.json asks for.

    Raises:
        MsprobeException: it cannot be read, or a value is wrong.
    """
    content = read_file(path, least="{}").raw
    try:
        config = ScriptConfig.model_validate({key: value for key, value in content.items() if value is not None})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise InterfaceError(f"{path}: {place}: {first['msg']}, got {first['input']!r:.60}") from error
    if not config.dump_json_path and not config.extract_api_path:
        raise InterfaceError(f"{path}: give dump_json_path and api_name, or extract_api_path with the records")
    if config.dump_json_path and not config.api_name:
        raise InterfaceError(f"{path}: api_name is missing: the name of a call in {config.dump_json_path}")
    extract = Path(config.extract_api_path) if config.extract_api_path and config.dump_json_path else None
    return ScriptRequest(
        Path(config.dump_json_path or config.extract_api_path),
        call_name(config.api_name),
        config.propagation == BACKWARD,
        config.data_mode == REAL,
        config.random_seed,
        config.iter_times,
        pytest,
        extract,
    )


def call_name(name: str) -> str:
    """Return the name of a call without its pass: ``Torch.mm.0`` for ``Torch.mm.0.forward``."""
    stem, _, last = name.rpartition(".")
    return stem if last in (FORWARD, BACKWARD) else name


def records_text(records: dict[str, object]) -> bytes:
    """Return the records of a call as the document of ``extract_api_path``."""
    return json.dumps(records, indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace")
