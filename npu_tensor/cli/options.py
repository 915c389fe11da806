"""Options and error handling that commands share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click

from npu_tensor.config import config
from npu_tensor.errors import DeviceError
from npu_tensor.runtime.devices.device_uri import parse_uri, split_uris

Command = TypeVar("Command", bound=Callable[..., Any])


def device_option(default: str = "cpu") -> Callable[[Command], Command]:
    """Create the repeatable option `--device URI`. The command gets `device`, a list for `nt.set_default_device`.

    Every use adds a logical device, in order of preference.

    Args:
        default: Value without the option.
    """
    return click.option(
        "--device",
        metavar="URI",
        multiple=True,
        callback=lambda _context, _option, uris: _joined(uris) or default,
        help="Device that computes: cpu, npu, npu:0, npu://ID,ID or sim:npu2, also with options as in npu?cols=4. "
        f"Once per logical device, the preferred one first; `npu-tensor info` lists them.  [default: {default}]",
    )


@contextmanager
def device_errors() -> Iterator[None]:
    """Turn DeviceError into an error of the command, or of `--device` unless the device exists but is unusable."""
    try:
        yield
    except DeviceError as error:
        if error.code == "UNAVAILABLE":
            raise click.ClickException(str(error)) from None
        raise click.BadParameter(str(error), param_hint="--device") from None


def _joined(uris: tuple[str, ...]) -> str:
    for uri in uris:
        for single in split_uris(uri):
            try:
                parse_uri(single)
            except DeviceError as error:
                raise click.BadParameter(str(error)) from None
    return ",".join(uris)


def search_path_options(command: Command) -> Command:
    """Add `--xrt-search-path`, whose paths precede `config.xrt_path`, with the names of the seeds as aliases."""
    return click.option(
        "--xrt-search-path",
        "--libhsa-search-path",
        "--amdgpu_libhsa_search_path",
        metavar="PATH",
        type=click.Path(path_type=Path),
        multiple=True,
        expose_value=False,
        is_eager=True,  # before other options, which may search for devices
        callback=_precede,
        help="File or directory where XRT, pyxrt and libhsa-runtime64 are looked for first. Repeatable.",
    )(command)


def _precede(_context: click.Context, _option: click.Parameter, paths: tuple[Path, ...]) -> None:
    if paths:
        config.xrt_path = (*paths, *config.xrt_path)
