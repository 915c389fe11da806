"""Recurrent layers. Each layer records one product with its inputs and one recurrence per direction."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from npu_tensor import ops
from npu_tensor.dtypes import DType
from npu_tensor.errors import ArgumentError, ShapeError
from npu_tensor.functions.creation import zeros
from npu_tensor.functions.shape import cat
from npu_tensor.graph.history import grad_mode
from npu_tensor.nn import functional, init
from npu_tensor.nn.module import Module
from npu_tensor.nn.parameter import Parameter
from npu_tensor.tensor import Tensor, record

F: Any = functional
_ops: Any = ops
State = tuple[Tensor, ...]


class _Recurrent(Module):
    """Base of the recurrent layers.

    Attributes:
        gates: Number of products with the weights in a cell.
        states: Number of tensors in the state of a cell.
    """

    gates: ClassVar[int]
    states: ClassVar[int] = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if min(input_size, hidden_size, num_layers) < 1:
            raise ArgumentError("input_size, hidden_size and num_layers must be greater than zero")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout, self.bidirectional = bias, batch_first, dropout, bidirectional
        for layer in range(num_layers):
            features = hidden_size * len(self._suffixes()) if layer else input_size
            for suffix in self._suffixes():
                self._add_weights(features, f"_l{layer}{suffix}", device, dtype)
        self.reset_parameters()

    def _add_weights(self, features: int, suffix: str, device: Any, dtype: Any) -> None:
        rows = self.gates * self.hidden_size
        shapes = {"weight_ih": (rows, features), "weight_hh": (rows, self.hidden_size)}
        for name, shape in (*shapes.items(), ("bias_ih", (rows,)), ("bias_hh", (rows,))):
            if self.bias or name in shapes:
                setattr(self, name + suffix, Parameter(zeros(*shape, device=device, dtype=dtype)))
            elif not suffix:
                setattr(self, name, None)  # as in PyTorch, whose cells have the attribute and whose layers do not

    def _suffixes(self) -> tuple[str, ...]:
        return ("", "_reverse") if self.bidirectional else ("",)

    def reset_parameters(self) -> None:
        """Draw new random weights."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _first_states(self, hx: Any, shape: tuple[int, ...], dtype: DType) -> State:
        """Return the given states, or zeros, as a tuple. Raises ShapeError unless they have this shape."""
        states = (zeros(*shape, dtype=dtype),) * self.states if hx is None else hx
        states = (states,) if isinstance(states, Tensor) else tuple(states)
        for each in states:
            if each.shape != shape:
                raise ShapeError(f"Expected hidden size {list(shape)}, got {list(each.shape)}")
        return states

    def _recur(self, *operands: Tensor, reverse: bool, gates: bool) -> Any:
        """Record the recurrence of a layer; see `ops.recurrence`."""
        raise NotImplementedError

    def _run(self, x: Tensor, place: str, states: State) -> Tensor:
        """Return the planes of a recurrence in one direction over x (steps, batch, features), or over a single step."""
        weight, weight_h = getattr(self, f"weight_ih{place}"), getattr(self, f"weight_hh{place}")
        bias, bias_h = getattr(self, f"bias_ih{place}", None), getattr(self, f"bias_hh{place}", None)
        if bias_h is None:
            bias_h = zeros(weight_h.shape[0], dtype=weight_h.dtype)
        products = F.linear(x, weight, bias)
        operands = products if x.ndim > 2 else products.unsqueeze(0), weight_h, bias_h, *states
        gates = grad_mode.enabled and any(each.requires_grad for each in operands)
        planes: Tensor = self._recur(*operands, reverse=place.endswith("reverse"), gates=gates)
        return planes

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Any]:
        """Run all layers over a sequence.

        Args:
            input: Sequence (steps, batch, features), or (batch, steps, features) if `batch_first` is set. The batch may
                be omitted.
            hx: First states (layers * directions, batch, hidden), a tuple of two for an LSTM. None means zeros.

        Returns:
            The last layer's results at all steps (steps, batch, directions * hidden), and the last states of all
            layers.
        """
        if input.ndim not in (2, 3) or input.shape[-1] != self.input_size:
            raise ShapeError(f"needs (steps, batch, {self.input_size}), the batch may be left out: {list(input.shape)}")
        has_batch = input.ndim == 3
        x = input.unsqueeze(1) if not has_batch else input.transpose(0, 1) if self.batch_first else input
        if not x.shape[0]:
            raise ShapeError("Expected sequence length to be larger than 0 in RNN")
        count, size = self.num_layers * len(self._suffixes()), self.hidden_size
        if hx is None:
            first = [self._first_states(None, (x.shape[1], size), input.dtype)] * count
        else:
            given = self._first_states(hx, (count, *x.shape[1 : input.ndim - 1], size), input.dtype)
            first = [*zip(*(each.reshape(count, -1, size).unbind() for each in given), strict=True)]
        last: list[Tensor] = []
        for layer in range(self.num_layers):
            results = []
            for suffix in self._suffixes():
                planes = self._run(x, f"_l{layer}{suffix}", first[len(last)])
                end = 0 if suffix else len(x) - 1
                last.append(planes[: self.states, end : end + 1])
                results.append(_plane(planes, 0))
            x = results[0] if len(results) == 1 else cat(results, -1)
            if layer < self.num_layers - 1:
                x = F.dropout(x, self.dropout, self.training)
        ends = cat(last, 1) if len(last) > 1 else last[0]
        final = tuple([_plane(ends, number) for number in range(self.states)])
        if not has_batch:
            x, final = x.squeeze(1), tuple([each.squeeze(1) for each in final])
        return (x.transpose(0, 1) if self.batch_first and has_batch else x), final if self.states > 1 else final[0]

    def extra_repr(self) -> str:
        changed = self._changed_options(num_layers=1, bias=True, batch_first=False, dropout=0, bidirectional=False)
        return f"{self.input_size}, {self.hidden_size}{changed}"


def _plane(planes: Tensor, number: int) -> Tensor:
    """Return a plane as a tensor that shares no storage with the others."""
    return record(ops.select.op, (planes,), (0, number))


def _known(nonlinearity: str) -> str:
    if nonlinearity not in ("tanh", "relu"):
        raise ArgumentError(f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'.")
    return nonlinearity


class RNN(_Recurrent):
    """Recurrent layer of tanh(W x + b + U h + c), or of relu instead of tanh.

    Args:
        input_size: Features of the input.
        hidden_size: Features of the state.
        num_layers: Number of stacked layers.
        bias: Add biases.
        batch_first: Inputs are (batch, steps, features) instead of (steps, batch, features).
        dropout: Probability of dropout between layers in training.
        bidirectional: Run each layer in both directions.
        device: Device of the parameters, as for `zeros`.
        dtype: Dtype of the parameters.
        nonlinearity: "tanh" or "relu".
    """

    gates = 1

    def __init__(self, *args: Any, nonlinearity: str = "tanh", **kwargs: Any) -> None:
        self.nonlinearity = _known(nonlinearity)
        super().__init__(*args, **kwargs)

    def _recur(self, *operands: Tensor, reverse: bool, gates: bool) -> Any:
        return _ops.rnn(*operands, nonlinearity=self.nonlinearity, reverse=reverse)


class LSTM(_Recurrent):
    """Long short-term memory, with the arguments of `RNN` except `nonlinearity`. The states are results and cells."""

    gates, states = 4, 2

    def _recur(self, *operands: Tensor, reverse: bool, gates: bool) -> Any:
        return _ops.lstm(*operands, reverse=reverse, gates=gates)


class GRU(_Recurrent):
    """Gated recurrent units, with the arguments of `RNN` except `nonlinearity`."""

    gates = 3

    def _recur(self, *operands: Tensor, reverse: bool, gates: bool) -> Any:
        return _ops.gru(*operands, reverse=reverse, gates=gates)


class _Cell(_Recurrent):
    """Single step of one layer."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        if min(input_size, hidden_size) < 1:
            raise ArgumentError("input_size and hidden_size must be greater than zero")
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        self._add_weights(input_size, "", device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor, hx: Any = None) -> Any:
        """Compute one step.

        Args:
            input: Input (batch, features). The batch may be omitted.
            hx: State (batch, hidden), a tuple of two for an LSTM. None means zeros.

        Returns:
            The next state, in the form of `hx`.
        """
        if input.ndim not in (1, 2) or input.shape[-1] != self.input_size:
            raise ShapeError(f"needs (batch, {self.input_size}), the batch may be left out: {list(input.shape)}")
        expected = (*input.shape[:-1], self.hidden_size)
        states = self._first_states(hx, expected, input.dtype)
        x = input
        if input.ndim == 1:
            x, states = input.unsqueeze(0), tuple([each.unsqueeze(0) for each in states])
        planes = self._run(x, "", states).select(1, 0)
        after = tuple([_plane(planes, number) for number in range(self.states)])
        if input.ndim == 1:
            after = tuple([each.squeeze(0) for each in after])
        return after if self.states > 1 else after[0]

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}{self._changed_options(bias=True, nonlinearity='tanh')}"


class RNNCell(_Cell):
    """Single step of an `RNN`."""

    gates = 1
    _recur = RNN._recur

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self.nonlinearity = _known(nonlinearity)
        super().__init__(input_size, hidden_size, bias, device=device, dtype=dtype)


class LSTMCell(_Cell):
    """Single step of an `LSTM`."""

    gates, states = 4, 2
    _recur = LSTM._recur


class GRUCell(_Cell):
    """Single step of a `GRU`."""

    gates = 3
    _recur = GRU._recur
