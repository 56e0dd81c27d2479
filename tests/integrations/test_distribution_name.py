"""Programs that look for the tool by its older name find it: the alias under ``packaging``."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from msprobe.core.distribution import NAME

pytest.importorskip("setuptools", minversion="77", reason="the alias is built without network here")
pytest.importorskip("pip")

ALIAS = Path(__file__).parents[2] / "packaging" / "mindstudio-probe"


def pip(*arguments: str, path: Path | None = None) -> str:
    environment = {**os.environ, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    command = [sys.executable, "-m", "pip", *arguments]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.slow
def test_pip_shows_the_older_name(tmp_path: Path) -> None:
    source = shutil.copytree(ALIAS, tmp_path / "source")  # building leaves files beside the project
    site = tmp_path / "site"
    pip("install", "--quiet", "--no-deps", "--no-build-isolation", "--target", str(site), str(source))
    shown = dict(line.partition(": ")[::2] for line in pip("show", "mindstudio_probe", path=site).splitlines())
    assert shown["Name"] == "mindstudio-probe"
    assert shown["Requires"] == NAME
    assert [path.name for path in site.iterdir() if not path.name.endswith(".dist-info")] == []
