// SPDX-License-Identifier: Apache-2.0
// Decoders against gguf-py, bit for bit. tests/data/recipes/make_quant_golden.py made the data and describes the file.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/base/float16.h"
#include "kernels/quant/format.h"

namespace moonlit {
namespace {

struct Record {
  std::string name;
  uint32_t gguf_type, blocks, block_bytes, block_values;
  std::vector<uint8_t> bytes;    // [blocks, block_bytes]
  std::vector<uint32_t> values;  // [blocks, block_values], bits of f32
};

std::vector<Record> ReadRecords() {
  std::ifstream file(MOONLIT_SOURCE_DIR "/tests/data/quant_golden.bin", std::ios::binary);
  const std::vector<char> data((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  size_t at = 0;
  const auto read = [&](void* to, size_t n) {
    if (at + n > data.size()) throw std::runtime_error("quant_golden.bin is shorter than its records say");
    memcpy(to, data.data() + at, n);
    at += n;
  };
  char magic[4], name[8];
  uint32_t count;
  read(magic, 4);
  if (memcmp(magic, "MQG1", 4) != 0) throw std::runtime_error("quant_golden.bin: wrong magic");
  read(&count, 4);
  std::vector<Record> records(count);
  for (Record& r : records) {
    read(name, 8);
    r.name.assign(name, strnlen(name, 8));
    read(&r.gguf_type, 4);
    read(&r.blocks, 4);
    read(&r.block_bytes, 4);
    read(&r.block_values, 4);
    r.bytes.resize(size_t{r.blocks} * r.block_bytes);
    r.values.resize(size_t{r.blocks} * r.block_values);
    read(r.bytes.data(), r.bytes.size());
    read(r.values.data(), r.values.size() * 4);
  }
  if (at != data.size()) throw std::runtime_error("quant_golden.bin: bytes after the last record");
  return records;
}

bool SameValue(uint32_t expected, float actual) {
  return expected == F32Bits(actual) || (std::isnan(F32FromBits(expected)) && std::isnan(actual));
}

void SetScaleToOne(const std::string& name, std::vector<uint8_t>& block) {
  if (name == "IQ1_M") {  // four bits in each of four words
    for (size_t w = 0; w < 4; ++w) {
      uint8_t& high = block[49 + 2 * w];
      high = static_cast<uint8_t>((high & 15) | (0x3C00 >> (4 * w) & 15) << 4);
    }
    return;
  }
  const size_t at = name == "TQ1_0" ? 52 : name == "TQ2_0" ? 64 : 0;
  block[at] = 0x00;
  block[at + 1] = 0x3C;
}

TEST(QuantGolden, CoversEveryFormat) {
  std::set<std::string> expected, actual;
  for (Format f : kAllFormats) expected.insert(Traits(f).name);
  for (const Record& r : ReadRecords()) actual.insert(r.name);
  EXPECT_EQ(expected, actual);
}

TEST(QuantGolden, SizesAgree) {
  for (const Record& r : ReadRecords()) {
    Format format;
    ASSERT_TRUE(FindFormat(r.gguf_type, &format)) << r.name;
    EXPECT_EQ(r.name, Traits(format).name);
    EXPECT_EQ(r.block_values, Traits(format).block_values) << r.name;
    EXPECT_EQ(r.block_bytes, Traits(format).block_bytes) << r.name;
  }
}

TEST(QuantGolden, DecodesToTheSameBits) {
  for (const Record& r : ReadRecords()) {
    Format format;
    ASSERT_TRUE(FindFormatByName(r.name.c_str(), &format));
    const size_t k = r.values.size();
    // All blocks at once, from an odd address, with a guard behind the output.
    std::vector<uint8_t> shifted(r.bytes.size() + 1);
    memcpy(shifted.data() + 1, r.bytes.data(), r.bytes.size());
    std::vector<float> values(k + 1, 12345.0f);
    Traits(format).dequantize(shifted.data() + 1, values.data(), k);
    for (size_t i = 0; i < k; ++i) {
      ASSERT_TRUE(SameValue(r.values[i], values[i]))
          << r.name << " block " << i / r.block_values << " value " << i % r.block_values << ": expected "
          << F32FromBits(r.values[i]) << ", got " << values[i];
    }
    EXPECT_EQ(12345.0f, values[k]) << r.name;
  }
}

// Every point of every table, and every sign: bytes that the recipe makes too, and a hash of the values.
TEST(QuantGolden, EveryPointOfTheTables) {
  std::ifstream file(MOONLIT_SOURCE_DIR "/tests/data/quant_points_golden.txt");
  std::string name, expected;
  size_t formats = 0;
  while (file >> name >> expected) {
    Format format;
    ASSERT_TRUE(FindFormatByName(name.c_str(), &format)) << name;
    const FormatTraits& t = Traits(format);
    std::vector<uint8_t> block(t.block_bytes);
    std::vector<float> values(t.block_values);
    uint32_t x = 1;
    uint64_t hash = 0xCBF29CE484222325u;
    for (int i = 0; i < 1024; ++i) {
      for (uint8_t& byte : block) {
        x = x * 1664525u + 1013904223u;
        byte = static_cast<uint8_t>(x >> 24);
      }
      SetScaleToOne(name, block);
      t.dequantize(block.data(), values.data(), values.size());
      for (float value : values) hash = (hash ^ F32Bits(value)) * 0x100000001B3u;
    }
    EXPECT_EQ(hash, std::stoull(expected, nullptr, 16)) << name;
    ++formats;
  }
  EXPECT_EQ(formats, std::size(kAllFormats) - std::size(kEncodedFormats));
}

}  // namespace
}  // namespace moonlit
