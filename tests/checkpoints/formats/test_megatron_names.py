"""Older names of weights, and names of fused norms."""

from __future__ import annotations

import pytest

from msprobe.checkpoints.formats.megatron_names import core_name, has_decoder


@pytest.mark.parametrize(
    ("older", "present"),
    [
        pytest.param(
            "language_model.encoder.layers.0.self_attention.query_key_value.weight",
            "decoder.layers.0.self_attention.linear_qkv.weight",
            id="qkv",
        ),
        pytest.param(
            "module.language_model.encoder.layers.3.self_attention.dense.bias",
            "decoder.layers.3.self_attention.linear_proj.bias",
            id="projection",
        ),
        pytest.param("encoder.layers.1.mlp.dense_h_to_4h.weight", "decoder.layers.1.mlp.linear_fc1.weight", id="fc1"),
        pytest.param("encoder.layers.1.mlp.dense_4h_to_h.bias", "decoder.layers.1.mlp.linear_fc2.bias", id="fc2"),
        pytest.param("encoder.layers.1.input_norm.weight", "decoder.layers.1.input_layernorm.weight", id="input-norm"),
        pytest.param(
            "encoder.layers.1.post_attention_norm.weight", "decoder.layers.1.pre_mlp_layernorm.weight", id="norm"
        ),
        pytest.param(
            "encoder.layers.1.post_attention_layernorm.bias",
            "decoder.layers.1.pre_mlp_layernorm.bias",
            id="layernorm",
        ),
        pytest.param("language_model.encoder.final_norm.weight", "decoder.final_layernorm.weight", id="final-norm"),
        pytest.param("word_embeddings_for_head.weight", "embedding.word_embeddings.weight", id="tied-embedding"),
        pytest.param("decoder.layers.0.mlp.linear_fc1.weight", "decoder.layers.0.mlp.linear_fc1.weight", id="present"),
        pytest.param(
            "decoder.layers.2.self_attention.linear_qkv.layer_norm_weight",
            "decoder.layers.2.input_layernorm.weight",
            id="norm-in-qkv",
        ),
        pytest.param(
            "decoder.layers.2.mlp.linear_fc1.layer_norm_bias",
            "decoder.layers.2.pre_mlp_layernorm.bias",
            id="norm-in-fc1",
        ),
        pytest.param("final.weight", "final.weight", id="other"),
    ],
)
def test_present_name(older: str, present: str) -> None:
    assert core_name(older, keep_encoder=False) == present


def test_an_encoder_beside_a_decoder_stays_one() -> None:
    assert has_decoder(["encoder.layers.0.w", "language_model.decoder.layers.0.w"])
    assert not has_decoder(["encoder.layers.0.w"])
    assert core_name("encoder.layers.0.w", keep_encoder=True) == "encoder.layers.0.w"
