// SPDX-License-Identifier: Apache-2.0
// The goldens and properties of this folder once more, over attention with tiles of 16, segments of 32 and pages of 32 slots: 48
// tokens then cross all three. This file only checks that the build really is that one.
#include <gtest/gtest.h>

#include "kernels/attention/page_layout.h"

namespace moonlit {
namespace {

TEST(SmallTilesTest, TheBuildHasSmallTiles) {
  EXPECT_EQ(kAttentionTile, 16u);
  EXPECT_EQ(kAttentionSegment, 32u);
}

}  // namespace
}  // namespace moonlit
