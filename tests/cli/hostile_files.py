"""One valid example of every further kind of file that msprobe reads, and the commands that read it.

``READERS`` has them by kind. The path behind ``!`` is what a damage changes: a file, or one of the files in a folder.
``out`` holds results that a later command goes on with. ``python NAME`` is a function of ``CALLS``.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper

from msprobe.cli.main import run
from msprobe.monitor.grad_probe.comparator import GradComparator
from msprobe.monitor.settings.first_version import read_first_version
from msprobe.monitor.settings.second_version import read_second_version
from msprobe.precheck.checked_call import CheckedCall, CheckedValue, Status
from msprobe.precheck.result_tables import ResultTables
from msprobe.precheck.settings import read_config
from msprobe.setup_check.collection.hyperparameters import read_settings
from tests.cli.hostile import DATA, Inputs
from tests.cli.outcome import Action
from tests.compare.dumps import write
from tests.monitor.recorded.runs import SECOND, line, rank_folder, write_alerts, write_csv
from tests.offline_models.exported import save
from tests.precheck.test_device_comparison import SMALL
from tests.setup_check.logs.test_settings import SETTINGS, TABLE, verl_log
from tests.trend.records import two_passes, write_dump
from tests.visualize.trend_view.databases import write_run

KERNELS = Path(__file__).parents[1] / "core" / "kernel_dumps" / "recorded" / "graph"
RELU = "Functional.relu.0.forward"
READERS = {
    "settings": """
        validate !in/config.json
        validate !in/tasks.yaml -f pytorch
        doctor !in/tasks.json -i in/good
        python acc_check !in/acc.yaml
        compare -tp in/bad -gp in/good -o out/new -lm !in/layers.yaml
        compare -tp in/bad -gp in/good -o out/new -cm !in/cells.yaml
        compare -tp in/bad -gp in/good -o out/new -am !in/apis.yaml
        compare -tp in/bad -gp in/good -o out/new -dm !in/mapping.yaml
        compare -tp in/tensors -gp in/tensors -o out/new --config !in/matrices.yaml
        compare -tp in/bad -gp in/good -o out/new --noise !in/learned.json
        compare -tp in/bad -gp in/good -o out/new --accept !in/accepted.yaml
        check in/steps --accept !in/findings.yaml
        check in/steps --with !in/relations.json
        accept !in/result.json --reason known -o out/other.yaml
        accept in/result.json --reason known -o !out/accepted.yaml --place x*
        data2db in/steps -o out/new --mapping !in/names.json
        merge_result in/tables !in/merge.yaml -o out/new
        op_generate -i !in/config_op.json -o out/new
        op_generate !in/records.json --api Functional.relu.0 -o out/new
        config_check -d !in/hyper.json -o out/new.zip
        python settings !in/train.sh
        python settings !in/hyper.yaml
        python settings !in/hyper.json
        config_check -c !in/first.zip in/second.zip -o out/new
        config_check -vc !in/verl.log in/second.log -o out/new
        config_check -vv !in/bench.yaml in/verl.log -o out/new
        config_check -sc !in/slime.log in/slime.log -o out/new
        answers !in/answers.jsonl --tokenizer in/tokenizer.json
        answers in/answers.jsonl --tokenizer in/tokenizer.json --config !in/answers.yaml
        answers in/answers.jsonl --tokenizer !in/tokenizer.json
        anomaly_processor -d !in/monitor/anomaly_detected -o out/new
        python monitor !in/monitor.json
        python monitor !in/monitor.yaml
        python second_monitor !in/second.json
        python second_monitor !in/second.yaml
    """,
    "databases": """
        view !in/graph.vis.db --html out/page.html
        view !in/run.trend.db --html out/page.html
        view in/run.trend.db --golden !in/good.trend.db --html out/page.html
        view !in/dump_data.trend.db --html out/page.html
        data2db !in/ranks -o out/new --format monitor
        data2db in/ranks -o !out/trend --format monitor
        data2db in/monitor -o !out/trend
    """,
    "tables": """
        merge_result !in/tables in/merge.yaml -o out/new
        merge_result !in/workbooks in/merge.yaml -o out/new
        merge_result !in/workbooks in/merge.yaml -o out/new
        api_precision_compare -npu !in/details.csv -gpu in/details.csv -o out/new
        api_precision_compare -npu in/details.csv -gpu !in/details.csv -o out/new
        python acc_check_table !out/checked/accuracy_checking_result_20260101120000.csv
        data2db !in/monitor -o out/new
        data2db !in/second_monitor -o out/new
        import !in/kernels/rank_0 -o out/new
        import !in/statistics/rank_0 -o out/new
        code_mapping !in/kernels/rank_0/graphs !in/kernels/rank_0/Net/0/0 -o out/new
        python gradients !in/gradients in/gradients out/new
    """,
    "onnx": """
        offline_dump !in/model.onnx -o out/new
        offline_dump !in/branches.onnx -o out/new --task statistics
        offline_dump in/outside.onnx -o out/new --input_data !in/x.npy
        offline_dump !in/outside.onnx -o out/new --input_shape x:2,4
        compare -m offline_model -tp !in/model.onnx -gp in/outside.onnx -o out/new
        compare -m offline_model -tp in/model.onnx -gp !in/onnx_run -o out/new --input_data in/x.npy
    """,
    "links": """
        compare -tp !in/bad -gp in/good -o out/new
        compare -tp !in/tensors -gp !in/tensors -o out/new --html out/new/a.html --json out/new/a.json
        compare -da -tp in/good -gp !in/bad -o out/new
        compare -tp !in/died -gp in/good -o out/new
        compare -tp in/bad -gp in/good -o !out/new --html out/new/a.html --xlsx
        graph_visualize -tp !in/bad -gp in/good -o out/new
        overflow_check -i !in/steps -o out/new
        check !in/steps
        data2db !in/steps -o out/new
        data2db !in/monitor -o !out/trend
        data2db !in/ranks -o out/new --format monitor
        noise !in/bad in/good -o out/noise.json
        doctor in/config.json -i !in/bad
        merge_result !in/tables in/merge.yaml -o out/new
        view !in/viewed --html out/page.html
        config_check -c !in/megatron in/first.safetensors -o out/a.json
        config_check -c !in/megatron in/megatron -o out/a.json
        parse -d !in/tensors --recursive -t npy -o !out/new
        import !in/kernels/rank_0 -o !out/new
        code_mapping !in/kernels/rank_0/graphs !in/kernels/rank_0/Net/0/0 -o out/new
        split_inputs !in/onnx_run in/onnx_run -o !out/new
        offline_dump in/model.onnx -o !out/new
        config_check -c in/first.zip in/second.zip -o !out/new
        anomaly_processor -d !in/monitor/anomaly_detected -o out/new
        op_generate !in/tensors --api Functional.relu.0 -o !out/new
        compare -m offline_data -tp !in/kernels/rank_0/Net -gp in/kernels/rank_0/Net -o out/new
        compare -tp !in/saved -gp in/saved -o out/new
        python gradients !in/gradients in/gradients out/new
    """,
}
CALLS: dict[str, Callable[..., object]] = {
    "monitor": read_first_version,
    "second_monitor": read_second_version,
    "gradients": GradComparator.compare,
    "settings": lambda path: read_settings(Path(path)),
    "acc_check_table": lambda path: ResultTables(Path(path), 14),
    "acc_check": lambda path: read_config(Path(path)),
}
TASKS = ("statistics", "tensor", "acc_check", "overflow_check", "structure", "free_benchmark", "grad_probe")
TEXTS: dict[str, str] = {
    "acc.yaml": "acc_check:\n  white_list: [relu]\n  black_list: []\n  error_data_path: out/errors\nprecision: high\n",
    "layers.yaml": "TopLayer:\n  fc: fc\nLinear:\n  q: a + b\n",
    "cells.yaml": "fc.Linear: fc.Linear\n",
    "apis.yaml": "- ms_api: Functional.relu\n  pt_api: Functional.relu\n  ms_args: [0]\n  pt_args: [0]\n"
    "  ms_outputs: [0]\n  pt_outputs: [0]\n",
    "matrices.yaml": "right_matmul: {target_tensor_map: {in/matrix.npy: [Functional.relu.0.forward.input.0.npy]}}\n",
    "findings.yaml": "- finding: parameter_without_gradient\n  place: '*'\n  reason: known\n",
    "train.sh": "LR=0.1\nexport A=1\nARGS=\"--lr $LR --name 'a b'\"\ntorchrun --nproc 2 train.py $ARGS \\\n  --tp 2\n",
    "hyper.yaml": "lr: 0.1\nmodel: {layers: [1, 2], name: a}\nbase: &b {x: 1}\nother: {<<: *b, y: 2}\n",
    "bench.yaml": "actor_rollout_ref/rollout/n: 8\ndata: {train_batch_size: 32}\n",
    "slime.log": TABLE,
    "answers.jsonl": '{"text": "A short answer."}\n'
    '{"tokens": [1, 0, 0], "topk_logprobs": [{"1": -0.1}, {"0": -2}, {}]}\n'
    '{"choices": [{"message": {"content": "and again and again"}, "logprobs": {"content": []}}]}\n',
    "answers.yaml": "window_size: 64\nrepetition: {trajectory: {n: 3}}\nrare_character: {category_thresh: 2}\n",
    "tokenizer.json": '{"model": {"vocab": {"again ": 0, "ok ": 1}}, "added_tokens": [{"id": 2, "content": "x"}]}',
    "monitor.yaml": "targets: {fc.weight: {}}\nformat: csv\nops: [norm, max]\nalert: {rules: [], dump: false}\n",
    "second.yaml": "rank: [0]\nmonitors: {weight_grad: {enabled: true, ops: [norm]}}\n",
}


class FurtherInputs(Inputs):
    """A folder with an example of every kind, which ``renewed`` sets up anew."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._texts()
        self._dumps()
        self._tables()
        self._databases()
        self._models()
        self._learned()
        self._kept = root.with_name(f"{root.name}.kept")
        shutil.rmtree(self._kept, ignore_errors=True)
        shutil.copytree(root, self._kept)
        self._marked: set[str] = set()

    def renewed(self) -> None:
        """Take back what a command wrote, and every change of what ``chosen`` has returned since the last time."""
        for name in {"out", "outside", "moved", *self._marked}:
            path = self.root / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
            kept = self._kept / name
            if kept.exists():
                (shutil.copytree if kept.is_dir() else shutil.copy)(kept, path)
        self._marked.clear()

    def chosen(self, command: str) -> tuple[Action, list[Path]]:
        """Return what a command of ``READERS`` runs, and the paths that a damage may change."""
        words = shlex.split(command)
        marked = [word[1:] for word in words if word.startswith("!")]
        self.mark(*marked)
        words = [word.removeprefix("!") for word in words]
        paths = [self.root / path for path in marked]
        if words[0] == "python":
            return lambda: CALLS[words[1]](*words[2:]), paths
        return words, paths

    def mark(self, *places: str) -> None:
        """Say that something at these places will be changed."""
        self._marked.update("/".join(Path(place).parts[:2]) for place in places if place.startswith("in/"))

    def _texts(self) -> None:
        for name, text in TEXTS.items():
            (self.folder / name).write_text(text)
        sections = {task: {} for task in TASKS} | {
            "statistics": {"scope": [], "list": ["relu"], "summary_mode": "md5", "ring": {"steps": 3, "on": ["nan"]}},
            "tensor": {"file_format": "npy", "data_mode": ["all"], "list": ["name-regex(a+)"]},
            "grad_probe": {"grad_level": "L1", "param_list": [], "bounds": [-1.0, 0.0, 1.0]},
        }
        common = {"dump_path": "d", "level": "mix", "step": [0, "2-4"], "rank": [0], "load": {"path": "in/good"}}
        documents: dict[str, Any] = {
            "tasks.json": {"task": "statistics", **common, **sections},
            "tasks.yaml": {"task": "tensor", **common, **sections},
            "monitor.json": {"targets": {}, "ops": ["norm"], "alert": {"rules": [{"rule_name": "AnomalyTurbulence"}]}},
            "second.json": {"monitors": {"module": {"enabled": True, "ops": ["max"]}}, "format": "csv"},
            "hyper.json": {"lr": 0.1, "model": {"layers": [1, 2]}},
            "config_op.json": {
                "dump_json_path": "in/good/step0/rank0/dump.json",
                "api_name": "Functional.relu.0",
                "extract_api_path": "out/relu.json",
                "propagation": "backward",
                "data_mode": "random_data",
                "random_seed": 7,
                "iter_times": 3,
            },
            "records.json": {RELU: DATA[RELU]},
            "result.json": {
                "first_divergence": {"kind": "value", "target": f"{RELU}.output.0", "slot": "output.0"},
                "verdict": "diverged",
            },
        }
        for name, document in documents.items():
            (self.folder / name).write_text(json.dumps(document))
        verl_log(self.folder / "verl.log", "(TaskRunner pid=1) ")
        verl_log(self.folder / "second.log", "", {**SETTINGS, "trainer": {"n": 2}})

    def _dumps(self) -> None:
        for step in range(3):
            data, construct = two_passes()
            write_dump(self.folder / "steps", (step, "rank0"), data, construct)
        write(self.folder / "calls", {RELU: DATA[RELU]})
        shutil.copytree(KERNELS, self.folder / "kernels")
        np.save(self.folder / "matrix.npy", np.ones((8, 8), np.float32))
        for side in ("first", "second"):
            place = self.folder / "saved" / "data" / side / "step0" / "rank0" / "micro_step0"
            place.mkdir(parents=True)
            np.save(place / f"{side}.npy", np.ones(3, np.float32))
        megatron = self.folder / "megatron"
        (megatron / "iter_0000001" / "mp_rank_00").mkdir(parents=True)
        (megatron / "latest_checkpointed_iteration.txt").write_text("1")
        torch.save({"model": {"w": torch.ones(2)}}, megatron / "iter_0000001" / "mp_rank_00" / "model_optim_rng.pt")

    def _tables(self) -> None:
        checked = self.root / "out" / "checked"
        checked.mkdir(parents=True)
        results = ResultTables(checked / "accuracy_checking_result_20260101120000.csv", 14)
        for name in ("Functional.relu.0", "Torch.exp.0"):
            value = CheckedValue(f"{name}.forward.output.0", "float64", "float32", (2,), SMALL, Status.PASS, "")
            results.add(CheckedCall(name, values=[value]))
        shutil.copy(results.details, self.folder / "details.csv")
        first, second = self.folder / "monitor", self.folder / "second_monitor"
        for rank in range(2):
            lines = [line("fc.weight", step, 0.5) for step in range(3)]
            write_csv(rank_folder(first, rank), "grad_reduced_0-2.csv", lines)
            lines = [f"0,{step},fc,forward,0.5,0" for step in range(3)]
            write_csv(second / f"rank_{rank}", "module_step0-2.csv", lines, SECOND)
            place = {"rank": rank, "step": 1, "micro_step": 0, "pp_stage": 0, "vpp_stage": 0, "call_id": rank}
            tag = f"0:fc.weight/rank{rank}/grad_reduced"
            write_alerts(first, rank, [{**place, "tag_name": tag, "message": "m", "group_mates": [0, 1]}])
        shutil.rmtree(self.folder / "tables")
        statistics = self.folder / "statistics" / "rank_0"
        shutil.copytree(KERNELS / "rank_0", statistics)
        for path in statistics.rglob("*.npy"):
            path.unlink()
        head = "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value,Min Value\n"
        row = 'MatMul,Default_fc1-Dense_MatMul-op0,0,0,1795238291770607,input,0,24,float32,"(2, 3)",1.0,0.5\n'
        (statistics / "Net/0/0/statistic.csv").write_text(head + row)
        gradients = self.folder / "gradients" / "step0"
        gradients.mkdir(parents=True)
        np.save(gradients / "fc.weight.npy", np.ones(4, bool))
        (gradients.parent / "grad_summary_0.csv").write_text('param_name,max,min,norm,shape\nfc.weight,1,0,1,"[4]"\n')

    def _databases(self) -> None:
        write_run(self.folder / "run.trend.db", faults=True, steps=range(20))
        write_run(self.folder / "good.trend.db", steps=range(20))
        ranks = self.folder / "ranks" / "rank_0"
        write_run(ranks / "monitor_rank0.trend.db", steps=range(5))
        viewed = self.folder / "viewed"
        viewed.mkdir()
        shutil.copy(self.folder / "graph.vis.db", viewed / "build_1.vis.db")

    def _models(self) -> None:
        body = [
            helper.make_graph([helper.make_node(op, ["x"], ["b"])], op, [], [onnx.ValueInfoProto(name="b")])
            for op in ("Abs", "Neg")
        ]
        branches = [
            helper.make_node("ReduceSum", ["x"], ["s"], keepdims=0),
            helper.make_node("Cast", ["s"], ["c"], to=9),
            helper.make_node("If", ["c"], ["y"], then_branch=body[0], else_branch=body[1]),
        ]
        layers = [
            helper.make_node("MatMul", ["x", "layers.0.weight"], ["h"], name="/layers.0/MatMul"),
            helper.make_node("Relu", ["h"], ["y"], name="/act/Relu"),
        ]
        weights = {"layers.0.weight": np.ones((4, 4), np.float32)}
        outside = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 0}
        save(self.folder, branches, {}).rename(self.folder / "branches.onnx")
        save(self.folder, layers, weights, **outside).rename(self.folder / "outside.onnx")
        save(self.folder, layers, weights)
        np.save(self.folder / "x.npy", np.ones((2, 4), np.float32))

    def _learned(self) -> None:
        """Write what commands make of the others."""
        before = Path.cwd()
        os.chdir(self.root)
        try:
            for command in ("config_check -d in/train.sh in/hyper.yaml -o in/first.zip",
                "config_check -d in/hyper.yaml -o in/second.zip", "check in/steps --learn in/relations.json",
                "noise in/good in/good -o in/learned.json", "data2db in/monitor -o out/trend",
                "data2db in/steps -o in", "accept in/result.json --reason known -o out/accepted.yaml",
                "offline_dump in/model.onnx -o in/onnx_run", "compare in/bad in/good -o in/tables",
                "compare in/bad in/good -o in/workbooks --xlsx"):  # fmt: skip
                with contextlib.redirect_stdout(io.StringIO()):
                    status = run(command.split())
                assert status == 0, command
        finally:
            os.chdir(before)
        for name in ("tables", "workbooks"):
            (table,) = (self.folder / name).glob("compare_result_rank*")
            shutil.copy(table, table.with_name(table.name.replace("rank0", "rank1")))
