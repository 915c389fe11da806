"""The functions that compile. They check what they are given and write small files that say what they stand for.

AIE_STANDIN_FAIL=core|module|aiebu-asm makes one of them fail, AIE_STANDIN_OMIT=SUFFIX[,SUFFIX] leaves outputs out
without an error (insts, xclbin, pdi, elf, full_elf, o), AIE_STANDIN_HANG=1 makes compile_mlir_module wait for ever.
For AIE_STANDIN_OTHER_WORDS see `of_design`.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import struct
import time
from pathlib import Path
from typing import Any

from ..._standin import OMIT, VERSION
from ..._standin.launches import launch
from ..._standin.record import MLIRError, Module
from ..._standin.signatures import checked

__all__ = ["compile_cxx_core_function", "compile_external_kernel", "compile_mlir_module", "resolve_target_arch"]

TAG = f"stand-in of mlir-aie {VERSION}"
ARCHES = ("aie2", "aie2p")
LOADS_ITSELF = re.compile(r"aie\.runtime_sequence @\w+\(.*\{\n\s*aiex\.npu\.load_pdi \{device_ref = @main\}")


def _asked_to_fail(step: str) -> bool:
    return os.environ.get("AIE_STANDIN_FAIL") == step


def _failure(message: str) -> RuntimeError:
    return RuntimeError(f"[aiecc] Compilation failed with exit code 1:\n{message}")


def _write(path: str | os.PathLike[str], kind: str, content: bytes) -> None:
    if kind not in os.environ.get(OMIT, "").split(","):
        Path(path).write_bytes(content)


@checked("compile_cxx_core_function", method=False)
def compile_cxx_core_function(
    source_path: str, target_arch: str, output_path: str, include_dirs: Any, compile_args: Any, cwd: Any
) -> None:
    """Write an object file that holds its source. RuntimeError if the source or the directory is missing."""
    directory = Path(cwd or ".")
    source, target = directory / source_path, directory / output_path
    command = [target_arch, *(include_dirs or []), *(compile_args or [])]
    if any(not isinstance(argument, str) for argument in command):
        raise TypeError(f"expected str, bytes or os.PathLike object: {command}")
    if target_arch not in ARCHES:
        raise RuntimeError(f"[Peano] compilation failed:\nunknown target triple '{target_arch}-none-unknown-elf'")
    if not source.is_file():
        raise RuntimeError(f"[Peano] compilation failed:\nclang++: error: no such file or directory: '{source_path}'")
    if not target.parent.is_dir():
        raise RuntimeError(f"[Peano] compilation failed:\nerror: unable to open output file '{output_path}'")
    if _asked_to_fail("core"):
        raise RuntimeError(f"[Peano] compilation failed:\n{source_path}:1:1: error: asked to fail")
    text = source.read_text("utf-8")
    _write(target, "o", f"{TAG}: object for {' '.join(command)}\n{text}".encode())


@checked("compile_external_kernel", method=False)
def compile_external_kernel(func: Any, kernel_dir: Any, target_arch: str) -> None:
    """Compile an ExternalFunction into the directory, unless its object is there."""
    target = Path(kernel_dir) / func._object_file_name
    if func._compiled or target.exists():
        return
    source = Path(kernel_dir) / f"{func._name}.cc"
    if func._source_string is not None:
        source.write_text(func._source_string, "utf-8")
    elif Path(func._source_file).is_file():
        source.write_text(Path(func._source_file).read_text("utf-8"), "utf-8")
    else:
        raise FileNotFoundError(f"ExternalFunction '{func._name}': source file not found: {func._source_file}")
    compile_cxx_core_function(
        source_path=str(source),
        target_arch=target_arch,
        output_path=str(target),
        include_dirs=func._include_dirs,
        compile_args=func._compile_flags,
        cwd=str(kernel_dir),
    )
    func._compiled = True


@checked("compile_mlir_module", method=False)
def compile_mlir_module(
    mlir_module: str | Module,
    insts_path: Any,
    pdi_path: Any,
    xclbin_path: Any,
    verbose: bool,
    work_dir: Any,
    options: Any,
    elf_path: Any = None,
    full_elf_path: Any = None,
    device: Any = None,
) -> None:
    """Write what is asked for. RuntimeError if the module is no stand-in's text, or an object file or symbol is
    missing. Without work_dir the object files are looked for in the current directory."""
    del verbose, device
    text = str(mlir_module)
    if options is not None and not isinstance(options, list):
        raise TypeError(f"'{type(options).__name__}' object is not a list of options")
    if "aie.runtime_sequence" not in text:
        raise _failure("error: expected an aie.device")
    directory = Path(work_dir or ".")
    if not directory.is_dir():
        raise _failure(f"no directory {directory}")
    (directory / "aie.mlir").write_text(text, "utf-8")
    while os.environ.get("AIE_STANDIN_HANG") == "1":
        time.sleep(1)
    if _asked_to_fail("module"):
        raise _failure("error: asked to fail")
    _link(text, directory)
    if full_elf_path:
        # aiecc takes any sequence, but then nothing configures the array, and the kernel computes nothing.
        if text.count("aie.device(") > 1:
            try:
                launch(text)
            except MLIRError as error:
                raise _failure(f"error: {error}") from None
        elif LOADS_ITSELF.search(text) is None:
            raise _failure("stand-in: the runtime sequence of a full ELF must begin with a load_pdi of its device")
        if _asked_to_fail("aiebu-asm"):
            raise _failure("aiecc: ShellCommand: tool 'aiebu-asm' not found in search paths or PATH")
    digest = hashlib.sha256(text.encode()).hexdigest()
    outputs = {"pdi": pdi_path, "xclbin": xclbin_path, "elf": elf_path, "full_elf": full_elf_path}
    for kind, path in outputs.items():
        if path and not (full_elf_path and kind == "xclbin"):
            _write(path, kind, f"{TAG}: {kind} of module {digest}\n".encode())
    if insts_path and not full_elf_path:
        _write(insts_path, "insts", of_design(directory) or instructions(text))


def _link(text: str, directory: Path) -> None:
    """Every object file that the module names must be there, with the symbols that are called."""
    objects = {}
    for name in set(re.findall(r'link_with = "([^"]+)"', text)):
        path = directory / name
        if not path.is_file():
            raise _failure(f"ld.lld: error: cannot open {name}")
        objects[name] = path.read_text("utf-8")
    for symbol in set(re.findall(r"func\.call @(\w+)", text)):
        if not any(re.search(rf"\b{symbol}\b", content) for content in objects.values()):
            raise _failure(f"ld.lld: error: undefined symbol: {symbol}")


def of_design(directory: Path) -> bytes | None:
    """Of a design that is built here, npu_tensor's own words: that they are mlir-aie's, test_instructions.py shows.

    With AIE_STANDIN_OTHER_WORDS=1 one of them differs.
    """
    path = directory / "design.pickle"
    if not path.is_file():
        return None
    from npu_tensor.runtime.build.instructions import instructions

    design = pickle.loads(path.read_bytes())
    words = instructions(design, {parameter.name: 0x400 + 0x100 * n for n, parameter in enumerate(design.parameters)})
    words[-1] ^= int(os.environ.get("AIE_STANDIN_OTHER_WORDS", "0"))
    return words.astype("<u4").tobytes()


def instructions(text: str) -> bytes:
    """A stream with the sizes of a real one: 16 bytes, 24 per written word, 120 per transfer and 44 per wait.

    Each word that the sequence writes into a core stands in it once, as in the real one.
    """
    words: list[int] = []
    operations = 0
    for line in text.splitlines():
        if written := re.search(r"aiex\.npu\.rtp_write\(@\w+, (\d+), (-?\d+)\)", line):
            index, value = map(int, written.groups())
            words += [0, 0, 0x400 + 4 * index, 0, value & 0xFFFFFFFF, 24]
        elif "aiex.dma_configure_task_for" in line:
            words += [1, 0, 48, *[0] * 9, 129, 48, *[0] * 10, 0, 0, 0x1D214, 0, 0x80000000, 24]
        elif "aiex.dma_await_task" in line:
            words += [128, 16, 0, 0x10101, 3, *[0] * 6]
        else:
            continue
        operations += 1
    header = [0x06030100, 0x00000104, operations, 4 * (len(words) + 4)]
    return struct.pack(f"<{len(words) + 4}I", *header, *words)


@checked("resolve_target_arch", method=False)
def resolve_target_arch(device: Any) -> str:
    """Which target a device's cores are compiled for."""
    return "aie2p" if device is not None and device.name.startswith("npu2") else "aie2"
