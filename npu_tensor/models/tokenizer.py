"""Tokenizers from GGUF files, by the package `tokenizers`, and chats as text, by the template of the file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from npu_tensor._util.extras import install_command
from npu_tensor.errors import ArgumentError
from npu_tensor.models.metadata import FLAG, INTEGERS, NUMBERS, STRING, STRINGS, TOKEN, entry

_LETTERS: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
_REST: Final = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """Split of a text into pieces inside which tokens are merged.

    Attributes:
        pattern: Regular expression of the pieces, or None.
        as_gpt2: True if pieces are then split by the pattern of GPT-2, which is part of `tokenizers`.
        whole: True if a piece that is a token needs no merges.
        adds_first: True if texts begin with a special token unless the metadata disables it.
    """

    pattern: str | None = None
    as_gpt2: bool = False
    whole: bool = False
    adds_first: bool = False


PRE_TOKENIZERS: Final = {
    "gpt-2": PreTokenizer(as_gpt2=True),
    "smollm": PreTokenizer(r"\p{N}", as_gpt2=True),
    "llama-bpe": PreTokenizer(rf"{_LETTERS}|\p{{N}}{{1,3}}|{_REST}", whole=True, adds_first=True),
    "qwen2": PreTokenizer(rf"{_LETTERS}|\p{{N}}|{_REST}"),
}
"""Pre-tokenizers by `tokenizer.ggml.pre`. The patterns are those of the models' publishers."""

CONTROL, USER_DEFINED, BYTE = 3, 4, 6
"""Values of `tokenizer.ggml.token_type`."""

ENDS: Final = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>")
"""Control tokens that end a text, in addition to those in the metadata."""


class Tokenizer:
    """Conversion of text to tokens and back. Special tokens that are not in the vocabulary are ignored.

    Args:
        metadata: Metadata of a GGUF file.

    Attributes:
        ends: Tokens that end a text.

    Raises:
        ArgumentError: The metadata has no vocabulary, one of an unknown kind, or values of wrong types.
        ImportError: The package `tokenizers` is missing.
    """

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        try:
            import tokenizers
        except ImportError:
            command = install_command("tokenizers", "jinja2")
            raise ImportError(f"text needs the package tokenizers: {command}") from None
        kind = entry(metadata, _MODEL, STRING, None)
        if kind is None:
            raise ArgumentError(f"the file has no tokenizer (no {_MODEL} in its metadata); choose another file of it")
        if kind not in _MODELS:
            raise ArgumentError(f"tokenizer.ggml.model is {kind!r}; supported are {' and '.join(_MODELS)}")
        self._vocabulary = entry(metadata, "tokenizer.ggml.tokens", STRINGS)
        types = entry(metadata, "tokenizer.ggml.token_type", INTEGERS, ())
        self._template: str | None = entry(metadata, "tokenizer.chat_template", STRING, None)
        try:
            self._library, adds_first = _MODELS[kind](metadata, self._vocabulary)
            self._library.add_tokens(
                [
                    tokenizers.AddedToken(text, normalized=False, special=kind == CONTROL)
                    for text, kind in zip(self._vocabulary, types, strict=False)
                    if kind in (CONTROL, USER_DEFINED)
                ]
            )
        except ArgumentError:
            raise
        except Exception as error:  # The library's errors for damaged merges and the like have no common class.
            raise ArgumentError(f"the tokenizer in the file is damaged: {error}") from error
        special = {name: self._special(metadata, name) for name in ("bos", "eos", "eot", "eom")}
        adds_first = entry(metadata, "tokenizer.ggml.add_bos_token", FLAG, adds_first)
        self._first = special["bos"] if adds_first else None
        self._names = {
            f"{name}_token": "" if special[name] is None else self._vocabulary[special[name]] for name in ("bos", "eos")
        }
        ends = (special["eos"], special["eot"], special["eom"], *map(self._library.token_to_id, ENDS))
        self.ends = frozenset(token for token in ends if token is not None)

    def _special(self, metadata: Mapping[str, Any], name: str) -> Any:
        token = entry(metadata, f"tokenizer.ggml.{name}_token_id", TOKEN, None)
        return token if token in range(len(self._vocabulary)) else None

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a text, in which names of control tokens are recognized.

        Raises:
            ArgumentError: The text is not valid Unicode.
        """
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise ArgumentError(f"the text is not valid Unicode: {error}") from None
        tokens: list[int] = self._library.encode(text, add_special_tokens=False).ids
        return tokens if self._first is None or tokens[:1] == [self._first] else [self._first, *tokens]

    def decode(self, tokens: Sequence[int], before: Sequence[int] = ()) -> str:
        """Return the text that tokens add to the text of previous tokens, without control tokens."""
        text: str = self._library.decode([*before, *tokens])
        return text[len(self._library.decode(before)) :]

    def decoded(self, before: Sequence[int] = ()) -> Callable[[int], str]:
        """Return a function that takes the tokens of a text one by one and returns the whole characters that each adds.

        Args:
            before: Previous tokens. They can decide if the first token begins with a space.
        """
        text, pending = before, list[int]()

        def added(token: int) -> str:
            nonlocal text, pending
            pending.append(token)
            piece = self.decode(pending, text)
            if not piece or piece.endswith("\ufffd"):  # Incomplete characters: more bytes may follow.
                return ""
            text, pending = pending, []
            return piece

        return added

    def chat(self, messages: Iterable[Mapping[str, str]]) -> str:
        """Render messages as the text that the model continues with its answer.

        Args:
            messages: Messages, each with `role` and `content`.

        Raises:
            ArgumentError: The file has no template, or the template fails.
            ImportError: The package `jinja2` is missing.
        """
        if self._template is None:
            raise ArgumentError("the file has no chat template (tokenizer.chat_template); pass the text as it stands")
        try:
            from npu_tensor.models.chat_templates import environment
        except ImportError:
            raise ImportError(f"chats need the package jinja2: {install_command('jinja2')}") from None
        # Templates may use tools and documents; transformers passes None if a chat has none.
        given = {"messages": list(messages), "tools": None, "documents": None, "add_generation_prompt": True}
        try:
            return environment().from_string(self._template).render(**given, **self._names)
        except Exception as error:  # A template may compute anything.
            raise ArgumentError(f"the chat template of the file fails: {error}") from error


def _byte_pairs(metadata: Mapping[str, Any], vocabulary: Sequence[str]) -> tuple[Any, bool]:
    """Build a byte-pair encoding of bytes, as in GPT-2."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    name = entry(metadata, "tokenizer.ggml.pre", STRING, "gpt-2")
    if name not in PRE_TOKENIZERS:
        raise ArgumentError(f"tokenizer.ggml.pre is {name!r}; supported are {', '.join(PRE_TOKENIZERS)}")
    pre = PRE_TOKENIZERS[name]
    merges = [tuple(merge.split(" ", 1)) for merge in entry(metadata, "tokenizer.ggml.merges", STRINGS)]
    tokens = {text: number for number, text in enumerate(vocabulary)}
    library = Tokenizer(models.BPE(tokens, merges, ignore_merges=pre.whole))
    split = [] if pre.pattern is None else [pre_tokenizers.Split(Regex(pre.pattern), "isolated")]
    bytes_of = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pre.as_gpt2)
    library.pre_tokenizer = pre_tokenizers.Sequence([*split, bytes_of])
    library.decoder = decoders.ByteLevel()
    return library, pre.adds_first


SPACE: Final = "\u2581"
"""Representation of a space in vocabularies of SentencePiece."""


def _sentence_piece(metadata: Mapping[str, Any], vocabulary: Sequence[str]) -> tuple[Any, bool]:
    """Build a byte-pair encoding of characters, as in SentencePiece, which merges the pair with the best result."""
    from tokenizers import Tokenizer, decoders, models, normalizers

    scores = entry(metadata, "tokenizer.ggml.scores", NUMBERS)
    tokens = {text: number for number, text in enumerate(vocabulary)}
    merges = []
    for number, text in enumerate(vocabulary):
        for middle in range(1, len(text)):
            left, right = text[:middle], text[middle:]
            if left in tokens and right in tokens:
                merges.append((-scores[number], tokens[left], tokens[right], (left, right)))
    unknown = vocabulary[entry(metadata, "tokenizer.ggml.unknown_token_id", TOKEN, 0)]
    in_order = [merge for *_, merge in sorted(merges)]
    library = Tokenizer(models.BPE(tokens, in_order, unk_token=unknown, fuse_unk=True, byte_fallback=True))
    has_prefix = entry(metadata, "tokenizer.ggml.add_space_prefix", FLAG, True)
    before = [normalizers.Prepend(SPACE)] if has_prefix else []
    library.normalizer = normalizers.Sequence([*before, normalizers.Replace(" ", SPACE)])
    first = [decoders.Strip(" ", 1, 0)] if has_prefix else []
    library.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *first]
    )
    return library, True


_MODEL: Final = "tokenizer.ggml.model"
_MODELS: Final[Mapping[str, Callable[[Mapping[str, Any], Sequence[str]], tuple[Any, bool]]]] = {
    "gpt2": _byte_pairs,
    "llama": _sentence_piece,
}
"""Builders by `tokenizer.ggml.model`. They return the tokenizer, and True if texts begin with a special token."""
