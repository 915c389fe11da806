"""Generate the LLVM IR of runtime/cpu/pool.c beside it, for each architecture: python scripts/pool_ir.py [CLANG].

Only a change of pool.c needs clang, version 15 to 20. Attributes, metadata and target lines are removed: they depend on
clang's version or would tie the code to one processor.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "npu_tensor" / "runtime" / "cpu" / "pool.c"
ARCHITECTURES = ("x86_64", "aarch64")
OPTIONS = ("-std=gnu11", "-O1", "-ffreestanding", "-fno-unroll-loops", "-fno-asynchronous-unwind-tables", "-Wall")
DROPPED = re.compile(
    r"^(source_filename|target |attributes |!|;|@llvm\.(compiler\.)?used).*\n|^.*@llvm\.lifetime.*\n|, !\S+ !\d+| #\d+",
    re.MULTILINE,
)
ATTRIBUTES = re.compile(
    r"\b(noundef|nonnull|nocapture|readonly|writeonly|nofree|noalias|local_unnamed_addr|dso_local|signext|zeroext|tail|"
    r"dereferenceable\(\d+\)|range\([^)]*\)|immarg|allocptr) (?=\S)|(?<=ptr|i32|i64) (noundef|nocapture|readonly)\b"
)


def generated(architecture: str, clang: str = "clang") -> str:
    """Return the module as text for all LLVM versions since 15."""
    command = [clang, f"--target={architecture}-linux-gnu", *OPTIONS, "-S", "-emit-llvm", "-o", "-", str(SOURCE)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    text = ATTRIBUTES.sub("", DROPPED.sub("", text))
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()
    head = f"; Generated from {SOURCE.name} (sha256 {digest}) by scripts/pool_ir.py.\n"
    return head + re.sub(r"\n{3,}", "\n\n", text)


if __name__ == "__main__":
    for architecture in ARCHITECTURES:
        target = SOURCE.with_name(f"pool.{architecture}.ll")
        target.write_text(generated(architecture, *sys.argv[1:]), "utf-8")
        print(target)
