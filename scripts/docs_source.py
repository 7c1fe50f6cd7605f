"""Mirror the repository's texts and pictures into build/docs-source, from which `make docs` builds the site."""

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "build" / "docs-source"
TEXTS = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "CITATION.cff", "LICENSE")
PAGES = (*TEXTS, "docs", "results", "examples")
LEFT_OUT = {"settings.json", "summary.json", "versions.json", "evaluations.csv"}
"""No page links to them, and a copy with them would be one more run folder for `hindsight runs`."""


def main() -> None:
    """Copy what git tracks or would: a site shows no run folders or caches."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *PAGES]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    for name in listed:
        if (ROOT / name).is_file() and Path(name).name not in LEFT_OUT:
            (SOURCE / name).parent.mkdir(parents=True, exist_ok=True)
            copy(ROOT / name, SOURCE / name)
    print(f"{sum(path.is_file() for path in SOURCE.rglob('*'))} files in {SOURCE.relative_to(ROOT)}")


def copy(source: Path, target: Path) -> None:
    """A file as it is; of a notebook also a page of its name, to which other pages' links then lead."""
    shutil.copy(source, target)
    if source.suffix == ".ipynb":
        target.with_suffix(".md").write_text(page_of_notebook(source, target.parent))
    elif source.suffix == ".md":
        target.write_text(links_to_pages(source.read_text()))


def links_to_pages(text: str) -> str:
    """Links to notebooks lead to their pages on the site."""
    return re.sub(r"(\]\([^)\s]*)\.ipynb\)", r"\1.md)", text)


def page_of_notebook(path: Path, folder: Path) -> str:
    """Texts, code and what the code showed; pictures become files in the folder."""
    parts = []
    for number, cell in enumerate(json.loads(path.read_text())["cells"]):
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(links_to_pages(text))
            continue
        parts.append(f"```python\n{text}\n```")
        for output in cell["outputs"]:
            parts += shown(output, folder / f"{path.stem}-{number}.png")
    first, *others = parts
    return "\n\n".join([first, f'<a href="{path.name}" download>This page as a notebook</a>', *others]) + "\n"


def shown(output: dict[str, Any], picture: Path) -> list[str]:
    """A picture, or else text."""
    data = output.get("data", {})
    if "image/png" in data:
        picture.write_bytes(base64.b64decode("".join(data["image/png"])))
        return [f"![What the code above draws]({picture.name})"]
    text = "".join(output.get("text", data.get("text/plain", "")))
    return [f"```text\n{text.rstrip()}\n```"] if text else []


if __name__ == "__main__":
    main()
