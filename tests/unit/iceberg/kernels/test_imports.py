"""Kernels load where the driver's packages are missing, as on executors that were given only what they need."""

from __future__ import annotations

import pkgutil
import subprocess
import sys

from lakeshift.iceberg import kernels

DRIVER_ONLY = ("datafusion", "pandas", "pyspark", "sqlalchemy", "sqlglot", "click", "rich")

PROGRAM = """
import importlib, sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"{{name}} is not here")

sys.meta_path.insert(0, Missing())
for name in {names!r}:
    importlib.import_module("lakeshift.iceberg.kernels." + name)
    print(name)
"""


def test_kernels_load_without_the_drivers_packages() -> None:
    names = [module.name for module in pkgutil.iter_modules(kernels.__path__)]
    program = PROGRAM.format(missing=DRIVER_ONLY, names=names)
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert loaded.returncode == 0, loaded.stderr
    assert loaded.stdout.split() == names
    assert {"read", "write", "spark_rows"} <= set(names)
