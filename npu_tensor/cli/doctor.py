"""The command `npu-tensor doctor`: what keeps this machine from using an NPU, and how to fix it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from npu_tensor._util.output_files import json_option, put_json
from npu_tensor.cli.options import search_path_options

if TYPE_CHECKING:
    from npu_tensor.tools.doctor import Finding

__all__ = ["doctor"]


@click.command()
@json_option("an object with the findings")
@search_path_options
@click.option("--root", type=click.Path(path_type=Path, file_okay=False, exists=True), default="/", hidden=True)
def doctor(json_file: Path | None, root: Path) -> None:
    """Check what an NPU needs here.

    Every check is ok, a note (worth knowing) or a PROBLEM (no NPU can be used before it is fixed); why that matters
    and how to fix it stand below. Exit code 0 if an NPU can be used, else 1.
    """
    from npu_tensor.tools.doctor import CHECKS, diagnose, usable, verdict

    findings = diagnose(root)
    content = {
        "usable": usable(findings),
        "verdict": verdict(findings),
        "findings": [finding._asdict() for finding in findings],
    }
    if not put_json(json_file, content):
        for finding in findings:
            click.echo(_described(finding, max(map(len, CHECKS))))
        click.echo(verdict(findings))
    if not usable(findings):
        raise SystemExit(1)


def _described(finding: Finding, width: int) -> str:
    status = finding.status.upper() if finding.status == "problem" else finding.status
    lines = [f"{status:<8}{finding.check:<{width}}  {finding.found}"]
    lines += [f"{'':8}{word}: {text}" for word, text in (("why", finding.why), ("fix", finding.fix)) if text]
    return "\n".join(lines)
