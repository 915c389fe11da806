"""The networks that examples/train_digits.py trains read the images that they have not seen."""

import numpy as np
import pytest

from npu_tensor.examples import train_digits


@pytest.mark.parametrize(("name", "least"), [("MLP", 0.98), ("CNN", 0.985)])
def test_accuracy_on_images_that_were_held_out(name: str, least: float) -> None:
    training, held_out = train_digits.load()
    assert (len(training.labels), len(held_out.labels)) == (1297, 500)
    trainer = train_digits.Trainer(train_digits.NETWORKS[name], training)
    losses = list(trainer.losses())
    assert len(losses) == trainer.steps
    assert np.mean(losses[-20:]) < 0.05 * losses[0]
    assert trainer.accuracy(held_out) >= least
