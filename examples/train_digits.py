"""Train the network of `npu-tensor demo` with plain NumPy and write examples/data/digits_weights.npz.

The network has 64 inputs, two hidden layers of 128 and 64 units with ReLU, and 10 outputs. Every random
number comes from a seeded generator, so the same NumPy on the same machine writes the same weights. The same
seed chooses 500 images that are held out; their indices are written beside the weights.

    python examples/train_digits.py
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).resolve().parent / "data"
LAYER_SIZES = (64, 128, 64, 10)
HELD_OUT = 500
SEED = 0
EPOCHS = 60
BATCH_SIZE = 32
LEARNING_RATE = 2e-3
WEIGHT_DECAY = 1e-2
# Decay of the two moment estimates and the guard against division by zero: the usual constants of Adam.
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8

Parameters = dict[str, np.ndarray]


def initial_parameters(generator: np.random.Generator) -> Parameters:
    """He initialisation: weights (out, in) of variance 2 / in, biases zero."""
    parameters: Parameters = {}
    for layer, (inputs, outputs) in enumerate(pairwise(LAYER_SIZES), start=1):
        weight = generator.standard_normal((outputs, inputs)) * np.sqrt(2.0 / inputs)
        parameters[f"weight{layer}"] = weight.astype(np.float32)
        parameters[f"bias{layer}"] = np.zeros(outputs, np.float32)
    return parameters


def activations(parameters: Parameters, pixels: np.ndarray) -> list[np.ndarray]:
    """The input and the output of every layer; the last one holds the scores (samples, 10)."""
    values = [pixels]
    last = len(LAYER_SIZES) - 1
    for layer in range(1, last + 1):
        scores = values[-1] @ parameters[f"weight{layer}"].T + parameters[f"bias{layer}"]
        values.append(scores if layer == last else np.maximum(scores, 0))
    return values


def gradients(parameters: Parameters, pixels: np.ndarray, labels: np.ndarray) -> Parameters:
    """Gradients of the mean softmax cross entropy."""
    values = activations(parameters, pixels)
    exponentials = np.exp(values[-1] - values[-1].max(axis=1, keepdims=True))
    delta = exponentials / exponentials.sum(axis=1, keepdims=True)
    delta[np.arange(len(labels)), labels] -= 1
    delta /= len(labels)
    result: Parameters = {}
    for layer in range(len(LAYER_SIZES) - 1, 0, -1):
        result[f"weight{layer}"] = delta.T @ values[layer - 1]
        result[f"bias{layer}"] = delta.sum(axis=0)
        delta = (delta @ parameters[f"weight{layer}"]) * (values[layer - 1] > 0)
    return result


def train(pixels: np.ndarray, labels: np.ndarray) -> Parameters:
    """Adam with decoupled weight decay and a learning rate that falls to zero along a half cosine."""
    generator = np.random.default_rng(SEED)
    parameters = initial_parameters(generator)
    mean = {name: np.zeros_like(value) for name, value in parameters.items()}
    square = {name: np.zeros_like(value) for name, value in parameters.items()}
    steps = EPOCHS * (len(labels) // BATCH_SIZE)
    step = 0
    for _ in range(EPOCHS):
        order = generator.permutation(len(labels))
        for start in range(0, len(labels) - BATCH_SIZE + 1, BATCH_SIZE):
            batch = order[start : start + BATCH_SIZE]
            step += 1
            rate = np.float32(LEARNING_RATE * 0.5 * (1 + np.cos(np.pi * step / steps)))
            for name, gradient in gradients(parameters, pixels[batch], labels[batch]).items():
                mean[name] = BETA_1 * mean[name] + (1 - BETA_1) * gradient
                square[name] = BETA_2 * square[name] + (1 - BETA_2) * gradient**2
                update = (mean[name] / (1 - BETA_1**step)) / (
                    np.sqrt(square[name] / (1 - BETA_2**step)) + EPSILON
                )
                if name.startswith("weight"):
                    update += WEIGHT_DECAY * parameters[name]
                parameters[name] -= rate * update.astype(np.float32)
    return parameters


def accuracy(parameters: Parameters, pixels: np.ndarray, labels: np.ndarray) -> float:
    """Fraction of the images whose highest score is that of their label."""
    return float(np.mean(activations(parameters, pixels)[-1].argmax(axis=1) == labels))


def main() -> None:
    with np.load(DATA / "digits.npz") as digits:
        pixels = digits["images"].reshape(-1, LAYER_SIZES[0]).astype(np.float32) / np.float32(16)
        labels = digits["labels"].astype(np.int64)
    order = np.random.default_rng(SEED).permutation(len(labels))
    training, held_out = order[:-HELD_OUT], np.sort(order[-HELD_OUT:])
    parameters = train(pixels[training], labels[training])
    print(f"training accuracy {accuracy(parameters, pixels[training], labels[training]):.4f}")
    print(f"held-out accuracy {accuracy(parameters, pixels[held_out], labels[held_out]):.4f}")
    arrays: dict[str, Any] = {"held_out": held_out.astype(np.int16), **parameters}
    np.savez_compressed(DATA / "digits_weights.npz", **arrays)


if __name__ == "__main__":
    main()
