"""Multi-head attention, and transformers."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, ClassVar

from npu_tensor import ops
from npu_tensor.errors import ArgumentError
from npu_tensor.functions.creation import full, zeros
from npu_tensor.nn import functional, init
from npu_tensor.nn.containers import ModuleList
from npu_tensor.nn.function_layers import Dropout
from npu_tensor.nn.layers import LayerNorm, Linear
from npu_tensor.nn.module import Module
from npu_tensor.nn.parameter import Parameter
from npu_tensor.tensor import Tensor

F: Any = functional
Mask = Tensor | None


class MultiheadAttention(Module):
    """Multi-head attention of queries to keys and values.

    Args:
        embed_dim: Features of queries and results.
        num_heads: Number of heads, which must divide `embed_dim`.
        dropout: Probability with which weights are dropped in training.
        bias: Add biases to all projections.
        kdim: Features of keys; None means `embed_dim`.
        vdim: Features of values; None means `embed_dim`.
        batch_first: Inputs are (batch, tokens, features) instead of (tokens, batch, features). The batch may be
            omitted.
        device: Device of the parameters, as for `zeros`.
        dtype: Dtype of the parameters.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        *,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if num_heads < 1 or embed_dim % num_heads:
            raise ArgumentError(f"embed_dim {embed_dim} must be divisible by num_heads {num_heads}")
        self.embed_dim, self.num_heads, self.dropout, self.batch_first = embed_dim, num_heads, dropout, batch_first
        features = embed_dim, embed_dim if kdim is None else kdim, embed_dim if vdim is None else vdim
        if set(features) == {embed_dim}:
            self.in_proj_weight = Parameter(zeros(3 * embed_dim, embed_dim, device=device, dtype=dtype))
        else:
            for name, count in zip("qkv", features, strict=True):
                setattr(self, f"{name}_proj_weight", Parameter(zeros(embed_dim, count, device=device, dtype=dtype)))
        self.in_proj_bias = Parameter(zeros(3 * embed_dim, device=device, dtype=dtype)) if bias else None
        for weight in self._own(Parameter):
            if weight[1].ndim == 2:
                init.xavier_uniform_(weight[1])
        self.out_proj = Linear(embed_dim, embed_dim, bias, device=device, dtype=dtype)
        if self.out_proj.bias is not None:
            init.zeros_(self.out_proj.bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Mask = None,
        need_weights: bool = True,
        attn_mask: Mask = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend to values.

        Masks are True for excluded keys, or floats that are added to the scores.

        Args:
            query: Queries.
            key: Keys.
            value: Values.
            key_padding_mask: Mask (batch, keys).
            need_weights: Return the attention weights too.
            attn_mask: Mask (queries, keys) or (batch * num_heads, queries, keys).
            average_attn_weights: Average the weights over the heads.
            is_causal: Hint that `attn_mask`, which must be passed, is causal.

        Returns:
            The result in the shape of `query`, and the weights: (batch, queries, keys), or (batch, num_heads, queries,
            keys) if they are not averaged, or None.
        """
        inputs = (query, key, value)
        turned = self.batch_first and query.ndim == 3
        if turned:
            moved = {each: each.transpose(0, 1) for each in inputs}
            inputs = (moved[query], moved[key], moved[value])
        in_proj = getattr(self, "in_proj_weight", None)
        separate = in_proj is None
        result, weights = F.multi_head_attention_forward(
            *inputs,
            self.embed_dim,
            self.num_heads,
            in_proj,
            self.in_proj_bias,
            *(None, None, False),
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            self.training,
            key_padding_mask,
            need_weights,
            attn_mask,
            separate,
            *((self.q_proj_weight, self.k_proj_weight, self.v_proj_weight) if separate else ()),
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (result.transpose(0, 1) if turned else result), weights


class _TransformerLayer(Module):
    """Attentions and a network of two linear layers, each with dropout, a residual and a norm."""

    _attentions: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = "relu",
        layer_norm_eps: float = 1e-05,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if activation not in ("relu", "gelu") and not callable(activation):
            raise ArgumentError(f"activation should be relu/gelu, not {activation}")
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        for name in self._attentions:
            attention = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **options)
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **options)
        self.norm_first = norm_first
        numbers = range(1, len(self._attentions) + 2)
        for number in numbers:
            setattr(self, f"norm{number}", LayerNorm(d_model, layer_norm_eps, bias=bias, **options))
        for number in numbers:
            setattr(self, f"dropout{number}", Dropout(dropout))
        self.activation = getattr(F, activation) if isinstance(activation, str) else activation

    def _in_order(self, x: Tensor, *attentions: Callable[[Tensor], Any]) -> Tensor:
        """Apply attentions, then the network, each with its residual, dropout and norm."""
        for number, part in enumerate((*attentions, self._network), 1):
            norm, dropout = getattr(self, f"norm{number}"), getattr(self, f"dropout{number}")
            x = x + dropout(part(norm(x))) if self.norm_first else norm(x + dropout(part(x)))
        return x

    def _network(self, x: Tensor) -> Any:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))


class TransformerEncoderLayer(_TransformerLayer):
    """Self-attention and a network of two linear layers, each with dropout, a residual and a norm.

    Args:
        d_model: Features.
        nhead: Number of heads.
        dim_feedforward: Features between the two linear layers.
        dropout: Probability of dropout in training.
        activation: "relu", "gelu" or a function.
        layer_norm_eps: Epsilon of the norms.
        batch_first: Inputs are (batch, tokens, features).
        norm_first: Normalize before attention and network instead of after them.
        bias: Add biases in all layers.
        device: Device of the parameters, as for `zeros`.
        dtype: Dtype of the parameters.
    """

    _attentions = ("self_attn",)

    def forward(
        self, src: Tensor, src_mask: Mask = None, src_key_padding_mask: Mask = None, is_causal: bool = False
    ) -> Any:
        """Apply the layer; masks are those of `MultiheadAttention`."""
        return self._in_order(
            src, lambda x: self.self_attn(x, x, x, src_key_padding_mask, False, src_mask, is_causal=is_causal)[0]
        )


class TransformerDecoderLayer(_TransformerLayer):
    """Self-attention, attention to a memory, and a network of two linear layers, each with a residual and a norm.

    The arguments are those of `TransformerEncoderLayer`.
    """

    _attentions = ("self_attn", "multihead_attn")

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Mask = None,
        memory_mask: Mask = None,
        tgt_key_padding_mask: Mask = None,
        memory_key_padding_mask: Mask = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Any:
        """Apply the layer; masks are those of `MultiheadAttention`."""
        own = tgt_key_padding_mask, False, tgt_mask, True, tgt_is_causal
        other = memory_key_padding_mask, False, memory_mask, True, memory_is_causal
        return self._in_order(
            tgt, lambda x: self.self_attn(x, x, x, *own)[0], lambda x: self.multihead_attn(x, memory, memory, *other)[0]
        )


class _Stack(Module):
    def __init__(self, layer: _TransformerLayer, num_layers: int, norm: Module | None = None) -> None:
        self.layers = ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.num_layers, self.norm = num_layers, norm


class TransformerEncoder(_Stack):
    """Stack of copies of a layer, optionally followed by a norm.

    Args:
        encoder_layer: Layer to copy.
        num_layers: Number of copies.
        norm: Module applied to the result of the last layer, or None.
    """

    def __init__(self, encoder_layer: TransformerEncoderLayer, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(encoder_layer, num_layers, norm)

    def forward(
        self, src: Tensor, mask: Mask = None, src_key_padding_mask: Mask = None, is_causal: bool = False
    ) -> Any:
        """Apply all layers; masks are those of `MultiheadAttention`."""
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(_Stack):
    """Stack of copies of a layer, optionally followed by a norm.

    Args:
        decoder_layer: Layer to copy.
        num_layers: Number of copies.
        norm: Module applied to the result of the last layer, or None.
    """

    def __init__(self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Module | None = None) -> None:
        super().__init__(decoder_layer, num_layers, norm)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Mask = None,
        memory_mask: Mask = None,
        tgt_key_padding_mask: Mask = None,
        memory_key_padding_mask: Mask = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Any:
        """Apply all layers; masks are those of `MultiheadAttention`."""
        masks = tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal, memory_is_causal
        for layer in self.layers:
            tgt = layer(tgt, memory, *masks)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """Encoder and decoder of equal layers.

    Args:
        d_model: Features.
        nhead: Number of heads.
        num_encoder_layers: Layers of the encoder.
        num_decoder_layers: Layers of the decoder.
        dim_feedforward: Features between the two linear layers of a network.
        dropout: Probability of dropout in training.
        activation: "relu", "gelu" or a function.
        custom_encoder: Module in place of the encoder.
        custom_decoder: Module in place of the decoder.
        layer_norm_eps: Epsilon of the norms.
        batch_first: Inputs are (batch, tokens, features).
        norm_first: Normalize before attention and network instead of after them.
        bias: Add biases in all layers.
        device: Device of the parameters, as for `zeros`.
        dtype: Dtype of the parameters.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-05,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        arguments: Any = (
            *(d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias),
            *(device, dtype),
        )

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder: Any = custom_encoder
        self.decoder: Any = custom_decoder
        if custom_encoder is None:
            self.encoder = TransformerEncoder(TransformerEncoderLayer(*arguments), num_encoder_layers, norm())
        if custom_decoder is None:
            self.decoder = TransformerDecoder(TransformerDecoderLayer(*arguments), num_decoder_layers, norm())
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """Return a mask (sz, sz) with -inf above the diagonal and 0 elsewhere."""
        return ops.triu(full((sz, sz), -math.inf, device=device, dtype=dtype), 1)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Mask = None,
        tgt_mask: Mask = None,
        memory_mask: Mask = None,
        src_key_padding_mask: Mask = None,
        tgt_key_padding_mask: Mask = None,
        memory_key_padding_mask: Mask = None,
        src_is_causal: bool = False,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Any:
        """Apply the decoder to `tgt` and the encoder's result for `src`; masks are those of `MultiheadAttention`."""
        memory = self.encoder(src, src_mask, src_key_padding_mask, src_is_causal)
        masks = tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal, memory_is_causal
        return self.decoder(tgt, memory, *masks)
