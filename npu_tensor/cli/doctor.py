"""Command `npu-tensor doctor`: diagnoses problems that keep this machine from using an NPU."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from npu_tensor._util.output_files import json_option, put_json
from npu_tensor.cli.options import search_path_options
from npu_tensor.observe.drawing.text import beside

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
    and how to fix it stand below. Problems that may follow from another one stand below it; --json has their fixes.
    Exit code 0 if an NPU can be used, else 1.
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
            if not finding.follows:
                followers = [other for other in findings if other.follows == finding.check]
                click.echo(_described(finding, followers, len("problem ") + max(map(len, CHECKS)) + 2))
        click.echo(verdict(findings))
    if not usable(findings):
        raise SystemExit(1)


def _described(finding: Finding, followers: Sequence[Finding], indent: int) -> str:
    status = finding.status.upper() if finding.status == "problem" else finding.status
    lines = beside(f"{status:<8}{finding.check}", finding.found, indent)
    if finding.why:
        lines += beside("        why:", finding.why, 14)
    if finding.fix:
        lines.append(f"        fix:  {finding.fix}")  # One line, so that a command can be copied.
    if followers:
        lines.append("        to fix after it, if they remain:")
    for follower in followers:
        lines += beside(f"          {follower.check}", follower.found, indent)
    return "\n".join(lines)
