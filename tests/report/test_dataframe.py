"""Rows as a pandas table."""

import math
import subprocess
import sys
from pathlib import Path

import pytest

from msprobe.jobs.compare import compare
from tests.compare.dumps import call, number, tensor, write

NAME = "Functional.relu.0.forward"


def test_numbers_have_a_numeric_type(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    for step in (0, 1):
        write(tmp_path / f"t/step{step}/rank0", {NAME: call([tensor()], [tensor(0.6)], dim=number("x"))})
        write(tmp_path / f"g/step{step}/rank0", {NAME: call([tensor()], [tensor(0.5)])})
    table = compare(tmp_path / "t", tmp_path / "g").to_dataframe()
    assert list(table.columns[:4]) == ["step", "rank", "NPU Name", "Bench Name"]
    assert list(table["step"]) == [0, 0, 0, 1, 1, 1] and set(table["rank"]) == {"rank0"}
    assert table["Max diff"].dtype == float
    outputs = table[table["NPU Name"].str.endswith("output.0")]
    assert outputs["MaxRelativeErr"].tolist() == pytest.approx([0.2, 0.2])
    lone = table[table["Bench Name"] == "N/A"]
    assert len(lone) == 2 and all(math.isnan(value) for value in lone["Max diff"])


def test_without_pandas_one_line_says_so(tmp_path: Path) -> None:
    dump = write(tmp_path / "t", {NAME: call([tensor()], [tensor()])})
    code = (
        "import sys; sys.modules['pandas'] = None\n"
        "import msprobe\n"
        "from msprobe.core.errors import MsprobeException\n"
        f"result = msprobe.compare({str(dump)!r}, {str(dump)!r})\n"
        "try:\n    result.to_dataframe()\n"
        "except MsprobeException as error:\n    assert 'pip install pandas' in str(error)\n"
        "else:\n    raise SystemExit('no error')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
