// SPDX-License-Identifier: Apache-2.0
// Whether this program runs 10 to 100 times slower than it would on a machine of its own: under an emulator or a sanitizer.
// Tests then repeat the same kind of case fewer times, and leave no kind out; each place says what it leaves to fast builds.
#pragma once

namespace moonlit {

#if defined(MOONLIT_EMULATED) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSlowed = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
inline constexpr bool kSlowed = true;
#else
inline constexpr bool kSlowed = false;
#endif
#else
inline constexpr bool kSlowed = false;
#endif

}  // namespace moonlit
