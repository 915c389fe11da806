"""The back end "iron", with real processes that import the stand-in for mlir-aie."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from iron_standin import PEANO, VERSION, executable, install

import npu_tensor
from npu_tensor.config import config
from npu_tensor.dataflow.array import Tile
from npu_tensor.dataflow.check import require_valid
from npu_tensor.dataflow.design import AccessPattern, Builder, Design, ObjectType, Source, range_
from npu_tensor.errors import BuildError
from npu_tensor.runtime.build import iron
from npu_tensor.runtime.build.iron import IronBackend
from npu_tensor.runtime.store.requests import Request, description, kernel_key

HEADERS = Path(npu_tensor.__file__).parent / "kernels" / "include"
WORDS = {"first": 3, "second": 1}
XCLBIN = (".xclbin", ".pdi", "_parameters.json")
SAYS = "clang version 21.0.0 (https://github.com/Xilinx/llvm-aie 0123456789abcdef0123456789abcdef01234567)"


def negate(
    flags: tuple[str, ...] = ("-DTILE=256",),
    header: str = "nt/memory.hpp",
    words: Mapping[str, int] = WORDS,
) -> Design:
    """One core, one kernel function, two runtime parameters."""
    d = Builder("negate", "aie2p", columns=1)
    x, y = d.host_buffer("x", "int32", 4096), d.host_buffer("y", "int32", 4096)
    tile = ObjectType("int32", (256,))
    parameters = [d.parameter(name, Tile(0, 2), count) for name, count in words.items()]
    source = Source("negate", f'#include "{header}"\nextern "C" void nt_negate(int32 *, int32 *);\n', flags)
    function = d.function("nt_negate", [tile, tile, *(p.type for p in parameters)], source)
    fx = d.fifo("x0", tile, producer=Tile(0, 0), consumers=[Tile(0, 2)])
    fy = d.fifo("y0", tile, producer=Tile(0, 2), consumers=[Tile(0, 0)])

    def body(taken: Any, given: Any) -> None:
        for _ in range_(16):
            function(taken.acquire(1), given.acquire(1), *parameters)
            taken.release(1)
            given.release(1)

    d.worker(Tile(0, 2), body, [fx, fy])
    d.fill(fx, x, AccessPattern.linear(4096))
    d.drain(fy, y, AccessPattern.linear(4096))
    return d.build()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """mlir-aie, Peano and xclbinutil are installed, and the cache is empty; where their wheels lie."""
    place = install(monkeypatch, tmp_path)
    with config.scope(cache_path=str(tmp_path / "cache")):
        yield place


@pytest.fixture(autouse=True)
def _unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The design of these tests has more of everything than an array can run."""
    monkeypatch.setattr(iron, "require_valid", lambda design: None)


def test_a_design_that_could_hang_the_array_is_not_built(site: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(iron, "require_valid", require_valid)
        assert "breaks the limits of the array" in failure(tmp_path / "work")


def build(directory: Path, design: Design | None = None) -> dict[str, Path]:
    directory.mkdir(exist_ok=True)
    try:
        return IronBackend().build(Request("negate", design or negate()), directory)
    finally:
        assert "aie" not in sys.modules


def failure(directory: Path, transient: bool = False, design: Design | None = None) -> str:
    with pytest.raises(BuildError) as caught:
        build(directory, design)
    assert caught.value.transient is transient
    return str(caught.value)


def test_without_mlir_aie(tmp_path: Path) -> None:
    if "aie" in sys.modules or IronBackend().missing() is None:
        pytest.skip("mlir-aie is installed")
    reason = IronBackend().missing()
    assert reason is not None
    assert reason.startswith("no compiler: No module named 'aie'")
    assert "scripts/env_setup.sh" in reason
    assert failure(tmp_path / "work") == reason
    assert IronBackend().toolchain() == "none"
    json.dumps(IronBackend().ingredients(negate()))


def test_without_peano(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nowhere = tmp_path / "nowhere"
    monkeypatch.setenv("PEANO_INSTALL_DIR", str(nowhere))
    reason = failure(tmp_path / "work")
    assert reason == IronBackend().missing()
    assert reason.startswith("no compiler: Peano (llvm-aie) is in none of ")
    assert str(nowhere) in reason
    assert "scripts/env_setup.sh" in reason
    nowhere.mkdir()  # taken by mlir-aie because it exists; asked with another environment, for that is remembered
    monkeypatch.setenv("PEANO_INSTALL_DIR", f"{nowhere}/")
    assert f"there is no Peano compiler at {nowhere}/bin/clang++" in str(IronBackend().missing())


def test_versions_name_the_toolchain(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = IronBackend()
    assert backend.missing() is None
    assert backend.toolchain() == f"mlir_aie{VERSION}-llvm_aie{PEANO}"
    other = executable(tmp_path / "own" / "bin" / "clang++", SAYS).parents[1]
    monkeypatch.setenv("PEANO_INSTALL_DIR", str(other))
    assert backend.toolchain() == f"mlir_aie{VERSION}-llvm_aie21.0.0+0123456789ab"


def test_a_source_build_is_known_by_its_commit(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "install" / "python" / "aie"
    (package / "iron").mkdir(parents=True)
    (package / "utils").mkdir()
    lines = (
        f'git_commit = "{"ab" * 20}"',
        f'peano_install_dir = os.getenv("PEANO_INSTALL_DIR", r"""{site / "llvm-aie"}""")',
        'peano_install_dir = os.path.join(aie_dir, "peano")',
    )
    (package / "__init__.py").touch()
    (package / "utils" / "configure.py").write_text("\n".join(lines))
    shutil.rmtree(site / f"mlir_aie-{VERSION}.dist-info")
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.delenv("PEANO_INSTALL_DIR")
    assert IronBackend().toolchain() == f"mlir_aie{'ab' * 6}-llvm_aie{PEANO}"


def test_ingredients_are_flags_and_headers_of_each_source() -> None:
    result = IronBackend().ingredients(negate(flags=("-DA=1", "-DB=2"), header="nt/get_rows.hpp"))
    assert json.loads(json.dumps(result)) == result
    names = ("nt/get_rows.hpp", "nt/loops.hpp")
    digests = {name: hashlib.sha256((HEADERS / name).read_bytes()).hexdigest() for name in names}
    assert result["sources"] == [{"flags": ["-DA=1", "-DB=2"], "headers": digests}]


def test_one_build_makes_everything(site: Path, tmp_path: Path) -> None:
    files = build(tmp_path / "work")
    assert tuple(files) == (*XCLBIN, "_program.py")
    text = files["_program.py"].read_text()
    compile(text, "_program.py", "exec")
    assert "int32 *, int32 *" in text
    assert str(tmp_path) not in text
    for suffix in (".xclbin", ".pdi"):
        assert files[suffix].read_text().startswith(f"stand-in of mlir-aie: {suffix[1:]} of module ")
    assert json.loads(files["_parameters.json"].read_text()) == {"first": 0x400, "second": 0x500}
    objects = list((tmp_path / "work" / "build").glob("*.o"))
    assert len(objects) == 1
    command, _, source = objects[0].read_text().partition("\n")
    assert command.startswith("stand-in of mlir-aie: object for aie2p ")
    assert "-DTILE=256" in command.split()
    assert "nt_negate" in source


def test_a_compiler_that_makes_other_instructions(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIE_STANDIN_OTHER_WORDS", "1")
    assert "makes other instructions of the program than npu_tensor" in failure(tmp_path / "work")


# --- full ELFs


@pytest.fixture
def elf() -> Iterator[None]:
    with config.scope(kernel_format="elf"):
        yield


@pytest.mark.usefixtures("elf")
def test_a_full_elf_is_all_that_is_made(site: Path, tmp_path: Path) -> None:
    """That its sequence loads the configuration first, the stand-in demands."""
    design = negate(words={})
    files = build(tmp_path / "work", design)
    assert tuple(files) == (".elf", "_program.py")
    assert files[".elf"].read_text().startswith("stand-in of mlir-aie: full_elf of module ")


@pytest.mark.parametrize(("words", "differ"), [({}, True), (WORDS, False)])
def test_the_format_is_part_of_the_key(words: dict[str, int], differ: bool) -> None:
    request = Request("negate", negate(words=words))
    keys = set()
    for format in ("xclbin", "elf"):
        with config.scope(kernel_format=format):
            keys.add(kernel_key(description(request, IronBackend())))
    assert len(keys) == 1 + differ


@pytest.mark.usefixtures("elf")
def test_a_release_that_does_not_let_modules_load_themselves(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ELF of such a module would run, and leave its results as they were."""
    monkeypatch.setenv("AIE_STANDIN_OMIT", "load_pdi")
    assert "no full ELF with a kernel main:sequence that loads its own" in failure(
        tmp_path / "work", design=negate(words={})
    )


# --- failures


def test_the_core_compiler_fails(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIE_STANDIN_FAIL", "core")
    reason = failure(tmp_path / "work")
    assert "does not compile for aie2p" in reason
    assert "1:1: error: asked to fail" in reason
    assert "Traceback" not in reason
    assert "asked to fail" in (tmp_path / "work" / "build.log").read_text()


@pytest.mark.parametrize(
    ("left_out", "said"),
    [
        ("xclbin", "mlir-aie reported no error, but kernel.xclbin is missing or empty"),
        ("insts,pdi", "mlir-aie reported no error, but kernel_insts.bin, kernel.pdi is missing or empty"),
        ("o", "Peano reported no error, but "),
    ],
)
def test_an_output_that_is_left_out_without_an_error(
    left_out: str, said: str, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIE_STANDIN_OMIT", left_out)
    reason = failure(tmp_path / "work")
    assert reason.startswith(said)
    assert "XRT" not in reason


def test_a_missing_xclbinutil_is_named(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIE_XCLBINUTIL")
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "xclbinutil").unlink()
    monkeypatch.setenv("AIE_STANDIN_OMIT", "xclbin")
    reason = failure(tmp_path / "work")
    assert "kernel.xclbin is missing or empty: xclbinutil" in reason
    assert "libxrt-utils" in reason


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("class Runtime: sequence = None", "the installed mlir-aie is older than 1.4.2; install 1.4.5: "),
        ("raise ImportError('libxrt')", "ImportError: libxrt"),
    ],
)
def test_another_installation(
    code: str, said: str, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "other" / "aie" / "iron"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path / "other")
    assert failure(tmp_path / "work").startswith(said)
