"""Tokens from the vocabulary in a GGUF file, by the package `tokenizers`; chats as text, by the file's own template."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from npu_tensor.errors import ArgumentError

__all__ = ["Tokenizer"]

_LETTERS: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_REST: Final = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

PATTERNS: Final[Mapping[str, str | None]] = {
    "gpt-2": None,
    "smollm": r"\p{N}",
    "llama-bpe": rf"{_LETTERS}|\p{{N}}{{1,3}}|{_REST}",
    "qwen2": rf"{_LETTERS}|\p{{N}}|{_REST}",
}
"""By `tokenizer.ggml.pre`: the pieces of a text inside which tokens are merged. Those of GPT-2 are part of
`tokenizers`, and for SmolLM digits are pieces of their own before. The patterns are those of the models' publishers."""

_OF_GPT2: Final = ("gpt-2", "smollm")

CONTROL, USER_DEFINED, BYTE = 3, 4, 6
"""Of `tokenizer.ggml.token_type`."""

ENDS: Final = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>")
"""Control tokens after which a text has ended, also where the metadata names another one."""


class Tokenizer:
    """Text as tokens and back. ends: tokens that end a text.

    Raises ArgumentError for metadata without a vocabulary or with one of a kind that is not known, ImportError
    without the package `tokenizers`.
    """

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        try:
            import tokenizers
        except ImportError:
            raise ImportError("text needs the package tokenizers: in a checkout, pip install '.[models]'") from None
        kind, self._vocabulary = _value(metadata, "model"), _value(metadata, "tokens")
        if kind not in _MODELS:
            raise ArgumentError(f"tokenizer.ggml.model is {kind!r}; {' and '.join(_MODELS)} are known")
        self._template: str | None = metadata.get("tokenizer.chat_template")
        try:
            self._library = _MODELS[kind](metadata, self._vocabulary)
        except ArgumentError:
            raise
        except Exception as error:  # what the library raises for merges of no tokens and the like has no common type
            raise ArgumentError(f"the tokenizer in the file is damaged: {error}") from error
        types = metadata.get("tokenizer.ggml.token_type", ())
        added = [
            tokenizers.AddedToken(text, normalized=False, special=kind == CONTROL)
            for text, kind in zip(self._vocabulary, types, strict=False)
            if kind in (CONTROL, USER_DEFINED)
        ]
        self._library.add_tokens(added)
        first = kind == "llama" or metadata.get("tokenizer.ggml.pre") == "llama-bpe"
        adds_first = metadata.get("tokenizer.ggml.add_bos_token", first)
        self._first = metadata.get("tokenizer.ggml.bos_token_id") if adds_first else None
        self._names = {name: self._text_of(metadata, name) for name in ("bos", "eos")}
        named = (metadata.get(f"tokenizer.ggml.{name}_token_id") for name in ("eos", "eot", "eom"))
        self.ends = frozenset(
            token for token in (*named, *map(self._library.token_to_id, ENDS)) if token is not None
        )

    def _text_of(self, metadata: Mapping[str, Any], name: str) -> str:
        token = metadata.get(f"tokenizer.ggml.{name}_token_id")
        return self._vocabulary[token] if token in range(len(self._vocabulary)) else ""

    def encode(self, text: str) -> list[int]:
        """The tokens of a text, in which names of control tokens stand for these; first the one that begins texts."""
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ArgumentError(f"the text is no Unicode text: {error}") from None
        tokens: list[int] = self._library.encode(text, add_special_tokens=False).ids
        return tokens if self._first is None or tokens[:1] == [self._first] else [self._first, *tokens]

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without control tokens."""
        return str(self._library.decode(tokens))

    def decoded(self) -> Callable[[int], str]:
        """A function that takes the tokens of a text one by one and returns what each adds: whole characters."""
        from tokenizers.decoders import DecodeStream

        stream = DecodeStream(skip_special_tokens=True)
        return lambda token: stream.step(self._library, token) or ""

    def chat(self, messages: Iterable[Mapping[str, str]]) -> str:
        """Messages, each with `role` and `content`, as the text that the model continues with its answer.

        Raises ArgumentError if the file has no template, or one that fails.
        """
        if self._template is None:
            raise ArgumentError("the file has no chat template (tokenizer.chat_template); pass the text as it stands")
        try:
            from jinja2 import TemplateError
            from jinja2.sandbox import ImmutableSandboxedEnvironment
        except ImportError:
            raise ImportError("chats need the package jinja2: in a checkout, pip install '.[models]'") from None

        def raise_exception(text: str) -> None:
            raise TemplateError(text)

        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.globals["raise_exception"] = raise_exception
        names = {f"{name}_token": text for name, text in self._names.items()}
        try:
            template = environment.from_string(self._template)
            return template.render(messages=list(messages), add_generation_prompt=True, **names)
        except Exception as error:  # a template may compute anything
            raise ArgumentError(f"the chat template of the file fails: {error}") from error


def _value(metadata: Mapping[str, Any], name: str) -> Any:
    key = f"tokenizer.ggml.{name}"
    if key not in metadata:
        raise ArgumentError(f"the file has no tokenizer (no {key} in its metadata); another file of the model may")
    return metadata[key]


def _bytes(metadata: Mapping[str, Any], vocabulary: Sequence[str]) -> Any:
    """Byte-pair encoding of bytes, as in GPT-2."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    name = metadata.get("tokenizer.ggml.pre", "gpt-2")
    if name not in PATTERNS:
        raise ArgumentError(f"tokenizer.ggml.pre is {name!r}; {', '.join(PATTERNS)} are known")
    merges = [tuple(merge.split(" ", 1)) for merge in _value(metadata, "merges")]
    tokens = {text: number for number, text in enumerate(vocabulary)}
    # A piece that is a token needs no merges that lead to it: so it is in Llama 3's own tokenizer.
    library = Tokenizer(models.BPE(tokens, merges, ignore_merges=name == "llama-bpe"))
    bytes_of = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=name in _OF_GPT2)
    pattern = PATTERNS[name]
    split = [] if pattern is None else [pre_tokenizers.Split(Regex(pattern), "isolated")]
    library.pre_tokenizer = pre_tokenizers.Sequence([*split, bytes_of])
    library.decoder = decoders.ByteLevel()
    return library


SPACE: Final = "\u2581"
"""What stands for a space in vocabularies of SentencePiece."""


def _sentence_piece(metadata: Mapping[str, Any], vocabulary: Sequence[str]) -> Any:
    """Byte-pair encoding of characters, as in SentencePiece: of two tokens that can be merged, the better result."""
    from tokenizers import Tokenizer, decoders, models, normalizers

    scores = _value(metadata, "scores")
    tokens = {text: number for number, text in enumerate(vocabulary)}
    merges = []
    for number, text in enumerate(vocabulary):
        for middle in range(1, len(text)):
            left, right = text[:middle], text[middle:]
            if left in tokens and right in tokens:
                merges.append((-scores[number], tokens[left], tokens[right], (left, right)))
    unknown = vocabulary[metadata.get("tokenizer.ggml.unknown_token_id", 0)]
    in_order = [merge for *_, merge in sorted(merges)]
    library = Tokenizer(models.BPE(tokens, in_order, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    has_prefix = metadata.get("tokenizer.ggml.add_space_prefix", True)
    before = [normalizers.Prepend(SPACE)] if has_prefix else []
    library.normalizer = normalizers.Sequence([*before, normalizers.Replace(" ", SPACE)])
    first = [decoders.Strip(" ", 1, 0)] if has_prefix else []
    library.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *first]
    )
    return library


_MODELS: Final[Mapping[str, Callable[[Mapping[str, Any], Sequence[str]], Any]]] = {
    "gpt2": _bytes,
    "llama": _sentence_piece,
}
"""By `tokenizer.ggml.model`."""
