"""Names of weights in Megatron Core.

Names of older Megatron versions are translated, and the norms that TransformerEngine keeps in the layer behind them get
the names that they have as layers of their own.

=========================================  ===================================
name in a checkpoint                       compared as
=========================================  ===================================
``module.``, ``language_model.``           (nothing)
``encoder.``                               ``decoder.``, in a model that has no decoder of its own
``query_key_value``                        ``linear_qkv``
``dense_h_to_4h``, ``dense_4h_to_h``       ``linear_fc1``, ``linear_fc2``
``.dense.``                                ``.linear_proj.``
``input_norm``                             ``input_layernorm``
``post_attention_norm``,                   ``pre_mlp_layernorm``
``post_attention_layernorm``
``final_norm``                             ``final_layernorm``
``word_embeddings_for_head``               ``embedding.word_embeddings``, of which it is a copy
``self_attention.linear_qkv.layer_norm_``  ``input_layernorm.``
``mlp.linear_fc1.layer_norm_``             ``pre_mlp_layernorm.``
=========================================  ===================================
"""

from __future__ import annotations

from collections.abc import Iterable

_HEADS = ("module.", "language_model.")
_PARTS = {
    "query_key_value": "linear_qkv",
    "dense_h_to_4h": "linear_fc1",
    "dense_4h_to_h": "linear_fc2",
    "dense": "linear_proj",
    "input_norm": "input_layernorm",
    "post_attention_norm": "pre_mlp_layernorm",
    "post_attention_layernorm": "pre_mlp_layernorm",
    "final_norm": "final_layernorm",
}
_FUSED_NORMS = {
    ".self_attention.linear_qkv.layer_norm_": ".input_layernorm.",
    ".mlp.linear_fc1.layer_norm_": ".pre_mlp_layernorm.",
}
_COPY, _ORIGINAL = "word_embeddings_for_head.", "embedding.word_embeddings."


def has_decoder(names: Iterable[str]) -> bool:
    """Return whether a model has a decoder of its own, so that ``encoder.`` keeps its name."""
    return any(_without_heads(name).startswith("decoder.") for name in names)


def core_name(name: str, *, keep_encoder: bool) -> str:
    """Return the name of a weight in Megatron Core."""
    name = _without_heads(name)
    if name.startswith("encoder.") and not keep_encoder:
        name = f"decoder.{name.removeprefix('encoder.')}"
    if name.startswith(_COPY):
        name = _ORIGINAL + name.removeprefix(_COPY)
    *inner, last = name.split(".")
    present = ".".join([*(_PARTS.get(part, part) for part in inner), last])
    for fused, norm in _FUSED_NORMS.items():
        present = present.replace(fused, norm)
    return present


def _without_heads(name: str) -> str:
    for head in _HEADS:
        while name.startswith(head):
            name = name.removeprefix(head)
    return name
