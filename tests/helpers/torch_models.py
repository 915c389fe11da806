"""Ten small architectures made of `torch.nn` only, each with its example arguments."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

Example = tuple[nn.Module, tuple[Tensor, ...]]


class Residual(nn.Module):
    """A residual block with batch norms, or a residual network of two of them."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(outputs)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.last_norm = nn.BatchNorm2d(outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu(self.norm(self.first(x)), inplace=True)
        h = self.last_norm(self.second(h))
        h += self.shortcut(x)
        return h.relu_()


class Attention(nn.Module):
    """A pre-norm transformer block; causal as in a decoder, or not."""

    def __init__(self, size: int, heads: int, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.norm, self.last_norm = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(self.norm(x)).chunk(3, -1)
        query, key, value = (each.unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in parts)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=self.causal)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.last_norm(x)), approximate="tanh"))


class Decoder(nn.Module):
    """A language model with learned positions and tied weights."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(50, 32), nn.Embedding(16, 32)
        self.blocks = nn.Sequential(*(Attention(32, 4, True) for _ in range(2)))
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 50, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x)))


class Recurrent(nn.Module):
    """A classifier of sequences by a bidirectional LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(50, 8, padding_idx=0)
        self.layers = nn.LSTM(8, 12, 2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(24, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        _, (last, _) = self.layers(self.tokens(tokens))
        return F.log_softmax(self.head(torch.cat([last[-2], last[-1]], 1)), -1)


class UNet(nn.Module):
    """A U-Net of one level: pooled, transposed and joined."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.middle = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.norm, self.up = nn.GroupNorm(4, 16), nn.ConvTranspose2d(16, 8, 2, 2)
        self.head = nn.Conv2d(24, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        top = F.silu(self.down(x))
        low = F.leaky_relu(self.norm(self.middle(F.max_pool2d(top, 2))), 0.1)
        resized = F.interpolate(low, scale_factor=2, mode="bilinear", align_corners=False)
        return self.head(torch.cat([top, self.up(low), resized[:, :8]], 1))


class VariationalAutoencoder(nn.Module):
    """Codes of mean and variance, at which the decoder is evaluated without noise."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.ELU(), nn.Flatten(), nn.Linear(256, 10))
        self.decoder = nn.Sequential(nn.Linear(5, 256), nn.Unflatten(1, (4, 8, 8)), nn.ConvTranspose2d(4, 1, 4, 2, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, variance = self.encoder(x).chunk(2, 1)
        divergence = -0.5 * (1 + variance - mean.pow(2) - variance.exp()).sum(1)
        return torch.sigmoid(self.decoder(mean + (0.5 * variance).exp())), divergence


class Translator(nn.Module):
    """GRU encoder and decoder with dot-product attention over the encoder's states."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(40, 10)
        self.encoder, self.decoder = nn.GRU(10, 14, batch_first=True), nn.GRU(10, 14, batch_first=True)
        self.head = nn.Linear(28, 40)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        states, last = self.encoder(self.tokens(source))
        decoded, _ = self.decoder(self.tokens(target), last)
        weights = torch.softmax(decoded @ states.transpose(1, 2) / 14**0.5, -1)
        return self.head(torch.cat([decoded, weights @ states], -1))


class VisionTransformer(nn.Module):
    """Patches by a convolution, a class token, positions and two blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 24, 4, 4)
        self.token, self.positions = nn.Parameter(torch.randn(1, 1, 24)), nn.Parameter(torch.randn(1, 17, 24))
        self.blocks = nn.Sequential(*(Attention(24, 3, False) for _ in range(2)))
        self.head = nn.Linear(24, 5)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(x.shape[0], -1, -1), patches], 1) + self.positions
        return self.head(self.blocks(tokens)[:, 0])


def _image(channels: int, extent: int = 16) -> tuple[Tensor]:
    return (torch.randn(2, channels, extent, extent),)


def _tokens(count: int) -> Tensor:
    return torch.randint(0, count, (2, 12))


def _convolutional() -> Example:
    layers: list[nn.Module] = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 12, 3)]
    layers += [nn.Hardswish(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout(0.3), nn.Linear(48, 5)]
    return nn.Sequential(*layers), _image(3)


def _depthwise() -> Example:
    layers = [nn.Conv2d(3, 12, 3, 2, 1), nn.BatchNorm2d(12), nn.ReLU6(), nn.Conv2d(12, 12, 5, padding=2, groups=12)]
    layers += [
        nn.BatchNorm2d(12),
        nn.Hardsigmoid(),
        nn.Conv2d(12, 6, 1),
        nn.AvgPool2d(2),
        nn.Flatten(),
        nn.Linear(96, 4),
    ]
    return nn.Sequential(*layers), _image(3)


def _encoder() -> Example:
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (torch.randn(2, 7, 16),)


EXAMPLES: dict[str, Callable[[], Any]] = {
    "convolutional": _convolutional,
    "residual": lambda: (nn.Sequential(Residual(3, 8, 2), Residual(8, 8, 1)), _image(3)),
    "encoder": _encoder,
    "decoder": lambda: (Decoder(), (_tokens(50),)),
    "recurrent": lambda: (Recurrent(), (_tokens(50),)),
    "unet": lambda: (UNet(), _image(3)),
    "autoencoder": lambda: (VariationalAutoencoder(), _image(1)),
    "translator": lambda: (Translator(), (_tokens(40), _tokens(40))),
    "depthwise": _depthwise,
    "vision": lambda: (VisionTransformer(), _image(3)),
}


def example(name: str) -> Example:
    """Return an architecture with reproducible weights and arguments."""
    torch.manual_seed(0)
    module, arguments = EXAMPLES[name]()
    return module, arguments
