"""What every call takes in every release, as data, and the check of calls against it.

Each entry lists the releases with a new parameter list, oldest first. A release without an entry before it does not
have the call. `self` is left out.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from . import RELEASES, since

__all__ = ["SIGNATURES", "checked", "signature"]

SIGNATURES: dict[str, dict[str, str]] = {
    "ObjectFifo": {
        "1.3.4": "obj_type, *, depth=2, name=None, dims_to_stream=None, dims_from_stream_per_cons=None, plio=False,"
        " pad_dimensions=None, disable_synchronization=False, repeat_count=None, delegate_tile=None, via_DMA=False,"
        " init_values=None, consumer_obj_type=None, aie_stream=None",
        "1.4.1": "obj_type, *, depth=2, name=None, dims_to_stream=None, dims_from_stream_per_cons=None, plio=False,"
        " pad_dimensions=None, pad_value=0, disable_synchronization=False, repeat_count=None, delegate_tile=None,"
        " via_DMA=False, init_values=None, consumer_obj_type=None, aie_stream=None",
    },
    "ObjectFifo.prod": {
        "1.3.4": "depth=None",
        "1.4.0": "depth=None, channel=None, tile=None",
    },
    "ObjectFifo.cons": {
        "1.3.4": "depth=None, dims_from_stream=None",
        "1.4.0": "depth=None, dims_from_stream=None, channel=None, tile=None",
    },
    "ObjectFifoHandle.acquire": {"1.3.4": "num_elem"},
    "ObjectFifoHandle.release": {"1.3.4": "num_elem"},
    "ObjectFifoHandle.join": {
        "1.3.4": "offsets, tile=AnyMemTile, depths=None, obj_types=None, names=None, dims_to_stream=None,"
        " dims_from_stream=None, plio=False, repeat_counts=None",
    },
    "ObjectFifoHandle.split": {
        "1.3.4": "offsets, tile=AnyMemTile, depths=None, obj_types=None, names=None, dims_to_stream=None,"
        " dims_from_stream=None, plio=False, repeat_counts=None",
        "1.4.1": "offsets, tile=AnyMemTile, depths=None, obj_types=None, names=None, dims_to_stream=None,"
        " dims_from_stream=None, plio=False, repeat_counts=None, pad_dimensions=None, pad_value=None",
    },
    "ObjectFifoHandle.forward": {
        "1.3.4": "tile=AnyMemTile, obj_type=None, depth=None, name=None, dims_to_stream=None, dims_from_stream=None,"
        " plio=False, repeat_count=None",
        "1.4.1": "tile=AnyMemTile, obj_type=None, depth=None, name=None, dims_to_stream=None, dims_from_stream=None,"
        " plio=False, repeat_count=None, pad_dimensions=None, pad_value=0",
    },
    "ObjectFifoHandle.fill": {
        "1.4.0": "source, tap=None, wait=False, packet=None, offset_parameter=None, group=None, sizes=None,"
        " strides=None, offset=None, transfer_len=None, managed=True",
    },
    "ObjectFifoHandle.drain": {
        "1.4.0": "dest, tap=None, wait=False, packet=None, offset_parameter=None, group=None, sizes=None,"
        " strides=None, offset=None, transfer_len=None, managed=True",
    },
    "Worker": {
        "1.3.4": "core_fn, fn_args=None, tile=AnyComputeTile, while_true=True, stack_size=None,"
        " allocation_scheme=None, trace=None, trace_events=None, dynamic_objfifo_lowering=None",
    },
    "Kernel": {
        "1.3.4": "name, object_file_name, arg_types=None",
        "1.4.0": "name, object_file_name, arg_types=None, *, link_with_mode=None",
    },
    "ExternalFunction": {
        "1.3.4": "name, object_file_name=None, source_file=None, source_string=None, arg_types=None,"
        " include_dirs=None, compile_flags=None, *, symbol_prefix=None, use_chess=False",
        "1.4.0": "name, object_file_name=None, source_file=None, source_string=None, arg_types=None,"
        " include_dirs=None, compile_flags=None, *, symbol_prefix=None, use_chess=False, inline=False",
    },
    "Buffer": {
        "1.3.4": "type=None, initial_value=None, name=None, tile=None, use_write_rtp=False",
        "1.4.0": "type=None, initial_value=None, name=None, tile=None, use_write_rtp=False, address=None",
    },
    "Tile": {"1.3.4": "col=None, row=None, *, tile_type=None, allocation_scheme=None"},
    "Runtime": {
        "1.3.4": "strict_task_groups=True",
        "1.4.0": "seq_fn, fn_args=None, *, strict_task_groups=True",
    },
    "Runtime.fill": {
        "1.3.4": "in_fifo, source, tap=None, task_group=None, wait=False, tile=AnyShimTile, packet=None,"
        " offset_parameter=None",
    },
    "Runtime.drain": {
        "1.3.4": "out_fifo, dest, tap=None, task_group=None, wait=False, tile=AnyShimTile, packet=None,"
        " offset_parameter=None",
    },
    "Runtime.finish_task_group": {"1.3.4": "task_group"},
    "Runtime.inline_ops": {"1.3.4": "inline_func, inline_args"},
    "TaskGroup": {"1.4.0": "id=None"},
    "Program": {
        "1.3.4": "device, rt",
        "1.4.0": "device, rt, workers=None",
    },
    "Program.resolve_program": {"1.3.4": "device_name='main'"},
    "TensorAccessPattern": {"1.3.4": "tensor_dims, offset, sizes, strides"},
    "range_": {"1.3.4": "start, stop=None, step=None, iter_args=None, insert_yield=True, *, loc=None, ip=None"},
    "compile_cxx_core_function": {
        "1.3.4": "source_path, target_arch, output_path, include_dirs=None, compile_args=None, cwd=None,"
        " use_chess=False",
        "1.4.0": "source_path, target_arch, output_path, include_dirs=None, compile_args=None, cwd=None,"
        " use_chess=False, inline=False, symbol_name=None",
    },
    "compile_external_kernel": {"1.3.4": "func, kernel_dir, target_arch"},
    "compile_mlir_module": {
        "1.3.4": "mlir_module, insts_path=None, pdi_path=None, xclbin_path=None, elf_path=None, verbose=False,"
        " work_dir=None, options=None, use_chess=False, device=None",
        "1.4.0": "mlir_module, insts_path=None, pdi_path=None, xclbin_path=None, elf_path=None, full_elf_path=None,"
        " verbose=False, work_dir=None, options=None, use_chess=False, device=None",
        "1.4.1": "mlir_module, insts_path=None, pdi_path=None, xclbin_path=None, elf_path=None, full_elf_path=None,"
        " verbose=False, work_dir=None, options=None, use_chess=False, device=None, fold_ddr_addr_offset=True",
    },
    "resolve_target_arch": {"1.3.4": "device=None"},
}


def signature(name: str) -> inspect.Signature | None:
    """Of a call in the release that is stood in for; None if it has none."""
    found = None
    for release in RELEASES:
        if since(release):
            found = SIGNATURES[name].get(release, found)
    if found is None:
        return None
    names: dict[str, Any] = {}
    if "Any" in found:
        from ..iron import device as names_of_tiles

        names = vars(names_of_tiles)
    return inspect.signature(eval(f"lambda {found}: None", names))


def checked(name: str, method: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a function take what `name` takes. It is called with all arguments by name.

    Those that it has no parameter for are not modelled: any value but the default raises NotImplementedError.
    """
    found = signature(name)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if found is None:
            return function
        parameters = inspect.signature(function).parameters
        called = found
        if method:
            own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
            called = found.replace(parameters=[own, *found.parameters.values()])

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                bound = called.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{name}(): {error}") from None
            bound.apply_defaults()
            given = {}
            for parameter, value in bound.arguments.items():
                if parameter in parameters:
                    given[parameter] = value
                elif value != called.parameters[parameter].default:
                    raise NotImplementedError(f"{name}(): the stand-in does not model {parameter}={value!r}")
            return function(**given)

        call.__signature__ = called  # type: ignore[attr-defined]
        return call

    return decorate
