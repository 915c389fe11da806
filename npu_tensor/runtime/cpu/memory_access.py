"""Vectors between memory and registers: loads and stores that convert dtypes.

In memory elements are as the dtype says; in registers 16-bit floats are float32 and bool is a mask.
"""

from __future__ import annotations

from collections.abc import Sequence

from npu_tensor.runtime.cpu import float_formats
from npu_tensor.runtime.cpu.ssa import SsaBuilder
from npu_tensor.runtime.cpu.values import BITS, ELEMENT_SIZE, MEMORY_ELEMENT, Value

__all__ = ["MemoryAccess"]


class MemoryAccess(SsaBuilder):
    """A builder that also loads and stores. `memory_dtype` is always that of the elements in memory."""

    def address(self, pointer: Value, index: Value, memory_dtype: str) -> Value:
        """The address of element `index` (an i64, or a vector of them) of an array."""
        type_ = f"<{self.lanes} x ptr>" if index.type.startswith("<") else "ptr"
        element = MEMORY_ELEMENT[memory_dtype]
        return self.assign(type_, f"getelementptr {element}, ptr {pointer.name}, {index.type} {index.name}")

    def load(self, memory_dtype: str, address: Value, mask: Value | None = None) -> Value:
        """Consecutive elements, converted to the register dtype.

        Lanes outside `mask` are 0 and not accessed.
        """
        return self.from_memory(memory_dtype, self.load_raw(memory_dtype, address, mask))

    def load_raw(self, memory_dtype: str, address: Value, mask: Value | None = None) -> Value:
        """`load` without the conversion."""
        element, size = MEMORY_ELEMENT[memory_dtype], ELEMENT_SIZE[memory_dtype]
        type_ = self.vector(element)
        if mask is None:
            return self.assign(type_, f"load {type_}, ptr {address.name}, align {size}")
        return self.intrinsic(
            "llvm.masked.load",
            address,
            Value(str(size), "i32"),
            mask,
            Value("zeroinitializer", type_),
            result=type_,
            overloads=(type_, "ptr"),
        )

    def load_scalar(self, memory_dtype: str, address: Value) -> Value:
        """One element, converted to the register dtype, in every lane."""
        element, size = MEMORY_ELEMENT[memory_dtype], ELEMENT_SIZE[memory_dtype]
        raw = self.assign(element, f"load {element}, ptr {address.name}, align {size}")
        return self.from_memory(memory_dtype, self.splat(raw))

    def gather(self, memory_dtype: str, pointer: Value, offsets: Value, mask: Value | None = None) -> Value:
        """Elements at the offsets (i64 lanes, in elements).

        Lanes outside `mask` hold some element of the others.
        """
        if mask is not None:
            # The first lane is always inside: reading it again needs no branch where gathers are emulated.
            offsets = self.select(mask, offsets, self.splat(self.extract(offsets)))
        addresses = self.address(pointer, offsets, memory_dtype)
        type_ = self.vector(MEMORY_ELEMENT[memory_dtype])
        raw = self.intrinsic(
            "llvm.masked.gather",
            addresses,
            Value(str(ELEMENT_SIZE[memory_dtype]), "i32"),
            self.constant(1, self.vector("i1")),
            Value("zeroinitializer", type_),
            result=type_,
            overloads=(type_, addresses.type),
        )
        return self.from_memory(memory_dtype, raw)

    def store(self, memory_dtype: str, value: Value, address: Value, mask: Value | None = None) -> None:
        """Convert and store consecutive elements; only the lanes of `mask` if there is one."""
        self.store_raw(memory_dtype, self.to_memory(memory_dtype, value), address, mask)

    def store_raw(self, memory_dtype: str, raw: Value, address: Value, mask: Value | None = None) -> None:
        """Store what `to_memory` gave."""
        size = ELEMENT_SIZE[memory_dtype]
        if mask is None:
            self.statement(f"store {raw.type} {raw.name}, ptr {address.name}, align {size}")
        else:
            self.intrinsic(
                "llvm.masked.store",
                raw,
                address,
                Value(str(size), "i32"),
                mask,
                result="void",
                overloads=(raw.type, "ptr"),
            )

    def store_scalar(self, memory_dtype: str, value: Value, address: Value) -> None:
        """Convert and store the first lane."""
        raw = self.extract(self.to_memory(memory_dtype, value))
        self.statement(f"store {raw.type} {raw.name}, ptr {address.name}, align {ELEMENT_SIZE[memory_dtype]}")

    def scatter_raw(
        self, memory_dtype: str, raw: Value, pointer: Value, offsets: Value, mask: Value | None = None
    ) -> None:
        """Store what `to_memory` gave at the offsets (i64 lanes, in elements)."""
        addresses = self.address(pointer, offsets, memory_dtype)
        self.intrinsic(
            "llvm.masked.scatter",
            raw,
            addresses,
            Value(str(ELEMENT_SIZE[memory_dtype]), "i32"),
            mask or self.constant(1, self.vector("i1")),
            result="void",
            overloads=(raw.type, addresses.type),
        )

    def store_streaming(self, memory_dtype: str, values: Sequence[Value], address: Value) -> None:
        """Store the elements of consecutive vectors past the caches; `address` is aligned to a register.

        Narrow elements are joined to whole registers of i32 first: LLVM has non-temporal stores of few types.
        """
        pieces = self.all_to_memory(memory_dtype, values)
        per_register = max(1, 4 // ELEMENT_SIZE[memory_dtype])
        for start in range(0, len(pieces), per_register):
            group = pieces[start : start + per_register]
            while len(group) > 1:
                count = 2 * int(group[0].type[1:].split()[0])
                group = [self.shuffle(a, range(count), b) for a, b in zip(group[::2], group[1::2], strict=True)]
            joined = group[0]
            if joined.element in ("i8", "i16"):
                words = int(joined.type[1:].split()[0]) * BITS[joined.element] // 32
                joined = self.assign(f"<{words} x i32>", f"bitcast {joined.type} {joined.name} to <{words} x i32>")
            place = self.address(address, self.constant(start * self.lanes, "i64"), memory_dtype)
            size = min(64, self.lanes * 4)
            self.statement(f"store {joined.type} {joined.name}, ptr {place.name}, align {size}, !nontemporal !0")

    def from_memory(self, memory_dtype: str, raw: Value) -> Value:
        """The lanes of a vector as they were loaded, in the register dtype."""
        if memory_dtype == "bfloat16":
            return float_formats.widen_bfloat16(self, raw)
        if memory_dtype == "float16":
            return float_formats.widen_float16(self, raw)
        if memory_dtype == "bool":
            return self.compare("ne", raw, 0)
        return raw

    def to_memory(self, memory_dtype: str, value: Value) -> Value:
        """The lanes of a vector as they are stored."""
        return self.all_to_memory(memory_dtype, [value])[0]

    def all_to_memory(self, memory_dtype: str, values: Sequence[Value]) -> list[Value]:
        """The lanes of each vector as they are stored. Several at once may take fewer branches than one by one."""
        if memory_dtype == "bfloat16":
            return float_formats.narrow_bfloat16(self, values)
        return [self._to_memory(memory_dtype, value) for value in values]

    def _to_memory(self, memory_dtype: str, value: Value) -> Value:
        if memory_dtype == "float16":
            return float_formats.narrow_float16(self, value)
        if memory_dtype == "bool":
            return self.convert("zext", value, "i8")
        return value
