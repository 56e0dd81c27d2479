"""``GradComparator``: how alike the signs of the gradients of two runs are, step by step.

    GradComparator.compare_distributed("run_a", "run_b", "out")

    out/rank{r}/similarities.csv                      a row for each parameter, a column for each step
    out/rank{r}/similarities_picture/{name}_similarities.png

The similarity is the share of elements with the same sign. Its row ``summary`` weighs parameters by their elements. The
rule of thumb of the published tool: below 0.97 in step 0, or a drop of more than 0.03 from one step to the next, is
where two runs part; ``first_drop`` says where that is.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from msprobe.core.errors import NotComparableError, ReadError
from msprobe.core.log import logger
from msprobe.core.store.layout import file_name
from msprobe.core.store.safe_files import make_folder, regular, write_atomic
from msprobe.monitor.grad_probe.pictures import draw_similarity
from msprobe.monitor.grad_probe.signs import read_signs, similarity

LEAST_IN_STEP_0 = 0.97
LARGEST_DROP = 0.03
SUMMARY = "summary"
_STEP = re.compile(r"step(\d+)")
_RANK = re.compile(r"rank(\d+)")
_SUMMARY_FILE = "grad_summary_{}.csv"


@dataclass(slots=True)
class Similarities:
    """The similarities of one rank.

    Attributes:
        steps: the steps that both runs have, ascending.
        values: for each parameter the similarity in each step; None where it could not be compared.
        problems: a sentence for each file that is missing or cannot be read.
    """

    steps: list[int]
    values: dict[str, list[float | None]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def first_drop(self) -> tuple[int, float] | None:
        """Return the first step in which the summary is too low, and its similarity there."""
        before: float | None = None
        for step, value in zip(self.steps, self.values.get(SUMMARY, ()), strict=False):
            if value is None:
                continue
            if (before is None and value < LEAST_IN_STEP_0) or (before is not None and before - value > LARGEST_DROP):
                return step, value
            before = value
        return None


class GradComparator:
    """Compares what the gradient probe wrote in two runs."""

    @classmethod
    def compare_distributed(cls, path1: str, path2: str, output_dir: str) -> dict[int, Similarities]:
        """Compare each rank that both runs have, and return the similarities by rank.

        Raises:
            NotComparableError: the runs have no rank or no step in common.
            OSError: a result cannot be written.
        """
        sides = [_numbered(Path(path), _RANK) for path in (path1, path2)]
        ranks = sorted(sides[0].keys() & sides[1].keys())
        if not ranks:
            raise NotComparableError(f"{path1} and {path2} have no folder rank0, rank1, ... in common; give dump_path")
        result = {
            rank: cls.compare(str(sides[0][rank]), str(sides[1][rank]), str(Path(output_dir) / f"rank{rank}"))
            for rank in ranks
        }
        for rank, found in result.items():
            if (drop := found.first_drop) is not None:
                logger.warning("rank %d: the gradients part in step %d (similarity %.4f)", rank, *drop)
        return result

    @classmethod
    def compare(cls, path1: str, path2: str, output_dir: str) -> Similarities:
        """Compare two folders of one rank.

        Raises:
            NotComparableError: they have no step in common.
            OSError: a result cannot be written.
        """
        folders = Path(path1), Path(path2)
        sides = [_numbered(folder, _STEP) for folder in folders]
        steps = sorted(sides[0].keys() & sides[1].keys())
        if not steps:
            raise NotComparableError(f"{path1} and {path2} have no step in common (levels L1 and L2 write signs)")
        found = Similarities(steps)
        for column, step in enumerate(steps):
            sizes = _sizes(folders, step, found)
            _add_step(found, column, (sides[0][step], sides[1][step]), sizes)
        _write(found, Path(output_dir))
        return found


def _numbered(folder: Path, pattern: re.Pattern[str]) -> dict[int, Path]:
    try:
        entries = list(folder.iterdir())
    except OSError as error:
        raise ReadError(f"{folder}: {error.strerror or error}; give a folder of the gradient probe") from error
    return {int(match[1]): path for path in entries if path.is_dir() and (match := pattern.fullmatch(path.name))}


def _sizes(folders: tuple[Path, Path], step: int, found: Similarities) -> dict[str, int]:
    """Return how many elements each parameter has, as the first summary that can be read says."""
    for folder in folders:
        path = folder / _SUMMARY_FILE.format(step)
        try:
            rows = list(csv.DictReader(regular(path).read_text(encoding="utf-8").splitlines()))
            return {row["param_name"]: _elements(row["shape"]) for row in rows}
        except (OSError, KeyError, ValueError, TypeError, csv.Error) as error:
            found.problems.append(
                f"{path}: {type(error).__name__}; the sizes of the gradients are those of their files"
            )
    return {}


def _elements(shape: str) -> int:
    return math.prod(int(part) for part in re.findall(r"\d+", shape))


def _add_step(found: Similarities, column: int, folders: tuple[Path, Path], sizes: dict[str, int]) -> None:
    """Add the similarity of each parameter in one step, and of all of them."""
    by_file = {file_name(name, ".npy"): name for name in sizes}
    files = dict.fromkeys(path.name for folder in folders for path in sorted(folder.glob("*.npy")))
    weighted = total = 0.0
    for name, label in _ordered(files, by_file):
        row = found.values.setdefault(label, [None] * len(found.steps))
        try:
            first, second = (read_signs(folder / name) for folder in folders)
        except ReadError as error:
            found.problems.append(error.error_info)
            continue
        elements = sizes.get(label, 8 * first.positive.size)
        row[column] = value = similarity(first, second, elements)
        if value is None:
            found.problems.append(f"{label}: the gradients of step {found.steps[column]} have different sizes")
        else:
            weighted, total = weighted + elements * value, total + elements
    summary = found.values.setdefault(SUMMARY, [None] * len(found.steps))
    summary[column] = weighted / total if total else None


def _ordered(files: dict[str, None], by_file: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the files with the names of their parameters, those of the summary first and in its order."""
    for name in [*(one for one in by_file if one in files), *(one for one in files if one not in by_file)]:
        yield name, by_file.get(name, name.removesuffix(".npy"))


def _write(found: Similarities, output: Path) -> None:
    make_folder(output)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["step", *found.steps])
    names = [SUMMARY, *(name for name in found.values if name != SUMMARY)]
    writer.writerows([[name, *_cells(found.values[name])] for name in names])
    write_atomic(output / "similarities.csv", [text.getvalue().encode()])
    for problem in found.problems:
        logger.warning("grad_probe: %s", problem)
    pictures = output / "similarities_picture"
    make_folder(pictures)
    for name in names:
        if not draw_similarity(
            pictures / file_name(f"{name}_similarities", ".png"), name, found.steps, found.values[name]
        ):
            break


def _cells(values: Sequence[float | None]) -> list[float | str]:
    return ["" if value is None else value for value in values]
