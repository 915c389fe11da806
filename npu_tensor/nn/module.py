"""Module: the base of all layers, with PyTorch's methods and names of parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeVar

from npu_tensor.dtypes import bfloat16, float16, float32, float64
from npu_tensor.errors import ArgumentError, DTypeError
from npu_tensor.functions.creation import from_dlpack
from npu_tensor.functions.pytorch_arguments import no_grad
from npu_tensor.functions.register import tensor_of
from npu_tensor.nn.parameter import Parameter
from npu_tensor.tensor import Tensor

__all__ = ["IncompatibleKeys", "Module", "functional_call"]

Self = TypeVar("Self", bound="Module")


class IncompatibleKeys(NamedTuple):
    """What `load_state_dict` did not find and what it did not use, by name."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Module:
    """The base of layers and networks: define `forward`; attributes that are parameters and modules are its parts.

    shown: the attributes that `repr` shows; those named before a colon without their names.
    """

    training: bool = True
    shown: ClassVar[str] = ""
    _buffers: Mapping[str, bool] = MappingProxyType({})  # whether each is part of the state

    if TYPE_CHECKING:  # what is set by name

        def __getattr__(self, name: str) -> Any: ...

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(vars(self).get(name), Parameter) and not isinstance(value, Parameter | None):
            text = f"cannot assign '{type(value).__name__}' as parameter '{name}' (Parameter or None expected)"
            raise TypeError(text)
        super().__setattr__(name, value)

    def forward(self, *inputs: Any, **keywords: Any) -> Any:
        """What calling the module computes."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *inputs: Any, **keywords: Any) -> Any:
        return self.forward(*inputs, **keywords)

    # --- parts

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is not trained, such as a running mean. persistent: whether the state dict has it."""
        self._buffers = {**self._buffers, name: persistent}
        setattr(self, name, tensor)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, or None in its place."""
        setattr(self, name, param)

    def get_submodule(self, target: str) -> Module:
        """Return the module at a path such as "layers.0". AttributeError if there is none."""
        module: Any = self
        for name in target.split(".") if target else ():
            module = vars(module).get(name)
            if not isinstance(module, Module):
                raise AttributeError(f"{type(self).__name__} has no module {target!r}")
        return module  # type: ignore[no-any-return]

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at a path. AttributeError if there is none."""
        return self._at(target, lambda module: module._own(Parameter), "parameter")  # type: ignore[return-value]

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a path. AttributeError if there is none."""
        return self._at(target, Module._own_buffers, "buffer")

    def _at(self, target: str, own: Callable[[Module], list[tuple[str, Any]]], kind: str) -> Tensor:
        path, _, name = target.rpartition(".")
        tensor = dict(own(self.get_submodule(path))).get(name)
        if tensor is None:
            raise AttributeError(f"{type(self).__name__} has no {kind} {target!r}")
        return tensor  # type: ignore[no-any-return]

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a module. KeyError for the name of something else."""
        if hasattr(self, name) and name not in dict(self._own(Module)):
            raise KeyError(f"attribute '{name}' already exists")
        setattr(self, name, module)

    register_module = add_module

    def _own(self, kind: type) -> list[tuple[str, Any]]:
        """Attributes of a kind, in the order in which they were first set."""
        return [(name, value) for name, value in vars(self).items() if isinstance(value, kind)]

    def _own_buffers(self) -> list[tuple[str, Tensor]]:
        return [(name, vars(self)[name]) for name in self._buffers if vars(self).get(name) is not None]

    def _own_state(self) -> list[tuple[str, Tensor]]:
        return self._own(Parameter) + [pair for pair in self._own_buffers() if self._buffers[pair[0]]]

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules that are attributes, each once."""
        seen: set[Module] = set()
        for name, child in self._own(Module):
            if child not in seen:
                seen.add(child)
                yield name, child

    def children(self) -> Iterator[Module]:
        """The modules that are attributes, each once."""
        return (child for _, child in self.named_children())

    def named_modules(self, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """The module and all inside, with their paths."""
        seen: set[Module] = set()

        def inside(path: str, module: Module) -> Iterator[tuple[str, Module]]:
            if module not in seen or not remove_duplicate:
                seen.add(module)
                yield path, module
                for name, child in module._own(Module):
                    yield from inside(_joined(path, name), child)

        return inside(prefix, self)

    def modules(self) -> Iterator[Module]:
        """The module and all inside."""
        return (module for _, module in self.named_modules())

    def _named(
        self, own: Callable[[Module], list[tuple[str, Any]]], prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set[Tensor] = set()
        for path, module in self.named_modules(prefix, remove_duplicate) if recurse else ((prefix, self),):
            for name, tensor in own(module):
                if tensor not in seen or not remove_duplicate:
                    seen.add(tensor)
                    yield _joined(path, name), tensor

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """All parameters with their paths."""
        return self._named(lambda module: module._own(Parameter), prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters."""
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """All buffers with their paths."""
        return self._named(Module._own_buffers, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))

    # --- state

    def state_dict(self, prefix: str = "", keep_vars: bool = False) -> dict[str, Tensor]:
        """Return parameters and persistent buffers by path, for `npu_tensor.save`.

        Args:
            prefix: Text before each path.
            keep_vars: Return the parameters themselves, instead of tensors through which no gradients pass.
        """
        own = self._named(Module._own_state, "", True, False)
        return {prefix + name: each if keep_vars else each.detach() for name, each in own}

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Write tensors, NumPy arrays or PyTorch's tensors to the parameters and buffers of these names.

        Raises ArgumentError if shapes differ, and if strict for names that are missing or unexpected; then nothing is
        written. Values are converted to the dtypes of the module. assign: they become the parameters and buffers
        instead and keep their dtypes; as after `to`, functions that `jit` has captured before keep the former ones.
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
        values = {name: _tensor(state_dict[name]) for name in own if name in state_dict}
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
        """Put other tensors in the place of parameters and buffers, wherever these are."""
        for module in self.modules():
            for name, tensor in module._own(Tensor):
                if tensor in tensors:
                    vars(module)[name] = tensors[tensor]

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Convert float parameters and buffers as `Tensor.to` does; those that change become other tensors.

        So convert a module before you give its parameters to an optimizer, and before `jit` captures it.
        """
        changed: dict[Tensor, Tensor] = {}
        with no_grad():
            for tensor in (*self.parameters(), *self.buffers()):
                if not tensor.is_floating_point():
                    continue
                converted = tensor.to(*args, **kwargs)
                if not converted.is_floating_point():
                    raise DTypeError(f"a module's parameters are floats and do not become {converted.dtype.name}")
                if converted is not tensor:
                    is_parameter = isinstance(tensor, Parameter)
                    changed[tensor] = Parameter(converted, tensor.requires_grad) if is_parameter else converted
        self._exchange(changed)
        return self

    def type(self: Self, dst_type: Any) -> Self:
        """Convert float parameters and buffers to a dtype."""
        return self.to(dst_type)

    def cpu(self: Self) -> Self:
        """Return the module; tensors go where they are needed."""
        return self

    def float(self: Self) -> Self:
        """As float32."""
        return self.to(float32)

    def double(self: Self) -> Self:
        """As float64."""
        return self.to(float64)

    def half(self: Self) -> Self:
        """As float16."""
        return self.to(float16)

    def bfloat16(self: Self) -> Self:
        """As bfloat16."""
        return self.to(bfloat16)

    # --- modes

    def train(self: Self, mode: bool = True) -> Self:
        """Let layers such as dropout do what they do in training."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: Self) -> Self:
        """Let layers such as dropout do what they do after training."""
        return self.train(False)

    def apply(self: Self, fn: Callable[[Module], object]) -> Self:
        """Call a function with every module inside and then with this one."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Whether the parameters are to have gradients."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of the parameters, or make them zero."""
        for parameter in self.parameters():
            gradient = getattr(parameter, "grad", None)
            if gradient is not None:
                setattr(parameter, "grad", None if set_to_none else gradient.detach() * 0)  # noqa: B010 - no attribute yet

    # --- text

    def extra_repr(self) -> str:
        """What `repr` shows of the module itself."""
        plain, _, named = self.shown.rpartition(":")
        values = {name: getattr(self, name) for name in (*plain.split(), *named.split())}
        if "bias" in values:
            values["bias"] = values["bias"] is not None and values["bias"] is not False
        return ", ".join(
            [*(str(values[name]) for name in plain.split()), *(f"{name}={values[name]!r}" for name in named.split())]
        )

    def _parts_shown(self) -> Iterable[tuple[str, str]]:
        return ((f"({name}): ", repr(child)) for name, child in self._own(Module))

    def __repr__(self) -> str:
        extra = self.extra_repr()
        parts = [f"{name}{text}".replace("\n", "\n  ") for name, text in self._parts_shown()]
        if not parts:
            return f"{type(self).__name__}({extra})"
        lines = [*([extra] if extra else []), *parts]
        return "\n  ".join([f"{type(self).__name__}(", *lines]) + "\n)"


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _as_part(part: Tensor, value: Tensor) -> Tensor:
    """A value as what it takes the place of: a parameter or a buffer."""
    return Parameter(value, part.requires_grad) if isinstance(part, Parameter) else value


def _tensor(value: Any) -> Tensor:
    """A tensor from another library as ours."""
    return from_dlpack(value) if hasattr(value, "__dlpack__") and not isinstance(value, Tensor) else tensor_of(value)


def functional_call(
    module: Module,
    parameters_and_buffers: Mapping[str, Tensor] | tuple[Mapping[str, Tensor], ...],
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """The result of a module with other tensors in the place of its parameters and buffers of these names.

    So it can be differentiated by them: nt.grad(lambda p: functional_call(model, p, x).sum())(dict(
    model.named_parameters())). What stands at several places is replaced in all. Raises ArgumentError for other names.
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
