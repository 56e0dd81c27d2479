"""The jobs of ``msprobe config_check``: collect the set-up of files, compare two set-ups."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msprobe import __version__
from msprobe.core.errors import ReadError
from msprobe.core.store.safe_files import make_folder_below, write_atomic
from msprobe.report.sheets import Sheet, write_sheets
from msprobe.setup_check.collection.environment import collect_environment
from msprobe.setup_check.collection.hyperparameters import exported_variables, read_settings
from msprobe.setup_check.collection.machine import installed_packages, machine_facts
from msprobe.setup_check.comparison import SetupComparison, compare_documents
from msprobe.setup_check.document import SetupDocument
from msprobe.setup_check.pack import read_pack, write_pack
from msprobe.setup_check.page import write_page


def collect_static(files: Sequence[str | Path]) -> SetupDocument:
    """Return the set-up of this machine and environment, with the hyperparameters of scripts and settings files.

    Variables that a script exports are those of the training, whatever this process has.

    Raises:
        ReadError: a file cannot be read, or two have the same name.
    """
    hyperparameters: dict[str, dict[str, Any]] = {}
    variables = dict(os.environ)
    for file in map(Path, files):
        if file.name in hyperparameters:
            raise ReadError(f"{file}: two files have this name; give one of them, or rename one")
        hyperparameters[file.name] = read_settings(file)
        variables.update(exported_variables(file))
    return SetupDocument(
        tool=f"msprobe {__version__}",
        environment=collect_environment(variables),
        packages=installed_packages(),
        machine=machine_facts(),
        hyperparameters=hyperparameters,
    )


def collect_setup(files: Sequence[str], output: Path) -> SetupDocument:
    """Collect what ``collect_static`` does into the zip file ``output``.

    Raises:
        ReadError: as there.
        OSError: the zip file cannot be written.
    """
    document = collect_static(files)
    write_pack(output, document)
    return document


def compare_setups(first: Path, second: Path, output: Path, html: str | None = None) -> SetupComparison:
    """Compare two zip files; write ``result.xlsx`` and both documents below ``output``.

    Raises:
        ReadError: a file holds no set-up.
        OSError: a result cannot be written.
    """
    documents = [read_pack(path) for path in (first, second)]
    comparison = compare_documents(documents[0], documents[1])
    for name, document in zip(("bench", "cmp"), documents, strict=True):
        make_folder_below(output, output / name)
        write_atomic(output / name / "setup.json", [document.model_dump_json(indent=1).encode()])
    write_sheets(_sheets(comparison), output / "result.xlsx")
    if html:
        write_page(comparison, (str(first), str(second)), Path(html))
    return comparison


def _sheets(comparison: SetupComparison) -> Iterator[Sheet]:
    """Yield the sheets of ``result.xlsx``: the level of each section, then one for each of them."""
    summary = [(section.name, section.level) for section in comparison.sections]
    yield Sheet("summary", ("filename", "pass_check"), summary, [level for _, level in summary])
    for section in comparison.sections:
        rows = [[row[column] for column in section.columns] for row in section.rows]
        yield Sheet(section.name, section.columns, rows, [row["level"] for row in section.rows], section.note)


def json_text(comparison: SetupComparison) -> str:
    """Return the result as JSON text."""
    return json.dumps(comparison.document(), indent=1, ensure_ascii=False, default=str)
