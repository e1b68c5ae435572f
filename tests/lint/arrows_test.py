# SPDX-License-Identifier: Apache-2.0
import os
import unittest

import planted_tree
import check_arrows

TABLE = """
base kernels/base: kernels runtime
room kernels/base:
room kernels/quant:   kernels/simd
room kernels/simd:
room kernels/*:       kernels/quant kernels/simd
room runtime/cache:   kernels/attention/page_layout.h
room runtime/exec:    kernels/*
room tools/cli:       runtime/exec
room tools/cli/see*:  tools/cli kernels/*
room tests:           kernels/* runtime/* tests/*
external hwy/:        kernels/*
external immintrin.h: kernels/simd/dot-inl.h
generated moonlit/built.inc: kernels/quant
"""


class ArrowsTest(planted_tree.PlantedTree):
    def check(self, table=TABLE):
        return check_arrows.check(self.root, check_arrows.Table(table))

    def test_allowed_includes_are_clean(self):
        self.plant("kernels/norm/norm.cc", '#include "kernels/norm/norm.h"\n#include "kernels/quant/format.h"\n'
                   '#include "kernels/base/check.h"\n#include "hwy/highway.h"\n#include <vector>\n')
        self.plant("runtime/cache/cache.h", '#include "kernels/attention/page_layout.h"\n')
        self.plant("tools/cli/see_inside.cc", '#include "kernels/norm/norm.h"\n#include "tools/cli/command.h"\n')
        self.assertEqual(self.check(), [])

    def test_upward_arrow(self):
        self.plant("kernels/norm/norm.cc", '#include "runtime/exec/plan.h"\n')
        self.assert_one(self.check(), "kernels/norm/norm.cc:2", "runtime/exec/plan.h")

    def test_sideways_arrow_between_small_kernels(self):
        self.plant("kernels/norm/norm.cc", '#include "kernels/rope/rope.h"\n')
        self.assert_one(self.check(), "kernels/norm/norm.cc:2", "kernels/rope/rope.h")

    def test_one_file_of_a_room_is_not_the_room(self):
        self.plant("runtime/cache/cache.h", '#include "kernels/attention/attention.h"\n')
        self.assert_one(self.check(), "attention/attention.h")

    def test_command_that_may_look_below_is_the_only_one(self):
        self.plant("tools/cli/main.cc", '#include "kernels/norm/norm.h"\n')
        self.assert_one(self.check(), "tools/cli/main.cc:2")

    def test_nothing_includes_tests(self):
        self.plant("runtime/exec/plan.cc", '#include "tests/support/model.h"\n')
        self.assert_one(self.check(), "tests/support/model.h")

    def test_intrinsics_outside_their_file(self):
        self.plant("kernels/simd/dot-inl.h", "#include <immintrin.h>\n")
        self.plant("kernels/simd/exp-inl.h", "\n#include <immintrin.h>\n")
        self.assert_one(self.check(), "kernels/simd/exp-inl.h:3", "immintrin.h")

    def test_highway_outside_kernels(self):
        self.plant("runtime/exec/plan.cc", '#  include "hwy/highway.h"\n')
        self.assert_one(self.check(), "hwy/")

    def test_generated_header_belongs_to_its_room(self):
        self.plant("kernels/norm/norm.cc", '#include "moonlit/built.inc"\n')
        self.plant("kernels/simd/exp-inl.h", '#include "moonlit/built.inc"\n')
        self.assert_one(self.check(), "kernels/simd/exp-inl.h")

    def test_short_path(self):
        self.plant("runtime/exec/plan.h", "")
        self.plant("runtime/exec/plan.cc", '#include "plan.h"\n')
        self.assert_one(self.check(), "runtime/exec/plan.cc:2", "path from the top")

    def test_folder_without_room(self):
        self.plant("runtime/secret/a.h", "")
        self.assert_one(self.check(), "runtime/secret/a.h", "no room")

    def test_comments_are_not_includes(self):
        self.plant("kernels/norm/norm.cc", '// #include "runtime/exec/plan.h"\n/*\n#include "runtime/exec/plan.h"\n*/\n')
        self.assertEqual(self.check(), [])

    def test_circle_in_the_table(self):
        table = TABLE.replace("room kernels/simd:\n", "room kernels/simd: runtime/exec\n")
        self.assert_one(self.check(table), "circle", "runtime/exec", "kernels/simd")

    def test_unreadable_line(self):
        with self.assertRaisesRegex(ValueError, "arrows.txt:1"):
            check_arrows.Table("room kernels/base -> kernels/quant")

    def test_the_real_table_reads_and_has_no_circle(self):
        with open(os.path.join(planted_tree.SOURCE, "tools", "lint", "arrows.txt"), encoding="utf-8") as f:
            table = check_arrows.Table(f.read())
        self.assertIsNone(table.circle())
        self.assertFalse(table.may_include("kernels/norm/norm.cc", "runtime/base/status.h"))
        self.assertFalse(table.may_include("runtime/graph/graph.cc", "kernels/norm/norm.h"))
        self.assertFalse(table.may_include("models/arch/llama.cc", "runtime/exec/plan.h"))
        self.assertFalse(table.may_include("tools/cli/generate.cc", "runtime/decode/engine.h"))
        self.assertTrue(table.may_include("tools/cli/doctor.cc", "kernels/cpu/variant.h"))
        self.assertTrue(table.may_include("runtime/exec/ops/norm.cc", "runtime/graph/graph.h"))


if __name__ == "__main__":
    unittest.main()
