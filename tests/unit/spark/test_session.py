"""The settings of a session, before any is started."""

from __future__ import annotations

from fnmatch import fnmatch

import pytest

from lakeshift.spark.session import session_conf
from lakeshift.stack import STACKS, Stack

ASKED_FOR = ["org.apache.hadoop:hadoop-aws:3.4.2", "org.apache.parquet:parquet-avro:1.16.0"]


@pytest.mark.parametrize("stack", STACKS.values(), ids=STACKS)
def test_what_is_left_out_is_never_what_was_asked_for(stack: Stack) -> None:
    settings = session_conf(stack, ("delta",), packages=ASKED_FOR)
    packages, excluded = settings["spark.jars.packages"].split(","), settings["spark.jars.excludes"].split(",")
    assert packages == [stack.delta, *ASKED_FOR]
    for package in packages:
        module = package.rpartition(":")[0]
        assert not [pattern for pattern in excluded if fnmatch(module, pattern)], package
    assert [pattern for pattern in excluded if fnmatch("org.apache.hadoop:hadoop-client-runtime", pattern)]


def test_a_session_without_packages_leaves_nothing_out() -> None:
    assert "spark.jars.excludes" not in session_conf(STACKS["4.1"], ("iceberg",))
