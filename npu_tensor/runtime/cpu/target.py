"""The processor that CPU kernels are generated for: its name, its features and derived properties."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import llvmlite.binding as llvm

from npu_tensor._util.forks import cached_property
from npu_tensor._util.interrupts import uninterrupted
from npu_tensor.errors import ArgumentError

# x86 features that kernels ask for, as LLVM names them, each with those that it implies at once (X86.td and
# X86TargetParser.cpp of LLVM 22). LLVM turns off with a feature whatever implies it, so `CpuTarget.features` must not
# have that either.
_IMPLIES: Final[dict[str, tuple[str, ...]]] = {
    "ssse3": ("sse3",),
    "sse4.1": ("ssse3",),
    "sse4.2": ("sse4.1",),
    "avx": ("sse4.2",),
    **dict.fromkeys(("avx2", "fma", "f16c"), ("avx",)),
    "avxvnni": ("avx2",),
    "avx512f": ("avx2", "fma", "f16c"),
    **dict.fromkeys([f"avx512{name}" for name in ("bw", "dq", "vl", "vnni")], ("avx512f",)),
    "avx512bf16": ("avx512bw",),
}
# Features that the calling conventions of 64-bit code need.
_BASELINE: Final = frozenset({"64bit", "sse", "sse2", "fp-armv8", "neon"})
# Names of feature levels that `host_target` accepts: the first extension that the level does not have.
_LEVELS = {"sse2": "sse3", "sse4": "avx", "avx2": "avx512f"}
# Features of LLVM's code generator; see engine.py for the reason.
_OPTIMIZATION: Final = 2


@dataclass(frozen=True)
class CpuTarget:
    """A processor as LLVM names it.

    `features` are the enabled features and `disabled` those that `cpu` may have but that must not be used.
    """

    triple: str
    cpu: str
    features: frozenset[str]
    disabled: frozenset[str] = frozenset()

    @cached_property
    def is_x86(self) -> bool:
        return self.triple.startswith(("x86_64", "i686", "amd64"))

    @cached_property
    def is_aarch64(self) -> bool:
        return self.triple.startswith(("aarch64", "arm64"))

    @cached_property
    def has_avx512(self) -> bool:
        """AVX512 with its byte, word, doubleword and 128/256-bit forms: every CPU but Knights Landing."""
        return {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= self.features

    @cached_property
    def lanes(self) -> int:
        """Number of float32 elements of a vector register."""
        if self.has_avx512:
            return 16
        return 8 if "avx2" in self.features else 4

    @cached_property
    def vector_registers(self) -> int:
        return 32 if self.has_avx512 or self.is_aarch64 else 16

    @cached_property
    def has_fma(self) -> bool:
        return self.is_aarch64 or "fma" in self.features or self.has_avx512

    @cached_property
    def has_bfloat16(self) -> bool:
        """True if AVX512 has instructions that convert float32 to bfloat16 and multiply bfloat16."""
        return self.has_avx512 and "avx512bf16" in self.features

    @cached_property
    def has_float16(self) -> bool:
        """float32 <-> float16 conversion as an instruction."""
        return self.is_aarch64 or "f16c" in self.features or self.has_avx512

    @cached_property
    def has_vnni(self) -> bool:
        return self.has_avx512 and "avx512vnni" in self.features

    @cached_property
    def has_rounding(self) -> bool:
        """Rounding of a float to an integral float as an instruction."""
        return self.is_aarch64 or "sse4.1" in self.features

    @cached_property
    def function_attributes(self) -> str:
        """Attributes of every generated function.

        CPUs that prefer 256-bit code get 512-bit code all the same.
        """
        attributes = "nounwind"
        return f'{attributes} "prefer-vector-width"="512"' if self.has_avx512 else attributes

    @cached_property
    def feature_string(self) -> str:
        """Features in LLVM's notation. Disabled ones come last, so that they win over features that imply them."""
        return ",".join(
            [*(f"+{name}" for name in sorted(self.features)), *(f"-{name}" for name in sorted(self.disabled))]
        )

    @uninterrupted
    def create_target_machine(self) -> llvm.TargetMachine:
        """Return an LLVM code generator for this processor, for code that stays in memory."""
        _initialize(self.triple)
        return llvm.Target.from_triple(self.triple).create_target_machine(
            cpu=self.cpu, features=self.feature_string, opt=_OPTIMIZATION, jit=True
        )


@cache
def _initialize(triple: str) -> None:
    if triple == llvm.get_process_triple():
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()


@uninterrupted
def host_target(disabled: str = "") -> CpuTarget:
    """Return the processor of this process, without disabled features.

    Args:
        disabled: Comma-separated list of features ("-avx512bf16", the minus is optional) or levels: "avx2" and "sse2"
            keep that extension and nothing above it. Features that imply a disabled one are disabled too.

    Raises:
        ArgumentError: A word is neither a feature nor a level, or all code needs the feature.
    """
    known = llvm.get_host_cpu_features()
    # A virtual machine may lack features of processors of its name.
    removed = {name for name, present in known.items() if not present}
    for word in filter(None, (part.strip() for part in disabled.split(","))):
        feature = _LEVELS.get(word, word.removeprefix("-"))
        if word not in _LEVELS and feature not in known:
            raise ArgumentError(f"NPU_TENSOR_CPU_FEATURES: {word!r} is not numpy, {', '.join(_LEVELS)} or a feature")
        if feature in _BASELINE:
            raise ArgumentError(f"NPU_TENSOR_CPU_FEATURES: {word!r} turns off {feature}, which all 64-bit code needs")
        removed.add(feature)
    while more := {name for name, implied in _IMPLIES.items() if not removed.isdisjoint(implied)} - removed:
        removed |= more
    return CpuTarget(
        triple=llvm.get_process_triple(),
        cpu=llvm.get_host_cpu_name(),
        features=frozenset(known) - removed,
        disabled=frozenset(removed) & frozenset(known),
    )
