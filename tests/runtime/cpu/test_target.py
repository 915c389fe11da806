"""The features of a target are those that LLVM generates code with."""

from __future__ import annotations

import os
import subprocess
import sys

import llvmlite.binding as llvm
import pytest

from npu_tensor.errors import ArgumentError
from npu_tensor.runtime.cpu.target import CpuTarget, host_target

FEATURES = {name for name, present in llvm.get_host_cpu_features().items() if present}
BASELINE = {"64bit", "sse", "sse2"}
# A feature, a function that is compiled differently with it, and what then stands in the assembly.
PROBES = {
    "sse4.1": (
        "define <4 x float> @f(<4 x float> %x) {0} {{ %y = call <4 x float> @llvm.floor(<4 x float> %x)",
        "round",
    ),
    "avx": ("define <8 x float> @f(<8 x float> %x) {0} {{ %y = fadd <8 x float> %x, %x", "ymm"),
    "avx2": ("define <8 x i32> @f(<8 x i32> %x) {0} {{ %y = add <8 x i32> %x, %x", "vpaddd\t%ymm"),
    "fma": (
        "define <4 x float> @f(<4 x float> %x) {0} {{ "
        "%y = call <4 x float> @llvm.fma(<4 x float> %x, <4 x float> %x, <4 x float> %x)",
        "vfmadd",
    ),
    "f16c": ("define <4 x half> @f(<4 x float> %x) {0} {{ %y = fptrunc <4 x float> %x to <4 x half>", "vcvtps2ph"),
    "avx512f": ("define <16 x float> @f(<16 x float> %x) {0} {{ %y = fadd <16 x float> %x, %x", "zmm"),
    "avx512bw": ("define <32 x i16> @f(<32 x i16> %x) {0} {{ %y = add <32 x i16> %x, %x", "vpaddw\t%zmm"),
    "avx512dq": ("define <8 x i64> @f(<8 x i64> %x) {0} {{ %y = mul <8 x i64> %x, %x", "vpmullq"),
}

x86_only = pytest.mark.skipif("sse2" not in FEATURES, reason="the features of x86 processors")


def assembly(target: CpuTarget, start: str) -> str:
    result = start.split()[1:4]
    text = start.format('"prefer-vector-width"="512"') + f" ret {' '.join(result)} %y }}"
    module = llvm.parse_assembly(text)
    module.triple = target.triple
    return str(target.create_target_machine().emit_assembly(module))


@x86_only
@pytest.mark.parametrize("removed", ["", *sorted(FEATURES - BASELINE)])
def test_features_are_those_that_llvm_uses(removed: str) -> None:
    """LLVM turns off what implies a feature as well; a generator that believed otherwise would end the process."""
    target = host_target(f"-{removed}" if removed else "")
    assert removed not in target.features
    for feature, (start, mark) in PROBES.items():
        assert (mark in assembly(target, start)) == (feature in target.features), feature


@x86_only
def test_what_a_virtual_machine_hides_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    known = llvm.get_host_cpu_features() | {"fma": False, "avx2": True, "avx512f": True, "avx512vl": True}
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: known)
    target = host_target()
    assert target.features.isdisjoint({"fma", "avx512f", "avx512vl"})
    assert "avx2" in target.features
    assert {"-fma", "-avx512f", "-avx512vl"} <= set(target.feature_string.split(","))


@pytest.mark.parametrize("word", ["nonsense", "+fma", "-"])
def test_words_that_are_no_feature_are_refused(word: str) -> None:
    with pytest.raises(ArgumentError, match=r"is not numpy, .* or a feature"):
        host_target(word)


@x86_only
@pytest.mark.parametrize("word", sorted(BASELINE))
def test_what_all_code_needs_stays_on(word: str) -> None:
    with pytest.raises(ArgumentError, match=f"NPU_TENSOR_CPU_FEATURES: '-{word}' turns off {word}"):
        host_target(f"avx2, -{word}")


@x86_only
@pytest.mark.parametrize("word", ["-fma", "-f16c", "-avx512vl"])
def test_computes_without_a_feature(word: str) -> None:
    """In a process of its own, which LLVM would end."""
    program = """
import numpy as np
import npu_tensor as nt
x = np.random.default_rng(1).normal(size=(33, 40)).astype(np.float32)
t = nt.tensor(x)
y = (t @ t.mT).tanh().softmax(-1)
z = np.exp(np.tanh(x.astype(float) @ x.T.astype(float)))
np.testing.assert_allclose(y.numpy(), z / z.sum(-1, keepdims=True), rtol=1e-4)
np.testing.assert_array_equal((t.to(nt.float16) * 2).numpy(), x.astype(np.float16) * 2)
assert (nt.tensor([1.0, -2.5]).to(nt.bfloat16) + 1).tolist() == [2.0, -1.5]
"""
    settings = {**os.environ, "NPU_TENSOR_CPU_FEATURES": word}
    done = subprocess.run([sys.executable, "-c", program], env=settings, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
