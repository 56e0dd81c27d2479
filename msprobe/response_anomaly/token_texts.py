"""The bytes of each token of a tokenizer, and its category, computed once from whatever describes the tokenizer.

A vocabulary writes bytes in one of four ways: as they are, with the 256 printable signs of byte-level BPE (``Ġ`` is a
space), with ``▁`` for a space and ``<0xE6>`` for a byte (SentencePiece), or with ``##`` before what continues a word.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from msprobe.core.errors import InterfaceError, ReadError
from msprobe.response_anomaly.characters import is_unreadable, script_of
from msprobe.response_anomaly.settings import read_document

_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
_SPECIAL = re.compile(r"<\|.*\|>|</?s>|<(?:pad|unk|bos|eos|eod|mask)>|\[(?:PAD|UNK|CLS|SEP|MASK)\]|<｜.*｜>")
_FILE = "tokenizer.json"


@dataclass(frozen=True)
class TokenTexts:
    """What is known of the tokens of a model.

    Attributes:
        pieces: the bytes of each token.
        special: tokens that are no text (begin, end, padding).
        groups: categories, where a map of the published tool is all there is; ``pieces`` is empty then.
    """

    pieces: Mapping[int, bytes]
    special: frozenset[int] = frozenset()
    groups: Mapping[int, int] | None = field(default=None)

    @cached_property
    def categories(self) -> dict[int, str]:
        """The category of each token: the script of most of its letters, else number, sign, space, byte or special."""
        return {
            token: "special" if token in self.special else category_of(piece) for token, piece in self.pieces.items()
        }


def category_of(piece: bytes) -> str:
    """Return the category of a token by ``unicodedata``."""
    try:
        text = piece.decode("utf-8")
    except UnicodeDecodeError:
        return "byte"
    scripts = Counter(script for script in map(script_of, text) if script)
    if scripts:
        return scripts.most_common(1)[0][0].lower()
    if not text.strip():
        return "space"
    if any(is_unreadable(character) for character in text):
        return "unreadable"
    return "number" if any(unicodedata.category(character)[0] == "N" for character in text) else "sign"


def token_texts(source: Any) -> TokenTexts:
    """Return the texts of a tokenizer.

    Args:
        source: a tokenizer of transformers or tokenizers, the path of a ``tokenizer.json`` or of a folder with one, or
            a dict between ids and texts; also a map from id to category, as the published tool has them.

    Raises:
        ReadError: the file is no tokenizer.
        InterfaceError: ``source`` is none of these.
    """
    if isinstance(source, TokenTexts):
        return source
    if isinstance(source, (str, Path)):
        path = Path(source)
        path = path / _FILE if path.is_dir() else path
        return _of_document(read_document(path), str(path))
    if isinstance(source, Mapping):
        return _of_document(source, "the dict of tokens")
    if callable(getattr(source, "to_str", None)):  # tokenizers.Tokenizer
        return _of_document(json.loads(source.to_str()), "the tokenizer")
    backend: Any = getattr(source, "backend_tokenizer", None)
    if callable(getattr(backend, "to_str", None)):
        special = frozenset(getattr(source, "all_special_ids", ()))
        texts = _of_document(json.loads(backend.to_str()), "the tokenizer")
        return TokenTexts(texts.pieces, texts.special | special)
    if callable(getattr(source, "get_vocab", None)):
        special = frozenset(getattr(source, "all_special_ids", ()))
        return _of_vocabulary({number: text for text, number in source.get_vocab().items()}, special)
    raise InterfaceError(
        f"a {type(source).__name__} is no tokenizer: give one of transformers or tokenizers, the path of a "
        "tokenizer.json, or a dict from token id to text"
    )


def _of_document(document: Any, name: str) -> TokenTexts:
    if not isinstance(document, Mapping) or not document:
        raise ReadError(f"{name}: is no tokenizer.json and no map of tokens")
    model = document.get("model")
    if isinstance(model, Mapping) and "vocab" in model:
        return _of_tokenizer(model["vocab"], document.get("added_tokens") or (), name)
    keys_are_ids = all(isinstance(key, int) or str(key).isdecimal() for key in document)
    values = list(document.values())
    whole = all(isinstance(value, int) and not isinstance(value, bool) for value in values)
    if keys_are_ids and all(isinstance(value, (str, bytes)) for value in values):
        return _of_vocabulary({int(key): value for key, value in document.items()}, frozenset())
    if keys_are_ids and whole and len(set(values)) <= max(256, len(values) // 4):
        return TokenTexts({}, groups={int(key): value for key, value in document.items()})
    if whole and all(isinstance(key, str) for key in document):
        return _of_vocabulary({number: text for text, number in document.items()}, frozenset())
    raise ReadError(f"{name}: is no tokenizer.json, and no map between token ids and texts or categories")


def _of_tokenizer(vocabulary: Any, added: Any, name: str) -> TokenTexts:
    try:
        if isinstance(vocabulary, Mapping):
            texts = {int(number): str(text) for text, number in vocabulary.items()}
        else:
            texts = {number: str(entry[0]) for number, entry in enumerate(vocabulary)}
        extra = {int(entry["id"]): str(entry["content"]) for entry in added}
        special = frozenset(int(entry["id"]) for entry in added if entry.get("special"))
    except (KeyError, TypeError, ValueError, OverflowError, IndexError, AttributeError) as error:
        raise ReadError(f"{name}: the vocabulary of the tokenizer is damaged: {error!r}") from error
    found = _of_vocabulary(texts, special)
    return TokenTexts({**found.pieces, **{number: utf8(text) for number, text in extra.items()}}, found.special)


def _of_vocabulary(texts: Mapping[int, str | bytes], special: frozenset[int]) -> TokenTexts:
    strings = [text for text in texts.values() if isinstance(text, str)]
    decode = piece_decoder(strings)
    pieces = {number: text if isinstance(text, bytes) else decode(text) for number, text in texts.items()}
    marked = {number for number, text in texts.items() if isinstance(text, str) and _SPECIAL.fullmatch(text)}
    return TokenTexts(pieces, special | frozenset(marked))


def utf8(text: str) -> bytes:
    """Return a text in UTF-8; half a character, which JSON may name, stays what it is."""
    return text.encode("utf-8", "surrogatepass")


def is_special(text: str) -> bool:
    """Return whether a text is written as a token that is no text, such as ``<|im_end|>``."""
    return _SPECIAL.fullmatch(text) is not None


def piece_decoder(texts: Iterable[str]) -> Callable[[str], bytes]:
    """Return the function that makes bytes of a token's text, by how most of these texts are written."""
    counts = Counter[str]()
    total = 0
    for text in texts:
        total += 1
        counts["byte_level"] += text.startswith(("Ġ", "Ċ"))
        counts["sentence_piece"] += text.startswith("▁") or _BYTE.fullmatch(text) is not None
        counts["word_piece"] += text.startswith("##") and len(text) > 2
    way, number = counts.most_common(1)[0] if counts else ("", 0)
    if not number or number < 0.02 * total:
        return utf8
    return {"byte_level": _byte_level, "sentence_piece": _sentence_piece, "word_piece": _word_piece}[way]


def _byte_signs() -> dict[str, int]:
    """Return the sign of each byte in byte-level BPE: printable bytes stand for themselves, others from U+0100 on."""
    shown = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {**{chr(byte): byte for byte in shown}, **{chr(0x100 + n): byte for n, byte in enumerate(hidden)}}


_SIGNS = _byte_signs()


def _byte_level(text: str) -> bytes:
    if all(character in _SIGNS for character in text):
        return bytes(_SIGNS[character] for character in text)
    return utf8(text)


def _sentence_piece(text: str) -> bytes:
    match = _BYTE.fullmatch(text)
    return bytes([int(match.group(1), 16)]) if match else utf8(text.replace("▁", " "))


def _word_piece(text: str) -> bytes:
    return utf8(text[2:] if text.startswith("##") else f" {text}")
