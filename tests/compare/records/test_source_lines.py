"""The line that is shown of a call stack, and the code around it."""

import os
from pathlib import Path

import pytest

from msprobe.compare.records.source_lines import (
    excerpt,
    frame_of,
    from_source,
    source_frame,
    source_line,
)
from msprobe.core.naming.frames import FRAMEWORK, LIBRARY
from msprobe.visualize.viewer.offline_page import asset

SITE = "/env/lib/python3.11/site-packages"
MODULE = f"File {SITE}/torch/nn/modules/module.py, line 1, in _call_impl, \n return f()"
OWN = "File /home/me/train.py, line 7, in step, \n loss = compiled(x)"
LLAMA = f"File {SITE}/transformers/models/llama/modeling_llama.py, line 90, in forward, \n q = rotate(q)"


def test_the_source_is_a_line_that_can_be_opened() -> None:
    compiled = "File <eval_with_key>.3, line 60, in forward, \n enter = torch.ops.msprobe.enter.default(x)"
    assert source_line([MODULE, compiled, MODULE, OWN]) == "/home/me/train.py:7 in step: loss = compiled(x)"


def test_code_of_a_library_is_the_source_where_it_makes_the_call() -> None:
    assert (
        source_line([LLAMA, MODULE, OWN])
        == f"{SITE}/transformers/models/llama/modeling_llama.py:90 in forward: q = rotate(q)"
    )
    assert source_line([MODULE, LLAMA, MODULE, OWN]) == source_line([LLAMA])


def test_a_frame_that_only_hands_the_call_on_is_not_the_source() -> None:
    layer = f"File {SITE}/transformers/modeling_layers.py, line 9, in __call__, \n return super().__call__(*args)"
    assert source_line([MODULE, layer, LLAMA]) == source_line([LLAMA])


@pytest.mark.parametrize(
    ("path", "is_framework"),
    [
        (f"{SITE}/torch/functional.py", True),
        (f"{SITE}/torch/optim/adam.py", True),
        (f"{SITE}/mindspore/nn/cell.py", True),
        ("/src/pytorch/torch/nn/functional.py", True),
        ("/usr/lib/python3.11/contextlib.py", True),
        (f"{SITE}/torchvision/models/resnet.py", False),
        ("/usr/lib/python3/dist-packages/timm/layers.py", False),
        ("/home/me/torch_models/nn/net.py", False),
    ],
)
def test_what_belongs_to_the_framework(path: str, is_framework: bool) -> None:
    frame = f"File {path}, line 3, in f, \n x()"
    assert source_line([frame, OWN]) == (source_line([OWN]) if is_framework else source_line([frame]))


def test_of_framework_frames_alone_the_innermost_is_the_source() -> None:
    assert source_line([MODULE]).startswith(f"{SITE}/torch/nn/modules/module.py:1")
    assert source_frame([]) is None and source_line([]) == ""


def test_a_stack_begins_with_its_source() -> None:
    assert from_source([MODULE, LLAMA, MODULE, OWN]) == [LLAMA, MODULE, OWN]
    assert (from_source([MODULE]), from_source([])) == ([MODULE], [])


def test_a_text_that_is_no_frame_stays() -> None:
    assert source_line(["The call stack is not available."]) == "The call stack is not available."
    assert frame_of("").line == 0 and excerpt(["File"]) == []


def test_the_code_around_the_line(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text("def f(x):\n    a = x + 1\n    b = a * 2\n    return b\n")
    found = excerpt([f"File {path}, line 3, in f, \n b = a * 2"])
    assert found == ["  1 | def f(x):", "  2 |     a = x + 1", "> 3 |     b = a * 2", "  4 |     return b"]


def test_a_file_that_has_changed_or_is_no_file_shows_nothing(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text("a = 1\n")
    assert excerpt([f"File {path}, line 1, in f, \n a = 2"]) == []
    assert excerpt([f"File {path}, line 9, in f, \n a = 1"]) == []
    assert excerpt([f"File {tmp_path}, line 1, in f, \n a = 1"]) == []
    os.mkfifo(tmp_path / "pipe")
    assert excerpt([f"File {tmp_path / 'pipe'}, line 1, in f, \n a = 1"]) == []


def test_codes_for_the_terminal_are_not_shown(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text("a = 1\nprint('\x1b[2J')\n")
    assert excerpt([f"File {path}, line 1, in f, \n a = 1"])[1] == "  2 | print('[2J')"


def test_the_viewer_has_the_same_rule() -> None:
    script = asset("app/stacks.js").decode()
    assert (
        f"/{FRAMEWORK.replace('/', chr(92) + '/')}/" in script and f"/{LIBRARY.replace('/', chr(92) + '/')}/" in script
    )
