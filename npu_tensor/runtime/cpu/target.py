"""The processor that CPU kernels are generated for: its name, its features and what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import llvmlite.binding as llvm

from npu_tensor.errors import ArgumentError
from npu_tensor.forks import cached_property
from npu_tensor.interrupts import uninterrupted

__all__ = ["Target", "host_target"]

# x86 vector extensions, each with the ones that directly build on it: turning one off turns those off as
# well.
_BUILDS_ON: dict[str, tuple[str, ...]] = {
    "sse3": ("ssse3", "sse4a"),
    "ssse3": ("sse4.1",),
    "sse4.1": ("sse4.2",),
    "sse4.2": ("avx",),
    "avx": ("avx2", "fma", "fma4", "f16c", "xop", "vaes", "vpclmulqdq"),
    "avx2": ("avx512f", "avxvnni", "avxvnniint8", "avxvnniint16", "avxifma", "avxneconvert"),
}
# Names of feature levels that `host_target` accepts: the first extension that the level does not have.
_LEVELS = {"sse2": "sse3", "sse4": "avx", "avx2": "avx512f"}


@dataclass(frozen=True)
class Target:
    """A processor as LLVM names it.

    `features` are the enabled features and `disabled` those that `cpu` would have but that must not be used.
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
        """The float32 elements of one vector register."""
        if self.has_avx512:
            return 16
        return 8 if "avx2" in self.features else 4

    @cached_property
    def has_fma(self) -> bool:
        return self.is_aarch64 or "fma" in self.features or self.has_avx512

    @cached_property
    def has_bfloat16(self) -> bool:
        """float32 -> bfloat16 conversion and the bfloat16 dot product as AVX512 instructions."""
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
        """The features in LLVM's notation. Disabled ones come last: they win over what implies them."""
        return ",".join(
            [*(f"+{name}" for name in sorted(self.features)), *(f"-{name}" for name in sorted(self.disabled))]
        )

    @uninterrupted
    def create_target_machine(self) -> llvm.TargetMachine:
        """An LLVM code generator for this processor, at level 2, for code that stays in memory."""
        _initialize(self.triple)
        return llvm.Target.from_triple(self.triple).create_target_machine(
            cpu=self.cpu, features=self.feature_string, opt=2, jit=True
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
def host_target(disabled: str = "") -> Target:
    """The processor this process runs on, without the features that `disabled` names.

    `disabled` is a comma-separated list of features ("-avx512bf16", the minus may be left out) or levels:
    "avx2" and "sse2" keep that extension and nothing above it. What builds on a disabled feature is disabled
    too.
    """
    known = llvm.get_host_cpu_features()
    features = {name for name, present in known.items() if present}
    removed: set[str] = set()
    for word in filter(None, (part.strip() for part in disabled.split(","))):
        if word not in _LEVELS and word.lstrip("-") not in known:
            raise ArgumentError(f"NPU_TENSOR_CPU_FEATURES: {word!r} is no level ({', '.join(_LEVELS)}) and no feature")
        removed |= _with_dependents(_LEVELS.get(word, word.lstrip("-")), features)
    return Target(
        triple=llvm.get_process_triple(),
        cpu=llvm.get_host_cpu_name(),
        features=frozenset(features - removed),
        disabled=frozenset(removed & features),
    )


def _with_dependents(feature: str, known: set[str]) -> set[str]:
    if feature == "avx512f":
        return {name for name in known if name.startswith("avx512")} | {feature}
    found = {feature}
    for dependent in _BUILDS_ON.get(feature, ()):
        found |= _with_dependents(dependent, known)
    return found
