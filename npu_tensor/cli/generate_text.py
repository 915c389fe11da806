"""Command `npu-tensor generate`: continues a text with a language model."""

from __future__ import annotations

import resource
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

import npu_tensor as nt
from npu_tensor._util.output_files import STDOUT, json_option, put_json
from npu_tensor._util.units import size
from npu_tensor.cli.options import device_option
from npu_tensor.cli.profile import INTERRUPTED
from npu_tensor.models import Decoder, Generation, Sampling, Tokenizer
from npu_tensor.observe.explanation import Explanation
from npu_tensor.runtime.devices.device_uri import parse_uri

ROUNDED = 64
"""Granularity of the KV cache in tokens. Prompts of different length then share their kernels."""


@click.command()
@click.option("--tokens", type=click.IntRange(1), default=128, show_default=True, help="Upper bound on the tokens.")
@click.option("--temperature", type=float, default=0.0, show_default=True, help="0 takes the most likely token.")
@click.option("--top-k", type=int, default=0, show_default=True, help="Number of tokens to draw among; 0: all.")
@click.option("--top-p", type=float, default=1.0, show_default=True, help="Draw among tokens of so much probability.")
@click.option("--repetition-penalty", type=float, default=1.0, show_default=True, help="For tokens that are there.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the draws.")
@click.option("--chat", is_flag=True, help="The prompt is a message of a chat, by the template in the file.")
@json_option("an object with the text and the figures")
@click.option("--explain", is_flag=True, help="Also print where every op of a step runs and why.")
@device_option()
@click.argument("model", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("prompt")
def generate(
    model: Path,
    prompt: str,
    device: str,
    tokens: int,
    chat: bool,
    json_file: Path | None,
    explain: bool,
    **sampling: float,
) -> None:
    """Continue a text with a language model.

    MODEL is a GGUF file of Llama, Qwen2 or Qwen3. Prints the text as it comes; then, to the error output, tokens per
    second, memory and where the kernels of a token run. Exit code 130 if Ctrl-C has ended it.
    """
    with interrupts():
        try:
            choice = Sampling(**sampling)  # type: ignore[arg-type]  # click has converted them
        except nt.ArgumentError as error:
            raise click.UsageError(str(error)) from None
        nt.set_default_device(device)
        file = nt.load_gguf(model)
        tokenizer = Tokenizer(file.metadata)
        text = tokenizer.encode(tokenizer.chat([{"role": "user", "content": prompt}]) if chat else prompt)
        needed = -(-(len(text) + tokens) // ROUNDED) * ROUNDED
        decoder = Decoder.of(file, needed)
        run = Generation(decoder, text, tokens, choice, tokenizer.ends)
        pieces: list[str] = []
        interrupted = False
        try:
            for piece in map(tokenizer.decoded(text), run):
                pieces.append(piece)
                if json_file != STDOUT:
                    click.echo(piece, nl=False)
        except KeyboardInterrupt:
            interrupted = True  # The partial text is shown with its figures.
        figures = _figures(run)
        if not put_json(json_file, {"text": "".join(pieces), "stop_reason": run.stop_reason, **figures}):
            click.echo()
            click.echo(_said(figures, interrupted), err=True)
            if run.stop_reason == "context":
                click.echo(f"stopped before {tokens} tokens: the context of {decoder.context} tokens is full", err=True)
        if explain or not (interrupted or json_file == STDOUT):
            explanation = run.explain()
            if explain:
                click.echo(explanation, err=True)
            click.echo(_places(explanation), err=True)
    if interrupted:
        sys.exit(INTERRUPTED)


@contextmanager
def interrupts() -> Iterator[None]:
    """End the command with the exit code of Ctrl-C if it is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        click.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)


def _figures(run: Generation) -> dict[str, int | float | None]:
    """Return the figures of a run. None stands for what was not measured."""
    return {
        "prompt_tokens": len(run.prompt),
        "tokens": run.count,
        "first_token_seconds": run.prompt_seconds,
        "prompt_tokens_per_second": len(run.prompt) / run.prompt_seconds if run.prompt_seconds else None,
        "decode_tokens_per_second": run.timed / run.seconds if run.timed else None,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,  # Linux counts in KiB
    }


def _said(figures: dict[str, int | float | None], interrupted: bool) -> str:
    def rate(name: str) -> str:
        value = figures[f"{name}_tokens_per_second"]
        return "not measured" if value is None else f"{value:.1f} tokens/s"

    seconds = figures["first_token_seconds"]
    first = "no token yet" if seconds is None else f"{rate('prompt')} with planning; first token after {seconds:.2f} s"
    text = (
        f"{figures['prompt_tokens']} prompt tokens, {first}; {figures['tokens']} tokens, {rate('decode')}; "
        f"peak memory {size(figures['peak_bytes'] or 0)}"
    )
    return f"interrupted; {text}" if interrupted else text


def _places(explanation: Explanation) -> str:
    """Describe the device of each kind of kernel in a step, and the predicted speed of a simulated NPU."""
    counts = Counter((row.device, row.kernel) for row in explanation if row.nbytes is not None)
    kernels = ", ".join(f"{count} x {kernel} on {device}" for (device, kernel), count in counts.most_common())
    line = f"a token takes {kernels}"
    if any(parse_uri(total.device).scheme == "sim" for total in explanation.totals):
        seconds = sum(total.predicted + total.launching + total.switching for total in explanation.totals)
        line += f"; predicted with the real array, without copies: {1 / seconds:.1f} tokens/s"
    return line
