"""File names: never outside their folder, never too long, never the same for two places."""

from __future__ import annotations

from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from msprobe.core.store.layout import file_name, process_folder, step_folder

PLACES = st.text(min_size=1, max_size=400) | st.text("./\\\x00\n", min_size=1, max_size=12)


@given(PLACES)
@example("../../etc/passwd")
@example("..")
@example(".")
@example("/")
@example("é" * 300)
@example("\ud800.forward")
def test_a_name_stays_in_its_folder_and_fits(place: str) -> None:
    name = file_name(place, ".pt")
    assert len(name.encode("utf-8", "surrogateescape" if name.isascii() else "backslashreplace")) <= 255
    assert name not in (".", "..")
    assert "/" not in name
    assert "\0" not in name
    assert name.endswith(".pt")
    assert (Path("folder") / name).parent == Path("folder")


@given(PLACES, PLACES)
@example("a/b", "a_b")
@example("x" * 300, "x" * 301)
def test_distinct_places_have_distinct_names(first: str, second: str) -> None:
    assert (file_name(first, ".pt") == file_name(second, ".pt")) == (first == second)


def test_usual_names_are_kept() -> None:
    assert file_name("Torch.max.0.forward.output.1", ".pt") == "Torch.max.0.forward.output.1.pt"


def test_a_lone_surrogate_makes_a_file_that_can_be_created(tmp_path: Path) -> None:
    path = tmp_path / file_name("Module.\ud800x.forward.0.input.0", ".pt")
    path.write_bytes(b"")
    assert path.exists()


def test_folders() -> None:
    assert process_folder(step_folder(Path("d"), 3), 1, 42) == Path("d/step3/rank1")
    assert process_folder(step_folder(Path("d"), 0), None, 42) == Path("d/step0/proc42")
