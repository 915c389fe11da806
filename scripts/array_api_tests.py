"""Runs the public test suite of the array API standard on `npu_tensor.array_api`.

The suite is no package. Get it once, with its submodule, and name the checkout:

    git clone --recurse-submodules --branch 2026.02.26 https://github.com/data-apis/array-api-tests
    python scripts/array_api_tests.py array-api-tests

Options behind the path are pytest's and the suite's, such as `--max-examples 100` or `-k add`. It needs hypothesis and
ndindex (`pip install "npu_tensor[array-api]"`).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
# What there are no tensors of; the suite's own way of leaving dtypes out.
SKIPPED_DTYPES: Final = "uint16,uint32,uint64,complex64,complex128"


def main() -> int:
    if len(sys.argv) < 2 or not (Path(sys.argv[1]) / "array_api_tests").is_dir():
        print(__doc__)
        return 2
    suite, *options = sys.argv[1:]
    environment = {
        **os.environ,
        "ARRAY_API_TESTS_MODULE": "npu_tensor.array_api",
        "ARRAY_API_TESTS_SKIP_DTYPES": SKIPPED_DTYPES,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
    }
    skips = ROOT / "tests" / "array_api" / "skips.txt"
    # The first example of a test compiles its kernels, which takes longer than the suite's deadline.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--disable-deadline"]
    tests = [] if any("::" in option or option.endswith(".py") for option in options) else ["array_api_tests"]
    return subprocess.run(
        [*command, "--skips-file", str(skips), *tests, *options], cwd=suite, env=environment, check=False
    ).returncode


if __name__ == "__main__":
    sys.exit(main())
