"""Commands and options of the published tool that msprobe has under other names or not at all, and what to do instead.

``command_advice`` and ``option_advice`` answer for one word of a command line. The tables are small: a wrong command
line loads them, and so does one with options, before click could take ``-ofs FILE`` for ``-o fs``.
"""

from collections.abc import Mapping

_RECORD_BOTH = "record the run on both devices and compare the two dumps with msprobe compare"
_ASCEND_FILES = "compares files of an Ascend tool chain; leave it out and give two dumps with -tp and -gp"
_MODEL_FILES = "belongs to -m offline_model, which runs model files; leave it out and give two dumps with -tp and -gp"
_RULE_FILES = f"belongs to -m offline_data, which {_ASCEND_FILES}"
_OLD_COMPARE = "gave a compare.json; write its npu_path after -tp and its bench_path after -gp"

_COMMANDS: Mapping[str, str] = {
    "parse": "converts files of an Ascend tool chain; a kernel dump of MindSpore is read with msprobe import",
    "offline_dump": "runs model files (ONNX, OM), which msprobe does not do; record the training or inference script "
    "with msprobe run",
    "install_deps": "installs packages for model files; msprobe needs none: pip install 'msprobe[report]' "
    "reads xlsx tables",
    "graph": "is msprobe graph_visualize -tp DUMP -o FOLDER",
    "config_checking": "is msprobe config_check",
}

_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "compare": {
        **dict.fromkeys(("-i", "--input_path", "--input-path"), _OLD_COMPARE),
        **dict.fromkeys(("-s", "--stack_mode"), "is not needed: call stacks are read where the dump has them"),
        **dict.fromkeys(("-c", "--compare_only"), "is not needed: there is no advisor to switch off; leave it out"),
        "-f": "is -fm (--fuzzy_match)",
        "-oc": "is an option of graph_visualize; msprobe overflow_check -i DUMP names the first NaN",
        **dict.fromkeys(("-hl", "--highlight"), "is not needed: --xlsx and --html colour rows by verdict"),
        **dict.fromkeys(("-fr", "--fusion_rule_file"), _RULE_FILES),
        **dict.fromkeys(("-qfr", "--quant_fusion_rule_file"), _RULE_FILES),
        **dict.fromkeys(("-cfr", "--close_fusion_rule_file"), _RULE_FILES),
        **dict.fromkeys(
            ("--input_data", "--input_shape", "--output_size", "--dym_shape_range", "-ofs", "--onnx_fusion_switch"),
            _MODEL_FILES,
        ),
    },
    "graph_visualize": {
        **dict.fromkeys(("-i", "--input_path", "--input-path"), _OLD_COMPARE),
        "-f": "is -fm (--fuzzy_match)",
    },
}


def command_advice(name: str) -> str:
    """Return what to do instead of the command ``name`` of the published tool; "" for a name it does not have."""
    return _COMMANDS.get(name, "")


def option_advice(command: str, word: str) -> str:
    """Return what to do instead of an option of the published tool; "" for any other word.

    Args:
        command: the name of a command of msprobe.
        word: a word of the command line, as ``-fr`` or ``--input_data=x``.
    """
    return _OPTIONS.get(command, {}).get(word.partition("=")[0], "")


def mode_advice(mode: str) -> str:
    """Return what to do instead of a mode of ``compare`` other than ``auto``."""
    return f"{mode} {_ASCEND_FILES}"
