"""Installed mlir-aie and Peano: the only module of the package that imports `aie`.

    toolchain = find()                 # Toolchain, or why there is none; imports nothing of it
    require_interface()                # BuildError before mlir-aie 1.4.2
    compile_core(source, object, "aie2p", flags)
    compile_module(module, directory, xclbin_path=..., insts_path=..., pdi_path=...)
    compile_module(self_loading(program.module), directory, full_elf_path=...)

The last four import `aie` and belong in a separate process: it registers dialects for the lifetime of the process.
Based on the sources of mlir-aie 1.4.0 to 1.4.5.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from npu_tensor.errors import BuildError

INSTALL: Final = (
    "`source scripts/env_setup.sh` (of a wheel: share/npu_tensor/scripts/env_setup.sh in its environment) installs"
    " mlir-aie and Peano, or install the wheels mlir_aie and llvm-aie"
)

PACKERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "xclbinutil": "packs an xclbin, is not on PATH; install XRT (package libxrt-utils)",
        "aiebu-asm": "packs an ELF, is not on PATH; install XRT (package libxrt-utils-npu)",
    }
)
"""Programs of XRT that aiecc starts by name, and the hint for each if it is missing."""

ELF_KERNEL: Final = "main:sequence"
"""Name of the kernel of a full ELF in XRT: the names of the device and of its runtime sequence.

They are the defaults of `Program.resolve_program` and `Runtime.resolve`.
"""

_LOADS_ITSELF: Final = re.compile(
    r"aie\.device\(\w+\)(?: @main)? \{.*aie\.runtime_sequence(?: @sequence)?\(.*aiex\.npu\.load_pdi\b", re.DOTALL
)


class Toolchain(NamedTuple):
    """Installed toolchain.

    Attributes:
        mlir_aie: Version of mlir-aie.
        peano: Version of Peano.
        programs: Directory of aiecc and the programs that it starts by name.
    """

    mlir_aie: str
    peano: str
    programs: Path

    @property
    def name(self) -> str:
        """Both versions in one word that is a valid directory name, "mlir_aie1.4.1-llvm_aie21.0.0.2026070801"."""
        return re.sub(r"[^\w.+-]", "_", f"mlir_aie{self.mlir_aie}-llvm_aie{self.peano}")


# --- the installation, without importing it


def find() -> Toolchain | str:
    """Return the installed toolchain, or a sentence that tells what is missing and how to install it. Never raises."""
    return _find(tuple(sys.path), os.environ.get("PEANO_INSTALL_DIR"))


@lru_cache(maxsize=16)
def _find(search_path: tuple[str, ...], peano_variable: str | None) -> Toolchain | str:
    """Find the toolchain; the arguments are the environment that it depends on."""
    try:
        spec = find_spec("aie")
    except (ImportError, ValueError, AttributeError):  # a module that was created by hand
        spec = None
    places = list((spec and spec.submodule_search_locations) or ())
    package = next((Path(place) for place in places if (Path(place) / "iron").is_dir()), None)
    if package is None:
        name = "aie.iron" if spec else "aie"
        return f"no compiler: No module named '{name}' (mlir-aie). {INSTALL}"
    configured = _configured(package)
    root = package.resolve().parents[1]
    peano_setting = configured.get("peano_install_dir") if peano_variable is None else peano_variable
    candidates = _peano_places(root, peano_setting)
    peano = next((place for place in candidates if place.exists()), None)
    if peano is None:
        return f"no compiler: Peano (llvm-aie) is in none of {', '.join(map(str, candidates))}. {INSTALL}"
    compiler = peano / "bin" / "clang++"
    if not compiler.is_file():
        return f"no compiler: there is no Peano compiler at {compiler}, which mlir-aie would use. {INSTALL}"
    commit = configured.get("git_commit", "unknown")[:12]
    version = _distribution_version("mlir_aie") or _distribution_version("mlir_aie_no_rtti") or commit
    return Toolchain(version, _peano_version(peano, compiler), root / "bin")


def _peano_places(root: Path, setting: str | None) -> list[Path]:
    """Return the directories in which mlir-aie searches for Peano, in order."""
    platform_library = Path(sysconfig.get_path("platlib"))
    return [*([Path(setting)] if setting else []), root / "peano", root.parent / "peano", platform_library / "llvm-aie"]


_CONFIGURED: Final = re.compile(
    r"""^(git_commit|peano_install_dir) = (?:os\.getenv\("PEANO_INSTALL_DIR", )?r?"+([^"\n]+)"+""", re.MULTILINE
)


def _configured(package: Path) -> dict[str, str]:
    """Return the constants in an mlir-aie build: its commit, and a directory of Peano. Empty if unknown."""
    try:
        text = (package / "utils" / "configure.py").read_text("utf-8", "replace")
    except OSError:
        return {}
    return {key: value for key, value in _CONFIGURED.findall(text) if not value.startswith("@")}


def _distribution_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except (metadata.PackageNotFoundError, OSError, ValueError):
        return None


def _peano_version(peano: Path, compiler: Path) -> str:
    """Return the version of the wheel if the directory is the wheel's, else the one that the compiler prints."""
    version = _distribution_version("llvm-aie")
    if version and peano.resolve() == Path(str(metadata.distribution("llvm-aie").locate_file("llvm-aie"))).resolve():
        return version
    try:
        output = subprocess.run([compiler, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.SubprocessError):
        output = ""
    number = re.search(r"clang version (\S+)", output)
    commit = re.search(r"\b([0-9a-f]{12})[0-9a-f]{28}\b", output)
    return "+".join(match[1] for match in (number, commit) if match) or "unknown"


# --- functions that import it


def require_interface() -> None:
    """Raise BuildError for an mlir-aie before 1.4.2, in which a second launch with an odd number of resets goes wrong.

    Checks the interface too: nightly packages have the number of the previous release, or a date.
    """
    from aie import iron

    if not hasattr(iron, "TaskGroup") or _distribution_version("mlir_aie") in ("1.4.0", "1.4.1"):
        raise BuildError(f"the installed mlir-aie is older than 1.4.2; install 1.4.5: {INSTALL}")


def compile_core(source: Path, object_file: Path, arch: str, flags: Sequence[str]) -> None:
    """Compile the C++ of a core with Peano. mlir-aie adds the language standard, -O2 and the headers of aie_api.

    Peano itself defines __AIE_ARCH__. Raises BuildError with Peano's output.
    """
    from aie.utils.compile import compile_cxx_core_function

    try:
        compile_cxx_core_function(
            source_path=str(source),
            target_arch=arch,
            output_path=str(object_file),
            compile_args=list(flags),
            cwd=str(source.parent),
        )
    except RuntimeError as error:
        raise BuildError(f"the source {source.name} does not compile for {arch}:\n{_message(error)}") from None
    _check_outputs([object_file], "Peano")


def self_loading(resolve: Callable[[], Any]) -> Any:
    """Resolve a program to a module whose runtime sequence loads the configuration of the array first.

    An xclbin brings that configuration, a full ELF does not. Raises BuildError if the sequence does not load it.
    """
    from aie.iron import compile_context

    # IRON does the same for full_elf=True. A release without this option would make an ELF that computes nothing.
    with compile_context(_iron_full_elf=True):
        module = resolve()
    if _LOADS_ITSELF.search(str(module)) is None:
        raise BuildError(
            f"this mlir-aie makes no full ELF with a kernel {ELF_KERNEL} that loads its own configuration;"
            " set NPU_TENSOR_KERNEL_FORMAT=xclbin"
        )
    return module


def compile_module(module: object, directory: Path, options: Sequence[str] = (), **outputs: Path) -> None:
    """Compile a resolved module. `directory`, the current directory, has the objects that its cores link.

    `outputs` are files by mlir-aie's names: xclbin_path, insts_path, pdi_path; or full_elf_path alone. Raises
    BuildError if aiecc fails, or reports no error although an output is missing.
    """
    from aie.utils.compile import compile_mlir_module

    try:
        compile_mlir_module(
            mlir_module=str(module),
            work_dir=str(directory),
            verbose=True,
            options=list(options),
            **{name: str(path) for name, path in outputs.items()},
        )
    except RuntimeError as error:
        message = _message(error)
        hint = next((without(packer) for packer in PACKERS if f"'{packer}'" in message), "")
        raise BuildError(f"mlir-aie does not compile the module:\n{message}{hint}") from None
    # aiecc omits the xclbin, with exit code 0, if it does not find the program that packs it.
    xclbin = outputs.get("xclbin_path")
    packed = xclbin is None or xclbin.exists() or xclbinutil()
    _check_outputs([*outputs.values()], "mlir-aie", "" if packed else without("xclbinutil"))


def xclbinutil() -> str | None:
    """Return the program that packs xclbins, from AIE_XCLBINUTIL or PATH, or None."""
    return shutil.which(os.environ.get("AIE_XCLBINUTIL") or "xclbinutil")


def without(packer: str) -> str:
    """Return the end of an error message about a missing packer, one of `PACKERS`."""
    return f": {packer}, which {PACKERS[packer]}, or `source /opt/xilinx/xrt/setup.sh`"


def _message(error: BaseException) -> str:
    """Return the message of an error and of its causes."""
    causes = f"\n{_message(error.__cause__)}" if error.__cause__ else ""
    return f"{str(error) or type(error).__name__}{causes}"


def _check_outputs(paths: Sequence[Path], maker: str, hint: str = "") -> None:
    missing = [path.name for path in paths if not path.is_file() or path.stat().st_size == 0]
    if missing:
        raise BuildError(f"{maker} reported no error, but {', '.join(missing)} is missing or empty{hint}")
