"""Loss curves of networks against PyTorch's, from the same initial weights and batches."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from running import heard

import npu_tensor as nt
from npu_tensor.events import PlanBuilt
from npu_tensor.examples import train_digits

torch = pytest.importorskip("torch")

STEPS = 100
RATES = {"SGD": 0.1, "Adam": 1e-3, "AdamW": 1e-3}
Arrays = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]


def cnn(nn: Any) -> Any:
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip


WORDS, LENGTH, WIDTH = 6, 5, 32


def transformer(nn: Any) -> Any:
    """Transformer from words (batch, 2 * LENGTH) to scores (batch, WORDS, 2 * LENGTH)."""

    class Copier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.positions = nn.Embedding(WORDS + 1, WIDTH), nn.Embedding(2 * LENGTH, WIDTH)
            layer = [nn.TransformerEncoderLayer(WIDTH, 4, 64, 0.0, batch_first=True) for _ in range(2)]
            self.layers, self.head = nn.Sequential(*layer), nn.Linear(WIDTH, WORDS)

        def forward(self, words: Any) -> Any:
            return self.head(self.layers(self.words(words) + self.positions.weight)).transpose(1, 2)

    return Copier()


def digits() -> Iterator[Arrays]:
    data, _ = train_digits.load()
    drawn = np.random.default_rng(0)
    while True:
        chosen = drawn.integers(0, len(data.labels), 64)
        yield data.images[chosen], data.labels[chosen]


def copies() -> Iterator[Arrays]:
    """Return words followed by blanks, and targets that repeat the words at the blanks and ignore the rest."""
    drawn = np.random.default_rng(0)
    while True:
        words = drawn.integers(0, WORDS, (16, LENGTH))
        yield (
            np.concatenate([words, np.full_like(words, WORDS)], 1),
            np.concatenate([np.full_like(words, -100), words], 1),
        )


TASKS: dict[str, tuple[Callable[[Any], Any], Callable[[], Iterator[Arrays]]]] = {
    "cnn": (cnn, digits),
    "transformer": (transformer, copies),
}


def curve(lib: Any, model: Any, optimizer: Any, batches: Iterator[Arrays]) -> list[float]:
    loss_of = lib.nn.CrossEntropyLoss()

    def step(x: Any, labels: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    if lib is nt:
        step = nt.jit(step)
    losses = [step(*map(lib.from_numpy, next(batches))).item() for _ in range(STEPS)]
    assert lib is torch or step.captures == 1
    return losses


@pytest.mark.parametrize("optimizer", RATES)
@pytest.mark.parametrize("task", TASKS)
def test_losses_are_those_of_pytorch(task: str, optimizer: str) -> None:
    torch.manual_seed(0)
    network, batches = TASKS[task]
    theirs, ours = network(torch.nn), network(nt.nn)
    ours.load_state_dict(theirs.state_dict())
    curves = [
        curve(lib, model, getattr(lib.optim, optimizer)(model.parameters(), lr=RATES[optimizer]), batches())
        for lib, model in ((nt, ours), (torch, theirs))
    ]
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-3)
    assert np.mean(curves[0][-10:]) < 0.9 * curves[0][0]


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "RMSprop"])
def test_steps_that_are_recorded_again_run_the_same_plan(optimizer: str) -> None:
    model, features = nt.nn.Sequential(nt.nn.Linear(4, 8), nt.nn.ReLU(), nt.nn.Linear(8, 1)), nt.rand(16, 4)
    nt.realize(features, *model.parameters())
    steps = getattr(nt.optim, optimizer)(model.parameters(), lr=0.001)
    losses = []
    with heard(PlanBuilt) as made:
        for _ in range(6):
            steps.zero_grad()
            loss = model(features).square().mean()
            loss.backward()
            steps.step()
            assert all(parameter.is_realized for parameter in model.parameters())
            losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert len(made) == 1


@pytest.mark.parametrize("optimizer", ["SGD", "Adam", "RMSprop"])
def test_a_step_whose_gradient_fails_changes_nothing(optimizer: str) -> None:
    table = nt.nn.Embedding(4, 2)
    options = {"momentum": 0.9} if optimizer != "Adam" else {}
    steps = getattr(nt.optim, optimizer)(table.parameters(), lr=0.1, **options)

    def step(index: int) -> None:
        steps.zero_grad()
        late = (nt.tensor([float(index)]) + 0).long()
        table(late).sum().backward()
        steps.step()

    step(1)
    before = [table.weight.tolist(), *(value.tolist() for value in steps.state[table.weight].values())]
    for _ in range(3):
        with pytest.raises(IndexError):
            step(9)
        after = [table.weight.tolist(), *(value.tolist() for value in steps.state[table.weight].values())]
        assert after == before
    step(2)
    assert table.weight.tolist() != before[0]
