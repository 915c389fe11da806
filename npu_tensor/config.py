"""Settings: typed, read from the environment when first used, changeable for the length of a with block.

with config.scope(eager=True):
    y = x + 1
"""

# ruff: noqa: RUF009 - `_setting` makes a new field at each call

from __future__ import annotations

import operator
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, get_args

from npu_tensor._util.interrupts import import_whole
from npu_tensor._util.user_warnings import warn
from npu_tensor.errors import ArgumentError

__all__ = ["CACHE_CLEARED", "SETTINGS", "Config", "Fallback", "Policy", "Setting", "as_text", "config"]

Policy = Literal["auto", "latency", "cpu_time", "energy", "always"]
Fallback = Literal["allow", "warn", "error"]
Building = Literal["wait", "background", "off"]
KernelFormat = Literal["xclbin", "elf"]

CACHE_CLEARED: Final = "NPU_TENSOR_CACHE_CLEARED"
"""No setting: it tells the processes which this one starts what it has cleared, as NPU_TENSOR_CACHE_CLEAR clears once
per program and not again in each of its workers."""

_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"", "0", "false", "no", "off"})


class Reader(Protocol):
    """How a value is read. source: what to name in an error. Raises ArgumentError."""

    def read(self, source: str, value: Any) -> Any:
        """The typed value for a text, or for a value that a program assigns."""
        ...


class Kind(NamedTuple):
    """What a setting may be. convert: raises ValueError or TypeError for anything else; allowed: that in words."""

    convert: Callable[[Any], Any]
    allowed: str

    def read(self, source: str, value: Any) -> Any:
        try:
            return self.convert(value)
        except (ValueError, TypeError):
            raise ArgumentError(f"{source}={value!r} is not allowed; it takes {self.allowed}") from None


class GgmlSwitch(NamedTuple):
    """A truth value of ggml-hsa, which takes every word that it does not know for off. on, off: what they mean here."""

    on: Any = True
    off: Any = False

    def read(self, source: str, value: Any) -> Any:
        try:
            return self.on if _truth(value) else self.off
        except ValueError:
            warn(f"{source}={value!r} is neither on nor off and counts as off")
            return self.off


def _truth(value: object) -> bool:
    word = str(value).strip().lower()
    if word not in _TRUE | _FALSE:
        raise ValueError
    return word in _TRUE


def _text(value: str | Path) -> str:
    return os.fspath(value)


def _paths(value: str | Iterator[str | Path]) -> tuple[Path, ...]:
    return tuple(Path(part) for part in (value.split(os.pathsep) if isinstance(value, str) else value) if str(part))


def _directory_name(value: Any) -> str:
    if not re.fullmatch(r"[\w.+-]*", value, re.ASCII):
        raise ValueError
    return str(value)


def as_text(value: Any) -> str:
    """A value as it would stand in the environment."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, tuple):
        return (os.pathsep if any(isinstance(part, Path) for part in value) else ",").join(map(str, value))
    return "" if value is None else str(value)


def _integer(value: Any) -> int:
    return int(value) if isinstance(value, str) else operator.index(value)


def at_least(least: int) -> Kind:
    """Integers from `least` up."""

    def convert(value: object) -> int:
        number = _integer(value)
        if number < least:
            raise ValueError
        return number

    return Kind(convert, f"an integer of at least {least}")


def between(least: int, most: int) -> Kind:
    """Integers from `least` to `most`, both included."""

    def convert(value: object) -> int:
        number = _integer(value)
        if not least <= number <= most:
            raise ValueError
        return number

    return Kind(convert, f"an integer from {least} to {most}")


def one_of(literal: Any) -> Kind:
    """One word of a Literal."""
    words = get_args(literal)

    def convert(value: object) -> object:
        if value not in words:
            raise ValueError
        return value

    return Kind(convert, ", ".join(words[:-1]) + f" or {words[-1]}")


def switch_or_one_of(literal: Any) -> Kind:
    """One word of a Literal; words for a truth value, and truth values, stand for the first or the last one."""
    words = get_args(literal)
    on, *_, off = words

    def convert(value: object) -> str:
        return str(value) if value in words else (on if _truth(value) else off)

    return Kind(convert, f"{', '.join(words[:-1])} or {off}; 1 is {on}, 0 is {off}")


def words_like(pattern: str, allowed: str) -> Kind:
    """Words that match a regular expression, separated by commas; a program may also give a tuple of them."""

    def convert(value: Any) -> tuple[str, ...]:
        found = tuple(str(part).strip() for part in (value.split(",") if isinstance(value, str) else value))
        if found == ("",):
            return ()
        if not all(re.fullmatch(pattern, word, re.IGNORECASE) for word in found):
            raise ValueError
        return found

    return Kind(convert, f"{allowed}, separated by commas")


TRUTH = Kind(_truth, "1, true, yes or on, or 0, false, no, off or nothing")
TEXT = Kind(_text, "text")
PATHS = Kind(_paths, f"paths separated by {os.pathsep!r}")
DIRECTORY_NAME = Kind(_directory_name, "letters, digits and . _ + -")
VISIBLE_DEVICES = words_like(r"-?\d+|[A-Z]{3}-[0-9A-Z]+", "numbers or identifiers such as AIE-0123456789abcdef")
GGML_SWITCH = GgmlSwitch()


class Setting(NamedTuple):
    """What is known about a setting. readers: how each variable is read, the one that wins first."""

    readers: Mapping[str, Reader]
    default: Any
    doc: str

    @property
    def variable(self) -> str:
        """Our own variable; the others are those of the programs that people come from."""
        return next(iter(self.readers))

    def given(self) -> str | None:
        """The variable that the environment sets and that wins."""
        return next((variable for variable in self.readers if variable in os.environ), None)

    def from_environment(self) -> tuple[Any, str]:
        """The value without a program that sets it, and the variable that it is from or "default"."""
        variable = self.given()
        if variable is None:
            return self.default, "default"
        return self.readers[variable].read(variable, os.environ[variable]), variable


def _setting(variable: str, default: Any, kind: Kind, doc: str, /, **aliases: Reader) -> Any:
    """A field of Config. aliases: further variables that are honoured, in order, and how to read them."""
    return field(metadata={"setting": Setting(MappingProxyType({variable: kind, **aliases}), default, doc)})


@dataclass(init=False, repr=False, eq=False, slots=True)
class Config:
    """All settings. A slot is filled when its setting is first read, so that later reads cost what a slot costs.

    A value that is not allowed raises ArgumentError, which names the variable, when the setting is read.
    """

    eager: bool = _setting("NPU_TENSOR_EAGER", False, TRUTH, "run every op as it is recorded (for debugging)")
    device: str = _setting(
        "NPU_TENSOR_DEVICE",
        "cpu",
        TEXT,
        "initial default device, as given to `nt.set_default_device`: cpu, npu, npu://<id>, sim:npu1, sim:npu2x2",
    )
    fallback: Fallback = _setting(
        "NPU_TENSOR_FALLBACK",
        "allow",
        one_of(Fallback),
        "what happens when the CPU has to run what the device refuses: allow silently, warn, or raise an error",
        GGML_HSA_CPU_FALLBACK=GgmlSwitch("allow", "error"),
    )
    debug: int = _setting(
        "NPU_TENSOR_DEBUG",
        0,
        between(0, 5),
        "printed to stderr; 1: plans, builds, contexts, 2: every kernel that runs, 3: where each op of a new plan runs "
        "and why, 4: generated code, 5: what compilers say",
    )
    log: bool = _setting(
        "NPU_TENSOR_LOG",
        False,
        TRUTH,
        'log all events with the logger "npu_tensor", to stderr where logging is not set up',
        GGML_HSA_ENABLE_LOG=GGML_SWITCH,
    )
    threads: int = _setting(
        "NPU_TENSOR_THREADS", 0, at_least(0), "threads of the CPU device; 0 = all cores of this process"
    )
    max_depth: int = _setting(
        "NPU_TENSOR_MAX_DEPTH",
        4096,
        at_least(1),
        "ops that may be recorded in a chain before its beginning is run; bounds memory in loops",
    )
    cpu_features: str = _setting(
        "NPU_TENSOR_CPU_FEATURES",
        "",
        TEXT,
        "lower the instruction set of the CPU device: avx2, sse2, or -feature,-feature",
    )
    cpu_compile: bool = _setting("NPU_TENSOR_CPU_COMPILE", True, TRUTH, "0: every op runs its NumPy reference")
    pool_bytes: int = _setting("NPU_TENSOR_POOL_BYTES", 1 << 30, at_least(0), "free memory kept for reuse, in bytes")

    kernel_dirs: tuple[Path, ...] = _setting(
        "NPU_TENSOR_KERNEL_DIR",
        (),
        PATHS,
        f"directories of ready kernels, separated by {os.pathsep!r}; they come before the cache and the compiler",
        GGML_HSA_KERNEL_DIR=PATHS,
    )
    cache_path: str = _setting(
        "NPU_TENSOR_CACHE_DIR",
        "",
        TEXT,
        "directory of compiled kernels; default: the user's cache",
        GGML_HSA_KERNEL_CACHE_DIR=TEXT,
    )
    trust_cache: bool = _setting(
        "NPU_TENSOR_TRUST_CACHE",
        False,
        TRUTH,
        "1: use cache and kernel directories that other users own or can write to; their files run as this user",
    )
    cache_bytes: int = _setting(
        "NPU_TENSOR_CACHE_BYTES",
        4 << 30,
        at_least(0),
        "size of the cache in bytes; beyond it the least recently used kernels go",
    )
    cache_clear: bool = _setting(
        "NPU_TENSOR_CACHE_CLEAR",
        False,
        TRUTH,
        "empty the cache once per program, before its first use; files of others stay",
        GGML_HSA_KERNEL_CACHE_CLEAR=GGML_SWITCH,
    )
    jit: Building = _setting(
        "NPU_TENSOR_JIT",
        "wait",
        switch_or_one_of(Building),
        "kernels for an NPU, real or simulated, that are not built yet: wait for them, let the CPU compute while they "
        "build in the background, or off: use ready and cached ones only",
        GGML_HSA_JIT_COMPILE=GgmlSwitch("wait", "off"),
    )
    jit_verbose: bool = _setting(
        "NPU_TENSOR_JIT_VERBOSE",
        False,
        TRUTH,
        "print the commands of each compilation, its time and where the files are",
        GGML_HSA_JIT_VERBOSE=GGML_SWITCH,
    )
    force_recompile: bool = _setting(
        "NPU_TENSOR_FORCE_RECOMPILE", False, TRUTH, "compile every kernel once per process, also those in the cache"
    )
    build_seconds: int = _setting("NPU_TENSOR_BUILD_SECONDS", 600, at_least(1), "time limit of one compilation")
    build_jobs: int = _setting("NPU_TENSOR_BUILD_JOBS", 0, at_least(0), "compilations at once; 0 = one per core")
    record: str = _setting(
        "NPU_TENSOR_RECORD",
        "",
        TEXT,
        "file that gets a configuration for npu-tensor-gen-kernels of all kernels that the program needed",
    )
    arch: str = _setting(
        "NPU_TENSOR_ARCH",
        "",
        TEXT,
        "the array to compile for where none is asked: aie2, aie2p, or a name such as npu1 or Strix",
    )
    toolchain_version: str = _setting(
        "NPU_TENSOR_TOOLCHAIN_VERSION",
        "",
        DIRECTORY_NAME,
        "what stands for the versions of mlir-aie and Peano in keys and in the cache; default: those installed",
    )

    kernel_format: KernelFormat = _setting(
        "NPU_TENSOR_KERNEL_FORMAT",
        "xclbin",
        one_of(KernelFormat),
        "what is built for an NPU: xclbin, or elf (on aie2p, with mlir-aie 1.4.0 or later, for kernels without runtime "
        "parameters; the others stay xclbins)",
    )

    strict: bool = _setting(
        "NPU_TENSOR_STRICT",
        False,
        TRUTH,
        "raise LaunchError where a kernel fails on an NPU, instead of finishing on the CPU",
    )
    self_check: bool = _setting(
        "NPU_TENSOR_SELF_CHECK",
        True,
        TRUTH,
        "compare the first result of every kernel on an NPU with the CPU's, once per kernel, XRT, driver and firmware",
    )
    launch_seconds: int = _setting(
        "NPU_TENSOR_LAUNCH_SECONDS",
        10,
        at_least(1),
        "how long the program waits for a launch on an NPU; the driver itself ends launches after 2 s",
    )
    backend: tuple[str, ...] = _setting(
        "NPU_TENSOR_BACKEND",
        ("auto",),
        words_like("auto|npu|sim|cpu", "auto, npu, sim or cpu"),
        "kinds of devices that may be used besides the CPU; auto = all",
        GGML_HSA=GgmlSwitch(("auto",), ("sim", "cpu")),
    )
    visible_devices: tuple[str, ...] | None = _setting(
        "NPU_VISIBLE_DEVICES",
        None,
        VISIBLE_DEVICES,
        "NPUs that exist for this process, by number or identifier; nothing or -1 = none",
        ROCR_VISIBLE_DEVICES=VISIBLE_DEVICES,
    )
    xrt_path: tuple[Path, ...] = _setting(
        "NPU_TENSOR_XRT_PATH",
        (),
        PATHS,
        "where XRT's library is looked for first, and pyxrt if this Python cannot import it",
        XILINX_XRT=PATHS,
    )
    libhsa_path: tuple[Path, ...] = _setting(
        "NPU_TENSOR_LIBHSA_PATH",
        (),
        PATHS,
        "where libhsa-runtime64, which only `npu-tensor doctor` reports, is looked for first",
        IREE_HAL_AMDGPU_LIBHSA_PATH=PATHS,
        ROCM_PATH=PATHS,
    )
    policy: Policy = _setting(
        "NPU_TENSOR_POLICY",
        "auto",
        one_of(Policy),
        "what placement minimizes: latency, cpu_time or energy; always = the device takes every kernel that it can "
        "build; auto = latency, or always if all devices are simulated",
    )
    max_contexts: int = _setting(
        "NPU_TENSOR_MAX_CONTEXTS",
        0,
        at_least(0),
        "hardware contexts kept open; 0 = 6 or 16 by array. The driver may allow fewer",
    )
    kernel_targets: tuple[str, ...] = _setting(
        "NPU_TENSOR_KERNEL_TARGETS",
        (),
        words_like("aie2|aie2p", "aie2 or aie2p"),
        "arrays whose kernels `python -m npu_tensor.ggml_hsa --builtin` makes for a wheel; nothing = all",
    )

    _origins: dict[str, str] = field(default_factory=dict)
    _followers: dict[str, list[Callable[[Any], object]]] = field(default_factory=dict)

    def __init__(self) -> None:
        object.__setattr__(self, "_origins", {})
        object.__setattr__(self, "_followers", {name: [] for name in SETTINGS})

    if not TYPE_CHECKING:  # which would otherwise take every name for a setting

        def __getattr__(self, name: str) -> Any:
            """Read a setting from the environment; only called while its slot is empty."""
            if name not in SETTINGS:
                raise AttributeError(f"there is no setting {name!r}; there are {', '.join(SETTINGS)}")
            _warn_of_unknown_variables()
            value, origin = SETTINGS[name].from_environment()
            self._fill(name, value, origin)
            return value

    def __repr__(self) -> str:
        """The settings that are not at their defaults. Reads none for good."""
        return f"config({', '.join(f'{name}={value!r}' for name, value in self._changed())})"

    def _changed(self) -> Iterator[tuple[str, Any]]:
        for name, setting in SETTINGS.items():
            try:
                value = getattr(self, name) if name in self._origins else setting.from_environment()[0]
            except ArgumentError:
                value = os.environ[setting.given() or ""]
            if value != setting.default:
                yield name, value

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in SETTINGS:
            raise AttributeError(f"there is no setting {name!r}; there are {', '.join(SETTINGS)}")
        setting = SETTINGS[name]
        source = f"config.{name}"
        self._fill(name, setting.readers[setting.variable].read(source, value), source)

    def _fill(self, name: str, value: Any, origin: str) -> None:
        object.__setattr__(self, name, value)
        self._origins[name] = origin
        for follower in self._followers[name]:
            follower(value)

    def _empty(self, name: str) -> None:
        if self._origins.pop(name, None):
            object.__delattr__(self, name)
            if followers := self._followers[name]:
                with suppress(ArgumentError):  # Whoever reads it next is told.
                    value, _ = SETTINGS[name].from_environment()  # not kept: the environment may still change
                    for follower in followers:
                        follower(value)

    def follow(self, name: str, follower: Callable[[Any], object]) -> None:
        """Call `follower` with each new value: read from the environment, assigned, or back after a scope or reset."""
        self._followers[name].append(follower)

    def read_followed(self) -> None:
        """Read the settings that are followed, unless they were read before. Raises ArgumentError."""
        for name, followers in self._followers.items():
            if followers:
                getattr(self, name)

    def reset(self) -> None:
        """Forget all values, so that the environment is read again."""
        for name in SETTINGS:
            self._empty(name)

    def origin(self, name: str) -> str:
        """Where the value of a setting comes from: "default", the variable, or "config.NAME" if a program set it."""
        return self._origins.get(name) or SETTINGS[name].given() or "default"

    @contextmanager
    def scope(self, **settings: Any) -> Iterator[None]:
        """Change settings for a with block; for the whole process, not for one thread."""
        previous = {name: (getattr(self, name), origin) for name in settings if (origin := self._origins.get(name))}
        try:
            for name, value in settings.items():
                setattr(self, name, value)
            yield
        finally:
            for name in settings:
                if name in previous:
                    self._fill(name, *previous[name])
                else:
                    self._empty(name)

    @property
    def cache_dir(self) -> Path:
        """Directory of compiled kernels. Not created here.

        The setting, else $XDG_CACHE_HOME/npu_tensor, else $HOME/.cache/npu_tensor, else `user_temporary_path`.
        """
        if self.cache_path:
            return Path(os.path.expanduser(self.cache_path))  # leaves "~nobody" as it is
        if os.environ.get("XDG_CACHE_HOME") or os.environ.get("HOME"):
            import_whole("platformdirs")
            from platformdirs import user_cache_path

            return user_cache_path("npu_tensor")
        return user_temporary_path()

    def ready_kernel_dirs(self) -> tuple[Path, ...]:
        """`kernel_dirs`, which must all be there: a wrong path would quietly mean that everything is compiled.

        Raises ArgumentError, which names the variable and the path.
        """
        for path in self.kernel_dirs:
            if not path.is_dir():
                what = "is not a directory" if path.exists() else "does not exist"
                raise ArgumentError(f"{self.origin('kernel_dirs')} names {str(path)!r}, which {what}")
        return self.kernel_dirs

    @classmethod
    def table(cls) -> list[dict[str, str]]:
        """One row per setting: its name, variable, other variables that are honoured, default and meaning."""
        return [
            {
                "name": name,
                "variable": setting.variable,
                "aliases": ", ".join(list(setting.readers)[1:]),
                "default": as_text(setting.default),
                "doc": setting.doc,
            }
            for name, setting in SETTINGS.items()
        ]


def user_temporary_path() -> Path:
    """The directory of this user below that for temporary files. Not created here."""
    try:
        place = tempfile.gettempdir()
    except FileNotFoundError:  # None can be written; whoever needs this one finds that out, and may do without.
        place = "/tmp"
    return Path(place, f"npu_tensor-{os.getuid()}")


SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType(
    {field.name: field.metadata["setting"] for field in fields(Config) if field.metadata}
)



_PREFIX: Final = "NPU_TENSOR_"


@cache
def _warn_of_unknown_variables() -> None:
    """A misspelt variable would quietly do nothing. Once per process; those of the tests are theirs."""
    known = {CACHE_CLEARED, *(variable for setting in SETTINGS.values() for variable in setting.readers)}
    for variable in sorted(os.environ.keys() - known):
        if variable.startswith(_PREFIX) and not variable.startswith(f"{_PREFIX}TEST_"):
            from difflib import get_close_matches

            names = [name.removeprefix(_PREFIX) for name in known if name.startswith(_PREFIX)]
            similar = get_close_matches(variable.removeprefix(_PREFIX), names, 1)
            meant = f"did you mean {_PREFIX}{similar[0]}?" if similar else "`npu-tensor config` lists those that are"
            warn(f"the environment sets {variable}, which is no setting; {meant}")


config = Config()
