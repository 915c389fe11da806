"""PyTorch is the oracle here; without it, tests that need it are skipped and say so."""

import pytest


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch, the oracle of these tests, cannot be imported")
    torch.set_num_threads(1)
