"""Where the page of the viewer comes from: the local server, which answers its questions, or one file with all answers.

What a reader does in the page needs the data once, whoever gave it: CI shows it from the file, which costs half as much
as the server, and the matrix ``pages`` from both. What asks for more data, or depends on the address, is shown from
both in CI too.
"""

from __future__ import annotations

import pytest

from tests.matrices import matrix_params

SOURCES = ("served", "offline")
from_the_file = pytest.mark.parametrize("view", matrix_params("pages", SOURCES, {"offline"}), indirect=True)
from_both = pytest.mark.parametrize("view", SOURCES, indirect=True)
