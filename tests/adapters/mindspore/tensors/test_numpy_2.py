"""With NumPy 2, which MindSpore 2.10 allows and was not built for: what we record is what we record with NumPy 1.

NumPy 2 lies in a folder of its own in front of the project's environment, so the MindSpore is the same.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe.core.store.reader import Dump, find_dumps, load_dump
from tests.separate_packages import CannotInstallError, installed

pytestmark = pytest.mark.slow
HERE = Path(__file__).parents[1]
ROOT = HERE.parents[2]
PROGRAM = HERE / "programs" / "every_dtype.py"
TRAP = "import numpy, mindspore as ms; ms.mint.mul(ms.Tensor(numpy.ones(1, numpy.float32)), 2.0)"
VERSIONS = "import numpy; from importlib.metadata import version; print(numpy.__version__, version('mindspore'))"


@pytest.fixture(scope="module")
def numpy_2() -> Path:
    try:
        return installed("numpy-2", "numpy>=2")
    except CannotInstallError as error:
        pytest.skip(f"no package index: {error}")


def run(*arguments: str, numpy: Path | None) -> subprocess.CompletedProcess[str]:
    """Run the project's python, with another numpy in front of its own."""
    places = [str(place) for place in (numpy, ROOT) if place is not None]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    return subprocess.run(
        [sys.executable, *arguments],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.fixture(scope="module")
def dumps(numpy_2: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Dump, str]]:
    """The dump of the same program and all it printed, by numpy."""
    found = {}
    for name, numpy in (("1", None), ("2", numpy_2)):
        folder = tmp_path_factory.mktemp(f"numpy{name}")
        done = run(str(PROGRAM), str(folder), numpy=numpy)
        assert done.returncode == 0, done.stderr[-2000:]
        found[name] = load_dump(find_dumps(folder)[0]), done.stdout + done.stderr
    return found


def folder_of(dump: Dump) -> Path:
    return Path(str(dump.place.document)).parent


def values_of(node: Any, folder: Path) -> Any:
    """The node with the saved tensors themselves beside the names of their files."""
    if isinstance(node, dict):
        shown = {key: values_of(part, folder) for key, part in node.items()}
        if "data_name" in node:
            saved = np.load(folder / "dump_tensor_data" / node["data_name"])
            shown["data_name"] = (node["data_name"], saved.dtype.str, saved.tobytes())
        return shown
    return [values_of(part, folder) for part in node] if isinstance(node, list) else node


def test_the_environment_is_what_this_file_says(numpy_2: Path) -> None:
    numpy, mindspore = run("-c", VERSIONS, numpy=numpy_2).stdout.split()
    assert numpy.startswith("2.")
    assert run("-c", VERSIONS, numpy=None).stdout.split() == [np.__version__, mindspore]
    assert np.__version__.startswith("1.")


@pytest.mark.matrix("wide")
def test_mindspore_alone_fails_at_its_first_number(numpy_2: Path) -> None:
    done = run("-c", TRAP, numpy=numpy_2)
    assert done.returncode != 0
    assert "SystemError" in done.stderr


def test_with_the_tool_the_first_number_works_and_one_line_says_why(dumps: dict[str, tuple[Dump, str]]) -> None:
    _, printed = dumps["2"]
    assert "scalar 0.0" in printed
    assert printed.count("MindSpore was built for NumPy 1 and its first operator fails under NumPy 2.") == 1
    assert "MindSpore was built for NumPy 1" not in dumps["1"][1]


def test_every_record_is_that_of_numpy_1(dumps: dict[str, tuple[Dump, str]]) -> None:
    (one, _), (two, _) = dumps["1"], dumps["2"]
    assert list(one.data) == list(two.data)
    for name, entry in one.data.items():
        assert values_of(two.data[name], folder_of(two)) == values_of(entry, folder_of(one)), name
    assert one.construct == two.construct


def test_bfloat16_is_measured_and_saved_with_both(dumps: dict[str, tuple[Dump, str]]) -> None:
    for dump, _ in dumps.values():
        dense, turned, (number,), _ = dump.data["Mine.echo.1.forward"]["input_args"]
        assert (dense["dtype"], dense["Max"], dense["Min"]) == ("BFloat16", 2.0, -2.0)
        assert (turned["shape"], turned["Max"], turned["Norm"]) == ([4, 3], dense["Max"], dense["Norm"])
        assert (number["Max"], "data_name" in number) == (2.0, True)


@pytest.mark.matrix("wide")
@pytest.mark.parametrize(
    "tests",
    [["tests/adapters/mindspore/tensors/test_values.py"], ["tests/contracts", "-k", "mindspore"]],
    ids=["values", "contracts"],
)
def test_the_tests_of_the_adapter_hold_under_numpy_2(numpy_2: Path, tests: list[str]) -> None:
    done = run("-m", "pytest", "-q", "-p", "no:cacheprovider", *tests, numpy=numpy_2)
    assert done.returncode == 0, done.stdout[-3000:]
