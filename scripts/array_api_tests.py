"""Run the public test suite of the array API standard on `npu_tensor.array_api`.

The suite is not a package. Clone it once with its submodule, and pass the checkout:

    git clone --recurse-submodules --branch 2026.02.26 https://github.com/data-apis/array-api-tests
    python scripts/array_api_tests.py array-api-tests

Options after the path are passed to pytest and the suite, such as `--max-examples 100` or `-k add`. The suite needs
hypothesis and ndindex (`python -m pip install hypothesis ndindex pytest`).
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any, Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[1]
LEFT_OUT: Final = ROOT / "tests" / "array_api" / "left_out.txt"
"""Name patterns of excluded tests, with reasons. The first pattern matches tests that need complex numbers."""


class Chosen:
    """Plug-in for pytest that excludes and counts tests."""

    def __init__(self) -> None:
        lines = LEFT_OUT.read_text("utf-8").splitlines()
        needs_complex, *others = (line for line in lines if not line.startswith("#"))
        self.needs_complex, self.others = re.compile(needs_complex), re.compile("|".join(others))
        self.real = 0

    def pytest_collection_modifyitems(self, config: Any, items: list[Any]) -> None:
        """Remove the excluded tests."""
        real = [item for item in items if not self.needs_complex.search(item.nodeid)]
        self.real = len(real)
        kept = [item for item in real if not self.others.search(item.nodeid)]
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = kept

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the share of passing tests, without those that the suite skips."""
        passed, skipped = (len(terminalreporter.stats.get(outcome, ())) for outcome in ("passed", "skipped"))
        total = self.real - skipped
        if total > 0:
            share = f"{passed / total:.1%}"
            terminalreporter.write_line(f"{passed} of {total} tests that need no complex numbers pass, {share}")


def main() -> int:
    if len(sys.argv) < 2 or not (Path(sys.argv[1]) / "array_api_tests").is_dir():
        print(__doc__)
        return 2
    suite, *options = sys.argv[1:]
    # The suite's variable for excluded dtypes. No tensors exist for these.
    os.environ["ARRAY_API_TESTS_SKIP_DTYPES"] = "uint16,uint32,uint64,complex64,complex128"
    os.environ["ARRAY_API_TESTS_MODULE"] = "npu_tensor.array_api"
    os.chdir(suite)
    sys.path[:0] = [".", str(ROOT)]
    tests = [] if any("::" in option or option.endswith(".py") for option in options) else ["array_api_tests"]
    # The first example of a test compiles its kernels, which exceeds the suite's deadline.
    own = ["-c", "pytest.ini", "-p", "no:cacheprovider", "--disable-deadline", "-q"]
    return int(pytest.main([*own, *tests, *options], plugins=[Chosen()]))


if __name__ == "__main__":
    sys.exit(main())
