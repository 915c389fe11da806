"""Typed settings, read from the environment on first use. A `with` block can change them temporarily.

    with config.scope(eager=True):
        y = x + 1

An assignment affects the whole process. A scope affects its context: this thread or asyncio task.
"""

# ruff: noqa: RUF009 - `_setting` creates a new field at each call

from __future__ import annotations

import operator
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from threading import RLock
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args

from npu_tensor._util.forks import new_lock
from npu_tensor._util.interrupts import import_whole
from npu_tensor._util.user_warnings import warn
from npu_tensor.errors import ArgumentError

__all__ = ["CACHE_CLEARED", "SETTINGS", "Config", "Fallback", "Policy", "Setting", "as_text", "config"]

Policy = Literal["auto", "latency", "cpu_time", "energy", "always"]
Fallback = Literal["allow", "warn", "error"]
Building = Literal["wait", "background", "off"]
KernelFormat = Literal["xclbin", "elf"]

CACHE_CLEARED: Final = "NPU_TENSOR_CACHE_CLEARED"
"""Internal variable, not a setting. It lists cleared caches for child processes, because NPU_TENSOR_CACHE_CLEAR clears
once per program and not in each of its workers."""

_PREFIX: Final = "NPU_TENSOR_"
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"", "0", "false", "no", "off"})


class Kind(NamedTuple):
    """Allowed values of a setting.

    Attributes:
        convert: Conversion function. It raises ValueError or TypeError for values that are not allowed.
        allowed: Description of the allowed values.
    """

    convert: Callable[[Any], Any]
    allowed: str

    def read(self, source: str, value: Any) -> Any:
        """Convert a text or an assigned value. The ArgumentError for an invalid value names `source`."""
        try:
            return self.convert(value)
        except (ValueError, TypeError):
            raise ArgumentError(f"{source}={value!r} is not allowed; it takes {self.allowed}") from None


class GgmlSwitch(NamedTuple):
    """Boolean variable of ggml-hsa, where unknown words mean off. `on` and `off` are the values of the setting."""

    on: Any = True
    off: Any = False

    def read(self, source: str, value: Any) -> Any:
        """Convert a value like `Kind.read`, with a warning instead of the error."""
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


def _paths(value: str | Iterable[str | Path]) -> tuple[Path, ...]:
    return tuple(Path(part) for part in (value.split(os.pathsep) if isinstance(value, str) else value) if str(part))


def as_text(value: Any) -> str:
    """Format a value as in the environment."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, tuple):
        return (os.pathsep if any(isinstance(part, Path) for part in value) else ",").join(map(str, value))
    return "" if value is None else str(value)


def integer(least: int, most: int | None = None) -> Kind:
    """Create the kind of integers from `least` to `most`, both included; None for no upper bound."""

    def convert(value: Any) -> int:
        number = int(value) if isinstance(value, str) else operator.index(value)
        if number < least or (most is not None and number > most):
            raise ValueError
        return number

    return Kind(convert, f"an integer of at least {least}" if most is None else f"an integer from {least} to {most}")


def one_of(literal: Any, switch: bool = False) -> Kind:
    """Create the kind of the words of a Literal. With `switch`, booleans mean the first and the last word."""
    *words, last = get_args(literal)

    def convert(value: object) -> object:
        if value in (*words, last):
            return value
        if not switch:
            raise ValueError
        return words[0] if _truth(value) else last

    allowed = f"{', '.join(words)} or {last}"
    return Kind(convert, f"{allowed}; 1 is {words[0]}, 0 is {last}" if switch else allowed)


def words_like(pattern: str, allowed: str) -> Kind:
    """Create the kind of comma-separated words that match a regular expression. Programs may assign a tuple."""

    def convert(value: Any) -> tuple[str, ...]:
        words = tuple(str(part).strip() for part in (value.split(",") if isinstance(value, str) else value))
        if words == ("",):
            return ()
        if not all(re.fullmatch(pattern, word, re.IGNORECASE) for word in words):
            raise ValueError
        return words

    return Kind(convert, f"{allowed}, separated by commas")


def _compilers(value: str) -> str:
    """Convert ggml-hsa's order of compilers to a value of `jit`, which supports only "iron"."""
    words = {word.strip().lower() for word in value.split(",")} - {""}
    if words - {"iron", "triton"}:
        raise ValueError
    return "off" if words and "iron" not in words else "wait"


KINDS: Final = {
    bool: Kind(_truth, "1, true, yes or on, or 0, false, no, off or nothing"),
    int: integer(0),
    str: Kind(os.fspath, "text"),
    tuple: Kind(_paths, f"paths separated by {os.pathsep!r}"),
}
"""Default kinds of settings, by the type of the default value."""

PATHS: Final = KINDS[tuple]
VISIBLE_DEVICES: Final = words_like(r"-?\d+|[A-Z]{3}-[0-9A-Z]+", "numbers or identifiers such as AIE-0123456789abcdef")
GGML_SWITCH: Final = GgmlSwitch()


class Setting(NamedTuple):
    """A setting. `readers` maps environment variables to kinds, in order of precedence."""

    readers: Mapping[str, Kind | GgmlSwitch]
    default: Any
    doc: str

    @property
    def variable(self) -> str:
        """Name of the package's own variable. The other ones belong to related programs."""
        return next(iter(self.readers))

    def given(self) -> str | None:
        """Return the first variable that the environment sets, or None."""
        return next((variable for variable in self.readers if variable in os.environ), None)

    def from_environment(self) -> tuple[Any, str]:
        """Return the value from the environment and its origin: a variable or "default"."""
        variable = self.given()
        if variable is None:
            return self.default, "default"
        return self.readers[variable].read(variable, os.environ[variable]), variable


def _setting(default: Any, doc: str, kind: Kind | None = None, variable: str = "", **aliases: Kind | GgmlSwitch) -> Any:
    """Create a field of Config.

    Args:
        default: Default value.
        doc: Meaning, for the documentation.
        kind: Allowed values; None for the kind of the default's type.
        variable: Environment variable; empty for NPU_TENSOR_ and the name.
        aliases: Further variables in order of precedence, with their kinds.
    """
    return field(metadata={"setting": (variable, kind or KINDS[type(default)], aliases, default, doc)})


@dataclass(init=False, repr=False, eq=False, slots=True)
class Config:
    """All settings.

    Reading a setting with an invalid value raises ArgumentError, which names the variable. The slot of a setting is
    filled on first use, and empty while a scope of any context changes the setting.
    """

    _values: dict[str, tuple[Any, str]]  # Process-wide values and origins of settings that were read or assigned.
    _scoped: ContextVar[tuple[tuple[object, Mapping[str, Any]], ...]]
    _scopes: dict[str, list[Any]]  # Values of the open scopes of all contexts.
    _followers: dict[str, list[Callable[[], object]]]
    _lock: RLock

    eager: bool = _setting(False, "run every op as it is recorded (for debugging)")
    device: str = _setting(
        "cpu", "initial default device, as given to `nt.set_default_device`: cpu, npu, npu://<id>, sim:npu1, sim:npu2x2"
    )
    fallback: Fallback = _setting(
        "allow",
        "response to a task that the device refuses: allow the CPU to run it, warn, or raise an error; with error, a "
        "kernel that fails on an NPU raises LaunchError instead of running on the CPU",
        one_of(Fallback),
        GGML_HSA_CPU_FALLBACK=GgmlSwitch("allow", "error"),
    )
    debug: int = _setting(
        0,
        "output on stderr; 1: plans, builds, contexts, 2: every kernel that runs, 3: device of each op of a new plan, "
        "with the reason, 4: generated code, 5: compiler messages",
        integer(0, 5),
        GGML_HSA_JIT_VERBOSE=GgmlSwitch(5, 0),
        GGML_HSA_ENABLE_LOG=GgmlSwitch(2, 0),
    )
    threads: int = _setting(
        0,
        "threads of the CPU device; 0 = OMP_NUM_THREADS, by default and at most all cores that affinity masks and CPU "
        "quotas of control groups (v1 and v2) leave to this process",
    )
    cpu_features: str = _setting(
        "", "lower the instruction set of the CPU device: avx2, sse2, -feature,-feature, or numpy for NumPy only"
    )
    pool_bytes: int = _setting(1 << 30, "free memory kept for reuse, in bytes")
    # Above 26 GB contents came back damaged without an error, and ggml-xdna stops here (Cyronius/ggml-xdna,
    # Nulifyer/llama-xdna-hybrid).
    npu_memory_bytes: int = _setting(
        20_000_000_000, "limit of all buffers of an NPU, in bytes; some NPUs were reported to damage them above 26 GB"
    )

    kernel_dirs: tuple[Path, ...] = _setting(
        (),
        f"kernel directories, separated by {os.pathsep!r}; they come before the cache and the compiler",
        variable="NPU_TENSOR_KERNEL_DIR",
        GGML_HSA_KERNEL_DIR=PATHS,
    )
    cache_path: str = _setting(
        "",
        "directory of compiled kernels; default: the user's cache",
        variable="NPU_TENSOR_CACHE_DIR",
        GGML_HSA_KERNEL_CACHE_DIR=KINDS[str],
    )
    trust_cache: bool = _setting(
        False, "1: use cache and kernel directories that other users own or can write to; their files run as this user"
    )
    cache_bytes: int = _setting(4 << 30, "size of the cache in bytes; the least recently used kernels beyond it go")
    cache_clear: bool = _setting(
        False,
        "empty the cache once per program, before its first use; files of others stay",
        GGML_HSA_KERNEL_CACHE_CLEAR=GGML_SWITCH,
    )
    jit: Building = _setting(
        "wait",
        "builds of missing kernels for an NPU, real or simulated: wait for them, let the CPU compute while they run in "
        "the background, or off: use only ready and cached kernels",
        one_of(Building, switch=True),
        GGML_HSA_JIT_COMPILE=GgmlSwitch("wait", "off"),
        GGML_HSA_JIT_COMPILER_ORDER=Kind(_compilers, "iron and triton, separated by a comma"),
    )
    build_seconds: int = _setting(600, "time limit of one compilation", integer(1))
    record: str = _setting(
        "", "file for a configuration of all kernels that the program needed, for `npu-tensor gen-kernels`"
    )
    arch: str = _setting(
        "", "array to compile for if a command names none: aie2, aie2p, or a name such as npu1 or Strix"
    )
    kernel_format: KernelFormat = _setting(
        "xclbin",
        "format of binaries for an NPU: xclbin, or elf (on aie2p, for kernels without runtime parameters; the others "
        "stay xclbins)",
        one_of(KernelFormat),
    )

    self_check: bool = _setting(
        True,
        "compare the first result of every kernel on an NPU with the CPU's, once per kernel, XRT, driver and firmware",
    )
    launch_milliseconds: int = _setting(
        500, "upper bound on the predicted time of a launch on an NPU; 0 = each kernel is a launch", integer(0)
    )
    backend: tuple[str, ...] = _setting(
        ("auto",),
        "kinds of devices that may be used besides the CPU; auto = all",
        words_like("auto|npu|sim|cpu", "auto, npu, sim or cpu"),
        GGML_HSA=GgmlSwitch(("auto",), ("sim", "cpu")),
    )
    visible_devices: tuple[str, ...] | None = _setting(
        None,
        "NPUs that this process sees, by number or identifier; nothing or -1 = none",
        VISIBLE_DEVICES,
        variable="NPU_VISIBLE_DEVICES",
        ROCR_VISIBLE_DEVICES=VISIBLE_DEVICES,
    )
    xrt_path: tuple[Path, ...] = _setting(
        (),
        "directories searched first for XRT's library, libhsa-runtime64, and pyxrt if this Python cannot import it",
        XILINX_XRT=PATHS,
    )
    policy: Policy = _setting(
        "auto",
        "measure that placement minimizes: latency, cpu_time or energy; always = the device takes every kernel that it "
        "can build; auto = latency, or always if all devices are simulated",
        one_of(Policy),
    )

    def __init__(self) -> None:
        attributes = {
            "_values": {},
            "_scoped": ContextVar("settings", default=()),
            "_scopes": {name: [] for name in SETTINGS},
            "_followers": {name: [] for name in SETTINGS},
            "_lock": new_lock(),
        }
        for name, value in attributes.items():
            object.__setattr__(self, name, value)

    if not TYPE_CHECKING:  # A type checker would accept every name as a setting.

        def __getattr__(self, name: str) -> Any:
            """Read a setting whose slot is empty."""
            for _, scoped in reversed(self._scoped.get()):
                if name in scoped:
                    return scoped[name]
            setting = _known(name)
            _warn_of_unknown_variables()
            with self._lock:
                if name not in self._values:  # Environment values are kept from first use.
                    self._values[name] = setting.from_environment()
                self._refill(name)
                return self._values[name][0]

    def __setattr__(self, name: str, value: Any) -> None:
        value = self._read(name, value)
        if self._in_scope(name):  # The scope also restores this value.
            scopes = self._scoped.get()
            own = max(number for number, (_, scoped) in enumerate(scopes) if name in scoped)
            scope, scoped = scopes[own]
            self._scoped.set((*scopes[:own], (scope, {**scoped, name: value}), *scopes[own + 1 :]))
        else:
            with self._lock:
                self._values[name] = value, f"config.{name}"
                self._refill(name)
        self._tell(name)

    def __repr__(self) -> str:
        """Show the settings that differ from their defaults, without caching environment values."""
        changed = []
        for name, setting in SETTINGS.items():
            try:
                value = self._peek(name)
            except ArgumentError:
                value = os.environ[setting.given() or ""]
            if value != setting.default:
                changed.append(f"{name}={value!r}")
        return f"config({', '.join(changed)})"

    def _read(self, name: str, value: Any) -> Any:
        setting = _known(name)
        return setting.readers[setting.variable].read(f"config.{name}", value)

    def _in_scope(self, name: str) -> bool:
        return any(name in scoped for _, scoped in self._scoped.get())

    def _peek(self, name: str) -> Any:
        """Return the value without caching it and without warnings."""
        if self._in_scope(name) or name in self._values:
            return getattr(self, name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return SETTINGS[name].from_environment()[0]

    def _refill(self, name: str) -> None:
        """Fill or empty the slot of a setting. The lock is held."""
        if name in self._values and not self._scopes[name]:
            object.__setattr__(self, name, self._values[name][0])
        else:
            with suppress(AttributeError):
                object.__delattr__(self, name)

    def _tell(self, *names: str) -> None:
        for name in names:
            for follower in self._followers[name]:
                follower()

    def follow(self, name: str, follower: Callable[[], object]) -> None:
        """Call `follower` now and after every assignment, scope or reset of the setting."""
        self._followers[name].append(follower)
        if SETTINGS[name].given():
            follower()

    def in_use(self, name: str) -> bool:
        """Return True if the setting differs from its default in any context."""
        values = list(self._scopes[name])
        with suppress(ArgumentError):  # The first use raises it again.
            values.append(self._peek(name))
        return any(value != SETTINGS[name].default for value in values)

    def read_followed(self) -> None:
        """Read the settings with followers. Raises ArgumentError for an invalid value."""
        for name, followers in self._followers.items():
            if followers:
                getattr(self, name)

    def reset(self, *names: str) -> None:
        """Forget the values of settings, by default of all. The next use reads the environment, also in a scope."""
        names = names or tuple(SETTINGS)
        self._scoped.set(
            tuple(
                (scope, {name: value for name, value in scoped.items() if name not in names})
                for scope, scoped in self._scoped.get()
            )
        )
        with self._lock:
            for name in names:
                self._values.pop(name, None)
                self._refill(name)
        self._tell(*names)

    def origin(self, name: str) -> str:
        """Return the origin of a value: "default", the variable, or "config.NAME" if the program has set it."""
        if self._in_scope(name):
            return f"config.{name}"
        return self._values[name][1] if name in self._values else SETTINGS[name].given() or "default"

    @contextmanager
    def scope(self, **settings: Any) -> Iterator[None]:
        """Change settings in a `with` block. Other threads and asyncio tasks keep theirs.

        Threads that this package starts for the block use its settings.
        """
        values = {name: self._read(name, value) for name, value in settings.items()}
        own = object()
        self._scoped.set((*self._scoped.get(), (own, values)))
        try:
            self._change_scopes(list.append, values)
            yield
        finally:
            # Generators may close their scopes in any order and in another context.
            self._scoped.set(tuple(each for each in self._scoped.get() if each[0] is not own))
            self._change_scopes(list.remove, values)

    def _change_scopes(self, change: Callable[[list[Any], Any], None], values: Mapping[str, Any]) -> None:
        with self._lock:
            for name, value in values.items():
                change(self._scopes[name], value)
                self._refill(name)
        self._tell(*values)

    @property
    def cache_dir(self) -> Path:
        """Directory of compiled kernels. Not created here.

        The setting, else $XDG_CACHE_HOME/npu_tensor, else $HOME/.cache/npu_tensor, else `user_temporary_path`.
        """
        if self.cache_path:
            return Path(os.path.expanduser(self.cache_path))  # keeps the name of an unknown user
        if os.environ.get("XDG_CACHE_HOME") or os.environ.get("HOME"):
            import_whole("platformdirs")
            from platformdirs import user_cache_path

            return user_cache_path("npu_tensor")
        return user_temporary_path()

    def ready_kernel_dirs(self) -> tuple[Path, ...]:
        """Return `kernel_dirs` after checking that all exist. With a wrong path, every kernel would be compiled.

        Raises ArgumentError, which names the variable and the path.
        """
        for path in self.kernel_dirs:
            if not path.is_dir():
                what = "is not a directory" if path.exists() else "does not exist"
                raise ArgumentError(f"{self.origin('kernel_dirs')} names {str(path)!r}, which {what}")
        return self.kernel_dirs


def user_temporary_path() -> Path:
    """Return this user's directory for temporary files. Does not create it."""
    try:
        import tempfile

        place = tempfile.gettempdir()
    except FileNotFoundError:  # No directory is writable. Writing a file there raises the error.
        place = "/tmp"
    return Path(place, f"npu_tensor-{os.getuid()}")


def _settings() -> Iterator[tuple[str, Setting]]:
    for each in fields(Config):
        if each.metadata:
            variable, kind, aliases, default, doc = each.metadata["setting"]
            readers = {variable or _PREFIX + each.name.upper(): kind, **aliases}
            yield each.name, Setting(MappingProxyType(readers), default, doc)


SETTINGS: Final[Mapping[str, Setting]] = MappingProxyType(dict(_settings()))


def _known(name: str) -> Setting:
    if name not in SETTINGS:
        raise AttributeError(f"there is no setting {name!r}; there are {', '.join(SETTINGS)}")
    return SETTINGS[name]


@cache
def _warn_of_unknown_variables() -> None:
    """Warn about misspelt variables, once per process. Variables of the tests are exempt."""
    known = {CACHE_CLEARED, *(variable for setting in SETTINGS.values() for variable in setting.readers)}
    for variable in sorted(os.environ.keys() - known):
        if variable.startswith(_PREFIX) and not variable.startswith(f"{_PREFIX}TEST_"):
            from difflib import get_close_matches

            names = [name.removeprefix(_PREFIX) for name in known if name.startswith(_PREFIX)]
            similar = get_close_matches(variable.removeprefix(_PREFIX), names, 1)
            meant = f"did you mean {_PREFIX}{similar[0]}?" if similar else "`npu-tensor config` lists the settings"
            warn(f"the environment sets {variable}, which is not a setting; {meant}")


config = Config()
