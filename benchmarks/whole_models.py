"""Whole models, written once for PyTorch and npu_tensor, whose layers have the same names, parameters and results.

    import torch
    torch_model = WHOLE_MODELS["resnet18"].build(torch)
    model = WHOLE_MODELS["resnet18"].build(npu_tensor)
    model.load_state_dict({name: value.numpy() for name, value in torch_model.state_dict().items()})

Parameters are random: the time of a call does not depend on them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np


class WholeModel(NamedTuple):
    """A model of the comparison.

    Attributes:
        what: Description.
        build: Function from a library, `torch` or `npu_tensor`, to the model in evaluation mode.
        inputs: Function that returns the NumPy arguments of a call.
    """

    what: str
    build: Callable[[Any], Any]
    inputs: Callable[[], tuple[np.ndarray, ...]]


def _normal(*shape: int) -> tuple[np.ndarray]:
    return (np.random.default_rng(0).standard_normal(shape, np.float32),)


def _mlp(lib: Any) -> Any:
    nn = lib.nn
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)).eval()


# --- convolutional models


def _conv_norm(nn: Any, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[Any]:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return [convolution, nn.BatchNorm2d(outputs)]


def _resnet(blocks: tuple[int, ...], bottleneck: bool, lib: Any) -> Any:
    """ResNet (He et al., 2015), with the stride in the 3x3 convolution of a bottleneck."""
    nn = lib.nn

    class Residual(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self, inputs: int, width: int, stride: int) -> None:
            super().__init__()
            outputs = width * 4 if bottleneck else width
            if bottleneck:
                layers = [
                    *_conv_norm(nn, inputs, width, 1),
                    nn.ReLU(),
                    *_conv_norm(nn, width, width, 3, stride),
                    nn.ReLU(),
                    *_conv_norm(nn, width, outputs, 1),
                ]
            else:
                layers = [*_conv_norm(nn, inputs, width, 3, stride), nn.ReLU(), *_conv_norm(nn, width, width, 3)]
            self.branch = nn.Sequential(*layers)
            changes = stride != 1 or inputs != outputs
            self.shortcut = nn.Sequential(*_conv_norm(nn, inputs, outputs, 1, stride)) if changes else nn.Identity()

        def forward(self, x: Any) -> Any:
            return (self.branch(x) + self.shortcut(x)).relu()

    layers = [*_conv_norm(nn, 3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for stage, count in enumerate(blocks):
        width = 64 << stage
        for number in range(count):
            layers.append(Residual(inputs, width, 2 if stage and not number else 1))
            inputs = width * 4 if bottleneck else width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000)).eval()


def _inverted_residual(
    nn: Any, inputs: int, hidden: int, outputs: int, kernel: int, stride: int, activation: Any, squeeze: int = 0
) -> Any:
    """Inverted residual of MobileNetV2 and V3, with squeeze-and-excitation of `squeeze` channels if that is not 0."""

    class Squeeze(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Sequential(
                nn.AdaptiveAvgPool2d(1),
                nn.Conv2d(hidden, squeeze, 1),
                nn.ReLU(),
                nn.Conv2d(squeeze, hidden, 1),
                nn.Hardsigmoid(),
            )

        def forward(self, x: Any) -> Any:
            return x * self.scale(x)

    class InvertedResidual(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            layers = [*_conv_norm(nn, inputs, hidden, 1), activation()] if hidden != inputs else []
            layers += [*_conv_norm(nn, hidden, hidden, kernel, stride, hidden), activation()]
            layers += [Squeeze()] if squeeze else []
            self.layers = nn.Sequential(*layers, *_conv_norm(nn, hidden, outputs, 1))

        def forward(self, x: Any) -> Any:
            return x + self.layers(x) if stride == 1 and inputs == outputs else self.layers(x)

    return InvertedResidual()


def _mobilenet_v2(lib: Any) -> Any:
    """MobileNetV2 of width 1 (Sandler et al., 2018)."""
    nn = lib.nn
    layers = [*_conv_norm(nn, 3, 32, 3, 2), nn.ReLU6()]
    inputs = 32
    for expansion, outputs, count, stride in (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    ):
        for number in range(count):
            step = 1 if number else stride
            layers.append(_inverted_residual(nn, inputs, inputs * expansion, outputs, 3, step, nn.ReLU6))
            inputs = outputs
    head = [*_conv_norm(nn, inputs, 1280, 1), nn.ReLU6(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, *head, nn.Linear(1280, 1000)).eval()


def _mobilenet_v3(lib: Any) -> Any:
    """MobileNetV3-Large (Howard et al., 2019, table 1)."""
    nn = lib.nn
    relu, swish = nn.ReLU, nn.Hardswish
    layers = [*_conv_norm(nn, 3, 16, 3, 2), swish()]
    inputs = 16
    for kernel, hidden, outputs, squeeze, activation, stride in (
        (3, 16, 16, 0, relu, 1),
        (3, 64, 24, 0, relu, 2),
        (3, 72, 24, 0, relu, 1),
        (5, 72, 40, 24, relu, 2),
        (5, 120, 40, 32, relu, 1),
        (5, 120, 40, 32, relu, 1),
        (3, 240, 80, 0, swish, 2),
        (3, 200, 80, 0, swish, 1),
        (3, 184, 80, 0, swish, 1),
        (3, 184, 80, 0, swish, 1),
        (3, 480, 112, 120, swish, 1),
        (3, 672, 112, 168, swish, 1),
        (5, 672, 160, 168, swish, 2),
        (5, 960, 160, 240, swish, 1),
        (5, 960, 160, 240, swish, 1),
    ):
        layers.append(_inverted_residual(nn, inputs, hidden, outputs, kernel, stride, activation, squeeze))
        inputs = outputs
    head = [*_conv_norm(nn, inputs, 960, 1), swish(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, *head, nn.Linear(960, 1280), swish(), nn.Linear(1280, 1000)).eval()


def _unet(lib: Any) -> Any:
    """U-Net (Ronneberger et al., 2015) with padded convolutions, batch norm and 32 to 256 channels."""
    nn = lib.nn

    def block(inputs: int, outputs: int) -> Any:
        first, second = _conv_norm(nn, inputs, outputs, 3), _conv_norm(nn, outputs, outputs, 3)
        return nn.Sequential(*first, nn.ReLU(), *second, nn.ReLU())

    class UNet(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            widths = (32, 64, 128, 256)
            self.down = nn.ModuleList([block(*pair) for pair in zip((3, *widths), widths, strict=False)])
            self.up = nn.ModuleList([nn.ConvTranspose2d(2 * width, width, 2, 2) for width in widths[-2::-1]])
            self.join = nn.ModuleList([block(2 * width, width) for width in widths[-2::-1]])
            self.last = nn.Conv2d(widths[0], 2, 1)
            self.pool = nn.MaxPool2d(2)

        def forward(self, x: Any) -> Any:
            skipped = []
            for number, down in enumerate(self.down):
                x = down(self.pool(x) if number else x)
                skipped.append(x)
            for up, join, skip in zip(self.up, self.join, skipped[-2::-1], strict=True):
                x = join(lib.cat([skip, up(x)], 1))
            return self.last(x)

    return UNet().eval()


# --- transformers


def _attention_block(lib: Any, width: int, heads: int, norm_first: bool, causal: bool = False) -> Any:
    """Return a transformer layer (x, mask, past keys and values) with a hidden layer of 4 x width and GELU."""
    nn, functional = lib.nn, lib.nn.functional

    class Layer(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.first_norm, self.second_norm = nn.LayerNorm(width), nn.LayerNorm(width)

        def attention(self, x: Any, mask: Any, past: Any) -> Any:
            batch, tokens, _ = x.shape
            qkv = self.qkv(x).reshape(batch, tokens, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            query, key, value = qkv[0], qkv[1], qkv[2]
            if past is not None:
                key, value = lib.cat([past[0], key], 2), lib.cat([past[1], value], 2)
            is_causal = causal and past is None
            mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=is_causal)
            return self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))

        def hidden(self, x: Any) -> Any:
            return self.down(functional.gelu(self.up(x)))

        def forward(self, x: Any, mask: Any = None, past: Any = None) -> Any:
            if norm_first:
                x = x + self.attention(self.first_norm(x), mask, past)
                return x + self.hidden(self.second_norm(x))
            x = self.first_norm(x + self.attention(x, mask, past))
            return self.second_norm(x + self.hidden(x))

    return Layer()


def _encoder(layers: int, width: int, heads: int, lib: Any) -> Any:
    nn = lib.nn
    return nn.Sequential(*(_attention_block(lib, width, heads, norm_first=False) for _ in range(layers))).eval()


def _vit(lib: Any) -> Any:
    """ViT-S/16 (Dosovitskiy et al., 2020; width of DeiT-S)."""
    nn, width = lib.nn, 384

    class VisionTransformer(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.patches = nn.Conv2d(3, width, 16, 16)
            self.token = nn.Parameter(lib.zeros(1, 1, width))
            self.positions = nn.Parameter(lib.zeros(1, 197, width))
            self.layers = nn.ModuleList([_attention_block(lib, width, 6, norm_first=True) for _ in range(12)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

        def forward(self, x: Any) -> Any:
            patches = self.patches(x).flatten(2).transpose(1, 2)
            tokens = lib.cat([self.token.expand(x.shape[0], 1, width), patches], 1) + self.positions
            for layer in self.layers:
                tokens = layer(tokens)
            return self.head(self.norm(tokens)[:, 0])

    return VisionTransformer().eval()


def _bert(lib: Any) -> Any:
    """BERT-base (Devlin et al., 2018) with 8,000 words; its second argument is the mask of padding."""
    nn, width = lib.nn, 768

    class Bert(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.positions = nn.Embedding(8000, width), nn.Parameter(lib.zeros(512, width))
            self.norm = nn.LayerNorm(width)
            self.layers = nn.ModuleList([_attention_block(lib, width, 12, norm_first=False) for _ in range(12)])

        def forward(self, words: Any, mask: Any) -> Any:
            x = self.norm(self.words(words) + self.positions[: words.shape[1]])
            allowed = mask[:, None, None, :] > 0
            for layer in self.layers:
                x = layer(x, allowed)
            return x

    return Bert().eval()


_PAST: Final = 512


def _gpt2(lib: Any) -> Any:
    """One token of GPT-2 (124 M, with 8,000 words) after 512, whose keys and values are an argument."""
    nn, width = lib.nn, 768

    class Gpt2(nn.Module):  # type: ignore[name-defined, misc]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.positions = nn.Embedding(8000, width), nn.Parameter(lib.zeros(1024, width))
            layers = [_attention_block(lib, width, 12, norm_first=True, causal=True) for _ in range(12)]
            self.layers, self.norm = nn.ModuleList(layers), nn.LayerNorm(width)
            self.head = nn.Linear(width, 8000, bias=False)

        def forward(self, words: Any, past: Any) -> Any:
            x = self.words(words) + self.positions[_PAST : _PAST + words.shape[1]]
            for number, layer in enumerate(self.layers):
                x = layer(x, None, past[number])
            return self.head(self.norm(x))

    return Gpt2().eval()


def _bert_inputs() -> tuple[np.ndarray, ...]:
    words = np.random.default_rng(0).integers(0, 8000, (4, 128))
    return words, (np.arange(128) < np.array([[128], [100], [64], [33]])).astype(np.float32)


def _gpt2_inputs() -> tuple[np.ndarray, ...]:
    return np.array([[17]]), *_normal(12, 2, 1, 12, _PAST, 64)


WHOLE_MODELS: Final = {
    "resnet18": WholeModel(
        "ResNet-18, 1x3x224x224", partial(_resnet, (2, 2, 2, 2), False), partial(_normal, 1, 3, 224, 224)
    ),
    "resnet18_b8": WholeModel(
        "ResNet-18, 8x3x224x224", partial(_resnet, (2, 2, 2, 2), False), partial(_normal, 8, 3, 224, 224)
    ),
    "resnet50": WholeModel(
        "ResNet-50, 1x3x224x224", partial(_resnet, (3, 4, 6, 3), True), partial(_normal, 1, 3, 224, 224)
    ),
    "mobilenet_v2": WholeModel("MobileNetV2, 1x3x224x224", _mobilenet_v2, partial(_normal, 1, 3, 224, 224)),
    "mobilenet_v3": WholeModel("MobileNetV3-Large, 1x3x224x224", _mobilenet_v3, partial(_normal, 1, 3, 224, 224)),
    "unet": WholeModel("U-Net, 1x3x128x128", _unet, partial(_normal, 1, 3, 128, 128)),
    "vit_s16": WholeModel("ViT-S/16, 1x3x224x224", _vit, partial(_normal, 1, 3, 224, 224)),
    "encoder_128": WholeModel(
        "encoder, 6 layers, 768 wide, 128 tokens", partial(_encoder, 6, 768, 12), partial(_normal, 1, 128, 768)
    ),
    "encoder_512": WholeModel(
        "encoder, 6 layers, 768 wide, 512 tokens", partial(_encoder, 6, 768, 12), partial(_normal, 1, 512, 768)
    ),
    "encoder_small": WholeModel(
        "encoder, 4 layers, 256 wide, 64 tokens", partial(_encoder, 4, 256, 4), partial(_normal, 1, 64, 256)
    ),
    "bert_base": WholeModel("BERT-base, 4x128 tokens with a mask", _bert, _bert_inputs),
    "gpt2_token": WholeModel("GPT-2, one token after 512", _gpt2, _gpt2_inputs),
    "mlp": WholeModel("MLP 784-512-512-10, batch 64", _mlp, partial(_normal, 64, 784)),
}
"""Models by name."""
