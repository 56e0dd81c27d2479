"""The bytes and the category of each token, from whatever describes a tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from msprobe.core.errors import ReadError
from msprobe.response_anomaly import ILLDetector
from msprobe.response_anomaly.token_texts import token_texts
from tests.response_anomaly import generated_answers as generated

CORPUS = [generated.normal(seed) for seed in range(140)]


def trained() -> Any:
    """Return a byte-level BPE tokenizer that was trained on normal answers."""
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(CORPUS, vocab_size=900, special_tokens=["<|endoftext|>"], show_progress=False)
    return tokenizer._tokenizer


def test_a_real_tokenizer_object_file_and_folder_say_the_same(tmp_path: Path) -> None:
    tokenizer = trained()
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    texts = [token_texts(each) for each in (tokenizer, tmp_path, tmp_path / "tokenizer.json")]
    assert texts[0].pieces == texts[1].pieces == texts[2].pieces
    for text in CORPUS[:30]:
        ids = tokenizer.encode(text).ids
        assert b"".join(texts[0].pieces[token] for token in ids).decode() == text
    transformers = pytest.importorskip("transformers")
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>")
    assert token_texts(wrapped).pieces == texts[0].pieces
    assert token_texts(wrapped).special == {0}


def test_answers_by_token_numbers_of_a_real_tokenizer() -> None:
    tokenizer = trained()
    detector = ILLDetector()

    def kind(text: str) -> Any:
        return detector.run(None, [[*tokenizer.encode(text).ids, 0, 0]], tokenizer)[0][1]  # type: ignore[arg-type]

    assert {seed for seed in range(4000, 4060) if kind(generated.normal(seed))} == set()
    assert {kind(generated.repeated(seed)) for seed in range(4000, 4018)} == {3}
    assert {kind(generated.garbled(seed)) for seed in (1, 2, 3, 4, 7, 8)} == {2}


def test_other_ways_to_write_a_vocabulary() -> None:
    pieces = token_texts({"▁the": 0, "▁cat": 1, "<0xE6>": 2, "s": 3}).pieces
    assert [pieces[n] for n in range(4)] == [b" the", b" cat", b"\xe6", b"s"]
    pieces = token_texts({"un": 0, "##able": 1}).pieces
    assert pieces == {0: b" un", 1: b"able"}
    assert token_texts({0: "a", 1: "好"}).pieces == {0: b"a", 1: "好".encode()}
    unigram = {"model": {"vocab": [["<unk>", 0.0], ["▁hi", -1.0]]}, "added_tokens": [{"id": 2, "content": "x"}]}
    assert token_texts(unigram).pieces == {0: b"<unk>", 1: b" hi", 2: b"x"}


def test_categories() -> None:
    texts = ["the", "你好", "Привет", "123", "!?", "  ", "の", b"\xe6", "\ue000", "<|im_end|>"]
    found = token_texts(dict(enumerate(texts))).categories
    kinds = ["latin", "han", "cyrillic", "number", "sign", "space", "kana", "byte", "unreadable", "special"]
    assert list(found.values()) == kinds


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "{", "1", '{"model": {"vocab": 3}}', '{"a": "b"}', '{"model": {"vocab": {"a": "x"}}}']
)
def test_files_that_are_no_tokenizer(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(text)
    with pytest.raises(ReadError, match=r"tokenizer\.json"):
        token_texts(path)
    with pytest.raises(ReadError, match="cannot be read"):
        token_texts(tmp_path / "absent.json")


def test_a_map_of_categories_has_no_texts() -> None:
    texts = token_texts(json.loads('{"0": 1, "1": 1, "2": 4}'))
    assert (texts.pieces, texts.groups) == ({}, {0: 1, 1: 1, 2: 4})
