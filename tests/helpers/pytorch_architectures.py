"""Less common architectures made of `torch.nn` only, each with arguments for a call. `torch_models.py` has others."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

__all__ = ["ARCHITECTURES"]


class Branches(nn.Module):
    """Modules by name, and a forward pass that is a function of them and the arguments."""

    def __init__(self, forward: Callable[..., Any], **modules: nn.Module) -> None:
        super().__init__()
        for name, module in modules.items():
            self.add_module(name, module)
        self.function = forward

    def forward(self, *inputs: Tensor) -> Any:
        return self.function(self, *inputs)


def block(channels_in: int, channels: int, stride: int = 1) -> nn.Sequential:
    """Return a convolution with batch normalization."""
    return nn.Sequential(
        nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(inplace=True)
    )


def graph_convolution(self: Any, x: Tensor, edges: Tensor) -> Tensor:
    source, target = edges
    degree = torch.zeros(len(x), dtype=x.dtype).index_add(0, target, torch.ones_like(target, dtype=x.dtype)) + 1
    scale = degree.rsqrt()
    for layer in (self.first, self.second):
        x = layer(x) * scale[:, None]
        x = F.elu((x + torch.zeros_like(x).index_add(0, target, x[source])) * scale[:, None])
    return x.log_softmax(-1)


def graph_attention(self: Any, x: Tensor, edges: Tensor) -> Tensor:
    source, target = edges
    x = self.project(x)
    score = F.leaky_relu(self.left(x)[source] + self.right(x)[target], 0.2)
    largest = torch.full((len(x), score.shape[-1]), -torch.inf).scatter_reduce(
        0, target[:, None].expand_as(score), score, "amax"
    )
    weight = (score - largest[target]).exp()
    total = torch.zeros_like(largest).index_add(0, target, weight)
    parts = (weight / total[target]).repeat_interleave(x.shape[-1] // score.shape[-1], -1) * x[source]
    return torch.zeros_like(x).index_add(0, target, parts)


def recommend(self: Any, dense: Tensor, sparse: Tensor) -> Tensor:
    bottom = self.bottom(dense)
    vectors = torch.stack([bottom, *(table(sparse[:, i : i + 1]) for i, table in enumerate(self.tables))], 1)
    products = vectors @ vectors.mT
    rows, columns = torch.tril_indices(*products.shape[1:], -1)
    return self.top(torch.cat((bottom, products[:, rows, columns]), 1)).sigmoid()


def point_net(self: Any, points: Tensor) -> Tensor:
    local = self.local(points)
    pooled = self.wide(local).amax(-1)
    return self.head(pooled), self.segments(torch.cat((local, pooled[..., None].expand(-1, -1, local.shape[-1])), 1))


def dilated(self: Any, x: Tensor) -> Tensor:
    total = 0
    for level, (gate, skip) in enumerate(zip(self.gates, self.skips, strict=True)):
        left, right = gate(F.pad(x, (2**level, 0))).chunk(2, 1)
        hidden = left.tanh() * right.sigmoid()
        total = total + skip(hidden)
        x = x + hidden
    return self.head(F.relu(total))


def spatial_transformer(self: Any, x: Tensor) -> Tensor:
    theta = self.localization(x).view(-1, 2, 3) * 0.1 + torch.eye(2, 3)
    grid = F.affine_grid(theta, list(x.shape), align_corners=False)
    return self.classifier(F.grid_sample(x, grid, align_corners=False))


def radiance(self: Any, origins: Tensor, directions: Tensor) -> tuple[Tensor, Tensor]:
    depth = torch.linspace(1, 3, 16)
    points = origins[:, None] + directions[:, None] * depth[:, None]
    angles = points[..., None] * 2.0 ** torch.arange(4)
    encoded = torch.cat((angles.sin(), angles.cos()), -1).flatten(-2)
    color, density = self.network(encoded).split((3, 1), -1)
    alpha = 1 - (-F.softplus(density[..., 0]) * 0.125).exp()
    light = torch.cat((torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10), -1).cumprod(-1)[:, :-1]
    return (light[..., None] * alpha[..., None] * color.sigmoid()).sum(1), (light * alpha * depth).sum(1)


def boxes(self: Any, features: Tensor) -> tuple[Tensor, Tensor]:
    deltas, scores = self.regression(features), self.classes(features).sigmoid().flatten(2).amax(1)
    height, width = features.shape[-2:]
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    left, top, right, bottom = deltas.exp().unbind(1)
    corners = torch.stack((x - left, y - top, x + right, y + bottom), -1).flatten(1, 2).clamp(0, height)
    best, places = scores.topk(8, -1)
    return best, corners.gather(1, places[..., None].expand(-1, -1, 4))


def detect_text(self: Any, image: Tensor) -> Tensor:
    columns = self.features(image).mean(2).mT
    return self.head(self.lstm(columns)[0]).log_softmax(-1)


def diffusion(self: Any, x: Tensor, step: Tensor) -> Tensor:
    angles = step[:, None] * (-torch.arange(16) * 0.5).exp()
    time = self.time(torch.cat((angles.sin(), angles.cos()), -1))[..., None, None]
    hidden = self.inputs(x)
    hidden = hidden + self.second(F.silu(self.norm2(self.first(F.silu(self.norm1(hidden))) + time)))
    flat = hidden.flatten(2).mT
    attended, _ = self.attention(flat, flat, flat, need_weights=False)
    return self.outputs(F.silu(hidden + attended.mT.view_as(hidden)))


def experts(self: Any, x: Tensor) -> Tensor:
    weights, chosen = self.gate(x).softmax(-1).topk(2, -1)
    outputs = torch.stack([expert(x) for expert in self.experts], 1)
    return (outputs.gather(1, chosen[..., None].expand(-1, -1, outputs.shape[-1])) * weights[..., None]).sum(1)


def value_loop(self: Any, x: Tensor) -> Tensor:
    for step in range(6):
        x = x + self.layer(x).tanh() / (step + 1)
        x[:, step] = 0
    return x


def _images(*shape: int) -> tuple[Tensor]:
    return (torch.randn(*shape),)


def _edges() -> tuple[Tensor, Tensor]:
    return torch.randn(40, 16), torch.randint(40, (2, 200))


def _sequential(*modules: nn.Module) -> nn.Sequential:
    return nn.Sequential(*modules)


ARCHITECTURES: dict[str, Callable[[], tuple[nn.Module, tuple[Tensor, ...]]]] = {
    "mlp": lambda: (
        _sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Dropout(0.1), nn.Linear(128, 10)),
        _images(32, 64),
    ),
    "gan_generator": lambda: (
        _sequential(
            nn.ConvTranspose2d(32, 64, 4),
            nn.BatchNorm2d(64),
            nn.LeakyReLU(0.2, inplace=True),
            nn.ConvTranspose2d(64, 32, 4, 2, 1),
            nn.InstanceNorm2d(32, affine=True),
            nn.PReLU(32),
            nn.ConvTranspose2d(32, 3, 4, 2, 1),
            nn.Tanh(),
        ),
        _images(2, 32, 1, 1),
    ),
    "gcn": lambda: (Branches(graph_convolution, first=nn.Linear(16, 32), second=nn.Linear(32, 7)), _edges()),
    "gat": lambda: (
        Branches(graph_attention, project=nn.Linear(16, 32), left=nn.Linear(32, 4), right=nn.Linear(32, 4)),
        _edges(),
    ),
    "diffusion_unet": lambda: (
        Branches(
            diffusion,
            inputs=nn.Conv2d(3, 32, 3, padding=1),
            time=_sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 32)),
            norm1=nn.GroupNorm(8, 32),
            norm2=nn.GroupNorm(8, 32),
            first=nn.Conv2d(32, 32, 3, padding=1),
            second=nn.Conv2d(32, 32, 3, padding=1),
            attention=nn.MultiheadAttention(32, 4, batch_first=True),
            outputs=nn.Conv2d(32, 3, 3, padding=1),
        ),
        (torch.randn(2, 3, 16, 16), torch.tensor([3.0, 40.0])),
    ),
    "nn_transformer": lambda: (
        nn.Transformer(32, 4, 1, 1, 64, batch_first=True, norm_first=True),
        (torch.randn(2, 9, 32), torch.randn(2, 7, 32)),
    ),
    "dlrm": lambda: (
        Branches(
            recommend,
            bottom=_sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 16)),
            tables=nn.ModuleList(nn.EmbeddingBag(50, 16, mode="sum") for _ in range(5)),
            top=_sequential(nn.Linear(31, 32), nn.ReLU(), nn.Linear(32, 1)),
        ),
        (torch.randn(8, 13), torch.randint(50, (8, 5))),
    ),
    "pointnet": lambda: (
        Branches(
            point_net,
            local=_sequential(nn.Conv1d(3, 32, 1), nn.BatchNorm1d(32), nn.ReLU()),
            wide=_sequential(nn.Conv1d(32, 128, 1), nn.BatchNorm1d(128), nn.ReLU()),
            head=nn.Linear(128, 10),
            segments=nn.Conv1d(160, 4, 1),
        ),
        _images(2, 3, 64),
    ),
    "wavenet": lambda: (
        Branches(
            dilated,
            gates=nn.ModuleList(
                nn.utils.parametrizations.weight_norm(nn.Conv1d(16, 32, 2, dilation=2**level)) for level in range(4)
            ),
            skips=nn.ModuleList(nn.Conv1d(16, 24, 1) for _ in range(4)),
            head=nn.Conv1d(24, 16, 1),
        ),
        _images(1, 16, 128),
    ),
    "stn": lambda: (
        Branches(
            spatial_transformer,
            localization=_sequential(
                nn.Conv2d(1, 8, 5), nn.MaxPool2d(2), nn.ReLU(), nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(72, 6)
            ),
            classifier=_sequential(nn.Conv2d(1, 8, 5, 2), nn.Hardswish(), nn.Flatten(), nn.Linear(8 * 64, 10)),
        ),
        _images(4, 1, 20, 20),
    ),
    "nerf": lambda: (
        Branches(
            radiance, network=_sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
        ),
        (torch.randn(32, 3), F.normalize(torch.randn(32, 3), dim=-1)),
    ),
    "video3d": lambda: (
        _sequential(
            nn.Conv3d(3, 8, 3, padding=1),
            nn.BatchNorm3d(8),
            nn.ReLU6(),
            nn.MaxPool3d(2),
            nn.Conv3d(8, 16, 3, (1, 2, 2)),
            nn.Mish(),
            nn.AdaptiveAvgPool3d(1),
            nn.Flatten(),
            nn.Linear(16, 5),
        ),
        _images(1, 3, 8, 16, 16),
    ),
    "crnn": lambda: (
        Branches(
            detect_text,
            features=_sequential(block(1, 16), nn.MaxPool2d(2), block(16, 32), nn.MaxPool2d((2, 1))),
            lstm=nn.LSTM(32, 24, 2, bidirectional=True, batch_first=True),
            head=nn.Linear(48, 20),
        ),
        _images(2, 1, 16, 32),
    ),
    "superres": lambda: (
        _sequential(
            nn.Conv2d(1, 32, 5, padding=2),
            nn.Tanh(),
            nn.ReflectionPad2d(1),
            nn.Conv2d(32, 9, 3),
            nn.PixelShuffle(3),
            nn.Upsample(scale_factor=2, mode="bicubic"),
        ),
        _images(1, 1, 16, 16),
    ),
    "box_head": lambda: (
        Branches(boxes, regression=nn.Conv2d(16, 4, 1), classes=nn.Conv2d(16, 3, 1)),
        _images(2, 16, 12, 12),
    ),
    "mixture": lambda: (
        Branches(
            experts,
            gate=nn.Linear(32, 4),
            experts=nn.ModuleList(_sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 32)) for _ in range(4)),
        ),
        _images(10, 32),
    ),
    "value_loop": lambda: (Branches(value_loop, layer=nn.Linear(12, 12)), _images(4, 12)),
    "siamese": lambda: (
        Branches(
            lambda self, a, b: (
                F.cosine_similarity(self.tower(a), self.tower(b)) + F.pairwise_distance(a[:, 0], b[:, 0])
            ),
            tower=_sequential(nn.Flatten(), nn.Linear(128, 64), nn.Softplus(), nn.Linear(64, 16)),
        ),
        (torch.randn(6, 4, 32), torch.randn(6, 4, 32)),
    ),
    "rnn_tagger": lambda: (
        Branches(
            lambda self, x: self.head(self.rnn(x)[0]).argmax(-1) * 1.0 + self.norm(x).sum(-1),
            rnn=nn.RNN(16, 24, nonlinearity="relu"),
            head=nn.Linear(24, 6),
            norm=nn.RMSNorm(16),
        ),
        _images(7, 3, 16),
    ),
}
"""Functions that make a module and arguments of a call, by name."""
