"""`nt.npu_kernel`: an op whose NPU kernel is C++ in a string.

    @nt.npu_kernel('''
    void scaled_sum(const bfloat16 *__restrict a, const bfloat16 *__restrict b, bfloat16 *__restrict out, int32 n) {
        aie::set_rounding(aie::rounding_mode::conv_even);
        for (int i = 0; i < n; i += 32)
            aie::store_v(out + i, aie::add(aie::add(aie::load_v<32>(a + i), aie::load_v<32>(a + i)),
                                           aie::load_v<32>(b + i)));
    }
    ''')
    def scaled_sum(a, b):
        return 2 * a + b

The decorated function is the contract: it computes on NumPy arrays what the C++ computes on a core.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, wraps
from typing import Any, Final, NamedTuple

import numpy as np

from npu_tensor.authoring.apart import Failure, run_apart
from npu_tensor.authoring.counting import Counted, counted, cycles
from npu_tensor.dataflow.array import Arch
from npu_tensor.dataflow.check import check
from npu_tensor.dataflow.cost import count, predict
from npu_tensor.dataflow.design import Design, Source
from npu_tensor.dtypes import as_dtype
from npu_tensor.errors import ArgumentError, BuildError, DTypeError, ShapeError
from npu_tensor.functions.creation import from_numpy, zeros
from npu_tensor.functions.resources import default_device
from npu_tensor.ggml_hsa.ahead_of_time import Compilation, compile
from npu_tensor.ggml_hsa.single_task import capture_task
from npu_tensor.kernels.dataflow_patterns import PATTERNS, CoreFunction, ObjectSizes, Pattern, Shape
from npu_tensor.kernels.offer import HostOperand, Offer, Target
from npu_tensor.ops.declare import Op, Operand, Resolution
from npu_tensor.ops.rules import require_tensor
from npu_tensor.runtime.build.iron_program import program
from npu_tensor.runtime.devices.device_uri import parse_uri
from npu_tensor.runtime.npu.packing import pack, unpack
from npu_tensor.runtime.npu.tensor_desc import TensorDesc
from npu_tensor.runtime.sim import timeline
from npu_tensor.runtime.sim.host_compiler import compile_source, functions_by_source
from npu_tensor.runtime.sim.kind import simulated_target
from npu_tensor.runtime.sim.simulated_array import SimulatedArray
from npu_tensor.runtime.sim.tile_memory import DeviceBuffer
from npu_tensor.spec import Spec
from npu_tensor.task import Refusal, Task
from npu_tensor.tensor import Tensor, record

Array = np.ndarray[Any, Any]

TARGETS: Final = ("npu1", "npu2")
_MOST_PROBLEMS: Final = 2
"""Problems of a design that are shown; most repeat for every core."""
_CXX_DTYPES: Final[Mapping[str, str]] = {
    "bfloat16": "bfloat16",
    "float": "float32",
    **{f"{sign}int{bits}{end}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32) for end in ("", "_t")},
}
_POINTER: Final = re.compile(r"(const\s+)?(?:std::)?(\w+)\s*\*\s*(?:__restrict\s+|__restrict__\s+)?(\w+)")
_NUMBER: Final = re.compile(r"(?:const\s+)?(?:int32|(?:std::)?int32_t|int)\s+\w+")
_HEADERS: Final = "#define NT_HOST_GUARD  // The simulator reports a crash.\n#include <aie_api/aie.hpp>\n"
_MATH: Final = "#include <nt/vector_math.hpp>\n"


class Prototype(NamedTuple):
    """Parameters of a C++ function: operands by name and dtype, dtype and number of results, number of integers."""

    text: str
    operands: tuple[tuple[str, str], ...]
    result: str
    results: int
    numbers: int


def prototype_of(name: str, source: str) -> Prototype:
    """Read the parameters of a function. Raises ArgumentError with what is wrong about them."""
    if not name.isidentifier():
        raise ArgumentError("npu_kernel: decorates a function with a name, which is also that of the C++, not a lambda")
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", source, flags=re.DOTALL)
    match = re.search(rf"\bvoid\s+{re.escape(name)}\s*\(([^)]*)\)", code)
    if match is None:
        raise ArgumentError(f"npu_kernel: the C++ has no function `void {name}(...)`; it must have the contract's name")
    operands: list[tuple[str, str]] = []
    results: list[tuple[str, str]] = []
    numbers = 0
    for text in match[1].split(","):
        parameter = " ".join(text.split())
        pointer = _POINTER.fullmatch(parameter)
        if pointer and pointer[2] in _CXX_DTYPES and not numbers and not (pointer[1] and results):
            (operands if pointer[1] else results).append((pointer[3], _CXX_DTYPES[pointer[2]]))
        elif _NUMBER.fullmatch(parameter):
            numbers += 1
        else:
            raise ArgumentError(
                f"npu_kernel: {name} takes `{parameter}`; it must take pointers to its operands (`const T *name`), "
                f"pointers to its results (`T *name`), and int32 numbers, in this order. "
                f"Types are {', '.join(_CXX_DTYPES)}"
            )
    if not operands or not results:
        raise ArgumentError(
            f"npu_kernel: {name} has {len(operands)} operands, which are pointers to const, and {len(results)} "
            "results, which are other pointers; give both"
        )
    dtype, *others = dict.fromkeys(dtype for _, dtype in results)
    if others:
        raise ArgumentError(f"npu_kernel: {name} has results of {dtype} and {others[0]}; give all the same type")
    return Prototype(" ".join(match[0].split()), tuple(operands), dtype, len(results), numbers)


class Trial(NamedTuple):
    """Comparison of a simulated kernel with its contract.

    Attributes:
        shape: Shape of the operands.
        target: Simulated array, or "cpu" for operands without elements.
        problem: "" if the result is within the tolerance, else the difference or the error.
        worst: Largest difference, relative to 1 + the magnitude of the expected value.
    """

    shape: Shape
    target: str
    problem: str
    worst: float = 0.0


class Trials(tuple[Trial, ...]):
    """Results of `CustomKernel.test`. True if no trial has a problem."""

    def __bool__(self) -> bool:
        return not any(trial.problem for trial in self)

    def __repr__(self) -> str:
        lines = (f"{t.target} {list(t.shape)}: {t.problem or f'equal (within {t.worst:.1e})'}" for t in self)
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class KernelCost:
    """Predicted cost of a run.

    Attributes:
        counted: Instructions of one call of the core function.
        elements: Elements of an object.
        seconds: Predicted duration of a run, without dispatch.
        limit: Part of the array that limits it, as in `explain`.
        bounds: Seconds of each part alone: the busiest core ("compute"), the busiest channel ("stream"), host memory
            ("ddr") and the controller, which starts transfers ("control").
    """

    counted: Counted
    elements: int
    seconds: float
    limit: str
    bounds: Mapping[str, float]

    def __repr__(self) -> str:
        bounds = ", ".join(f"{name} {seconds * 1e6:.1f} us" for name, seconds in self.bounds.items())
        return (
            f"one call ({self.elements} elements): {self.counted}\n"
            f"the run: predicted {self.seconds * 1e6:.1f} us, limited by {self.limit} ({bounds}); "
            f"{self.seconds / self.bounds['ddr']:.1f} times the bound of host memory"
        )


class CustomKernel:
    """An op with a kernel of its own, see `npu_kernel`. Call it with tensors.

    Attributes:
        name: Name of the op and of the C++ function.
        contract: NumPy function that defines the results.
        function: C++ function with its settings.
        tolerance: Largest difference from the contract, relative to 1 + the magnitude of its result.
    """

    def __init__(
        self,
        contract: Callable[..., Array],
        function: CoreFunction,
        pattern: Pattern,
        tolerance: float,
        gradient: Callable[..., Sequence[Tensor]] | None = None,
    ) -> None:
        self.name, self.contract, self.function, self.tolerance = function.name, contract, function, tolerance
        self.__doc__ = contract.__doc__
        self._pattern = pattern
        names = [name for name, _ in function.operands]
        rule = None if gradient is None else partial(_pull_back, gradient)

        @wraps(contract)
        def body(*operands: Array) -> Array:
            return self._expected(operands)

        self._op = Op(
            body, kind="data", rule=self._rule, public=False, gradient=rule, claim=self._claim,
            signature=(names, ()),
        )  # fmt: skip

    def __call__(self, *operands: Any) -> Any:
        """Record the op and return its result, or a tuple of several. Raises ShapeError and DTypeError."""
        result = self._recorded(*operands)
        return result if self.function.results == 1 else result.unbind(0)

    def _recorded(self, *operands: Any) -> Tensor:
        """Record the op and return one tensor, whose planes are the results if there are several."""
        if len(operands) != len(self.function.operands):
            raise TypeError(f"{self.name} takes {len(self.function.operands)} tensors, not {len(operands)}")
        return record(self._op, operands)

    def __repr__(self) -> str:
        operands = ", ".join(f"{name}: {dtype}" for name, dtype in self.function.operands)
        results = ", ".join([self.function.result] * self.function.results)
        return f"<npu_kernel {self.name}({operands}) -> {results}>"

    def check(self, *shapes: Sequence[int], target: str = "npu2") -> list[str]:
        """Return what the array, or the C++ compiler of this machine, would refuse; nothing if all is well.

        Args:
            shapes: Shapes of the operands; one shape stands for all, with pattern "gemm" (..., M, K, N).
            target: Array, as in URIs of simulated devices: "npu1", "npu2?cols=4".
        """
        offer = self._planned(shapes, target)
        if isinstance(offer, Refusal):
            return [self._explained(offer.reason)]
        design = offer.design()
        try:
            for source, functions in functions_by_source(design).items():
                compile_source(source, design.array.arch, functions)
        except BuildError as error:
            return [self._explained(str(error))]
        return []

    def test(self, *shapes: Sequence[int], targets: Sequence[str] = TARGETS, seconds: float = 20) -> Trials:
        """Compare the simulated kernel with its contract, in a process of its own.

        Operands are random: normally distributed floats, integers of the whole range. Empty tensors are computed on the
        CPU, as by the op, in a trial of the target "cpu".

        Args:
            shapes: Shapes to try, each for all operands; by default small, odd and large ones.
            targets: Arrays.
            seconds: Time limit for all runs together.

        Raises:
            ShapeError: The NumPy function returns another shape than the pattern.
        """
        tried = [tuple(shape) for shape in shapes] or self._shapes()
        where = [(target, shape) for target in targets for shape in tried if 0 not in shape]
        cases = [(target, shape, self._random(shape)) for target, shape in where]
        expected = [self._expected(operands) for *_, operands in cases]
        # Counting instructions would take as long as all trials.
        function = self.function._replace(cycles=_uncounted)
        if self._pattern in PATTERNS.values():
            calls: list[partial[Array]] = [partial(_attempt, function, self._pattern, *case) for case in cases]
        else:  # It may be defined in a notebook, where another process does not find it.
            kernel = CustomKernel(self.contract, function, self._pattern, self.tolerance)
            calls = [kernel._simulation(*case) for case in cases]
        trials = []
        for (target, shape), answer, values in zip(where, run_apart(calls, seconds), expected, strict=True):
            if isinstance(answer, Failure):
                trials.append(Trial(shape, target, answer.reason))
            else:
                trials.append(Trial(shape, target, *self._compared(answer, values)))
        for shape in (shape for shape in tried if 0 in shape):
            operands = self._random(shape)
            with default_device(_uri(targets[0])):
                computed = self._recorded(*map(from_numpy, operands)).numpy()
            trials.append(Trial(shape, "cpu", *self._compared(computed, self._expected(operands))))
        return Trials(trials)

    def cost(self, *shapes: Sequence[int], target: str = "npu2") -> KernelCost:
        """Predict the time of a run from counted instructions.

        Raises:
            BuildError: The kernel is refused, or there is no C++ compiler.
            ArgumentError: The pattern is one of your own and does not predict cycles.
        """
        calls: list[tuple[CoreFunction, Arch, ObjectSizes]] = []
        cycles = self.function.cycles

        def noted(function: CoreFunction, arch: Arch, sizes: ObjectSizes) -> int | str:
            calls.append((function._replace(cycles=cycles), arch, sizes))
            return cycles(*calls[-1])

        noting = CustomKernel(self.contract, self.function._replace(cycles=noted), self._pattern, self.tolerance)
        design = noting._offer(shapes, target).design()
        if not calls:
            raise ArgumentError(f"{self.name}.cost: the pattern does not call `function.cycles`")
        prediction = predict(count(design), design.array)
        bounds = {name: getattr(prediction, name) for name in ("compute", "stream", "ddr", "control")}
        counts = counted(*calls[0])
        if isinstance(counts, str):
            raise BuildError(counts)
        return KernelCost(counts, calls[0][2].data, bounds[prediction.limit], prediction.limit, bounds)

    def timeline(self, *shapes: Sequence[int], target: str = "npu2") -> timeline.Timeline:
        """Return the simulated activity of every tile over a run, on zeros; in a notebook it shows as a drawing."""
        design = self._offer(shapes, target).design()
        loaded = SimulatedArray(design.array).load(design)
        buffers = [DeviceBuffer(buffer.type.nbytes) for buffer in design.host_buffers]
        with timeline.recorded() as timelines:
            loaded.run([buffer.device for buffer in buffers])
        return timelines[0]

    def iron(self, *shapes: Sequence[int], target: str = "npu2") -> str:
        """Return the kernel as a Python program for mlir-aie's IRON."""
        return program(self._offer(shapes, target).design())

    def save(self, directory: str | os.PathLike[str], *shapes: Sequence[int], target: str | None = None) -> Compilation:
        """Build the kernel for some shapes into a kernel directory, see `nt.compile`."""
        operands = [zeros(*shape, dtype=dtype) for shape, (_, dtype) in self._with_dtypes(shapes)]
        return compile(self._recorded, *operands, target=target, directory=directory)

    # --- the op

    def _rule(self, operands: tuple[Operand, ...], attributes: dict[str, Any]) -> Resolution:
        specs = [require_tensor(each) for each in operands]
        for spec, (name, dtype) in zip(specs, self.function.operands, strict=True):
            if spec.dtype.name != dtype:
                raise DTypeError(f"takes {dtype} as {name}, not {spec.dtype.name}")
        shape = self._result_shape([spec.shape for spec in specs])
        registers = tuple("float32" if spec.dtype.name == "bfloat16" else None for spec in specs)
        return Resolution(Spec.of(shape, as_dtype(self.function.result)), registers, {})

    def _result_shape(self, shapes: list[Shape]) -> Shape:
        shape, results = self._pattern.result_shape(shapes), self.function.results
        return shape if results == 1 else (results, *shape)

    def _claim(self, task: Task, target: Target) -> Offer | Refusal:
        if any(0 in tensor.layout.shape for tensor in task.tensors):
            return Refusal(f"{self.name}: an operand has no elements")
        offer = self._pattern.claim(self.function, task, target)
        violations = [] if isinstance(offer, Refusal) else list(dict.fromkeys(map(str, check(offer.design()))))
        if not violations:
            return offer
        more = len(violations) - _MOST_PROBLEMS
        return Refusal(" ".join([*violations[:_MOST_PROBLEMS], *([f"And {more} more."] if more > 0 else [])]))

    def _with_dtypes(self, shapes: Sequence[Sequence[int]]) -> Iterator[tuple[Sequence[int], tuple[str, str]]]:
        operands = self.function.operands
        if len(shapes) == 1:
            shapes = self._operand_shapes(tuple(shapes[0]))
        if len(shapes) != len(operands):
            raise ArgumentError(f"{self.name} has {len(operands)} operands; give one shape, or one for each")
        yield from zip(shapes, operands, strict=True)

    def _planned(self, shapes: Sequence[Sequence[int]], target: str) -> Offer | Refusal:
        shapes = shapes or self._shapes()[-1:]
        if any(0 in shape for shape in shapes):
            return Refusal(f"{self.name}: an operand has no elements, so the CPU computes the op")
        descs = [TensorDesc.of(tuple(shape), as_dtype(dtype)) for shape, (_, dtype) in self._with_dtypes(shapes)]
        return capture_task(self._recorded, descs, simulated_target(parse_uri(_uri(target))))[1]

    def _offer(self, shapes: Sequence[Sequence[int]], target: str) -> Offer:
        offer = self._planned(shapes, target)
        if isinstance(offer, Refusal):
            raise BuildError(self._explained(offer.reason))
        return offer

    # --- trials

    def _simulation(self, target: str, shape: Shape, operands: Sequence[Array]) -> partial[Array]:
        """Return a call that simulates the kernel, or one that raises BuildError with what is wrong."""
        problems = self.check(shape, target=target)
        if problems:
            return partial(_refuse, "; ".join(problems))
        offer = self._offer((shape,), target)
        result_shape = self._result_shape([operand.shape for operand in operands])
        return partial(_simulated, offer.design(), offer.operands, operands, result_shape)

    def _shapes(self) -> list[Shape]:
        tile = self.function.tile
        return [*(self._pattern.trials or ((1,), (max(tile - 1, 1),), (3, tile), (70 * tile + 5,)))]

    def _operand_shapes(self, shape: Shape) -> list[Shape]:
        of_trial = self._pattern.operand_shapes
        return [shape] * len(self.function.operands) if of_trial is None else of_trial(shape)

    def _random(self, shape: Shape) -> list[Array]:
        random = np.random.default_rng(0)
        operands = []
        for of_operand, (_, dtype) in self._with_dtypes([shape]):
            kind = as_dtype(dtype)
            if kind.is_floating_point:
                values: Array = random.standard_normal(of_operand, np.float32)
            else:
                limits = np.iinfo(kind.numpy)
                values = random.integers(limits.min, limits.max, of_operand, endpoint=True)
            operands.append(values.astype(kind.numpy))
        return operands

    def _expected(self, operands: Sequence[Array]) -> Array:
        # Copies: a contract that works in place must not change the operands.
        wide = [each.astype(np.float32 if each.dtype.name == "bfloat16" else each.dtype) for each in operands]
        dtype, answer = as_dtype(self.function.result), self.contract(*wide)
        results = answer if isinstance(answer, tuple) else (answer,)
        if len(results) != self.function.results:
            counts = f"{len(results)} results, the C++ {self.function.results}"
            raise ShapeError(f"{self.name}: the NumPy function returns {counts}")
        shape = self._pattern.result_shape([operand.shape for operand in operands])
        planes = []
        for result in map(np.asarray, results):
            if result.shape != shape:
                lists = f"{list(result.shape)}, not {list(shape)}"
                raise ShapeError(f"{self.name}: the NumPy function returns shape {lists}")
            if result.dtype.kind == "f" and not dtype.is_floating_point:
                raise DTypeError(f"{self.name}: the NumPy function returns {result.dtype}, the C++ {dtype.name}")
            planes.append(result.astype(dtype.numpy))
        return np.stack(planes) if len(planes) > 1 else planes[0]

    def _compared(self, result: Array, expected: Array) -> tuple[str, float]:
        mine, theirs = result.astype(np.float64), expected.astype(np.float64)
        with np.errstate(invalid="ignore"):
            errors = np.abs(mine - theirs) / (1 + np.abs(theirs))
        errors = np.where((mine == theirs) | (np.isnan(mine) & np.isnan(theirs)), 0, errors)
        worst = float(np.nan_to_num(errors, nan=np.inf).max(initial=0))
        if worst <= self.tolerance:
            return "", worst
        place = np.unravel_index(int(np.nan_to_num(errors, nan=np.inf).argmax()), errors.shape)
        wrong = int((~(errors <= self.tolerance)).sum())
        where = f"[{', '.join(map(str, place))}]"
        return f"{wrong} of {errors.size} elements differ; {where} is {mine[place]}, expected {theirs[place]}", worst

    def _explained(self, message: str) -> str:
        """Add the lines of the C++ that a compiler's message names."""
        lines = self.function.source.text.split(f'#line 1 "{self.name}"\n')[-1].splitlines()
        numbers = dict.fromkeys(map(int, re.findall(rf"^{re.escape(self.name)}:(\d+):", message, re.MULTILINE)))
        shown = [f"{number:4} | {lines[number - 1]}" for number in numbers if number <= len(lines)]
        return "\n".join([message, *shown])


def _uri(target: str) -> str:
    return f"sim:{target.removeprefix('sim:')}"


def _uncounted(function: CoreFunction, arch: Arch, sizes: ObjectSizes) -> int:
    return 1


def _attempt(function: CoreFunction, pattern: Pattern, target: str, shape: Shape, operands: Sequence[Array]) -> Array:
    """Check and simulate a kernel without its contract."""

    def no_contract(*operands: Array) -> Array:
        raise NotImplementedError

    no_contract.__name__ = function.name
    kernel = CustomKernel(no_contract, function, pattern, 0.0)
    return kernel._simulation(target, shape, operands)()


def _refuse(problems: str) -> Array:
    raise BuildError(problems)


def _simulated(design: Design, hosts: Sequence[HostOperand], operands: Sequence[Array], shape: Shape) -> Array:
    """Run a design on a simulated array and return its result. All tensors are contiguous."""
    buffers = [DeviceBuffer(buffer.type.nbytes) for buffer in design.host_buffers]
    for host, operand, buffer in zip(hosts, operands, buffers, strict=False):
        pack(host, operand.reshape(-1), buffer.device)
    SimulatedArray(design.array).load(design).run([buffer.device for buffer in buffers])
    result = np.empty(shape, as_dtype(hosts[-1].dtype).numpy)
    unpack(hosts[-1], buffers[-1].device, result.reshape(-1))
    return result


def _pull_back(gradient: Callable[..., Sequence[Tensor]], of: Any, number: int) -> Tensor:
    """Return the gradient of an operand. `of` is the Recording of the op."""
    if 0 not in of.shared:
        results = gradient(of.gradient, *of.operands)
        if not isinstance(results, (tuple, list)) or len(results) != len(of.operands):
            raise ArgumentError(
                f"{of.call.op.name}: `gradient` must return a tuple of {len(of.operands)} tensors, one for each operand"
            )
        of.shared.update(enumerate(results))
    return of.shared[number]  # type: ignore[no-any-return]


def npu_kernel(
    source: str,
    *,
    pattern: str | Pattern = "map",
    tolerance: float | None = None,
    tile: int = 1024,
    depth: int = 2,
    columns: int = 8,
    cores: int = 4,
    gradient: Callable[..., Sequence[Tensor]] | None = None,
) -> Callable[[Callable[..., Array]], CustomKernel]:
    """Make an op of a NumPy function and of the C++ that computes it on a core of an NPU.

    NPU devices, simulated ones included, run the C++; all others call the NumPy function. The C++ function has the name
    of the NumPy function. It takes const pointers to an object of each operand, a pointer to the object of the result,
    and optionally int32 numbers, which get the elements of an object. The NumPy function gets bfloat16 as float32.

    With "map", "rows" and "reduce", the C++ function may take pointers to two results of one type. The NumPy function
    and the op then return a tuple. More than two operands have at most two types.

    Args:
        source: C++, which may use `aie_api/aie.hpp` and the functions of `nt/vector_math.hpp`. A core rounds down
            until it calls `aie::set_rounding`.
        pattern: "map": equal shapes, of which each object has `tile` elements in a line. "rows": an object is a row
            (the last dimension), padded with zeros to a multiple of 64 bytes. "reduce": the same with one element of
            result per row. "neighbours": one image, of which an object is a row; the function takes const
            pointers to an odd number of rows, 13 at most with `depth=2`, the middle one being that of the result; the
            outermost rows are repeated.
            "gemm": the product of two matrices; the function adds the product of a tile of each to a tile of sums, in
            blocks whose extents are constants of namespace `tile`. Or a `Pattern` of your own: the shape of the result,
            and an offer with a design.
        tolerance: Largest difference from the NumPy function that `test` accepts, relative to 1 + its magnitude; by
            default 0.01 for floats and 0 for integers.
        tile: Elements of an object for "map".
        depth: Buffers per stream of a core: 1, or 2 to overlap transfers and computation.
        columns: Most columns of the array that are used.
        cores: Most cores of a column that are used.
        gradient: Function from the gradient of the result and the operands to the gradients of the operands, all
            tensors; without it there is none. The gradients of two results are stacked.

    Returns:
        A decorator for the NumPy function; its result is a `CustomKernel`.

    Raises:
        ArgumentError: The pattern is unknown, or the C++ function is missing or has other parameters.

    >>> twice = "void twice(const int32 *a, int32 *out, int32 n) { for (int i = 0; i < n; ++i) out[i] = 2 * a[i]; }"
    >>> decorate = nt.npu_kernel(twice)
    """
    chosen = pattern if isinstance(pattern, Pattern) else PATTERNS.get(pattern)
    if chosen is None:
        raise ArgumentError(f"npu_kernel: pattern must be one of {', '.join(PATTERNS)}, not {pattern!r}")
    for name, value in (("tile", tile), ("depth", depth), ("columns", columns), ("cores", cores)):
        if not isinstance(value, int) or value < 1:
            raise ArgumentError(f"npu_kernel: {name} must be 1 or more, an integer, not {value!r}")

    def decorate(contract: Callable[..., Array]) -> CustomKernel:
        name = getattr(contract, "__name__", "")
        prototype = prototype_of(name, source)
        names = [*inspect.signature(contract).parameters]
        operands = prototype.operands
        pointers = len(operands) if chosen.window else 1
        if chosen.window:  # A row and its neighbours are one operand.
            if len(names) != 1 or pointers < 3 or pointers % 2 == 0 or len({dtype for _, dtype in operands}) > 1:
                raise ArgumentError(
                    f"npu_kernel: with pattern {pattern!r}, {name} takes 3, 5, 7, ... pointers of one type in C++ and "
                    f"one array in Python, not {pointers} and {len(names)}"
                )
            operands = ((names[0], operands[0][1]),)
        if names != [operand for operand, _ in operands]:
            raise ArgumentError(
                f"npu_kernel: {name} takes ({', '.join(names)}) in Python and "
                f"({', '.join(operand for operand, _ in prototype.operands)}) in C++"
            )
        if prototype.results > chosen.results:
            raise ArgumentError(
                f"npu_kernel: {name} has {prototype.results} results; pattern {pattern!r} has {chosen.results} at most"
            )
        text = f'{_HEADERS}{_MATH if "nt::" in source else ""}extern "C" {prototype.text};\n#line 1 "{name}"\n{source}'
        function = CoreFunction(
            name, Source(name, text), operands, prototype.result, prototype.results, pointers,
            prototype.numbers, tile, depth, columns, cores, cycles,
        )  # fmt: skip
        is_float = as_dtype(prototype.result).is_floating_point
        return CustomKernel(contract, function, chosen, 0.01 * is_float if tolerance is None else tolerance, gradient)

    return decorate
