# SPDX-License-Identifier: Apache-2.0
import unittest

import planted_tree
import check_flags

GOOD = "c++ -O3 -fno-fast-math -ffp-contract=off"
VARIANT = GOOD + " -O2 -fno-lto -mavx2 -DMOONLIT_NS=x86_avx2 -Dhwy=hwy_x86_avx2"


class FlagsTest(planted_tree.PlantedTree):
    def check(self, command, path="kernels/norm/norm_variant.cc"):
        return check_flags.check(self.root, [{"directory": self.root, "file": path, "command": f"{command} -c {path}"}])

    def test_good_commands(self):
        self.assertEqual(self.check(GOOD), [])
        self.assertEqual(self.check(VARIANT), [])

    def test_arguments_as_a_list(self):
        entry = {"directory": self.root, "file": "runtime/a/a.cc", "arguments": ["c++", "-fno-fast-math"]}
        self.assert_one(check_flags.check(self.root, [entry]), "-ffp-contract=off")

    def test_contraction(self):
        self.assert_one(self.check(GOOD.replace("-ffp-contract=off", "")), "-ffp-contract=off")
        self.assert_one(self.check(GOOD + " -ffp-contract=fast"), "-ffp-contract=off")

    def test_fast_math(self):
        self.assert_one(self.check(GOOD.replace("-fno-fast-math", "")), "-fno-fast-math")
        self.assertEqual(len(self.check(GOOD + " -ffast-math")), 2)
        self.assert_one(self.check(GOOD + " -funsafe-math-optimizations"), "forbidden")
        self.assert_one(self.check(GOOD + " -march=native"), "forbidden")

    def test_variant_objects(self):
        self.assert_one(self.check(VARIANT + " -O3"), "-O2")
        scalar = VARIANT.replace("x86_avx2", "scalar")
        self.assert_one(self.check(scalar), "-Os")
        self.assertEqual(self.check(scalar + " -Os"), [])
        self.assert_one(self.check(VARIANT + " -flto"), "-fno-lto")
        self.assert_one(self.check(VARIANT.replace("-Dhwy=hwy_x86_avx2", "")), "-Dhwy=")
        self.assert_one(self.check(VARIANT.replace("hwy_x86_avx2", "hwy_x86_avx512")), "-Dhwy=")

    def test_product_library_counts_and_other_libraries_do_not(self):
        self.assertEqual(len(self.check("cc -O2", path="build/deps/xnnpack-1-abc/src/a.c")), 2)
        problems = check_flags.check(self.root, [
            {"directory": self.root, "file": "build/deps/pcre2-1-abc/src/a.c", "command": "cc -O2"},
            {"directory": self.root, "file": "runtime/a/a.cc", "command": GOOD}])
        self.assertEqual(problems, [])

    def test_nothing_of_ours(self):
        self.assert_one(check_flags.check(self.root, []), "no source of ours")


if __name__ == "__main__":
    unittest.main()
