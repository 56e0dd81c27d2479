"""The anomaly processor: which alerts of all ranks came first.

    python -m msprobe.core.monitor.anomaly_processor -d anomaly_detected [-o OUT] [-k 8] [-s "[1, 2]"]

Alerts are ordered by step, micro step, and whether they are of the parameters that the step begins with, the forward
pass, the backward pass or the optimizer, whose results come last; within the forward pass by pipeline stage, within the
others from the last stage to the first; then by call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from msprobe.core.errors import ReadError, json_text
from msprobe.core.repeated_keys import parsed
from msprobe.core.store.journal import dumps
from msprobe.core.store.safe_files import make_folder, regular, write_atomic
from msprobe.monitor.alerts.anomaly_files import FILE

RESULT: Final = "anomaly_analyse.json"
_BEGINS: Final = ("param_origin",)
"""What a step begins with; a value that is odd there makes all others odd."""
_FORWARD: Final = ("actv",)
_BACKWARD: Final = ("actv_grad", "acc_grad")
_ENDS: Final = ("param_updated",)
"""What the optimizer makes of gradients and moments."""
_NUMBERS: Final = ("rank", "step", "micro_step", "pp_stage", "vpp_stage", "call_id")


def analyse(folder: Path, output: Path | None = None, most: int = 8, steps: Sequence[int] = ()) -> dict[str, Any]:
    """Write the first ``most`` alerts of all ranks below ``folder`` into ``anomaly_analyse.json``, and return them.

    Raises:
        ReadError: there is no ``rank*/anomaly.json``, or one cannot be understood.
        OSError: the result cannot be written.
    """
    found = [item for path in _files(folder) for item in _read(path)]
    chosen = [item for item in found if not steps or item[1]["step"] in steps]
    chosen.sort(key=lambda item: _order(item[1]))
    result = dict(chosen[:most])
    target = output or folder
    make_folder(target)
    write_atomic(target / RESULT, [dumps(result, indent=1)])
    return result


def _files(folder: Path) -> list[Path]:
    files = sorted(folder.glob(f"rank*/{FILE}"))
    if not files:
        raise ReadError(f"{folder}: there is no rank*/{FILE}; give the folder anomaly_detected of a monitor")
    return files


def _read(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        document = parsed(regular(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ReadError(f"{path}: is no JSON document ({error})") from error
    for key, value in document.items() if isinstance(document, dict) else ():
        if (
            not isinstance(value, dict)
            or not all(isinstance(value.get(name), int) for name in _NUMBERS)
            or "message" not in value
        ):
            raise ReadError(f"{path}: {json_text(key)} is no alert of the monitor; remove it")
        yield key, value


def _order(alert: dict[str, Any]) -> tuple[int, ...]:
    kind = str(alert.get("tag_name", "")).rpartition("/")[2]
    phase = 0 if kind in _BEGINS else 1 if kind in _FORWARD else 2 if kind in _BACKWARD else 3
    sign = 1 if phase <= 1 else -1
    stages = sign * alert["vpp_stage"], sign * alert["pp_stage"]
    made_last = kind in _ENDS
    return alert["step"], alert["micro_step"], phase, made_last, *stages, alert["call_id"]
