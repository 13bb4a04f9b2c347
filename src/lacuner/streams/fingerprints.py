"""Digests that tell whether two runs use the same model, dictionary and files."""

import hashlib
from pathlib import Path

from lacuner.corpus.files import open_seekable


def digest_of(path: str | Path | None) -> str | None:
    """Digest of a file, or of all files in a folder with their names; ``None`` for ``None``."""
    if path is None:
        return None
    total = hashlib.sha256()
    folder = Path(path)
    files = sorted(file for file in folder.rglob("*") if file.is_file()) if folder.is_dir() else [folder]
    for file in files:
        name = file.relative_to(folder).as_posix() if folder.is_dir() else ""
        content = hashlib.sha256()
        with open_seekable(file) as opened:
            while block := opened.read(1 << 20):
                content.update(block)
        total.update(f"{name}\0{content.hexdigest()}\n".encode())
    return total.hexdigest()
