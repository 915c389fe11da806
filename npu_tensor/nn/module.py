"""Module: the base of all layers, with PyTorch's methods and names of parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from npu_tensor.dtypes import bfloat16, float16, float32, float64
from npu_tensor.errors import ArgumentError, DTypeError, no_such_name
from npu_tensor.functions.creation import tensor_of_any
from npu_tensor.functions.pytorch_arguments import no_grad
from npu_tensor.graph.tracing import current_watch, watches
from npu_tensor.nn.parameter import Parameter
from npu_tensor.tensor import NO_TRANSFER, Tensor

Self = TypeVar("Self", bound="Module")


_NO_BACKWARD_HOOKS = "call retain_grad() of a result in a forward hook, and read its grad after backward()"
_HINTS = {
    "cuda": NO_TRANSFER,
    "npu": NO_TRANSFER,
    "register_full_backward_hook": _NO_BACKWARD_HOOKS,
    "register_full_backward_pre_hook": _NO_BACKWARD_HOOKS,
}
"""Hints for attributes that PyTorch's modules have and these modules do not."""


class IncompatibleKeys(NamedTuple):
    """Names that `load_state_dict` did not find, and names that it did not use."""

    missing_keys: list[str]
    unexpected_keys: list[str]


@dataclass(frozen=True, slots=True, eq=False)
class _Hook:
    """Function that a module calls before or after `forward`."""

    function: Callable[..., Any]
    with_kwargs: bool
    is_pre: bool


class RemovableHandle:
    """Handle of a hook. `remove`, or the end of a with block, removes the hook from its module."""

    def __init__(self, module: Module, hook: _Hook) -> None:
        self._module, self._hook = module, hook

    def remove(self) -> None:
        """Remove the hook. Further calls have no effect."""
        self._module._forward_hooks = tuple(each for each in self._module._forward_hooks if each is not self._hook)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


class Module:
    """Base of layers and networks. Define `forward`; attributes that are parameters or modules become its parts.

    Attributes:
        shown: Names of the attributes that `repr` shows. Those before a colon are shown without their names.
    """

    shown: ClassVar[str] = ""
    _buffers: Mapping[str, bool] = MappingProxyType({})  # True for those that are part of the state.
    _forward_hooks: tuple[_Hook, ...] = ()  # In the order of registration.

    if TYPE_CHECKING:  # Attributes that are set by name.

        def __getattr__(self, name: str) -> Any: ...

    else:

        def __getattr__(self, name: str) -> Any:
            """Resolve an attribute that was not found."""
            if name in _HINTS:
                raise no_such_name(f"{type(self).__name__!r} object", name, (), _HINTS[name])
            return super().__getattribute__(name)  # Raises the error again, also that of a property.

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(vars(self).get(name), Parameter) and not isinstance(value, Parameter | None):
            text = f"cannot assign '{type(value).__name__}' as parameter '{name}' (Parameter or None expected)"
            raise TypeError(text)
        super().__setattr__(name, value)

    @property
    def training(self) -> bool:
        """True in training mode. A function under `jit` that reads it has a capture for each mode."""
        mode: bool = vars(self).get("training", True)
        if watches and (watch := current_watch()) is not None:
            watch.modules[id(self)] = self, mode
        return mode

    @training.setter
    def training(self, mode: bool) -> None:
        vars(self)["training"] = mode

    def forward(self, *inputs: Any, **keywords: Any) -> Any:
        """Compute the result of calling the module."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *inputs: Any, **keywords: Any) -> Any:
        """Call `forward`, with the hooks before and after it."""
        if self._forward_hooks:
            return self._call_with_hooks(inputs, keywords)
        return self.forward(*inputs, **keywords)

    # --- hooks

    def register_forward_pre_hook(self, hook: Callable[..., Any], *, with_kwargs: bool = False) -> RemovableHandle:
        """Call a function before each `forward`. Hooks run in the order of registration.

        Under `jit` a hook runs while a call is captured, and not when the capture is replayed.

        Args:
            hook: Function of the module and the tuple of arguments. A result other than None replaces the arguments; a
                value that is not a tuple counts as a single argument.
            with_kwargs: Pass the keyword arguments to the hook, too, as a dict. It then returns None or (args, kwargs).

        Returns:
            Handle that removes the hook.
        """
        return self._register_forward_hook(_Hook(hook, with_kwargs, is_pre=True))

    def register_forward_hook(self, hook: Callable[..., Any], *, with_kwargs: bool = False) -> RemovableHandle:
        """Call a function after each `forward`. Hooks run in the order of registration.

        Under `jit` a hook runs while a call is captured, and not when the capture is replayed.

        Args:
            hook: Function of the module, the tuple of arguments and the output. A result other than None replaces the
                output.
            with_kwargs: Pass the keyword arguments to the hook, too, as a dict before the output.

        Returns:
            Handle that removes the hook.
        """
        return self._register_forward_hook(_Hook(hook, with_kwargs, is_pre=False))

    def _register_forward_hook(self, hook: _Hook) -> RemovableHandle:
        self._forward_hooks = (*self._forward_hooks, hook)
        return RemovableHandle(self, hook)

    def _call_with_hooks(self, inputs: Any, keywords: dict[str, Any]) -> Any:
        for hook in self._forward_hooks:
            if not hook.is_pre:
                continue
            changed = hook.function(self, inputs, keywords) if hook.with_kwargs else hook.function(self, inputs)
            if changed is None:
                continue
            if not hook.with_kwargs:
                inputs = changed if isinstance(changed, tuple) else (changed,)
            elif isinstance(changed, tuple) and len(changed) == 2:
                inputs, keywords = changed
            else:
                raise ArgumentError(f"a forward pre-hook with_kwargs returns None or (args, kwargs), not {changed!r}")
        output = self.forward(*inputs, **keywords)
        for hook in self._forward_hooks:
            if not hook.is_pre:
                seen = (self, inputs, keywords, output) if hook.with_kwargs else (self, inputs, output)
                changed = hook.function(*seen)
                output = output if changed is None else changed
        return output

    # --- parts

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is not trained, such as a running mean.

        Args:
            name: Name of the attribute.
            tensor: The tensor, or None.
            persistent: Include it in the state dict.
        """
        self._buffers = {**self._buffers, name: persistent}
        setattr(self, name, tensor)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, or None."""
        setattr(self, name, param)

    def get_submodule(self, target: str) -> Module:
        """Return the module at a path such as "layers.0". Raises AttributeError if there is none."""
        module: Any = self
        for name in target.split(".") if target else ():
            module = vars(module).get(name)
            if not isinstance(module, Module):
                raise AttributeError(f"{type(self).__name__} has no module {target!r}")
        return module  # type: ignore[no-any-return]

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at a path. Raises AttributeError if there is none."""
        return self._at(target, lambda module: module._own(Parameter), "parameter")  # type: ignore[return-value]

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a path. Raises AttributeError if there is none."""
        return self._at(target, Module._own_buffers, "buffer")

    def _at(self, target: str, own: Callable[[Module], list[tuple[str, Any]]], kind: str) -> Tensor:
        path, _, name = target.rpartition(".")
        tensor = dict(own(self.get_submodule(path))).get(name)
        if tensor is None:
            raise AttributeError(f"{type(self).__name__} has no {kind} {target!r}")
        return tensor  # type: ignore[no-any-return]

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a module. Raises KeyError if another attribute has the name."""
        if hasattr(self, name) and name not in dict(self._own(Module)):
            raise KeyError(f"attribute '{name}' already exists")
        setattr(self, name, module)

    register_module = add_module

    def _own(self, kind: type) -> list[tuple[str, Any]]:
        """Return the attributes of a type, in the order in which they were first set."""
        return [(name, value) for name, value in vars(self).items() if isinstance(value, kind)]

    def _own_buffers(self) -> list[tuple[str, Tensor]]:
        return [(name, vars(self)[name]) for name in self._buffers if vars(self).get(name) is not None]

    def _own_state(self) -> list[tuple[str, Tensor]]:
        return self._own(Parameter) + [pair for pair in self._own_buffers() if self._buffers[pair[0]]]

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Return the modules that are attributes with their names, each once."""
        seen: set[Module] = set()
        for name, child in self._own(Module):
            if child not in seen:
                seen.add(child)
                yield name, child

    def children(self) -> Iterator[Module]:
        """Return the modules that are attributes, each once."""
        return (child for _, child in self.named_children())

    def named_modules(self, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """Return this module and all modules inside with their paths."""
        seen: set[Module] = set()

        def inside(path: str, module: Module) -> Iterator[tuple[str, Module]]:
            if module not in seen or not remove_duplicate:
                seen.add(module)
                yield path, module
                for name, child in module._own(Module):
                    yield from inside(_path(path, name), child)

        return inside(prefix, self)

    def modules(self) -> Iterator[Module]:
        """Return this module and all modules inside."""
        return (module for _, module in self.named_modules())

    def _named(
        self, own: Callable[[Module], list[tuple[str, Any]]], prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[Tensor] = set()
        for path, module in self.named_modules(prefix, remove_duplicate) if recurse else ((prefix, self),):
            for name, tensor in own(module):
                if tensor not in seen or not remove_duplicate:
                    seen.add(tensor)
                    yield _path(path, name), tensor

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Return all parameters with their paths."""
        return self._named(lambda module: module._own(Parameter), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Return all parameters."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Return all buffers with their paths."""
        return self._named(Module._own_buffers, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Return all buffers."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    # --- state

    def state_dict(self, prefix: str = "", keep_vars: bool = False) -> dict[str, Tensor]:
        """Return parameters and persistent buffers by path, for `npu_tensor.save`.

        Args:
            prefix: Text before each path.
            keep_vars: Return the parameters themselves instead of detached tensors.
        """
        own = self._named(Module._own_state, "", True, False)
        return {prefix + name: each if keep_vars else each.detach() for name, each in own}

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Write tensors, NumPy arrays or PyTorch's tensors to the parameters and buffers of these names.

        Args:
            state_dict: Values by path. They are converted to the dtypes of the module.
            strict: Require exactly the names of the module.
            assign: Replace the parameters and buffers by the values, which keep their dtypes. Functions that `jit` has
                already captured keep the former ones.

        Returns:
            The missing and unexpected names.

        Raises:
            ArgumentError: Shapes differ, or `strict` is set and names are missing or unexpected. Nothing is written.
        """
        own = dict(self._named(Module._own_state, "", True, False))
        keys = IncompatibleKeys(
            [name for name in own if name not in state_dict], [name for name in state_dict if name not in own]
        )
        problems = [
            f"{kind} key(s) in state_dict: " + ", ".join([f'"{name}"' for name in names]) + ". "
            for kind, names in (("Missing", keys[0]), ("Unexpected", keys[1]))
            if names and strict
        ]
        values = {name: tensor_of_any(state_dict[name]) for name in own if name in state_dict}
        problems += [
            f"size mismatch for {name}: copying a param with shape {list(value.shape)} from checkpoint, "
            f"the shape in current model is {list(own[name].shape)}."
            for name, value in values.items()
            if value.shape != own[name].shape
        ]
        if problems:
            raise ArgumentError("\n\t".join([f"Error(s) in loading state_dict for {type(self).__name__}:", *problems]))
        with no_grad():
            if assign:
                self._exchange({own[name]: _as_part(own[name], value) for name, value in values.items()})
                return keys
            for name, value in values.items():
                own[name]._assign(value.to(own[name].dtype))
        return keys

    def _exchange(self, tensors: Mapping[Tensor, Tensor]) -> None:
        """Replace parameters and buffers in this module and all modules inside."""
        for module in self.modules():
            for name, tensor in module._own(Tensor):
                if tensor in tensors:
                    vars(module)[name] = tensors[tensor]

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Convert float parameters and buffers as `Tensor.to` does. Changed ones are replaced by new tensors.

        Convert a module before you pass its parameters to an optimizer, and before `jit` captures it.
        """
        changed: dict[Tensor, Tensor] = {}
        with no_grad():
            for tensor in (*self.parameters(), *self.buffers()):
                if not tensor.is_floating_point():
                    continue
                converted = tensor.to(*args, **kwargs)
                if not converted.is_floating_point():
                    raise DTypeError(f"a module's parameters must be floats, not {converted.dtype.name}")
                if converted is not tensor:
                    is_parameter = isinstance(tensor, Parameter)
                    changed[tensor] = Parameter(converted, tensor.requires_grad) if is_parameter else converted
        self._exchange(changed)
        return self

    def type(self: Self, dst_type: Any) -> Self:
        """Convert float parameters and buffers to a dtype."""
        return self.to(dst_type)

    def cpu(self: Self) -> Self:
        """Return the module unchanged; the planner moves tensors to devices."""
        return self

    def float(self: Self) -> Self:
        """Convert float parameters and buffers to float32."""
        return self.to(float32)

    def double(self: Self) -> Self:
        """Convert float parameters and buffers to float64."""
        return self.to(float64)

    def half(self: Self) -> Self:
        """Convert float parameters and buffers to float16."""
        return self.to(float16)

    def bfloat16(self: Self) -> Self:
        """Convert float parameters and buffers to bfloat16."""
        return self.to(bfloat16)

    # --- modes

    def train(self: Self, mode: bool = True) -> Self:
        """Set the training mode of all modules inside, which layers such as dropout read."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: Self) -> Self:
        """Leave the training mode."""
        return self.train(False)

    def apply(self: Self, fn: Callable[[Module], object]) -> Self:
        """Call a function with every module inside, then with this one."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Enable or disable gradients of the parameters."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of the parameters, or set them to zero."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.zero_()

    # --- text

    def extra_repr(self) -> str:
        """Return the text that `repr` shows for the module itself."""
        plain, _, named = self.shown.rpartition(":")
        values = {name: getattr(self, name) for name in (*plain.split(), *named.split())}
        if "bias" in values:
            values["bias"] = values["bias"] is not None and values["bias"] is not False
        return ", ".join(
            [*(str(values[name]) for name in plain.split()), *(f"{name}={values[name]!r}" for name in named.split())]
        )

    def _changed_options(self, **defaults: Any) -> str:
        """Return the options that differ from their defaults, each after a comma, for `extra_repr`."""
        values = ((name, getattr(self, name, default), default) for name, default in defaults.items())
        return "".join(f", {name}={value}" for name, value, default in values if value != default)

    def _parts_shown(self) -> Iterable[tuple[str, str]]:
        return ((f"({name}): ", repr(child)) for name, child in self._own(Module))

    def __repr__(self) -> str:
        extra = self.extra_repr()
        parts = [f"{name}{text}".replace("\n", "\n  ") for name, text in self._parts_shown()]
        if not parts:
            return f"{type(self).__name__}({extra})"
        lines = [*([extra] if extra else []), *parts]
        return "\n  ".join([f"{type(self).__name__}(", *lines]) + "\n)"


def _path(parent: str, name: str) -> str:
    return f"{parent}.{name}" if parent else name


def _as_part(part: Tensor, value: Tensor) -> Tensor:
    """Convert a value to a parameter if it replaces one."""
    return Parameter(value, part.requires_grad) if isinstance(part, Parameter) else value


def functional_call(
    module: Module,
    parameters_and_buffers: Mapping[str, Tensor] | tuple[Mapping[str, Tensor], ...],
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """Call a module with other tensors in place of parameters and buffers, so that it can be differentiated by them.

        nt.grad(lambda p: functional_call(model, p, x).sum())(dict(model.named_parameters()))

    Args:
        module: Module to call.
        parameters_and_buffers: Tensors by path, or a tuple of such mappings. A tensor that has several paths is
            replaced at all of them.
        args: Arguments of the module, a tuple or a single one.
        kwargs: Keyword arguments of the module.

    Returns:
        The result of the module.

    Raises:
        ArgumentError: The module has no parameter or buffer of a name.
    """
    several = parameters_and_buffers if isinstance(parameters_and_buffers, tuple) else (parameters_and_buffers,)
    own = dict(module._named(lambda each: each._own(Parameter) + each._own_buffers(), "", True, False))
    others: dict[Tensor, Tensor] = {}
    for name, tensor in (item for values in several for item in values.items()):
        if name not in own:
            raise ArgumentError(f"functional_call: {type(module).__name__} has no parameter or buffer {name!r}")
        others[own[name]] = tensor
    places = [(each, name, tensor) for each in module.modules() for name, tensor in each._own(Tensor)]
    module._exchange(others)
    try:
        return module(*(args if isinstance(args, tuple) else (args,)), **(kwargs or {}))
    finally:
        for each, name, tensor in places:
            vars(each)[name] = tensor
