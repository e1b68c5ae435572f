# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import sys
import unittest

import planted_tree
import check_format

SCRIPT = os.path.join(planted_tree.SOURCE, "tools", "lint", "check_format.py")


@unittest.skipUnless(check_format.find_clang_format(), "clang-format of the named version is not here")
class FormatTest(planted_tree.PlantedTree):
    def setUp(self):
        super().setUp()
        with open(os.path.join(planted_tree.SOURCE, ".clang-format"), encoding="utf-8") as f:
            self.plant(".clang-format", f.read(), licence="")

    def run_check(self, *arguments):
        return subprocess.run([sys.executable, "-B", SCRIPT, "--root", self.root, *arguments], capture_output=True, text=True)

    def test_catches_and_mends(self):
        full = self.plant("runtime/a/a.cc", "int  F( int *a ){return *a;}\n")
        run = self.run_check()
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertIn("runtime/a/a.cc:2", run.stdout)
        self.assertEqual(self.run_check("--fix").returncode, 0)
        with open(full, encoding="utf-8") as f:
            self.assertEqual(f.read(), planted_tree.LICENCE + "int F(int* a) { return *a; }\n")
        self.assertEqual(self.run_check().returncode, 0)

    def test_a_line_of_121_columns(self):
        self.plant("runtime/a/a.cc", "int abc = " + "1 + " * 27 + "1;\n")
        self.assertEqual(self.run_check().returncode, 0)
        self.plant("runtime/a/a.cc", "int abcd = " + "1 + " * 27 + "1;\n")
        self.assertEqual(self.run_check().returncode, 1)

    def test_no_file_is_no_success(self):
        self.assertEqual(self.run_check().returncode, 1)


if __name__ == "__main__":
    unittest.main()
