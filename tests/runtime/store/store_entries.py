"""Entries of the cache for the tests of it, and processes that make some."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

from npu_tensor.runtime.store.store import Store

FOLDER = "aie2p-host-gcc12.2"
NAME = "add-1024f32-1024f32-1024f32"


def key_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


KEY = key_of("a kernel")


class Builder:
    """A build with given contents; counts its calls."""

    def __init__(self, content: bytes = b"machine code", log: str = "warning: none\n") -> None:
        self.content, self.log, self.calls = content, log, 0

    def __call__(self, directory: Path) -> dict[str, Path]:
        assert list(directory.iterdir()) == []
        self.calls += 1
        (directory / "kernel.o").write_bytes(self.content)
        (directory / "unused").write_text("not a result")
        (directory / "build.log").write_text(self.log)
        return {".so": directory / "kernel.o"}


class Failing(Builder):
    """A build that raises an error."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def __call__(self, directory: Path) -> dict[str, Path]:
        super().__call__(directory)
        raise self.error


def put(store: Store, name: str = NAME, key: str = KEY, content: bytes = b"machine code") -> Path:
    """Build a new entry and return the path of its description."""
    entry, built = store.get_or_build(FOLDER, name, key, Builder(content), {"design": "a"})
    assert built
    return entry.files[".so"].with_suffix(".json")


def write_by_hand(root: Path, name: str, key: str, content: bytes) -> Path:
    """Write an entry as the documentation of `store.files` describes it."""
    directory = root / FOLDER
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}_{key[:16]}.json"
    path.with_suffix(".so").write_bytes(content)
    rest = {
        "files": {".so": {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}},
        "key": key,
        "made_from": {},
        "name": name,
        "format": 1,
    }
    covered = json.dumps(rest)[:-1]
    digest = hashlib.sha256(covered.encode()).hexdigest()
    path.write_text(f'{covered},\n "checksum": "{digest}"\n}}\n')
    return path


def touch(path: Path) -> Path:
    path.write_bytes(b"1")
    return path


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


def leftovers(root: Path) -> set[str]:
    """Names of files that a killed writer has left."""
    return {path.name for path in root.rglob("*.temporary")}


def run(program: str, *arguments: object, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )


PRELUDE = """
import hashlib, os, random, signal, sys, time
from pathlib import Path
from npu_tensor.errors import BuildError
from npu_tensor.config import config
from npu_tensor.runtime.store.store import Store
FOLDER = "aie2p-host-gcc12.2"
root, log = Path(sys.argv[1]), sys.argv[2]

def key_of(n):
    return hashlib.sha256(str(n).encode()).hexdigest()

def content(n, suffix):
    return f"{n}{suffix}".encode() * 20_000

def build(n, seconds=0.0):
    def make(directory):
        with open(log, "a") as file:
            file.write(f"{n}\\n")
        time.sleep(seconds)
        paths = {suffix: directory / f"kernel{suffix}" for suffix in (".so", ".xclbin", "_insts.bin")}
        for suffix, path in paths.items():
            path.write_bytes(content(n, suffix))
        return paths
    return make

def check(entry, n):
    assert len(entry.files) == 3
    for suffix, path in entry.files.items():
        assert path.read_bytes() == content(n, suffix)
"""
