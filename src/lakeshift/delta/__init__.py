"""Delta tables: appends whose schema changes only as far as the caller allowed.

Nothing here imports Spark at import time; ``diff_schemas`` and the policy work without it.
"""

from lakeshift.delta.policy import EvolutionPolicy, WritePlan
from lakeshift.delta.schema_diff import (
    Identical,
    Incompatible,
    Mixed,
    NewColumns,
    SchemaDiff,
    TypeWidening,
    diff_schemas,
    is_safe_widening,
)
from lakeshift.delta.sink import DeltaSink, DeltaWriteResult

__all__ = [
    "DeltaSink",
    "DeltaWriteResult",
    "EvolutionPolicy",
    "Identical",
    "Incompatible",
    "Mixed",
    "NewColumns",
    "SchemaDiff",
    "TypeWidening",
    "WritePlan",
    "diff_schemas",
    "is_safe_widening",
]
