// SPDX-License-Identifier: Apache-2.0
// The same choice of formats as llama-quantize's, for every file type and model of a table that it wrote itself
// (tests/data/recipes/make_quantize_types_golden.py).
#include "runtime/convert/mixture.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace moonlit {
namespace {

struct Model {
  std::string name;
  MixtureFacts facts;
  std::vector<TensorInfo> tensors;
  // By file type, imatrix and tensor with * for the layer: one format's name a layer.
  std::map<std::pair<std::string, bool>, std::map<std::string, std::vector<std::string>>> types;
};

TensorInfo MakeTensor(const std::string& name, const std::vector<size_t>& dims) {
  TensorInfo info;
  info.name = name;
  for (size_t dim : dims) info.shape.Append(dim);
  info.format = dims.size() == 1 || name.find("gate_inp") != std::string::npos ? Format::kF32 : Format::kF16;
  info.bytes = info.shape.rows() * RowBytes(info.format, info.shape.columns());
  return info;
}

void AddTensor(std::istream& line, Model* model) {
  std::string name;
  std::vector<size_t> dims;
  line >> name;
  for (size_t dim = 0; line >> dim;) dims.push_back(dim);
  const size_t star = name.find('*');
  for (size_t layer = 0; layer < (star == std::string::npos ? 1 : model->facts.layers); ++layer) {
    std::string full = name;
    if (star != std::string::npos) full.replace(star, 1, std::to_string(layer));
    model->tensors.push_back(MakeTensor(full, dims));
  }
}

void AddTypes(std::istream& line, Model* model) {
  std::string type, tensor, run;
  int imatrix = 0;
  line >> type >> imatrix >> tensor;
  std::vector<std::string>& layers = model->types[{type, imatrix != 0}][tensor];
  while (line >> run) {
    const size_t star = run.find('*');
    layers.insert(layers.end(), star == std::string::npos ? 1 : std::stoul(run.substr(star + 1)), run.substr(0, star));
  }
}

std::vector<Model> ReadModels() {
  std::ifstream file(MOONLIT_SOURCE_DIR "/tests/data/quantize_types_golden.txt");
  std::vector<Model> models;
  for (std::string text; std::getline(file, text);) {
    std::istringstream line(text);
    std::string word;
    line >> word;
    if (word == "model") {
      Model model;
      size_t heads = 0, kv_heads = 0;
      line >> model.name >> model.facts.architecture >> model.facts.layers >> heads >> kv_heads >> model.facts.experts;
      model.facts.heads_per_kv_head = heads / kv_heads;
      models.push_back(std::move(model));
    } else if (word == "tensor") {
      AddTensor(line, &models.back());
    } else if (word == "types") {
      AddTypes(line, &models.back());
    }
  }
  return models;
}

std::vector<const TensorInfo*> Pointers(const std::vector<TensorInfo>& tensors) {
  std::vector<const TensorInfo*> pointers;
  for (const TensorInfo& tensor : tensors) pointers.push_back(&tensor);
  return pointers;
}

// Compares one file type; with an importance matrix only what it changes stands in the table.
size_t Compare(const Model& model, const std::string& name, bool imatrix) {
  const Result<FileType> type = FindFileType(name);
  EXPECT_TRUE(type.ok()) << name;
  ImportanceMatrix importance;
  for (const TensorInfo& tensor : model.tensors) importance.rows[tensor.name];
  const auto formats = ChooseFormats(Pointers(model.tensors), model.facts, *type,
                                     {.has_imatrix = imatrix, .imatrix = imatrix ? &importance : nullptr});
  // llama-quantize's dry run goes on where it would refuse.
  if (name == "Q2_K_S" && !imatrix) return 0;
  EXPECT_TRUE(formats.ok()) << formats.status().ToString();
  const auto& without = model.types.at({name, false});
  const auto with = model.types.find({name, true});
  size_t compared = 0;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const TensorInfo& tensor = model.tensors[i];
    std::string pattern = tensor.name;
    size_t layer = 0;
    if (pattern.starts_with("blk.")) {
      const size_t dot = pattern.find('.', 4);
      layer = std::stoul(pattern.substr(4, dot - 4));
      pattern.replace(4, dot - 4, "*");
    }
    if (tensor.name.find("_norm.weight") != std::string::npos) {
      EXPECT_EQ(formats.value()[i], Format::kF32) << tensor.name;
      continue;
    }
    const bool changed = imatrix && with != model.types.end() && with->second.count(pattern) != 0;
    const std::string& expected = (changed ? with->second : without).at(pattern).at(layer);
    EXPECT_EQ(Traits(formats.value()[i]).name, expected)
        << model.name << ", " << name << (imatrix ? " with an imatrix, " : ", ") << tensor.name;
    ++compared;
  }
  return compared;
}

TEST(Mixture, GivesLlamaQuantizesTypes) {
  const std::vector<Model> models = ReadModels();
  ASSERT_EQ(models.size(), 8u);
  size_t compared = 0;
  std::set<std::string> types;
  for (const Model& model : models) {
    for (const auto& [key, tensors] : model.types) types.insert(key.first);
  }
  ASSERT_EQ(types.size(), 21u);
  for (const Model& model : models) {
    for (const std::string& type : types) {
      for (bool imatrix : {false, true}) compared += Compare(model, type, imatrix);
    }
  }
  EXPECT_GT(compared, 50000u);
}

TEST(Mixture, PureKnowsOneFormatAndWhatRowsFit) {
  const std::vector<TensorInfo> tensors = {
      MakeTensor("token_embd.weight", {512, 512}),     MakeTensor("blk.0.attn_v.weight", {64, 96}),
      MakeTensor("blk.0.ffn_down.weight", {512, 100}), MakeTensor("blk.0.attn_norm.weight", {512}),
      MakeTensor("blk.0.attn_q.bias", {64}),           MakeTensor("blk.0.ffn_gate_inp.weight", {8, 512})};
  const auto formats =
      ChooseFormats(Pointers(tensors), {"llama", 1, 4, 0}, FindFileType("Q4_K").value(), {.pure = true});
  ASSERT_TRUE(formats.ok());
  EXPECT_EQ(*formats, (std::vector<Format>{Format::kQ4_K, Format::kQ5_0, Format::kF16, Format::kF32, Format::kF32,
                                           Format::kF32}));
}

TEST(Mixture, SmallTwoBitFilesNeedAnImatrix) {
  const std::vector<TensorInfo> tensors = {MakeTensor("token_embd.weight", {512, 512}),
                                           MakeTensor("output.weight", {512, 512}),
                                           MakeTensor("blk.0.attn_q.weight", {512, 512})};
  const FileType type = FindFileType("q2_k_s").value();
  const auto refused = ChooseFormats(Pointers(tensors), {"llama", 1, 1, 0}, type, {});
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("blk.0.attn_q.weight"), std::string_view::npos);
  ImportanceMatrix matrix;
  matrix.rows["blk.7.attn_q.weight"] = {1};
  MixtureOptions options{.has_imatrix = true, .imatrix = &matrix};
  EXPECT_FALSE(ChooseFormats(Pointers(tensors), {"llama", 1, 1, 0}, type, options).ok()) << "not of this tensor";
  matrix.rows["blk.0.attn_q.weight"] = {1};
  EXPECT_TRUE(ChooseFormats(Pointers(tensors), {"llama", 1, 1, 0}, type, options).ok());
}

TEST(FileTypes, EveryFormatThatCanBeWrittenHasAName) {
  for (Format format : kAllFormats) {
    if (Traits(format).quantize == nullptr) continue;
    const Result<FileType> type = FindFileType(Traits(format).name);
    ASSERT_TRUE(type.ok()) << Traits(format).name;
    EXPECT_EQ(type->format, format);
  }
  EXPECT_EQ(FindFileType("q4_k_m")->number, 15);
  EXPECT_EQ(FindFileType("Q4_K")->mixture, Mixture::kQ4_K_M);
  const Status unknown = FindFileType("Q9_Z").status();
  EXPECT_EQ(unknown.code(), Code::kInvalidArgument);
  EXPECT_NE(unknown.message().find("Q5_K_S"), std::string_view::npos);
}

}  // namespace
}  // namespace moonlit
