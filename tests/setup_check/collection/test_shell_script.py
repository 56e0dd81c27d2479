"""Arguments of the training that a shell script starts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe.setup_check.collection.shell_script import arguments_of, read_script

CASES = {
    "launcher and blocks": (
        'LR=1e-4\nARGS="\n  --num-layers 4 \\\n  --lr $LR \\\n  --flash\n"\n'
        "torchrun --nproc_per_node 8 train.py $ARGS --seed 1",
        {"nproc_per_node": "8", "num-layers": "4", "lr": "1e-4", "flash": True, "seed": "1"},
    ),
    "plain python": ("python -u train.py --lr 0.1 > log 2>&1 &", {"lr": "0.1"}),
    "environment before the program": ("CUDA_VISIBLE_DEVICES=0 python3.11 train.py --x y", {"x": "y"}),
    "module": (
        "python -m torch.distributed.launch --nproc_per_node 2 a.py --fp16",
        {"nproc_per_node": "2", "fp16": True},
    ),
    "equals, lists, negative numbers": (
        "msrun --worker_num=8 t.py --betas 0.9 0.95 --bias -1.5 --lr=1e-5",
        {"worker_num": "8", "betas": ["0.9", "0.95"], "bias": "-1.5", "lr": "1e-5"},
    ),
    "arrays": (
        'A=(--layers 3\n  --hidden 4)\npython t.py "${A[@]}" --name "my run"',
        {"layers": "3", "hidden": "4", "name": "my run"},
    ),
    "defaults": ('python t.py --dir ${OUT:-out/x} --q "${Q:-3}"', {"dir": "out/x", "q": "3"}),
    "added": ('A="--a 1"\nA+=" --b 2"\npython t.py $A', {"a": "1", "b": "2"}),
    "Hydra": ("python t.py +trainer.lr=0.1 model.depth=3", {"trainer.lr": "0.1", "model.depth": "3"}),
    "commands are not run": ("python t.py --when $(date)", {"when": "$(date)"}),
    "two commands": ("cd x && python a.py --x 1 && python b.py --y 2 | tee log", {"x": "1", "y": "2"}),
    "a comment": ("# python t.py --x 1\npython t.py --y 2 # --z", {"y": "2"}),
    "no training": ("echo --lr 1\nexport A=1", {}),
    "a quote that nothing closes": ("python a.py --x it's\npython b.py --q 1", {"x": "it's", "q": "1"}),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_scripts(text: str, expected: dict[str, object]) -> None:
    assert read_script(text, {}).arguments == expected


def test_variables_of_the_environment() -> None:
    assert read_script("python t.py --a $A --b ${B}x --c $C", {"A": "1", "B": "2"}).arguments == {
        "a": "1",
        "b": "2x",
        "c": "$C",
    }


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z_-]{0,8}", fullmatch=True), st.from_regex(r"[a-z0-9./]{1,8}", fullmatch=True)
    )
)
def test_options_come_back(options: dict[str, str]) -> None:
    expected = {name: value for name, value in options.items() if not value.endswith(".py") and len(name) > 1}
    words = [word for name, value in expected.items() for word in (f"--{name}", value)]
    assert arguments_of(words) == expected


@given(st.text(max_size=300))
def test_no_text_fails(text: str) -> None:
    read_script(text, {"A": "$A"})


EXPORTS = {
    "export A=1 B='x y'\nexport C=$A": {"A": "1", "B": "x y", "C": "1"},
    "A=1; export A && B=2": {"A": "1"},
    "declare -x A=1": {"A": "1"},
    "A=1 B=2 python t.py --x 1": {"A": "1", "B": "2"},
    "export A=$(nproc)\nexport B=`date`": {},
    "if true; then export A=1; fi  # export B=2": {"A": "1"},
    "export MY_TOKEN=abc\nexport A=${MY_TOKEN}": {"MY_TOKEN": "***", "A": "***"},
    "A=1": {},
}


@pytest.mark.parametrize(("text", "expected"), EXPORTS.items())
def test_exported_variables(text: str, expected: dict[str, str]) -> None:
    assert read_script(text, {}).exported == expected


def test_secrets_are_not_read_from_variables() -> None:
    script = read_script('PW_SECRET=hunter2\npython t.py --x "$HF_TOKEN" --y $PW_SECRET', {"HF_TOKEN": "abc"})
    assert script.arguments == {"x": "***", "y": "***"}
