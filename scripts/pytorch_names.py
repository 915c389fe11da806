"""Print the share of PyTorch's names that npu_tensor has, and the missing names.

The names are PyTorch's own list of public functions and methods of tensors (`torch.overrides`) and its functions that
create tensors, without the intentional omissions in LEFT_OUT.

    python scripts/pytorch_names.py            # the shares
    python scripts/pytorch_names.py --missing  # and the names
"""

from __future__ import annotations

import argparse
import re
from typing import Any, Final

import torch

import npu_tensor
import npu_tensor.nn.functional

LEFT_OUT: Final = {
    "complex numbers": r"complex|conj|angle|imag|real$|eigvals$|polar|adjoint|m?H$|c(float|double|half)$|stft|resolve_",
    "quantization": r"quant|^q_|qscheme|int_repr|fake_",
    "sparse and nested tensors": (
        r"sparse|coalesce|(crow|ccol|row|col)_indices|^(indices|values)$|[hs]s?p?add?mm$|h?sp?mm$|dsmm|dense|padded|nested"
    ),
    "other processors and their libraries": (
        r"cudnn|miopen|mkldnn|fbgemm|cufft|_gpu|^(cuda|xpu|ipu|mtia|hpu|mps|maia)$|get_device|pin(ned)?(_memory)?$"
        r"|is_(cuda|ipu|maia|meta|mps|mtia|vulkan|xla|xpu)|record_stream|shared?_memory|is_shared"
    ),
    "autograd's internals and hooks": (
        r"grad_fn|hook|retain|grad_dtype|inference$|output_nr|volatile|reinforce|detach_copy|is_neg$|is_set_to"
    ),
    "memory behind a tensor": (
        r"storage|data_ptr|^set_$|resize|strided|dim_order|module_load|as_subclass|^name$|^new$|map2?_$|apply_"
    ),
    "variants for compilers": (
        r"^sym_|native_|_with_indices$|hash_tensor|^unsafe_|_backward|batch_norm_|_cell$|segment_reduce|slice_inverse"
        r"|(alias|detach|diagonal|expand|narrow|permute|select|slice|split|squeeze|^t|transpose|unbind|unfold|sizes|view|real)"
        r"_copy$|convolution|grid_generator|grid_sampler|^lstm$|^gru$|^rnn_|grouped_mm|scaled_mm|linear_cross|frobenius"
        r"|nuclear_norm|norm_except_dim|multi_head_attention_forward|handle_torch|embedding_renorm|layout|feature_|dropout_$"
    ),
    "withdrawn by PyTorch, or LAPACK's own": (
        r"^(eig|symeig|lstsq|triangular_solve|solve|chain_matmul|lu|lu_solve|lu_unpack|geqrf|ormqr|orgqr)$"
        r"|^(ldl_\w+|householder_product|lu_factor)$|_ex$"
    ),
}
"""Name patterns of intentional omissions, by reason."""

# Functions that create tensors or describe dtypes take no tensors, so `torch.overrides` does not list them.
MAKERS: Final = (
    "arange as_tensor asarray bartlett_window blackman_window can_cast device dtype empty eye finfo from_numpy full "
    "get_default_dtype hamming_window hann_window iinfo is_grad_enabled is_tensor kaiser_window linspace logspace "
    "manual_seed no_grad ones promote_types rand randint randn randperm range save load scalar_tensor seed "
    "set_default_dtype set_grad_enabled Size tensor tril_indices triu_indices vander zeros Generator"
)


def names() -> dict[str, tuple[Any, list[str]]]:
    """Return npu_tensor's counterpart of each PyTorch namespace, and the expected names."""
    listed: dict[str, set[str]] = {"torch": set(MAKERS.split())}
    for owner, functions in torch.overrides.get_overridable_functions().items():
        where = getattr(owner, "__name__", "Tensor")
        if where not in ("torch.functional", "torch.nn.functional", "torch.linalg", "torch.fft", "torch.special"):
            where = "torch" if where == "torch" else "Tensor"
        attributes = {function.__name__.removeprefix("linalg_") for function in functions}
        listed.setdefault("torch" if where == "torch.functional" else where, set()).update(attributes)
    ours = {
        "torch": npu_tensor,
        "Tensor": npu_tensor.Tensor,
        "torch.nn.functional": npu_tensor.nn.functional,
        "torch.linalg": npu_tensor.linalg,
    }
    left_out = re.compile("|".join(LEFT_OUT.values()))
    return {
        where: (owner, sorted(n for n in listed[where] if not n.startswith("_") and not left_out.search(n)))
        for where, owner in ours.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--missing", action="store_true", help="print the names that are missing")
    arguments = parser.parse_args()
    for where, (owner, wanted) in names().items():
        missing = [name for name in wanted if not hasattr(owner, name)]
        print(f"{where:<20} {len(wanted) - len(missing):4} of {len(wanted):4}  {1 - len(missing) / len(wanted):6.1%}")
        if arguments.missing:
            print("   ", " ".join(missing))


if __name__ == "__main__":
    main()
