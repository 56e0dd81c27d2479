"""Answers in files: one JSON document a line, as servers return them.

Known are chat completions and completions of the OpenAI interface (vLLM, SGLang, llama.cpp), ``generate`` of SGLang,
lines of ``tokens`` and ``topk_logprobs``, and lines that hold nothing but a text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from msprobe.core.errors import InterfaceError, ReadError
from msprobe.core.repeated_keys import parsed
from msprobe.response_anomaly.answer import Answer
from msprobe.response_anomaly.detector import ILLDetector
from msprobe.response_anomaly.token_texts import TokenTexts, is_special, piece_decoder, utf8

STANDARD_INPUT = "-"
_TEXTS = ("text", "content", "response", "answer", "output", "prediction", "completion", "generated_text")
_TOKENS = ("tokens", "token_ids", "output_ids", "output_token_ids")
_ROWS = ("topk_logprobs", "top_logprobs", "logprobs")
_ID = re.compile(r"token_id:(\d+)")
_NESTED = ("response_anomaly_payload", "response", "body", "message", "delta")


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """One answer of a file.

    Attributes:
        name: its line, and its number where a line holds several.
        answer: None where it could not be read.
        problem: why not.
    """

    name: str
    answer: Answer | None
    problem: str = ""


def read_answers(path: Path, tokenizer: TokenTexts | None = None) -> Iterator[StoredAnswer]:
    """Read answers one after the other; a line that cannot be understood is given with its problem.

    The path ``-`` is the standard input.

    Raises:
        ReadError: the file cannot be read, or holds no answer.
    """
    count = 0
    try:
        for number, document in _documents(path):
            for stored in _answers_of(document, f"line {number}", tokenizer):
                count += 1
                yield stored
    except OSError as error:
        raise ReadError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ReadError(f"{path}: is no text in UTF-8 ({error.reason} at byte {error.start})") from error
    if not count:
        raise ReadError(f"{path}: holds no answer; one JSON document a line is due")


def _documents(path: Path) -> Iterator[tuple[int, Any]]:
    """Return the JSON documents of the lines with their numbers; a file that is one document counts as its items."""
    is_input = str(path) == STANDARD_INPUT
    with open(0 if is_input else path, encoding="utf-8", closefd=not is_input) as stream:
        numbered = ((number, line) for number, line in enumerate(stream, 1) if line.strip())
        number, line = next(numbered, (0, ""))
        if line.strip() in ("[", "{") or line.startswith("["):
            yield from _whole(line + "".join(text for _, text in numbered))
        elif line:
            yield number, _document(line)
            yield from ((number, _document(line)) for number, line in numbered)


def _document(line: str) -> Any:
    """Return what a line holds, or the error that says why it cannot be read."""
    try:
        return parsed(line)
    except (ValueError, RecursionError) as error:
        return ReadError(f"is no JSON: {error}")


def _whole(text: str) -> Iterator[tuple[int, Any]]:
    try:
        document = parsed(text)
    except (ValueError, RecursionError) as error:
        raise ReadError(f"the file is no JSON, and no line of it is: {error}") from error
    yield from enumerate(document if isinstance(document, list) else [document], 1)


def _answers_of(document: Any, name: str, tokenizer: TokenTexts | None) -> Iterator[StoredAnswer]:
    if isinstance(document, ReadError):
        yield StoredAnswer(name, None, document.error_info)
        return
    choices = document.get("choices") if isinstance(document, Mapping) else None
    several = choices if isinstance(choices, list) and choices else [document]
    for number, choice in enumerate(several):
        label = name if len(several) == 1 else f"{name}, answer {number}"
        try:
            answer = _answer(choice, tokenizer)
        except (InterfaceError, ReadError) as error:
            yield StoredAnswer(label, None, error.error_info)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
            yield StoredAnswer(label, None, f"its content has another form than that of any known server: {error!r}")
        else:
            yield StoredAnswer(
                label, answer, "" if answer else f"has none of {', '.join(_TEXTS[:4])}, tokens, logprobs"
            )


def _answer(document: Any, tokenizer: TokenTexts | None) -> Answer | None:
    if isinstance(document, str):
        return Answer.of_text(document)
    if not isinstance(document, Mapping):
        return None
    found = _of_logprobs(document, tokenizer) or _of_tokens(document, tokenizer)
    if found is not None:
        return found
    for key in _TEXTS:
        if isinstance(document.get(key), str):
            return Answer.of_text(document[key])
    nested = (document[key] for key in _NESTED if isinstance(document.get(key), Mapping))
    return next((answer for each in nested if (answer := _answer(each, tokenizer)) is not None), None)


def _of_logprobs(document: Mapping[str, Any], tokenizer: TokenTexts | None) -> Answer | None:
    """Return the answer of ``logprobs`` as the OpenAI interface has them, or of ``meta_info`` of SGLang."""
    given = document.get("logprobs")
    if isinstance(given, Mapping) and isinstance(given.get("content"), list):
        return _of_content(given["content"], tokenizer)
    if isinstance(given, Mapping) and isinstance(given.get("tokens"), list):
        rows = given.get("top_logprobs") or [None] * len(given["tokens"])
        chosen = given.get("token_logprobs") or [None] * len(given["tokens"])
        pairs = [
            {**(row or {}), **({token: value} if value is not None or n else {})}
            for n, (token, row, value) in enumerate(zip(given["tokens"], rows, chosen, strict=True))
        ]
        recorded = any(value is not None for value in chosen) or any(rows)
        return _of_texts(given["tokens"], pairs if recorded else None, tokenizer)
    meta = document.get("meta_info")
    if isinstance(meta, Mapping) and isinstance(meta.get("output_token_logprobs"), list):
        chosen = meta["output_token_logprobs"]
        top = meta.get("output_top_logprobs") or [[] for _ in chosen]
        rows = [{each[1]: each[0] for each in [*(row or []), one]} for one, row in zip(chosen, top, strict=True)]
        texts = [one[2] if len(one) > 2 else None for one in chosen]
        answer = _detector().answer([one[1] for one in chosen], rows, tokenizer)
        if tokenizer is None and all(isinstance(text, str) for text in texts):
            return replace(answer, pieces=[utf8(str(text)) for text in texts[: len(answer.ids)]])
        return answer
    return None


def _of_content(content: list[Any], tokenizer: TokenTexts | None) -> Answer:
    tokens = [entry["token"] for entry in content]
    rows = [
        {
            **{each["token"]: each["logprob"] for each in entry.get("top_logprobs") or ()},
            entry["token"]: entry["logprob"],
        }
        for entry in content
    ]
    answer = _of_texts(tokens, rows, tokenizer)
    given = [entry.get("bytes") for entry in content]
    if tokenizer is None and all(isinstance(each, list) for each in given):
        return replace(answer, pieces=[bytes(each) for each in given[: len(answer.ids)]])
    return answer


def _of_tokens(document: Mapping[str, Any], tokenizer: TokenTexts | None) -> Answer | None:
    tokens = next((document[key] for key in _TOKENS if isinstance(document.get(key), list)), None)
    if tokens is None:
        return None
    rows = next((document[key] for key in _ROWS if isinstance(document.get(key), list)), None)
    if all(isinstance(token, str) for token in tokens) and tokens:
        return _of_texts(tokens, rows, tokenizer)
    answer = _detector().answer(tokens, rows, tokenizer)
    text = next((document[key] for key in _TEXTS if isinstance(document.get(key), str)), None)
    if answer.pieces is None and text is not None and rows is None:
        return Answer.of_text(text)
    return answer


@lru_cache(maxsize=1)
def _detector() -> ILLDetector:
    return ILLDetector()  # reads its settings from a file


def _of_texts(tokens: list[str], rows: Any, tokenizer: TokenTexts | None) -> Answer:
    """Return the answer of tokens that are texts; the text ``token_id:7`` stands for a number."""
    numbers = [_ID.fullmatch(token) for token in tokens]
    if tokens and all(numbers):
        ids = [int(match.group(1)) for match in numbers if match]
        by_id = (
            None if rows is None else [{_number_of(key): value for key, value in (row or {}).items()} for row in rows]
        )
        return _detector().answer(ids, by_id, tokenizer)
    answer = _detector().answer(tokens, rows)
    end = len(tokens)
    while end and is_special(tokens[end - 1]):
        end -= 1
    decode = piece_decoder(tokens)
    kept = answer.candidates[:end] if answer.candidates is not None else None
    return replace(answer, ids=tokens[:end], candidates=kept, pieces=[decode(token) for token in tokens[:end]])


def _number_of(key: Any) -> Any:
    match = _ID.fullmatch(str(key))
    return int(match.group(1)) if match else key
