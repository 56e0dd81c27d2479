"""Find the repository and the files that the rules read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("msprobe", "tests", "docs", "scripts", "schemas", "examples", "benchmarks", ".ci")
TEXT_SUFFIXES = {"", ".py", ".md", ".toml", ".json", ".yaml", ".yml", ".txt", ".c", ".h", ".cfg"}


def sources(folder: str = "msprobe") -> list[Path]:
    """Return the Python files below a folder of the repository, sorted."""
    return sorted(path for path in (ROOT / folder).rglob("*.py") if "__pycache__" not in path.parts)


def texts() -> Iterator[Path]:
    """Yield every hand-written or generated text file of the repository."""
    for path in sorted(ROOT.iterdir()):
        if path.is_file() and path.suffix in TEXT_SUFFIXES and path.name != ".git":
            yield path
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix in TEXT_SUFFIXES and "__pycache__" not in path.parts:
                yield path


def module_name(path: Path) -> str:
    """Return the module of a file: msprobe.core.naming for msprobe/core/naming/__init__.py."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def label(path: Path) -> str:
    """Return the path below the root, as a short test id."""
    return path.relative_to(ROOT).as_posix()
