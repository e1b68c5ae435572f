# SPDX-License-Identifier: Apache-2.0
import os
import subprocess
import unittest

import planted_tree
import check_elf


class ElfTest(planted_tree.PlantedTree):
    def link(self, page):
        source = self.plant("a.cc", "int value = 1;\nint main() { return value - 1; }\n")
        output = os.path.join(self.root, "a.out")
        subprocess.run([os.environ.get("CXX", "c++"), source, "-o", output, f"-Wl,-z,max-page-size={page}"], check=True)
        return output

    def test_large_pages(self):
        self.assertEqual(check_elf.check(self.link(65536), 65536), [])

    def test_small_pages(self):
        problems = check_elf.check(self.link(4096), 16384)
        self.assertTrue(problems)
        self.assertIn("aligned to 4096", problems[0])

    def test_other_files(self):
        with self.assertRaises(ValueError):
            check_elf.check(self.plant("b.txt", "no program\n"), 65536)


if __name__ == "__main__":
    unittest.main()
