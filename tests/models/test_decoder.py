"""Decoders of every architecture against float64 NumPy, with and without the cache."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy_decoder import logits

import npu_tensor as nt
from npu_tensor.examples import made_up_model
from npu_tensor.models import Decoder, DecoderConfig, Generation
from npu_tensor.models import decoder as decoder_module

CONTEXT = 64
TEXT = [5, 90, 17, 200, 33, 8, 8, 120, 41]

VARIANTS: dict[str, tuple[str, bool, dict[str, Any]]] = {
    "llama": ("llama", False, {}),
    "llama with a head": ("llama", True, {}),
    "llama, linear scaling": ("llama", True, {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}),
    "llama, a factor alone is linear": ("llama", False, {"llama.rope.scaling.factor": 4.0}),
    "llama, the old key of the factor": ("llama", False, {"llama.rope.scale_linear": 4.0}),
    "llama, no scaling but of attention": (
        "llama",
        False,
        {
            "llama.rope.scaling.type": "none",
            "llama.rope.scaling.factor": 4.0,
            "llama.rope.scaling.attn_factor": 1.5,
        },
    ),
    "qwen2": ("qwen2", False, {}),
    "qwen3": ("qwen3", True, {"qwen3.attention.key_length": 16}),
}


def saved(path: Path, variant: str, factors: bool = False) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Write a model, and return its content."""
    architecture, has_head, more = VARIANTS[variant]
    metadata = made_up_model.metadata(architecture) | more
    weights = made_up_model.weights(architecture, has_head)
    if factors:
        weights["rope_freqs.weight"] = np.linspace(1, 8, made_up_model.HEAD_FEATURES // 2, dtype=np.float32)
    nt.save_gguf(path, {name: nt.from_numpy(value) for name, value in weights.items()}, metadata)
    return metadata, weights


def steps(decoder: Decoder, tokens: list[int], sizes: tuple[int, ...]) -> np.ndarray:
    """Return the logits after each part of a text."""
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
    result = steps(decoder, TEXT, (5, 1, 1, 1, 1))
    np.testing.assert_allclose(result, logits(metadata, weights, TEXT)[4:], rtol=1e-4, atol=1e-4)


def test_attention_of_many_tokens_is_computed_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoder_module, "ATTENTION_TOKENS", 2)
    metadata, weights = saved(tmp_path / "model.gguf", "llama")
    decoder = Decoder.of(nt.load_gguf(tmp_path / "model.gguf"), CONTEXT, nt.float32)
    end = CONTEXT - len(TEXT)  # The last tokens fill the window, so that an omission in any part shows.
    text = [7] * end + TEXT
    expected = logits(metadata, weights, text)[[end - 1, end + 4, CONTEXT - 1]]
    np.testing.assert_allclose(steps(decoder, text, (end, 5, 4)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", [nt.float16, nt.bfloat16])
def test_matrices_of_16_bits(dtype: nt.DType, tmp_path: Path) -> None:
    """Features between the matrices are float32: here they exceed the range of float16."""
    metadata, _ = saved(tmp_path / "model.gguf", "llama with a head")
    file = nt.load_gguf(tmp_path / "model.gguf")
    tensors = {name: each.to(dtype) if each.ndim == 2 else each for name, each in file.tensors.items()}
    tensors["blk.0.ffn_down.weight"] = (tensors["blk.0.ffn_down.weight"].float() * 1e4).to(dtype)
    tensors["blk.0.ffn_norm.weight"] = tensors["blk.0.ffn_norm.weight"] * 100
    nt.save_gguf(tmp_path / "narrow.gguf", tensors, metadata)
    decoder = Decoder.of(nt.load_gguf(tmp_path / "narrow.gguf"), CONTEXT, nt.float32)
    expected = logits(metadata, {name: each.float().numpy() for name, each in tensors.items()}, TEXT)
    np.testing.assert_allclose(steps(decoder, TEXT, (5, 4)), expected[[4, 8]], rtol=1e-4, atol=1e-4)


def test_factors_of_frequencies_as_in_llama_3(tmp_path: Path) -> None:
    metadata, weights = saved(tmp_path / "model.gguf", "llama", factors=True)
    decoder = Decoder.of(nt.load_gguf(tmp_path / "model.gguf"), CONTEXT, nt.float32)
    result = steps(decoder, TEXT, (len(TEXT),))
    np.testing.assert_allclose(result[0], logits(metadata, weights, TEXT)[-1], rtol=1e-4, atol=1e-4)


def test_quantized_weights_and_a_cache_of_16_bits(tmp_path: Path) -> None:
    metadata, weights = saved(tmp_path / "model.gguf", "llama")
    file = nt.load_gguf(tmp_path / "model.gguf")
    tensors = {name: nt.quantize(each, "q8_0") if each.ndim == 2 else each for name, each in file.tensors.items()}
    decoder = Decoder.of(file._replace(tensors=tensors), CONTEXT)
    result = steps(decoder, TEXT, (4, 5))
    expected = logits(metadata, weights, TEXT)[[3, 8]]
    assert ((result - expected) ** 2).sum() < 1e-3 * (expected**2).sum()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"general.architecture": "mamba"}, "the architecture is 'mamba'; supported are llama, qwen2, qwen3"),
        ({"general.architecture": None}, "the file has no general.architecture"),
        ({"llama.block_count": None}, "the file has no llama.block_count"),
        ({"llama.block_count": 1 << 40}, "the file has no matrix blk.1099511627775.ffn_down.weight"),
        ({"llama.attention.head_count_kv": np.array([2, 2])}, "head_count_kv must be a positive integer, not array"),
        ({"llama.attention.head_count": 4.0}, "llama.attention.head_count must be a positive integer, not 4.0"),
        ({"llama.rope.freq_base": float("inf")}, "llama.rope.freq_base must be a positive number, not inf"),
        ({"llama.block_count": 1}, 'Unexpected key(s) in state_dict: "blk.1.attn_norm.weight"'),
        ({"llama.rope.scaling.type": "longrope"}, "rope.scaling.type is 'longrope'; supported are none"),
        ({"llama.feed_forward_length": 64}, "size mismatch for blk.0.ffn_gate.weight"),
    ],
)
def test_invalid_files(change: dict[str, Any], said: str) -> None:
    metadata = {key: value for key, value in (made_up_model.metadata() | change).items() if value is not None}
    file = nt.load_gguf(made_up_model.FILE)._replace(metadata=metadata)
    with pytest.raises(nt.ArgumentError) as caught:
        Decoder.of(file, CONTEXT)
    assert said in str(caught.value)


@pytest.mark.parametrize(("original", "expected"), [(128, 128), (None, made_up_model.CONTEXT)])
def test_yarn(original: int | None, expected: int) -> None:
    """If the original context is missing, it is that of the model, as in llama.cpp."""
    metadata = made_up_model.metadata() | {"llama.rope.scaling.type": "yarn", "llama.rope.scaling.factor": 4.0}
    if original is not None:
        metadata["llama.rope.scaling.original_context_length"] = original
    rotation = DecoderConfig.of(metadata, nt.load_gguf(made_up_model.FILE).tensors).rotation
    assert (rotation["freq_scale"], rotation["ext_factor"], rotation["n_ctx_orig"]) == (0.25, 1.0, expected)


def test_the_context_is_at_most_that_of_the_model() -> None:
    file = nt.load_gguf(made_up_model.FILE)
    assert Decoder.of(file, 1 << 40).context == made_up_model.CONTEXT
    assert Decoder.of(file, CONTEXT).context == CONTEXT
    with pytest.raises(nt.ArgumentError, match="the context must have room for a token, not 0"):
        Decoder.of(file, 0)


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
    """One decoder continues several texts in turn; prompts are padded to a few sizes."""
    metadata, weights, decoder = model
    prompt = [(7 * i + length) % 250 for i in range(length)]
    run = Generation(decoder, prompt, 4)
    assert list(run) == greedy(metadata, weights, prompt, 4)
    assert run.count == 4
    assert run.prompt_seconds is not None
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
    with pytest.raises(nt.ArgumentError, match="the decoder has started another text"):
        next(first)


def test_prompts_that_cannot_be_continued(model: tuple[dict[str, Any], dict[str, np.ndarray], Decoder]) -> None:
    *_, decoder = model
    with pytest.raises(nt.ArgumentError, match="the prompt is empty"):
        Generation(decoder, [], 1)
    with pytest.raises(nt.ArgumentError, match="the prompt has 64 tokens, and the context of 64 must have room"):
        Generation(decoder, [0] * CONTEXT, 1)


def test_the_file_that_ships_is_what_the_script_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_up_model, "FILE", tmp_path / "model.gguf")
    shipped = Path(made_up_model.__file__).parent / "data" / "made_up_model.gguf"
    made_up_model.main()
    assert (tmp_path / "model.gguf").read_bytes() == shipped.read_bytes()
