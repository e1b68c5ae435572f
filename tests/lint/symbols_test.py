# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import unittest

import planted_tree
import check_symbols

HEAD = """
namespace hwy { template <class T> __attribute__((noinline)) T Twice(T v) { return v + v; } }
namespace moonlit { namespace MOONLIT_NS {
extern const int kTable;
const int kTable = 3;
float F(float x) { return hwy::Twice(x); }
%s
} }
%s
"""


class SymbolsTest(planted_tree.PlantedTree):
    def check(self, inside="", outside="", variant="x86_avx2", flags=(), bases=None):
        source = self.plant("a.cc", HEAD % (inside, outside))
        output = os.path.join(self.root, "a.o")
        subprocess.run([os.environ.get("CXX", "c++"), "-std=c++20", "-O1", f"-DMOONLIT_NS={variant}", f"-Dhwy=hwy_{variant}",
                        *flags, "-c", source, "-o", output], check=True)
        return check_symbols.check_object(os.environ.get("NM", "nm"), "x86_avx2", output, {"x86_avx2", "x86_avx512"}, bases or {})

    def test_clean_object(self):
        self.assertEqual(self.check("void* Copy(void* a, const void* b) { return __builtin_memcpy(a, b, 4096); }"), [])

    def test_weak_symbol_outside(self):
        problems = self.check(outside="namespace moonlit { __attribute__((noinline)) inline int Shared(int x) { return x * 3; }"
                                      "int moonlit::x86_avx2::G(int x) { return Shared(x); } }", inside="int G(int);")
        self.assert_one(problems, "weak", "moonlit::Shared")

    def test_weak_function_template_outside(self):
        problems = self.check(outside="namespace moonlit { template <class T> __attribute__((noinline)) T Shared(T x) { return x * 3; }"
                                      "int moonlit::x86_avx2::G(int x) { return Shared(x); } }", inside="int G(int);")
        self.assert_one(problems, "weak", "moonlit::Shared")

    def test_global_symbol_outside(self):
        self.assert_one(self.check(outside='extern "C" int moonlit_plain(int x) { return x; }'), "global", "moonlit_plain")

    def test_standard_library_inline(self):
        problems = self.check(
            inside="int G(int x);", outside="namespace std { __attribute__((noinline)) inline int max3(int x) { return x + 1; } }\n"
            "int moonlit::x86_avx2::G(int x) { return std::max3(x); }")
        self.assert_one(problems, "weak", "std::max3")

    def test_highway_not_renamed(self):
        problems = self.check(flags=["-Uhwy"])
        self.assert_one(problems, "weak", "hwy::Twice")

    def test_needs_another_variant(self):
        problems = self.check(
            inside="int G();", outside="namespace moonlit { namespace x86_avx512 { int H(); } }\n"
            "int moonlit::x86_avx2::G() { return moonlit::x86_avx512::H(); }")
        self.assert_one(problems, "x86_avx512", "needs")

    def test_may_need_its_base(self):
        inside = "int G();"
        outside = ("namespace moonlit { namespace x86_avx512 { int H(); } }\n"
                   "int moonlit::x86_avx2::G() { return moonlit::x86_avx512::H(); }")
        self.assertEqual(self.check(inside, outside, bases={"x86_avx2": "x86_ssse3", "x86_ssse3": "x86_avx512"}), [])
        self.assert_one(self.check(inside, outside, bases={"x86_avx512": "x86_avx2"}), "x86_avx512", "needs")

    def test_needs_the_mathematics_library(self):
        problems = self.check(inside="float G(float);", outside='extern "C" float expf(float);\n'
                              "float moonlit::x86_avx2::G(float x) { return expf(x); }")
        self.assert_one(problems, "needs expf")

    def test_wrong_object(self):
        self.assertTrue(any("is it a variant object?" in p for p in self.check(variant="x86_avx512")))


if __name__ == "__main__":
    unittest.main()
