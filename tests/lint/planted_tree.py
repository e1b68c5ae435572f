# SPDX-License-Identifier: Apache-2.0
"""A small source tree in a temporary folder, for faults to be planted in."""

import os
import sys
import tempfile
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(SOURCE, "tools", "lint"))

LICENCE = "// SPDX-License-Identifier: Apache-2.0\n"


class PlantedTree(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory()
        self.addCleanup(self._folder.cleanup)
        self.root = self._folder.name

    def plant(self, path, text, licence=LICENCE):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as f:
            f.write(licence + text)
        return full

    def assert_one(self, problems, *words):
        """Exactly one problem, and it says all the words."""
        self.assertEqual(len(problems), 1, problems)
        for word in words:
            self.assertIn(word, problems[0])
