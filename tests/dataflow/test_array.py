"""The names of the arrays."""

import pytest

from npu_tensor.config import config
from npu_tensor.dataflow.array import ARRAYS, Arch, arch_of, configured_arch
from npu_tensor.errors import DeviceError


@pytest.mark.parametrize(
    ("arch", "names"),
    [
        # Names that xrt-smi, the driver, lspci and AMD use.
        ("aie2", "npu1 RyzenAI-npu1 Phoenix PHOENIX 1022:1502"),
        ("aie2", "NPU_Phoenix Hawk_Point NPU-Hawk-Point hawk-point"),
        ("aie2p", "npu2 npu4 RyzenAI-npu4 RyzenAI-npu5 RyzenAI-npu6 Strix strix-halo 1022:17F0"),
        ("aie2p", "NPU_Strix NPU_Strix_Halo NPU_Krackan Strix_Point Krackan"),
    ],
)
def test_arch_of_knows_the_names_in_use(arch: Arch, names: str) -> None:
    for name in names.split():
        assert arch_of(name) == arch
        assert arch_of(f" {name.replace('_', ' ')} ") == arch


def test_every_array_is_known_by_its_own_names() -> None:
    for arch, array in ARRAYS.items():
        assert arch_of(arch) == arch_of(array.device) == array.arch


@pytest.mark.parametrize("name", ["", "npu", "npu3", "aie", "aie2ps", "gfx1100", "NPU"])
def test_other_names_are_errors_that_list_the_known_ones(name: str) -> None:
    with pytest.raises(DeviceError, match=r"aie2: .*Phoenix.*aie2p: .*Krackan"):
        arch_of(name)


def test_the_setting_says_which_array_where_none_is_asked() -> None:
    with config.scope(arch=""):
        assert configured_arch() is None
    with config.scope(arch="Strix Halo"):
        assert configured_arch() == "aie2p"
    with config.scope(arch="npu9"), pytest.raises(DeviceError, match=r"config.arch: there is no array 'npu9'"):
        configured_arch()
