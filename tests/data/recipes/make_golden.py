#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/data/golden/NAME for kinds of models beyond those that came with the first fixtures: model.gguf, tiny and random, and
golden.json, what an independent implementation computes with it in float32.

  make_golden.py OUT [NAME ...]

Needs torch, transformers and gguf. Tokenizers are those of the fixtures beside OUT's. transformers judges all but InternLM 2, which it
does not have: that one is written out below, from the paper and as the model's own code keeps its tensors.
"""
import json
import math
import os
import sys

import gguf
import numpy
import torch
import transformers
from torch import nn

GREEDY, SHORT, VOCABULARY = 24, 7, 320


# ---- InternLM 2 (Cai et al. 2024, arXiv:2403.17297): what a group of heads needs lies together in one tensor, wqkv: its queries, then
# one key, then one value. Feed-forward: w2(silu(w1 x) * w3 x).


class RmsNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def turn(x, base):
    """Of [heads, tokens, size]: halves of a head are the pairs that turn."""
    size, tokens = x.shape[-1], x.shape[-2]
    angles = torch.arange(tokens)[:, None] / base ** (torch.arange(0, size, 2).to(x.dtype) / size)
    low, high = x[..., : size // 2], x[..., size // 2:]
    return torch.cat((low * angles.cos() - high * angles.sin(), high * angles.cos() + low * angles.sin()), -1)


class InternLm2Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, d = c, c["hidden_size"]
        self.size = d // c["num_attention_heads"]
        rows = (c["num_attention_heads"] + 2 * c["num_key_value_heads"]) * self.size
        self.attention = nn.ModuleDict({"wqkv": nn.Linear(d, rows, bias=False), "wo": nn.Linear(d, d, bias=False)})
        f = c["intermediate_size"]
        self.feed_forward = nn.ModuleDict({"w1": nn.Linear(d, f, bias=False), "w3": nn.Linear(d, f, bias=False),
                                           "w2": nn.Linear(f, d, bias=False)})
        self.attention_norm, self.ffn_norm = RmsNorm(d, c["rms_norm_eps"]), RmsNorm(d, c["rms_norm_eps"])

    def attend(self, x):
        tokens, groups = x.shape[0], self.c["num_key_value_heads"]
        each = self.c["num_attention_heads"] // groups
        grouped = self.attention["wqkv"](x).view(tokens, groups, each + 2, self.size)
        out = []
        for g in range(groups):
            key, value = turn(grouped[:, g, each], self.c["rope_theta"]), grouped[:, g, each + 1]
            for h in range(each):
                query = turn(grouped[:, g, h], self.c["rope_theta"])
                scores = query @ key.T / math.sqrt(self.size)
                scores = scores.masked_fill(torch.ones(tokens, tokens).triu(1).bool(), -math.inf)
                out.append(scores.softmax(-1) @ value)
        return self.attention["wo"](torch.cat(out, -1))

    def forward(self, x):
        x = x + self.attend(self.attention_norm(x))
        f, h = self.feed_forward, self.ffn_norm(x)
        return x + f["w2"](nn.functional.silu(f["w1"](h)) * f["w3"](h))


class InternLm2(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.model = nn.ModuleDict({"tok_embeddings": nn.Embedding(c["vocab_size"], c["hidden_size"]),
                                    "layers": nn.ModuleList(InternLm2Layer(c) for _ in range(c["num_hidden_layers"])),
                                    "norm": RmsNorm(c["hidden_size"], c["rms_norm_eps"])})
        self.output = nn.Linear(c["hidden_size"], c["vocab_size"], bias=False)

    def forward(self, ids):
        x = self.model["tok_embeddings"](ids)
        for layer in self.model["layers"]:
            x = layer(x)
        return self.output(self.model["norm"](x))


# ---- From a model's tensors to GGUF's, as llama.cpp's converter puts them


def neighbours(rows, heads):
    """PyTorch's halves of a head become neighbouring pairs."""
    return rows.reshape(heads, 2, rows.shape[0] // heads // 2, -1).swapaxes(1, 2).reshape(rows.shape)


LLAMA = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
         "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
         "mlp.down_proj": "ffn_down"}
FALCON = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attention.query_key_value": "attn_qkv",
          "self_attention.dense": "attn_output", "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down"}
INTERN = {"attention_norm": "attn_norm", "ffn_norm": "ffn_norm", "attention.wo": "attn_output", "feed_forward.w1": "ffn_gate",
          "feed_forward.w3": "ffn_up", "feed_forward.w2": "ffn_down"}


BERT = {"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
        "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm", "intermediate.dense": "ffn_up",
        "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}


def map_bert(name, x, c):
    return {BERT[name]: x}


def map_llama(name, x, c):
    kind = LLAMA[name]
    if kind in ("attn_q", "attn_k"):
        x = neighbours(x, c["num_attention_heads"] if kind == "attn_q" else c["num_key_value_heads"])
    return {kind: x}


def map_falcon(name, x, c):
    kind = FALCON[name]
    if kind == "attn_qkv":  # query, key and value of each head become all queries, all keys, all values
        grouped = x.reshape(c["num_attention_heads"], 3, -1, *x.shape[1:])
        x = numpy.concatenate([grouped[:, i].reshape(-1, *x.shape[1:]) for i in range(3)])
    return {kind: x}


def map_intern(name, x, c):
    if name != "attention.wqkv":
        return {INTERN[name]: x}
    heads, groups = c["num_attention_heads"], c["num_key_value_heads"]
    grouped = x.reshape(groups, heads // groups + 2, -1, x.shape[1])
    parts = [grouped[:, :-2], grouped[:, -2], grouped[:, -1]]
    q, k, v = (part.reshape(-1, x.shape[1]) for part in parts)
    return {"attn_q": neighbours(q, heads), "attn_k": neighbours(k, groups), "attn_v": v}


OUTER = {"model.embed_tokens": "token_embd", "transformer.word_embeddings": "token_embd", "model.tok_embeddings": "token_embd",
         "model.norm": "output_norm", "transformer.ln_f": "output_norm", "lm_head": "output", "output": "output",
         "embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
         "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm"}


def gguf_tensors(model, config, map_layer):
    tied, tensors = config.get("tie_word_embeddings", False), {}
    for name, value in model.state_dict().items():
        x, (stem, suffix) = value.numpy(), name.rsplit(".", 1)
        words = stem.replace("encoder.layer", "model.layers").split(".")
        if len(words) > 2 and words[2].isdigit():
            for kind, part in map_layer(".".join(words[3:]), x, config).items():
                tensors[f"blk.{words[2]}.{kind}.{suffix}"] = part
        elif not (tied and OUTER[stem] == "output"):
            tensors[f"{OUTER[stem]}.{suffix}"] = x
    return tensors


# ---- The fixtures

SIZES = dict(vocab_size=VOCABULARY, hidden_size=48, num_hidden_layers=2, max_position_embeddings=256)


def llama(rope, **more):
    return transformers.LlamaConfig(**SIZES, intermediate_size=56, num_attention_heads=3, num_key_value_heads=1, rms_norm_eps=4e-3,
                                    tie_word_embeddings=True, rope_parameters={"rope_theta": 10000.0, **rope}, **more)


def llama_keys(c, rope):
    p = "llama."
    return {p + "context_length": 256, p + "embedding_length": c["hidden_size"], p + "block_count": 2,
            p + "feed_forward_length": c["intermediate_size"], p + "attention.head_count": 3, p + "attention.head_count_kv": 1,
            p + "attention.layer_norm_rms_epsilon": c["rms_norm_eps"], p + "rope.freq_base": 10000.0, p + "vocab_size": VOCABULARY,
            p + "rope.dimension_count": 16, p + "attention.key_length": 16, p + "attention.value_length": 16,
            **{p + "rope.scaling." + key: value for key, value in rope.items()}}


def make_llama(rope, keys, tensors=None):
    config = llama(rope)
    return (transformers.LlamaForCausalLM, config, map_llama, lambda c: llama_keys(c, keys), tensors or {}, "llama")


LONG = {"long_factor": [1 + 0.5 * i for i in range(8)], "short_factor": [1 + 0.01 * i for i in range(8)]}


def make_falcon():
    config = transformers.FalconConfig(**SIZES, num_attention_heads=4, layer_norm_epsilon=4e-3, alibi=True, parallel_attn=False,
                                       multi_query=False, bias=True, new_decoder_architecture=False, ffn_hidden_size=192)
    p = "falcon."
    keys = {p + "context_length": 256, p + "tensor_data_layout": "jploski", p + "embedding_length": 48,
            p + "feed_forward_length": 192, p + "block_count": 2, p + "attention.head_count": 4, p + "attention.head_count_kv": 4,
            p + "attention.layer_norm_epsilon": 4e-3, p + "attention.max_alibi_bias": 8.0}
    return transformers.FalconForCausalLM, config, map_falcon, lambda c: keys, {}, "falcon"


def make_intern():
    config = dict(SIZES, architectures=["InternLM2ForCausalLM"], model_type="internlm2", intermediate_size=56, hidden_act="silu",
                  num_attention_heads=6, num_key_value_heads=2, rms_norm_eps=4e-3, rope_theta=10000.0, rope_scaling=None, bias=False,
                  tie_word_embeddings=False)
    p = "internlm2."
    keys = {p + "context_length": 256, p + "embedding_length": 48, p + "feed_forward_length": 56, p + "block_count": 2,
            p + "attention.head_count": 6, p + "attention.head_count_kv": 2, p + "attention.layer_norm_rms_epsilon": 4e-3,
            p + "rope.freq_base": 10000.0}
    return InternLm2, config, map_intern, lambda c: keys, {}, "phi3"


def make_bert():
    """Wide enough for blocks of 32 weights, which the first BERT fixture is not, and pooled by its first token."""
    config = transformers.BertConfig(vocab_size=352, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
                                     max_position_embeddings=64, type_vocab_size=2, layer_norm_eps=4e-3)
    p = "bert."
    keys = {p + "block_count": 2, p + "context_length": 64, p + "embedding_length": 64, p + "feed_forward_length": 96,
            p + "attention.head_count": 4, p + "attention.layer_norm_epsilon": 4e-3, p + "attention.causal": False,
            p + "pooling_type": 2}
    return transformers.BertModel, config, map_bert, lambda c: keys, {}, "bert"


FIXTURES = {
    "bert-cls": make_bert,
    "llama-linear": lambda: make_llama({"rope_type": "linear", "factor": 4.0}, {"type": "linear", "factor": 4.0}),
    "llama-yarn": lambda: make_llama(
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64, "beta_fast": 8.0, "beta_slow": 1.0},
        {"type": "yarn", "factor": 4.0, "original_context_length": 64, "yarn_beta_fast": 8.0, "yarn_beta_slow": 1.0}),
    "llama-longrope": lambda: make_llama(
        {"rope_type": "longrope", "original_max_position_embeddings": 32, "factor": 8.0, **LONG},
        {"type": "longrope", "original_context_length": 32, "attn_factor": math.sqrt(1 + math.log(8) / math.log(32))},
        {f"rope_factors_{kind}.weight": LONG[f"{kind}_factor"] for kind in ("long", "short")}),
    "falcon-alibi": make_falcon,
    "internlm2": make_intern,
}


def fill(model, seed):
    """Weights of a size at which nothing vanishes: norms that are not 1, biases that are not 0, logits of a few units."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in sorted(model.named_parameters()):
            noise = torch.randn(value.shape, generator=generator)
            if value.dim() == 2:
                embedding = "embed" in name
                value.copy_(noise * (0.3 if embedding else 1.2 / math.sqrt(value.shape[1])))
            else:
                value.copy_(noise * 0.2 + (1 if name.endswith("weight") else 0))


def run(model, tokens):
    with torch.no_grad():
        out = model(torch.tensor([tokens]) if hasattr(model, "config") else torch.tensor(tokens))
    return out.logits[0] if hasattr(out, "logits") else out


def shown(x):
    return float(f"{float(x):.7g}")


def gap(row):
    best = row.topk(2).values
    return shown(best[0] - best[1])


def judge(model, tokens):
    logits = run(model, tokens)
    found = {"tokens": tokens, "argmax": logits.argmax(-1).tolist(), "argmax_gap": [gap(row) for row in logits],
             "logsumexp": [shown(x) for x in logits.logsumexp(-1)],
             "next_token_logit": [shown(logits[i, t]) for i, t in enumerate(tokens[1:])],
             "last_logits": [shown(x) for x in logits[-1]], "greedy": [], "greedy_gap": []}
    for _ in range(GREEDY):
        row = run(model, tokens + found["greedy"])[-1]
        found["greedy"].append(int(row.argmax()))
        found["greedy_gap"].append(gap(row))
    return found


def judge_text(model, tokens):
    """Of an encoder: the hidden state of the first token, and of the last one."""
    with torch.no_grad():
        hidden = model(torch.tensor([tokens])).last_hidden_state[0]
    unit = hidden[0] / hidden[0].norm()
    return {"tokens": tokens, "pooling": "cls", "embedding": [shown(x) for x in hidden[0]],
            "embedding_normalized": [shown(x) for x in unit], "last_token": [shown(x) for x in hidden[-1]]}


def texts(seed, lengths):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(3, VOCABULARY - 4, (n,), generator=generator).tolist() for n in lengths]


def copy_tokenizer(fixture, writer):
    for key, field in gguf.GGUFReader(fixture).fields.items():
        if not key.startswith("tokenizer."):
            continue
        value, kind = field.contents(), field.types[0]
        if kind == gguf.GGUFValueType.ARRAY:
            writer.add_array(key, value)
        else:
            writer.add_key_value(key, value, kind)


def write_model(path, name, architecture, keys, tensors, tokenizer):
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_type("model")
    writer.add_name("golden " + name)
    writer.add_size_label(f"{sum(numpy.size(x) for x in tensors.values()) / 1e3:.0f}K")
    writer.add_file_type(0)
    writer.add_quantization_version(2)
    for key, value in keys.items():
        kind = {int: writer.add_uint32, float: writer.add_float32, str: writer.add_string, bool: writer.add_bool}[type(value)]
        kind(key, value)
    copy_tokenizer(tokenizer, writer)
    for tensor, value in tensors.items():
        writer.add_tensor(tensor, numpy.ascontiguousarray(value, dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make(out, name):
    kind, config, map_layer, keys, extra, tokenizer = FIXTURES[name]()
    plain = config if isinstance(config, dict) else config.to_dict()
    if not isinstance(config, dict):
        # Falcon's mask holds ALiBi, and its eager attention adds it once more (5.12.1); the model's own code adds it once.
        config._attn_implementation = "sdpa" if name == "falcon-alibi" else "eager"
        plain["architectures"] = [kind.__name__]
    model = (kind(config, add_pooling_layer=False) if kind is transformers.BertModel else kind(config)).eval()
    encoder = kind is transformers.BertModel
    lengths = (48, 40) if "longrope" in name else (48, SHORT)  # transformers takes the long factors beyond the original length
    for seed in range(1, 1000):
        fill(model, seed)
        if hasattr(model, "tie_weights"):
            model.tie_weights()
        inputs = [judge_text(model, [2] + tokens + [3]) if encoder else judge(model, tokens) for tokens in texts(seed, lengths)]
        if encoder or all(min(i["greedy_gap"]) > 0.02 and min(i["argmax_gap"]) > 1e-3 for i in inputs):
            break
    model.double()
    precise = [judge_text(model, i["tokens"])["embedding"] if encoder else run(model, i["tokens"])[-1].tolist() for i in inputs]
    noise = max(abs(p - x) for row, i in zip(precise, inputs) for p, x in zip(row, i["embedding" if encoder else "last_logits"]))
    model.float()
    architecture = next(iter(keys(plain))).split(".")[0]
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    tensors = {**extra, **gguf_tensors(model, plain, map_layer)}
    write_model(os.path.join(folder, "model.gguf"), name, architecture, keys(plain), tensors,
                os.path.join(out, tokenizer, "model.gguf"))
    own = kind is InternLm2
    golden = {"name": name, "gguf_architecture": architecture, "kind": "embedding" if encoder else "causal", "seed": seed, "torch_version": torch.__version__,
              "judge": "make_golden.py" if own else f"transformers {transformers.__version__} {kind.__name__}",
              "reference_float32_vs_float64_max_abs_diff": shown(noise), "inputs": inputs,
              "hf_config": {k: v for k, v in plain.items() if k not in ("transformers_version", "_name_or_path", "dtype")}}
    with open(os.path.join(folder, "golden.json"), "w") as file:
        json.dump(golden, file)
        file.write("\n")
    print(name, "seed", seed, "noise", noise)


def main():
    for name in sys.argv[2:] or FIXTURES:
        make(sys.argv[1], name)


if __name__ == "__main__":
    main()
