#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Write tests/data/hugging_face/NAME: folders as Hugging Face's own libraries write them, and golden.json with what they compute.

  make_hugging_face_golden.py OUT

Needs torch, transformers, tokenizers. The models are tiny and random, the tokenizers are trained on a line of text. BF16 weights,
computed in float32; llama in two shards and with Llama 3's RoPE, whose q and k rows a reader has to reorder; bert as
sentence-transformers keeps it, with what it makes of texts.
"""
import json
import os
import shutil
import sys

import tokenizers
import torch
import transformers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXT = "the quick brown fox jumps over the lazy dog, and the other dogs don't care: 1234 times 5678 is 7006652. " * 4
PROBES = ["the quick dog", "Don't  care\n\n 12345!", "naïve 你好", "<|end|>the", " leading"]
WORDS = ["The QUICK brown dog", "Don't  care\n\n 12345!", "Caf\u00e9 dog, na\u00efve", "\u4f60\u597d fox", "[MASK] jumps"]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_level(path):
    tokenizer = tokenizers.Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(tokenizers.Regex(LLAMA3), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=[], show_progress=False)
    tokenizer.train_from_iterator([TEXT], trainer)
    tokenizer.add_special_tokens(["<|begin|>", "<|end|>"])
    begin = tokenizer.token_to_id("<|begin|>")
    tokenizer.post_processor = processors.TemplateProcessing(single="<|begin|> $A", special_tokens=[("<|begin|>", begin)])
    tokenizer.save(path)
    return tokenizer, {"bos_token": "<|begin|>", "eos_token": "<|end|>"}


def byte_fallback(path):
    alphabet = sorted(set(TEXT.replace(" ", "\u2581")))
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    trainer = trainers.BpeTrainer(vocab_size=256 + 3 + len(alphabet) + 40, show_progress=False, max_token_length=8,
                                  special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)])
    tokenizer.train_from_iterator([TEXT], trainer)
    state = json.loads(tokenizer.to_str())
    # As Llama 2's file: bytes are ordinary tokens, three are special.
    state["added_tokens"] = [t for t in state["added_tokens"] if t["id"] < 3]
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(state))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.save(path)
    return tokenizer, {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "unk_token": "<unk>", "add_bos_token": True}


def write(folder, model, make_tokenizer, shard):
    shutil.rmtree(folder, ignore_errors=True)
    model = model.to(torch.bfloat16)  # rounds RoPE's frequencies too, so what computes below is read anew
    model.save_pretrained(folder, max_shard_size=shard)
    tokenizer, config = make_tokenizer(os.path.join(folder, "tokenizer.json"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as out:
        json.dump(config, out, indent=1)
    for name in ("generation_config.json",):
        if os.path.exists(os.path.join(folder, name)):
            os.remove(os.path.join(folder, name))
    ids = [(i * 37 + 5) % model.config.vocab_size for i in range(24)]
    read = type(model).from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        logits = read(torch.tensor([ids])).logits[0, -1]
    with open(os.path.join(folder, "golden.json"), "w") as out:
        json.dump({"tokens": ids, "last_logits": [float(f"{x:.8g}") for x in logits.tolist()],
                   "texts": [{"text": text, "ids": tokenizer.encode(text).ids} for text in PROBES]}, out)
        out.write("\n")


def word_pieces(path):
    tokenizer = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=120, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator([TEXT.upper()], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("[CLS]", "[SEP]")])
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.save(path)
    return tokenizer


def write_bert(folder):
    """BERT with mean pooling: embeddings of length 1, of every text."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.join(folder, "1_Pooling"))
    tokenizer = word_pieces(os.path.join(folder, "tokenizer.json"))
    config = transformers.BertConfig(vocab_size=tokenizer.get_vocab_size(), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                     intermediate_size=48, max_position_embeddings=64, initializer_range=0.3)
    transformers.BertModel(config).to(torch.bfloat16).save_pretrained(folder)
    files = {"tokenizer_config.json": {"cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]", "pad_token": "[PAD]",
                                       "mask_token": "[MASK]", "do_lower_case": True, "tokenizer_class": "BertTokenizer"},
             "modules.json": [{"idx": i, "name": str(i), "path": path, "type": "sentence_transformers.models." + kind}
                              for i, (path, kind) in enumerate([("", "Transformer"), ("1_Pooling", "Pooling"),
                                                                ("2_Normalize", "Normalize")])],
             "1_Pooling/config.json": {"word_embedding_dimension": 32, "pooling_mode_cls_token": False,
                                       "pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": False}}
    for name, content in files.items():
        with open(os.path.join(folder, name), "w") as out:
            json.dump(content, out, indent=1)
    model = transformers.BertModel.from_pretrained(folder, dtype=torch.float32).eval()
    texts = []
    for text in WORDS:
        ids = tokenizer.encode(text).ids
        with torch.no_grad():
            mean = model(torch.tensor([ids])).last_hidden_state[0].mean(0)
        texts.append({"text": text, "ids": ids, "embedding": [float(f"{x:.8g}") for x in (mean / mean.norm()).tolist()]})
    with open(os.path.join(folder, "golden.json"), "w") as out:
        json.dump({"texts": texts}, out)
        out.write("\n")


def main():
    out = sys.argv[1]
    torch.manual_seed(3)
    usual = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                 max_position_embeddings=512, initializer_range=0.3, head_dim=8)
    llama = transformers.LlamaConfig(vocab_size=304, tie_word_embeddings=False, rope_parameters={
        "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64}, **usual)
    write(os.path.join(out, "llama"), transformers.LlamaForCausalLM(llama), byte_level, "48KB")
    mixtral = transformers.MixtralConfig(vocab_size=400, num_local_experts=3, num_experts_per_tok=2, sliding_window=None, **usual)
    write(os.path.join(out, "mixtral"), transformers.MixtralForCausalLM(mixtral), byte_fallback, "1GB")
    write_bert(os.path.join(out, "bert"))


main()
