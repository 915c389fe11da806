"""Checks of XRT, its Python module, the HSA runtime, the compilers, the kernel cache and the simulated NPU."""

from __future__ import annotations

import platform
import re
from pathlib import Path
from typing import Any, Final

import npu_tensor as nt
from npu_tensor._util.units import size
from npu_tensor.cli.doctor.finding import Finding, System, against_tested, note, ok, problem
from npu_tensor.cli.doctor.hardware import LOOK_INTO_LOG, on_pci_bus
from npu_tensor.config import config
from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.errors import DeviceError
from npu_tensor.runtime.build.mlir_aie import INSTALL
from npu_tensor.runtime.devices.backends import not_allowed
from npu_tensor.runtime.devices.shared_libraries import LoadedLibrary
from npu_tensor.runtime.sim import host_compiler
from npu_tensor.runtime.store.directories import writable
from npu_tensor.runtime.xrt.bindings import USUAL_PLACES, installed_builds, python_of, version_of

PLUGIN: Final = "libxrt_driver_xdna.so.2"
"""XRT's plugin for NPUs. XRT searches it beside its own libraries (driver_plugin_paths in module_loader.cpp)."""

_INSTALL_XRT: Final = (
    "sudo apt install libxrt2 libxrt-npu2 python3-xrt, where the distribution has them; else build and install"
    " https://github.com/amd/xdna-driver"
)

_ERRORS: Final = {
    "err=-11": "too little memory may be locked, see there",
    "err=-13": "this user may not open it, see permissions",
    "err=-19": "the driver refuses it: the IOMMU must be on, in the BIOS and on the kernel's command line",
}
"""Causes of XRT's error numbers, which come from mmap, open and the driver's open (amdxdna_sva_init)."""


_HAS_NOTHING: Final = re.compile(
    r" *(PATH|usual place|the system's loader): .*: (has none|does not exist|not found|no such|.*No such file)"
)


def _summary(error: DeviceError) -> str:
    """Return an error with its attempts in one line, without the usual places where nothing was found."""
    what, *attempts = str(error).splitlines()
    telling = [line.strip() for line in attempts if not _HAS_NOTHING.match(line)]
    silent = len(attempts) - len(telling)
    places = [f"{'nor' if telling else 'looked for'} in {silent} usual places"] if silent else []
    return "; ".join([what.removesuffix(". Tried"), *telling, *places])


def _described(found: LoadedLibrary, *parts: str) -> str:
    build = found.build_id()
    return ", ".join(filter(None, (*parts, str(found.path), f"by {found.named_by}", build and f"build {build}")))


def xrt(system: System) -> Finding:
    """Check the library of XRT: the one that pyxrt has loaded, else the one that the search finds."""
    try:
        library = _loaded_by_pyxrt(system) or system.xrt.find()
    except DeviceError as error:
        return problem(_summary(error), "XRT runs the kernels", _INSTALL_XRT)
    result = against_tested("XRT", version_of(library), "another may lack functions or have other limits", "")
    return result._replace(found=_described(library, result.found))


def _loaded_by_pyxrt(system: System) -> LoadedLibrary | None:
    try:
        system.pyxrt(system.xrt)
    except DeviceError:
        return None
    return system.xrt.by_name()


def pyxrt(system: System) -> Finding:
    """Check that XRT's Python module exists for this Python, and list builds for other versions."""
    this = platform.python_version()
    try:
        module: Any = system.pyxrt(system.xrt)
    except DeviceError as error:
        directories = [path for place in USUAL_PLACES for path in sorted(system.root.glob(place))]
        builds = {python_of(build): build for build in installed_builds(directories)}
        others = [f"Python {version} has one, {build}" for version, build in builds.items()]
        other = next((version for version in builds if not this.startswith(f"{version}.")), None)
        use_other = f"python{other} -m venv --system-site-packages ENV, and install npu_tensor there"
        return problem(
            "; ".join([f"Python {this} cannot import pyxrt", *others, _summary(error)]),
            "npu_tensor uses XRT through this module, which is built for one version of Python",
            use_other if other else _INSTALL_XRT,
        )
    return ok(f"{getattr(module, '__file__', None) or 'pyxrt'}, imported by Python {this}")


def npus(system: System) -> Finding:
    """Check the NPUs that XRT lists and that this process may use."""
    try:
        discovery = system.discover(system.root)
    except DeviceError as error:
        found_out = f"XRT cannot be asked: {_summary(error)}"
        return problem(found_out, "it opens the NPU", "the problems with XRT and pyxrt above")
    left_out = "; ".join(map(str, discovery.left_out))
    if discovery.devices and (reason := not_allowed("npu")):
        return problem(reason, "it hides every NPU from this process", f"unset {config.origin('backend')}")
    if discovery.devices:
        listed = [f"npu:{npu.ordinal} = npu://{npu.id}: {npu.name}, {npu.arch}" for npu in discovery.devices]
        return ok("; ".join([*listed, *([left_out] if left_out else [])]))
    if discovery.present:
        return problem(left_out, "all NPUs are hidden from this process", f"unset {config.origin('visible_devices')}")
    why = next((reason for number, reason in _ERRORS.items() if number in left_out), "")
    if left_out:
        return problem(left_out, why or "XRT lists it and cannot open it", "xrt-smi examine")
    return _nothing_listed(system)


def _nothing_listed(system: System) -> Finding:
    try:
        directory = (_loaded_by_pyxrt(system) or system.xrt.find()).path.resolve().parent
    except DeviceError:
        directory = None
    if directory is not None and not (directory / PLUGIN).exists():
        return problem(
            f"XRT lists no device; its part for NPUs, {PLUGIN}, is not in {directory}",
            "without it XRT knows other hardware only",
            "sudo apt install libxrt-npu2, or install the package xrt_plugin-amdxdna",
        )
    return problem("XRT lists no device", "kernels run on what it lists", f"xrt-smi examine, and {LOOK_INTO_LOG}")


def hsa(system: System) -> Finding:
    """Report the HSA runtime, through which other programs use NPUs. npu_tensor does not use it."""
    default = system.hsa.by_name()
    try:
        library = system.hsa.find()
    except DeviceError:
        return ok("no HSA runtime, and none is needed: XRT runs the kernels")
    rocm = system.read("opt/rocm/.info/version").partition("-")[0]  # without the build number
    tested = rocm and f"ROCm {against_tested('ROCm', rocm, '', '').found}"
    described = _described(library, tested) + "; optional, XRT runs the kernels"
    if default is None or default.path.resolve() == library.path.resolve():
        return ok(described)
    return note(
        f"{described}; but {default.path} comes first for programs that load it by name",
        "those, such as ggml-hsa, need the runtime that knows NPUs",
        f"export LD_LIBRARY_PATH={library.path.parent}:$LD_LIBRARY_PATH",
    )


def mlir_aie(system: System) -> Finding:
    """Check that kernels can be built for the NPUs, and the version of mlir-aie."""
    toolchain = system.toolchain()
    reasons = [system.no_kernels(arch) for arch in sorted({npu.arch for npu in on_pci_bus(system)})]
    if reasons and all(reasons):
        fix = "source scripts/env_setup.sh" if isinstance(toolchain, str) else "export NPU_TENSOR_JIT=wait"
        return problem(str(reasons[0]), "an NPU runs nothing else", fix)
    if isinstance(toolchain, str):
        # The fix contains the install command.
        missing = toolchain.removesuffix(f". {INSTALL}")
        return note(missing, "only kernels that are ready can run on an NPU", INSTALL)
    return against_tested(
        "mlir-aie",
        toolchain.mlir_aie,
        "kernels are written for the Python interface of those versions",
        "source scripts/env_setup.sh --dir ANOTHER_DIRECTORY",
    )


def xclbinutil(system: System) -> Finding:
    """Check XRT's tool that packs kernels of several configurations for one context of the first generation."""
    program = system.xclbinutil()
    if program is not None:
        return ok(program)
    if all(ARRAYS[npu.arch].full_elfs for npu in on_pci_bus(system)):
        return ok("not on PATH, and not needed: NPUs of the first generation use it")
    return note(
        "xclbinutil is not on PATH",
        "without it kernels of several configurations are launched one by one, each in a context of its own",
        "sudo apt install libxrt-utils, or source /opt/xilinx/xrt/setup.sh",
    )


def peano(system: System) -> Finding:
    """Check Peano, the compiler for the cores of NPUs."""
    toolchain = system.toolchain()
    if isinstance(toolchain, str):
        return note("Peano is looked for where mlir-aie is")
    return against_tested(
        "Peano",
        toolchain.peano,
        "nightly builds differ, and some compiled wrong code",
        "source scripts/env_setup.sh --dir ANOTHER_DIRECTORY",
    )


def cache_directory(_system: System) -> Finding:
    """Check that compiled kernels can be cached, and the size of the cache."""
    directory = config.cache_dir
    try:
        writable(directory)
    except OSError as error:
        return note(
            f"nothing can be written to {directory}: {error}",
            "every process compiles its kernels again",
            "export NPU_TENSOR_CACHE_DIR=DIRECTORY, one of yours",
        )
    return ok(f"{directory} holds {size(sum(_sizes(directory)))} of at most {size(config.cache_bytes)}")


def _sizes(directory: Path) -> list[int]:
    sizes = []
    for path in directory.rglob("*"):
        try:
            sizes.append(path.stat().st_size if path.is_file() else 0)
        except OSError:  # Another process has removed the file.
            continue
    return sizes


def host_cxx(system: System) -> Finding:
    """Check that kernels can be compiled for this machine."""
    reason = system.compiler()
    if reason is None:
        return ok(host_compiler.toolchain().removeprefix("host-"))
    fix = "unset CXX, or set it to a C++ compiler" if "CXX=" in reason else "sudo apt install g++"
    return note(reason, "kernels are compiled by it for the simulated NPU", fix)


def simulated_npu(system: System) -> Finding:
    """Check that a small kernel gives the right result on the simulated NPU."""
    if system.compiler() is not None:
        return note("not tried without a C++ compiler")
    if reason := not_allowed("sim"):
        return note(reason)
    ones = nt.tensor([1] * 64, dtype=nt.int32)
    try:
        with config.scope(fallback="error", cache_clear=False), nt.default_device("sim:npu2"):
            result = (ones + ones).tolist()
    except nt.NpuTensorError as error:
        return note(str(error), "nothing can be tried without an NPU", "report it, with npu-tensor doctor --json")
    if result != [2] * 64:
        return note(f"1 + 1 = {result}", "results of the simulated NPU cannot be trusted", "report it")
    return ok("a kernel ran on sim:npu2")
