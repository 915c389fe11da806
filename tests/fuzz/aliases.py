"""Random programs of views and in-place writes, in PyTorch and here: every living handle must have the same value.

    python tests/fuzz/aliases.py --programs 10000 --seed 0 [--mode lazy|eager] [--device sim:npu1]
    python tests/fuzz/aliases.py --programs 1 --seed 123 --show      # the program of this seed, as text

Programs have a few base tensors, views of them and views of views, writes through any of these handles, reads in
between, handles that die, and captured functions that read what is written between their calls; every third program
is the body of a function under nt.jit. Values are whole numbers, so they are compared bit for bit; beside them dtype,
shape, is_contiguous(), storage_offset() if there is one, and stride() of the dimensions of more than one element (the
others reach nothing, in either library). An operand that overlaps with the target of a write is read as a whole
before it, for PyTorch from a copy: see `apart` in programs.py.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from drawing import Drawer, name_of
from programs import Program, difference, execute, run_seeds, seeds_parser, shrink

import npu_tensor as nt

DTYPES = ("float32", "float32", "float32", "int64", "int32", "float64", "uint8", "bool")
SHAPES = ((4, 4), (2, 3, 4), (6,), (3, 5), (2, 2, 2, 3), (8, 2), (1, 5), (4, 1, 3), (), (1,), (0, 3), (12,))


def draw(seed: int) -> Program:
    """The program of this seed."""
    return _Drawer(seed).program()


class _Drawer(Drawer):
    dtypes = DTYPES

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.captured = seed % 3 == 2
        self.functions: list[str] = []

    def program(self) -> Program:
        bases = [f"{self.fresh('a')} = {self._values(*self._base())}" for _ in range(self.random.randint(1, 3))]
        if self.captured:
            for base in bases:
                execute(base, self.scope)
            for base in bases:
                self._bind(self.random.choice(["{}.clone()", "{} + 0", "{} * 1"]).format(base.split(" ")[0]))
        else:
            self.handles += [base.split(" ")[0] for base in bases if self._keep(base)]
        kinds: list[tuple[Callable[[], None], int]] = [(self._view, 8), (self._write, 8), (self._result, 2)]
        kinds += [(self._death, 1), (self._loop, 1)]
        kinds += [] if self.captured else [(self._read, 2), (self._function, 1), (self._call, 2)]
        for _ in range(self.random.randint(4, 16)):
            self.random.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]()
        return Program(tuple(self.statements), self.captured, tuple(bases) if self.captured else ())

    # --- statements

    def _keep(self, statement: str) -> bool:
        """Run the statement and make it part of the program. One that raises is kept sometimes, outside of jit."""
        error = execute(statement, self.scope)
        if error is None or (not self.captured and self.random.random() < 0.3):
            self.statements.append(statement)
        return error is None

    def _bind(self, expression: str) -> None:
        name = self.fresh("v")
        if self._keep(f"{name} = {expression}"):
            self.handles.append(name)

    def _view(self) -> None:
        self._bind(self._viewed(self.handle()))

    def _result(self) -> None:
        """A new value; results of ops count as contiguous here, where PyTorch keeps the operand's order of strides."""
        handle, other = self.handle(), self.handle()
        forms = [
            "{}.clone()",
            "({} + 1)",
            "({} * 2)",
            "-{}",
            "{}.to(nt.int64)",
            "{}.to(nt.float64)",
            "nt.cat([{}, {}])",
            "nt.stack([{}, {}])",
            "({} + {})",
        ]
        self._bind(f"({self.random.choice(forms).format(handle, other)}).contiguous()")

    def _death(self) -> None:
        if len(self.handles) > 1:
            name = self.handles.pop(self.random.randrange(len(self.handles)))
            self._keep(f"del {name}")

    def _read(self) -> None:
        forms = ["{}.tolist()", "{}.numpy().tolist()", "bool(({} > 2).any())", "{}.reshape(-1)[0].item()"]
        self._keep(f"seen.append({self.random.choice(forms).format(self.handle())})")

    def _function(self) -> None:
        """A captured function that reads a tensor from outside, or a view of it."""
        handle, name = self.handle(), self.fresh("f")
        body = self.random.choice(["x + o", "o * x", "x + o.reshape(-1)[:2]", f"x + {self.view(handle, 'o')}"])
        if self._keep(f"{name} = nt.jit((lambda o: lambda x: {body})({handle}))"):
            self.functions.append(name)

    def _call(self) -> None:
        if self.functions:
            self._keep(f"seen.append({self.random.choice(self.functions)}(nt.tensor({self._number()})).tolist())")

    def _loop(self) -> None:
        handle, number = self.handle(), self._number()
        forms = [f"for row in {handle}: row += {number}", f"for part in {handle}.unbind(-1): part.mul_({number})"]
        forms += [f"for i in range(2): {handle}[i] += i", f"for part in {handle}.chunk(2): part.fill_({number})"]
        forms += [f"for i in range(2): {handle}[..., i] = {handle}[..., 1 - i].clone()"]
        self._keep(self.random.choice(forms))

    def _write(self) -> None:
        target = self.handle()
        for _ in range(self.random.choice([0, 0, 1, 2])):
            target = self._viewed(target)
        tensor = self.value(target)
        if tensor is None:
            return
        if self._overlaps(tensor):  # The other in-place ops warn of such targets in PyTorch, or say nothing.
            calls = ["fill_(3)", "zero_()", "add_(1)", "mul_(2)", "copy_(nt.tensor(5))"]
            self._keep(f"{target}.{self.random.choice(calls)}")
            return
        statement = self.random.choice([self._element_wise, self._element_wise, self._item, self._by_index])
        self._keep(statement(target, tensor))

    def _element_wise(self, target: str, tensor: Any) -> str:
        operand = self._operand(tensor)
        named = target if target in self.handles else f"{target}[...]"
        forms = [f"{named} += {operand}", f"{named} -= {operand}", f"{named} *= {self._number()}"]
        forms += [f"{target}.add_({operand})", f"{target}.sub_({operand}, alpha=2)", f"{target}.mul_({self._number()})"]
        forms += [f"{target}.copy_({operand})", f"{target}.fill_({self._number()})", f"{target}.zero_()"]
        forms += [f"{target}.clamp_(-3, 5)", f"{target}.abs_().sqrt_().floor_()", f"{target}.neg_()"]
        forms += [f"{target}.masked_fill_({self._mask(target)}, {self._number()})", f"{target}.add_(1).mul_(2)"]
        forms += [f"{target}.tril_()", f"{target}.eq_({operand})", f"{target}.square_().clamp_(0, 9)"]
        return self.random.choice(forms)

    def _item(self, target: str, tensor: Any) -> str:
        """target[index] = value, and with an operator."""
        if self.random.random() < 0.2:
            mask = self._mask(target)
            return f"{target}[{mask}] = {self._number()}"
        index = self.index(tensor.shape, points=self.random.random() < 0.4)
        part = self.value(f"{target}[{index}]")
        value = self._number() if part is None or self.random.random() < 0.4 else self._operand(part, tensor)
        return f"{target}[{index}] {self.random.choice(['=', '=', '+=', '-='])} {value}"

    def _by_index(self, target: str, tensor: Any) -> str:
        if not tensor.ndim or not tensor.numel():
            return f"{target}.fill_({self._number()})"
        dim = self.random.randrange(tensor.ndim)
        extent = tensor.shape[dim]
        places = self.random.sample(range(extent), self.random.randint(1, extent))
        index, number = f"nt.tensor({places})", self._number()
        part = [*tensor.shape[:dim], len(places), *tensor.shape[dim + 1 :]]
        source = self._values(part, name_of(tensor.dtype))
        rng = np.random.default_rng(self.random.randrange(1 << 30))
        rows = rng.random(tuple(tensor.shape)).argsort(dim).take(range(len(places)), dim).tolist()
        forms = [f"index_fill_({dim}, {index}, {number})", f"index_copy_({dim}, {index}, {source})"]
        forms += [f"index_add_({dim}, {index}, {source})", f"scatter_({dim}, nt.tensor({rows}), {source})"]
        forms += [f"scatter_add_({dim}, nt.tensor({rows}), {source})"]
        if dim == 0:
            forms += [f"index_put_(({index},), nt.tensor({number}, dtype=nt.{name_of(tensor.dtype)}))"]
        if not self.captured:
            mask = self._mask(target)
            forms += [f"masked_scatter_({mask}, {self._values(list(tensor.shape), name_of(tensor.dtype))})"]
        return f"{target}.{self.random.choice(forms)}"

    # --- expressions

    def _base(self) -> tuple[Sequence[int], str]:
        return self.random.choice(SHAPES), self.random.choice(DTYPES)

    def _values(self, shape: Sequence[int], dtype: str) -> str:
        """A new contiguous tensor."""
        size, first = int(np.prod(shape)), self.random.randint(0, 9)
        if dtype == "bool":
            values = f"(nt.arange({size}) % {self.random.randint(2, 3)} == 0)"
        else:
            values = f"nt.arange({first}, {first + size}, dtype=nt.{dtype})"
        return f"{values}.reshape({list(shape)})"

    def _number(self) -> str:
        return self.random.choice(["-1", "0", "2", "3", "1"])

    def _mask(self, target: str) -> str:
        return self.random.choice(["{} > 2", "{} == 1", "({} + 0) != 3"]).format(target)

    def _operand(self, target: Any, owner: Any = None) -> str:
        """A number, a new tensor, or a handle or a view of one that broadcasts to the target."""
        choice = self.random.random()
        if choice < 0.2:
            return self._number()
        shape = list(target.shape)
        if choice < 0.7:
            for _ in range(6):
                expression = self._viewed(self.handle()) if self.random.random() < 0.5 else self.handle()
                tensor = self.value(expression)
                if tensor is not None and self._fits(tensor, target):
                    apart = _memory(tensor) == _memory(target if owner is None else owner) and not (
                        tensor.data_ptr() == target.data_ptr()
                        and (tensor.shape, tensor.stride()) == (target.shape, target.stride())
                    )
                    return f"apart({expression})" if apart else expression
        return self._values(shape[self.random.choice([0, 0, min(1, len(shape))]) :], name_of(target.dtype))

    @staticmethod
    def _fits(operand: Any, target: Any) -> bool:
        """Return True if the operand broadcasts to the target and the target's dtype can hold its values."""
        try:
            fits = torch.broadcast_shapes(operand.shape, target.shape) == target.shape
        except RuntimeError:
            return False
        kinds = "bool", "uint8", "int32", "int64", "float32", "float64"
        return fits and kinds.index(name_of(operand.dtype)) <= kinds.index(name_of(target.dtype))

    @staticmethod
    def _overlaps(tensor: Any) -> bool:
        return any(stride == 0 and extent > 1 for stride, extent in zip(tensor.stride(), tensor.shape, strict=True))

    def _viewed(self, expression: str) -> str:
        return self.view(expression, expression)


def _memory(tensor: Any) -> int:
    return int(tensor.untyped_storage().data_ptr())


def compare(name: str, theirs: Any, ours: Any) -> str:
    """Return the difference of two handles; empty if they agree."""
    if "[" in name:  # Results of a captured function have their own layout.
        return _compare_values(name, theirs, ours)
    longer = [axis for axis, extent in enumerate(theirs.shape) if extent > 1 and theirs.numel()]
    facts: dict[str, Callable[[Any], Any]] = {
        "is_contiguous()": lambda tensor: tensor.is_contiguous(),
        "stride()": lambda tensor: [tensor.stride()[axis] for axis in longer],
    }
    if hasattr(ours, "storage_offset") and theirs.numel():
        facts["storage_offset()"] = lambda tensor: tensor.storage_offset()
    if what := _compare_values(name, theirs, ours):
        return what
    for fact, of in facts.items():
        if of(theirs) != of(ours):
            return f"{name}.{fact} is {of(ours)}, in PyTorch {of(theirs)}"
    return ""


def _compare_values(name: str, theirs: Any, ours: Any) -> str:
    if name_of(theirs.dtype) != ours.dtype.name or tuple(theirs.shape) != tuple(ours.shape):
        expected = f"{name_of(theirs.dtype)}{list(theirs.shape)}"
        return f"{name} is {ours.dtype.name}{list(ours.shape)}, in PyTorch {expected}"
    if theirs.contiguous().numpy().tobytes() != ours.numpy().tobytes():
        return f"{name} is {ours.tolist()}, in PyTorch {theirs.tolist()}"
    return ""


def failure(seed: int) -> str:
    """Return the shortest program of this seed that differs, and how; nothing if it does not."""
    program = draw(seed)
    if not difference(program, compare):
        return ""
    short = shrink(program, compare)
    return f"{short}\n# {difference(short, compare)}"


def main() -> int:
    parser = seeds_parser(__doc__)
    parser.add_argument("--mode", choices=["lazy", "eager"], default="lazy")
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    with nt.config.scope(eager=given.mode == "eager"), nt.default_device(given.device):
        return run_seeds(given, draw, failure)


if __name__ == "__main__":
    sys.exit(main())
