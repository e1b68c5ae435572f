// SPDX-License-Identifier: Apache-2.0
#include "tests/support/hugging_face_folder.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <vector>

#include "kernels/base/check.h"
#include "nlohmann/json.hpp"
#include "runtime/gguf/gguf.h"
#include "tests/support/hugging_face_tokenizer.h"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

using Json = nlohmann::ordered_json;

struct Tensor {
  std::vector<uint64_t> shape;
  std::string bytes;
};
using Tensors = std::map<std::string, Tensor>;

void Save(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  out.close();
  MOONLIT_CHECK(out.good());
}

std::string Rows(const std::string& bytes, const std::vector<size_t>& order, size_t row_bytes) {
  std::string rows;
  for (size_t row : order) rows += bytes.substr(row * row_bytes, row_bytes);
  return rows;
}

// GGUF has the pairs (0, d/2), (1, d/2 + 1) ... of a head's rows side by side; PyTorch first all lower, then all upper ones.
std::string HalvesOfHeads(const std::string& bytes, size_t rows, size_t heads) {
  std::vector<size_t> order;
  const size_t d = rows / heads;
  for (size_t h = 0; h < heads; ++h) {
    for (size_t i = 0; i < d; i += 2) order.push_back(h * d + i);
    for (size_t i = 1; i < d; i += 2) order.push_back(h * d + i);
  }
  return Rows(bytes, order, bytes.size() / rows);
}

const std::map<std::string, std::string> kPlainNames = {
    {"attn_norm.weight", "input_layernorm.weight"},
    {"ffn_norm.weight", "post_attention_layernorm.weight"},
    {"attn_output.weight", "self_attn.o_proj.weight"},
    {"attn_q.weight", "self_attn.q_proj.weight"},
    {"attn_k.weight", "self_attn.k_proj.weight"},
    {"attn_v.weight", "self_attn.v_proj.weight"},
    {"attn_q.bias", "self_attn.q_proj.bias"},
    {"attn_k.bias", "self_attn.k_proj.bias"},
    {"attn_v.bias", "self_attn.v_proj.bias"},
    {"attn_q_norm.weight", "self_attn.q_norm.weight"},
    {"attn_k_norm.weight", "self_attn.k_norm.weight"},
    {"ffn_gate.weight", "mlp.gate_proj.weight"},
    {"ffn_up.weight", "mlp.up_proj.weight"},
    {"ffn_down.weight", "mlp.down_proj.weight"},
    {"ffn_gate_shexp.weight", "mlp.shared_expert.gate_proj.weight"},
    {"ffn_up_shexp.weight", "mlp.shared_expert.up_proj.weight"},
    {"ffn_down_shexp.weight", "mlp.shared_expert.down_proj.weight"},
    {"ffn_gate_inp_shexp.weight", "mlp.shared_expert_gate.weight"},
    {"attn_norm.bias", "input_layernorm.bias"},
    {"ffn_norm.bias", "post_attention_layernorm.bias"},
    {"attn_output.bias", "self_attn.o_proj.bias"},
};

// BERT's, whose norms are called alike in four places.
const std::map<std::string, std::string> kBertNames = {
    {"token_embd", "embeddings.word_embeddings"},
    {"position_embd", "embeddings.position_embeddings"},
    {"token_types", "embeddings.token_type_embeddings"},
    {"token_embd_norm", "embeddings.LayerNorm"},
    {"attn_q", "attention.self.query"},
    {"attn_k", "attention.self.key"},
    {"attn_v", "attention.self.value"},
    {"attn_output", "attention.output.dense"},
    {"attn_output_norm", "attention.output.LayerNorm"},
    {"ffn_up", "intermediate.dense"},
    {"ffn_down", "output.dense"},
    {"layer_output_norm", "output.LayerNorm"},
};

// Families of which every name differs. Without .weight and .bias, which both sides have.
struct OtherNames {
  const char* layers;  // % stands for the number
  std::map<std::string, std::string> names;
};
const std::map<std::string, OtherNames> kOtherNames = {
    {"gpt2",
     {"transformer.h.%.",
      {{"token_embd", "transformer.wte"},
       {"position_embd", "transformer.wpe"},
       {"output_norm", "transformer.ln_f"},
       {"attn_norm", "ln_1"},
       {"ffn_norm", "ln_2"},
       {"attn_qkv", "attn.c_attn"},
       {"attn_output", "attn.c_proj"},
       {"ffn_up", "mlp.c_fc"},
       {"ffn_down", "mlp.c_proj"}}}},
    {"gpt_neox",
     {"gpt_neox.layers.%.",
      {{"token_embd", "gpt_neox.embed_in"},
       {"output", "embed_out"},
       {"output_norm", "gpt_neox.final_layer_norm"},
       {"attn_norm", "input_layernorm"},
       {"ffn_norm", "post_attention_layernorm"},
       {"attn_qkv", "attention.query_key_value"},
       {"attn_output", "attention.dense"},
       {"ffn_up", "mlp.dense_h_to_4h"},
       {"ffn_down", "mlp.dense_4h_to_h"}}}},
    {"bloom",
     {"transformer.h.%.",
      {{"token_embd", "transformer.word_embeddings"},
       {"token_embd_norm", "transformer.word_embeddings_layernorm"},
       {"output_norm", "transformer.ln_f"},
       {"attn_norm", "input_layernorm"},
       {"ffn_norm", "post_attention_layernorm"},
       {"attn_qkv", "self_attention.query_key_value"},
       {"attn_output", "self_attention.dense"},
       {"ffn_up", "mlp.dense_h_to_4h"},
       {"ffn_down", "mlp.dense_4h_to_h"}}}},
    {"mpt",
     {"transformer.blocks.%.",
      {{"token_embd", "transformer.wte"},
       {"output_norm", "transformer.norm_f"},
       {"attn_norm", "norm_1"},
       {"ffn_norm", "norm_2"},
       {"attn_qkv", "attn.Wqkv"},
       {"attn_output", "attn.out_proj"},
       {"ffn_up", "ffn.up_proj"},
       {"ffn_down", "ffn.down_proj"}}}},
    {"bert", {"encoder.layer.%.", kBertNames}},
};

const OtherNames* OtherNamesOf(const std::string& type) {
  const auto found = kOtherNames.find(type == "falcon" ? "bloom" : type == "gpt_bigcode" ? "gpt2" : type);
  return found == kOtherNames.end() ? nullptr : &found->second;
}

// [rows, columns] to [columns, rows].
void Transpose(Tensor* tensor) {
  const size_t rows = tensor->shape[0], columns = tensor->shape[1];
  std::string turned(tensor->bytes.size(), '\0');
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < columns; ++c)
      std::memcpy(&turned[(c * rows + r) * sizeof(float)], &tensor->bytes[(r * columns + c) * sizeof(float)],
                  sizeof(float));
  }
  tensor->bytes = std::move(turned);
  std::swap(tensor->shape[0], tensor->shape[1]);
}

// All queries, keys, values, as GGUF has them, to groups of them.
std::string GroupedHeads(const std::string& bytes, size_t rows, size_t heads, size_t groups) {
  const size_t d = rows / (heads + 2 * groups);
  std::vector<size_t> order;
  const auto put = [&](size_t head) {
    for (size_t i = 0; i < d; ++i) order.push_back(head * d + i);
  };
  for (size_t g = 0; g < groups; ++g) {
    for (size_t h = 0; h < heads / groups; ++h) put(g * (heads / groups) + h);
    put(heads + g);
    put(heads + groups + g);
  }
  return Rows(bytes, order, bytes.size() / rows);
}

// By model_type, where they differ.
const std::map<std::string, std::map<std::string, std::string>> kNamesOf = {
    {"starcoder2",
     {{"ffn_up.weight", "mlp.c_fc.weight"},
      {"ffn_up.bias", "mlp.c_fc.bias"},
      {"ffn_down.weight", "mlp.c_proj.weight"},
      {"ffn_down.bias", "mlp.c_proj.bias"}}},
    {"phi",
     {{"output_norm.weight", "model.final_layernorm.weight"},
      {"output_norm.bias", "model.final_layernorm.bias"},
      {"attn_output.weight", "self_attn.dense.weight"},
      {"attn_output.bias", "self_attn.dense.bias"},
      {"ffn_up.weight", "mlp.fc1.weight"},
      {"ffn_up.bias", "mlp.fc1.bias"},
      {"ffn_down.weight", "mlp.fc2.weight"},
      {"ffn_down.bias", "mlp.fc2.bias"}}},
    {"phi3", {{"attn_qkv.weight", "self_attn.qkv_proj.weight"}, {"ffn_up.weight", "mlp.gate_up_proj.weight"}}},
    {"glm4",
     {{"post_attention_norm.weight", "post_self_attn_layernorm.weight"},
      {"post_ffw_norm.weight", "post_mlp_layernorm.weight"},
      {"ffn_up.weight", "mlp.gate_up_proj.weight"}}},
    {"seed_oss", {{"post_attention_norm.weight", "post_attention_layernorm.weight"}}},
    {"exaone4",
     {{"post_attention_norm.weight", "post_attention_layernorm.weight"},
      {"post_ffw_norm.weight", "post_feedforward_layernorm.weight"}}},
    {"olmo3",
     {{"post_attention_norm.weight", "post_attention_layernorm.weight"},
      {"post_ffw_norm.weight", "post_feedforward_layernorm.weight"}}},
    {"bitnet",
     {{"attn_sub_norm.weight", "self_attn.attn_sub_norm.weight"}, {"ffn_sub_norm.weight", "mlp.ffn_sub_norm.weight"}}},
    {"gemma4_text",
     {{"post_attention_norm.weight", "post_attention_layernorm.weight"},
      {"ffn_norm.weight", "pre_feedforward_layernorm.weight"},
      {"post_ffw_norm.weight", "post_feedforward_layernorm.weight"},
      {"layer_output_scale.weight", "layer_scalar"},
      {"inp_gate.weight", "per_layer_input_gate.weight"},
      {"proj.weight", "per_layer_projection.weight"},
      {"post_norm.weight", "post_per_layer_input_norm.weight"},
      {"per_layer_token_embd.weight", "model.embed_tokens_per_layer.weight"},
      {"per_layer_model_proj.weight", "model.per_layer_model_projection.weight"},
      {"per_layer_proj_norm.weight", "model.per_layer_projection_norm.weight"}}},
};

class FolderWriter {
 public:
  FolderWriter(const GgufFile& file, const Json& config) : file_(file), config_(config), type_(config["model_type"]) {}

  Tensors Collect() {
    for (const GgufTensor& tensor : file_.tensors()) {
      Tensor out{{tensor.dims.begin(), tensor.dims.begin() + static_cast<ptrdiff_t>(tensor.rank)},
                 std::string(static_cast<size_t>(tensor.bytes), '\0')};
      MOONLIT_CHECK(file_.ReadTensor(tensor, 0, out.bytes.data(), out.bytes.size()).ok());
      Add(std::string(tensor.name), std::move(out));
    }
    JoinGateAndUp();
    return std::move(tensors_);
  }

 private:
  bool rotated() const {
    return type_ == "llama" || type_ == "smollm3" || type_ == "mistral" || type_ == "mixtral" || type_ == "granite" ||
           type_ == "granitemoe" || type_ == "arcee" || type_ == "olmo";
  }

  const std::string* OwnName(const std::string& name) const {
    const auto names = kNamesOf.find(type_);
    if (names == kNamesOf.end()) return nullptr;
    const auto found = names->second.find(name);
    return found == names->second.end() ? nullptr : &found->second;
  }

  void Add(const std::string& name, Tensor tensor) {
    if (name.starts_with("rope_f")) return;  // follows from the config
    if (const OtherNames* other = OtherNamesOf(type_)) return AddOther(*other, name, std::move(tensor));
    if (const std::string* own = OwnName(name)) return Put(*own, std::move(tensor));
    if (name == "token_embd.weight") return Put("model.embed_tokens.weight", std::move(tensor));
    if (name == "output_norm.weight") return Put("model.norm.weight", std::move(tensor));
    if (name == "output_norm.bias") return Put("model.norm.bias", std::move(tensor));
    if (name == "output.weight") return Put("lm_head.weight", std::move(tensor));
    if (name == "output.bias") return Put("lm_head.bias", std::move(tensor));
    MOONLIT_CHECK(name.starts_with("blk."));
    const size_t dot = name.find('.', 4);
    const std::string stem = name.substr(dot + 1);
    const std::string layer = "model.layers." + name.substr(4, dot - 4) + ".";
    if (rotated() && (stem.starts_with("attn_q.") || stem.starts_with("attn_k."))) {
      const char* heads = stem.starts_with("attn_q.") ? "num_attention_heads" : "num_key_value_heads";
      tensor.bytes = HalvesOfHeads(tensor.bytes, tensor.shape[0], config_[heads]);
    }
    if (const std::string* own = OwnName(stem)) return Put(layer + *own, std::move(tensor));
    if (stem == "ffn_gate_inp.weight") {
      const char* router = type_ == "mixtral"      ? "block_sparse_moe.gate.weight"
                           : type_ == "granitemoe" ? "block_sparse_moe.router.layer.weight"
                                                   : "mlp.gate.weight";
      return Put(layer + router, std::move(tensor));
    }
    if (stem.find("_exps.") != std::string::npos) return AddExperts(layer, stem, std::move(tensor));
    if (type_ == "olmo2" || type_ == "gemma2" || type_ == "gemma3_text") {
      if (stem == "post_attention_norm.weight")
        return Put(layer + "post_attention_layernorm.weight", std::move(tensor));
      if (stem == "post_ffw_norm.weight") return Put(layer + "post_feedforward_layernorm.weight", std::move(tensor));
      if (stem == "ffn_norm.weight") return Put(layer + "pre_feedforward_layernorm.weight", std::move(tensor));
    }
    Put(layer + kPlainNames.at(stem), std::move(tensor));
  }

  void AddOther(const OtherNames& other, const std::string& name, Tensor tensor) {
    const bool global = !name.starts_with("blk.");
    const size_t dot = global ? 0 : name.find('.', 4) + 1;
    const std::string stem = name.substr(dot, name.rfind('.') - dot), suffix = name.substr(name.rfind('.'));
    const bool matrix = tensor.shape.size() == 2;
    if (type_ == "gpt2" && matrix && !global) Transpose(&tensor);
    if (stem == "attn_qkv" && type_ != "gpt2" && type_ != "mpt") {
      const char* heads = config_.contains("n_head") ? "n_head" : "num_attention_heads";
      const size_t queries = config_[heads];
      const bool single = config_.value("multi_query", false);
      tensor.bytes = GroupedHeads(tensor.bytes, tensor.shape[0], queries, single ? 1 : queries);
    }
    std::string layers = global ? "" : other.layers;
    if (!global) layers.replace(layers.find('%'), 1, name.substr(4, dot - 5));
    Put(layers + other.names.at(stem) + suffix, std::move(tensor));
  }

  // Gemma's folders hold norms less 1.
  static void LessOne(std::string* bytes) {
    std::vector<float> values(bytes->size() / sizeof(float));
    std::memcpy(values.data(), bytes->data(), bytes->size());
    for (float& value : values) value -= 1.0f;
    std::memcpy(bytes->data(), values.data(), bytes->size());
  }

  void AddExperts(const std::string& layer, const std::string& stem, Tensor tensor) {
    if (type_ == "granitemoe") {
      const char* name = stem == "ffn_down_exps.weight"   ? "block_sparse_moe.output_linear.weight"
                         : stem == "ffn_gate_exps.weight" ? "gate half"
                                                          : "up half";
      return Put(layer + name, std::move(tensor));
    }
    const size_t experts = tensor.shape[0], bytes = tensor.bytes.size() / experts;
    const std::string part = stem.substr(4, stem.find("_exps") - 4);  // gate, up, down
    for (size_t e = 0; e < experts; ++e) {
      const std::string number = std::to_string(e) + ".";
      const std::string name = type_ == "mixtral" ? "block_sparse_moe.experts." + number +
                                                        (part == "gate"   ? "w1"
                                                         : part == "down" ? "w2"
                                                                          : "w3") +
                                                        ".weight"
                                                  : "mlp.experts." + number + part + "_proj.weight";
      Put(layer + name, {{tensor.shape[1], tensor.shape[2]}, tensor.bytes.substr(e * bytes, bytes)});
    }
  }

  // Granite's experts have both in one tensor, expert by expert.
  void JoinGateAndUp() {
    for (size_t layer = 0; type_ == "granitemoe" && layer < config_["num_hidden_layers"]; ++layer) {
      const std::string prefix = "model.layers." + std::to_string(layer) + ".";
      Tensor gate = tensors_.at(prefix + "gate half"), up = tensors_.at(prefix + "up half");
      tensors_.erase(prefix + "gate half");
      tensors_.erase(prefix + "up half");
      const size_t experts = gate.shape[0], bytes = gate.bytes.size() / experts;
      Tensor both{{experts, 2 * gate.shape[1], gate.shape[2]}, ""};
      for (size_t e = 0; e < experts; ++e)
        both.bytes += gate.bytes.substr(e * bytes, bytes) + up.bytes.substr(e * bytes, bytes);
      Put(prefix + "block_sparse_moe.input_linear.weight", std::move(both));
    }
  }

  void Put(const std::string& name, Tensor tensor) {
    const bool less = (type_.starts_with("gemma") && type_ != "gemma4_text") || type_ == "nemotron";
    if (less && name.ends_with("norm.weight")) LessOne(&tensor.bytes);
    MOONLIT_CHECK(tensors_.emplace(name, std::move(tensor)).second);
  }

  const GgufFile& file_;
  const Json& config_;
  const std::string type_;
  Tensors tensors_;
};

std::string Safetensors(const Tensors& tensors) {
  Json header;
  std::string data;
  header["__metadata__"] = {{"format", "pt"}};
  for (const auto& [name, tensor] : tensors) {
    header[name] = {
        {"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  const std::string text = header.dump();
  std::string bytes(8, '\0');
  const uint64_t length = text.size();
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + text + data;
}

void WriteShards(const Tensors& tensors, const std::string& folder, size_t shards) {
  if (shards == 1) return Save(folder + "/model.safetensors", Safetensors(tensors));
  std::vector<Tensors> parts(shards);
  Json index;
  size_t next = 0;
  for (const auto& [name, tensor] : tensors) {
    const size_t shard = next++ % shards;
    parts[shard][name] = tensor;
    index["weight_map"][name] = "part-" + std::to_string(shard) + ".safetensors";
  }
  for (size_t i = 0; i < shards; ++i)
    Save(folder + "/part-" + std::to_string(i) + ".safetensors", Safetensors(parts[i]));
  Save(folder + "/model.safetensors.index.json", index.dump());
}

// As sentence-transformers says how a text becomes a vector.
void WritePooling(const std::string& pooling, const std::string& folder) {
  const Json modules = {{{"path", ""}, {"type", "sentence_transformers.models.Transformer"}},
                        {{"path", "1_Pooling"}, {"type", "sentence_transformers.models.Pooling"}},
                        {{"path", "2_Normalize"}, {"type", "sentence_transformers.models.Normalize"}}};
  Save(folder + "/modules.json", modules.dump());
  std::filesystem::create_directory(folder + "/1_Pooling");
  const Json config = {{"word_embedding_dimension", 72},
                       {"pooling_mode_cls_token", pooling == "cls"},
                       {"pooling_mode_mean_tokens", pooling == "mean"},
                       {"pooling_mode_max_tokens", false}};
  Save(folder + "/1_Pooling/config.json", config.dump());
}

}  // namespace

void WriteHuggingFaceFolder(const std::string& golden, const std::string& folder, size_t shards) {
  const Json judgement = Json::parse(ReadWholeFile(golden + "/golden.json"));
  const Json& config = judgement["hf_config"];
  const Result<GgufFile> file = GgufFile::Open(golden + "/model.gguf");
  MOONLIT_CHECK(file.ok());
  Save(folder + "/config.json", config.dump());
  WriteShards(FolderWriter(*file, config).Collect(), folder, shards);
  WriteHuggingFaceTokenizer(*file, folder);
  if (judgement["kind"] == "embedding") WritePooling(judgement["inputs"][0]["pooling"], folder);
}

}  // namespace moonlit
