"""Write ``ggml_recurrent.npz``, in the format of ``ggml.npz``: what a newer ggml computes for recurrent models.

Install it first::

    pip install ggml-python==0.0.45
    python make_ggml_recurrent.py [ggml_recurrent.npz]
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from make_ggml import HALF_ACCUMULATED, ROUNDING, SUMMED, Case, Ggml, Random, causal, write

VERSION = "0.15.3"

PROTOTYPES = {
    "ttt": "add_rel_pos",
    "tii": "get_rel_pos",
    "tttttt": "rwkv_wkv6",
    "ttttttt": "rwkv_wkv7 ssm_scan",
    "tttttf": "gated_linear_attn",
    "ttttttl": "gated_delta_net",
    "ttttfff": "flash_attn_ext",
    "ttliiiiiiiiii": "im2col_3d",
    "ttiiiiiiiiiiii": "conv_3d_direct",
}


def recurrent_cases() -> Iterator[Case]:
    """Two sequences of three tokens, three heads, four features. The result has outputs and then states in rows."""
    tokens, heads, features, sequences = 6, 3, 4, 2

    def inputs(name: str, names: str, positive: str, features: int = features) -> dict[str, np.ndarray]:
        random, shape = Random(name), (tokens, heads, features)
        return {
            each: random.uniform(0.5, 1.0, *shape) if each in positive.split() else random.normal(*shape)
            for each in names.split()
        } | {"state": random.normal(sequences, heads * features * features)}

    wkv6 = inputs("rwkv_wkv6", "k v r td", "td")
    tf = Random("tf").normal(heads, features)
    ordered = {name: {**wkv6, "tf": tf}[name] for name in ("k", "v", "r", "tf", "td", "state")}
    yield Case("rwkv_wkv6", ordered, tolerance=SUMMED)
    # ggml's vectors read beyond heads of fewer features. a is scaled as in the model, where its length is 1.
    wkv7 = inputs("rwkv_wkv7", "r w k v a b", "w", 32)
    yield Case("rwkv_wkv7", {**wkv7, "a": (wkv7["a"] / 8).astype(np.float32)}, tolerance=SUMMED)
    linear = inputs("gated_linear_attn", "k v q g", "g")
    yield Case("gated_linear_attn", linear, {"scale": 0.5}, SUMMED)
    for name, key_heads, gates in (
        ("gated_delta_net", 3, 1),
        ("gated_delta_net.shared_keys", 2, 1),
        ("gated_delta_net.per_feature", 2, 4),
    ):
        random = Random(name)
        count = 4 if key_heads == 2 else heads
        lead = sequences, tokens // sequences
        delta = {
            "q": random.normal(*lead, key_heads, features),
            "k": random.normal(*lead, key_heads, features),
            "v": random.normal(*lead, count, features),
            "g": -random.uniform(0.0, 1.0, *lead, count, gates),
            "beta": random.uniform(0.0, 1.0, *lead, count, 1),
            "state": random.normal(sequences, count, features, features),
        }
        yield Case(name, delta, {}, SUMMED, arguments=(1,))
    for name, groups, rates in (("ssm_scan", 1, 5), ("ssm_scan.groups", 2, 1)):
        random = Random(name)
        scan = {
            "state": random.normal(3, 4, 6, 5),
            "x": random.normal(sequences, 3, 4, 6),
            "dt": random.normal(sequences, 3, 4),
            "a": -random.uniform(0.1, 1.0, 4, rates),
            "b": random.normal(sequences, 3, groups, 5),
            "c": random.normal(sequences, 3, groups, 5),
            "ids": np.array([2, 0], np.int32),
        }
        yield Case(name, scan, tolerance=SUMMED)


def image_cases() -> Iterator[Case]:
    random = Random("images")
    positions = random.normal(9, 4, exact_in="f16")
    yield Case("get_rel_pos", {"x": positions}, {"queries": 5, "keys": 5}, types={"x": "f16"}, out_type="f16")
    inputs = {"x": random.normal(3, 6, 9), "across": random.normal(3, 2, 3, 3), "down": random.normal(3, 2, 3, 3)}
    yield Case("add_rel_pos", inputs, tolerance=ROUNDING)
    image, kernel = random.normal(4, 4, 5, 6), random.normal(6, 2, 3, 3)  # two images of two channels, three outputs
    for name, stride, padding, dilation in (
        ("plain", (1, 1, 1), (0, 0, 0), (1, 1, 1)),
        ("strided", (1, 2, 1), (1, 0, 2), (2, 1, 1)),
    ):
        attrs = {"stride": list(stride), "padding": list(padding), "dilation": list(dilation)}
        windows = (*stride[::-1], *padding[::-1], *dilation[::-1])
        pair = {"kernel": kernel, "x": image}
        yield Case(f"im2col_3d.{name}", pair, attrs, arguments=(2, *windows, 0))
        yield Case(f"conv_3d.{name}", pair, attrs, SUMMED, "conv_3d_direct", (*windows, 2, 2, 3))


def attention_cases() -> Iterator[Case]:
    random = Random("flash_attn_ext.sinks")
    inputs = {
        "q": random.normal(2, 4, 4, 16, exact_in="f16"),
        "k": random.normal(2, 2, 7, 16, exact_in="f16"),
        "v": random.normal(2, 2, 7, 8, exact_in="f16"),
        "mask": causal(4, 7, past=3),
        "sinks": random.normal(4),
    }
    attrs = {"scale": 0.25, "max_bias": 0.0, "logit_softcap": 0.0}
    types = {"k": "f16", "v": "f16", "mask": "f16"}
    yield Case("flash_attn_ext.sinks", inputs, attrs, HALF_ACCUMULATED, types=types, sinks=True)


if __name__ == "__main__":
    ggml = Ggml(VERSION, PROTOTYPES)
    ggml.soft_max_add_sinks = ggml.flash_attn_ext_add_sinks
    default = Path(__file__).with_name("ggml_recurrent.npz")
    write(ggml, Path(sys.argv[1]) if len(sys.argv) > 1 else default, (recurrent_cases, image_cases, attention_cases))
