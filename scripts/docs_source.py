"""Mirror the repository's texts and pictures into build/docs-source, from which `make docs` builds the site."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "build" / "docs-source"
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "docs", "results", "examples")


def main() -> None:
    """Copy what git tracks or would: a site shows no run folders or caches."""
    shutil.rmtree(SOURCE, ignore_errors=True)
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *PAGES]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    for name in listed:
        if (ROOT / name).is_file():
            (SOURCE / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, SOURCE / name)
    print(f"{len(listed)} files in {SOURCE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
