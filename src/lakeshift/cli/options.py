"""The options that commands share: which lake, text or JSON, and how much to tell when it fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from lakeshift.lake import Lake

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass
class Settings:
    """What holds for the whole run of one command."""

    json: bool = False
    debug: bool = False


settings = Settings()


def output_options(command: Command) -> Command:
    """``--json`` and ``--debug``."""
    for name, help_text in (
        ("json", "Print JSON for machines instead of text."),
        ("debug", "Show where an error came from, and Spark's own log."),
    ):
        command = click.option(
            f"--{name}", is_flag=True, expose_value=False, is_eager=True, callback=_remember, help=help_text
        )(command)
    return command


def lake_options(command: Command) -> Command:
    """``--catalog``, ``--warehouse``, ``--property``, and the output options; the command takes ``lake``."""
    for option in (
        click.option(
            "--property",
            "properties",
            multiple=True,
            metavar="KEY=VALUE",
            help="A property of the catalog (repeatable), such as uri=...; prefer .pyiceberg.yaml for credentials.",
        ),
        click.option(
            "--warehouse",
            envvar="LAKESHIFT_WAREHOUSE",
            default="./lakehouse",
            show_default=True,
            help="The folder of the embedded catalog.",
        ),
        click.option(
            "--catalog", envvar="LAKESHIFT_CATALOG", default="local", show_default=True, help="The catalog's name."
        ),
    ):
        command = option(command)
    return output_options(command)


def open_lake(catalog: str, warehouse: str, properties: tuple[str, ...], *, to_read: bool = False) -> Lake:
    """The lake that the lake options name. Starts no Spark. One that is only read opens faster."""
    from lakeshift.catalogs import catalog_properties, load_catalog, load_catalog_to_read
    from lakeshift.lake import Lake

    given = dict(_split(text) for text in properties) or None
    load = load_catalog_to_read if to_read else load_catalog
    return Lake(catalog, catalog_properties(catalog, warehouse, given), load=load)


def _split(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE.", param_hint="--property")
    return key, value


def _remember(_: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value and parameter.name:
        setattr(settings, parameter.name, True)
