"""Both differential fuzzers for a bounded number of programs; longer runs: see their first lines."""

import importlib.util
from pathlib import Path

import pytest
from running import python

torch = pytest.importorskip("torch", reason="PyTorch, the other side of the comparison, cannot be imported")

import aliases  # noqa: E402
import captures  # noqa: E402
import expressions  # noqa: E402
import signals  # noqa: E402
import training  # noqa: E402
from drawing import DTYPES  # noqa: E402

import npu_tensor as nt  # noqa: E402

pytestmark = pytest.mark.usefixtures("less_optimised")


@pytest.mark.parametrize(
    ("mode", "device", "count", "dtypes"),
    [
        ("lazy", "cpu", 60, DTYPES),
        ("eager", "cpu", 60, DTYPES),
        ("jit", "cpu", 60, DTYPES),
        # Dtypes that an array computes itself; the CPU computes the others here, too.
        ("lazy", "sim:npu1", 4, ("bfloat16", "int8", "int16", "int32")),
        ("lazy", "sim:npu2", 4, ("bfloat16", "int8", "int16", "int32")),
    ],
)
def test_expressions(mode: str, device: str, count: int, dtypes: tuple[str, ...]) -> None:
    with nt.config.scope(eager=mode == "eager"), nt.default_device(device, None if device == "cpu" else "always"):
        for seed in range(count):
            if text := expressions.failure(seed, mode, dtypes):
                pytest.fail(text)


@pytest.mark.parametrize("mode", ["lazy", "eager"])
def test_aliases(mode: str) -> None:
    with nt.config.scope(eager=mode == "eager"):
        for seed in range(150):
            if text := aliases.failure(seed):
                pytest.fail(text)


def test_captures() -> None:
    for seed in range(200):
        if text := captures.failure(seed):
            pytest.fail(text)


@pytest.mark.parametrize(("kind", "count"), [("modules", 12), ("optimizers", 20)])
def test_training(kind: str, count: int) -> None:
    for seed in range(count):
        if text := training.failure(kind, seed):
            pytest.fail(text)


@pytest.mark.parametrize("seed", range(0, 8, 2))
def test_programs_that_compute_while_they_end(seed: int) -> None:
    """Even seeds. The others interrupt at moments that depend on the machine, so they are for longer runs."""
    assert not signals.difference(seed)


# --- configurations and descriptors that atheris makes up, for a bounded number of inputs from a fixed seed


HERE = Path(__file__).parent


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed")
@pytest.mark.parametrize(("script", "runs"), [("fuzz_tensor_desc.py", 20_000), ("fuzz_config.py", 2_000)])
def test_fuzz(script: str, runs: int, tmp_path: Path) -> None:
    limits = ["-max_len=120", "-timeout=20", "-rss_limit_mb=8192"]  # The peak of the process that started it counts.
    done = python(HERE / script, f"-runs={runs}", "-seed=1", *limits, cwd=tmp_path)
    assert f"Done {runs} " in done.stderr
