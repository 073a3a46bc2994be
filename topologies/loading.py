# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Load a topology by name or from a YAML file; a mistake is a UsageError with file, line and field."""

from __future__ import annotations

import difflib
from pathlib import Path

from pydantic import ValidationError

from topologies import builders, schema
from topologies.errors import UsageError
from topologies.model import Fabric
from topologies.yaml_source import YamlSource, read_text

NAMED = Path(__file__).parent


def names() -> list[str]:
    """Return the names of the topologies that come with Gradlane."""
    return sorted(path.stem for path in NAMED.glob("*.yaml"))


def load(name_or_path: str | Path) -> Fabric:
    """Load the fabric of that name (`leaf_spine`), or from the YAML file at that path.

    Raises UsageError: unknown name, unreadable file, malformed YAML, or a field that is wrong.
    """
    path = _find(name_or_path)
    return loads(read_text(path, "the topology"), path)


def loads(text: str, file: str | Path) -> Fabric:
    """Read a fabric from YAML text; `file` names it in errors, and its stem names the fabric without a `name`."""
    source = YamlSource(text, file)
    kind = source.values.get("kind")
    if kind is None:
        raise UsageError(f"missing; it is one of {', '.join(schema.KINDS)}", file=file, line=1, field="kind")
    if not isinstance(kind, str) or kind not in schema.KINDS:
        raise source.error(f"there is no kind {kind!r}; it is one of {', '.join(schema.KINDS)}", ("kind",))
    try:
        topology = schema.KINDS[kind].model_validate(source.values)
        return builders.build(topology, name=Path(file).stem)
    except ValidationError as error:
        raise source.first_error(error) from None
    except UsageError as error:
        raise UsageError(error.message, file=file, line=source.line_of_field(error.field), field=error.field) from None


def _find(name_or_path: str | Path) -> Path:
    path = Path(name_or_path)
    if path.suffix in {".yaml", ".yml"} or len(path.parts) > 1:
        if path.exists():
            return path
        raise UsageError(f"there is no topology file {str(path)!r}")
    if str(name_or_path) in names():
        return NAMED / f"{name_or_path}.yaml"
    close = difflib.get_close_matches(str(name_or_path), names(), n=1)
    raise UsageError(
        f"unknown topology {str(name_or_path)!r}; "
        + (f"did you mean {close[0]!r}? " if close else "")
        + f"the named ones are {', '.join(names())}, or give the path of a YAML file"
    )
