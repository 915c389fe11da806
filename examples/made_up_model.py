"""Made-up language models in GGUF files: small, two layers, with seeded random weights.

    python made_up_model.py

writes data/made_up_model.gguf, for `npu-tensor generate` and tests without a download. Its tokens are bytes and letter
pairs that are frequent in English.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import npu_tensor as nt

__all__ = ["FILE", "metadata", "weights"]

FILE = Path(__file__).parent / "data" / "made_up_model.gguf"
LAYERS, FEATURES, HIDDEN, HEADS, KV_HEADS, HEAD_FEATURES = 2, 64, 128, 4, 2, 16
CONTEXT = 512
CONTROL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
PAIRS = ["t h", "h e", "i n", "e r", "a n", "r e", "o n", "Ġ t", "Ġ a", "Ġt he"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_letters() -> list[str]:
    """Return GPT-2's character for each byte: itself if printable, else the next one from U+0100."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) for byte in printable] + [chr(256 + number) for number in range(len(others))]


TOKENS = [*CONTROL_TOKENS, *byte_letters(), *(pair.replace(" ", "") for pair in PAIRS)]


def metadata(architecture: str = "llama") -> dict[str, Any]:
    """Return the GGUF metadata of a model."""
    return {
        "general.architecture": architecture,
        "general.name": "made up, with random weights",
        f"{architecture}.context_length": CONTEXT,
        f"{architecture}.block_count": LAYERS,
        f"{architecture}.embedding_length": FEATURES,
        f"{architecture}.feed_forward_length": HIDDEN,
        f"{architecture}.attention.head_count": HEADS,
        f"{architecture}.attention.head_count_kv": KV_HEADS,
        f"{architecture}.attention.layer_norm_rms_epsilon": 1e-5,
        f"{architecture}.rope.freq_base": 10000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "smollm",
        "tokenizer.ggml.tokens": TOKENS,
        "tokenizer.ggml.token_type": np.array([3] * len(CONTROL_TOKENS) + [1] * (len(TOKENS) - 3), np.int32),
        "tokenizer.ggml.merges": PAIRS,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.chat_template": TEMPLATE,
    }


def weights(architecture: str = "llama", has_head: bool = False) -> dict[str, np.ndarray]:
    """Return float32 weights by GGUF name, including those that the architecture adds to Llama's."""
    random = np.random.default_rng(0)

    def matrix(outputs: int, inputs: int) -> np.ndarray:
        return random.standard_normal((outputs, inputs), np.float32) / np.float32(np.sqrt(inputs))

    def scale(features: int) -> np.ndarray:
        return 1 + random.standard_normal(features, np.float32) / 10

    width, kv_width = HEADS * HEAD_FEATURES, KV_HEADS * HEAD_FEATURES
    tensors = {"token_embd.weight": matrix(len(TOKENS), FEATURES)}
    if not has_head:  # Tokens other than letters get small logits.
        are_letters = np.array([text.strip("\u0120").isascii() and text.strip("\u0120").isalpha() for text in TOKENS])
        tensors["token_embd.weight"][~are_letters] /= 4
    for layer in range(LAYERS):
        block = {
            "attn_norm.weight": scale(FEATURES),
            "attn_q.weight": matrix(width, FEATURES),
            "attn_k.weight": matrix(kv_width, FEATURES),
            "attn_v.weight": matrix(kv_width, FEATURES),
            "attn_output.weight": matrix(FEATURES, width),
            "ffn_norm.weight": scale(FEATURES),
            "ffn_gate.weight": matrix(HIDDEN, FEATURES),
            "ffn_up.weight": matrix(HIDDEN, FEATURES),
            "ffn_down.weight": matrix(FEATURES, HIDDEN),
        }
        if architecture == "qwen2":
            block |= {"attn_q.bias": scale(width), "attn_k.bias": scale(kv_width), "attn_v.bias": scale(kv_width)}
        if architecture == "qwen3":
            block |= {"attn_q_norm.weight": scale(HEAD_FEATURES), "attn_k_norm.weight": scale(HEAD_FEATURES)}
        tensors |= {f"blk.{layer}.{name}": value for name, value in block.items()}
    tensors["output_norm.weight"] = scale(FEATURES)
    if has_head:
        tensors["output.weight"] = matrix(len(TOKENS), FEATURES)
    return tensors


def main() -> None:
    tensors = {}
    for name, value in weights().items():
        tensor = nt.from_numpy(value)
        tensors[name] = nt.quantize(tensor, "q8_0" if "embd" in name else "q4_1") if value.ndim == 2 else tensor
    nt.save_gguf(FILE, tensors, metadata())


if __name__ == "__main__":
    main()
