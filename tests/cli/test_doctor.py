"""Findings of the doctor on machines with one missing part each, and on a complete machine."""

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner, Result
from fake_system import BDF, FAKE_HSA, FAKE_XRT, KERNEL, PCI, Machine, library, source_of
from running import python

from npu_tensor.cli import doctor as diagnosis
from npu_tensor.cli.doctor import CHECKS, Finding, diagnose, software, usable, verdict
from npu_tensor.config import config
from npu_tensor.runtime.build.mlir_aie import Toolchain
from npu_tensor.runtime.devices.discovery import LeftOut
from npu_tensor.runtime.devices.shared_libraries import HSA, XRT


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with what stands for XRT 2.25.0 and for an HSA runtime."""
    directory = tmp_path_factory.mktemp("libraries")
    version = {"xrtVersionMajor": 2, "xrtVersionMinor": 25, "xrtVersionPatch": 0}
    library(directory / FAKE_XRT.names[0], source_of(XRT, **version), "-Wl,--build-id=0x0123456789abcdef")
    library(directory / FAKE_HSA.names[0], source_of(HSA))
    (directory / "libxrt_driver_xdna.so.2").touch()
    return directory


@pytest.fixture
def machine(tmp_path: Path, libraries: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    for variable in ("NPU_TENSOR_XRT_PATH", "XILINX_XRT", "ROCM_PATH"):
        monkeypatch.delenv(variable, raising=False)
    config.reset()
    with config.scope(cache_path=str(tmp_path / "cache")):
        yield Machine(tmp_path / "root", libraries)
    monkeypatch.undo()
    config.reset()


def findings(machine: Machine) -> dict[str, Finding]:
    return {finding.check: finding for finding in diagnose(machine.root, machine.system())}


def remove(*paths: str) -> Callable[[Machine], None]:
    def change(machine: Machine) -> None:
        for path in paths:
            target = machine.root / path
            shutil.rmtree(target) if target.is_dir() else target.unlink()

    return change


def having(**attributes: object) -> Callable[[Machine], None]:
    def change(machine: Machine) -> None:
        for name, value in attributes.items():
            setattr(machine, name, value)

    return change


def write(file: str, text: str) -> Callable[[Machine], None]:
    return lambda machine: machine.write(file, text)


def joined(*changes: Callable[[Machine], None]) -> Callable[[Machine], None]:
    def change(machine: Machine) -> None:
        for each in changes:
            each(machine)

    return change


def log(*messages: str) -> Callable[[Machine], None]:
    """Let the driver write messages into the kernel's log."""
    text = "".join(f"[   12.3] amdxdna {BDF}: [drm] *ERROR* {message}\n" for message in messages)
    return having(tools={"dmesg": text})


def test_nothing_is_wrong_with_a_machine_where_all_is_well(machine: Machine, libraries: Path) -> None:
    machine.compiler = None
    result = findings(machine)
    assert {check: finding.status for check, finding in result.items()} == dict.fromkeys(CHECKS, "ok")
    assert all((finding.why, finding.fix) == ("", "") for finding in result.values())
    assert usable(result.values())
    assert verdict(result.values()) == "An NPU can be used: npu:0 = npu://AIE-0123456789abcdef: NPU Strix, aie2p."
    said = {
        "operating system": ["Ubuntu 25.04"],
        "processor": ["aie2p", BDF, "1022:17f0", "revision 10"],
        "firmware": ["1.1.2.65", "amdnpu/17f0_10/npu.sbin.zst"],
        "IOMMU": ["on, without page faults"],
        "driver": ["2.25.0_20260915", KERNEL],
        "power": ["not on battery", "power profile performance", "power mode default"],
        "device files": ["/dev/accel/accel0"],
        "XRT": ["2.25.0 (", str(libraries / FAKE_XRT.names[0]), "search path", "build 0123456789abcdef"],
        "pyxrt": ["/usr/lib/python3/dist-packages/pyxrt.so"],
        "mlir-aie": ["1.4.5", "none was run on an NPU"],
        "Peano": ["21.0.0.2026080301"],
        "HSA runtime": [str(libraries / FAKE_HSA.names[0]), "optional"],
        "cache directory": [str(config.cache_dir)],
        "simulated NPU": ["sim:npu2"],
    }
    for check, words in said.items():
        for word in words:
            assert word in result[check].found


def test_only_the_first_generation_needs_xclbinutil(machine: Machine) -> None:
    system = replace(machine.system(), root=machine.root, xclbinutil=lambda: None)
    assert software.xclbinutil(system).status == "ok"
    (machine.root / PCI / "device").write_text("0x1502\n")
    result = software.xclbinutil(system)
    assert (result.status, result.found) == ("note", "xclbinutil is not on PATH")
    assert "libxrt-utils" in result.fix
    assert software.xclbinutil(replace(system, xclbinutil=lambda: "/usr/bin/xclbinutil")).status == "ok"


class Fault(NamedTuple):
    """Fault of a machine. `check` must report it, with `found` and `fix` in its message."""

    name: str
    change: Callable[[Machine], None]
    check: str
    found: str
    fix: str


# See Xilinx/XRT#9132.
NO_MEMORY = "mmap(addr=0x793258000000, len=67108864, prot=3, flags=8209, offset=4362100736) failed (err=-11)"

PROBLEMS = [
    Fault("no NPU", remove(f"sys/bus/pci/devices/{BDF}"), "processor", "no NPU on the PCI bus", "enable the NPU"),
    Fault(
        "no firmware",
        remove("usr/lib/firmware", f"{PCI}/fw_version"),
        "firmware",
        "no amdnpu/17f0_10/npu.sbin",
        "linux-firmware",
    ),
    Fault(
        "firmware too new",
        joined(
            remove(f"{PCI}/accel", f"{PCI}/fw_version"),
            log("aie2_check_protocol: Incompatible firmware protocol major 7 minor 3"),
        ),
        "firmware",
        "Incompatible firmware protocol major 7 minor 3",
        "driver and firmware from one source",
    ),
    Fault(
        "firmware too old",
        joined(
            remove(f"{PCI}/accel", f"{PCI}/fw_version"),
            log("aie2_check_protocol_version: Firmware minor version smaller than supported"),
        ),
        "firmware",
        "minor version smaller",
        "driver and firmware from one source",
    ),
    Fault("no module", remove("sys/module/amdxdna"), "driver", "not loaded", "sudo modprobe amdxdna"),
    Fault(
        "old Linux",
        remove("sys/module/amdxdna", f"lib/modules/{KERNEL}"),
        "driver",
        f"not loaded into Linux {KERNEL}",
        "amdxdna-dkms",
    ),
    Fault("driver fails", remove(f"{PCI}/accel"), "device files", "no file in /dev/accel", "sudo dmesg | grep amdxdna"),
    Fault("container", remove("dev/accel/accel0"), "device files", "no /dev/accel/accel0", "--device /dev/accel"),
    Fault(
        "not in the group",
        having(usable=False, memberships={"robin"}),
        "permissions",
        "/dev/accel/accel0, which belongs to the group render",
        "log out and in again",
    ),
    Fault("mode of the file", having(usable=False), "permissions", "this user cannot", 'GROUP="render", MODE="0660"'),
    Fault("file of root", having(usable=False, group="root"), "permissions", "group root", "/etc/udev/rules.d/"),
    Fault(
        "8 MiB to lock",
        having(memlock=(8 << 20, 8 << 20)),
        "locked memory",
        "at most 8 MiB",
        "/etc/security/limits.d/99-amdxdna.conf",
    ),
    Fault(
        "8 MiB in a user service",
        joined(
            having(memlock=(8 << 20, 8 << 20)),
            write("proc/self/cgroup", "0::/user.slice/user-1000.slice/user@1000.service/app.slice/konsole.scope\n"),
        ),
        "locked memory",
        "at most 8 MiB",
        "/etc/systemd/system/user@.service.d/memlock.conf",
    ),
    Fault("8 MiB, may raise", having(memlock=(8 << 20, -1)), "locked memory", "at most 8 MiB", "ulimit -l unlimited"),
    Fault("XRT lists nothing", having(npus=[]), "NPUs", "XRT lists no device", "xrt-smi examine"),
    Fault(
        "XRT cannot open it",
        having(npus=[], left_out=[LeftOut(0, "", "", NO_MEMORY)]),
        "NPUs",
        "failed (err=-11)",
        "xrt-smi examine",
    ),
    Fault(
        "hidden",
        having(npus=[], left_out=[LeftOut(0, BDF, "NPU Strix", "hidden by NPU_VISIBLE_DEVICES=")]),
        "NPUs",
        "hidden by NPU_VISIBLE_DEVICES=",
        "unset",
    ),
    Fault(
        "no mlir-aie",
        having(toolchain="no compiler", no_kernels="no kernels for `{arch}`: install mlir-aie"),
        "mlir-aie",
        "no kernels for `aie2p`: install mlir-aie",
        "env_setup.sh",
    ),
    Fault(
        "no builds",
        having(no_kernels="set NPU_TENSOR_JIT=wait"),
        "mlir-aie",
        "set NPU_TENSOR_JIT=wait",
        "export NPU_TENSOR_JIT=wait",
    ),
    Fault(
        "old mlir-aie",
        having(toolchain=Toolchain("1.1.3", "21.0.0.2026080301", Path())),
        "mlir-aie",
        "1.1.3",
        "env_setup.sh",
    ),
    Fault(
        "mlir-aie of ggml-hsa",
        having(toolchain=Toolchain("083064591d16", "21.0.0.2026080301", Path())),
        "mlir-aie",
        "083064591d16",
        "env_setup.sh",
    ),
    Fault(
        "wrong code",
        having(toolchain=Toolchain("1.4.5", "21.0.0.2026062401+abc", Path())),
        "Peano",
        "2026062401",
        "env_setup.sh",
    ),
]


@pytest.mark.parametrize("fault", PROBLEMS, ids=[fault.name for fault in PROBLEMS])
def test_every_fault_is_found_and_its_remedy_named(machine: Machine, fault: Fault) -> None:
    before = findings(machine)
    fault.change(machine)
    after = findings(machine)
    told = after[fault.check]
    assert told.status == "problem"
    assert fault.found in told.found
    assert told.why
    assert fault.fix in told.fix
    assert not usable(after.values())
    # Independent checks have the same findings as before.
    others = {"operating system", "HSA runtime", "cache directory", "XRT", "pyxrt"} - {fault.check}
    assert {check: before[check] for check in others} == {check: after[check] for check in others}
    # It is the first that is in the way.
    first = f"No NPU can be used; fix {fault.check} first ({told.fix}); everything works on the CPU "
    assert first in verdict(after.values())


def test_membership_of_a_group_that_has_not_taken_effect(machine: Machine) -> None:
    machine.usable, machine.memberships = False, {"robin"}
    assert findings(machine)["permissions"].fix == "log out and in again: this user has become a member of render since"
    machine.write("etc/group", "render:x:992:sam,robinson\n")
    assert findings(machine)["permissions"].fix == "sudo usermod -aG render $USER, then log out and in again"


def test_the_limit_on_locked_memory_does_not_bind_who_may_lock(machine: Machine) -> None:
    machine.memlock = (8 << 20, 8 << 20)
    machine.write("proc/self/status", "CapEff:\t0000000000004000\n")  # CAP_IPC_LOCK alone
    assert findings(machine)["locked memory"].status == "ok"
    machine.write("proc/self/status", "CapEff:\t000001ffffffbfff\n")  # all but CAP_IPC_LOCK
    assert findings(machine)["locked memory"].status == "problem"


def test_pyxrt_for_another_python(machine: Machine) -> None:
    build = "usr/lib/python3/dist-packages/pyxrt.cpython-39-x86_64-linux-gnu.so"
    machine.write(build, "")
    machine.pyxrt = "XRT's Python module pyxrt was not found. Tried\n  import pyxrt: not found"
    result = findings(machine)
    assert result["pyxrt"].status == "problem"
    assert f"Python 3.9 has one, {machine.root / build}" in result["pyxrt"].found
    assert "import pyxrt: not found" in result["pyxrt"].found
    assert result["pyxrt"].fix == "python3.9 -m venv --system-site-packages ENV, and install npu_tensor there"
    assert result["NPUs"].status == "problem"
    assert "first (python3.9 -m venv" in verdict(result.values())


def test_no_xrt(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{tmp_path / 'nowhere'}")
    machine.xrt = machine.xrt._replace(search_paths=(tmp_path / "xrt",))
    machine.pyxrt = "XRT's Python module pyxrt was not found. Tried\n  usual place: /opt/xilinx: no such directory"
    xrt = findings(machine)["XRT"]
    assert xrt.status == "problem"
    assert f"search path: {tmp_path / 'xrt'}: does not exist" in xrt.found
    assert xrt.found.endswith("nor in 3 usual places")  # two of PATH, and the search path of the system's loader
    assert "libxrt-npu2" in xrt.fix


@pytest.mark.parametrize(("number", "cause"), [("-11", "locked"), ("-13", "permissions"), ("-19", "IOMMU")])
def test_error_numbers_of_xrt_are_explained(machine: Machine, number: str, cause: str) -> None:
    machine.npus, machine.left_out = [], [LeftOut(0, "", "", f"Open /dev/accel/accel0 failed (err={number}): ...")]
    assert cause in findings(machine)["NPUs"].why


@pytest.mark.parametrize(
    ("version", "status"),
    [
        ("1.4.1", "problem"),
        ("1.4", "problem"),
        ("1.3.4", "problem"),
        ("1.4.5", "ok"),
        ("1.4.6", "note"),
        ("1.10.0", "note"),
        ("1.4.2.dev7+g0123456", "note"),
        ("0.0.1.2026020304+abcdef0", "note"),  # A nightly build: older by its number, newer by its date.
        ("0.9", "problem"),
        ("0.0.1.2025092900+0830645", "problem"),
        ("unknown", "note"),
    ],
)
def test_versions_of_mlir_aie(machine: Machine, version: str, status: str) -> None:
    machine.toolchain = Toolchain(version, "21.0.0.2026080301", Path())
    result = findings(machine)
    assert (result["mlir-aie"].status, usable(result.values())) == (status, status != "problem")
    assert version in result["mlir-aie"].found


NOTES = [
    Fault("other system", write("etc/os-release", "NAME=Gentoo\n"), "operating system", "Gentoo", ""),
    Fault("no os-release", remove("etc/os-release"), "operating system", "unknown version", ""),
    Fault("Peano", having(toolchain=Toolchain("1.4.5", "22.0.0.2026091501", Path())), "Peano", "22.0.0.2026091501", ""),
    Fault("no IOMMU", remove(f"{PCI}/iommu_group"), "IOMMU", f"no IOMMU for {BDF}", "remove amd_iommu=off"),
    Fault(
        "page faults",
        having(tools={"dmesg": f"amdxdna {BDF}: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0008]\n" * 3}),
        "IOMMU",
        f"3 page faults of {BDF}",
        "another version of Linux",
    ),
    Fault("battery", write("sys/class/power_supply/BAT0/status", "Discharging"), "power", "on battery", "AC power"),
    Fault("low power", write("sys/firmware/acpi/platform_profile", "low-power"), "power", "low-power", "performance"),
    Fault(
        "balanced",
        having(tools={"dmesg": "-", "xrt-smi": "  Power Mode             : Balanced \n"}),
        "power",
        "power mode balanced",
        "--pmode default",
    ),
    Fault(
        "in-tree driver",
        remove("sys/module/amdxdna/taint", "sys/module/amdxdna/version"),
        "driver",
        f"the driver of Linux {KERNEL} itself",
        "xrt_plugin-amdxdna",
    ),
    Fault(
        "legacy driver",
        write("sys/module/amdxdna/version", "2.21.0_20251112,e56379dd"),
        "driver",
        "2.21.0_20251112",
        "a newer build",
    ),
    Fault("no compiler", having(compiler="no c++"), "C++ compiler", "no c++", "sudo apt install g++"),
]


@pytest.mark.parametrize("fault", NOTES, ids=[fault.name for fault in NOTES])
def test_what_is_unknown_or_optional_is_a_note(machine: Machine, fault: Fault) -> None:
    fault.change(machine)
    result = findings(machine)
    assert result[fault.check].status == "note"
    assert fault.found in result[fault.check].found
    assert fault.fix in result[fault.check].fix
    assert result[fault.check].why
    assert usable(result.values())


def test_a_kernel_log_that_cannot_be_read(machine: Machine) -> None:
    machine.tools = {}
    finding = findings(machine)["IOMMU"]
    assert (finding.status, "cannot read the kernel log" in finding.found) == ("note", True)
    assert finding.fix.startswith("sudo dmesg")


def test_idle_npus(machine: Machine) -> None:
    machine.write(f"{PCI}/power/control", "auto\n")
    machine.write(f"{PCI}/power/autosuspend_delay_ms", "5000\n")
    result = findings(machine)["idle NPUs"]
    assert (result.status, "after 5 s without work" in result.found) == ("note", True)
    assert f"echo on | sudo tee /{PCI}/power/control" in result.fix


def test_settings_that_allow_no_npu(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.compiler = None
    monkeypatch.setenv("GGML_HSA", "0")
    result = findings(machine)
    assert result["NPUs"].status == "problem"
    assert result["NPUs"].found == "GGML_HSA allows no devices of the kind npu"
    assert result["NPUs"].fix == "unset GGML_HSA"
    assert result["simulated NPU"].status == "ok"
    monkeypatch.setenv("NPU_TENSOR_BACKEND", "cpu")
    config.reset()
    result = findings(machine)
    assert result["NPUs"].fix == "unset NPU_TENSOR_BACKEND"
    assert (result["simulated NPU"].status, result["simulated NPU"].fix) == ("note", "")


def test_a_check_that_fails_does_not_end_the_others(machine: Machine) -> None:
    def broken(_root: Path) -> None:
        raise ValueError("XRT fell over")

    result = diagnose(machine.root, replace(machine.system(), discover=broken))  # type: ignore[arg-type]
    assert [finding.check for finding in result] == list(CHECKS)
    told = next(finding for finding in result if finding.check == "NPUs")
    assert (told.status, "ValueError: XRT fell over" in told.found) == ("problem", True)
    assert not usable(result)


# --- the command: a line for every check, JSON of a fixed shape, and an exit code that scripts can use


@pytest.fixture
def asked(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """The command finds this machine."""

    monkeypatch.setattr(diagnosis, "diagnose", lambda root: diagnose(machine.root, machine.system()))
    return machine


def run(*arguments: str) -> Result:
    return CliRunner().invoke(diagnosis.doctor, arguments)


def checks_of(result: Result) -> list[str]:
    """The lines that are not about the check above them."""
    return [line for line in result.output.splitlines() if not line.startswith(" ")]


def test_what_is_wrong_says_why_and_what_fixes_it(asked: Machine) -> None:
    (asked.root / "dev/accel/accel0").unlink()
    result = run()
    assert result.exit_code == 1
    *lines, last = checks_of(result)
    assert len(lines) == len(CHECKS)
    (wrong,) = (line for line in lines if line.startswith("PROBLEM"))
    below = result.output[result.output.index(wrong) + len(wrong) :]
    assert re.fullmatch(r"PROBLEM device files\s+there is no /dev/accel/accel0, .+", wrong)
    assert re.match(r"(\n {26}.+)*\n        why: .+(\n {14}.+)*\n        fix: .+--device /dev/accel", below)
    assert last.startswith("No NPU can be used; fix device files first")


def test_problems_that_may_follow_from_another_one_stand_below_it(asked: Machine) -> None:
    remove(f"sys/bus/pci/devices/{BDF}", "sys/module/amdxdna")(asked)
    asked.pyxrt = "XRT's Python module pyxrt was not found"
    follows = {finding.check: finding.follows for finding in findings(asked).values() if finding.status == "problem"}
    assert follows.pop("processor") == ""
    assert follows == dict.fromkeys(("driver", "device files", "pyxrt", "NPUs"), "processor")
    result = run()
    assert result.output.count("PROBLEM") == 1
    lines = [line.strip() for line in result.output.partition("if they remain:\n")[2].splitlines()]
    assert [check for check in CHECKS if any(line.startswith(f"{check}  ") for line in lines[:8])] == [*follows]


@pytest.mark.parametrize("works", [True, False])
def test_json_has_a_fixed_shape(asked: Machine, works: bool) -> None:
    if not works:
        asked.npus = []
    result = run("--json")
    assert result.exit_code == (0 if works else 1)
    contents = json.loads(result.output)
    assert list(contents) == ["usable", "verdict", "findings"]
    assert contents["usable"] is works
    assert isinstance(contents["verdict"], str)
    assert [finding["check"] for finding in contents["findings"]] == list(CHECKS)
    for finding in contents["findings"]:
        assert list(finding) == ["check", "status", "found", "why", "fix", "follows"]
        assert all(isinstance(text, str) and "\n" not in text for text in finding.values())
        assert finding["status"] in ("ok", "note", "problem")
        assert finding["found"]
    problems = [finding for finding in contents["findings"] if finding["status"] == "problem"]
    assert bool(problems) is not works
    assert all(finding["why"] and finding["fix"] for finding in problems)


def start(*arguments: str, pyxrt: bool = False, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, where the system's loader knows no library of other tests.

    pyxrt: use the one of this machine, if it has one.
    """
    program = "from npu_tensor.cli.doctor import doctor; doctor()"
    if not pyxrt:
        program = f"import sys; sys.modules['pyxrt'] = None; {program}"
    return python("-c", program, "--json", *arguments, exit_code=None, **environment)


def test_this_machine_whatever_it_has(tmp_path: Path) -> None:
    result = start(pyxrt=True, NPU_TENSOR_CACHE_DIR=str(tmp_path))
    assert not result.stderr
    contents = json.loads(result.stdout)
    assert result.returncode == (0 if contents["usable"] else 1)
    assert [finding["check"] for finding in contents["findings"]] == list(CHECKS)
    assert not any("the check itself failed" in finding["found"] for finding in contents["findings"])


def test_another_libhsa_comes_first(machine: Machine, tmp_path: Path) -> None:
    soname = f"-Wl,-soname,{HSA.names[0]}"
    ours = library(tmp_path / "rocm/lib" / HSA.names[0], source_of(HSA), soname, "-Wl,--build-id=0xabcd")
    other = library(tmp_path / "other" / HSA.names[0], source_of(HSA), soname)
    # The first directory is that of the variable, which means lib for ROCM_PATH.
    for paths, warned in ((f"{other.parent}:{ours.parent}", True), (f"{ours.parent}:{other.parent}", False)):
        result = start(
            f"--root={machine.root}",
            LD_LIBRARY_PATH=paths,
            ROCM_PATH=str(tmp_path / "rocm"),
            NPU_TENSOR_CACHE_DIR=str(tmp_path / "cache"),
            CXX="/nowhere/c++",
            PATH="/nowhere",
        )
        (hsa,) = (actual for actual in json.loads(result.stdout)["findings"] if actual["check"] == "HSA runtime")
        assert f"{ours}, by ROCM_PATH, build abcd" in hsa["found"]
        assert (hsa["status"], f"but {other} comes first" in hsa["found"]) == (("note" if warned else "ok"), warned)
        assert hsa["fix"] == (f"export LD_LIBRARY_PATH={ours.parent}:$LD_LIBRARY_PATH" if warned else "")
