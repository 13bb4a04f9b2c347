"""Packages of somebody else, laid out as an installer would, and the command in a process where they are installed."""

import os
import subprocess
import sys
from pathlib import Path


def install(folder: Path, module: str, code: str, group: str, entry_point: str = "anything") -> Path:
    """Lay a package with one module out in ``folder``, which goes on ``PYTHONPATH``."""
    folder.mkdir(exist_ok=True)
    (folder / f"{module}.py").write_text(code, encoding="utf-8")
    information = folder / f"{module}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module.replace('_', '-')}\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[{group}]\n{entry_point} = {module}\n")
    return folder


def lacuner(
    *arguments: object, packages: Path | None = None, given: str | None = None
) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, where ``packages`` are installed."""
    ours = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": "" if packages is None else str(packages)}
    command = [sys.executable, "-m", "lacuner", *map(str, arguments)]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=False, env=os.environ | ours)
