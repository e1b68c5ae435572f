// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace moonlit {

// Gives the pages of freed small blocks back to the system, for C libraries that keep them (glibc); for after work that made and
// freed very many, such as reading a vocabulary. Any thread, at any time.
void ReturnFreedMemory();

}  // namespace moonlit
