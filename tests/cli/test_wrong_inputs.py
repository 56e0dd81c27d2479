"""Wrong inputs of every command: one line that says what, where, and what to do, and the documented exit status."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from msprobe.cli.main import COMMANDS, run
from msprobe.cli.options.published_names import _COMMANDS, _OPTIONS
from tests.compare.dumps import call, tensor, write
from tests.rules.tree import ROOT

ABS = {"Torch.abs.0.forward": call([tensor()], [tensor()])}
GIVE = "give the dump_path of a run"
PAIR = ["-tp", "good", "-gp", "good", "-o", "out"]
TEXTS = {
    "a.json": '{"a": 1}',
    "empty.json": "",
    "list.json": "[1]",
    "cut.json": '{"task": "statistics", "da',
    "file": "x",
    "train.py": "print(1)",
    "good.json": '{"dump_path": "d"}',
    "level.json": '{"dump_path": "d", "level": "L9"}',
    "list.yaml": "- a",
    "bad.yaml": "a: [",
    "merge.yaml": "api: [Torch.abs]",
    "nothing.yaml": "api: [Nope]",
    "column.yaml": "api: [Torch.abs]\ncompare_index: [Nope]",
    "text.yaml": "api: Torch.abs",
    "names.json": '{"": "x"}',
    "x.ir": "no graph",
    "x.safetensors": "123",
    "x.txt": "123",
    "no.vis.db": "123",
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with right and wrong inputs."""
    folder = tmp_path_factory.mktemp("inputs")
    for name, text in TEXTS.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "nothing").mkdir()
    (folder / "kernels/rank_0/Net/0/0").mkdir(parents=True)
    write(folder / "good", ABS)
    write(folder / "no_data", {})
    for rank in (0, 1):
        write(folder / f"two/step0/rank{rank}", ABS)
    write(folder / "far/step0/rank5", ABS)
    changed(folder, "structure", task="structure")
    changed(folder, "no_object", data=[1])
    changed(folder, "no_record", data={"Torch.abs.0.forward": 3})
    changed(folder, "no_task", task=3)
    (write(folder / "stack", ABS).parent / "stack/stack.json").write_text("[1]")
    (folder / "foreign/step0/rank0").mkdir(parents=True)
    (folder / "foreign/step0/rank0/dump.json").write_text('{"a": 1}')
    (folder / "tables").mkdir()
    assert run(["compare", "-tp", str(folder / "good"), "-gp", str(folder / "good"), "-o", str(folder / "tables")]) == 0
    return folder


def changed(folder: Path, name: str, **fields: Any) -> None:
    """Write a good dump with other fields in its header."""
    write(folder / name, ABS)
    document = folder / name / "dump.json"
    document.write_text(json.dumps({**json.loads(document.read_text()), **fields}))


WRONG: list[tuple[str, int, str, str]] = [
    # words, exit status, what and where, what to do
    ("compair", 2, "no such command 'compair'", "did you mean 'compare'?"),
    ("xyz", 2, "no such command 'xyz'", "commands: acc_check, accept, anomaly_processor"),
    ("--wrong", 2, "No such option '--wrong'", "see msprobe --help"),
    ("-f", 2, "Option '-f' requires an argument", "see msprobe --help"),
    ("-f jax compare", 2, "'jax' is not one of 'pytorch', 'mindspore'", "see msprobe --help"),
    ("anomaly_processor -d nothing", 2, "nothing: there is no rank*/anomaly.json", "give the folder"),
    ("anomaly_processor -d nothing -s x", 2, "'x'", "give a list of steps"),
    ("answers absent.jsonl", 2, "absent.jsonl", "No such file"),
    ("compare -tp good", 2, "Missing option '-gp'", "see msprobe compare --help"),
    ("compare -tp", 2, "Option '-tp' requires an argument", "see msprobe compare --help"),
    ("compare -tp good -gp good -xyz", 2, "No such option '-xyz'", "see msprobe compare --help"),
    ("compare -tp good -gp good --fuzzy", 2, "No such option '--fuzzy'", "Did you mean"),
    ("compare -tp absent -gp good", 2, "absent: no such file or folder", GIVE),
    ("compare -tp a.json -gp good", 2, "a.json: no dump, it has no `task` (found: 'a')", GIVE),
    ("compare -tp good -gp a.json", 2, "a.json: no dump, it has no `task` (found: 'a')", GIVE),
    ("compare -tp foreign -gp good", 2, "foreign/step0/rank0/dump.json: no dump, it has no `task`", GIVE),
    ("compare -tp empty.json -gp good", 2, "empty.json: not valid JSON", "copy it again"),
    ("compare -tp cut.json -gp good", 2, "cut.json: not valid JSON", "copy it again"),
    ("compare -tp list.json -gp good", 2, "list.json: not a JSON object", "copy it again"),
    ("compare -tp file -gp good", 2, "file: no dump, its name does not end in .json", GIVE),
    ("compare -tp nothing -gp good", 2, "nothing: no dump.json in it", GIVE),
    ("compare -tp kernels -gp good", 2, "kernels: kernel files", "msprobe import kernels -o FOLDER"),
    ("compare -tp no_task -gp good", 2, "no_task/dump.json: no dump, its `task` is 3", GIVE),
    ("compare -tp no_object -gp good", 2, "no_object/dump.json: no dump, its `data` is [1]", GIVE),
    ("compare -tp no_record -gp good", 2, "data['Torch.abs.0.forward'] is 3 and no record", "copy it again"),
    ("compare -tp stack -gp good", 2, "stack/stack.json: not a JSON object", "remove it"),
    ("compare -tp no_data -gp good", 3, "the target no_data/dump.json holds no records", "its data is empty"),
    ("compare -tp structure -gp good", 3, "structure in structure/dump.json", "record both with one task"),
    ("compare -tp two -gp far", 3, "rank1 of step 0 only in the target", "--pair order"),
    ("compare {pair} --rank 9", 3, "no pair of dumps is of rank 9", "there is good/dump.json"),
    ("compare {pair} --rank 3-1", 2, "rank '3-1'", 'write "1-3"'),
    ("compare {pair} --step x", 2, "step 'x'", "give numbers and ranges such as 0-2,5"),
    ("compare -tp good -gp good -o file", 2, "file is a file", "give a folder for the result"),
    ("compare {pair} --html nothing", 2, "html nothing: a folder is there", "give the name of a file"),
    ("compare {pair} --noise absent", 2, "absent: cannot be read", "`msprobe noise` wrote"),
    ("compare {pair} --noise a.json", 2, "a.json: not a noise file", "`msprobe noise` writes one"),
    ("compare {pair} --config absent", 2, "absent: the config mapping cannot be read", "check the path"),
    ("compare {pair} --metrics math", 2, "'math' is no metric", "give module:function"),
    ("compare {pair} --metrics no_module:f", 2, "'no_module:f' cannot be loaded", "give module:function"),
    ("compare {pair} --executor gpu", 2, "executor 'gpu'", "known executors: auto"),
    ("compare {pair} -cm list.yaml", 2, "list.yaml, line 1: a cell mapping", "`key: value` lines"),
    ("compare {pair} -dm bad.yaml", 2, "bad.yaml, line 1: no valid YAML", "correct it"),
    ("compare {pair} -lm absent", 2, "absent: the layer mapping cannot be read", "check the path"),
    ("compare {pair} -am", 3, "built-in API mapping", "leave out -am, or give a file"),
    ("compare {pair} --target-parallel tp=x", 2, "'tp=x' is no layout", "give sizes such as tp=2"),
    ("compare {pair} --consistent_check", 2, "consistent_check needs backend", "fsdp, megatron"),
    ("compare {pair} --backend fsdp", 2, "backend 'fsdp'", "leave backend out"),
    ("compare -tp absent -gp good -m atb", 2, "absent: no such file or folder", "give a file or folder"),
    ("compare {pair} -m offline_model", 2, "good: -m offline_model runs a model file", "give an .onnx file after -tp"),
    ("compare {pair} --input_data x", 2, "--input_data belongs to -m offline_model", "give that mode too"),
    ("compare {pair} -ofs true", 2, "--onnx_fusion_switch belongs to -m offline_model", "give that mode too"),
    ("offline_dump", 2, "Missing option '--model_path'", "see msprobe offline_dump --help"),
    ("offline_dump --model_path absent.onnx", 2, "absent.onnx: no such file", "give an .onnx file"),
    ("offline_dump --model_path a.json", 2, "a.json: the name does not end in .onnx", "give an .onnx file"),
    ("offline_dump --model_path a.json -o file", 2, "file is a file", "give a folder for the result"),
    ("install_deps -m online", 2, "'online' is not one of 'offline', 'all'", "see msprobe install_deps --help"),
    ("acc_check", 2, "Missing option '-api_info'", "see msprobe acc_check --help"),
    ("acc_check -api_info absent", 2, "absent: no such file or folder", GIVE),
    ("acc_check -api_info a.json", 2, "a.json: no dump, it has no `task` (found: 'a')", GIVE),
    ("acc_check -api_info cut.json", 2, "cut.json: not valid JSON", "copy it again"),
    ("acc_check -api_info two", 2, "two: holds 2 dumps", "give the dump.json of one step and rank"),
    ("acc_check -api_info good -d warp:9", 2, "-d warp:9: this machine has no such device", "give cpu"),
    ("acc_check -api_info good -d cpu,cpu", 2, "-d cpu, cpu: names a device twice", "give each device once"),
    ("acc_check -api_info good -csv_path file", 2, "-csv_path file: the name must be", "of an earlier run"),
    ("acc_check -api_info good -config a.yaml", 2, "a.yaml: there is no such config file", "working directory"),
    ("acc_check -api_info good -config list.yaml", 2, "list.yaml: ", "an object"),
    ("acc_check -api_info good -o file", 2, "file is a file", "give a folder for the result"),
    ("acc_check -api_info good --html nothing", 2, "nothing is a folder", "give the name of a file"),
    ("api_precision_compare -npu a.json", 2, "Missing option '-gpu'", "see msprobe api_precision_compare --help"),
    ("api_precision_compare -npu absent -gpu absent", 2, "absent: cannot be read", "No such file"),
    ("api_precision_compare -npu a.json -gpu a.json", 2, "a.json: not this kind of table", "API Name"),
    ("op_generate", 2, "give a dump and --api, or a config_op.json with -i", "see msprobe op_generate --help"),
    ("op_generate absent --api x", 2, "absent: no such file or folder", GIVE),
    ("op_generate good --api Torch.absent.0", 2, "no recorded call is named Torch.absent.0", "Torch.abs.0"),
    ("op_generate -i a.json", 2, "a.json: give dump_json_path and api_name", "extract_api_path"),
    ("run_overflow_check -api_info absent", 2, "absent: no such file or folder", GIVE),
    ("run_overflow_check -api_info good", 3, "good/dump.json: no recorded call has an infinity or NaN", "results"),
    ("run_ut -api_info absent", 2, "absent: no such file or folder", GIVE),
    (
        "multi_acc_check -api_info good -n 65",
        2,
        "65 is not in the range 1<=x<=64",
        "see msprobe multi_acc_check --help",
    ),
    ("multi_run_ut -api_info no_data", 3, "holds no forward call of a function", "level L1 or mix"),
    ("graph_visualize -tp absent -o out", 2, "absent: no such file or folder", GIVE),
    ("graph_visualize -tp a.json -o out", 2, "a.json: no dump", GIVE),
    ("graph_visualize -tp good -o file", 2, "file is a file", "give a folder for the result"),
    ("graph_visualize -tp no_data -o out", 2, "no_data/dump.json: holds no records", "check level, scope and list"),
    ("graph_visualize -tp two -o out --tp 2", 2, "--rank_size is missing", "merging needs --rank_size"),
    ("check absent", 2, "absent: no such file or folder", GIVE),
    ("check no_data", 3, "no_data/dump.json holds no records", "msprobe doctor"),
    ("check good --with absent.json", 2, "absent.json", "--learn FILE"),
    ("check good --with a.json", 2, "a.json: no file of relations", "--learn FILE"),
    ("check good --learn a.json --with a.json", 2, "--learn writes relations", "leave --with, --json and --accept out"),
    ("check good --learn .", 2, "a folder is there", "give the name of a file"),
    ("check absent --learn r.json", 2, "absent: no such file or folder", GIVE),
    ("check no_data --learn r.json", 3, "nothing was learned", "record three"),
    ("check good --accept a.json", 2, "a.json, line 1: a file of accepted differences is a list", "not a table"),
    ("trace absent Torch.abs.0", 2, "absent: no such file or folder", GIVE),
    ("trace good Torch.absent.0", 2, "good: no value or entry is named Torch.absent.0", "did you mean Torch.abs.0"),
    ("trace good Torch.abs.0.forward.output.5", 2, "Torch.abs.0.forward has no tensor output.5", "it has"),
    ("trace no_data x", 2, "no value or entry is named x", "it has 0 entries"),
    ("overflow_check -i absent", 2, "absent: no such file or folder", GIVE),
    ("overflow_check -i a.json", 2, "a.json: no dump", GIVE),
    ("overflow_check -i no_data", 3, "no_data/dump.json holds no records", "msprobe doctor"),
    ("nan_analyze -i good -o file", 2, "file is a file", "give a folder for the result"),
    ("split_inputs -gp good", 2, "Missing option '-tp'", "see msprobe split_inputs --help"),
    ("split_inputs -tp absent -gp good -o plans", 2, "absent: no such file or folder", GIVE),
    ("data2db --db db --data absent", 2, "absent: no such file or folder", GIVE),
    ("data2db --db db --data no_data", 3, "no_data: no statistics", "collect with task statistics"),
    ("data2db --db file --data two", 2, "file is a file", "give a folder for the result"),
    ("data2db --db db --data two --mapping absent", 2, "absent: cannot be read", "correct --mapping"),
    ("data2db --db db --data two --mapping names.json", 2, "names.json: key ''", "correct --mapping"),
    ("data2db --db db --data two --format monitor", 3, "two: no files of a monitor", "such as rank_0/"),
    ("data2db --db db --data absent --format monitor", 2, "absent: no such folder", "give the output folder"),
    ("noise good", 2, "got 1 run", "give two or more dumps"),
    ("noise good absent", 2, "absent: no such file or folder", GIVE),
    ("noise good structure", 3, "structure/dump.json", "record both with one task"),
    ("noise good good -o nothing", 2, "nothing is a folder", "give the name of a file"),
    ("noise good good -o file/n.json", 2, "file is a file and no folder", "give another file"),
    ("accept", 2, "Missing argument 'RESULT'", "see msprobe accept --help"),
    ("accept absent.json --reason known", 2, "absent.json: cannot be read", "msprobe compare --json"),
    ("accept a.json --reason known", 2, "a.json: there is no first divergence", "msprobe compare --json"),
    ("merge_result -i absent -config merge.yaml", 2, "absent: no such folder", "output folder of msprobe compare"),
    ("merge_result -i tables -config merge.yaml", 2, "at least two ranks are needed", "found none"),
    ("merge_result -i tables -config absent", 2, "absent: cannot be read", "give a YAML file with api"),
    ("merge_result -i tables -config a.json", 2, "a.json: unknown key a", "known keys: api"),
    ("merge_result -i tables -config text.yaml", 2, "text.yaml: api", "must be a list of texts"),
    ("config_check", 2, "give two paths to compare, or one of -d, -c, -vc, -vv and -sc", ""),
    ("config_check -c absent absent", 2, "absent: no such file or folder", "give a checkpoint"),
    ("config_check -c nothing nothing", 2, "nothing: no checkpoint in it (found: nothing)", "give a checkpoint"),
    ("config_check -c x.txt x.txt", 2, "x.txt: no checkpoint", "files that can be read end in .safetensors"),
    ("config_check -c x.safetensors x.safetensors", 2, "x.safetensors: no safetensors file", "copy it again"),
    ("config_check -c a.json a.json -o file", 2, "file: exists already", "give another file with -o"),
    ("config_check -d file -o a.zip", 2, "file: no set-up file", "give a shell script"),
    ("config_check -d absent.sh -o a.zip", 2, "absent.sh: cannot be read", "give a .sh"),
    ("config_check -c absent.zip absent.zip", 2, "absent.zip: no such file", "msprobe config_check -d"),
    ("config_check -c a.json no.zip", 2, "a.json: not a readable zip file", ""),
    ("config_check -vc x.txt x.txt", 2, "x.txt: no settings in it", "give the log from its beginning"),
    ("config_check -vv file", 2, "file: no log", "ends in .log or .txt"),
    ("parse -d absent", 2, "absent: no such file or folder", "give a file or folder of a kernel dump"),
    ("parse -d x.txt -t npy -o out", 2, "x.txt: its format is not known", "files of ATB"),
    ("parse vc -m absent -g x.txt", 2, "absent: no such file or folder", ""),
    ("parse cn -m x.txt -g x.txt", 2, "x.txt: its format is not known", ""),
    ("code_mapping --ir absent --dump_data nothing", 2, "absent: cannot be read", "give an .ir file"),
    ("code_mapping --ir x.ir --dump_data nothing", 2, "x.ir: no graph in it", "give an .ir file"),
    (
        "code_mapping --ir nothing --dump_data nothing",
        2,
        "nothing: no printed graph",
        "give the folder with files like",
    ),
    ("import absent -o out", 2, "absent: no such folder", "give the dump_path of a level L2 run"),
    ("import two -o out", 2, "two: no kernel dump, it has no folder rank_0", "give the dump_path of a level L2 run"),
    ("import kernels -o out", 2, "kernels: nothing to import", "run the step again at level L2"),
    ("import kernels -o file", 2, "file is a file", "give a folder for the result"),
    ("support --feature slicee", 2, "slicee: is no feature", "the features are"),
    ("validate absent.json", 2, "absent.json: there is no such config file", "(working directory: "),
    ("validate nothing", 2, "nothing: is not a file", "give the path of a config file"),
    ("validate x.txt", 2, "x.txt: the name must end in", ".json, .yaml, .yml"),
    ("doctor absent.json", 2, "absent.json: there is no such config file", "(working directory: "),
    ("doctor good.json --world 0", 2, "0 is not in the range", "see msprobe doctor --help"),
    ("run -- train.py", 2, "give --config FILE (what to collect)", "or --monitor FILE (what to watch)"),
    ("run -c absent.json -- train.py", 2, "absent.json: there is no such config file", "(working directory: "),
    ("run -c level.json -- train.py", 2, 'level.json: level: got "L9"', "allowed: L0, L1"),
    ("run -c good.json -- no-such-program", 2, "there is no program 'no-such-program'", "write it as without msprobe"),
    ("run -c good.json -- absent.py", 2, "there is no file absent.py", "check the path"),
    ("view absent", 2, "absent does not exist", "msprobe graph_visualize"),
    ("view nothing", 2, "no .vis.db in nothing", "msprobe graph_visualize"),
    ("view no.vis.db", 2, "no.vis.db is no SQLite database", "msprobe graph_visualize"),
    ("view absent no.vis.db", 2, "absent does not exist", "two .trend.db of msprobe data2db"),
    ("view no.vis.db --golden no.vis.db", 2, "no.vis.db is no trend database", "two .trend.db of msprobe data2db"),
    ("view no.vis.db --port 70000", 2, "70000 is not in the range", "see msprobe view --help"),
]
assert len(WRONG) >= 58
DEVICES = [
    ("compare {pair} --json device", "json device: a device is there"),
    ("compare {pair} --html device", "html device: a device is there"),
    ("compare {pair} --junit device", "junit device: a device is there"),
    ("compare -tp good -gp good -o device", "device is a file; give a folder"),
    ("noise good good -o device", "device is a device; give the name of a file"),
    ("config_check -c x.safetensors x.safetensors -o device", "device: exists already"),
]


def words_of(text: str) -> list[str]:
    return [word for part in text.split() for word in (PAIR if part == "{pair}" else [part])]


@pytest.mark.parametrize(("text", "status", "what", "remedy"), WRONG, ids=[case[0] for case in WRONG])
def test_one_line_says_what_where_and_what_to_do(
    text: str,
    status: int,
    what: str,
    remedy: str,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(place)
    assert run(words_of(text)) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("msprobe: error: ") and err.count("\n") == 1, err
    assert what in err and remedy in err


@pytest.mark.parametrize(("text", "said"), DEVICES, ids=[case[0] for case in DEVICES])
def test_a_device_is_never_replaced(
    text: str, said: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    device = place / "device"
    if not device.exists():
        try:
            os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(1, 3))  # as /dev/null, which must not be risked
        except PermissionError:
            pytest.skip("only root makes a device, and only root could replace one")
    monkeypatch.chdir(place)
    assert run(words_of(text)) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1
    assert device.is_char_device()


@pytest.mark.parametrize("words", [["-tp", "", "-gp", "good"], ["-tp", "good", "-gp", "good", "-o", ""]])
def test_an_empty_path_is_a_variable_that_is_not_set(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", *words]) == 2
    assert f"an empty text stands behind {words[words.index('') - 1]}" in capsys.readouterr().err


def test_every_command_has_wrong_inputs() -> None:
    assert {case[0].split()[0] for case in WRONG} >= COMMANDS.keys()


@pytest.mark.parametrize("name", sorted(_COMMANDS))
def test_a_command_of_the_published_tool_is_known(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert name not in COMMANDS
    for before in ([], ["-f", "mindspore"]):
        assert run([*before, name, "-api_info", "x"]) == 2
        err = capsys.readouterr().err
        assert err.startswith(f"msprobe: error: no such command {name!r}: it ") and err.count("\n") == 1
        assert "msprobe" in err.removeprefix("msprobe: error: ").removesuffix("(see msprobe --help)\n")


@pytest.mark.parametrize(("command", "option"), [(name, option) for name in _OPTIONS for option in _OPTIONS[name]])
def test_an_option_of_the_published_tool_is_known(
    command: str, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ([option], [option, "x"], [f"{option}=x"]):
        assert run(["-f", "pytorch", command, *PAIR, *words]) == 2
        err = capsys.readouterr().err
        assert err.startswith(f"msprobe: error: {command} has no option {option}: it ") and err.count("\n") == 1


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_framework_may_stand_before_every_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    for before in (["-f", "pytorch"], ["--framework=mindspore"], ["-fmsadapter"]):
        assert run([*before, command, "--help"]) == 0
        assert f"Usage: msprobe {command}" in capsys.readouterr().out


def test_run_is_found_behind_a_framework(place: Path) -> None:
    """The program of ``run`` gets its own signals and words."""
    words = ["-f", "pytorch", "run", "-c", "good.json", "--", "train.py", "-fr", "-h"]
    command = [sys.executable, "-m", "msprobe", *words]
    done = subprocess.run(
        command, cwd=place, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(ROOT)}
    )
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
