"""What a collection left on the disk, read with nothing but json and torch.load."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Recorded:
    """The documents of one process folder. ``stack`` and ``construct`` are None without their file."""

    folder: Path
    dump: dict[str, Any]
    stack: dict[str, Any] | None
    construct: dict[str, str | None] | None

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = self.dump["data"]
        return found

    def names(self, part: str = "") -> list[str]:
        """Entry names that contain ``part``, in order."""
        return [name for name in self.data if part in name]

    def files(self) -> list[str]:
        return sorted(path.name for path in (self.folder / "dump_tensor_data").glob("*"))

    def tensor(self, name: str) -> Any:
        import torch

        return torch.load(self.folder / "dump_tensor_data" / name, weights_only=True)

    def frames(self, entry: str) -> list[str]:
        """The call stack of an entry."""
        groups = (self.stack or {}).values()
        found = [frames for names, frames in groups if entry in names]
        assert len(found) == 1, f"{entry} has {len(found)} stacks"
        result: list[str] = found[0]
        return result


def read(step_folder: Path) -> Recorded:
    """The only process folder of a step."""
    (folder,) = [path for path in step_folder.iterdir() if path.is_dir()]
    return Recorded(folder, _load(folder, "dump"), _load(folder, "stack"), _load(folder, "construct"))


def _load(folder: Path, name: str) -> Any:
    path = folder / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
