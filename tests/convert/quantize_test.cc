// SPDX-License-Identifier: Apache-2.0
// Whole files through QuantizeFile: what they hold, what stays, what is refused, and how much memory it takes.
#include "runtime/convert/quantize.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <functional>
#include <random>

#include "runtime/base/log.h"
#include "runtime/gguf/gguf.h"
#include "runtime/gguf/gguf_writer.h"
#include "runtime/weights/gguf_source.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

constexpr size_t kColumns = 256;

struct MadeModel {
  std::string path;
  std::vector<float> query;
};

// A layer's worth of tensors in F32 with seeded values; `spoil` may change the query's.
MadeModel MakeModel(const TempFolder& folder, size_t rows = 64,
                    const std::function<void(std::vector<float>&)>& spoil = {}) {
  GgufWriter writer;
  writer.SetString("general.architecture", "llama");
  writer.SetString("general.name", "made");
  writer.SetU32("general.file_type", 0);
  writer.SetU32("llama.block_count", 1);
  writer.SetU32("llama.attention.head_count", 4);
  writer.SetF32Array("some.array", {1, 2, 3});
  const std::vector<std::pair<std::string, std::vector<uint64_t>>> tensors = {{"token_embd.weight", {rows, kColumns}},
                                                                              {"blk.0.attn_norm.weight", {kColumns}},
                                                                              {"blk.0.attn_q.weight", {rows, kColumns}},
                                                                              {"blk.0.attn_v.weight", {rows, 96}}};
  for (const auto& [name, dims] : tensors) writer.AddTensor(name, Format::kF32, dims);
  MadeModel model{folder.path() + "/in.gguf", {}};
  EXPECT_TRUE(writer.Begin(model.path).ok());
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 0.05f);
  for (const auto& [name, dims] : tensors) {
    std::vector<float> values(dims.size() == 1 ? dims[0] : dims[0] * dims[1]);
    for (float& value : values) value = normal(random);
    if (name == "blk.0.attn_q.weight") {
      if (spoil) spoil(values);
      model.query = values;
    }
    EXPECT_TRUE(writer.Append(values.data(), values.size() * sizeof(float)).ok());
  }
  EXPECT_TRUE(writer.Finish().ok());
  return model;
}

std::vector<float> ReadTensor(const std::string& path, const char* name, Format* format) {
  const auto source = GgufSource::Open(path);
  EXPECT_TRUE(source.ok()) << source.status().ToString();
  const TensorInfo* info = (*source)->Find(name);
  EXPECT_NE(info, nullptr);
  *format = info->format;
  std::vector<uint8_t> bytes(static_cast<size_t>(info->bytes));
  EXPECT_TRUE((*source)->Read(*info, 0, bytes.data(), bytes.size()).ok());
  std::vector<float> values(info->shape.elements());
  Traits(info->format).dequantize(bytes.data(), values.data(), values.size());
  return values;
}

TEST(Quantize, EveryTypeGivesAFileWhoseWeightsAreNear) {
  const TempFolder folder;
  const MadeModel model = MakeModel(folder);
  size_t types = 0;
  for (Format format : kAllFormats) {
    if (Traits(format).quantize == nullptr) continue;
    const std::string out = folder.path() + "/out.gguf";
    const auto report = QuantizeFile(model.path, out, {.type = Traits(format).name, .pure = true});
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    Format written;
    const std::vector<float> values = ReadTensor(out, "blk.0.attn_q.weight", &written);
    EXPECT_EQ(written, format);
    double error = 0, sum = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      error += std::pow(double{values[i]} - model.query[i], 2);
      sum += std::pow(double{model.query[i]}, 2);
    }
    // Two bits for a normal distribution: 1 - 0.88 of the variance stays as error with the best four levels (Max 1960).
    EXPECT_LE(error / sum, format == Format::kF32 ? 0.0 : 0.13) << Traits(format).name;
    ++types;
  }
  EXPECT_GE(types, 16u);
}

TEST(Quantize, KeepsMetadataAndSaysWhatItStores) {
  const TempFolder folder;
  const MadeModel model = MakeModel(folder);
  const std::string out = folder.path() + "/out.gguf";
  const auto report = QuantizeFile(model.path, out, {.type = "q4_k_m"});
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->type, "Q4_K_M");
  EXPECT_EQ(report->tensors, 4u);
  EXPECT_EQ(report->fallbacks, 1u);
  const auto file = GgufFile::Open(out);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->GetU32("general.file_type").value(), 15u);
  EXPECT_EQ(file->GetU32("general.quantization_version").value(), 2u);
  EXPECT_EQ(file->GetString("general.name").value(), "made");
  EXPECT_EQ(file->GetF32Array("some.array").value(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(file->values().size(), 7u);
  Format format;
  ReadTensor(out, "blk.0.attn_v.weight", &format);
  EXPECT_EQ(format, Format::kQ8_0);  // Q6_K by the mixture, whose blocks rows of 96 do not fit
  ReadTensor(out, "blk.0.attn_norm.weight", &format);
  EXPECT_EQ(format, Format::kF32);
}

TEST(Quantize, SameBytesForAnyNumberOfThreads) {
  const TempFolder folder;
  const MadeModel model = MakeModel(folder, 3000);
  std::string first;
  for (size_t threads : {1, 2, 5}) {
    const std::string out = folder.path() + "/out.gguf";
    ASSERT_TRUE(QuantizeFile(model.path, out, {.type = "Q5_1", .pool = {.threads = threads}}).ok());
    const std::string bytes = ReadWholeFile(out);
    if (first.empty()) first = bytes;
    EXPECT_TRUE(bytes == first) << threads;
  }
  EXPECT_GT(first.size(), 3000u * kColumns * 2 / 4);
}

TEST(Quantize, HoldsABatchAndNotAFile) {
  const TempFolder folder;
  const MadeModel model = MakeModel(folder, 20000);
  ResetAllocations();
  ASSERT_TRUE(QuantizeFile(model.path, folder.path() + "/out.gguf", {.type = "F16", .pool = {.threads = 1}}).ok());
  // A batch is eight tasks of 2^17 values in F16 (2 MiB), a task holds its rows in F32 (512 KiB); a tensor has 20 MB.
  EXPECT_LT(PeakAllocatedBytes(), size_t{4} << 20);
}

// An importance matrix in the old format with `count` values for one tensor, the first half of them large.
std::string WriteImatrix(const TempFolder& folder, const std::string& name, size_t count) {
  std::string bytes;
  const auto put = [&](auto value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  put(int32_t{1});
  put(static_cast<int32_t>(name.size()));
  bytes += name;
  put(int32_t{1});
  put(static_cast<int32_t>(count));
  for (size_t i = 0; i < count; ++i) put(i < count / 2 ? 1000.0f : 1.0f);
  return folder.Write("imatrix", bytes);
}

// Each matrix of a tensor is an expert's, however its outer dimensions are written.
TEST(Quantize, ImportanceOfFourDimensionsIsOfEachMatrix) {
  const TempFolder folder;
  GgufWriter writer;
  writer.SetString("general.architecture", "llama");
  writer.AddTensor("blk.0.ffn_up_exps.weight", Format::kF32, {3, 1, 2, kColumns});
  const std::string in = folder.path() + "/in.gguf", out = folder.path() + "/out.gguf";
  ASSERT_TRUE(writer.Begin(in).ok());
  std::vector<float> values(3 * 2 * kColumns, 0.5f);
  ASSERT_TRUE(writer.Append(values.data(), values.size() * sizeof(float)).ok());
  ASSERT_TRUE(writer.Finish().ok());
  const auto quantize = [&](size_t count) {
    const std::string matrix = WriteImatrix(folder, "blk.0.ffn_up_exps.weight", count);
    return QuantizeFile(in, out, {.type = "Q4_K", .imatrix = matrix, .pure = true}).status();
  };
  EXPECT_EQ(quantize(kColumns).code(), Code::kInvalidArgument);
  EXPECT_TRUE(quantize(3 * kColumns).ok()) << quantize(3 * kColumns).ToString();
}

TEST(Quantize, ImportanceIsUsedAndMustFit) {
  const TempFolder folder;
  const MadeModel model = MakeModel(folder);
  const auto write_matrix = [&](const std::string& name, size_t count) { return WriteImatrix(folder, name, count); };
  const std::string out = folder.path() + "/out.gguf";
  Format format;
  const auto error_of_first_half = [&] {
    const std::vector<float> values = ReadTensor(out, "blk.0.attn_q.weight", &format);
    double error = 0;
    for (size_t i = 0; i < values.size(); ++i)
      error += i % kColumns < kColumns / 2 ? std::pow(double{values[i]} - model.query[i], 2) : 0;
    return error;
  };
  ASSERT_TRUE(QuantizeFile(model.path, out, {.type = "Q2_K", .pure = true}).ok());
  const double without = error_of_first_half();
  const std::string good = write_matrix("blk.0.attn_q.weight", kColumns);
  ASSERT_TRUE(QuantizeFile(model.path, out, {.type = "Q2_K", .imatrix = good, .pure = true}).ok());
  EXPECT_LT(error_of_first_half(), without);
  EXPECT_EQ(GgufFile::Open(out)->GetString("quantize.imatrix.file").value(), good);
  const Status status =
      QuantizeFile(model.path, out, {.type = "Q2_K", .imatrix = write_matrix("blk.0.attn_q.weight", 8), .pure = true})
          .status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("blk.0.attn_q.weight"), std::string_view::npos);
}

TEST(Quantize, ImportanceOfAnotherModelIsRefusedAndGapsAreTold) {
  const TempFolder folder;
  const MadeModel model = MakeModel(folder);
  const std::string out = folder.path() + "/out.gguf";
  std::vector<std::string> warnings;
  Log log([&](LogLevel, const char* text) { warnings.push_back(text); });
  const LogScope scope(&log);
  const auto quantize = [&](const std::string& name, const char* type) {
    const std::string matrix = WriteImatrix(folder, name, kColumns);
    return QuantizeFile(model.path, out, {.type = type, .imatrix = matrix}).status();
  };
  const Status foreign = quantize("model.layers.0.self_attn.q_proj.weight", "Q4_0");
  EXPECT_EQ(foreign.code(), Code::kInvalidArgument);
  EXPECT_NE(foreign.message().find("q_proj"), std::string_view::npos);
  EXPECT_EQ(quantize("blk.9.attn_q.weight", "Q2_K_S").code(), Code::kInvalidArgument);
  // attn_v has rows of 96, which get another format than Q2_K.
  EXPECT_TRUE(warnings.empty());
  EXPECT_TRUE(quantize("blk.0.attn_q.weight", "Q2_K_S").ok());
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("1 of the model's 2"), std::string::npos) << warnings[0];
  EXPECT_NE(warnings[0].find("blk.0.attn_v.weight"), std::string::npos) << warnings[0];
}

TEST(Quantize, RefusesAndLeavesNothingBehind) {
  const TempFolder folder;
  const MadeModel model = MakeModel(folder);
  const std::string before = ReadWholeFile(model.path);
  EXPECT_EQ(QuantizeFile(model.path, model.path, {.type = "Q8_0"}).status().code(), Code::kInvalidArgument);
  std::filesystem::create_hard_link(model.path, folder.path() + "/link.gguf");
  EXPECT_EQ(QuantizeFile(model.path, folder.path() + "/link.gguf", {.type = "Q8_0"}).status().code(),
            Code::kInvalidArgument);
  EXPECT_TRUE(ReadWholeFile(model.path) == before);
  const std::string out = folder.path() + "/out.gguf";
  EXPECT_EQ(QuantizeFile(model.path, out, {.type = "Q9"}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(QuantizeFile(folder.path() + "/no.gguf", out, {.type = "Q8_0"}).status().code(), Code::kNotFound);
  const Status of_folder = QuantizeFile(folder.path(), out, {.type = "Q8_0"}).status();
  EXPECT_EQ(of_folder.code(), Code::kInvalidArgument);
  EXPECT_NE(of_folder.message().find("moonlit convert"), std::string_view::npos);
  QuantizeOptions cancelled{.type = "Q8_0"};
  cancelled.progress = [](uint64_t, uint64_t) { return false; };
  EXPECT_EQ(QuantizeFile(model.path, out, cancelled).status().code(), Code::kCancelled);
  EXPECT_EQ(folder.FileCount(), 2u);
}

TEST(Quantize, RequantizingNeedsToBeAskedFor) {
  const TempFolder folder;
  const MadeModel model = MakeModel(folder);
  const std::string eight = folder.path() + "/q8.gguf", out = folder.path() + "/out.gguf";
  ASSERT_TRUE(QuantizeFile(model.path, eight, {.type = "Q8_0"}).ok());
  const Status status = QuantizeFile(eight, out, {.type = "Q4_0"}).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_NE(status.message().find("--allow-requantize"), std::string_view::npos);
  EXPECT_TRUE(QuantizeFile(eight, out, {.type = "Q4_0", .allow_requantize = true}).ok());
  // What stays as it is loses nothing.
  EXPECT_TRUE(QuantizeFile(eight, out, {.type = "Q8_0", .pure = true}).ok());
}

TEST(Quantize, RefusesWhatIsNoNumberAndWhatF16CannotHold) {
  const TempFolder folder;
  const std::string out = folder.path() + "/out.gguf";
  for (const float value : {std::nanf(""), HUGE_VALF, -HUGE_VALF}) {
    const MadeModel model =
        MakeModel(folder, 64, [&](std::vector<float>& values) { values[kColumns * 3 + 5] = value; });
    for (const char* type : {"F32", "Q4_0", "Q6_K"}) {
      const Status status = QuantizeFile(model.path, out, {.type = type}).status();
      EXPECT_EQ(status.code(), Code::kCorrupt) << type << " " << value;
      EXPECT_NE(status.message().find("row 3, column 5"), std::string_view::npos) << status.ToString();
    }
  }
  const MadeModel model = MakeModel(folder, 64, [](std::vector<float>& values) { values[7] = 65520; });
  for (const char* type : {"F16", "Q8_0", "Q4_0", "Q4_K", "IQ4_NL"})
    EXPECT_EQ(QuantizeFile(model.path, out, {.type = type}).status().code(), Code::kUnsupported) << type;
  EXPECT_TRUE(QuantizeFile(model.path, out, {.type = "BF16"}).ok() &&
              QuantizeFile(model.path, out, {.type = "F32"}).ok());
}

}  // namespace
}  // namespace moonlit
