"""Changes of a program that leave the mathematics alone, as edits of its text."""

from __future__ import annotations

from tests.real_models.runs import TASK, TRAIN, Edit

ADAMW = "AdamW(model.parameters(), "
FOREACH = Edit(ADAMW, f"{ADAMW}foreach=True, ", TRAIN)
FUSED = Edit(ADAMW, f"{ADAMW}fused=True, ", TRAIN)
REVERSED = Edit("AdamW(model.parameters(), ", "AdamW(list(model.parameters())[::-1], ", TRAIN)
GROUPS = Edit(
    "AdamW(model.parameters(), ",
    "AdamW([{'params': [p]} for p in model.parameters()], ",
    TRAIN,
)
ZEROED = Edit("optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=False)", TRAIN)
OBSERVER = Edit(
    "    losses = []",
    "    seen = []\n    for p in model.parameters():\n"
    "        p.register_hook(lambda grad: seen.append(grad.detach().float().norm().item()))\n    losses = []",
    TRAIN,
)
LOGGED = Edit(
    "        torch.nn.utils.clip_grad_norm_(",
    "        norms = [p.grad.detach().clone().float().norm() for p in model.parameters() if p.grad is not None]\n"
    "        print('norm', torch.stack(norms).max().item(), file=open('/dev/null', 'w'))\n"
    "        torch.nn.utils.clip_grad_norm_(",
    TRAIN,
)
COPIED_LOSS = Edit("    loss.backward()", "    loss = loss.clone() * 1.0\n    loss.backward()", TRAIN)
CHECKPOINTING = Edit("    model.train()", "    model.train()\n    model.gradient_checkpointing_enable()", TRAIN)

TRAINING: dict[str, tuple[Edit, ...]] = {
    "foreach": (FOREACH,),
    "fused": (FUSED,),
    "reversed-parameters": (REVERSED,),
    "group-per-parameter": (GROUPS,),
    "zeroed-gradients": (ZEROED,),
    "gradient-observer": (OBSERVER,),
    "logged-norms": (LOGGED,),
    "copied-loss": (COPIED_LOSS,),
}
"""Changes of the training script, for every family."""

RESIDUAL = Edit("residual + hidden_states", "hidden_states + residual", count=2)
DIVIDED = Edit(
    "torch.matmul(query, key_states.transpose(2, 3)) * scaling",
    "torch.matmul(query, key_states.transpose(2, 3)) / module.head_dim**0.5",
)
SCALED_FIRST = Edit(
    "torch.matmul(query, key_states.transpose(2, 3)) * scaling",
    "torch.matmul(query * scaling, key_states.transpose(2, 3))",
)
RSQRT = Edit(
    "hidden_states * torch.rsqrt(variance + self.variance_epsilon)",
    "hidden_states / torch.sqrt(variance + self.variance_epsilon)",
)
FUSED_NORM = Edit(
    "        return self.weight * hidden_states.to(input_dtype)",
    "        return nn.functional.rms_norm(before, self.weight.shape, self.weight, self.variance_epsilon)",
)
KEEP_INPUT = Edit(
    "        input_dtype = hidden_states.dtype\n",
    "        before = hidden_states\n        input_dtype = before.dtype\n",
)
ORDER_OF_CALLS = Edit(
    "        query_states = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)\n"
    "        key_states = self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)\n"
    "        value_states = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)\n",
    "        value_states = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)\n"
    "        key_states = self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)\n"
    "        query_states = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)\n",
)
FUSED_QKV = (
    Edit(
        "        self.q_proj = nn.Linear(\n"
        "            config.hidden_size, config.num_attention_heads * self.head_dim, bias=config.attention_bias\n"
        "        )\n"
        "        self.k_proj = nn.Linear(\n"
        "            config.hidden_size, config.num_key_value_heads * self.head_dim, bias=config.attention_bias\n"
        "        )\n"
        "        self.v_proj = nn.Linear(\n"
        "            config.hidden_size, config.num_key_value_heads * self.head_dim, bias=config.attention_bias\n"
        "        )\n",
        "        self.sizes = [self.head_dim * n for n in (4, 2, 2)]\n"
        "        self.qkv_proj = nn.Linear(config.hidden_size, sum(self.sizes), bias=False)\n",
    ),
    Edit(
        "        query_states = self.q_proj(hidden_states).view(hidden_shape).transpose(1, 2)\n"
        "        key_states = self.k_proj(hidden_states).view(hidden_shape).transpose(1, 2)\n"
        "        value_states = self.v_proj(hidden_states).view(hidden_shape).transpose(1, 2)\n",
        "        q, k, v = self.qkv_proj(hidden_states).split(self.sizes, dim=-1)\n"
        "        query_states = q.view(hidden_shape).transpose(1, 2)\n"
        "        key_states = k.view(hidden_shape).transpose(1, 2)\n"
        "        value_states = v.view(hidden_shape).transpose(1, 2)\n",
    ),
    Edit(
        "def initialize(model):",
        "def fused(name, parameter):\n"
        "    parts = zip('qkv', parameter.split([32, 16, 16]))\n"
        "    return torch.cat([initial(name.replace('qkv', part), p) for part, p in parts])\n\n\n"
        "def initialize(model):",
        TRAIN,
    ),
    Edit(
        "parameter.data.copy_(initial(name, parameter))",
        "parameter.data.copy_((fused if 'qkv' in name else initial)(name, parameter))",
        TRAIN,
    ),
)
RENAMED_MLP = (
    Edit("self.mlp = ", "self.feed_forward = "),
    Edit("self.mlp(hidden_states)", "self.feed_forward(hidden_states)"),
    Edit("initial(name, parameter))", "initial(name.replace('feed_forward', 'mlp'), parameter))", TRAIN),
)
INLINED_MLP = Edit(
    "        hidden_states = self.mlp(hidden_states)\n",
    "        mlp = self.mlp\n"
    "        gate = mlp.act_fn(mlp.gate_proj(hidden_states))\n"
    "        hidden_states = mlp.down_proj(gate * mlp.up_proj(hidden_states))\n",
)
REGISTERED = (
    Edit("        self.mlp = LlamaMLP(config)\n", ""),
    Edit(
        "        self.self_attn = LlamaAttention(config=config, layer_idx=layer_idx)\n",
        "        self.mlp = LlamaMLP(config)\n"
        "        self.self_attn = LlamaAttention(config=config, layer_idx=layer_idx)\n",
    ),
)
SILU = Edit("self.act_fn(self.gate_proj(x)) * self.up_proj(x)", "silu(self.gate_proj(x)) * self.up_proj(x)")
OWN_SILU = Edit("def rotate_half(x):", "def silu(x):\n    return x * torch.sigmoid(x)\n\n\ndef rotate_half(x):")
NORM_LOGGED = Edit(
    "        # Fully Connected\n        residual = hidden_states\n",
    "        self.norm_seen = hidden_states.detach().float().norm().item()\n"
    "        # Fully Connected\n        residual = hidden_states\n",
)
CONTIGUOUS = Edit(
    "query_states, key_states = apply_rotary_pos_emb(query_states, key_states, cos, sin)",
    "query_states, key_states = apply_rotary_pos_emb(query_states.contiguous(), key_states.contiguous(), cos, sin)",
)
CLONED = Edit("cos, sin = position_embeddings\n", "cos, sin = (x.detach().clone() for x in position_embeddings)\n")
NO_DROPOUT = Edit(
    "    attn_weights = nn.functional.dropout(attn_weights, p=dropout, training=module.training)\n",
    "",
)
WRAPPED = (
    Edit(
        "        self.mlp = LlamaMLP(config)\n",
        "        self.mlp = Passing(LlamaMLP(config))\n",
    ),
    Edit(
        "class LlamaDecoderLayer(",
        "class Passing(nn.Module):\n"
        "    def __init__(self, inner):\n"
        "        super().__init__()\n"
        "        self.inner = inner\n\n"
        "    def forward(self, x):\n"
        "        return self.inner(x)\n\n\n"
        "class LlamaDecoderLayer(",
    ),
    Edit("initial(name, parameter))", "initial(name.replace('.inner', ''), parameter))", TRAIN),
)


def compiled(path: str) -> Edit:
    """A module that is compiled."""
    return Edit(
        "    optimizer = build_optimizer",
        f"    model.{path}compile(backend='aot_eager')\n    optimizer = build_optimizer",
        TRAIN,
    )


MODELS: dict[str, dict[str, tuple[Edit, ...]]] = {
    "llama": {
        "residual-swapped": (RESIDUAL,),
        "divided-scores": (DIVIDED,),
        "scaled-query": (SCALED_FIRST,),
        "sqrt-norm": (RSQRT,),
        "fused-norm": (KEEP_INPUT, FUSED_NORM),
        "order-of-calls": (ORDER_OF_CALLS,),
        "fused-qkv": FUSED_QKV,
        "renamed-mlp": RENAMED_MLP,
        "inlined-mlp": (INLINED_MLP,),
        "registered-first": REGISTERED,
        "own-silu": (OWN_SILU, SILU),
        "logged-norm": (NORM_LOGGED,),
        "contiguous": (CONTIGUOUS,),
        "cloned-angles": (CLONED,),
        "no-dropout-call": (NO_DROPOUT,),
        "wrapped-mlp": WRAPPED,
        "compiled-mlp": (compiled("model.layers[0].mlp."),),
        "compiled-layer": (compiled("model.layers[1]."),),
        "checkpointing": (CHECKPOINTING,),
    },
    "gpt2": {
        "residual-swapped": (
            Edit("attn_output + residual", "residual + attn_output"),
            Edit("residual + feed_forward_hidden_states", "feed_forward_hidden_states + residual"),
        ),
        "fused-gelu": (
            Edit(
                "hidden_states = self.act(hidden_states)",
                "hidden_states = nn.functional.gelu(hidden_states, approximate='tanh')",
            ),
        ),
        "linear": (
            Edit(
                "class GPT2Attention(nn.Module):",
                "class Conv1D(nn.Module):\n"
                "    def __init__(self, nf, nx):\n"
                "        super().__init__()\n"
                "        self.weight = nn.Parameter(torch.empty(nx, nf))\n"
                "        self.bias = nn.Parameter(torch.zeros(nf))\n\n"
                "    def forward(self, x):\n"
                "        return nn.functional.linear(x, self.weight.t(), self.bias)\n\n\n"
                "class GPT2Attention(nn.Module):",
            ),
            Edit("from transformers.pytorch_utils import Conv1D\n", ""),
        ),
        "compiled-mlp": (compiled("transformer.h[0].mlp."),),
        "nll-loss": (
            Edit(
                "F.cross_entropy(logits[:, :-1].float().flatten(0, 1)",
                "F.nll_loss(F.log_softmax(logits[:, :-1].float().flatten(0, 1), dim=-1)",
                TASK,
            ),
        ),
    },
    "bert": {
        "residual-swapped": (Edit("hidden_states + input_tensor", "input_tensor + hidden_states", count=2),),
        "own-layer-norm": (
            Edit(
                "        hidden_states = self.LayerNorm(hidden_states + input_tensor)\n",
                "        x = hidden_states + input_tensor\n"
                "        centred = x - x.mean(-1, keepdim=True)\n"
                "        spread = centred.pow(2).mean(-1, keepdim=True)\n"
                "        normal = centred * torch.rsqrt(spread + self.LayerNorm.eps)\n"
                "        hidden_states = normal * self.LayerNorm.weight + self.LayerNorm.bias\n",
                count=2,
            ),
        ),
        "embeddings-order": (
            Edit(
                "embeddings = inputs_embeds + token_type_embeddings",
                "embeddings = token_type_embeddings + inputs_embeds",
            ),
        ),
        "compiled-layer": (compiled("bert.encoder.layer[1]."),),
        "checkpointing": (CHECKPOINTING,),
    },
    "t5": {
        "einsum": (
            Edit(
                "torch.matmul(query, key.transpose(2, 3)) * scaling",
                "torch.einsum('bnqd,bnkd->bnqk', query, key) * scaling",
            ),
        ),
        "no-scale": (
            Edit("torch.matmul(query, key.transpose(2, 3)) * scaling", "torch.matmul(query, key.transpose(2, 3))"),
        ),
        "gate-order": (
            Edit("hidden_states = hidden_gelu * hidden_linear", "hidden_states = hidden_linear * hidden_gelu"),
        ),
        "checkpointing": (CHECKPOINTING,),
    },
    "vit": {
        "residual-swapped": (Edit("hidden_states + residual", "residual + hidden_states", count=2),),
        "unfolded-patches": (
            Edit(
                "return self.projection(pixel_values).flatten(2).transpose(1, 2)",
                "return nn.functional.linear(\n"
                "            nn.functional.unfold(pixel_values, 4, stride=4).transpose(1, 2),\n"
                "            self.projection.weight.flatten(1),\n"
                "            self.projection.bias,\n"
                "        )",
            ),
        ),
        "compiled-mlp": (compiled("vit.layers[0].mlp."),),
    },
    "mixtral": {
        "residual-swapped": (RESIDUAL,),
        "normalised-otherwise": (
            Edit(
                "router_top_value /= router_top_value.sum(dim=-1, keepdim=True)",
                "router_top_value = router_top_value / router_top_value.sum(dim=-1, keepdim=True)",
            ),
        ),
        "weights-after": (
            Edit(
                "current_hidden_states * top_k_weights[token_idx, top_k_pos, None]",
                "top_k_weights[token_idx, top_k_pos, None] * current_hidden_states",
            ),
        ),
    },
    "mamba": {
        "own-softplus": (Edit("dt = F.softplus(dt)", "dt = torch.log1p(torch.exp(dt))", count=2),),
        "own-silu": (
            Edit("scan_output = scan_output * F.silu(z)", "scan_output = scan_output * (z * torch.sigmoid(z))"),
        ),
    },
    "resnet": {
        "residual-swapped": (Edit("out = out + identity", "out = identity + out"),),
        "residual-in-place": (Edit("out = out + identity", "out += identity"),),
        "mean-pool": (Edit("        x = self.avgpool(x)\n", "        x = x.mean(dim=(2, 3), keepdim=True)\n"),),
        "functional-relu": (Edit("        return self.relu(out)", "        return torch.relu(out)"),),
        "compiled-block": (compiled("layer1[1]."),),
        "channels-last": (
            Edit("    model.train()", "    model.train()\n    model.to(memory_format=torch.channels_last)", TRAIN),
        ),
    },
    "lstm": {
        "matmul-pool": (
            Edit(
                'torch.einsum("bt,btw->bw", weights, states)', "torch.matmul(weights.unsqueeze(1), states).squeeze(1)"
            ),
        ),
        "gru-otherwise": (Edit("(1 - update) * new + update * state", "new + update * (state - new)"),),
        "split": (
            Edit("self.inner(x).chunk(3, dim=-1)", "self.inner(x).split(self.width, dim=-1)"),
            Edit("self.outer(state).chunk(3, dim=-1)", "self.outer(state).split(self.width, dim=-1)"),
        ),
        "compiled-cell": (compiled("cell."),),
    },
    "unet": {
        "own-silu": (
            Edit("F.silu(", "silu(", count=5),
            Edit("class TimeEmbedding(", "def silu(x):\n    return x * torch.sigmoid(x)\n\n\nclass TimeEmbedding("),
        ),
        "mean-square": (
            Edit(
                'F.mse_loss(predicted.float(), inputs["noise"].float())',
                '(predicted.float() - inputs["noise"].float()).pow(2).mean()',
                TASK,
            ),
        ),
        "residual-swapped": (
            Edit("return h + self.shortcut(x)", "return self.shortcut(x) + h"),
            Edit("return x + h", "return h + x"),
        ),
        "two-projections": (
            Edit(
                "q, k, v = self.qkv(h).chunk(3, dim=-1)",
                "q, k, v = (F.linear(h, w, b) for w, b in zip(self.qkv.weight.chunk(3), self.qkv.bias.chunk(3)))",
            ),
        ),
        "compiled-block": (compiled("down."),),
    },
}
"""Family -> changes of its model."""

GENERATE = Edit(
    """        optimizer.zero_grad()
        loss = learn(model, inputs, dtype)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
""",
    """        loss = generate(model, inputs["input_ids"])
""",
    TRAIN,
)
GENERATOR = Edit(
    "def to_dtype(",
    """@torch.no_grad()
def generate(model, text):
    past, logits = None, []
    for _ in range(3):
        given = text if past is None else text[:, -1:]
        output = model(input_ids=given, past_key_values=past, use_cache=True)
        past = output.past_key_values
        logits.append(output.logits[:, -1].float())
        text = torch.cat((text, logits[-1].argmax(-1, keepdim=True)), dim=1)
    return torch.stack(logits).pow(2).mean()


def to_dtype(""",
    TRAIN,
)
IN_EVALUATION = Edit("    losses = []", "    model.eval()\n    losses = []", TRAIN)
GENERATION = (GENERATE, GENERATOR, IN_EVALUATION)
"""The program generates three tokens with a cache, and does not train."""
