"""Commands and options of the published tool that msprobe has under other names or not at all, and what to do instead.

``command_advice`` and ``option_advice`` answer for one word of a command line. The tables are small: a wrong command
line loads them, and so does one with options, before click could take ``-ofs FILE`` for ``-o fs``.
"""

from collections.abc import Mapping

_RECORD_BOTH = "record the run on both devices and compare the two dumps with msprobe compare"
_RULE_FILES = (
    "names rules by which CANN joins operators, which msprobe does not read; leave it out: -m offline_data pairs the "
    "files of equal kernels"
)
_OLD_COMPARE = "gave a compare.json; write its npu_path after -tp and its bench_path after -gp"

_COMMANDS: Mapping[str, str] = {
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
