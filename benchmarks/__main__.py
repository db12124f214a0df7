"""``python -m benchmarks [NAME ...]``: measure, print a table, keep the JSON beside this file."""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import tempfile
from pathlib import Path

import benchmarks
from benchmarks.harness import Lab, as_json, as_markdown, run_case

RESULTS = Path(__file__).parent / "results"


def names() -> list[str]:
    """Every module of this folder that is a benchmark."""
    modules = [module.name for module in pkgutil.iter_modules(benchmarks.__path__) if not module.name.startswith("_")]
    return [name for name in modules if hasattr(importlib.import_module(f"benchmarks.{name}"), "cases")]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(names())}; all without one")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--tiny", action="store_true", help="the smallest input: shows that it runs, not how fast")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(names())
    if unknown:
        parser.error(f"no benchmark named {sorted(unknown)[0]}; there are {', '.join(names())}")
    for name in arguments.names or names():
        module = importlib.import_module(f"benchmarks.{name}")
        with tempfile.TemporaryDirectory(prefix=f"lakeshift-bench-{name}-", ignore_cleanup_errors=True) as folder:
            outcomes = []
            for case in module.cases(Lab(Path(folder), tiny=arguments.tiny)):
                print(f"{name}: {case.name} ...", file=sys.stderr, flush=True)
                outcomes.append(run_case(case, repetitions=1 if arguments.tiny else arguments.repetitions))
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{name}.json").write_text(as_json(name, outcomes))
        print(f"\n## {name}\n\n{as_markdown(outcomes)}\n", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
