// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/sentencepiece_model.h"

#include <cmath>
#include <cstring>
#include <functional>

namespace moonlit {
namespace {

constexpr char kFile[] = "tokenizer.model";
constexpr size_t kMostPieces = size_t{1} << 24;

Status Broken(const char* why) {
  return Errorf(Code::kCorrupt, "%s: %s: expected a model of SentencePiece; download it again", kFile, why);
}

// A field of a message: a number, or bytes (strings and messages).
struct Field {
  uint64_t number = 0;  // of the field
  uint64_t value = 0;   // of kinds 0, 1 and 5
  std::string_view bytes;
};

// Takes a number in base 128, lowest digits first; false where there is none.
bool TakeVarint(std::string_view* rest, uint64_t* value) {
  *value = 0;
  for (unsigned shift = 0; shift < 64 && !rest->empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(rest->front());
    rest->remove_prefix(1);
    *value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

bool TakeBytes(std::string_view* rest, uint64_t size, std::string_view* bytes) {
  if (size > rest->size()) return false;
  *bytes = rest->substr(0, static_cast<size_t>(size));
  rest->remove_prefix(static_cast<size_t>(size));
  return true;
}

bool TakeField(std::string_view* rest, Field* field) {
  uint64_t tag = 0, size = 0;
  if (!TakeVarint(rest, &tag)) return false;
  field->number = tag >> 3;
  switch (tag & 7) {
    case 0:
      return TakeVarint(rest, &field->value);
    case 1:
    case 5:
      size = (tag & 7) == 1 ? 8 : 4;
      if (!TakeBytes(rest, size, &field->bytes)) return false;
      field->value = 0;
      for (size_t i = 0; i < size; ++i)
        field->value |= uint64_t{static_cast<unsigned char>(field->bytes[i])} << (8 * i);
      return true;
    case 2:
      return TakeVarint(rest, &size) && TakeBytes(rest, size, &field->bytes);
    default:  // groups, which nobody has written since 2008
      return false;
  }
}

Status ForEachField(std::string_view message, const std::function<Status(const Field&)>& visit) {
  while (!message.empty()) {
    Field field;
    if (!TakeField(&message, &field)) return Broken("a field that ends too early");
    MOONLIT_RETURN_IF_ERROR(visit(field));
  }
  return Status();
}

Result<SentencePieceModel::Piece> ReadPiece(std::string_view message) {
  SentencePieceModel::Piece piece;
  MOONLIT_RETURN_IF_ERROR(ForEachField(message, [&](const Field& field) -> Status {
    if (field.number == 1) piece.text = std::string(field.bytes);
    if (field.number == 2) {
      const auto bits = static_cast<uint32_t>(field.value);
      std::memcpy(&piece.score, &bits, sizeof bits);
      if (!std::isfinite(piece.score)) return Broken("a score that is no number");
    }
    if (field.number == 3) {
      // GGUF's token types are these numbers.
      if (field.value < 1 || field.value > 6) return Broken("a piece of no known type");
      piece.type = static_cast<TokenType>(field.value);
    }
    return Status();
  }));
  if (piece.text.empty()) return Broken("a piece without text");
  return piece;
}

Status ReadTrainer(std::string_view message, SentencePieceModel* model) {
  constexpr const char* kKinds[] = {"", "Unigram", "BPE", "words", "characters"};
  constexpr uint64_t kUnigram = 1, kBpe = 2;
  uint64_t kind = kUnigram;  // where it is left out
  MOONLIT_RETURN_IF_ERROR(ForEachField(message, [&](const Field& field) {
    const auto id = static_cast<int64_t>(static_cast<int32_t>(static_cast<uint32_t>(field.value)));
    if (field.number == 3) kind = field.value;
    if (field.number == 40) model->unk_id = id;
    if (field.number == 41) model->bos_id = id;
    if (field.number == 42) model->eos_id = id;
    if (field.number == 43) model->pad_id = id;
    return Status();
  }));
  if (kind == kBpe) return Status();
  return Errorf(Code::kUnsupported, "%s: the tokenizer is of kind %s: this build reads BPE", kFile,
                kind >= kUnigram && kind < std::size(kKinds) ? kKinds[kind] : std::to_string(kind).c_str());
}

Status ReadNormalizer(std::string_view message, SentencePieceModel* model) {
  bool removes_spaces = true, maps = false, escapes = true;
  MOONLIT_RETURN_IF_ERROR(ForEachField(message, [&](const Field& field) {
    if (field.number == 2) maps = !field.bytes.empty();
    if (field.number == 3) model->add_space_prefix = field.value != 0;
    if (field.number == 4) removes_spaces = field.value != 0;
    if (field.number == 5) escapes = field.value != 0;
    return Status();
  }));
  const char* fault = maps             ? "normalizes characters"
                      : removes_spaces ? "removes spaces"
                      : escapes        ? ""
                                       : "keeps spaces";
  if (*fault == '\0') return Status();
  return Errorf(Code::kUnsupported, "%s: the tokenizer %s before it cuts a text, which this build can't compute", kFile,
                fault);
}

}  // namespace

Result<SentencePieceModel> ParseSentencePieceModel(std::string_view bytes) {
  SentencePieceModel model;
  std::string_view trainer, normalizer;  // absent ones count as empty: defaults
  MOONLIT_RETURN_IF_ERROR(ForEachField(bytes, [&](const Field& field) -> Status {
    if (field.number == 2) trainer = field.bytes;
    if (field.number == 3) normalizer = field.bytes;
    if (field.number != 1) return Status();
    if (model.pieces.size() >= kMostPieces) return Broken("more pieces than any model has");
    MOONLIT_ASSIGN_OR_RETURN(SentencePieceModel::Piece piece, ReadPiece(field.bytes));
    model.pieces.push_back(std::move(piece));
    return Status();
  }));
  if (model.pieces.empty()) return Broken("no pieces");
  MOONLIT_RETURN_IF_ERROR(ReadTrainer(trainer, &model));
  MOONLIT_RETURN_IF_ERROR(ReadNormalizer(normalizer, &model));
  return model;
}

}  // namespace moonlit
