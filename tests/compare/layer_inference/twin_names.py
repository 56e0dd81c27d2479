"""What the MindSpore twin calls the layers of ``Transformer``."""

NAMES = {
    "embed": "word_embedding",
    "layers": "blocks",
    "norm": "final_layernorm",
    "head": "lm_head",
    "norm1": "layernorm1",
    "norm2": "layernorm2",
    "attn": "attention",
    "mlp": "output",
    "up": "mapping",
    "act": "activation",
    "down": "projection",
    "q_proj": "query",
    "k_proj": "key",
    "v_proj": "value",
    "out_proj": "dense",
}


def twin_path(path: str) -> str:
    """Where the twin has the layer that ``Transformer`` has at ``path``."""
    return ".".join(NAMES.get(part, part) for part in path.split("."))
