// SPDX-License-Identifier: Apache-2.0
// The assembler copies the file into the object (.incbin): no generated source of 15 MB, and the same for every target.
#include "models/poet/poet.h"

#ifdef MOONLIT_POET_FILE
#ifdef __APPLE__
#define MOONLIT_POET_SECTION ".const_data\n"
#define MOONLIT_POET_END ".text\n"
#define MOONLIT_POET_SYMBOL(name) "_" name
#define MOONLIT_POET_HIDDEN ".private_extern "
#else
#define MOONLIT_POET_SECTION ".pushsection .rodata\n"
#define MOONLIT_POET_END ".popsection\n"
#define MOONLIT_POET_SYMBOL(name) name
#define MOONLIT_POET_HIDDEN ".hidden "
#endif

// clang-format off
asm(MOONLIT_POET_SECTION
    ".balign 64\n"
    ".globl " MOONLIT_POET_SYMBOL("moonlit_poet_begin") "\n"
    MOONLIT_POET_HIDDEN MOONLIT_POET_SYMBOL("moonlit_poet_begin") "\n"
    MOONLIT_POET_SYMBOL("moonlit_poet_begin") ":\n"
    ".incbin \"" MOONLIT_POET_FILE "\"\n"
    ".globl " MOONLIT_POET_SYMBOL("moonlit_poet_end") "\n"
    MOONLIT_POET_HIDDEN MOONLIT_POET_SYMBOL("moonlit_poet_end") "\n"
    MOONLIT_POET_SYMBOL("moonlit_poet_end") ":\n"
    ".byte 0\n"
    ".balign 4\n"
    MOONLIT_POET_END);
// clang-format on

extern "C" const unsigned char moonlit_poet_begin[];
extern "C" const unsigned char moonlit_poet_end[];

namespace moonlit {
EmbeddedFile EmbeddedPoet() { return {moonlit_poet_begin, static_cast<size_t>(moonlit_poet_end - moonlit_poet_begin)}; }
}  // namespace moonlit
#else
namespace moonlit {
EmbeddedFile EmbeddedPoet() { return {nullptr, 0}; }
}  // namespace moonlit
#endif
