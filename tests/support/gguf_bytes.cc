// SPDX-License-Identifier: Apache-2.0
#include "tests/support/gguf_bytes.h"

namespace moonlit {

void GgufBytes::Begin(uint64_t tensors, uint64_t keys, uint32_t version) {
  bytes_ += "GGUF";
  Mark("version");
  Put(version);
  Mark("tensor_count");
  Put(tensors);
  Mark("key_count");
  Put(keys);
}

void GgufBytes::Key(std::string_view key, uint32_t type) {
  const std::string name = "key." + std::to_string(keys_++);
  Mark(name + ".length");
  PutString(key);
  Mark(name + ".type");
  Put(type);
  Mark(name + ".value");
}

void GgufBytes::ArrayOf(uint32_t element, uint64_t count) {
  const std::string name = "key." + std::to_string(keys_ - 1);
  Mark(name + ".element");
  Put(element);
  Mark(name + ".count");
  Put(count);
  Mark(name + ".value");
}

void GgufBytes::Tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset) {
  const std::string field = "tensor." + std::to_string(tensors_++);
  Mark(field + ".length");
  PutString(name);
  Mark(field + ".rank");
  Put(static_cast<uint32_t>(dims.size()));
  for (size_t i = 0; i < dims.size(); ++i) {
    Mark(field + ".dim." + std::to_string(i));
    Put(dims[i]);
  }
  Mark(field + ".type");
  Put(type);
  Mark(field + ".offset");
  Put(offset);
}

void GgufBytes::Data(size_t size, size_t alignment) {
  bytes_.append((alignment - bytes_.size() % alignment) % alignment, '\0');
  Mark("data");
  for (size_t i = 0; i < size; ++i) bytes_.push_back(static_cast<char>(i % 251));
}

GgufBytes SmallGguf(uint32_t version) {
  GgufBytes b;
  b.Begin(3, 18, version);
  b.Key("general.architecture", 8);
  b.PutString("llama");
  b.Key("general.alignment", 4);
  b.Put(uint32_t{32});
  b.Key("u8", 0);
  b.Put(uint8_t{200});
  b.Key("i8", 1);
  b.Put(int8_t{-100});
  b.Key("u16", 2);
  b.Put(uint16_t{60000});
  b.Key("i16", 3);
  b.Put(int16_t{-30000});
  b.Key("i32", 5);
  b.Put(int32_t{-2000000000});
  b.Key("f32", 6);
  b.Put(0.5f);
  b.Key("yes", 7);
  b.Put(uint8_t{1});
  b.Key("u64", 10);
  b.Put(UINT64_MAX);
  b.Key("i64", 11);
  b.Put(INT64_MIN);
  b.Key("f64", 12);
  b.Put(0.1);
  b.Key("tokens", 9);
  b.ArrayOf(8, 4);
  for (std::string_view token : {"<s>", "", "\xe6\x9c\x88", "a\"b"}) b.PutString(token);
  b.Key("scores", 9);
  b.ArrayOf(6, 3);
  for (float score : {0.0f, -1.5f, 3.25f}) b.Put(score);
  b.Key("types", 9);
  b.ArrayOf(5, 3);
  for (int32_t type : {1, -2, 2147483647}) b.Put(type);
  b.Key("flags", 9);
  b.ArrayOf(7, 2);
  b.Put(uint8_t{0});
  b.Put(uint8_t{1});
  b.Key("wide", 9);
  b.ArrayOf(10, 2);
  b.Put(uint64_t{7});
  b.Put(uint64_t{1} << 40);
  b.Key("nothing", 9);
  b.ArrayOf(8, 0);
  b.Tensor("a", {8, 2}, 0, 0);    // 64 bytes
  b.Tensor("b", {64, 4}, 2, 64);  // 4 rows of 2 blocks of 18 = 144 bytes, padded to 160
  b.Tensor("c", {8}, 1, 224);     // 16 bytes
  b.Data(240);
  return b;
}

GgufBytes SplitPart(uint16_t number, uint16_t count, int32_t tensors_in_all, std::string_view tensor) {
  GgufBytes b;
  b.Begin(1, 4);
  b.Key("split.no", 2);
  b.Put(number);
  b.Key("split.count", 2);
  b.Put(count);
  b.Key("split.tensors.count", 5);
  b.Put(tensors_in_all);
  b.Key("part", 4);
  b.Put(uint32_t{number});
  b.Tensor(tensor, {4}, 0, 0);
  b.Data(16);
  return b;
}

}  // namespace moonlit
