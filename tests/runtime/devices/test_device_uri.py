"""Parsing of device URIs."""

import doctest
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npu_tensor.dataflow.array import ARRAYS
from npu_tensor.errors import DeviceError
from npu_tensor.kernels.offer import Bfloat16, Float32, Functions, Target
from npu_tensor.runtime.devices import device_uri
from npu_tensor.runtime.devices.device_kind import target
from npu_tensor.runtime.devices.device_uri import parse_uri, split_uris, with_default

NPU_SCHEMES = ("npu", "amdgpu", "amdxdna", "xdna", "hsa")
SPECIFIER = "expected an ordinal (`0`) or a device UUID (`NPU-XX...`)"


@pytest.mark.parametrize("scheme", NPU_SCHEMES)
@pytest.mark.parametrize(
    ("path", "selectors"),
    [
        ("", ()),
        (":", ()),
        ("://", ()),
        (":*", ()),
        (":0", ("0",)),
        ("://0", ("0",)),
        ("://0,1", ("0", "1")),
        ("://0, 1", ("0", "1")),
        ("://GPU-0e12865a3bf5b7ab,GPU-89e8bdf59a10cf6d", ("GPU-0e12865a3bf5b7ab", "GPU-89e8bdf59a10cf6d")),
        ("://aie-0E12865A3BF5B7AB", ("aie-0E12865A3BF5B7AB",)),
        ("://0000:c6:00.1", ("0000:c6:00.1",)),
        ("://c6:00.1", ("c6:00.1",)),
        (":c6:00.1", ("c6:00.1",)),
        ("://1,NPU-0e12865a3bf5b7ab,10000:C6:00.1", ("1", "NPU-0e12865a3bf5b7ab", "10000:C6:00.1")),
    ],
)
def test_npus(scheme: str, path: str, selectors: tuple[str, ...]) -> None:
    uri = parse_uri(scheme + path)
    assert (uri.scheme, uri.selectors, uri.options, uri.text) == ("npu", selectors, {}, scheme + path)
    assert parse_uri(f"{scheme}{path}?cols=4").selectors == selectors


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("npu:first", "INVALID_ARGUMENT", f"invalid device specifier `first`; {SPECIFIER}"),
        ("npu://0,,1", "INVALID_ARGUMENT", f"invalid device specifier ``; {SPECIFIER}"),
        ("npu:\N{SUPERSCRIPT TWO}", "INVALID_ARGUMENT", "invalid device specifier `\N{SUPERSCRIPT TWO}`"),
        ("npu:" + "9" * 5000, "INVALID_ARGUMENT", "invalid device specifier `999"),
        ("npu://c6:00", "INVALID_ARGUMENT", "invalid device specifier `c6:00`"),
        ("npu://0000:c6:00.8", "INVALID_ARGUMENT", "or a PCI address (`0000:c6:00.1`)"),
        (
            "npu2",
            "NOT_FOUND",
            "device 'npu2' does not exist; there are cpu, sim:npu1 and sim:npu2 (simulated), and npu",
        ),
        ("", "NOT_FOUND", "device '' does not exist"),
        ("gpu:0", "NOT_FOUND", "device 'gpu:0' does not exist; there are cpu, sim:npu1 and sim:npu2"),
        ("c6:00.1?cols=4", "NOT_FOUND", "device 'c6:00.1?cols=4' does not exist; an NPU is written npu://c6:00.1"),
        ("AIE-0123456789abcdef", "NOT_FOUND", "an NPU is written npu://AIE-0123456789abcdef"),
        ("cpu:0", "INVALID_ARGUMENT", "cpu:0: there is one CPU device"),
        ("cpu?cols=4", "INVALID_ARGUMENT", "unknown option cols; cpu takes none"),
        ("sim:", "NOT_FOUND", "there is no simulated device without a name; there are sim:npu1, sim:npu2"),
        ("sim:npu3", "NOT_FOUND", "there is no simulated npu3"),
        ("sim:npu2x17", "OUT_OF_RANGE", "1 to 16 simulated NPUs"),
        (
            "sim:npu2?power=turbo",
            "INVALID_ARGUMENT",
            "unknown option power; sim takes cols, float32, bfloat16, functions",
        ),
        ("npu?speed=1", "INVALID_ARGUMENT", "npu takes cols, float32, bfloat16, functions, power"),
        ("npu?cols=9", "INVALID_ARGUMENT", "cols must be 1 to 8, not '9'"),
        ("npu?cols=4.0", "INVALID_ARGUMENT", "cols must be 1 to 8, not '4.0'"),
        ("npu?power=fast", "INVALID_ARGUMENT", "power must be one of default, low, medium, high, turbo, not 'fast'"),
        ("npu?float32=on", "INVALID_ARGUMENT", "float32 must be one of exact, emulate, bfloat16, not 'on'"),
        ("npu?functions=fast", "INVALID_ARGUMENT", "functions must be one of exact, approximate, not 'fast'"),
        ("npu?", "INVALID_ARGUMENT", "the option '' is not of the form NAME=VALUE"),
        ("npu?cols", "INVALID_ARGUMENT", "the option 'cols' is not of the form"),
        ("npu?cols=4&cols=4", "INVALID_ARGUMENT", "the option cols is given twice"),
        ("npu?cols=4?x=4", "INVALID_ARGUMENT", "cols must be 1 to 8, not '4?x=4'"),
    ],
)
def test_malformed_uris_are_refused(text: str, code: str, words: str) -> None:
    with pytest.raises(DeviceError) as raised:
        parse_uri(text)
    assert raised.value.code == code
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("text", "uris"),
    [
        ("npu", ["npu"]),
        ("npu://0,1", ["npu://0,1"]),
        ("npu://0,1,npu://2,3", ["npu://0,1", "npu://2,3"]),
        ("npu://0000:c6:00.1,c7:00.1,cpu", ["npu://0000:c6:00.1,c7:00.1", "cpu"]),
        ("amdgpu://GPU-1,GPU-2, xdna", ["amdgpu://GPU-1,GPU-2", "xdna"]),
        ("npu://0?cols=4,sim:npu2,cpu", ["npu://0?cols=4", "sim:npu2", "cpu"]),
        # Text that cannot belong to the previous URI is separate, so that the error names it.
        ("cpu,gpu:0", ["cpu", "gpu:0"]),
        ("sim:npu2,npu2", ["sim:npu2", "npu2"]),
        ("sim:npu2,", ["sim:npu2", ""]),
        ("", [""]),
    ],
)
def test_lists(text: str, uris: list[str]) -> None:
    assert split_uris(text) == uris


@pytest.mark.parametrize(
    ("text", "arch", "wanted"),
    [
        ("npu", "aie2", Target(ARRAYS["aie2"], 4, "exact")),
        ("npu", "aie2p", Target(ARRAYS["aie2p"], 8, "exact")),
        ("npu:0?cols=4", "aie2p", Target(ARRAYS["aie2p"], 4, "exact")),
        ("npu?float32=emulate&cols=01", "aie2", Target(ARRAYS["aie2"], 1, "emulate")),
        ("sim:npu2?float32=bfloat16", "aie2p", Target(ARRAYS["aie2p"], 8, "bfloat16")),
        ("sim:npu2?functions=approximate", "aie2p", Target(ARRAYS["aie2p"], 8, functions="approximate")),
    ],
)
def test_targets(text: str, arch: str, wanted: Target) -> None:
    assert target(parse_uri(text), ARRAYS[arch]) == wanted


def test_a_target_has_no_more_columns_than_the_array() -> None:
    with pytest.raises(DeviceError, match="cols must be 1 to 4, not '8'") as raised:
        target(parse_uri("npu?cols=8"), ARRAYS["aie2"])
    assert raised.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sim:npu1", "sim:npu1?float32=emulate"),
        ("npu://0,1?cols=4", "npu://0,1?cols=4&float32=emulate"),
        ("sim:npu2?float32=exact", "sim:npu2?float32=exact"),
        ("cpu", "cpu"),
    ],
)
def test_with_default_adds_a_missing_option(text: str, expected: str) -> None:
    result = with_default(parse_uri(text), "float32", "emulate")
    assert result.text == expected
    assert result == parse_uri(expected)


def test_the_examples_hold() -> None:
    assert doctest.testmod(device_uri).attempted == 2
    assert doctest.testmod(device_uri).failed == 0


HEX = "0123456789abcdefABCDEF"
SELECTORS = st.one_of(
    st.integers(0, 999).map(str),
    st.builds("{}-{}".format, st.sampled_from(["AIE", "NPU", "GPU", "aie"]), st.text(HEX, min_size=16, max_size=16)),
    st.builds("{:04x}:{:02x}:{:02x}.{}".format, *(st.integers(0, most) for most in (0xFFFF, 0xFF, 0x1F, 7))),
    st.builds("{:02x}:{:02x}.{}".format, *(st.integers(0, most) for most in (0xFF, 0x1F, 7))),
)
VALUES = {
    "cols": st.integers(1, 8).map(str),
    "float32": st.sampled_from(get_args(Float32)),
    "bfloat16": st.sampled_from(get_args(Bfloat16)),
    "functions": st.sampled_from(get_args(Functions)),
    "power": st.sampled_from(["default", "low", "medium", "high", "turbo"]),
}


@st.composite
def npu_uris(draw: st.DrawFn) -> tuple[str, tuple[str, ...], dict[str, str]]:
    """A URI, its selectors and its options."""
    selectors = tuple(draw(st.lists(SELECTORS, max_size=4)))
    options = {name: draw(VALUES[name]) for name in draw(st.lists(st.sampled_from(sorted(VALUES)), unique=True))}
    query = "&".join(f"{name}={value}" for name, value in options.items())
    path = f"://{','.join(selectors)}" if selectors else ""
    return f"{draw(st.sampled_from(NPU_SCHEMES))}{path}{'?' if query else ''}{query}", selectors, options


@given(npu_uris())
def test_uris_round_trip(written: tuple[str, tuple[str, ...], dict[str, str]]) -> None:
    text, selectors, options = written
    uri = parse_uri(text)
    assert (uri.scheme, uri.selectors, uri.options, uri.text) == ("npu", selectors, options, text)


@given(
    st.lists(npu_uris().map(lambda uri: uri[0]) | st.sampled_from(["cpu", "sim:npu1", "sim:npu2x2?cols=4"]), min_size=1)
)
def test_a_joined_list_is_split_again(uris: list[str]) -> None:
    assert split_uris(",".join(uris)) == uris


PIECES = st.sampled_from(
    [*"0,:/?&=*-. ", "://", "npu", "cpu", "sim", "x2", "npu2", "AIE-0", "c6:00.1", "cols", "4", "power"]
)


@given(st.text() | st.lists(PIECES | st.characters(), max_size=12).map("".join), st.sampled_from(sorted(ARRAYS)))
def test_any_text_parses_or_raises_device_error(text: str, arch: str) -> None:
    for single in split_uris(text):
        try:
            uri = parse_uri(single)
            columns = target(uri, ARRAYS[arch]).columns
        except DeviceError:
            continue
        assert uri.text == single
        assert 1 <= columns <= ARRAYS[arch].columns
