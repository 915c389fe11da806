"""Checks below XRT: the NPU, its driver and firmware, and the permissions of this user.

Paths and rules come from the driver: amd/xdna-driver, drivers/accel/amdxdna, part of Linux since 6.14.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from npu_tensor._util.units import size
from npu_tensor.cli.doctor.finding import Finding, System, against_tested, note, ok, problem, tested_versions
from npu_tensor.dataflow.array import Arch, arch_of
from npu_tensor.errors import DeviceError
from npu_tensor.runtime.devices.system import driver_version, pci_numbers

HEAP_BYTES: Final = 64 << 20
"""Memory that XRT maps and locks to open an NPU, in bytes: AIE2_DEVM_SIZE in aie2_pci.h."""

CAP_IPC_LOCK: Final = 14
"""Number of the capability that lifts the limit on locked memory (capabilities(7))."""

LEGACY_UNTIL: Final = 20260901
"""Date from which amd/xdna-driver has no driver but that of drivers/accel (#1658)."""

_PCI: Final = "sys/bus/pci/devices"

_PROTOCOL: Final = re.compile(r"amdxdna.*?(Incompatible firmware protocol.*|Firmware minor version smaller.*)")
"""Messages of the driver when it compares the protocols at its start."""

_SLOW_MODES: Final = ("powersaver", "balanced", "low-power", "quiet")
"""Power modes of xrt-smi and profiles of ACPI with a lower clock. An 8700G ran at 1.03 GHz in balanced and 0.80 GHz in
powersaver, and at 1.80 GHz in the other modes (jdominick05/ignite-xdna, docs/SILICON.md).
"""

_UDEV_RULE: Final = (
    """echo 'KERNEL=="accel*", DRIVERS=="amdxdna", GROUP="render", MODE="0660"' | sudo tee"""
    " /etc/udev/rules.d/99-amdxdna.rules; sudo udevadm control --reload; sudo udevadm trigger --subsystem-match=accel"
)

_USER_SERVICE: Final = (
    "printf '[Service]\\nLimitMEMLOCK=infinity\\n' | sudo install -D /dev/stdin"
    " /etc/systemd/system/user@.service.d/memlock.conf; sudo systemctl daemon-reload, then reboot"
)
"""Limit of the processes of a user's systemd, to which /etc/security does not apply on Fedora (README of
amd/xdna-driver).
"""

LOOK_INTO_LOG: Final = "sudo dmesg | grep amdxdna"


class _Npu(NamedTuple):
    """An NPU on the PCI bus.

    `device` is the PCI device number, such as "17f0". `node` is the device file, such as "accel0"; empty without a
    driver.
    """

    bdf: str
    device: str
    revision: str
    arch: Arch
    node: str


def on_pci_bus(system: System) -> list[_Npu]:
    """List the supported NPUs, with or without a driver."""
    npus = []
    for directory in sorted(system.root.joinpath(_PCI).glob("*")):
        vendor, device, revision = pci_numbers(directory)
        try:
            arch = arch_of(f"{vendor}:{device}")
        except DeviceError:
            continue
        node = next((path.name for path in sorted(directory.glob("accel/accel*"))), "")
        npus.append(_Npu(directory.name, device, revision, arch, node))
    return npus


def _nodes(system: System) -> list[Path]:
    return [system.root / "dev/accel" / npu.node for npu in on_pci_bus(system) if npu.node]


def _name(system: System, file: Path) -> str:
    """Return the path of a file as the user knows it."""
    return f"/{file.relative_to(system.root)}"


def operating_system(system: System) -> Finding:
    """Compare the operating system with those known to run NPUs."""
    fields = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', system.read("etc/os-release"), re.MULTILINE))
    release = f"{fields.get('NAME', '')} {fields.get('VERSION_ID', '')}".strip()
    return against_tested("operating system", release, "others may lack a package or a driver that is new enough", "")


def processor(system: System) -> Finding:
    """Check that the processor has an NPU."""
    npus = on_pci_bus(system)
    if npus:
        return ok(", ".join(f"{npu.arch} at {npu.bdf} (1022:{npu.device}, revision {npu.revision})" for npu in npus))
    return problem(
        "no NPU on the PCI bus",
        "kernels need one, which Ryzen AI processors have and virtual machines do not show",
        "enable the NPU (also called IPU) in the BIOS setup; processors without one cannot run NPU kernels",
    )


def driver(system: System) -> Finding:
    """Check that amdxdna is loaded, and its version."""
    release = system.read("proc/sys/kernel/osrelease")
    if not (system.root / "sys/module/amdxdna").is_dir():
        has_module = "/amdxdna.ko" in system.read("lib/modules", release, "modules.dep")
        return problem(
            f"the module amdxdna is not loaded into Linux {release or 'of unknown version'}",
            "it is what opens the NPU",
            "sudo modprobe amdxdna"
            if has_module
            else "boot Linux 6.14 or newer with CONFIG_DRM_ACCEL_AMDXDNA, or install amdxdna-dkms; secure boot refuses"
            " modules that are not signed",
        )
    version = driver_version(system.root).partition(",")[0]
    if "O" not in system.read("sys/module/amdxdna/taint"):
        return note(
            f"the driver of Linux {release} itself",
            "calls that a newer XRT makes may fail with 'Operation not supported' (amd/xdna-driver#1448)",
            "if so, install the driver of the package xrt_plugin-amdxdna, which amd/xdna-driver builds",
        )
    date = re.search(r"_(20\d{6})", version)
    if date and int(date[1]) < LEGACY_UNTIL:
        return note(
            f"amdxdna {version or 'of unknown version'} on Linux {release}, from outside of Linux",
            "it may be the legacy driver, which amd/xdna-driver removed in September 2026 (#1658)",
            "install a newer build of amd/xdna-driver, if kernels hang or fail",
        )
    releases = ", ".join(tested_versions("XDNA driver"))
    return ok(
        f"amdxdna {version or 'of unknown version'} on Linux {release}, from outside of Linux; ggml-hsa ran on release"
        f" {releases} of amd/xdna-driver, which this number does not tell"
    )


def accel_nodes(system: System) -> Finding:
    """Check that the driver has created a device file for the NPU."""
    nodes = _nodes(system)
    missing = [node for node in nodes if not node.exists()]
    if nodes and not missing:
        return ok(", ".join(_name(system, node) for node in nodes))
    if missing:
        return problem(
            f"there is no {_name(system, missing[0])}, although the driver has made it",
            "the NPU is opened by this file",
            "in a container, start it with --device /dev/accel; else `sudo udevadm trigger --subsystem-match=accel`",
        )
    return problem(
        "no file in /dev/accel belongs to an NPU",
        "the NPU is opened by it; a driver that is loaded and does not make it has failed to start the NPU",
        LOOK_INTO_LOG,
    )


def permissions(system: System) -> Finding:
    """Check that this user may open the NPU."""
    nodes = [node for node in _nodes(system) if node.exists()]
    if not nodes:
        return note("unknown without a file in /dev/accel")
    for node in nodes:
        if not system.usable(node):
            return _forbidden(system, node)
    return ok(f"this user can read and write {', '.join(_name(system, node) for node in nodes)}")


def _forbidden(system: System, node: Path) -> Finding:
    group, member_of = system.group_of(node), system.memberships()
    listed = re.search(rf"^{re.escape(group)}:[^:]*:\d*:(.*)$", system.read("etc/group"), re.MULTILINE)
    if group == "root" or group in member_of:
        fix = _UDEV_RULE
    elif listed and system.user() in listed[1].split(","):
        fix = f"log out and in again: this user has become a member of {group} since"
    else:
        fix = f"sudo usermod -aG {group} $USER, then log out and in again"
    return problem(
        f"this user cannot both read and write {_name(system, node)}, which belongs to the group {group}",
        "the driver is used through this file",
        fix,
    )


def locked_memory(system: System) -> Finding:
    """Check that RLIMIT_MEMLOCK suffices for XRT."""
    now, most = system.memlock()
    if now < 0:
        return ok("no limit on locked memory")
    limit = f"at most {_size(now)} of locked memory"
    if _capable(system, CAP_IPC_LOCK):
        return ok(f"{limit}, which does not bind this process (CAP_IPC_LOCK)")
    if now > HEAP_BYTES:
        return ok(f"{limit}, of which XRT takes {_size(HEAP_BYTES)}, and buffers the rest")
    raises = f"ulimit -l {'unlimited' if most < 0 else most // 1024}"
    permanent = (
        _USER_SERVICE
        if re.search(r"/user@\d+\.service/", system.read("proc/self/cgroup"))
        else "printf '* soft memlock unlimited\\n* hard memlock unlimited\\n' | sudo tee"
        " /etc/security/limits.d/99-amdxdna.conf, then log out and in again"
    )
    return problem(
        limit,
        f"XRT locks {_size(HEAP_BYTES)} to open an NPU; if it may not, it finds no devices or fails with err=-11",
        permanent if 0 <= most <= HEAP_BYTES else f"{raises} in the shell that starts the program",
    )


def _capable(system: System, capability: int) -> bool:
    effective = re.search(r"^CapEff:\s*([0-9a-f]+)$", system.read("proc/self/status"), re.MULTILINE)
    return bool(effective and int(effective[1], 16) >> capability & 1)


def _size(number: int) -> str:
    return size(number) if number % (1 << 20) else f"{number >> 20} MiB"


def firmware(system: System) -> Finding:
    """Check the firmware of the NPU's controller: the version reported by the driver, and the files."""
    npus = on_pci_bus(system)
    if not npus:
        return note("not looked for without an NPU")
    versions, missing = [], []
    for npu in npus:
        # The driver selects the directory by device and revision and loads the first of several file names.
        # Distributions compress the files.
        files = [
            file.relative_to(system.root / lib)
            for lib in ("lib/firmware", "usr/lib/firmware")
            for file in sorted(system.root.glob(f"{lib}/amdnpu/{npu.device}_*/npu*.sbin*"))
        ]
        running = system.read(_PCI, npu.bdf, "fw_version")
        if running:
            versions.append(f"{running} runs on {npu.bdf}")
        versions += map(str, dict.fromkeys(files))
        if not files and not running:
            missing.append(f"amdnpu/{npu.device}_{npu.revision}/npu.sbin")
    if missing:
        return problem(
            f"no {', '.join(missing)} below /lib/firmware",
            "the driver loads it into the NPU when it starts",
            "sudo apt install linux-firmware, or the package of firmware of this distribution, then reboot",
        )
    mismatch = _PROTOCOL.findall(_kernel_log(system))
    if mismatch and not any(system.read(_PCI, npu.bdf, "fw_version") for npu in npus):
        return problem(
            f"the driver refuses the firmware: {mismatch[-1]}",
            "both must have the same protocol; the NPU does not start, and has no file in /dev/accel",
            "install driver and firmware from one source, such as the package xrt_plugin-amdxdna, or a newer Linux with"
            " its firmware, then reboot (amd/xdna-driver#1074)",
        )
    return ok(", ".join(versions))


def _kernel_log(system: System) -> str:
    """Return the messages of the kernel since the start; empty if this user may not read them."""
    for command in (("dmesg",), ("journalctl", "-k", "-b", "-q", "--no-pager", "-o", "cat")):
        with suppress(DeviceError):
            if text := system.tool(*command):
                return text
    return ""


def iommu(system: System) -> Finding:
    """Check that the IOMMU is on and that the NPU causes no page faults in it."""
    npus = on_pci_bus(system)
    if not npus:
        return note("not looked for without an NPU")
    for npu in npus:
        if not (system.root / _PCI / npu.bdf / "iommu_group").exists():
            return note(
                f"no IOMMU for {npu.bdf}",
                "drivers before June 2026 open no NPU without it, with err=-19 (amd/xdna-driver#717, #1445)",
                "enable the IOMMU (AMD-Vi) in the BIOS setup, and remove amd_iommu=off and iommu=off from the kernel's"
                " command line",
            )
    log = _kernel_log(system)
    if not log:
        return note("on; this user cannot read the kernel log", "", "sudo dmesg | grep -e amdxdna -e IO_PAGE_FAULT")
    for npu in npus:
        if faults := len(re.findall(rf"{re.escape(npu.bdf)}.*IO_PAGE_FAULT", log)):
            return note(
                f"{faults} page faults of {npu.bdf} in the IOMMU since the start",
                "a launch with faults takes seconds: 7 ms became 10 s on a Strix Halo"
                " (OpenGamingCollective/kernel-packages#39)",
                "try another version of Linux; booting once with amd_iommu=off shows if that is the cause",
            )
    return ok("on, without page faults of the NPU")


def power(system: System) -> Finding:
    """Check that neither the battery nor a power mode slows down the NPU or the processor."""
    supplies = sorted(system.root.glob("sys/class/power_supply/*"))
    states = [system.read(str(each), "status") for each in supplies if system.read(str(each), "scope") != "Device"]
    modes = {"power profile": system.read("sys/firmware/acpi/platform_profile")}
    with suppress(DeviceError):
        report = system.tool("xrt-smi", "examine", "--report", "platform")
        modes["power mode"] = ", ".join(re.findall(r"Power Mode\s*: (\w+)", report)).lower()
    described = [f"{name} {mode}" for name, mode in modes.items() if mode]
    if "Discharging" in states:
        return note(
            "; ".join(["on battery", *described]),
            "measured rates are not those on AC power: a step on the CPU took 842 ms instead of 172"
            " (mistrjirka/pytorch-XDNA2)",
            "connect it to AC power before selftest and calibrate",
        )
    if any(mode in _SLOW_MODES for mode in modes.values()):
        return note(
            "; ".join(described),
            "the clock is lower: 1.03 or 0.80 GHz instead of 1.80 on an 8700G (jdominick05/ignite-xdna)",
            "sudo xrt-smi configure --pmode default; powerprofilesctl set performance",
        )
    return ok("; ".join(["not on battery", *described]))


def idle(system: System) -> Finding:
    """Check if the NPU is powered off while idle."""
    for npu in on_pci_bus(system):
        power = f"{_PCI}/{npu.bdf}/power"
        if system.read(power, "control") == "auto":
            delay = system.read(power, "autosuspend_delay_ms")
            return note(
                f"the driver suspends {npu.bdf} {f'after {int(delay) / 1000:g} s ' if delay.isdecimal() else ''}"
                "without work",
                "the next kernel then waits until it runs again, 0.1 s and more (Xilinx/mlir-aie#2944)",
                f"echo on | sudo tee /{power}/control, which costs energy",
            )
    return ok("no NPU is known to be suspended without work")
