"""Compares two set-ups: every section, the most serious difference, and the result in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from msprobe.setup_check.differences.hyperparameters import compare_hyperparameters, meaning
from msprobe.setup_check.differences.random_calls import compare_random
from msprobe.setup_check.differences.section import Row, Section
from msprobe.setup_check.differences.settings import compare_environment, compare_facts, compare_packages
from msprobe.setup_check.differences.tensors import compare_tensors
from msprobe.setup_check.document import SetupDocument
from msprobe.setup_check.levels import Level, worst

_MOST_LINES = 4
_PAIRED = {"mapping": " (synonyms)", "similarity": " (names alike)"}
_CAUSES_FIRST = ("env", "pip", "machine", "framework", "hyperparameters", "random", "dataset", "weights")


@dataclass(frozen=True, slots=True)
class SetupComparison:
    """The comparison of two set-ups, section by section."""

    sections: tuple[Section, ...]

    @property
    def level(self) -> Level:
        """Return the most serious level of all sections."""
        return worst(section.level for section in self.sections)

    def lines(self, most: int = _MOST_LINES) -> Iterator[str]:
        """Yield the result in words: the level of each section, then ``most`` differences of each, causes first."""
        yield "Set-up: " + ", ".join(f"{section.name} {section.level}" for section in self.sections)
        yield from (f"{section.name}: {section.note}" for section in self.sections if section.note)
        for section in sorted(self.sections, key=lambda one: _CAUSES_FIRST.index(one.name)):
            differences = _told_once(section)
            for row in differences[:most]:
                yield f"{row['level']}: {section.name}: {difference_text(section, row)}"
            if len(differences) > most:
                yield f"... and {len(differences) - most} more differences of {section.name}"

    def document(self) -> dict[str, Any]:
        """Return the result as JSON: level, and of each section its differences."""
        return {
            "level": self.level,
            "sections": [
                {
                    "name": section.name,
                    "level": section.level,
                    "note": section.note,
                    "rows": len(section.rows),
                    "differences": section.differences,
                }
                for section in self.sections
            ],
        }


def _told_once(section: Section) -> list[Row]:
    """Return the differences; a hyperparameter that script, command line and program all tell is one."""
    if section.name != "hyperparameters":
        return section.differences
    told: dict[tuple[float | str, ...], Row] = {}
    for row in section.differences:
        names = [str(row[side]).rpartition(".")[2].replace("-", "_") for side in ("bench_para", "cmp_para")]
        told.setdefault((*names, meaning(row["bench_value"]), meaning(row["cmp_value"])), row)
    return list(told.values())


def compare_documents(first: SetupDocument, second: SetupDocument) -> SetupComparison:
    """Compare two set-ups; a section that neither has is left out."""
    sections = [compare_environment(first, second), compare_packages(first, second)]
    if first.machine or second.machine:
        sections.append(compare_facts("machine", first.machine, second.machine))
    if first.framework or second.framework:
        sections.append(compare_facts("framework", first.framework, second.framework))
    if first.data or second.data:
        sections.append(compare_tensors("dataset", first.data, second.data))
    if first.weights or second.weights:
        sections.append(compare_tensors("weights", first.weights, second.weights))
    if first.hyperparameters or second.hyperparameters:
        sections.append(compare_hyperparameters(first, second))
    if first.random or second.random:
        sections.append(compare_random(first.random, second.random))
    return SetupComparison(tuple(sections))


def difference_text(section: Section, row: Row) -> str:
    """Return one difference in words, with the reason why it can matter."""
    because = f" ({row['reason']})" if row.get("reason") else ""
    if section.name in {"dataset", "weights"}:
        name = row[section.columns[2]]
        only = f", {row['equal']}" if isinstance(row["equal"], str) else ""
        return f"step {row['step']} rank {row['rank']} {name}{only}{because}"
    if section.name == "random":
        place = next((row[side] for side in ("bench_stack", "cmp_stack") if row[side] != "no match stack"), "")
        line = " ".join(place.splitlines()[0].split()) if place else ""
        return f"{row['op']} {row['bench_count']} against {row['cmp_count']} times, {line}{because}"
    values = [value for column, value in row.items() if column.endswith(("_value", " version"))]
    if section.name not in {"hyperparameters", "env"}:
        return f"{row[section.columns[0]]}: {_against(values)}{because}"
    names = [row[f"{side}_{'para' if section.name == 'hyperparameters' else 'env_name'}"] for side in ("bench", "cmp")]
    for at, name in enumerate(names):
        if str(name).lower().startswith("only "):
            return f"{names[1 - at]}: {values[1 - at]}, only in the {('second', 'first')[at]}{because}"
    how = _PAIRED.get(str(row.get("matched_with")).partition(":")[0], "")
    shown = names[0] if names[0] == names[1] else " / ".join(names) + how
    return f"{shown}: {_against(values)}{because}"


def _against(values: list[Any]) -> str:
    return " against ".join("nothing" if value in (None, "None") else str(value) for value in values)
