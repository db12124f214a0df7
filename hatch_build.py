"""Puts the Hudi connector's jar into the wheel, if `make wheel` has built it; without it, says so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ConnectorJarHook(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        jars = sorted(Path(self.root, "build", "wheel").glob("*.jar"))
        for jar in jars:
            build_data["force_include"][str(jar)] = f"lakeshift/hudi/{jar.name}"
        if not jars:
            self.app.display_warning(
                "This wheel has no Hudi connector jar; it builds one at first use, where Java and pyspark are. "
                "`make wheel` builds it in."
            )
