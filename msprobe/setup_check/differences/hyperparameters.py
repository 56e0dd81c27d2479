"""Differences of hyperparameters: paired by exact name, by the last part of the name, by synonym, or by similarity.

Each row says how its two names were paired (``matched_with``): ``pure name`` (the whole name, or the last part of
dotted names with ``-`` as ``_``), ``mapping`` (synonyms, ``SYNONYMS``), ``similarity:0.94`` (of both texts, above 0.8).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from msprobe.setup_check.differences.section import Row, Section, one_sided
from msprobe.setup_check.document import SetupDocument

COLUMNS = (
    "file_name",
    "bench_para",
    "cmp_para",
    "bench_value",
    "cmp_value",
    "matched_with",
    "level",
    "reason",
)
SYNONYMS: tuple[frozenset[str], ...] = tuple(
    frozenset(names.split())
    for names in (
        "learning_rate lr learningrate base_lr base_learning_rate",
        "batch_size batch bs batch_size_per_gpu per_device_train_batch_size micro_batch_size "
        "train_micro_batch_size_per_gpu",
        "global_batch_size train_batch_size gbs",
        "epochs epoch num_epochs num_train_epochs n_epochs max_epochs",
        "max_steps train_iters num_steps total_steps max_train_steps train_steps",
        "weight_decay wd decay",
        "dropout dropout_rate drop_rate dropout_p hidden_dropout hidden_dropout_prob",
        "attention_dropout attn_dropout attention_probs_dropout_prob",
        "dtype compute_dtype params_dtype torch_dtype precision mixed_precision",
        "optimizer optim optimizer_name optimizer_type opt",
        "seed random_seed rng_seed manual_seed data_seed",
        "num_layers num_layer n_layer n_layers num_hidden_layers depth layers",
        "hidden_size hidden_dim d_model n_embd embed_dim dim",
        "num_attention_heads num_heads n_head n_heads heads",
        "num_key_value_heads num_query_groups n_kv_heads",
        "ffn_hidden_size intermediate_size ffn_dim d_ff mlp_dim",
        "seq_length seq_len sequence_length max_seq_length max_seq_len max_length block_size context_length",
        "vocab_size padded_vocab_size num_embeddings",
        "clip_grad gradient_clip max_grad_norm grad_clip gradient_clipping clip_norm gradient_clip_val",
        "gradient_accumulation_steps grad_accum grad_accumulation accumulate_grad_batches gradient_accumulation",
        "warmup_steps num_warmup_steps lr_warmup_iters warmup_iters lr_warmup_steps",
        "warmup_ratio lr_warmup_fraction warmup_fraction",
        "lr_decay_style lr_scheduler lr_scheduler_type scheduler",
        "min_lr lr_min eta_min minimum_lr",
        "adam_beta1 beta1 beta_1",
        "adam_beta2 beta2 beta_2",
        "adam_eps adam_epsilon eps epsilon",
        "tensor_model_parallel_size tp tp_size tensor_parallel_size tensor_parallel",
        "pipeline_model_parallel_size pp pp_size pipeline_parallel_size",
        "context_parallel_size cp cp_size",
        "expert_model_parallel_size ep ep_size expert_parallel_size",
        "data_parallel_size dp dp_size",
        "layernorm_epsilon norm_epsilon rms_norm_eps layer_norm_eps norm_eps",
        "rotary_base rope_theta rotary_emb_base",
        "data_path dataset dataset_path train_data train_files train_file",
    )
)
_SIMILAR = 0.8
_LONGEST_COMPARED = 2_000
"""Beyond so many names without a partner, names are not compared letter by letter: that would take too long."""
_MATTERS: tuple[tuple[str, str], ...] = (
    ("seed", "other random numbers"),
    ("data_path train_files val_files split shuffle num_workers", "other samples, or in another order"),
    (
        "learning_rate min_lr weight_decay optimizer adam_beta1 adam_beta2 betas adam_eps momentum clip_grad "
        "warmup_steps warmup_ratio lr_decay_style",
        "the optimizer moves the parameters by other amounts",
    ),
    ("batch_size global_batch_size gradient_accumulation_steps", "gradients are averages over other samples"),
    ("epochs max_steps", "the training ends at another step; schedules of the learning rate follow it"),
    (
        "dtype bf16 fp16 tf32 fp8 accumulate_allreduce_grads_in_fp32 attention_softmax_in_fp32 loss_scale",
        "operations round to another number of bits",
    ),
    ("dropout attention_dropout", "other elements are left out"),
    (
        "num_layers hidden_size num_attention_heads num_key_value_heads ffn_hidden_size vocab_size layernorm_epsilon "
        "rotary_base seq_length",
        "it is another model",
    ),
    (
        "tensor_model_parallel_size pipeline_model_parallel_size context_parallel_size expert_model_parallel_size "
        "data_parallel_size nproc_per_node nnodes worker_num",
        "sums are split over other ranks, so their order differs",
    ),
)
_PLACES = (
    "output_dir",
    "logging_dir",
    "save",
    "log_interval",
    "logging_steps",
    "logging_first_step",
    "tensorboard_dir",
    "run_name",
    "wandb_project",
    "save_steps",
    "save_interval",
    "save_dir",
    "log_dir",
    "master_port",
    "master_addr",
    "node_rank",
    "output_zip_path",
    "report_to",
)
"""Where results go, and how often something is told: a difference is a warning."""
_ONLY_FIRST, _ONLY_SECOND = "Only in benchmark", "Only in comparison"


@dataclass(frozen=True, slots=True)
class _Pair:
    first: str | None
    second: str | None
    how: str | None


def compare_hyperparameters(first: SetupDocument, second: SetupDocument) -> Section:
    """Return the hyperparameters that differ, in one sheet; those of one side are warnings."""
    sides = (first.hyperparameters, second.hyperparameters)
    missing = one_sided("hyperparameters", COLUMNS, *sides)
    if missing is not None:
        return missing
    rows: list[Row] = []
    for one, other in _sources(*sides):
        left, right = sides[0].get(one, {}), sides[1].get(other, {})
        name = one if one == other or not other else other if not one else f"{one} | {other}"
        rows += [row for pair in _pairs(left, right) for row in _rows(name, pair, left, right)]
    order = sorted(rows, key=lambda row: (row["bench_para"] or "", row["cmp_para"] or ""))
    return Section("hyperparameters", COLUMNS, tuple(order))


def _sources(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the names of the tables to compare.

    Two machines may name their files differently: after tables of one name, files of one kind are paired in the order
    in which they were given, and at last the only table that is left on each side.
    """
    pairs = [(name, name) for name in first if name in second]
    left = [name for name in first if name not in second]
    right = [name for name in second if name not in first]
    for one in list(left):
        other = next((other for other in right if _file_kind(one) and _file_kind(one) == _file_kind(other)), None)
        if other is not None:
            left.remove(one)
            right.remove(other)
            pairs.append((one, other))
    if len(left) == len(right) == 1:
        return [*pairs, (left[0], right[0])]
    return [*pairs, *((name, "") for name in left), *(("", name) for name in right)]


def _file_kind(source: str) -> str:
    """Return the suffix of a file; empty for what is no file, such as the command line."""
    return PurePath(source).suffix.lower().replace(".yml", ".yaml")


def _pairs(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[_Pair]:
    """Pair names, the surest way first; each name is used once."""
    pairs = [_Pair(name, name, "pure name") for name in first if name in second]
    left = [name for name in first if name not in second]
    right = [name for name in second if name not in first]
    for how, key in (("pure name", _pure), ("mapping", _synonym)):
        pairs += _pair_by(left, right, how, key)
    pairs += _pair_similar(left, right)
    return [*pairs, *(_Pair(name, None, None) for name in left), *(_Pair(None, name, None) for name in right)]


def _pair_by(left: list[str], right: list[str], how: str, key: Any) -> list[_Pair]:
    """Pair and remove the names whose key is the same, and is not empty."""
    waiting: dict[str, list[str]] = {}
    for name in right:
        waiting.setdefault(key(name), []).append(name)
    pairs = []
    for name in list(left):
        candidates = waiting.get(key(name)) if key(name) else None
        if candidates:
            partner = candidates.pop(0)
            left.remove(name)
            right.remove(partner)
            pairs.append(_Pair(name, partner, how))
    return pairs


def _pair_similar(left: list[str], right: list[str]) -> list[_Pair]:
    """Pair and remove names that look alike, the most similar ones first."""
    if len(left) * len(right) > _LONGEST_COMPARED**2 // 4:
        return []
    scores = ((_similarity(_pure(one), _pure(other)), one, other) for one in left for other in right)
    pairs = []
    for score, one, other in sorted((entry for entry in scores if entry[0] > _SIMILAR), key=lambda entry: -entry[0]):
        if one in left and other in right:
            left.remove(one)
            right.remove(other)
            pairs.append(_Pair(one, other, f"similarity:{score}"))
    return pairs


def _similarity(first: str, second: str) -> float:
    """Return how alike two names are, from 0 to 1; 0 where a bound says that they are not alike enough."""
    matcher = difflib.SequenceMatcher(None, first, second)
    return matcher.ratio() if matcher.real_quick_ratio() > _SIMILAR < matcher.quick_ratio() else 0.0


def _pure(name: str) -> str:
    return name.rpartition(".")[2].replace("-", "_").lower()


def _synonym(name: str) -> str:
    """Return the first of all names that mean the same; empty for a name without synonyms."""
    pure = _pure(name)
    return next((min(names) for names in SYNONYMS if pure in names), "")


def _rows(source: str, pair: _Pair, first: Mapping[str, Any], second: Mapping[str, Any]) -> Sequence[Row]:
    if pair.first is None or pair.second is None:
        side, name = (second, pair.second) if pair.first is None else (first, pair.first)
        assert name is not None
        cells = (
            (_ONLY_SECOND, name, None, _alone(side[name]))
            if pair.first is None
            else (name, _ONLY_FIRST, _alone(side[name]), None)
        )
        return [_row(source, cells, None, "warning", "one side uses its default, which the other may not have")]
    values = (first[pair.first], second[pair.second])
    if _equal(*values):
        return []
    cells = (pair.first, pair.second, *map(_shown, values))
    if _mean_the_same(*values):
        return [_row(source, cells, pair.how, "warning", "the same value, written in another way")]
    if _pure(pair.first) in _PLACES:
        return [
            _row(source, cells, pair.how, "warning", "where and how often results are written; values stay as they are")
        ]
    return [_row(source, cells, pair.how, "error", _reason(pair.first))]


def _row(source: str, cells: tuple[Any, ...], how: str | None, level: str, reason: str) -> Row:
    return dict(zip(COLUMNS, (source, *cells, how, level, reason), strict=True))


def _shown(value: Any) -> Any:
    return value if value is None or isinstance(value, str) else str(value)


def _alone(value: Any) -> Any:
    """Return a value without a partner: a number stays one, as in the published sheets."""
    return value if isinstance(value, (int, float)) else _shown(value)


def _equal(first: Any, second: Any) -> bool:
    return str(first) == str(second)


def _mean_the_same(first: Any, second: Any) -> bool:
    """Return whether two values are one number or truth: ``1e-4`` and ``0.0001``, ``True`` and ``true``."""
    if None in (first, second) or isinstance(first, list) or isinstance(second, list):
        return False
    return meaning(first) == meaning(second)


def meaning(value: Any) -> float | str:
    """Return what a value says, however it is written: a number, or its text in lower case."""
    text = str(value).strip().lower()
    try:
        return float(text)
    except ValueError:
        return text


def _reason(name: str) -> str:
    pure, synonym = _pure(name), _synonym(name)
    for names, reason in _MATTERS:
        if any(pure == one or (synonym and synonym == _synonym(one)) for one in names.split()):
            return reason
    return "the two runs train differently"
