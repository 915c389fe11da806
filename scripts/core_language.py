"""Table of the C++ that core functions may use, read from the headers with which the simulator compiles them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import npu_tensor
from npu_tensor.ops.primitives import PRIMITIVES

KERNELS = Path(npu_tensor.__file__).parent / "kernels"
OF_USERS = {
    *("broadcast", "constant", "load", "load_unaligned", "store", "store_unaligned"),
    *("reciprocal", "rsqrt", "sigmoid", "sum_lanes", "max_lanes", "min_lanes"),
    *PRIMITIVES,
}
"""Functions of namespace nt for kernels of users. The headers have more, of which these are made."""


def names(header: str, space: str) -> dict[str, list[str]]:
    """Return the functions and classes of a namespace in a header, and the public functions of each class."""
    text = re.sub(r"//.*|^ *#(?:.*\\\n)*.*", "", header, flags=re.MULTILINE)
    found: dict[str, list[str]] = {}
    scopes: list[str] = []
    is_public = True
    for head, mark in re.findall(r"([^{};]*)([{};])", text):
        for name in re.findall(r"\bNT_AIE_\w+\((\w+),", head):  # Each of these lines declares a function.
            found.setdefault(name, [])
        if access := re.search(r"\b(public|private):", head):
            is_public = access[1] == "public"
        noise = r"\b(?:public|private):|\bNT_AIE_\w+\(.*\)|\brequires\b.*\n|\boperator\b.*|\bstatic_assert\b.*"
        declared = " ".join(re.sub(noise, "", head).split())
        own = re.search(r"\bnamespace (\S+)$|\b(?:class|struct) (\w+)|\b(\w+) ?\(", declared)
        namespace, type_, function = own.groups() if own else (None, None, None)
        if mark == "{":
            if scopes == [space] and (name := type_ or function):
                found.setdefault(name, [])
            members = found.get(scopes[1]) if scopes[:-1] == [space] and is_public else None
            if members is not None and function and function not in (*members, scopes[1]):
                members.append(function)
            is_public = is_public or bool(type_)
            scopes.append(namespace or type_ or "")
        elif mark == "}":
            scopes.pop()
    return found


def rows() -> Iterator[tuple[str, str]]:
    """Yield the subject of each header and its names as code."""
    for path in sorted((KERNELS / "host/aie_api").glob("*.hpp")):
        header = path.read_text("utf-8")
        members = names(header, "aie").items()
        listed = [
            f"`aie::{name}`" + (f" ({', '.join(f'`{each}`' for each in inside)})" if inside else "")
            for name, inside in members
        ]
        if listed:
            yield re.split(r"\.\s|:", header.removeprefix("// "))[0], ", ".join(listed)
    paths = sorted((KERNELS / "include/nt").glob("*.hpp"))
    functions = {name for path in paths for name in names(path.read_text("utf-8"), "nt")}
    yield "Functions of vectors of 16 numbers", ", ".join(f"`nt::{name}`" for name in sorted(functions & OF_USERS))
