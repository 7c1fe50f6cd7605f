"""The versions that made a result."""

import re
import subprocess
import sys

import numpy as np

from hindsight_rl.records.versions import versions


def test_versions_name_what_decides_the_numbers() -> None:
    found = versions()
    packages = ["hindsight-rl", "jax", "jaxlib", "numpy", "equinox", "optax"]
    assert list(found) == ["python", *packages, "platform", "machine", "cpu_count", "code"]
    assert re.fullmatch("[0-9a-f]{12}", found["code"])
    assert found["numpy"] == np.__version__
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert int(found["cpu_count"]) >= 1


def test_versions_import_nothing_heavy() -> None:
    program = (
        "import sys, hindsight_rl.records.versions as v; v.versions(); print(*{'jax', 'numpy'} & set(sys.modules))"
    )
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert output.strip() == ""
