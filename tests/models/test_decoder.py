"""The decoder against float64 NumPy, for every architecture, with and without its cache."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy_decoder import logits

import npu_tensor as nt
from npu_tensor.examples import made_up_model
from npu_tensor.models import ARCHITECTURES, Decoder, DecoderConfig, Generation

CONTEXT = 64
TEXT = [5, 90, 17, 200, 33, 8, 8, 120, 41]

VARIANTS: dict[str, tuple[str, bool, dict[str, Any]]] = {
    "llama": ("llama", False, {}),
    "llama with a head": ("llama", True, {}),
    "llama, linear scaling": ("llama", True, {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}),
    "qwen2": ("qwen2", False, {}),
    "qwen3": ("qwen3", True, {"qwen3.attention.key_length": 16}),
}


def saved(path: Path, variant: str, factors: bool = False) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Write a model; what is in it."""
    architecture, has_head, more = VARIANTS[variant]
    metadata = made_up_model.metadata(architecture) | more
    weights = made_up_model.weights(architecture, has_head)
    if factors:
        weights["rope_freqs.weight"] = np.linspace(1, 8, made_up_model.HEAD_FEATURES // 2, dtype=np.float32)
    nt.save_gguf(path, {name: nt.from_numpy(value) for name, value in weights.items()}, metadata)
    return metadata, weights


def steps(decoder: Decoder, tokens: list[int], sizes: tuple[int, ...]) -> np.ndarray:
    """Logits behind each part of a text."""
    results, begin = [], 0
    for size in sizes:
        part = nt.tensor(tokens[begin : begin + size], dtype=nt.int32)
        positions = nt.arange(begin, begin + size, dtype=nt.int32)
        results.append(decoder.step(part, positions, nt.tensor([size - 1], dtype=nt.int32), CONTEXT).numpy()[0])
        begin += size
    return np.array(results)


@pytest.mark.parametrize("variant", VARIANTS)
def test_architectures(variant: str, tmp_path: Path) -> None:
    metadata, weights = saved(tmp_path / "model.gguf", variant)
    decoder = Decoder.of(nt.load_gguf(tmp_path / "model.gguf"), CONTEXT, nt.float32)
    found = steps(decoder, TEXT, (5, 1, 1, 1, 1))
    np.testing.assert_allclose(found, logits(metadata, weights, TEXT)[4:], rtol=1e-4, atol=1e-4)


def test_all_architectures_are_tested() -> None:
    assert {architecture for architecture, *_ in VARIANTS.values()} == set(ARCHITECTURES)


def test_factors_of_frequencies_as_in_llama_3(tmp_path: Path) -> None:
    metadata, weights = saved(tmp_path / "model.gguf", "llama", factors=True)
    decoder = Decoder.of(nt.load_gguf(tmp_path / "model.gguf"), CONTEXT, nt.float32)
    found = steps(decoder, TEXT, (len(TEXT),))
    np.testing.assert_allclose(found[0], logits(metadata, weights, TEXT)[-1], rtol=1e-4, atol=1e-4)


def test_quantized_weights_and_a_cache_of_16_bits(tmp_path: Path) -> None:
    metadata, weights = saved(tmp_path / "model.gguf", "llama")
    file = nt.load_gguf(tmp_path / "model.gguf")
    tensors = {
        name: nt.quantize(each, "q8_0") if each.ndim == 2 else each for name, each in file.tensors.items()
    }
    decoder = Decoder.of(file._replace(tensors=tensors), CONTEXT)
    found = steps(decoder, TEXT, (4, 5))
    expected = logits(metadata, weights, TEXT)[[3, 8]]
    assert ((found - expected) ** 2).sum() < 1e-3 * (expected**2).sum()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"general.architecture": "mamba"}, "the architecture is 'mamba'; there is a decoder for llama, qwen2, qwen3"),
        ({"general.architecture": None}, "the architecture is None"),
        ({"llama.block_count": None}, "the metadata has no llama.block_count"),
        ({"llama.block_count": 1 << 40}, "the file has no matrix blk.1099511627775.ffn_down.weight"),
        ({"llama.attention.head_count": 0}, "llama.attention.head_count must be a positive number, not 0"),
        ({"llama.attention.head_count_kv": np.array([2, 2])}, "head_count_kv must be a positive number, not array"),
        ({"llama.block_count": 1}, 'Unexpected key(s) in state_dict: "blk.1.attn_norm.weight"'),
        ({"llama.rope.scaling.type": "longrope"}, "rope.scaling.type is 'longrope'; none, linear and yarn are known"),
        ({"llama.context_length": 10}, "the context must be 1 to 10 tokens, not 64"),
        ({"llama.feed_forward_length": 64}, "size mismatch for blk.0.ffn_gate.weight"),
    ],
)
def test_files_that_are_no_such_model(change: dict[str, Any], said: str) -> None:
    metadata = {key: value for key, value in (made_up_model.metadata() | change).items() if value is not None}
    file = nt.load_gguf(made_up_model.FILE)._replace(metadata=metadata)
    with pytest.raises(nt.ArgumentError) as caught:
        Decoder.of(file, CONTEXT)
    assert said in str(caught.value)


def test_yarn() -> None:
    metadata = made_up_model.metadata() | {
        "llama.rope.scaling.type": "yarn",
        "llama.rope.scaling.factor": 4.0,
        "llama.rope.scaling.original_context_length": 128,
    }
    rotation = DecoderConfig.of(metadata, nt.load_gguf(made_up_model.FILE).tensors).rotation
    assert (rotation["freq_scale"], rotation["ext_factor"], rotation["n_ctx_orig"]) == (0.25, 1.0, 128)


def test_the_file_that_ships_is_what_the_script_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_up_model, "FILE", tmp_path / "model.gguf")
    shipped = Path(made_up_model.__file__).parent / "data" / "made_up_model.gguf"
    made_up_model.main()
    assert (tmp_path / "model.gguf").read_bytes() == shipped.read_bytes()


# --- generation


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, np.ndarray], Decoder]:
    path = tmp_path_factory.mktemp("models") / "model.gguf"
    metadata, weights = saved(path, "llama")
    return metadata, weights, Decoder.of(nt.load_gguf(path), CONTEXT, nt.float32)


def greedy(metadata: dict[str, Any], weights: dict[str, np.ndarray], prompt: list[int], tokens: int) -> list[int]:
    text = list(prompt)
    for _ in range(tokens):
        text.append(int(logits(metadata, weights, text)[-1].argmax()))
    return text[len(prompt) :]


@pytest.mark.parametrize("length", [1, 16, 17, 30, 60])
def test_greedy_text(length: int, model: tuple[dict[str, Any], dict[str, np.ndarray], Decoder]) -> None:
    """One decoder continues one text after the other; prompts are filled up to few sizes."""
    metadata, weights, decoder = model
    prompt = [(7 * i + length) % 250 for i in range(length)]
    run = Generation(decoder, prompt, 4)
    assert list(run) == greedy(metadata, weights, prompt, 4)
    assert run.count == 4
    assert run.prompt_seconds > 0


def test_a_text_ends_with_the_context(model: tuple[dict[str, Any], dict[str, np.ndarray], Decoder]) -> None:
    metadata, weights, decoder = model
    prompt = list(range(CONTEXT - 3))
    assert list(Generation(decoder, prompt, 100)) == greedy(metadata, weights, prompt, 3)


def test_a_text_ends_before_a_token_that_ends_it(model: tuple[dict[str, Any], dict[str, np.ndarray], Decoder]) -> None:
    *_, decoder = model
    tokens = list(Generation(decoder, TEXT, 6))
    end = tokens[3]
    assert list(Generation(decoder, TEXT, 6, ends={end})) == tokens[: tokens.index(end)]


def test_two_texts_at_once(model: tuple[dict[str, Any], dict[str, np.ndarray], Decoder]) -> None:
    *_, decoder = model
    first = iter(Generation(decoder, TEXT, 6))
    next(first)
    next(iter(Generation(decoder, TEXT, 6)))
    with pytest.raises(nt.ArgumentError, match="the decoder has begun another text"):
        next(first)


def test_prompts_that_cannot_be_continued(model: tuple[dict[str, Any], dict[str, np.ndarray], Decoder]) -> None:
    *_, decoder = model
    with pytest.raises(nt.ArgumentError, match="the prompt is empty"):
        Generation(decoder, [], 1)
    with pytest.raises(nt.ArgumentError, match="the prompt has 64 tokens, and the context of 64 must have room"):
        Generation(decoder, [0] * CONTEXT, 1)
