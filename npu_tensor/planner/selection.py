"""The devices that take tasks, the policy that chooses between them, and the cache of plans made for both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_args

from npu_tensor._util.forks import new_lock
from npu_tensor._util.user_warnings import warn
from npu_tensor.config import Policy, config
from npu_tensor.errors import ArgumentError, DeviceError, reworded
from npu_tensor.planner.measures import MEASURES, Measure
from npu_tensor.planner.plan import Plan
from npu_tensor.runtime.devices.backends import close_devices, open_device, preferred_uris
from npu_tensor.runtime.devices.device_kind import DeviceUri
from npu_tensor.runtime.devices.device_uri import split_uris
from npu_tensor.runtime.devices.host import allocator, forget_host_devices, host_step
from npu_tensor.task import Accelerator, AsynchronousDevice


class Key(NamedTuple):
    """Devices and policy that the user asks for.

    Attributes:
        uris: Device URIs, separated by commas.
        policy: Policy that chooses between devices.
        without_host: True if the processor must not run tasks.
    """

    uris: str
    policy: Policy
    without_host: bool = False


@dataclass(slots=True, eq=False)
class Selection:
    """Devices in order of preference, and the plans made for them.

    Attributes:
        key: Devices and policy that the user asks for.
        accelerators: Devices preferred to the host; None until they are opened.
        measure: Measure that decides between devices; None for the first device that takes a task.
        plans: Plans by the key of the structure and all else that a placement depends on.
    """

    key: Key
    accelerators: tuple[Accelerator, ...] | None = None
    measure: Measure | None = None
    plans: dict[Any, Plan] = field(default_factory=dict, repr=False)


lock = new_lock()

_opened_devices: dict[str, Accelerator] = {}
_selections: dict[Key, Selection] = {}
active = Selection(Key("", "auto"))
"""Default devices. They have no URI until the first call of `default_device`, which reads the setting."""

selection_changed: list[Callable[[], None]] = []
"""Callbacks for a change of the default devices."""

before_reset: list[Callable[[], None]] = []
"""Callbacks for `reset`."""


def accelerators(selection: Selection) -> tuple[Accelerator, ...]:
    """Open the devices of a selection and return them in order of preference, without those of the host.

    A missing device in NPU_TENSOR_DEVICE is left out with a warning, unless NPU_TENSOR_FALLBACK forbids the CPU.

    Raises:
        DeviceError: The setting does not name a device.
    """
    if selection.accelerators is None:
        uris = selection.key.uris or default_device()
        try:
            _fill(selection, _opened(uris, cpu_allowed=config.fallback != "error"))
        except DeviceError as error:
            raise reworded(error, f"{config.origin('device')}={uris!r}: {error}") from error.__cause__
        assert selection.accelerators is not None
    return selection.accelerators


def _fill(selection: Selection, opened: list[Accelerator]) -> None:
    policy = selection.key.policy
    if policy == "auto":
        # A simulated NPU is always slower than the processor; a user selects it to see it work.
        policy = "always" if all(device.uri.startswith("sim:") for device in opened) else "latency"
    selection.measure = MEASURES[policy] if opened and policy != "always" else None
    selection.accelerators = tuple(opened)


def _opened(uris: str, cpu_allowed: bool) -> list[Accelerator]:
    """Open devices. One that fails is skipped with a warning if another one, or the CPU if allowed, can run the ops."""
    preferred = preferred_uris(uris)
    devices: list[Accelerator] = []
    errors: list[DeviceError] = []
    for uri in preferred:
        try:
            devices.append(_device_at(uri))
        except DeviceError as error:
            errors.append(error)
    if errors and not (devices or cpu_allowed or len(split_uris(uris)) > len(preferred)):
        raise errors[0]
    for left_out in errors:
        warn(f"left out: {left_out}")
    return devices


def _device_at(uri: DeviceUri) -> Accelerator:
    """Return the device of a URI. It stays open."""
    device = _opened_devices.get(uri.text)
    if device is None:
        device = _opened_devices[uri.text] = open_device(uri, allocator(), host_step)
    return device


def synchronize() -> None:
    """Wait for all work of asynchronous devices. Raise the error of failed work."""
    for device in list(_opened_devices.values()):
        if isinstance(device, AsynchronousDevice):
            device.synchronize()


def default_device() -> str:
    """Return the URIs passed to `select`, or those in NPU_TENSOR_DEVICE."""
    if not active.key.uris:
        active.key = Key(config.device, config.policy)
        _selections.setdefault(active.key, active)
    return active.key.uris


def in_use(uri: str) -> bool:
    """Return True if `uri` is "cpu", a default device, an open device, or a member of one."""
    opened = [member.uri for device in list(_opened_devices.values()) for member in (device, *device.members)]
    return uri in ("cpu", *split_uris(default_device()), *opened)


def current() -> Selection:
    """Return the default devices, with their URIs."""
    default_device()
    return active


def select(uris: str, policy: Policy | None = None) -> None:
    """Set the default devices. Plans are kept for each selection, so changing back costs nothing.

    Args:
        uris: Device URIs, separated by commas, the preferred one first.
        policy: Policy that chooses between devices; None for that of NPU_TENSOR_POLICY.

    Raises:
        DeviceError: A device cannot be opened.
    """
    global active
    active = selection_of(uris, policy)
    for changed in selection_changed:
        changed()


def forced(uris: str) -> Selection:
    """Return the devices at `uris`, without the processor unless it is among them. Raises DeviceError."""
    return _selection(Key(uris, "always", without_host=len(preferred_uris(uris)) == len(split_uris(uris))))


def selection_of(uris: str, policy: Policy | None = None) -> Selection:
    """Return the selection that `select` makes the default. Raises DeviceError, ArgumentError."""
    policy = config.policy if policy is None else policy
    if policy not in get_args(Policy):
        raise ArgumentError(f"there is no policy {policy!r}; there are {', '.join(get_args(Policy))}")
    return _selection(Key(uris, policy))


def _selection(key: Key) -> Selection:
    key = key._replace(uris=",".join(split_uris(key.uris)))  # " cpu" shares the plans of "cpu".
    with lock:
        selection = _selections.get(key)
        if selection is None:
            selection = Selection(key)
            _fill(selection, _opened(key.uris, cpu_allowed=False))
            _selections[key] = selection
        return selection


def reset_plans() -> None:
    """Drop all plans except those of functions captured by jit."""
    with lock:
        for selection in _selections.values():
            selection.plans = {}  # A thread that is planning stores its plan in the old dict.


def reset() -> None:
    """Drop all plans and devices, so that the settings of the devices are read again."""
    reset_plans()
    for forget in before_reset:
        forget()
    forget_host_devices()
    _opened_devices.clear()
    active.accelerators = None
    _selections.clear()
    if active.key.uris:
        _selections[active.key] = active
    close_devices()  # Last: it waits, and an interrupt may end that.
