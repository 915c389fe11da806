"""Layers as in torch.nn: modules with parameters, losses, initial values, and `nn.functional`."""

from npu_tensor.nn import functional, init, utils
from npu_tensor.nn.attention import (
    MultiheadAttention,
    Transformer,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from npu_tensor.nn.containers import ModuleDict, ModuleList, ParameterList, Sequential
from npu_tensor.nn.function_layers import *  # noqa: F403
from npu_tensor.nn.function_layers import __all__ as _of_functions
from npu_tensor.nn.layers import *  # noqa: F403
from npu_tensor.nn.layers import __all__ as _with_weights
from npu_tensor.nn.module import Module, functional_call
from npu_tensor.nn.parameter import Parameter
from npu_tensor.nn.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell

__all__ = [
    "GRU",
    "LSTM",
    "RNN",
    "GRUCell",
    "LSTMCell",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiheadAttention",
    "Parameter",
    "ParameterList",
    "RNNCell",
    "Sequential",
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "functional",
    "functional_call",
    "init",
    "utils",
]
__all__ += _of_functions + _with_weights


def __getattr__(name: str) -> object:
    raise AttributeError(f"npu_tensor.nn has no {name}; dir(npu_tensor.nn) lists the layers")
