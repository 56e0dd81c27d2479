"""Documents stay true: links resolve, the README has its two commands, schemas are those of the code."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.rules.tree import ROOT, label, sources

MARKDOWN = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
COMMANDS = ["./scripts/demo", "./scripts/test"]


def prose(path: Path) -> str:
    return FENCE.sub("", path.read_text(encoding="utf-8"))


def anchors(path: Path) -> set[str]:
    """Return the anchors that a forge makes of the headings: lower case, punctuation dropped, blanks to hyphens."""
    headings = re.findall(r"^#+\s+(.+)$", prose(path), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def broken(path: Path, link: str) -> bool:
    if re.match(r"[a-z]+:", link):
        return False
    name, _, anchor = link.partition("#")
    target = (path.parent / name).resolve() if name else path
    if not target.exists():
        return True
    return bool(anchor) and target.suffix == ".md" and anchor not in anchors(target)


def test_links_resolve() -> None:
    links = [(path, link) for path in MARKDOWN for link in LINK.findall(prose(path))]
    assert [f"{label(path)}: {link}" for path, link in links if broken(path, link)] == []


def test_no_page_is_empty() -> None:
    """A page that a command writes is not lost where the command fails."""
    pages = [path for path in (ROOT / "docs").rglob("*") if path.suffix in {".md", ".yaml"}]
    assert [label(path) for path in pages if len(path.read_text(encoding="utf-8").split()) < 5] == []


def missing_mentions(text: str) -> list[str]:
    """Return the backticked paths, dotted modules and ``FILE:NAME`` of a page that do not exist.

    Paths are relative to the repository or to ``msprobe``; ``*`` stands for any name.
    """
    mentions = re.findall(r"`([\w*.-]+(?:/[\w*.-]+)*\.py(?::[\w.]+)?|[\w*-]+(?:/[\w*.-]+)+)`", text)
    missing = [mention for mention in mentions if not _exists(mention)]
    dotted = re.findall(r"`(msprobe(?:\.\w+)+)`", text)
    return missing + [name for name in dotted if not _path_exists(name.replace(".", "/"))]


def _path_exists(path: str) -> bool:
    return any(any(base.glob(name)) for base in (ROOT, ROOT / "msprobe") for name in (path, f"{path}.py"))


def _exists(mention: str) -> bool:
    path, _, name = mention.partition(":")
    if not name:
        return _path_exists(path)
    files = [base / path for base in (ROOT, ROOT / "msprobe") if (base / path).is_file()]
    return bool(files) and _defines(ast.parse(files[0].read_text(encoding="utf-8")), name.split("."))


def _defines(node: ast.AST, names: list[str]) -> bool:
    """Return whether a module or class defines a function, class, method or variable."""
    if not names:
        return True
    for child in getattr(node, "body", []):
        targets = child.targets if isinstance(child, ast.Assign) else [getattr(child, "target", None)]
        defined = {getattr(child, "name", None), *(getattr(target, "id", None) for target in targets)}
        if names[0] in defined:
            return _defines(child, names[1:])
    return False


@pytest.mark.parametrize("page", ["architecture.md", "guide/verdicts.md"])
def test_pages_about_the_code_name_what_exists(page: str) -> None:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert missing_mentions(text) == []


def test_the_page_about_verdicts_is_short_and_shows_a_slice() -> None:
    """All of it fits in 1,800 words, its figure is there, and figure and page have the same terms."""
    page = ROOT / "docs" / "guide" / "verdicts.md"
    text = page.read_text(encoding="utf-8")
    assert len(text.split()) <= 1800
    (figure,) = re.findall(r"!\[[^\]]+\]\(([^)\s]+\.svg)\)", text)
    shown = " ".join(ElementTree.parse(page.parent / figure).getroot().itertext())
    terms = ("sink", "twin", "backward slice", "frontier")
    assert [term for term in terms if term not in text or term not in shown] == []


def test_missing_names_are_seen() -> None:
    text = "`core/log.py` `core/no.py` `msprobe/core` `core/errors.py:Problem.path` `core/log.py:no`"
    assert missing_mentions(f"{text} `msprobe.core.log` `msprobe.no`") == ["core/no.py", "core/log.py:no", "msprobe.no"]


def test_architecture_names_what_exists() -> None:
    """Every path, every package in the picture of the layers, and every folder of the package."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    paths = re.findall(r"\b(?:msprobe|tests|scripts|schemas|docs)/[\w./-]*\w", text)
    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert len(re.findall(r"`[\w/]+\.py:[\w.]+`", text)) > 30
    picture = text.split("## Layers", 1)[1].split("```")[1]
    names = [name for line in picture.splitlines() for name in re.split(r"\s{2,}", line.strip())[0].split(" | ")]
    packages = [name for name in names if re.fullmatch(r"\w+", name)]
    assert len(packages) >= 8
    assert [name for name in packages if not (ROOT / "msprobe" / name).is_dir()] == []


def test_architecture_names_the_state_that_exists() -> None:
    """Every object in the table of the state of the process, and every rebound global, is where the table says."""
    section = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("## State of the process", 1)[1]
    rows = re.findall(r"^\| (`.+`) \| `([\w/]+\.py)` \|", section.split("\n## ", 1)[0], re.MULTILINE)
    assert len(rows) > 10
    listed = {(name, f"msprobe/{file}") for names, file in rows for name in re.findall(r"[\w.]+", names)}
    rebound = set()
    for path in sources("msprobe"):
        for names in re.findall(r"^ +global (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE):
            rebound |= {(name, label(path)) for name in names.split(", ")}
    assert sorted((name, file) for name, file in listed if not assigns(ROOT / file, name)) == []
    assert sorted(rebound - listed) == []


def assigns(path: Path, name: str) -> bool:
    """Return whether a file assigns a module-level name, or an attribute that is given with its class."""
    attribute = name.rpartition(".")[2]
    text = path.read_text(encoding="utf-8")
    return re.search(rf"^ *(?:\w+, )*{attribute}\b[^=\n(]*=", text, re.MULTILINE) is not None


def test_architecture_names_every_folder() -> None:
    folders = {label(path.parent).removeprefix("msprobe/") for path in sources() if path.name != "__init__.py"}
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/*]+)`", text.split("## Folders", 1)[1].split("\n## ", 1)[0])
    lost = [folder for folder in sorted(folders) if not any(fnmatch(folder, pattern) for pattern in named)]
    assert lost == ["msprobe"]  # the root of the package


def test_broken_links_are_seen() -> None:
    readme = ROOT / "README.md"
    assert broken(readme, "docs/no_such_page.md")
    assert broken(readme, "CONTRIBUTING.md#no-such-heading")
    assert not broken(readme, "CONTRIBUTING.md")


def test_readme_has_exactly_two_commands() -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Two commands", 1)[1].split("\n## ", 1)[0]
    blocks = re.findall(r"^```sh\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    commands = [line.split("#")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]
    assert commands == COMMANDS


def test_scripts_can_be_run() -> None:
    scripts = [*(ROOT / "scripts").iterdir(), ROOT / ".ci" / "run"]
    assert [label(path) for path in scripts if path.is_file() and not os.access(path, os.X_OK)] == []


def test_ci_runs_the_command_of_the_readme() -> None:
    lines = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    run = [line.split()[0] for line in lines if line.startswith("./") and "--install" not in line]
    assert sorted(run) == ["./scripts/check", "./scripts/test"]


def test_schemas_are_fresh() -> None:
    result = subprocess.run(
        [sys.executable, "scripts/schema", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
