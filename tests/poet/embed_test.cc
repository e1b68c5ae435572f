// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "models/poet/poet.h"
#include "runtime/base/file.h"
#include "runtime/weights/gguf_source.h"

namespace moonlit {
namespace {

TEST(EmbeddedPoet, HasTheBytesOfTheFileAndOpensInPlace) {
  const EmbeddedFile embedded = EmbeddedPoet();
  Result<File> file = File::Open(MOONLIT_SOURCE_DIR "/models/poet/poet-Q4_0.gguf");
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  ASSERT_EQ(embedded.size, file->size());
  EXPECT_EQ(reinterpret_cast<uintptr_t>(embedded.data) % 64, 0u);
  std::vector<uint8_t> bytes(embedded.size);
  ASSERT_TRUE(file->ReadAt(0, bytes.data(), bytes.size()).ok());
  EXPECT_EQ(std::memcmp(bytes.data(), embedded.data, bytes.size()), 0);

  Result<std::unique_ptr<GgufSource>> source = GgufSource::OpenMemory(embedded.data, embedded.size, "poet");
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  const GgufSource& poet = **source;
  const TensorInfo* tensor = poet.Find("blk.5.ffn_down.weight");
  ASSERT_NE(tensor, nullptr);
  std::vector<uint8_t> read(static_cast<size_t>(tensor->bytes));
  ASSERT_TRUE(poet.Read(*tensor, 0, read.data(), read.size()).ok());
  const uint64_t offset = poet.files()[0].FindTensor(tensor->name)->offset;
  EXPECT_EQ(std::memcmp(read.data(), bytes.data() + offset, read.size()), 0);
}

}  // namespace
}  // namespace moonlit
