"""Compiler functions. They check their arguments and write small files that describe the omitted output.

AIE_STANDIN_FAIL=core|module|aiebu-asm makes one of them fail, AIE_STANDIN_OMIT=SUFFIX[,SUFFIX] leaves outputs out
without an error (insts, xclbin, pdi, full_elf, o; load_pdi of the sequences of full ELFs), AIE_STANDIN_HANG=1 makes
compile_mlir_module hang, and AIE_STANDIN_OTHER_WORDS=1 changes a word of the instruction stream.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import time
from pathlib import Path

from npu_tensor.runtime.build.instructions import instructions

from .._launches import launch
from .._module import MLIRError

LOADS_ITSELF = re.compile(r"aie\.runtime_sequence\(.*\{\n\s*aiex\.npu\.load_pdi \{device_ref = @main\}")


def _asked_to_fail(step: str) -> bool:
    return os.environ.get("AIE_STANDIN_FAIL") == step


def _failure(message: str) -> RuntimeError:
    return RuntimeError(f"[aiecc] Compilation failed with exit code 1:\n{message}")


def _write(path: str, kind: str, content: bytes) -> None:
    if kind not in os.environ.get("AIE_STANDIN_OMIT", "").split(","):
        Path(path).write_bytes(content)


def compile_cxx_core_function(
    *, source_path: str, target_arch: str, output_path: str, compile_args: list[str], cwd: str
) -> None:
    """Write an object file that holds its source. RuntimeError if the source is missing."""
    source = Path(cwd) / source_path
    if target_arch not in ("aie2", "aie2p") or not source.is_file() or _asked_to_fail("core"):
        raise RuntimeError(f"[Peano] compilation failed:\n{source_path}:1:1: error: asked to fail")
    command = " ".join([target_arch, *compile_args])
    _write(output_path, "o", f"stand-in of mlir-aie: object for {command}\n{source.read_text('utf-8')}".encode())


def compile_mlir_module(
    *,
    mlir_module: str,
    work_dir: str,
    verbose: bool,
    options: list[str],
    insts_path: str | None = None,
    pdi_path: str | None = None,
    xclbin_path: str | None = None,
    full_elf_path: str | None = None,
) -> None:
    """Write the requested files. Raise RuntimeError if an object file or a symbol of the module is missing."""
    while os.environ.get("AIE_STANDIN_HANG") == "1":
        time.sleep(1)
    if _asked_to_fail("module"):
        raise _failure("error: asked to fail")
    for symbol, name in re.findall(r'func\.func private @(\w+) \{link_with = "([^"]+)"', mlir_module):
        path = Path(work_dir) / name
        if not path.is_file():
            raise _failure(f"ld.lld: error: cannot open {name}")
        if re.search(rf"\b{symbol}\b", path.read_text("utf-8")) is None:
            raise _failure(f"ld.lld: error: undefined symbol: {symbol}")
    if full_elf_path:
        # aiecc takes any sequence, but then nothing configures the array, and the kernel computes nothing.
        if mlir_module.count("aie.device(") > 1:
            try:
                launch(mlir_module)
            except MLIRError as error:
                raise _failure(f"error: {error}") from None
        elif LOADS_ITSELF.search(mlir_module) is None:
            raise _failure("stand-in: the runtime sequence of a full ELF must begin with a load_pdi of its device")
        if _asked_to_fail("aiebu-asm"):
            raise _failure("aiecc: ShellCommand: tool 'aiebu-asm' not found in search paths or PATH")
    digest = hashlib.sha256(mlir_module.encode()).hexdigest()
    for kind, path in (("pdi", pdi_path), ("xclbin", xclbin_path), ("full_elf", full_elf_path)):
        if path:
            _write(path, kind, f"stand-in of mlir-aie: {kind} of module {digest}\n".encode())
    if insts_path:
        _write(insts_path, "insts", _words(Path(work_dir) / "design.pickle"))


def _words(path: Path) -> bytes:
    """npu_tensor's own words: that they are mlir-aie's, test_instructions.py shows."""
    design = pickle.loads(path.read_bytes())
    words = instructions(design, {parameter.name: 0x400 + 0x100 * n for n, parameter in enumerate(design.parameters)})
    words[-1] ^= int(os.environ.get("AIE_STANDIN_OTHER_WORDS", "0"))
    return words.astype("<u4").tobytes()
