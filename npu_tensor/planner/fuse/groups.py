"""Groups: ops that become one kernel, and the rules by which another op joins them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from npu_tensor.ops.declare import Layout
from npu_tensor.ops.layouts import reshaped
from npu_tensor.planner.fuse.lower import Domain, Kind, Lowered
from npu_tensor.planner.fuse.prologues import prologue_of
from npu_tensor.planner.fuse.strides import are_neighbours, full_layout, lifted, row_layout, row_shapes, same_positions
from npu_tensor.task import Fusion

# Bounds of one kernel on any device: compile time grows with the ops, and with the numbers and tensors that they read.
MAX_OPS: Final = 64
MAX_OPERANDS: Final = 24


@dataclass
class Group:
    """Ops that become one kernel.

    Attributes:
        kind: Kind of the kernel.
        shape: Iteration space.
        dims: Reduced dimensions of the iteration space.
        members: By item, True if it has one value per row.
        contraction: Matrix product or convolution; the other members are its epilogue.
        prologues: By operand number of the product, the items that compute this operand.
    """

    kind: Kind
    shape: tuple[int, ...]
    dims: tuple[int, ...]
    members: dict[int, bool]
    contraction: int | None = None
    prologues: dict[int, set[int]] = field(default_factory=dict)

    @property
    def items(self) -> set[int]:
        """Items that the kernel computes."""
        return {*self.members}.union(*self.prologues.values())

    def assign(self, other: Group) -> None:
        """Take over all fields of another group."""
        self.kind, self.shape, self.dims = other.kind, other.shape, other.dims
        self.members, self.contraction, self.prologues = other.members, other.contraction, other.prologues

    def operands_over(self, item: int, domain: Domain) -> list[tuple[int, Layout | None]]:
        """Return the operands of a member over the group's shape."""
        if domain.shape == self.shape:
            return list(domain.operands)
        if not self.members[item]:
            return [(source, layout and reshaped(layout, self.shape)) for source, layout in domain.operands]
        return [(source, layout and lifted(layout, self.shape, self.dims)) for source, layout in domain.operands]


class Candidate(NamedTuple):
    """An op that may join a group.

    Attributes:
        item: Number of the op.
        domain: Its iteration domain.
        readings: Layouts in which the members read it, over the group's shape.
    """

    item: int
    domain: Domain
    readings: list[Layout]

    def is_read_as(self, layout: Layout) -> bool:
        """Return True if all members read it in this layout."""
        return all(reading == layout or same_positions(reading, layout) for reading in self.readings)


class Grouper:
    """Groups the ops of one lowered graph, within the bounds of a device.

    `reduces` returns True if the program of a group has a reduction.
    """

    def __init__(self, items: Mapping[int, Lowered], fusion: Fusion, reduces: Callable[[Group], bool]) -> None:
        self.items = items
        self._reduces = reduces
        self._ops = [number for number, item in items.items() if "domain" in item]
        self._places = {number: place for place, number in enumerate(items)}
        self.fusion = fusion
        # Ops that must not wait for a reduction to join their group: it went into another group.
        self._no_rows: set[int] = set()

    def groups(self, may_join: Callable[[int, Group, Group], bool] | None = None) -> list[Group]:
        """Return all groups in an order in which they can run.

        `may_join` gets an op, a group and the group with the op, and returns True if the op may join.
        """
        while True:
            groups = self._grouped(may_join)
            unstorable = {item for group in groups for item in self._unstorable(group)}
            if not unstorable:
                return groups
            self._no_rows |= unstorable

    def _unstorable(self, group: Group) -> Iterator[int]:
        """Yield results per row of a group without a reduction, whose kernel stores one element per position.

        A row-wise member is not enough: its reduction is dead code if the results are constant, as derivatives are.
        """
        per_row = [
            item
            for item, is_per_row in group.members.items()
            if is_per_row and self.items[item]["keep"] and self.items[item]["domain"].kind == "map"
        ]
        has_row_op = any(self.items[item]["domain"].kind == "row" for item in group.members)
        if per_row and not (has_row_op and self._reduces(group)):
            yield from per_row

    def _grouped(self, may_join: Callable[[int, Group, Group], bool] | None) -> list[Group]:
        """Build the groups from the results backwards."""
        groups: list[Group] = []
        group_of: dict[int, Group] = {}
        for item in reversed(self._ops):
            readers = {id(group_of[reader]): group_of[reader] for reader in self.items[item]["readers"]}
            if len(readers) > 1 and self._join_each(item, list(readers.values())):
                group_of[item] = next(iter(readers.values()))
                continue
            group = next(iter(readers.values())) if len(readers) == 1 else None
            if group is None or not self._join_if(item, group, may_join):
                group = self.single(item)
                groups.append(group)
            group_of[item] = group
        # Other groups read only the last member of a group, so the order of last members is an order of the groups.
        return sorted(groups, key=lambda group: self._places[self.last(group)])

    def last(self, group: Group) -> int:
        """Return the last member of a group in topological order."""
        return max(group.members, key=self._places.__getitem__)

    def _join_if(self, item: int, group: Group, may_join: Callable[[int, Group, Group], bool] | None) -> bool:
        """Add an op to a group if the rules and `may_join` allow it."""
        if may_join is None:
            return self._join(item, group)
        joined = replace(group, members=dict(group.members), prologues=dict(group.prologues))
        if not (self._join(item, joined) and may_join(item, group, joined)):
            return False
        group.assign(joined)
        return True

    def _join_each(self, item: int, groups: list[Group]) -> bool:
        """Let several products read the source of a copy that is an operand of all, if each of them can."""
        joined = [replace(group, prologues=dict(group.prologues)) for group in groups]
        if "copy" not in self.items[item] or not all(
            group.contraction in self.items[item]["readers"] and self._join_prologue(item, group) for group in joined
        ):
            return False
        for group, own in zip(groups, joined, strict=True):
            group.prologues = own.prologues
        return True

    def single(self, item: int) -> Group:
        """Return a group of one op."""
        domain = self.items[item]["domain"]
        contraction = item if domain.kind in ("matmul", "conv") else None
        return Group(domain.kind, domain.shape, domain.dims, {item: domain.per_row}, contraction)

    def _join(self, item: int, group: Group) -> bool:
        """Add an op whose consumers are all in `group`, if the kernel of the group can compute it too.

        The group does not change if the op does not join.
        """
        domain = self.items[item]["domain"]
        if item in group.items:  # It joined as part of a prologue.
            return True
        rules = _RULES.get((domain.kind, group.kind), ())
        if not rules or len(group.items) >= MAX_OPS or not self._has_room(group, item):
            return False
        if set(self.items[item]["readers"]) - (group.members.keys() - {group.contraction}):
            return self._join_prologue(item, group)
        candidate = Candidate(item, domain, self._readings(item, group))
        for rule in rules:
            verdict = rule(self, candidate, group)
            if verdict is not None:
                return verdict
        return False

    # --- rules: return True if the op has joined, False if it must not join, None if the rule does not apply

    def _join_at_equal_positions(self, op: Candidate, group: Group) -> bool | None:
        """Add an element-wise op that is read at the positions where it is computed."""
        if op.domain.shape != group.shape or not op.is_read_as(full_layout(group.shape)):
            return None
        if self._streams(op, group, group.dims) > self.fusion.streams:
            return False
        group.members[op.item] = False
        return True

    def _join_per_row(self, op: Candidate, group: Group) -> bool | None:
        """Add an element-wise op on the result of a reduction, such as the root in a norm, that is read along the row.

        The reduction itself is visited later. If it does not join, the op is removed in the next round of `groups`.
        """
        if op.domain.shape == group.shape or op.item in self._no_rows:
            return None
        dims = group.dims or self._reduction_above(op.item, group)
        if not dims or op.domain.shape not in row_shapes(group.shape, dims):
            return None
        if not op.is_read_as(row_layout(group.shape, dims)):
            return None
        group.kind, group.dims = "row", dims
        group.members[op.item] = True
        return True

    def _join_product(self, op: Candidate, group: Group) -> bool | None:
        """Add a product or convolution; the group becomes its epilogue and may read the result in another shape."""
        joined = replace(group, kind=op.domain.kind, shape=op.domain.shape, members={**group.members, op.item: False})
        if math.prod(op.domain.shape) != math.prod(group.shape) or not op.is_read_as(full_layout(group.shape)):
            return None
        if not all(self._can_be_read(member, joined) for member in group.members):
            return None
        has_residuals = op.domain.kind in self.fusion.residuals
        if self.items[op.item]["keep"] or not (has_residuals or self._reads_only_vectors(joined, op.item)):
            return False
        group.assign(replace(joined, contraction=op.item))
        return True

    def _join_reduction(self, op: Candidate, group: Group) -> bool | None:
        """Add a row-wise op over the shape of the group."""
        domain = op.domain
        if domain.shape != group.shape or group.dims not in ((), domain.dims) or not are_neighbours(domain.dims):
            return None
        if self._streams(op, group, domain.dims) > self.fusion.streams:
            return False
        if not op.is_read_as(row_layout(domain.shape, domain.dims) if domain.per_row else full_layout(domain.shape)):
            return None
        group.kind, group.dims = "row", domain.dims
        group.members[op.item] = domain.per_row
        return True

    def _join_reduction_before(self, op: Candidate, group: Group) -> bool | None:
        """Add a row-wise op if the group works only on its results, so that the group becomes work per row."""
        domain = op.domain
        if not domain.per_row or group.shape not in row_shapes(domain.shape, domain.dims):
            return None
        if not op.is_read_as(full_layout(group.shape)):
            return None
        group.kind, group.shape, group.dims = "row", domain.shape, domain.dims
        group.members = dict.fromkeys((*group.members, op.item), True)
        return True

    def _join_prologue(self, item: int, group: Group) -> bool:
        """Add the op that computes an operand of the matrix product, with all ops that only serve it."""
        assert group.contraction is not None
        # Convolutions, and products with a vector, read their operands in place.
        if group.kind == "conv" or 1 in group.shape[-2:]:
            return False
        prologue = prologue_of(self.items, item, group.contraction) if self.fusion.prologues else None
        if prologue is None:
            return False
        number, items = prologue
        joined = replace(group, prologues={**group.prologues, number: items})
        if len(joined.items) > MAX_OPS or not self._has_room(joined):
            return False
        group.prologues = joined.prologues
        return True

    # --- conditions of the rules

    def _has_room(self, group: Group, *items: int) -> bool:
        """Return True if a group with some more items does not have too many operands."""
        inside = {*group.items, *items}
        most = sum([len(self.items[item]["domain"].operands) for item in inside])
        if most <= min(MAX_OPERANDS, self.fusion.inputs, self.fusion.arguments - 1 - len(inside)):
            return True
        operands = [
            operand for item in inside for operand in self.items[item]["domain"].operands if operand[0] not in inside
        ]
        sources = {source for source, _ in operands}
        tensors = sum(self.items[source]["spec"] is not None for source in sources)
        if len(sources) > MAX_OPERANDS or tensors > self.fusion.inputs:
            return False
        room = self.fusion.arguments - 1 - sum(self.items[item]["keep"] for item in inside)
        return len(operands) <= room or len(set(operands)) <= room

    def _readings(self, item: int, group: Group) -> list[Layout]:
        candidates = []
        for consumer in set(self.items[item]["readers"]):
            for source, layout in group.operands_over(consumer, self.items[consumer]["domain"]):
                if source == item and layout is not None:
                    candidates.append(layout)
        return candidates

    def _can_be_read(self, member: int, group: Group) -> bool:
        """Return True if the operands of a member have layouts over the shape of a group."""
        domain = self.items[member]["domain"]
        pairs = zip(domain.operands, group.operands_over(member, domain), strict=True)
        return all((own is None) == (layout is None) for (_, own), (_, layout) in pairs)

    def _streams(self, op: Candidate, group: Group, dims: tuple[int, ...]) -> int:
        """Count the operands that differ from row to row if an op over the group's shape joins; 0 without rows."""
        if not dims:
            return 0
        inside = {op.item, *group.members}
        operands = [
            operand for member in group.members for operand in group.operands_over(member, self.items[member]["domain"])
        ]
        items = set()
        for source, layout in (*operands, *op.domain.operands):
            if source not in inside and layout is not None:
                steps = [
                    stride if extent > 1 else 0 for extent, stride in zip(layout.shape, layout.strides, strict=True)
                ]
                # An operand with one number for all rows is streamed too.
                if not any(steps) or any(step for axis, step in enumerate(steps) if axis not in dims):
                    items.add((source, layout))
        return len(items)

    def _reads_only_vectors(self, group: Group, product: int) -> bool:
        """Return True if all operands but the product vary along at most one of the last two dimensions."""
        members = [member for member in group.members if member != product]
        operands = [operand for each in members for operand in group.operands_over(each, self.items[each]["domain"])]
        for source, layout in operands:
            if source == product or source in group.members or layout is None:
                continue
            varying = [
                axis - len(layout.shape)
                for axis, (extent, stride) in enumerate(zip(layout.shape, layout.strides, strict=True))
                if extent > 1 and stride
            ]
            if len(varying) > 1 or min(varying, default=-1) < -2:
                return False
        return True

    def _reduction_above(self, item: int, group: Group) -> tuple[int, ...]:
        """Return the dimensions of a reduction over the group's shape that `item` post-processes; () without one.

        All ops between must have no reader outside this group, so that the reduction joins it too.
        """
        inside = {item, *group.members}
        stack = [item]
        while stack:
            for source, _ in self.items[stack.pop()]["domain"].operands:
                domain = self.items[source].get("domain")
                if domain is None or source in inside or not inside.issuperset(self.items[source]["readers"]):
                    continue
                if domain.kind == "row" and domain.per_row and domain.shape == group.shape:
                    return domain.dims if are_neighbours(domain.dims) else ()
                if domain.kind == "map":
                    inside.add(source)
                    stack.append(source)
        return ()


Rule = Callable[[Grouper, Candidate, Group], bool | None]

_RULES: Final[Mapping[tuple[Kind, Kind], tuple[Rule, ...]]] = {
    ("map", "map"): (Grouper._join_at_equal_positions, Grouper._join_per_row),
    ("map", "row"): (Grouper._join_at_equal_positions, Grouper._join_per_row),
    ("map", "matmul"): (Grouper._join_at_equal_positions,),
    ("map", "conv"): (Grouper._join_at_equal_positions,),
    ("row", "map"): (Grouper._join_reduction, Grouper._join_reduction_before),
    ("row", "row"): (Grouper._join_reduction,),
    ("matmul", "map"): (Grouper._join_product,),
    ("conv", "map"): (Grouper._join_product,),
}
"""Rules by the kind of the op and the kind of the group that reads it, in the order in which they are tried."""
