// SPDX-License-Identifier: Apache-2.0
#include "runtime/convert/quantize.h"

#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/quote.h"
#include "runtime/convert/encoded_source.h"
#include "runtime/convert/mixture.h"
#include "runtime/convert/write_tensors.h"
#include "runtime/weights/gguf_source.h"

namespace moonlit {
namespace {

// Of the layouts of blocks; it has been 2 since 2023 (GGML_QNT_VERSION in ggml.h).
constexpr uint32_t kQuantizationVersion = 2;

Status CheckRequantize(const TensorInfo& from, Format to, const QuantizeOptions& options) {
  if (from.format == to || !IsQuantized(from.format) || options.allow_requantize) return Status();
  return Errorf(Code::kInvalidArgument,
                "tensor %s is %s, and writing it as %s would lose precision twice: start from an F32, F16 or BF16 file "
                "(moonlit quantize has --allow-requantize for those who have none)",
                from.name.c_str(), Traits(from.format).name, Traits(to).name);
}

// An importance matrix of another model would change nothing, and nobody would know.
Status CheckImportance(const ImportanceMatrix& matrix, const std::vector<const TensorInfo*>& tensors) {
  size_t wanted = 0, found = 0, known = 0;
  std::string missing;
  for (const TensorInfo* tensor : tensors) {
    const bool has = matrix.rows.count(tensor->name) != 0;
    known += has ? 1 : 0;
    if (!WantsImportance(*tensor)) continue;
    ++wanted;
    found += has ? 1 : 0;
    if (!has && missing.empty()) missing = tensor->name;
  }
  const std::string& first = matrix.rows.begin()->first;
  if (known == 0) {
    return Errorf(
        Code::kInvalidArgument,
        "imatrix %s: expected importance for tensors of this model, like %s, found %zu entries for others, like "
        "%s: it was made with another model",
        matrix.path.c_str(), missing.c_str(), matrix.rows.size(), QuoteForMessage(first).c_str());
  }
  if (found != wanted) {
    Logf(LogLevel::kWarning, "imatrix %s: has importance for %zu of the model's %zu matrices, for example none for %s",
         matrix.path.c_str(), found, wanted, missing.c_str());
  }
  if (known != matrix.rows.size()) {
    Logf(LogLevel::kWarning, "imatrix %s: %zu of its %zu entries are for tensors that the model does not have",
         matrix.path.c_str(), matrix.rows.size() - known, matrix.rows.size());
  }
  return Status();
}

void SetImatrixKeys(const ImportanceMatrix& matrix, GgufWriter* writer) {
  writer->SetString("quantize.imatrix.file", matrix.path);
  if (!matrix.dataset.empty()) writer->SetString("quantize.imatrix.dataset", matrix.dataset);
  writer->SetU32("quantize.imatrix.entries_count", static_cast<uint32_t>(matrix.rows.size()));
  if (matrix.chunks != 0) writer->SetU32("quantize.imatrix.chunks_count", matrix.chunks);
}

// Keys that describe how the input is stored, or how it was made.
bool IsStorageKey(std::string_view key, bool has_imatrix) {
  return key == "general.file_type" || key == "general.quantization_version" || key.starts_with("split.") ||
         (has_imatrix && key.starts_with("quantize.imatrix."));
}

}  // namespace

Result<std::unique_ptr<WeightSource>> EncodeForFile(std::shared_ptr<const WeightSource> source,
                                                    const Metadata& metadata, const FileType& type,
                                                    const QuantizeOptions& options, GgufWriter* writer,
                                                    QuantizeReport* report) {
  std::shared_ptr<const ImportanceMatrix> matrix;
  if (!options.imatrix.empty()) {
    MOONLIT_ASSIGN_OR_RETURN(ImportanceMatrix read, ReadImportanceMatrix(options.imatrix));
    matrix = std::make_shared<const ImportanceMatrix>(std::move(read));
    if (writer != nullptr) SetImatrixKeys(*matrix, writer);
  }
  MOONLIT_ASSIGN_OR_RETURN(const MixtureFacts facts, ReadMixtureFacts(metadata));
  const std::vector<const TensorInfo*> tensors = source->All();
  if (matrix != nullptr) MOONLIT_RETURN_IF_ERROR(CheckImportance(*matrix, tensors));
  MOONLIT_ASSIGN_OR_RETURN(const std::vector<Format> formats,
                           ChooseFormats(tensors, facts, type, {matrix != nullptr, options.pure, matrix.get()}));
  report->type = type.name;
  report->tensors = tensors.size();
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorInfo& from = *tensors[i];
    MOONLIT_RETURN_IF_ERROR(CheckRequantize(from, formats[i], options));
    report->parameters += from.shape.elements();
    report->source_bytes += from.bytes;
    report->bytes += from.shape.rows() * RowBytes(formats[i], from.shape.columns());
    const size_t block = Traits(type.format).block_values;
    report->fallbacks += formats[i] != from.format && from.shape.columns() % block != 0 ? 1 : 0;
  }
  if (writer != nullptr) {
    writer->SetU32("general.quantization_version", kQuantizationVersion);
    if (type.number >= 0) writer->SetU32("general.file_type", static_cast<uint32_t>(type.number));
  }
  MOONLIT_ASSIGN_OR_RETURN(std::unique_ptr<EncodedSource> encoded,
                           EncodedSource::Create(std::move(source), formats, std::move(matrix)));
  return std::unique_ptr<WeightSource>(std::move(encoded));
}

Result<QuantizeReport> QuantizeFile(const std::string& in, const std::string& out, const QuantizeOptions& options) {
  MOONLIT_ASSIGN_OR_RETURN(const FileType type, FindFileType(options.type));
  std::error_code none;
  if (std::filesystem::is_directory(in, none)) {
    return Errorf(
        Code::kInvalidArgument,
        "%s is a folder: moonlit convert writes a Hugging Face folder as a GGUF file, with --type in any type",
        in.c_str());
  }
  MOONLIT_ASSIGN_OR_RETURN(std::unique_ptr<GgufSource> opened, GgufSource::Open(in));
  const std::shared_ptr<const GgufSource> source = std::move(opened);
  GgufWriter writer;
  const GgufFile& first = source->files()[0];
  for (const GgufValue& value : first.values()) {
    if (!IsStorageKey(value.key, !options.imatrix.empty())) writer.CopyValue(first, value);
  }
  QuantizeReport report;
  MOONLIT_ASSIGN_OR_RETURN(const std::unique_ptr<WeightSource> encoded,
                           EncodeForFile(source, source->metadata(), type, options, &writer, &report));
  MOONLIT_RETURN_IF_ERROR(RefuseInputs(out, encoded->Files()));
  MOONLIT_RETURN_IF_ERROR(WriteTensors(*encoded, out, {options.pool, options.progress}, &writer));
  return report;
}

}  // namespace moonlit
