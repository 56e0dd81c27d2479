"""Which variables are collected, and that secrets are not."""

from __future__ import annotations

import pytest

from msprobe.setup_check.collection.environment import (
    BY_NAME,
    VARIABLES,
    collect_environment,
    is_secret,
    without_credentials,
)


def test_only_listed_variables() -> None:
    given = {"NCCL_ALGO": "Ring", "HOME": "/root", "OMP_NUM_THREADS": "2", "MY_TOKEN": "x", "HCCL_IF_IP": "1.2.3.4"}
    assert list(collect_environment(given)) == ["HCCL_IF_IP", "NCCL_ALGO", "OMP_NUM_THREADS"]


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "WANDB_API_KEY", "VLLM_API_KEY", "password", "AWS_SECRET_ACCESS_KEY", "api-key", "token", "NCCL_AUTH"],
)
def test_secrets_are_known(name: str) -> None:
    assert is_secret(name)
    assert collect_environment({name: "x"}) == {}


@pytest.mark.parametrize(
    "name",
    ["max_tokens", "pad_token_id", "tokenizer", "tokenizer_path", "image_token_index", "author", "NCCL_ALGO", "seed"],
)
def test_settings_are_no_secrets(name: str) -> None:
    assert not is_secret(name)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("http://me:pw@host/x", "http://***@host/x"),
        ("https://host/x?token=abc&b=2", "https://host/x?token=***&b=2"),
        ("python t.py --hf_token abc --max_tokens 5", "python t.py --hf_token *** --max_tokens 5"),
        ("--api-key=zzz --lr 1", "--api-key=*** --lr 1"),
        ("/data/a --tokenizer b", "/data/a --tokenizer b"),
        ('{"api_key": "abc", "lr": 1}', '{"api_key": "***", "lr": 1}'),
        ("--header Authorization: Bearer abc", "--header Authorization: ***"),
        ("hf_abcdefghijklmnopqrstuv", "***"),
        ("--prompt_key text --max_tokens 5", "--prompt_key text --max_tokens 5"),
    ],
)
def test_credentials_are_replaced(text: str, clean: str) -> None:
    assert without_credentials(text) == clean


def test_every_variable_has_a_reason_and_one_meaning() -> None:
    assert all(variable.reason for variable in VARIABLES)
    assert len(BY_NAME) == len({name for one in VARIABLES for name in {one.npu, one.gpu} if name})
    assert sum(len({one.npu, one.gpu} - {""}) for one in VARIABLES) == len(BY_NAME)
