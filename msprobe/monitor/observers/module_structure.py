"""``module_struct.json``: for each module how many inputs and outputs it has, with shapes, to choose targets from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from msprobe.core.log import logger
from msprobe.core.store.journal import dumps
from msprobe.core.store.safe_files import make_folder, write_atomic
from msprobe.monitor.watch import TensorMeter

FOLDER: Final = "module_struct"
FILE: Final = "module_struct.json"
_SHOWN: Final = frozenset({"shape", "dtype"})
_NOTHING: Final = "<class 'NoneType'>"


class ModuleStructure:
    """Implements ``CallObserver``.

    Args:
        folder: the output folder of the monitor.
        rank: the rank of this process.
        meter: tells shape and dtype of a tensor.
    """

    def __init__(self, folder: Path, rank: int, meter: TensorMeter) -> None:
        self._path = folder / FOLDER / f"rank{rank}" / FILE
        self._meter = meter
        self._found: dict[str, dict[str, dict[str, str]]] = {}

    def forward(self, stage: int, module: str, kind: str, values: Sequence[Any]) -> None:
        self._note(stage, module, kind, values)

    def backward(self, stage: int, module: str, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self._note(stage, module, "input_grad", inputs)
        self._note(stage, module, "output_grad", outputs)

    def finish(self) -> None:
        make_folder(self._path.parent)
        write_atomic(self._path, [dumps(self._found, indent=1)])
        logger.info("monitor: the structure of the model is in %s", self._path)

    def _note(self, stage: int, module: str, kind: str, values: Sequence[Any]) -> None:
        texts = [self._text(value) for value in values]
        if kind == "output" and len(texts) == 1:
            shown = {"config": "tensor", "tensor": texts[0]}
        else:
            sort = "list" if kind == "input" else "tuple"
            shown = {"config": f"{sort}[{len(texts)}]", **{str(at): text for at, text in enumerate(texts)}}
        self._found.setdefault(f"{stage}:{module}", {}).setdefault(kind, shown)

    def _text(self, value: Any) -> str:
        if value is None:
            return _NOTHING
        node = self._meter.measure(value, _SHOWN)
        return f"size={tuple(node.get('shape', ()))}, dtype={node.get('dtype')}"
