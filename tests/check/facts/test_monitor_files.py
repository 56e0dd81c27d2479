"""Files of a training monitor are read as steps, whatever their version; damaged ones are one clear line."""

from __future__ import annotations

from pathlib import Path

import pytest

from msprobe.check.facts.monitor_files import monitor_folders, read_monitor
from msprobe.check.job import check
from msprobe.core.errors import NotComparableError, ReadError

FIRST = "vpp_stage,name,step,min,max,mean,norm,nans,shape,dtype"
SECOND = "vpp_stage,step,module_name,scope,min,max,mean,norm,nans"


def write_first(root: Path, rank: int, norms: dict[str, list[float]], nans: int = 0) -> Path:
    folder = root / f"Dec03_21-34-40-rank{rank}-0a1b2c3d"
    folder.mkdir(parents=True)
    rows = [
        f'0,{name},{step},{-norm},{norm},0.1,{norm},{nans if step == 2 else 0},"torch.Size([4, 4])",torch.float32'
        for name, values in norms.items()
        for step, norm in enumerate(values)
    ]
    for prefix in ("param_origin", "grad_reduced"):
        (folder / f"{prefix}_0-3.csv").write_text("\n".join([FIRST, *rows]) + "\n")
    return folder


def test_replicas_that_come_apart_are_found_in_monitor_files(tmp_path: Path) -> None:
    write_first(tmp_path, 0, {"head.weight": [1.0, 1.1, 1.2], "body.weight": [1.0, 1.5, 1.6]})
    write_first(tmp_path, 1, {"head.weight": [1.0, 1.1, 1.2], "body.weight": [1.0, 1.7, 1.9]})
    (first,) = check([tmp_path]).findings
    assert (first.rule, first.parameter, first.step, first.ranks) == ("replicas_apart", "body.weight", 1, (0, 1))


def test_counted_nan_is_a_finding(tmp_path: Path) -> None:
    write_first(tmp_path, 0, {"a.weight": [1.0, 1.1, 1.2]}, nans=1)
    first = check([tmp_path]).findings[0]
    assert (first.rule, first.step, first.parameter) == ("non_finite", 2, "a.weight")


def test_a_parameter_that_stays_while_others_move(tmp_path: Path) -> None:
    write_first(tmp_path, 0, {"a.weight": [1.0, 1.1, 1.2], "b.weight": [2.0, 2.0, 2.0]})
    (first,) = check([tmp_path]).findings
    assert (first.rule, first.parameter) == ("monitored_parameter_still", "b.weight")


def test_gradients_that_add_up_are_a_hint(tmp_path: Path) -> None:
    write_first(tmp_path, 0, {name: [1.0, 2.0, 3.0, 4.0] for name in ("a.weight", "b.weight")})
    assert [one.rule for one in check([tmp_path]).hints] == ["gradients_grow"]


def test_the_second_version_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "rank_3"
    folder.mkdir()
    rows = ["0,0,fc.weight,param_origin,-1,1,0,2,0", "0,0,fc.weight,param_updated,-1,1,0,2.5,0"]
    (folder / "param_step0-0.csv").write_text("\n".join([SECOND, *rows]) + "\n")
    ((found, rank),) = monitor_folders(tmp_path)
    (facts,) = read_monitor(found, rank)
    assert (facts.rank, facts.step) == (3, 0)
    parameter = facts.parameters["fc.weight"]
    assert parameter.used is not None and parameter.left is not None
    assert (parameter.used.norm, parameter.left.norm) == (2.0, 2.5)


def test_files_that_are_appended_to_are_read(tmp_path: Path) -> None:
    folder = write_first(tmp_path, 0, {"a.weight": [1.0, 1.1, 1.2], "b.weight": [2.0, 2.0, 2.0]})
    for file in list(folder.iterdir()):
        file.rename(folder / f"{file.name.removesuffix('_0-3.csv')}_part0.csv")
    (first,) = check([tmp_path]).findings
    assert (first.rule, first.parameter) == ("monitored_parameter_still", "b.weight")


def test_files_without_a_whole_row_are_nothing_to_check(tmp_path: Path) -> None:
    for name, content in (("grad_reduced_0-0.csv", f"{FIRST}\n0,a"), ("param_origin_0-0.csv", "vpp_stage")):
        (tmp_path / name).write_text(content)
    with pytest.raises(NotComparableError, match="holds no records"):
        check([tmp_path])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a,b\n1,2\n", "no file of a monitor"),
        (f"{FIRST}\n0,a,x,1,1,1,1,0,[],f\n", "remove the line"),
        (f"{FIRST}\n0,a,1\n", "3 cells where there are 10 columns"),
    ],
)
def test_damaged_files_are_refused_in_one_line(tmp_path: Path, content: str, said: str) -> None:
    (tmp_path / "grad_reduced_0-0.csv").write_text(content)
    with pytest.raises(ReadError, match=said):
        check([tmp_path])
