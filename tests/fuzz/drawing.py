"""Random choices of both fuzzers: handles, their views, and indices, executed in PyTorch as they are drawn."""

import random
from collections.abc import Sequence
from typing import Any

import torch
from programs import TORCH, execute, scope_of

DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "bool")


def name_of(dtype: Any) -> str:
    """float32 of torch.float32."""
    return str(dtype).rpartition(".")[2]


class Drawer:
    """Draws statement by statement and runs each in PyTorch, so that shapes are known."""

    dtypes: Sequence[str] = DTYPES

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.scope = scope_of(TORCH)
        self.statements: list[str] = []
        self.handles: list[str] = []
        self.named = 0

    def fresh(self, letter: str) -> str:
        """A name that no statement has."""
        self.named += 1
        return f"{letter}{self.named}"

    def value(self, expression: str) -> Any:
        """The tensor of an expression, None if it raises or is none."""
        scope = dict(self.scope)
        return None if execute(f"it = {expression}", scope) or not torch.is_tensor(scope["it"]) else scope["it"]

    def handle(self) -> str:
        """One of the living handles."""
        return self.random.choice(self.handles)

    def slice_of(self, extent: int) -> str:
        start, stop = sorted(self.random.choices(range(-1, extent + 2), k=2))
        step = self.random.choice(["", "", ":2", ":3"])
        return self.random.choice([":", f"{max(start, 0)}:{stop}{step}", f"{max(start, 0)}:", f":-1{step}", "::2"])

    def index(self, shape: Sequence[int], points: bool = False) -> str:
        """Return a random index: integers, slices, None, Ellipsis; with `points` also tensors and lists."""
        parts: list[str] = []
        for extent in shape[: self.random.randint(0, len(shape))]:
            kind = self.random.random()
            if kind < 0.4 and extent:
                parts.append(str(self.random.randrange(-extent, extent)))
            elif points and kind < 0.7 and extent:
                places = self.random.sample(range(extent), self.random.randint(1, extent))
                places = [place - extent if self.random.random() < 0.3 else place for place in places]
                parts.append(self.random.choice([f"nt.tensor({places})", str(places)]))
                points = False
            else:
                parts.append(self.slice_of(extent))
        for extra in ("None", "..."):
            if self.random.random() < 0.15:
                parts.insert(self.random.randint(0, len(parts)) if extra == "None" else len(parts), extra)
        return ", ".join(parts) or "..."

    def view(self, expression: str, name: str) -> str:
        """Return a random view of the expression's value, as text in which `name` replaces the expression."""
        tensor = self.value(expression)
        if tensor is None:
            return name
        rng, shape = self.random, list(tensor.shape)
        dim, other = (rng.randrange(-len(shape), len(shape)) if shape else 0 for _ in range(2))
        extent = shape[dim] if shape else 1
        place = rng.randrange(extent) if extent else 0
        order = rng.sample(range(len(shape)), len(shape))
        part = rng.randint(1, max(extent, 1))
        target, size = self.shape(tensor.numel()), self.shape(extent)
        wide = [rng.choice([extent, -1]) if extent != 1 else rng.choice([1, 2, 3]) for extent in shape]
        forms = [f"[{self.index(shape)}]"] * 8
        forms += [f".select({dim}, {place})", f".narrow({dim}, {place}, {extent - place})"]
        forms += [f".chunk({rng.randint(1, 3)}, {dim})[-1]", f".split({part}, {dim})[0]", f".unbind({dim})[{place}]"]
        forms += [f".transpose({dim}, {other})", f".permute({order})", f".movedim({dim}, {other})", ".t()"]
        forms += [f".swapaxes({dim}, {other})", f".view({target})", f".reshape({target})", ".reshape(-1)", ".view(-1)"]
        forms += [".flatten()", ".ravel()", f".flatten({dim})", f".unflatten({dim}, {size})", ".squeeze()", ".detach()"]
        forms += [f".squeeze({dim})", f".unsqueeze({rng.randint(0, len(shape))})", ".data", ".contiguous()"]
        forms += [f".diagonal({rng.randint(-1, 1)}, {dim}, {other})", ".diagonal()", f".expand({wide})"]
        forms += [f".expand({[2, *wide]})", f".view_as({self.handle()})", f".reshape_as({self.handle()})"]
        forms += [f".expand_as({self.handle()})", f".to(nt.{name_of(tensor.dtype)})"]
        forms += [".mT"] if len(shape) > 1 else []
        forms += [".T"] * 3 if len(shape) == 2 else []
        whole = [f"list({name})[{place}]", f"nt.broadcast_to({name}, {[2, *wide]})", f"nt.squeeze({name})"]
        return rng.choice(whole) if rng.random() < 0.05 else name + rng.choice(forms)

    def shape(self, size: int) -> list[int]:
        """Extents whose product is `size`, one of them sometimes -1."""
        shape: list[int] = []
        while size > 1 and len(shape) < 3:
            factor = self.random.choice([n for n in range(1, size + 1) if size % n == 0])
            shape.append(factor)
            size //= factor
        shape.append(size)
        if self.random.random() < 0.3 and 0 not in shape:
            shape[self.random.randrange(len(shape))] = -1
        return shape
