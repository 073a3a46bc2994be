# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""YAML that remembers where each field stands, so that an error can name file, line and field.

Topologies and policies are both read with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from topologies.errors import UsageError

FieldPath = tuple[str | int, ...]

# Far above what a topology or a policy needs, far below what keeps a reader busy for seconds.
MAX_CHARACTERS: Final = 1 << 20
MAX_DEPTH: Final = 32
MAX_VALUES: Final = 100_000  # an alias counts as all that it stands for
MAX_NUMBER_CHARACTERS: Final = 64


def read_text(path: Path, what: str) -> str:
    """Read a YAML file (`what`: the policy, ...) no further than a YamlSource takes it; raises UsageError."""
    try:
        with path.open(encoding="utf-8") as file:
            return file.read(MAX_CHARACTERS + 1)
    except UnicodeDecodeError:
        raise UsageError(f"cannot read {what}: it is not UTF-8 text", file=path) from None
    except OSError as error:
        raise UsageError(f"cannot read {what}: {error.strerror}", file=path) from None


def misplaced(message: str, *path: str | int) -> PydanticCustomError:
    """Return what a validator of a whole raises where one field in it is at fault, at `path` from there."""
    return PydanticCustomError("misplaced", "{message}", {"message": message, "path": path})


class YamlSource:
    """The values of a YAML mapping and the line of every field in it.

    Raises UsageError for text that is not YAML, names a field twice, is not a mapping, or is beyond the limits above.
    """

    def __init__(self, text: str, file: str | Path) -> None:
        self.file = file
        self._lines: dict[FieldPath, int] = {(): 1}
        self._noted: set[int] = set()
        if len(text) > MAX_CHARACTERS:
            raise UsageError(f"too much: more than {MAX_CHARACTERS} characters", file=file)
        try:
            loader = _Loader(text)
            root = loader.get_single_node()
            if root is not None:
                _count_values(root, {})
                self._note(root, ())
            values = None if root is None else loader.construct_document(root)  # type: ignore[no-untyped-call]
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            kind = "too much" if isinstance(error, _BeyondLimitError) else "not valid YAML"
            raise UsageError(
                f"{kind}: {error.problem or error.context}",
                file=file,
                line=None if mark is None else mark.line + 1,
            ) from None
        except (yaml.YAMLError, RecursionError, ValueError, LookupError, AttributeError) as error:
            # PyYAML's constructors let through what int(), a look-up or a pattern says of `!!bool maybe` and its kind
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise UsageError(f"not valid YAML: {reason}", file=file) from None
        if not isinstance(values, dict):
            raise UsageError("must be a mapping of fields to values", file=file, line=1)
        self.values: dict[str, Any] = values

    def line(self, path: FieldPath) -> int:
        """Return the line of the field at `path`, or of the nearest field around it; a key 3 and a key "3" are one."""
        lines = {tuple(map(str, known)): line for known, line in self._lines.items()}
        wanted = tuple(map(str, path))
        while wanted not in lines:
            wanted = wanted[:-1]
        return lines[wanted]

    def line_of_field(self, field: str | None) -> int:
        """Return the line of a field by its name as errors write it (`links[0].between`)."""
        fields = {field_name(path): line for path, line in self._lines.items()}
        while field and field not in fields:
            field = field[: max(field.rfind("."), field.rfind("["), 0)]
        return fields.get(field or "", 1)

    def error(self, message: str, path: FieldPath) -> UsageError:
        """Return the error that says `message` of the field at `path`."""
        return UsageError(message, file=self.file, line=self.line(path), field=field_name(path) or None)

    def first_error(self, error: ValidationError, prefix: FieldPath = ()) -> UsageError:
        """Return the topmost complaint of pydantic as an error with file, line and field.

        `prefix` is where the validated value stands, if it is not the whole file.
        """
        complaints = [
            ((*prefix, *(part for part in _place(detail) if part != "[key]")), _complaint(detail))
            for detail in error.errors(include_url=False)
        ]
        path, message = min(complaints, key=lambda complaint: self.line(complaint[0]))
        more = f" (and {len(complaints) - 1} more)" if len(complaints) > 1 else ""
        return self.error(message + more, path)

    def _note(self, node: yaml.Node, path: FieldPath) -> None:
        if id(node) in self._noted:  # an alias: its fields stand where the anchor is
            return
        self._noted.add(id(node))
        if isinstance(node, yaml.MappingNode):
            first: dict[str, int] = {}
            for key, value in node.value:
                name = _key(key)
                inner = (*path, name)
                line = key.start_mark.line + 1
                if str(name) in first:  # as text, since to a reader of names a key 3 and a key "3" are one
                    raise UsageError(
                        f"given twice, first in line {first[str(name)]}",
                        file=self.file,
                        line=line,
                        field=field_name(inner),
                    )
                first[str(name)] = self._lines[inner] = line
                self._note(value, inner)
        elif isinstance(node, yaml.SequenceNode):
            for number, value in enumerate(node.value):
                inner = (*path, number)
                self._lines[inner] = value.start_mark.line + 1
                self._note(value, inner)


class _BeyondLimitError(yaml.MarkedYAMLError):
    """A text that one of the limits forbids."""

    def __init__(self, problem: str, mark: yaml.Mark) -> None:
        super().__init__(problem=problem, problem_mark=mark)


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with bounds, held while it reads: a text beyond them is not read to its end."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Read one value and all that is in it."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _BeyondLimitError(f"nested deeper than {MAX_DEPTH} levels", self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def compose_scalar_node(self, anchor: Any) -> yaml.ScalarNode:
        """Read one value that is no list and no mapping."""
        node = super().compose_scalar_node(anchor)
        is_number = node.tag in ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
        if is_number and len(node.value) > MAX_NUMBER_CHARACTERS:
            raise _BeyondLimitError(f"a number of more than {MAX_NUMBER_CHARACTERS} characters", node.start_mark)
        return node


def _count_values(node: yaml.Node, known: dict[int, int]) -> int:
    """Count the values that a node stands for with every alias written out; raise _BeyondLimitError for too many."""
    if id(node) in known:
        if not known[id(node)]:
            raise _BeyondLimitError("an alias of what it stands in", node.start_mark)
        return known[id(node)]
    known[id(node)] = 0  # not finished
    inner: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        inner = [one for pair in node.value for one in pair]
    elif isinstance(node, yaml.SequenceNode):
        inner = node.value
    count = 1 + sum(_count_values(one, known) for one in inner)
    if count > MAX_VALUES:
        raise _BeyondLimitError(f"more than {MAX_VALUES} values, aliases written out", node.start_mark)
    known[id(node)] = count
    return count


def field_name(path: Sequence[str | int]) -> str:
    """Write a path as people read it: `links[0].between`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            name = part if part.isprintable() else repr(part)  # an error is one line
            text += f".{name}" if text else name
    return text


_INTEGERS = yaml.constructor.SafeConstructor()


def _key(node: yaml.Node) -> str | int:
    if isinstance(node, yaml.ScalarNode):
        is_int = node.tag == "tag:yaml.org,2002:int"  # 3, 0x3, 0b11
        return int(_INTEGERS.construct_yaml_int(node)) if is_int else str(node.value)
    return "?"


def _place(detail: Any) -> FieldPath:
    """Return where the field at fault stands, which a validator of a whole may have told."""
    told: FieldPath = detail["ctx"]["path"] if detail["type"] == "misplaced" else ()
    return (*detail["loc"], *told)


def _complaint(detail: Any) -> str:
    """Say one of pydantic's complaints in the words of the file."""
    match detail["type"]:
        case "missing":
            return "missing"
        case "extra_forbidden":
            return "there is no such field"
        case "misplaced":
            return str(detail["msg"])
        case "value_error":
            return str(detail["ctx"]["error"])
        case "literal_error":
            return f"{detail['input']!r} is not {detail['ctx']['expected']}"
        case "string_pattern_mismatch":
            return f"{detail['input']!r} does not match {detail['ctx']['pattern']}"
        case _:
            message = str(detail["msg"])
            value = detail["input"]
            shown = f", not {value!r}" if isinstance(value, str | int | float | None) else ""
            return message[0].lower() + message[1:] + shown
