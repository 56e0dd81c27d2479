"""Judge the pairs: ``python -m tests.upgrades.evaluate CACHE``, with the options of ``tests.real_models.evaluate``.

Packages are installed unless the folder that VERSIONS_CACHE names has them.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

from tests.real_models.cases import Case
from tests.real_models.evaluate import main, record_missing
from tests.real_models.record import FAILED, PACKAGES
from tests.real_models.runs import written
from tests.upgrades.catalogue import CASES, packages_of, runs_of
from tests.versions.environments import CannotInstallError, packages

GAPS = Path(__file__).resolve().parent / "known_gaps.json"
NO_PACKAGE = "cannot install "
"""Begins what is said of a run that was not recorded for want of a package."""


def record_pairs(cases: Sequence[Case], cache: Path, jobs: int = 2) -> None:
    """Record what ``cases`` need and ``cache`` has not, with their packages."""
    runs = runs_of(cases)
    needed = sorted({package for run in runs for package in packages_of(run)})
    with tempfile.TemporaryDirectory(prefix="msprobe-packages-") as folder, packages(needed, Path(folder)) as found:
        missing = {package: error for package, error in found.items() if isinstance(error, CannotInstallError)}
        for run in runs:
            for package in missing.keys() & set(packages_of(run)):
                failed = written(run, cache) / FAILED
                failed.write_text(f"{NO_PACKAGE}{package}: {missing[package]}", encoding="utf-8")
        places = {package: str(place) for package, place in found.items() if package not in missing}
        with patch.dict(os.environ, {PACKAGES: json.dumps(places)}):
            record_missing(cases, cache, jobs)


if __name__ == "__main__":
    sys.exit(main(CASES, GAPS, record_pairs))
