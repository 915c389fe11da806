"""BERT encoders against PyTorch's."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.examples.embeddings import embeddings
from npu_tensor.models import Encoder

CONFIG: dict[str, Any] = {
    "model_type": "bert",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 40,
    "type_vocab_size": 2,
    "vocab_size": 20,
}
LENGTHS = (7, 3)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return the folder of an encoder with random weights and an unused pooler."""
    random = np.random.default_rng(0)
    state = {
        name: nt.from_numpy(random.standard_normal(each.shape).astype(np.float32) / 4)
        for name, each in Encoder(CONFIG).state_dict().items()
    }
    nt.save(state | {"pooler.dense.weight": nt.ones(2, 2)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def expected(torch: Any, directory: Path, tokens: np.ndarray, mask: np.ndarray) -> np.ndarray:
    saved = nt.load(directory / "model.safetensors")
    state = {name: torch.from_numpy(each.numpy().copy()) for name, each in saved.items()}
    sizes = CONFIG["hidden_size"], CONFIG["num_attention_heads"], CONFIG["intermediate_size"]
    part = state["embeddings.word_embeddings.weight"][torch.from_numpy(tokens)]
    part = part + state["embeddings.position_embeddings.weight"][: tokens.shape[1]]
    part = part + state["embeddings.token_type_embeddings.weight"][0]
    x = torch.nn.functional.layer_norm(
        part, (32,), state["embeddings.LayerNorm.weight"], state["embeddings.LayerNorm.bias"], 1e-12
    )
    for number in range(2):
        own = {n.removeprefix(f"encoder.layer.{number}."): each for n, each in state.items()}
        layer = torch.nn.TransformerEncoderLayer(*sizes, 0.0, "gelu", 1e-12, batch_first=True)
        names = {
            "self_attn.out_proj": "attention.output.dense",
            "norm1": "attention.output.LayerNorm",
            "linear1": "intermediate.dense",
            "linear2": "output.dense",
            "norm2": "output.LayerNorm",
        }
        values = {f"{to}.{kind}": own[f"{of}.{kind}"] for to, of in names.items() for kind in ("weight", "bias")}
        for kind in ("weight", "bias"):
            parts = [own[f"attention.self.{each}.{kind}"] for each in ("query", "key", "value")]
            values[f"self_attn.in_proj_{kind}"] = torch.cat(parts)
        layer.load_state_dict(values)
        x = layer(x, src_key_padding_mask=torch.from_numpy(~mask))
    shares = torch.from_numpy(mask)[..., None].float()
    mean = (x * shares).sum(1) / shares.sum(1)
    return np.asarray((mean / mean.norm(dim=-1, keepdim=True)).detach())


def test_embeddings(directory: Path) -> None:
    torch = pytest.importorskip("torch")
    mask = np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]
    tokens = np.where(mask, np.random.default_rng(1).integers(0, 20, mask.shape), 0)
    result = Encoder.load(directory).embed(nt.from_numpy(tokens), nt.from_numpy(mask))
    np.testing.assert_allclose(result.numpy(), expected(torch, directory, tokens, mask), atol=1e-5)


def test_a_text_without_tokens_is_zero(directory: Path) -> None:
    mask = nt.tensor([[True, True], [False, False]])
    rows = Encoder.load(directory).embed(nt.tensor([[3, 4], [0, 0]]), mask).numpy()
    np.testing.assert_allclose(np.linalg.norm(rows, axis=-1), [1, 0], rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model_type": "roberta"}, "model_type is 'roberta'; supported is 'bert'"),
        ({"model_type": None}, "the file has no model_type"),
        ({"hidden_act": "relu"}, "hidden_act is 'relu'; supported is 'gelu'"),
        ({"position_embedding_type": "relative_key"}, "position_embedding_type is 'relative_key'"),
        ({"vocab_size": None}, "the file has no vocab_size"),
        ({"vocab_size": "20"}, "vocab_size must be a positive integer, not '20'"),
        ({"num_attention_heads": 5}, "hidden_size 32 is not divisible by num_attention_heads 5"),
        ({"layer_norm_eps": [1]}, "layer_norm_eps must be a positive number, not [1]"),
    ],
)
def test_configurations_of_other_models(change: dict[str, Any], said: str, directory: Path) -> None:
    config = {key: value for key, value in (CONFIG | change).items() if value is not None}
    (directory / "config.json").write_text(json.dumps(config))
    with pytest.raises(nt.ArgumentError, match=re.escape(f"{directory / 'config.json'}: {said}")):
        Encoder.load(directory)


@pytest.mark.parametrize(
    ("content", "said"), [(b"{", "Expecting property name"), (b"\xff", "can't decode"), (b"[]", "not a JSON object")]
)
def test_a_damaged_configuration(content: bytes, said: str, directory: Path) -> None:
    (directory / "config.json").write_bytes(content)
    with pytest.raises(nt.ArgumentError, match=rf"config\.json: .*{said}"):
        Encoder.load(directory)


def test_a_weight_that_is_missing(directory: Path) -> None:
    state = nt.load(directory / "model.safetensors")
    del state["encoder.layer.1.output.dense.bias"]
    nt.save(state, directory / "model.safetensors")
    with pytest.raises(nt.ArgumentError, match=r"model.safetensors has no encoder.layer.1.output.dense.bias"):
        Encoder.load(directory)


def test_texts_are_filled_up_and_cut_off(directory: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    words = {word: number for number, word in enumerate(["[PAD]", *"abcdefgh"])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, "[PAD]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer.save(str(directory / "tokenizer.json"))
    texts = ["a b c", "d", "e f g h " * 20]
    together = embeddings(directory, texts).numpy()
    alone = [embeddings(directory, [text]).numpy()[0] for text in [*texts[:2], "e f g h " * 8]]
    np.testing.assert_allclose(together, alone, atol=1e-5)
