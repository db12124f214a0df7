"""The connector's jar: found in the installed package, or built once from its Scala sources.

The sources lie in ``jvm/hudi`` of a checkout and travel in the wheel. They are compiled with the Scala compiler
that pyspark ships, against the Hudi bundle that Spark's own package resolution brings: a Java runtime and pyspark
are all it takes. No SparkSession is started here.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lakeshift.errors import StackError
from lakeshift.stack import Capability, Stack, installed_stack, require_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXTENSION = "org.apache.spark.sql.lakeshift.hudi.HudiReadExtension"
PROPERTIES = "lakeshift-hudi.properties"

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = _PACKAGE.parents[2]
_CHECKOUT_SOURCES = _CHECKOUT / "jvm" / "hudi"
_PACKAGED_SOURCES = _PACKAGE / "jvm"


@dataclass(frozen=True)
class Build:
    """What a jar is built from: the sources, and the lines they are compiled against."""

    sources: tuple[Path, ...]
    spark_line: str
    scala: str
    hudi: str

    @property
    def key(self) -> str:
        """A hash of everything that goes into the jar; another key means another jar."""
        digest = hashlib.sha256(f"{self.spark_line}\n{self.scala}\n{self.hudi}\n".encode())
        for source in self.sources:
            digest.update(f"{source.name}\n".encode() + source.read_bytes())
        return digest.hexdigest()[:16]

    @property
    def jar_name(self) -> str:
        return f"lakeshift-hudi-spark{self.spark_line}_{self.scala}.jar"


def session_settings(stack: Stack, conf: Mapping[str, str]) -> dict[str, str]:
    """The setting that puts the connector on a session's class path, beside the jars that ``conf`` names."""
    return {"spark.jars": ",".join(filter(None, [conf.get("spark.jars", ""), str(find_jar(stack))]))}


def check_connector(spark: SparkSession) -> None:
    """Raise a StackError unless this session carries a connector that fits its Spark and its Hudi."""
    # A py4j name that is no class becomes a package, and a package has no mismatch() to call.
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    remedy = "Start the session with lakeshift, or with the settings that `lakeshift hudi settings` prints."
    if type(jvm.org.apache.hudi.HoodieVersion).__name__ != "JavaClass":
        raise StackError(f"This Spark session has no Hudi bundle on its class path. {remedy}")
    if type(jvm.io.lakeshift.hudi.BuiltFor).__name__ != "JavaClass":
        raise StackError(f"This Spark session has no lakeshift connector for Hudi on its class path. {remedy}")
    mismatch = jvm.io.lakeshift.hudi.BuiltFor.mismatch(spark.version, jvm.org.apache.hudi.HoodieVersion.get())
    if mismatch:
        raise StackError(f"lakeshift's Hudi connector does not fit this session: {mismatch}. {remedy}")
    if EXTENSION not in str(spark.conf.get("spark.sql.extensions", "") or "").split(","):
        raise StackError(f"{EXTENSION} is not among the session's spark.sql.extensions. {remedy}")


def find_jar(stack: Stack, *, cache: Path | None = None) -> Path:
    """The jar for this stack: the package's own if it was built from these sources, else built now and kept.

    ``cache`` is where built jars are kept: by default ``build`` in a checkout, the user's cache folder otherwise.
    """
    build = wanted_build(stack)
    packaged = _PACKAGE / build.jar_name
    if packaged.is_file() and (not build.sources or built_key(packaged) == build.key):
        return packaged
    if not build.sources:
        raise StackError(
            "This installation of lakeshift has neither the Hudi connector's jar nor its sources. "
            "Install lakeshift from a wheel that `make wheel` built."
        )
    kept = (cache or _default_cache()) / build.key / build.jar_name
    if not kept.is_file():
        build_jar(stack, build, kept)
    return kept


def wanted_build(stack: Stack) -> Build:
    """The build that fits the stack and the sources at hand."""
    stack.require(Capability.HUDI_DSV2_READS)
    assert stack.hudi is not None
    folder = _CHECKOUT_SOURCES if _CHECKOUT_SOURCES.is_dir() else _PACKAGED_SOURCES
    return Build(tuple(sorted(folder.glob("*.scala"))), stack.line, stack.scala, stack.hudi.rpartition(":")[2])


def built_key(jar: Path) -> str | None:
    """The key under which a jar was built, as the jar itself tells."""
    with zipfile.ZipFile(jar) as archive:
        if PROPERTIES not in archive.namelist():
            return None
        lines = archive.read(PROPERTIES).decode().splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line).get("key")


def build_jar(stack: Stack, build: Build, target: Path) -> None:
    """Compile the sources into ``target``; needs Java and pyspark, and takes some ten seconds."""
    java = require_java(stack)
    assert stack.hudi is not None
    jars = _spark_home() / "jars"
    # One JVM resolves the bundle, as a session of this user would, and then runs the compiler. Spark copies
    # what it resolved into <ivy>/jars, named <group>_<artifact>-<version>.jar.
    ivy = Path.home() / ".ivy2"
    group, artifact, version = stack.hudi.split(":")
    bundle = ivy / "jars" / f"{group}_{artifact}-{version}.jar"
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        jar = Path(scratch, build.jar_name)
        # A JVM that runs the compiler once: its own second compiler takes longer than what it would save.
        command = [str(java.path), "-XX:+IgnoreUnrecognizedVMOptions", "-XX:TieredStopAtLevel=1"]
        command += ["-cp", str(jars / "*"), "org.apache.spark.deploy.SparkSubmit"]
        command += ["--master", "local", "--packages", stack.hudi, "--conf", f"spark.jars.ivy={ivy}"]
        command += ["--class", "scala.tools.nsc.Main", _compiler(jars).as_uri()]
        command += ["-classpath", os.pathsep.join([str(jars / "*"), str(bundle)]), "-deprecation", "-d", str(jar)]
        done = subprocess.run([*command, *map(str, build.sources)], capture_output=True, text=True, check=False)
        if done.returncode != 0 or not jar.is_file():
            said = (done.stdout + done.stderr)[-4000:]
            raise StackError(
                f"The Hudi connector could not be built with {java.path} and {jars}:\n{said}\n"
                f"If {stack.hudi} was not found, check that this machine reaches a Maven repository."
            )
        spark = metadata.version("pyspark") if util.find_spec("pyspark") else build.spark_line
        facts = {"spark": spark, "scala": build.scala, "hudi": build.hudi, "key": build.key}
        with zipfile.ZipFile(jar, "a") as archive:
            archive.writestr(PROPERTIES, "".join(f"{name}={value}\n" for name, value in facts.items()))
        # Another process may have built the same jar meanwhile; the two are equal, and a rename is atomic.
        jar.replace(target)


def _default_cache() -> Path:
    if _CHECKOUT_SOURCES.is_dir():
        return _CHECKOUT / "build" / "hudi"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "lakeshift", "hudi")


def _spark_home() -> Path:
    """Where Spark's jars are: the pyspark package brings them, or SPARK_HOME does on a cluster."""
    spec = util.find_spec("pyspark")
    candidates = [Path(spec.origin).parent] if spec and spec.origin else []
    if "SPARK_HOME" in os.environ:
        candidates.append(Path(os.environ["SPARK_HOME"]))
    for home in candidates:
        if (home / "jars").is_dir():
            return home
    raise StackError(
        f"Spark's jars were not found in {[str(home) for home in candidates]}, and the Hudi connector is built with "
        "them. Install pyspark (pip install 'lakeshift[spark35]') or set SPARK_HOME."
    )


def _compiler(jars: Path) -> Path:
    found = sorted(jars.glob("scala-compiler-*.jar"))
    if not found:
        raise StackError(f"{jars} holds no scala-compiler jar. Install pyspark (pip install 'lakeshift[spark35]').")
    return found[0]


def main(target: Path) -> None:
    """Put the jar into ``target`` for the wheel; without Java say so, since the wheel is useful without it."""
    shutil.rmtree(target, ignore_errors=True)
    try:
        jar = find_jar(installed_stack())
    except StackError as error:
        click.echo(
            f"The wheel gets no Hudi connector jar: {error}\n"
            "It still carries the connector's sources, and builds the jar at first use where Java and pyspark are.",
            err=True,
        )
        return
    target.mkdir(parents=True)
    shutil.copy2(jar, target)
    click.echo(f"The wheel gets {jar.name}.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
