"""The search for odd answers, as one function, and as the class and the function of the published tool.

from msprobe.response_anomaly import ILLDetector

detector = ILLDetector()
answer = detector.answer(tokens, topk_logprobs, tokenizer)
for finding in detector.findings(answer):
    print(finding.kind, finding.start, finding.end, finding.reason)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from msprobe.core.errors import InterfaceError, ReadError, argument_text
from msprobe.core.log import logger
from msprobe.response_anomaly.answer import Answer, Finding
from msprobe.response_anomaly.garbled import find_garbled
from msprobe.response_anomaly.likelihood import likelihood, not_numbers
from msprobe.response_anomaly.rare_characters import find_rare
from msprobe.response_anomaly.repetition import find_repetition
from msprobe.response_anomaly.settings import Settings, model_key, read_models, read_settings
from msprobe.response_anomaly.token_texts import TokenTexts, token_texts

_FOLDER = Path(__file__).parent
_CACHED_FILES = 4
_DEFAULT = Settings()


class DetectionResult(NamedTuple):
    """Whether an answer is odd, and its type (0 ok, 1 rare character, 2 garbled, 3 repetition, 4 NaN)."""

    is_ill: bool
    ill_type: int


def find_odd(answer: Answer, settings: Settings = _DEFAULT) -> list[Finding]:
    """Return what is odd in an answer, the gravest first.

    NaN comes first, because it explains everything else. Of a loop and garbled text the longer one comes first: a loop
    of garbled words is both. A rare character is looked for only in a text that is neither.
    """
    size, stride = settings.window_size, settings.stride
    found = []
    if nan := not_numbers(answer):
        found.append(nan)
    likely = None if nan else likelihood(answer)
    parts = [
        find_repetition(answer, settings.repetition.trajectory, size, stride),
        find_garbled(answer, likely, settings.garbled, size, stride),
    ]
    found += sorted((part for part in parts if part), key=lambda part: part.start - part.end)
    if not found and (rare := find_rare(answer, likely, settings.rare_character)):
        found.append(rare)
    return found


class ILLDetector:
    """The search with its settings and with what is known of each model.

    Args:
        config_path: thresholds (YAML); the packaged ones where it is left out.
        mtype_path: the special tokens of each model (JSON).
        tk2cat_path: a folder with a file for each model, named after it: a ``tokenizer.json`` or a map from token to
            category (``NAME_END.json``, END being the token that ends an answer); or one such file for all models.

    Raises:
        MsprobeException: a file cannot be read, or something in it is wrong.
    """

    def __init__(
        self,
        config_path: str | Path | None = None,
        mtype_path: str | Path | None = None,
        tk2cat_path: str | Path | None = None,
    ) -> None:
        self.settings = read_settings(config_path or _FOLDER / "configs" / "config.yaml")
        self._special = read_models(mtype_path)
        self._files = _files_of_models(Path(tk2cat_path)) if tk2cat_path else {}
        self._unknown: set[str] = set()

    def run(
        self, topk_logprobs: Sequence[Any] | None, tokens: Sequence[Any], model_configs: Any = None
    ) -> list[list[bool | int]]:
        """Return ``[is_ill, type]`` for each answer.

        Args:
            topk_logprobs: for each answer, for each token, a dict from token to log-probability; None for an answer
                without them.
            tokens: for each answer the ids of its tokens.
            model_configs: for each answer the name of its model, its tokenizer, or the path of its ``tokenizer.json``;
                one of them for all answers; or None.

        Raises:
            InterfaceError: the arguments do not fit each other.
        """
        if not hasattr(tokens, "__len__"):
            raise InterfaceError(f"tokens are a list of token ids for each answer, got {argument_text(tokens)}")
        count = len(tokens)
        rows: Sequence[Any] = [None] * count if topk_logprobs is None else topk_logprobs
        models = list(model_configs) if isinstance(model_configs, (list, tuple)) else [model_configs] * count
        if len(rows) != count or len(models) != count:
            raise InterfaceError(
                f"{count} answers have {len(rows)} lists of log-probabilities and {len(models)} models; each needs one"
            )
        return [list(self.detector(*each)) for each in zip(rows, tokens, models, strict=True)]

    def detector(self, topk_logprobs: Any, tokens: Sequence[Any], model_config: Any = None) -> DetectionResult:
        """Return whether one answer is odd, and its type."""
        found = self.findings(self.answer(tokens, topk_logprobs, model_config))
        return DetectionResult(bool(found), found[0].kind if found else 0)

    def findings(self, answer: Answer) -> list[Finding]:
        """Return what is odd in an answer, with place and reason, the gravest first."""
        return find_odd(answer, self.settings)

    def answer(self, tokens: Sequence[Any], topk_logprobs: Any = None, model: Any = None) -> Answer:
        """Return the answer of these tokens; special tokens at its end do not belong to it.

        Raises:
            InterfaceError: the lengths differ, or a value is no number.
        """
        ids = [int(token) if not isinstance(token, str) else token for token in tokens]
        rows = None if topk_logprobs is None else [_row(place, row) for place, row in enumerate(topk_logprobs)]
        if rows is not None and len(rows) != len(ids):
            raise InterfaceError(f"{len(ids)} tokens have {len(rows)} rows of log-probabilities; each token needs one")
        texts = self._texts_of(model)
        special = (texts.special if texts else frozenset()) | self._special.get(model_key(model), frozenset())
        end = len(ids)
        while end and ids[end - 1] in special:
            end -= 1
        answer = Answer(ids[:end], candidates=rows[:end] if rows else None)
        if texts is None:
            return answer
        if texts.groups is not None:
            return replace(answer, groups=texts.groups)
        return replace(answer, pieces=[texts.pieces.get(token, b"") for token in answer.ids])

    def _texts_of(self, model: Any) -> TokenTexts | None:
        if model is None:
            return self._of_file(self._files.get(""))
        if not isinstance(model, (str, Path)):
            return _cached_texts(model)
        found = self._files.get(model_key(model)) or self._files.get("")
        if found is None and Path(model).exists():
            found = Path(model)
        if found is None and str(model) not in self._unknown:
            self._unknown.add(str(model))
            logger.info(
                f"no tokenizer for the model {str(model)!r}: its answers are judged by token numbers and "
                "log-probabilities; give a tokenizer, the path of its tokenizer.json, or tk2cat_path"
            )
        return self._of_file(found)

    def _of_file(self, path: Path | None) -> TokenTexts | None:
        return None if path is None else _texts_of_file(path, _changed(path))


def analyze_output_anomaly(
    topk_logprobs: Sequence[Any] | None, tokens: Sequence[Any], model_configs: Any = None
) -> list[list[bool | int]]:
    """Return ``[is_ill, type]`` for each answer; see ``ILLDetector.run``.

    Example:
        >>> analyze_output_anomaly(None, [[1, 2, 3], [7] * 200])
        [[False, 0], [True, 3]]
    """
    return _packaged_detector().run(topk_logprobs, tokens, model_configs)


@lru_cache(maxsize=1)
def _packaged_detector() -> ILLDetector:
    folder = _FOLDER / "token2category"
    return ILLDetector(None, _FOLDER / "configs" / "mtype_config.json", folder if folder.is_dir() else None)


def _row(place: int, row: Any) -> dict[Any, float]:
    """Return the candidates of one token; keys that are numbers in a text are numbers, null is NaN."""
    if row is None:
        return {}
    if not isinstance(row, Mapping):
        raise InterfaceError(f"token {place}: its log-probabilities are a {type(row).__name__}, and not a dict")
    try:
        return {_key(key): _number(value) for key, value in row.items()}
    except (TypeError, ValueError) as error:
        raise InterfaceError(f"token {place}: a log-probability is no number: {error}") from error


def _key(key: Any) -> Any:
    return int(key) if not isinstance(key, str) or key.isdecimal() else key


def _number(value: Any) -> float:
    return float("nan") if value is None else float(getattr(value, "logprob", value))


def _files_of_models(path: Path) -> dict[str, Path]:
    """Return the file of each model; a file that is for all has the name ""."""
    if path.is_file():
        return {"": path}
    if not path.is_dir():
        raise ReadError(f"{path}: there is no such file or folder of tokenizers")
    files = {model_key(each.parent.name): each for each in sorted(path.glob("*/tokenizer.json"))}
    for each in sorted(path.glob("*.json")):
        name, _, end = each.stem.rpartition("_")
        files[model_key(name if name and end.isdigit() else each.stem)] = each
    return files


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError as error:
        raise ReadError(f"{path}: cannot be read: {error.strerror}") from error


@lru_cache(maxsize=_CACHED_FILES)
def _texts_of_file(path: Path, changed: float) -> TokenTexts:
    return token_texts(path)


_by_object: dict[int, tuple[Any, TokenTexts]] = {}


def _cached_texts(source: Any) -> TokenTexts:
    """Return the texts of a tokenizer object, computed once while it is one of the last few."""
    known = _by_object.get(id(source))
    if known is not None and known[0] is source:
        return known[1]
    texts = token_texts(source)
    if len(_by_object) >= _CACHED_FILES:
        _by_object.pop(next(iter(_by_object)))
    _by_object[id(source)] = (source, texts)
    return texts
