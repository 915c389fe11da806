"""The headers of a source: the same files that a preprocessor opens, and digests that follow their contents."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import npu_tensor
from npu_tensor.runtime.build.headers import digests

KERNELS = Path(npu_tensor.__file__).parent / "kernels"


def write(directory: Path, **texts: str) -> Path:
    """Files "a_hpp" -> a.hpp with these texts in a directory."""
    directory.mkdir(exist_ok=True, parents=True)
    for name, text in texts.items():
        (directory / name.replace("_", ".")).write_text(text)
    return directory


@pytest.mark.parametrize("header", ["rows", "gemm", "rope", "get_rows", "transpose", "vector_math"])
def test_the_same_headers_as_a_preprocessor_opens(header: str) -> None:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler on this machine")
    directories = [KERNELS / "host", KERNELS / "include"]
    text = f"#include <nt/{header}.hpp>\n"
    command = [compiler, "-std=c++20", "-MM", "-D__AIE_ARCH__=20", *(f"-I{d}" for d in directories), "-x", "c++", "-"]
    listed = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    opened = {Path(os.path.normpath(word)) for word in listed.replace("\\\n", " ").split() if word.endswith(".hpp")}
    result = digests(text, directories)
    assert result.keys() == {
        path.relative_to(directory).as_posix()
        for path in opened
        for directory in directories
        if directory in path.parents
    }
    assert opened


def test_circles_end_and_what_is_elsewhere_does_not_count(tmp_path: Path) -> None:
    write(tmp_path, outside_hpp="")
    inside = write(
        tmp_path / "inside",
        a_hpp='#include "b.hpp"\n#include <vector>\n#include "../outside.hpp"\n',
        b_hpp='#include "a.hpp"\n',
    )
    assert list(digests('#include "a.hpp"', [inside])) == ["a.hpp", "b.hpp"]


def test_digests_are_of_the_contents_and_named_by_place(tmp_path: Path) -> None:
    write(tmp_path / "one" / "nt", a_hpp='#include "b.hpp"\n', b_hpp="float x;\n", unused_hpp="")
    expected = {
        "nt/a.hpp": hashlib.sha256(b'#include "b.hpp"\n').hexdigest(),
        "nt/b.hpp": hashlib.sha256(b"float x;\n").hexdigest(),
    }
    text = "#include <nt/a.hpp>\n"
    assert digests(text, [tmp_path / "one"]) == expected
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert digests(text, [tmp_path / "two"]) == expected


def test_one_changed_character_is_seen_by_the_same_process(tmp_path: Path) -> None:
    write(tmp_path, a_hpp="#include <b.hpp>\n", b_hpp="float x;\n")
    before = digests("#include <a.hpp>", [tmp_path])
    status = (tmp_path / "b.hpp").stat()
    (tmp_path / "b.hpp").write_text("float y;\n")
    os.utime(tmp_path / "b.hpp", ns=(status.st_atime_ns, status.st_mtime_ns + 1))  # whatever the clock's resolution is
    after = digests("#include <a.hpp>", [tmp_path])
    assert before["a.hpp"] == after["a.hpp"]
    assert before["b.hpp"] != after["b.hpp"]
