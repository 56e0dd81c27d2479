"""Answers as servers write them, and lines that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from msprobe.core.errors import ReadError
from msprobe.response_anomaly.answer_files import read_answers
from msprobe.response_anomaly.detector import find_odd
from msprobe.response_anomaly.token_texts import token_texts
from tests.response_anomaly import generated_answers as generated

LOOP = "So it goes. " + "and again " * 80


def chat(text: str, with_bytes: bool = True) -> dict[str, Any]:
    """Return a chat completion as vLLM returns it."""
    texts = generated.tokens(text)
    content = [
        {
            "token": token,
            "logprob": row[token],
            "bytes": list(token.encode()) if with_bytes else None,
            "top_logprobs": [{"token": key, "logprob": value} for key, value in row.items()],
        }
        for token, row in zip(texts, generated.candidates(texts, 1), strict=True)
    ]
    message = {"role": "assistant", "content": text}
    return {"id": "chatcmpl-1", "choices": [{"index": 0, "message": message, "logprobs": {"content": content}}]}


def completion(text: str) -> dict[str, Any]:
    """Return a completion of the older interface."""
    texts = generated.tokens(text)
    rows = generated.candidates(texts, 2)
    values = [row[token] for token, row in zip(texts, rows, strict=True)]
    return {"choices": [{"text": text, "logprobs": {"tokens": texts, "token_logprobs": values, "top_logprobs": rows}}]}


def sglang(text: str) -> dict[str, Any]:
    """Return what ``generate`` of SGLang returns."""
    texts = generated.tokens(text)
    chosen = [[-0.3, number, token] for number, token in enumerate(texts)]
    top = [[[-0.3, number, token], [-2.0, 9999, "x"]] for number, token in enumerate(texts)]
    return {"text": text, "meta_info": {"output_token_logprobs": chosen, "output_top_logprobs": top}}


FORMS = {
    "chat": chat(LOOP),
    "chat without bytes": chat(LOOP, with_bytes=False),
    "completion": completion(LOOP),
    "sglang": sglang(LOOP),
    "text": {"text": LOOP},
    "a message alone": {"choices": [{"message": {"content": LOOP}, "logprobs": None}]},
    "a string": LOOP,
    "payload": {"id": 3, "response_anomaly_payload": {"tokens": [7, 8] * 100, "topk_logprobs": None}},
    "token ids as texts": {"choices": [{"logprobs": {"content": [{"token": "token_id:7", "logprob": -0.1}] * 150}}]},
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_read(tmp_path: Path, form: str) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps(FORMS[form]) + "\n\n" + json.dumps(FORMS[form]) + "\n")
    found = list(read_answers(path))
    assert [each.name for each in found] == ["line 1", "line 3"]
    assert [find_odd(each.answer)[0].kind for each in found if each.answer] == [3, 3]


def test_several_answers_of_one_line_and_a_file_that_is_one_document(tmp_path: Path) -> None:
    two = {"choices": [*chat("Yes.")["choices"], *chat(LOOP)["choices"]]}
    path = tmp_path / "answers.json"
    path.write_text(json.dumps([two, {"text": "fine"}], indent=1))
    assert [each.name for each in read_answers(path)] == ["line 1, answer 0", "line 1, answer 1", "line 2"]


def test_raw_tokens_of_byte_level_vocabularies_are_decoded(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps({"tokens": ["Hello", "Ġthe", "ä½ł", "å¥½", "Ċ", "<|im_end|>"]}))
    answer = next(read_answers(path)).answer
    assert answer is not None and answer.text == "Hello the你好\n"


def test_a_tokenizer_gives_texts_to_numbers(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(json.dumps({"token_ids": [0, 1, 0]}))
    answer = next(read_answers(path, token_texts({0: "a", 1: "b"}))).answer
    assert answer is not None and answer.text == "aba"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("not json", "is no JSON"),
        ('{"foo": 1}', "has none of text"),
        ("3", "has none of text"),
        ("null", "has none of text"),
        ('{"tokens": [1, 2], "logprobs": [{"1": -0.1}]}', "2 tokens have 1 rows"),
        ('{"tokens": [1], "logprobs": [{"1": "x"}]}', "is no number"),
        ('{"logprobs": {"content": [3]}}', "another form"),
        ('{"logprobs": {"content": [{"token": "a"}]}}', "another form"),
        ('{"tokens": [null]}', "another form"),
    ],
)
def test_a_line_that_is_no_answer_is_told_and_the_others_are_read(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(f'{{"text": "one"}}\n{line}\n{{"text": "three"}}\n')
    found = list(read_answers(path))
    assert [each.answer is None for each in found] == [False, True, False]
    assert problem in found[1].problem


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    empty, binary = tmp_path / "empty", tmp_path / "binary"
    empty.write_text("\n")
    binary.write_bytes(b"\xff\xfe\x00")
    for path, match in ((empty, "holds no answer"), (binary, "UTF-8"), (tmp_path, "cannot be read")):
        with pytest.raises(ReadError, match=match):
            list(read_answers(path))
