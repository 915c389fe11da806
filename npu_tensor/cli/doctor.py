"""The command `npu-tensor doctor`: what keeps this machine from using an NPU, and what mends it."""

from __future__ import annotations

import json
from pathlib import Path

import click

from npu_tensor.doctor import CHECKS, Finding, System, diagnose, usable, verdict
from npu_tensor.runtime.libraries import HSA, XRT

__all__ = ["doctor"]

_WIDTH = max(map(len, CHECKS))


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of lines.")
@click.option(
    "--xrt-search-path",
    "xrt_paths",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Look for XRT here before anywhere else: a directory or the library. May be given several times.",
)
@click.option(
    "--libhsa-search-path",
    "--amdgpu_libhsa_search_path",
    "hsa_paths",
    type=click.Path(path_type=Path),
    multiple=True,
    help="Look for the HSA runtime here before anywhere else. May be given several times.",
)
@click.option("--root", type=click.Path(path_type=Path, file_okay=False, exists=True), default="/", hidden=True)
def doctor(as_json: bool, xrt_paths: tuple[Path, ...], hsa_paths: tuple[Path, ...], root: Path) -> None:
    """Check what kernels need to run on an NPU, and say what mends it.

    One line per check: ok, note (worth knowing) or PROBLEM (no NPU can be used before it is mended). Exit code 0 if an
    NPU can be used, else 1.
    """
    system = System(xrt=XRT._replace(search_paths=xrt_paths), hsa=HSA._replace(search_paths=hsa_paths))
    findings = diagnose(root, system)
    if as_json:
        contents = {
            "usable": usable(findings),
            "verdict": verdict(findings),
            "findings": [finding._asdict() for finding in findings],
        }
        click.echo(json.dumps(contents, indent=2))
    else:
        for finding in findings:
            click.echo(_line(finding))
        click.echo(verdict(findings))
    if not usable(findings):
        raise SystemExit(1)


def _line(finding: Finding) -> str:
    status = finding.status.upper() if finding.status == "problem" else finding.status
    advice = "".join(f" {word}: {text}." for word, text in (("Why", finding.why), ("Mend", finding.mend)) if text)
    return f"{status:<8}{finding.check:<{_WIDTH}}  {finding.found}{'.' if advice else ''}{advice}"
