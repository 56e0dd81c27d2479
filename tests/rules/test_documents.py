"""Documents stay true: links resolve, the README has its two commands, schemas are those of the code."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

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


def test_architecture_names_what_exists() -> None:
    """Every path, and every package in the picture of the layers."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    paths = re.findall(r"\b(?:msprobe|tests|scripts|schemas|docs)/[\w./-]*\w", text)
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []
    picture = text.split("## Layers", 1)[1].split("```")[1]
    names = [name for line in picture.splitlines() for name in re.split(r"\s{2,}", line.strip())[0].split(" | ")]
    packages = [name for name in names if re.fullmatch(r"\w+", name)]
    assert len(packages) >= 8
    assert [name for name in packages if not (ROOT / "msprobe" / name).is_dir()] == []


def test_architecture_names_the_state_that_exists() -> None:
    """Every object in the table of the state of the process, and every rebound global, is where the table says."""
    section = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split("## State of the process", 1)[1]
    rows = re.findall(r"^\| (`.+`) \| `(msprobe/[\w/]+\.py)` \|", section.split("\n## ", 1)[0], re.MULTILINE)
    assert len(rows) > 10
    listed = {(name, file) for names, file in rows for name in re.findall(r"[\w.]+", names)}
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
    assert "./scripts/test" in lines
    assert "./scripts/check" in lines


def test_schemas_are_fresh() -> None:
    result = subprocess.run(
        [sys.executable, "scripts/schema", "--check"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
