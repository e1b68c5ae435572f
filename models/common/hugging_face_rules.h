// SPDX-License-Identifier: Apache-2.0
// Names of tensors in a folder and in GGUF (llama.cpp, gguf-py/gguf/tensor_mapping.py), as tables. A family's own rules go before the
// usual ones. Not for others than hugging_face.cc.
#pragma once

#include <span>

#include "models/common/hugging_face.h"

namespace moonlit {

// % stands for the number of a layer, * for that of an expert.
struct NameRule {
  const char* from;
  const char* to;  // several rules may take one tensor apart
  RowOrder order = RowOrder::kSame;
};

inline constexpr NameRule kUsualRules[] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
    {"model.layers.%.input_layernorm.weight", "blk.%.attn_norm.weight"},
    {"model.layers.%.self_attn.q_proj.weight", "blk.%.attn_q.weight", RowOrder::kRotary},
    {"model.layers.%.self_attn.q_proj.bias", "blk.%.attn_q.bias", RowOrder::kRotary},
    {"model.layers.%.self_attn.k_proj.weight", "blk.%.attn_k.weight", RowOrder::kRotary},
    {"model.layers.%.self_attn.k_proj.bias", "blk.%.attn_k.bias", RowOrder::kRotary},
    {"model.layers.%.self_attn.v_proj.weight", "blk.%.attn_v.weight"},
    {"model.layers.%.self_attn.v_proj.bias", "blk.%.attn_v.bias"},
    {"model.layers.%.self_attn.o_proj.weight", "blk.%.attn_output.weight"},
    {"model.layers.%.self_attn.o_proj.bias", "blk.%.attn_output.bias"},
    {"model.layers.%.self_attn.q_norm.weight", "blk.%.attn_q_norm.weight"},
    {"model.layers.%.self_attn.k_norm.weight", "blk.%.attn_k_norm.weight"},
    {"model.layers.%.post_attention_layernorm.weight", "blk.%.ffn_norm.weight"},
    {"model.norm.bias", "output_norm.bias"},
    {"model.layers.%.input_layernorm.bias", "blk.%.attn_norm.bias"},
    {"model.layers.%.post_attention_layernorm.bias", "blk.%.ffn_norm.bias"},
    {"model.layers.%.mlp.gate_proj.weight", "blk.%.ffn_gate.weight"},
    {"model.layers.%.mlp.up_proj.weight", "blk.%.ffn_up.weight"},
    {"model.layers.%.mlp.down_proj.weight", "blk.%.ffn_down.weight"},
    {"model.layers.%.mlp.gate.weight", "blk.%.ffn_gate_inp.weight"},
    {"model.layers.%.mlp.experts.*.gate_proj.weight", "blk.%.ffn_gate_exps.weight"},
    {"model.layers.%.mlp.experts.*.up_proj.weight", "blk.%.ffn_up_exps.weight"},
    {"model.layers.%.mlp.experts.*.down_proj.weight", "blk.%.ffn_down_exps.weight"},
    {"model.layers.%.mlp.shared_expert.gate_proj.weight", "blk.%.ffn_gate_shexp.weight"},
    {"model.layers.%.mlp.shared_expert.up_proj.weight", "blk.%.ffn_up_shexp.weight"},
    {"model.layers.%.mlp.shared_expert.down_proj.weight", "blk.%.ffn_down_shexp.weight"},
    {"model.layers.%.mlp.shared_expert_gate.weight", "blk.%.ffn_gate_inp_shexp.weight"},
};
inline constexpr std::span<const NameRule> kNoRules;
inline constexpr NameRule kMixtralRules[] = {
    {"model.layers.%.block_sparse_moe.gate.weight", "blk.%.ffn_gate_inp.weight"},
    {"model.layers.%.block_sparse_moe.experts.*.w1.weight", "blk.%.ffn_gate_exps.weight"},
    {"model.layers.%.block_sparse_moe.experts.*.w2.weight", "blk.%.ffn_down_exps.weight"},
    {"model.layers.%.block_sparse_moe.experts.*.w3.weight", "blk.%.ffn_up_exps.weight"},
};
inline constexpr NameRule kGraniteMoeRules[] = {
    {"model.layers.%.block_sparse_moe.router.layer.weight", "blk.%.ffn_gate_inp.weight"},
    {"model.layers.%.block_sparse_moe.input_linear.weight", "blk.%.ffn_gate_exps.weight", RowOrder::kFirstHalf},
    {"model.layers.%.block_sparse_moe.input_linear.weight", "blk.%.ffn_up_exps.weight", RowOrder::kSecondHalf},
    {"model.layers.%.block_sparse_moe.output_linear.weight", "blk.%.ffn_down_exps.weight"},
};
// Norms of what a block adds, not of what it reads.
inline constexpr NameRule kPostNormRules[] = {
    {"model.layers.%.post_attention_layernorm.weight", "blk.%.post_attention_norm.weight"},
    {"model.layers.%.post_feedforward_layernorm.weight", "blk.%.post_ffw_norm.weight"},
};
// Both.
inline constexpr NameRule kFourNormRules[] = {
    {"model.layers.%.post_attention_layernorm.weight", "blk.%.post_attention_norm.weight"},
    {"model.layers.%.pre_feedforward_layernorm.weight", "blk.%.ffn_norm.weight"},
    {"model.layers.%.post_feedforward_layernorm.weight", "blk.%.post_ffw_norm.weight"},
};
inline constexpr NameRule kFusedRules[] = {
    {"model.layers.%.self_attn.qkv_proj.weight", "blk.%.attn_qkv.weight"},
    {"model.layers.%.mlp.gate_up_proj.weight", "blk.%.ffn_up.weight"},
};
inline constexpr NameRule kGlm4Rules[] = {
    {"model.layers.%.post_self_attn_layernorm.weight", "blk.%.post_attention_norm.weight"},
    {"model.layers.%.post_mlp_layernorm.weight", "blk.%.post_ffw_norm.weight"},
    {"model.layers.%.mlp.gate_up_proj.weight", "blk.%.ffn_up.weight"},
};
inline constexpr NameRule kSeedOssRules[] = {
    {"model.layers.%.post_attention_layernorm.weight", "blk.%.post_attention_norm.weight"},
};
inline constexpr NameRule kStarCoder2Rules[] = {
    {"model.layers.%.mlp.c_fc.weight", "blk.%.ffn_up.weight"},
    {"model.layers.%.mlp.c_fc.bias", "blk.%.ffn_up.bias"},
    {"model.layers.%.mlp.c_proj.weight", "blk.%.ffn_down.weight"},
    {"model.layers.%.mlp.c_proj.bias", "blk.%.ffn_down.bias"},
};
inline constexpr NameRule kPhiRules[] = {
    {"model.final_layernorm.weight", "output_norm.weight"},
    {"model.final_layernorm.bias", "output_norm.bias"},
    {"lm_head.bias", "output.bias"},
    {"model.layers.%.self_attn.dense.weight", "blk.%.attn_output.weight"},
    {"model.layers.%.self_attn.dense.bias", "blk.%.attn_output.bias"},
    {"model.layers.%.mlp.fc1.weight", "blk.%.ffn_up.weight"},
    {"model.layers.%.mlp.fc1.bias", "blk.%.ffn_up.bias"},
    {"model.layers.%.mlp.fc2.weight", "blk.%.ffn_down.weight"},
    {"model.layers.%.mlp.fc2.bias", "blk.%.ffn_down.bias"},
};
inline constexpr NameRule kBitNetRules[] = {
    {"model.layers.%.self_attn.attn_sub_norm.weight", "blk.%.attn_sub_norm.weight"},
    {"model.layers.%.mlp.ffn_sub_norm.weight", "blk.%.ffn_sub_norm.weight"},
};
// Four norms, and what every layer gets beside the residual stream.
inline constexpr NameRule kGemma4Rules[] = {
    {"model.layers.%.post_attention_layernorm.weight", "blk.%.post_attention_norm.weight"},
    {"model.layers.%.pre_feedforward_layernorm.weight", "blk.%.ffn_norm.weight"},
    {"model.layers.%.post_feedforward_layernorm.weight", "blk.%.post_ffw_norm.weight"},
    {"model.layers.%.layer_scalar", "blk.%.layer_output_scale.weight"},
    {"model.layers.%.per_layer_input_gate.weight", "blk.%.inp_gate.weight"},
    {"model.layers.%.per_layer_projection.weight", "blk.%.proj.weight"},
    {"model.layers.%.post_per_layer_input_norm.weight", "blk.%.post_norm.weight"},
    {"model.embed_tokens_per_layer.weight", "per_layer_token_embd.weight"},
    {"model.per_layer_model_projection.weight", "per_layer_model_proj.weight"},
    {"model.per_layer_projection_norm.weight", "per_layer_proj_norm.weight"},
};
// GPT-2's matrices are stored as y = x W has them: Conv1D.
inline constexpr NameRule kGpt2Rules[] = {
    {"transformer.wte.weight", "token_embd.weight"},
    {"transformer.wpe.weight", "position_embd.weight"},
    {"transformer.ln_f.weight", "output_norm.weight"},
    {"transformer.ln_f.bias", "output_norm.bias"},
    {"transformer.h.%.ln_1.weight", "blk.%.attn_norm.weight"},
    {"transformer.h.%.ln_1.bias", "blk.%.attn_norm.bias"},
    {"transformer.h.%.attn.c_attn.weight", "blk.%.attn_qkv.weight", RowOrder::kTransposed},
    {"transformer.h.%.attn.c_attn.bias", "blk.%.attn_qkv.bias"},
    {"transformer.h.%.attn.c_proj.weight", "blk.%.attn_output.weight", RowOrder::kTransposed},
    {"transformer.h.%.attn.c_proj.bias", "blk.%.attn_output.bias"},
    {"transformer.h.%.ln_2.weight", "blk.%.ffn_norm.weight"},
    {"transformer.h.%.ln_2.bias", "blk.%.ffn_norm.bias"},
    {"transformer.h.%.mlp.c_fc.weight", "blk.%.ffn_up.weight", RowOrder::kTransposed},
    {"transformer.h.%.mlp.c_fc.bias", "blk.%.ffn_up.bias"},
    {"transformer.h.%.mlp.c_proj.weight", "blk.%.ffn_down.weight", RowOrder::kTransposed},
    {"transformer.h.%.mlp.c_proj.bias", "blk.%.ffn_down.bias"},
};
// StarCoder (GPTBigCode): GPT-2's names for ordinary matrices. With a head of its own for every query, q, k and v of a head lie together.
inline constexpr NameRule kStarCoderRules[] = {
    {"transformer.wte.weight", "token_embd.weight"},
    {"transformer.wpe.weight", "position_embd.weight"},
    {"transformer.ln_f.weight", "output_norm.weight"},
    {"transformer.ln_f.bias", "output_norm.bias"},
    {"transformer.h.%.ln_1.weight", "blk.%.attn_norm.weight"},
    {"transformer.h.%.ln_1.bias", "blk.%.attn_norm.bias"},
    {"transformer.h.%.attn.c_attn.weight", "blk.%.attn_qkv.weight", RowOrder::kGroupedQkv},
    {"transformer.h.%.attn.c_attn.bias", "blk.%.attn_qkv.bias", RowOrder::kGroupedQkv},
    {"transformer.h.%.attn.c_proj.weight", "blk.%.attn_output.weight"},
    {"transformer.h.%.attn.c_proj.bias", "blk.%.attn_output.bias"},
    {"transformer.h.%.ln_2.weight", "blk.%.ffn_norm.weight"},
    {"transformer.h.%.ln_2.bias", "blk.%.ffn_norm.bias"},
    {"transformer.h.%.mlp.c_fc.weight", "blk.%.ffn_up.weight"},
    {"transformer.h.%.mlp.c_fc.bias", "blk.%.ffn_up.bias"},
    {"transformer.h.%.mlp.c_proj.weight", "blk.%.ffn_down.weight"},
    {"transformer.h.%.mlp.c_proj.bias", "blk.%.ffn_down.bias"},
};
inline constexpr NameRule kGptNeoXRules[] = {
    {"gpt_neox.embed_in.weight", "token_embd.weight"},
    {"gpt_neox.final_layer_norm.weight", "output_norm.weight"},
    {"gpt_neox.final_layer_norm.bias", "output_norm.bias"},
    {"embed_out.weight", "output.weight"},
    {"gpt_neox.layers.%.input_layernorm.weight", "blk.%.attn_norm.weight"},
    {"gpt_neox.layers.%.input_layernorm.bias", "blk.%.attn_norm.bias"},
    {"gpt_neox.layers.%.attention.query_key_value.weight", "blk.%.attn_qkv.weight", RowOrder::kGroupedQkv},
    {"gpt_neox.layers.%.attention.query_key_value.bias", "blk.%.attn_qkv.bias", RowOrder::kGroupedQkv},
    {"gpt_neox.layers.%.attention.dense.weight", "blk.%.attn_output.weight"},
    {"gpt_neox.layers.%.attention.dense.bias", "blk.%.attn_output.bias"},
    {"gpt_neox.layers.%.post_attention_layernorm.weight", "blk.%.ffn_norm.weight"},
    {"gpt_neox.layers.%.post_attention_layernorm.bias", "blk.%.ffn_norm.bias"},
    {"gpt_neox.layers.%.mlp.dense_h_to_4h.weight", "blk.%.ffn_up.weight"},
    {"gpt_neox.layers.%.mlp.dense_h_to_4h.bias", "blk.%.ffn_up.bias"},
    {"gpt_neox.layers.%.mlp.dense_4h_to_h.weight", "blk.%.ffn_down.weight"},
    {"gpt_neox.layers.%.mlp.dense_4h_to_h.bias", "blk.%.ffn_down.bias"},
};
// BLOOM, and Falcon, which grew out of it: ln_mlp and ln_attn are the two norms of its 40B.
inline constexpr NameRule kBloomRules[] = {
    {"transformer.word_embeddings.weight", "token_embd.weight"},
    {"transformer.word_embeddings_layernorm.weight", "token_embd_norm.weight"},
    {"transformer.word_embeddings_layernorm.bias", "token_embd_norm.bias"},
    {"transformer.ln_f.weight", "output_norm.weight"},
    {"transformer.ln_f.bias", "output_norm.bias"},
    {"transformer.h.%.input_layernorm.weight", "blk.%.attn_norm.weight"},
    {"transformer.h.%.input_layernorm.bias", "blk.%.attn_norm.bias"},
    {"transformer.h.%.ln_mlp.weight", "blk.%.attn_norm.weight"},
    {"transformer.h.%.ln_mlp.bias", "blk.%.attn_norm.bias"},
    {"transformer.h.%.ln_attn.weight", "blk.%.attn_norm_2.weight"},
    {"transformer.h.%.ln_attn.bias", "blk.%.attn_norm_2.bias"},
    {"transformer.h.%.self_attention.query_key_value.weight", "blk.%.attn_qkv.weight", RowOrder::kGroupedQkv},
    {"transformer.h.%.self_attention.query_key_value.bias", "blk.%.attn_qkv.bias", RowOrder::kGroupedQkv},
    {"transformer.h.%.self_attention.dense.weight", "blk.%.attn_output.weight"},
    {"transformer.h.%.self_attention.dense.bias", "blk.%.attn_output.bias"},
    {"transformer.h.%.post_attention_layernorm.weight", "blk.%.ffn_norm.weight"},
    {"transformer.h.%.post_attention_layernorm.bias", "blk.%.ffn_norm.bias"},
    {"transformer.h.%.mlp.dense_h_to_4h.weight", "blk.%.ffn_up.weight"},
    {"transformer.h.%.mlp.dense_h_to_4h.bias", "blk.%.ffn_up.bias"},
    {"transformer.h.%.mlp.dense_4h_to_h.weight", "blk.%.ffn_down.weight"},
    {"transformer.h.%.mlp.dense_4h_to_h.bias", "blk.%.ffn_down.bias"},
};
inline constexpr NameRule kMptRules[] = {
    {"transformer.wte.weight", "token_embd.weight"},
    {"transformer.wpe.weight", "position_embd.weight"},
    {"transformer.norm_f.weight", "output_norm.weight"},
    {"transformer.norm_f.bias", "output_norm.bias"},
    {"transformer.blocks.%.norm_1.weight", "blk.%.attn_norm.weight"},
    {"transformer.blocks.%.norm_1.bias", "blk.%.attn_norm.bias"},
    {"transformer.blocks.%.attn.Wqkv.weight", "blk.%.attn_qkv.weight"},
    {"transformer.blocks.%.attn.Wqkv.bias", "blk.%.attn_qkv.bias"},
    {"transformer.blocks.%.attn.out_proj.weight", "blk.%.attn_output.weight"},
    {"transformer.blocks.%.attn.out_proj.bias", "blk.%.attn_output.bias"},
    {"transformer.blocks.%.norm_2.weight", "blk.%.ffn_norm.weight"},
    {"transformer.blocks.%.norm_2.bias", "blk.%.ffn_norm.bias"},
    {"transformer.blocks.%.ffn.up_proj.weight", "blk.%.ffn_up.weight"},
    {"transformer.blocks.%.ffn.up_proj.bias", "blk.%.ffn_up.bias"},
    {"transformer.blocks.%.ffn.down_proj.weight", "blk.%.ffn_down.weight"},
    {"transformer.blocks.%.ffn.down_proj.bias", "blk.%.ffn_down.bias"},
};
inline constexpr NameRule kBertRules[] = {
    {"embeddings.word_embeddings.weight", "token_embd.weight"},
    {"embeddings.position_embeddings.weight", "position_embd.weight"},
    {"embeddings.token_type_embeddings.weight", "token_types.weight"},
    {"embeddings.LayerNorm.weight", "token_embd_norm.weight"},
    {"embeddings.LayerNorm.bias", "token_embd_norm.bias"},
    {"encoder.layer.%.attention.self.query.weight", "blk.%.attn_q.weight"},
    {"encoder.layer.%.attention.self.query.bias", "blk.%.attn_q.bias"},
    {"encoder.layer.%.attention.self.key.weight", "blk.%.attn_k.weight"},
    {"encoder.layer.%.attention.self.key.bias", "blk.%.attn_k.bias"},
    {"encoder.layer.%.attention.self.value.weight", "blk.%.attn_v.weight"},
    {"encoder.layer.%.attention.self.value.bias", "blk.%.attn_v.bias"},
    {"encoder.layer.%.attention.output.dense.weight", "blk.%.attn_output.weight"},
    {"encoder.layer.%.attention.output.dense.bias", "blk.%.attn_output.bias"},
    {"encoder.layer.%.attention.output.LayerNorm.weight", "blk.%.attn_output_norm.weight"},
    {"encoder.layer.%.attention.output.LayerNorm.bias", "blk.%.attn_output_norm.bias"},
    {"encoder.layer.%.intermediate.dense.weight", "blk.%.ffn_up.weight"},
    {"encoder.layer.%.intermediate.dense.bias", "blk.%.ffn_up.bias"},
    {"encoder.layer.%.output.dense.weight", "blk.%.ffn_down.weight"},
    {"encoder.layer.%.output.dense.bias", "blk.%.ffn_down.bias"},
    {"encoder.layer.%.output.LayerNorm.weight", "blk.%.layer_output_norm.weight"},
    {"encoder.layer.%.output.LayerNorm.bias", "blk.%.layer_output_norm.bias"},
};
// Tables that can be computed, which old checkpoints carry along; and BERT's pooler, a layer for classifying that no embedding of a text
// goes through (sentence-transformers pools what it reads).
inline constexpr const char* kIgnored[] = {".rotary_emb.inv_freq",    ".attn.bias",          ".attention.bias",
                                           ".rotary_emb.cos_cached",  ".masked_bias",        ".rotary_emb.sin_cached",
                                           "embeddings.position_ids", "pooler.dense.weight", "pooler.dense.bias"};

}  // namespace moonlit
