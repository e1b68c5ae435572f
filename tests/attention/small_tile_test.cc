// SPDX-License-Identifier: Apache-2.0
// The other files of this folder are compiled into this test with small tiles; this one makes sure that they really
// are.
#include <gtest/gtest.h>

#include "kernels/attention/page_layout.h"

namespace moonlit {
namespace {

TEST(SmallTiles, AreSmall) {
  EXPECT_EQ(16u, kAttentionTile);
  EXPECT_EQ(32u, kAttentionSegment);
}

}  // namespace
}  // namespace moonlit
