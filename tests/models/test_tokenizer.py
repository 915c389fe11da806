"""Tokenizers against naive implementations of the published rules."""

import json
import re
import sys
import time
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import npu_tensor as nt
from npu_tensor.examples import made_up_model
from npu_tensor.models import Tokenizer

pytest.importorskip("tokenizers")
METADATA = made_up_model.metadata()


def merged(piece: str) -> list[str]:
    """Apply the merges in order, each one wherever it matches (Sennrich et al., 2016)."""
    parts = [made_up_model.byte_letters()[sorted_bytes().index(byte)] for byte in piece.encode()]
    for merge in made_up_model.PAIRS:
        left, right = merge.split(" ")
        number = 0
        while number < len(parts) - 1:
            if parts[number : number + 2] == [left, right]:
                parts[number : number + 2] = [left + right]
            number += 1
    return parts


def sorted_bytes() -> list[int]:
    """Return the bytes in the order of `byte_letters`."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    return printable + [byte for byte in range(256) if byte not in printable]


def test_bytes_and_merges() -> None:
    tokens = Tokenizer(METADATA).encode("the thin answer é")
    pieces = ["the", " thin", " answer", " é"]
    assert [made_up_model.TOKENS[token] for token in tokens] == [part for piece in pieces for part in merged(piece)]


@pytest.mark.parametrize("text", ["", "hello", "  two  spaces\n\nlines\t", "naïve 漢字 🙂", "1234567", "it's I'LL"])
@pytest.mark.parametrize("pre", ["gpt-2", "smollm", "llama-bpe", "qwen2"])
def test_texts_come_back(text: str, pre: str) -> None:
    tokenizer = Tokenizer(METADATA | {"tokenizer.ggml.pre": pre, "tokenizer.ggml.add_bos_token": False})
    tokens = tokenizer.encode(text)
    assert tokenizer.decode(tokens) == text
    piece = tokenizer.decoded()
    assert "".join(map(piece, tokens)) == text


@pytest.mark.parametrize(
    ("pre", "expected"),
    [
        ("gpt-2", ["12345"]),
        ("smollm", ["1", "2", "3", "4", "5"]),
        ("llama-bpe", ["123", "45"]),
        ("qwen2", ["1", "2", "3", "4", "5"]),
    ],
)
def test_numbers_by_pre_tokenizer(pre: str, expected: list[str]) -> None:
    """Merges join all digits of one piece."""
    grown = ["12", "123", "1234", "12345", "45"]
    metadata = METADATA | {
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.tokens": [*made_up_model.TOKENS, *grown],
        "tokenizer.ggml.merges": ["1 2", "12 3", "123 4", "1234 5", "4 5"],
    }
    tokens = Tokenizer(metadata).encode("12345")
    assert [metadata["tokenizer.ggml.tokens"][token] for token in tokens] == expected


def test_control_tokens_are_read_and_not_shown() -> None:
    tokenizer = Tokenizer(METADATA)
    tokens = tokenizer.encode("<|im_start|>a<|im_end|>")
    assert (tokens[0], tokens[-1]) == (1, 2)
    assert tokenizer.decode(tokens) == "a"
    assert tokenizer.ends == {0, 2}


def test_the_token_that_begins_texts_is_there_once() -> None:
    tokenizer = Tokenizer(METADATA | {"tokenizer.ggml.add_bos_token": True})
    assert tokenizer.encode("a")[:1] == tokenizer.encode("<|im_start|>a")[:1] == [1]
    assert tokenizer.encode("<|im_start|>a") == tokenizer.encode("a")


def test_invalid_unicode() -> None:
    with pytest.raises(nt.ArgumentError, match="not valid Unicode"):
        Tokenizer(METADATA).encode("a\udc80")


# --- SentencePiece

PIECES = {"<unk>": 0.0, "<s>": 0.0, "</s>": 0.0, "<0xC3>": 0.0, "<0xA9>": 0.0} | {
    piece: -float(number)
    for number, piece in enumerate(["\u2581th", "in", "\u2581t", "the", "th", "he", *"\u2581theinags"])
}
SENTENCE_PIECE: dict[str, Any] = {
    "tokenizer.ggml.model": "llama",
    "tokenizer.ggml.tokens": list(PIECES),
    "tokenizer.ggml.scores": np.array(list(PIECES.values()), np.float32),
    "tokenizer.ggml.token_type": np.array([2, 3, 3, 6, 6] + [1] * (len(PIECES) - 5), np.int32),
    "tokenizer.ggml.bos_token_id": 1,
    "tokenizer.ggml.eos_token_id": 2,
    "tokenizer.ggml.unknown_token_id": 0,
}


def best_merges(text: str) -> list[str]:
    """Merge the neighbours whose result has the best score first (Kudo and Richardson, 2018)."""
    parts = list("\u2581" + text.replace(" ", "\u2581"))
    while True:
        scores = {number: PIECES.get(a + b, -1e9) for number, (a, b) in enumerate(pairwise(parts))}
        best = max(scores, key=lambda number: (scores[number], -number), default=0)
        if scores.get(best, -1e9) == -1e9:
            return parts
        parts[best : best + 2] = [parts[best] + parts[best + 1]]


@pytest.mark.parametrize("text", ["thin", "the hat", "a thing in the sea", "hehehe"])
def test_sentence_piece(text: str) -> None:
    tokenizer = Tokenizer(SENTENCE_PIECE)
    tokens = tokenizer.encode(text)
    assert [SENTENCE_PIECE["tokenizer.ggml.tokens"][token] for token in tokens] == ["<s>", *best_merges(text)]
    assert tokenizer.decode(tokens) == text


def whole_prefixes(tokens: list[int], tokenizer: Tokenizer) -> list[int]:
    """Return the positions at which the text so far has only whole characters."""
    return [n for n in range(1, len(tokens)) if not tokenizer.decode(tokens[:n]).endswith("\ufffd")]


@pytest.mark.parametrize(
    ("metadata", "text"),
    [(SENTENCE_PIECE, "the hé a thing  in"), (SENTENCE_PIECE, " the the"), (METADATA, "the thin é answer")],
)
def test_what_continues_a_prompt_keeps_its_spaces(metadata: dict[str, Any], text: str) -> None:
    tokenizer = Tokenizer(metadata)
    tokens = tokenizer.encode(text)
    places = whole_prefixes(tokens, tokenizer)
    assert any(tokenizer.decode(tokens).startswith(" ", len(tokenizer.decode(tokens[:place]))) for place in places)
    for place in places:
        prompt, rest = tokens[:place], tokens[place:]
        assert tokenizer.decode(prompt) + tokenizer.decode(rest, prompt) == tokenizer.decode(tokens) == text
        assert tokenizer.decode(prompt) + "".join(map(tokenizer.decoded(prompt), rest)) == text


# --- chats


def test_characters_that_are_no_token_are_bytes() -> None:
    tokenizer = Tokenizer(SENTENCE_PIECE)
    tokens = tokenizer.encode("thé")
    assert tokens[-2:] == [3, 4]
    assert tokenizer.decode(tokens) == "thé"


def test_a_chat() -> None:
    text = Tokenizer(METADATA).chat([{"role": "user", "content": "hello"}])
    assert text == "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"


CALL = {"name": "run", "arguments": {"code": "if a < b && c > 'é'", "a": [1, None]}}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ strftime_now('%Y') }}", time.strftime("%Y")),
        ("{% for m in messages %}{% if loop.index > 2 %}{% break %}{% endif %}{{ m.role }} {% endfor %}", "user tool "),
        ("{% for m in messages %}{% if m.call %}{% continue %}{% endif %}{{ m.role }} {% endfor %}", "user system "),
        (
            "{% for m in messages %}{% generation %}{{ m.role }}{% set x = 1 %}{% endgeneration %}{{ x }} {% endfor %}",
            "user tool system ",
        ),
        ("{{ messages[1].call | tojson }}", json.dumps(CALL, ensure_ascii=False)),
        ("{{ messages[1].call | tojson(ensure_ascii=True) }}", json.dumps(CALL)),
        (
            "{{ messages[1].call | tojson(separators=(',', ':'), sort_keys=true) }}",
            '{"arguments":{"a":[1,null],"code":"if a < b && c > \'é\'"},"name":"run"}',
        ),
        ("{{ tools is none }} {{ documents is none }} {{ tools is not none }}", "True True False"),
        ("{% if true %}\n  {{ 'no block leaves a line' }}\n{% endif %}\n", "  no block leaves a line\n"),
    ],
)
def test_templates_are_rendered_as_by_transformers(template: str, expected: str) -> None:
    """JSON is that of json.dumps; loops can break; `generation` renders only its content, in its own scope."""
    messages: list[Any] = [{"role": "user"}, {"role": "tool", "call": CALL}, {"role": "system"}]
    assert Tokenizer(METADATA | {"tokenizer.chat_template": template}).chat(messages) == expected


@pytest.mark.parametrize(
    ("template", "said"),
    [
        ("{% generation %}", "the chat template of the file fails"),
        ("{{ raise_exception('only users speak') }}", "only users speak"),
        ("{{ messages.clear() }}", "the chat template of the file fails"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "unsafe"),
        ("{{ 1 / 0 }}", "division"),
    ],
)
def test_templates_that_fail(template: str, said: str) -> None:
    with pytest.raises(nt.ArgumentError, match=said):
        Tokenizer(METADATA | {"tokenizer.chat_template": template}).chat([{"role": "user", "content": "hello"}])


# --- errors


def without(*keys: str) -> dict[str, Any]:
    return {key: value for key, value in METADATA.items() if key.split(".", 1)[1] not in keys}


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        (without("ggml.model"), r"the file has no tokenizer \(no tokenizer.ggml.model in its metadata\)"),
        (without("ggml.tokens"), "no tokenizer.ggml.tokens"),
        (METADATA | {"tokenizer.ggml.merges": ["no pair"]}, "the tokenizer in the file is damaged"),
        (METADATA | {"tokenizer.ggml.model": "rwkv"}, "'rwkv'; supported are gpt2 and llama"),
        (METADATA | {"tokenizer.ggml.tokens": [1, 2]}, r"tokens must be a list of strings, not \[1, 2\]"),
        (METADATA | {"tokenizer.ggml.tokens": [*made_up_model.TOKENS, "\udcff"]}, "is damaged"),
        (METADATA | {"tokenizer.ggml.token_type": ["a"]}, "token_type must be an array of integers, not"),
        (METADATA | {"tokenizer.ggml.eos_token_id": "2"}, "eos_token_id must be the number of a token, not '2'"),
        (METADATA | {"tokenizer.ggml.add_bos_token": 1}, "add_bos_token must be true or false, not 1"),
        (SENTENCE_PIECE | {"tokenizer.ggml.scores": np.zeros(2)}, "is damaged"),
        (SENTENCE_PIECE | {"tokenizer.ggml.unknown_token_id": 1.5}, "must be the number of a token, not 1.5"),
        (METADATA | {"tokenizer.ggml.pre": "dbrx"}, "'dbrx'; supported are gpt-2, smollm, llama-bpe, qwen2"),
    ],
)
def test_vocabularies_that_cannot_be_used(metadata: dict[str, Any], said: str) -> None:
    with pytest.raises(nt.ArgumentError, match=said):
        Tokenizer(metadata)


def test_special_tokens_that_are_not_in_the_vocabulary_are_none() -> None:
    tokenizer = Tokenizer(METADATA | {"tokenizer.ggml.bos_token_id": -1, "tokenizer.ggml.eos_token_id": 1 << 40})
    assert tokenizer.encode("<|im_start|>") == Tokenizer(METADATA).encode("<|im_start|>")
    assert tokenizer.ends == {0, 2}  # By their names.


def test_files_without_a_template() -> None:
    with pytest.raises(nt.ArgumentError, match="the file has no chat template"):
        Tokenizer(without("chat_template")).chat([])


@pytest.fixture(params=["tokenizers", "jinja2"])
def missing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(sys.modules, request.param, None)
    monkeypatch.delitem(sys.modules, "npu_tensor.models.chat_templates", raising=False)
    return str(request.param)


def test_libraries_that_are_not_installed(missing: str) -> None:
    with pytest.raises(ImportError, match=rf'{missing}: "{re.escape(sys.executable)}" -m pip install .*{missing}'):
        Tokenizer(METADATA).chat([])
