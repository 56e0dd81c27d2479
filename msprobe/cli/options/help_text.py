"""What the help of every command has in common: daily options first, each option once, and examples.

A long option may be written with ``_`` or ``-`` between its words; the help shows one of them.
"""

from __future__ import annotations

from collections.abc import Mapping

import click

OVERVIEW = (
    "msprobe run -c config.json python train.py",
    "msprobe compare run_bad run_good",
    "msprobe overflow_check run_bad",
)
"""The examples of ``msprobe --help``."""

_BARE_PATHS = "Paths stand alone, in the order of the first line, or behind their options."


def _checks(command: str) -> tuple[str, ...]:
    return (
        f"msprobe {command} run/step0/rank0 -o checked",
        f"msprobe {command} -api_info run/step0/rank0 -o checked -d npu:0 --save-error-data --fail-on error",
    )


EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "accept": (
        "msprobe accept result.json --reason 'tanh approximation, ticket 123' --expires 2030-12-31",
        "msprobe accept result.json --reason 'other gelu' --place 'Functional.gelu.*.forward' -o accepted.yaml",
    ),
    "acc_check": _checks("acc_check"),
    "anomaly_processor": ("msprobe anomaly_processor monitor_output/anomaly_detected -k 8",),
    "answers": (
        "msprobe answers answers.jsonl",
        "msprobe answers answers.jsonl --tokenizer tokenizer.json --json result.json --fail-on found",
    ),
    "api_precision_compare": (
        "msprobe api_precision_compare -npu npu/accuracy_checking_details_20260101120000.csv "
        "-gpu gpu/accuracy_checking_details_20260101120000.csv -o compared",
    ),
    "code_mapping": ("msprobe code_mapping --ir rank_0/graphs -i rank_0/Net/0/0 -o mapped",),
    "compare": (
        "msprobe compare run_bad run_good",
        "msprobe compare -tp run_bad -gp run_good --html report.html --step 0-2 --rank 0",
        "msprobe compare mindspore_run pytorch_run -lm",
        "msprobe compare -tp run -gp run_good --fail-on incomplete --junit report.xml",
        "msprobe compare -tp run -gp run_good --accept accepted.yaml --json result.json",
        "msprobe compare -m offline_model -tp model.onnx -gp pytorch_run --input_data ids.npy,mask.npy",
    ),
    "config_check": (
        "msprobe config_check -d train.sh config.yaml -o good.zip",
        "msprobe config_check good.zip bad.zip --html setup.html",
        "msprobe config_check -c checkpoint_a checkpoint_b -o similarity.json",
    ),
    "data2db": (
        "msprobe data2db run -o trend",
        "msprobe data2db -i run -o trend --micro_step true --process_num 8",
    ),
    "parse": (
        "msprobe parse -d dump/MatMul.matmul.1.2.1700000000000000 -t npy -o tensors",
        "msprobe parse dump --recursive --show",
    ),
    "doctor": ("msprobe doctor config.json", "msprobe doctor config.json -i run/step0 --world 8"),
    "import": ("msprobe import kernel_dump/rank_0 -o run",),
    "check": (
        "msprobe check run",
        "msprobe check run --json findings.json --accept known.yaml --fail-on found",
        "msprobe check good --learn relations.json",
        "msprobe check run --with relations.json",
    ),
    "graph_visualize": (
        "msprobe graph_visualize run_bad run_good -o graphs",
        "msprobe graph_visualize run -o graphs --overflow_check",
        "msprobe graph_visualize -tp run_bad -gp run_good -o graphs --rank_size 8 --tp 2 --pp 4",
    ),
    "merge_result": ("msprobe merge_result output merge.yaml -o merged",),
    "multi_acc_check": _checks("multi_acc_check -n 4"),
    "multi_run_ut": _checks("multi_run_ut -n 4"),
    "nan_analyze": ("msprobe nan_analyze run_bad/step0",),
    "noise": (
        "msprobe noise run1 run2 run3 -o noise.json",
        "msprobe noise reruns/* -o noise.json",
    ),
    "install_deps": ("msprobe install_deps", "msprobe install_deps -m offline"),
    "offline_dump": (
        "msprobe offline_dump model.onnx --input_data ids.npy,mask.npy -o onnx_run",
        "msprobe offline_dump --model_path model.onnx --input_shape 'image:1,3,224,224' --task statistics",
    ),
    "op_generate": (
        "msprobe op_generate run/step0/rank0 --api Functional.linear.0 --backward -o scripts",
        "msprobe op_generate -i config_op.json -o scripts",
    ),
    "overflow_check": (
        "msprobe overflow_check run_bad/step0",
        "msprobe overflow_check -i run_bad -o findings --fail-on found",
    ),
    "run": (
        "msprobe run -c config.json python train.py --epochs 1",
        "msprobe run -c config.json -m GPTModel -- torchrun --nproc-per-node 2 train.py",
    ),
    "run_overflow_check": ("msprobe run_overflow_check run/step0/rank0 -o overflows",),
    "run_ut": _checks("run_ut"),
    "split_inputs": ("msprobe split_inputs run_on_4_ranks run_good --target-parallel tp=2,pp=2 -o inputs",),
    "support": ("msprobe support", "msprobe support --feature summary_mode"),
    "trace": (
        "msprobe trace run/step0/rank0 Functional.linear.0.forward.output.0",
        "msprobe trace run/step0/rank0 Module.head.Linear.forward.0 --calls 0 --json trace.json",
    ),
    "validate": ("msprobe validate config.json -f pytorch",),
    "view": ("msprobe view graphs --open", "msprobe view graphs/compare_20260101120000.vis.db --html page.html"),
}

_DAILY: Mapping[str, tuple[str, ...]] = {
    "compare": (
        *("target_path", "golden_path", "output_path", "html", "xlsx", "step", "rank", "layer_mapping"),
        *("json_path", "fail_on", "junit", "diff_analyze"),
    ),
    "graph_visualize": ("target_path", "golden_path", "output_path", "step", "rank", "layer_mapping"),
    "data2db": ("input_path", "output_path", "micro_step"),
    "merge_result": ("input_path", "config", "output_path"),
}
"""Python names of the options that the help lists first."""


def complete(command: click.Command) -> click.Command:
    """Give a command its examples and the order of its options, and return it."""
    name = command.name or ""
    note = _BARE_PATHS if any(param.name == "bare_paths" for param in command.params) else None
    command.epilog = "\n\n".join(filter(None, (note, epilog(EXAMPLES.get(name, ())))))
    daily = _DAILY.get(name, ())
    places = {option: place for place, option in enumerate(daily)}
    command.params.sort(key=lambda param: places.get(param.name or "", len(places)))
    for param in command.params:
        if isinstance(param, click.Option):
            param.opts = [word for word in param.opts if word == normalized(word) or normalized(word) not in param.opts]
    return command


def normalized(word: str) -> str:
    """Return an option as it is looked up: with ``_`` between its words."""
    name = word.lstrip("-")
    return word[: len(word) - len(name)] + name.replace("-", "_")


def epilog(examples: tuple[str, ...]) -> str | None:
    """Return examples as the last paragraph of a help, each on its line; None where there are none."""
    return "\n".join(("\b", "Examples:", *(f"  {line}" for line in examples))) if examples else None
