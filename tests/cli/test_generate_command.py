"""`npu-tensor generate`."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import npu_tensor as nt
from npu_tensor.cli import main
from npu_tensor.examples import made_up_model
from npu_tensor.models import Generation, load

pytest.importorskip("tokenizers")


@pytest.fixture(autouse=True)
def _device() -> Iterator[None]:
    before = nt.get_default_device()
    yield
    nt.set_default_device(before)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["generate", *arguments])


def changed(path: Path, **metadata: object) -> str:
    file = nt.load_gguf(made_up_model.FILE)
    kept = {key: value for key, value in (file.metadata | metadata).items() if value is not None}
    nt.save_gguf(path, file.tensors, kept)
    return str(path)


def test_text_and_figures() -> None:
    result = run(str(made_up_model.FILE), "the thing", "--tokens", "5")
    assert result.exit_code == 0, result.output
    assert result.stdout == load(made_up_model.FILE).generate("the thing", 5) + "\n"
    for part in ("6 prompt tokens", "first token after", "5 tokens", "peak memory", "a token takes"):
        assert part in result.stderr
    assert "predicted" not in result.stderr


@pytest.mark.parametrize("to_file", [False, True])
def test_json(to_file: bool, tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    result = run(str(made_up_model.FILE), "the thing", "--tokens", "5", "--json", *([str(path)] if to_file else []))
    actual = json.loads(path.read_text() if to_file else result.stdout)
    assert ("a token takes" in result.stderr) is to_file
    assert actual["text"] == load(made_up_model.FILE).generate("the thing", 5)
    assert (actual["prompt_tokens"], actual["tokens"]) == (6, 5)
    assert actual["prompt_tokens_per_second"] > 0
    assert actual["decode_tokens_per_second"] > 0
    assert actual["peak_bytes"] > made_up_model.FILE.stat().st_size


def test_a_chat_that_is_drawn_and_explained() -> None:
    drawn = ("--chat", "--temperature", "0.9", "--top-k", "20", "--top-p", "0.9", "--seed", "3", "--tokens", "4")
    first, again = (run(str(made_up_model.FILE), "hello", *drawn, "--explain") for _ in range(2))
    assert first.exit_code == 0
    assert first.stdout == again.stdout
    assert "linear_quantized" in first.stderr


def test_products_with_the_weights_run_on_a_simulated_npu() -> None:
    """Seven in each of two layers and the last one; the processor finds the row of the token."""
    result = run(str(made_up_model.FILE), "the thing", "--tokens", "3", "--device", "sim:npu2")
    assert result.stdout == load(made_up_model.FILE).generate("the thing", 3) + "\n"
    assert "15 x quantized on sim:npu2" in result.stderr
    assert re.search(r"predicted with the real array, without copies: \d+\.\d tokens/s", result.stderr)


def test_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    step = Generation._step
    calls = []

    def interrupted(self: Generation, *arguments: object) -> nt.Tensor:
        calls.append(arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return step(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Generation, "_step", interrupted)
    result = run(str(made_up_model.FILE), "the thing", "--tokens", "50")
    assert result.exit_code == 130
    assert result.stderr.startswith("interrupted; 6 prompt tokens")
    assert "3 tokens" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("metadata", "arguments", "said"),
    [
        ({"general.architecture": "mamba"}, (), "the architecture is 'mamba'; supported are llama"),
        ({"tokenizer.ggml.model": None}, (), "the file has no tokenizer"),
        ({"tokenizer.chat_template": None}, ("--chat",), "the file has no chat template"),
        ({"llama.context_length": 4}, (), "the prompt has 6 tokens, and the context of 4 must have room for one more"),
        ({}, ("--temperature", "-1"), "temperature must be 0 or more and finite, not -1.0"),
        ({}, ("--device", "npu:7"), "npu:7"),
    ],
)
def test_errors_are_sentences(
    metadata: dict[str, object], arguments: tuple[str, ...], said: str, tmp_path: Path
) -> None:
    result = run(changed(tmp_path / "model.gguf", **metadata), "the thing", *arguments)
    assert result.exit_code in (1, 2)
    assert said in result.stderr
    assert "Traceback" not in result.output
