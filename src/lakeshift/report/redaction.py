"""What a report must not show: values of properties that look like credentials.

A report is a file that people mail around, so that in doubt a value stays out. The property's name is shown, so that
nobody wonders where it went.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

HIDDEN = "(not shown)"

_SECRET_NAME = re.compile(
    r"passw|pwd|secret|token|credential|bearer|signature|private|"
    r"(access|account|api|encryption|sas|shared|storage)[-_. ]?key|"
    r"(^|[-_. ])(auth|authorization|sas|session)([-_. ]|$)",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"(AKIA|ASIA)[0-9A-Z]{16}"  # an AWS access key
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\."  # a JSON web token
    r"|-----BEGIN"
    r"|[?&](sig|signature|token|X-Amz-Signature|password)=",
    re.IGNORECASE,
)
# The password part of an address: scheme://user:password@host
_USER_INFO = re.compile(r"(?<=://)[^/@\s]*:[^/@\s]*@")


def shown_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties in the order of their names, with the values that a report may show."""
    return {name: shown_value(name, str(value)) for name, value in sorted(properties.items())}


def shown_value(name: str, value: str) -> str:
    """A property's value, or a note that it is not shown."""
    if _SECRET_NAME.search(name) or _SECRET_VALUE.search(value):
        return HIDDEN
    return shown_address(value)


def shown_address(text: str) -> str:
    """Text without the user and password that an address in it may have."""
    return _USER_INFO.sub("", text)
