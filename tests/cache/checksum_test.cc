// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/checksum.h"

#include <gtest/gtest.h>

#include <string>

namespace moonlit {
namespace {

uint64_t Of(const std::string& text, uint64_t seed = 0) { return ChecksumOf(text.data(), text.size(), seed); }

// Values that xxHash's own documentation and that of python-xxhash give.
TEST(Checksum, PublishedValues) {
  EXPECT_EQ(Of(""), 0xEF46DB3751D8E999u);
  EXPECT_EQ(Of("a"), 0xD24EC4F1A98C6E5Bu);
  EXPECT_EQ(Of("abc"), 0x44BC2CF5AD770999u);
  EXPECT_EQ(Of("xxhash", 20141025), 0xB559B98D844E0635u);
  EXPECT_EQ(Of("Nobody inspects the spammish repetition"), 0xFBCEA83C8A378BF1u);
}

TEST(Checksum, CutsDoNotMatterAndEveryBitDoes) {
  std::string bytes(101, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 37 + 11);
  const uint64_t whole = Of(bytes);
  for (size_t a = 0; a <= bytes.size(); ++a) {
    for (size_t b = a; b <= bytes.size(); b += 7) {
      Checksum sum;
      sum.Add(bytes.data(), a);
      sum.Add(bytes.data() + a, b - a);
      sum.Add(bytes.data() + b, bytes.size() - b);
      ASSERT_EQ(sum.Value(), whole) << a << " " << b;
    }
  }
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
    ASSERT_NE(Of(changed), whole) << bit;
  }
}

}  // namespace
}  // namespace moonlit
