"""A dump as a flat table of facts: path -> value, one row for everything that another reader could ask for.

dump/Torch.add.0.forward/input_args/0/Max          a field of a value
dump/Torch.add.0.forward#sections                  the keys of an entry, in order
dump#forward_order                                 the forward entries, in order
construct/Torch.add.0.forward                      the parent
stack/Torch.add.0.forward                          the frames that lie in the script
files/Torch.add.0.forward.input.0.pt               a tensor file
dump/loss.0.debug/Max                              a field of a single value (level debug)
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

Facts = dict[str, Any]
HEADER = ("task", "level", "framework")
FURTHER = ("training", "autograd", "group_id", "attributes")
"""Keys of entries that msprobe adds to the format; the recorded cases cannot have them."""
SCRIPT_FRAME = re.compile(r"^File .*[/>]run\.py, (.*)$", re.DOTALL)


def facts(process_folder: Path, files: list[str]) -> Facts:
    """Return the facts of one process folder; ``files`` are the names of its tensor files."""
    found: Facts = {f"files/{name}": True for name in files}
    if (process_folder / "debug.json").exists():
        return {**found, **_points(_load(process_folder / "debug.json"))}
    return {**found, **_calls(process_folder)}


def _points(debug: dict[str, Any]) -> Facts:
    """Return the facts of debug.json: single values."""
    found: Facts = {f"dump#{key}": debug[key] for key in HEADER}
    for entry, node in debug["data"].items():
        found.update(_leaves(f"dump/{entry}", node))
    return found


def _calls(process_folder: Path) -> Facts:
    dump = _load(process_folder / "dump.json")
    found: Facts = {f"dump#{key}": dump[key] for key in HEADER}
    found["dump#forward_order"] = [name for name in dump["data"] if ".forward" in name]
    for entry, body in dump["data"].items():
        found[f"dump/{entry}#sections"] = [section for section in body if section not in FURTHER]
        for section, node in ((name, node) for name, node in body.items() if name not in FURTHER):
            found.update(_leaves(f"dump/{entry}/{section}", node))
    for child, parent in _load(process_folder / "construct.json").items():
        found[f"construct/{child}"] = parent
    for entries, frames in _load(process_folder / "stack.json").values():
        found.update({f"stack/{entry}": _script_frames(frames) for entry in entries})
    return found


def _load(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _script_frames(frames: list[str]) -> list[str]:
    """Frames of the framework depend on its version, those of the script do not. The outermost is the starter's."""
    return [match.group(1) for match in map(SCRIPT_FRAME.match, frames) if match]


def _leaves(path: str, node: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, Mapping) and node:
        for key, value in node.items():
            yield from _leaves(f"{path}/{key}", value)
    elif isinstance(node, list) and node and not path.endswith(("/shape", "/value")):
        for number, value in enumerate(node):
            yield from _leaves(f"{path}/{number}", value)
    else:
        yield path, node
