"""Gradients of functions: `grad`, `value_and_grad` and `vjp`.

    gradient = nt.grad(lambda w: ((x @ w - y) ** 2).mean())(w)

The function records its graph as usual; the gradient is recorded after it with ordinary ops, lazily. So it is planned,
fused, explained, captured by `jit` and differentiated again as any graph is.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from npu_tensor import ops
from npu_tensor.autograd.backward_ops import backward_op
from npu_tensor.autograd.structured import RULES, Recording, summed_to, with_rows
from npu_tensor.errors import ArgumentError, DTypeError, GradientError
from npu_tensor.graph.history import Reached, differentiated, forget, grad_mode, reached, same
from npu_tensor.graph.nodes import Node, located
from npu_tensor.graph.tracing import current_watch
from npu_tensor.jit.trees import flatten, rebuild
from npu_tensor.tensor import Tensor, handle_on, record, wrap


def vjp(function: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """Call a function and return its result and vector-Jacobian product.

    Args:
        function: Function to differentiate.
        primals: Its arguments: float tensors, or nested tuples, lists and dicts of them.
        has_aux: The function returns (result, aux), and aux is not differentiated.

    Returns:
        The result, a function from gradients in the structure of the result to a tuple of gradients of the primals,
        and aux if `has_aux` is set.

    Raises:
        GradientError: An op on the way has no derivative.
    """
    result, aux, targets, through = _trace("vjp", function, primals, has_aux)
    outputs: list[Tensor] = []
    form = flatten(result, outputs)

    def pulled_back(*gradients: Any) -> Any:
        cotangents: list[Tensor] = []
        if flatten(gradients[0] if len(gradients) == 1 else gradients, cotangents) != form:
            raise ArgumentError("vjp: the gradients must have the structure of the result")
        for output, gradient in zip(outputs, cotangents, strict=True):
            require_like("vjp", output, gradient)
        return rebuild(primals, gradients_of(outputs, cotangents, targets, through))

    return (result, pulled_back, aux) if has_aux else (result, pulled_back)


def value_and_grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """Make a function that returns the value of `function` and its gradient.

    Args:
        function: Function that returns a tensor of one float.
        argnums: Positions of the arguments to differentiate by: float tensors, or nested tuples, lists and dicts of
            them.
        has_aux: The function returns (value, aux), and aux is not differentiated.

    Returns:
        A function that returns (value, gradient), or ((value, aux), gradient) if `has_aux` is set. The gradient has the
        structure of the argument; for several arguments it is a tuple.
    """
    if not callable(function):
        hint = "; call backward() on a loss to add gradients to `grad` of its leaves"
        raise TypeError(f"grad: expected a function to differentiate, not {_described(function)}{hint}")

    @functools.wraps(function)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        if not numbers or not all(-len(args) <= number < len(args) for number in numbers):
            raise ArgumentError(f"grad: argnums {argnums} do not fit {len(args)} arguments")

        def partial(*values: Any) -> Any:
            every = list(args)
            for number, value in zip(numbers, values, strict=True):
                every[number] = value
            return function(*every, **kwargs)

        primals = tuple(args[number] for number in numbers)
        value, aux, targets, through = _trace("grad", partial, primals, has_aux)
        if not isinstance(value, Tensor) or value._node.spec.size != 1 or not value.dtype.is_floating_point:
            raise GradientError(f"grad: the function must return a tensor of one float, not {_described(value)}")
        seed = ops.fill(1, value.shape, value.dtype)
        gradients = rebuild(primals, gradients_of([value], [seed], targets, through))
        gradient = gradients[0] if isinstance(argnums, int) else gradients
        return ((value, aux) if has_aux else value), gradient

    return differentiated


def grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """Make a function that returns the gradient of `function`, or (gradient, aux); see `value_and_grad`."""
    both = value_and_grad(function, argnums, has_aux)

    @functools.wraps(function)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        value, gradient = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return differentiated


def _described(value: Any) -> str:
    return str(value._node.spec) if isinstance(value, Tensor) else type(value).__name__


def require_like(name: str, output: Tensor, gradient: Tensor) -> None:
    """Raise ArgumentError unless the gradient has the shape and dtype of the output."""
    if output._node.spec is not gradient._node.spec:
        raise ArgumentError(f"{name}: the gradient of {output._node.spec} cannot be {gradient._node.spec}")


def _trace(
    name: str, function: Callable[..., Any], primals: tuple[Any, ...], has_aux: bool
) -> tuple[Any, Any, list[Node], Reached]:
    """Call a function and return its result, aux, the nodes of its arguments, and the nodes that depend on them."""
    tensors: list[Tensor] = []
    flatten(primals, tensors)
    for tensor in tensors:
        if not tensor.dtype.is_floating_point:
            raise DTypeError(f"{name}: only floats have gradients, not {tensor._node.spec}")
    if (watch := current_watch()) is not None:
        for tensor in tensors:
            watch.read(tensor)
    targets = [same(tensor._node, (tensor._node,)) for tensor in tensors]
    enabled, outputs = grad_mode.enabled, list[Tensor]()
    with differentiated():
        result = function(*rebuild(primals, [wrap(target) for target in targets]))
        aux = None
        if has_aux:
            if not isinstance(result, tuple) or len(result) != 2:
                raise ArgumentError(f"{name}: with has_aux the function must return (result, aux)")
            result, aux = result
        flatten(result, outputs)
        through = reached([output._node for output in outputs], set(targets))
        flatten(aux, outputs)
        every = reached([*targets, *(output._node for output in outputs)], set(targets))
    forget(every, enabled)
    return result, aux, targets, through


def gradients_of(
    outputs: Sequence[Tensor], given: Sequence[Tensor], targets: Sequence[Node], through: Reached
) -> list[Tensor]:
    """Compute the gradients of the targets from those given for the outputs, through the nodes between them.

    Gradients pass through targets that have inputs in `through`. The results are distinct tensors and may be changed.
    """
    gradients: dict[Node, Tensor] = {}

    def add(node: Node, gradient: Tensor) -> None:
        gradients[node] = _sum(gradients[node], gradient) if node in gradients else gradient

    for output, gradient in zip(outputs, given, strict=True):
        add(output._node, gradient)
    for node, inputs in reversed(through.items()):
        if node not in gradients or not inputs:
            continue
        of = _recording(node, inputs, gradients[node] if node in targets else gradients.pop(node))
        for number, operand in enumerate(inputs):
            if operand in through and operand.spec.dtype.is_floating_point:
                add(operand, _of_operand(node, of, number))
    results, used = list[Tensor](), {gradient._node for gradient in given}
    for target in targets:
        result = gradients[target] if target in gradients else ops.fill(0, target.spec.shape, target.spec.dtype)
        is_own = result._alias is None and result._node not in used
        results.append(result if is_own else record(ops.reshape.op, (result,), (target.spec.shape,)))
        used.add(result._node)
    return results


def _sum(total: Tensor, gradient: Tensor) -> Tensor:
    """Add two gradients. The gradient of a view, which is zero elsewhere, is added only where the view is."""
    node, call = gradient._node, gradient._node.call
    op, before = ops.write_strided.op, total._node.call
    if call is not None and call.op is op and before is not None and before.op is op and node.inputs:
        base, value, offset = node.inputs
        if base.call is not None and base.call.op is ops.fill.op and base.inputs[0] == 0:
            strides = call.attributes["strides"]
            return ops.write_strided(total, _tensor(value), offset, strides=strides, add=True)
    return total + gradient


def _recording(node: Node, inputs: Sequence[Any], gradient: Tensor) -> Recording:
    assert node.call is not None
    return Recording(node.call, [_tensor(each) for each in inputs], _tensor(node), gradient)


def _of_operand(node: Node, of: Recording, number: int) -> Tensor:
    """Record the gradient of an operand from that of a node."""
    op = of.call.op
    rule = op.gradient or RULES.get(op.name)
    try:
        if rule is not None:
            return rule(of, number)
        if op.kind not in ("map", "row"):
            raise NotImplementedError
    except NotImplementedError as error:
        form = f" with {error}" if str(error) else ""
        raise located(GradientError(), f"{op.name}{form} has no derivative", node.where) from None
    gradient = with_rows(of) if of.call.reduces else of.gradient
    backward = backward_op(of.call, number)
    if backward is not None:
        used = [(*of.operands, of.result)[n] for n in backward.used]
        gradient = record(backward.op, (*used, gradient), backward.attributes)
    return summed_to(gradient, of.spec(number).shape)


def _tensor(operand: Any) -> Any:
    """Return a Tensor for a node without becoming its handle. Numbers are returned unchanged."""
    if not isinstance(operand, Node):
        return operand
    watch = current_watch()
    if watch is not None and (reader := watch.reader(operand)) is not None:
        return reader
    return handle_on(operand)
