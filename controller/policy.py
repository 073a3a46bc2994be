# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The policy: what a fabric should do with gradients, as a schema over one YAML file (docs/policy.md)."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    PrivateAttr,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from controller.quantities import (
    CLASSES,
    RANKS,
    RANKS_PER_BAND,
    BandsField,
    ClassesField,
    Depth,
    DepthField,
    ImportanceField,
    LayersField,
    format_range,
    parse_depth,
)
from topologies.errors import UsageError
from topologies.units import parse_rate
from topologies.yaml_source import YamlSource, field_name, misplaced, read_text

POLICY_FOLDER = Path(__file__).parent / "policies"
ANY_JOB = "any"
LAST_LAYER = 0xFFFF

Class = Annotated[int, Field(ge=0, le=CLASSES - 1, strict=True)]  # or `true` would be class 1
Action = Literal["keep", "mark", "mark_or_drop", "trim", "drop"]
PathMode = Literal["flow_hash", "random_member", "round_robin", "shallower_of_two"]
FaultAction = Literal["forward", "drop"]
PuntAction = Literal["send", "copy", "drop"]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class FrontFirst(_Model):
    """Class by layer * k / layers: the first layers get the highest of the k data classes."""

    layers: Annotated[int, Field(ge=1, le=LAST_LAYER, strict=True)]
    classes: ClassesField | None = None


class LayerRange(_Model):
    """One class for a range of layers."""

    layers: LayersField
    class_: Class = Field(alias="class")


class Job(_Model):
    """How one training job's data packets are classified: `class`, `front_first` or `ranges`, exactly one of them."""

    id: Annotated[int, Field(ge=0, le=0xFFFF, strict=True)] | None = None
    class_: Class | None = Field(default=None, alias="class")
    front_first: FrontFirst | None = None
    ranges: tuple[LayerRange, ...] | None = None

    @model_validator(mode="after")
    def _one_rule(self) -> Job:
        given = [rule for rule in (self.class_, self.front_first, self.ranges) if rule is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of class, front_first and ranges")
        ordered = sorted(rule.layers for rule in self.ranges or ())
        for before, after in pairwise(ordered):
            if after[0] <= before[1]:
                raise ValueError(f"layers {format_range(before)} and {format_range(after)} overlap")
        return self

    def layer_classes(self, data_classes: tuple[int, ...]) -> tuple[tuple[int, int, int], ...]:
        """Return (first layer, last layer, class), ascending; layers that no rule names are absent."""
        if self.class_ is not None:
            return ((0, LAST_LAYER, self.class_),)
        if self.front_first is not None:
            layers, classes = self.front_first.layers, (self.front_first.classes or data_classes)[::-1]
            firsts = [-(-index * layers // len(classes)) for index in range(len(classes))]
            lasts = [first - 1 for first in firsts[1:]] + [LAST_LAYER]
            rules = [rule for rule in zip(firsts, lasts, classes, strict=True) if rule[0] <= min(rule[1], layers - 1)]
            return (*rules[:-1], (rules[-1][0], LAST_LAYER, rules[-1][2]))
        return tuple(sorted((*rule.layers, rule.class_) for rule in self.ranges or ()))


def _dscp(value: Any) -> int:
    text = str(value).strip().upper()
    if text.isdecimal() and int(text) < 64:
        return int(text)
    if text == "EF":
        return 46
    if len(text) == 3 and text.startswith("CS") and text[2] in "01234567":
        return int(text[2]) * 8
    if len(text) == 4 and text.startswith("AF") and text[2] in "1234" and text[3] in "123":
        return int(text[2]) * 8 + int(text[3]) * 2
    raise ValueError(f"{value!r} is no DSCP; write 0-63, CS0-CS7, AF11-AF43 or EF")


class Classes(_Model):
    """Which class carries what. Class 7 is served first."""

    control: Class = 7
    trimmed: Class = 7
    data: ClassesField = (1, 2, 3, 4, 5, 6)
    ordinary: Class = 0
    dscp: dict[Annotated[int, BeforeValidator(_dscp)], Class] = Field(default_factory=dict)

    @field_validator("dscp", mode="before")
    @classmethod
    def _each_dscp_once(cls, value: Any) -> Any:
        if isinstance(value, dict):
            names: dict[int, Any] = {}
            for name in value:
                try:
                    number = _dscp(name)
                except ValueError:  # told as every key is read
                    continue
                if number in names:
                    raise misplaced(f"{names[number]!r} and {name!r} are the same DSCP", name)
                names[number] = name
        return value

    @model_validator(mode="after")
    def _control_on_top(self) -> Classes:
        if self.control < self.data[-1]:
            raise ValueError(f"control messages (class {self.control}) stand below data (class {self.data[-1]})")
        return self


class Row(_Model):
    """What happens to packets of some importance when the queue they chose is at least `above` deep."""

    bands: BandsField | None = None
    importance: ImportanceField | None = None
    above: DepthField = parse_depth(0)
    action: Action

    @model_validator(mode="after")
    def _one_range(self) -> Row:
        if self.bands is not None and self.importance is not None:
            raise ValueError("give bands (0-7) or importance (0-255), not both")
        return self

    @property
    def ranks(self) -> tuple[int, int]:
        """The ranks of importance that the row speaks of, both included."""
        if self.bands is not None:
            return self.bands[0] * RANKS_PER_BAND, (self.bands[1] + 1) * RANKS_PER_BAND - 1
        return self.importance or (0, RANKS - 1)


class Judgement(_Model):
    """Rows for some classes. Of those that apply `keep` wins, then the severest: drop, trim, mark_or_drop, mark."""

    classes: ClassesField
    rows: tuple[Row, ...]


def _full(value: Any) -> Depth | None:
    # YAML reads a bare `off` as false.
    return None if value in ("off", False, None) else parse_depth(value)


FullField = Annotated[
    Depth | None,
    PlainValidator(_full),
    PlainSerializer(lambda depth: "off" if depth is None else str(depth), return_type=str),
    WithJsonSchema(
        {"anyOf": [{"type": "integer"}, {"type": "string"}, {"const": False}], "description": "a depth, or off"}
    ),
]
DEFAULT_FULL = parse_depth("97%")


class Queue(_Model):
    """Limits of one queue; `full` is the depth at which everything is dropped with a reason, below the limit."""

    bytes: DepthField | None = None
    packets: Annotated[int, Field(ge=1, le=1 << 20, strict=True)] | None = None
    full: FullField = DEFAULT_FULL

    @model_validator(mode="after")
    def _limit(self) -> Queue:
        if self.bytes is None and self.packets is None:
            raise ValueError("give a limit in bytes, in packets, or in both")
        if self.bytes is not None and (self.bytes.unit not in ("bytes", "seconds") or self.bytes.amount <= 0):
            raise ValueError(f"{self.bytes} is no limit; write bytes (1MB) or the drain time that they take (80ms)")
        return self


class ClassQueue(Queue):
    """Limits of the queues of some classes."""

    classes: ClassesField


class Queues(_Model):
    """Limits of every queue: `default`, and what some classes have instead."""

    default: Queue | None = None
    per_class: tuple[ClassQueue, ...] = ()

    def of_class(self, class_: int) -> Queue | None:
        """Return the settings of one class: the last entry that names it, else the default; None: the fabric's own."""
        return next((queue for queue in reversed(self.per_class) if class_ in queue.classes), self.default)


class ClassPaths(_Model):
    """The path mode of some classes."""

    classes: ClassesField
    mode: PathMode


MAX_WEIGHT = 64


def _weights(value: Any) -> str | dict[str, int]:
    if value in ("equal", "rate"):
        return str(value)
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is neither equal, nor rate, nor a weight for each neighbour or link")
    for name, weight in value.items():
        if type(weight) is not int or not 0 <= weight <= MAX_WEIGHT:  # a bool is an int too
            raise ValueError(f"the weight of {name} is {weight!r}; it must be a whole number, 0-{MAX_WEIGHT}")
    return {str(name): weight for name, weight in value.items()}


WeightsField = Annotated[
    str | dict[str, int],
    PlainValidator(_weights),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["equal", "rate"]},
                {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0, "maximum": MAX_WEIGHT}},
            ],
            "description": "equal, rate (as the links' rates), or a weight for each neighbour or link",
        }
    ),
]


class Paths(_Model):
    """How packets choose among equal paths, how the paths weigh, and which links are taken out."""

    default: PathMode = "flow_hash"
    per_class: tuple[ClassPaths, ...] = ()
    pinned: bool = True
    weights: WeightsField = "equal"
    out_of_service: tuple[str, ...] = ()

    def of_class(self, class_: int) -> PathMode:
        """Return the mode of one class: the last entry that names it, else the default."""
        return next((paths.mode for paths in reversed(self.per_class) if class_ in paths.classes), self.default)


Fault = Literal[
    "truncated_ipv4",
    "truncated_ipv6",
    "truncated_l4",
    "truncated_gradient",
    "unknown_version",
    "unknown_type",
    "bad_length",
    "bad_ipv4",
    "truncated_other",
    "bad_ipv6",
]


class Faults(_Model):
    """What happens to packets that the parser cannot make sense of; every one is counted."""

    default: FaultAction = "forward"
    by_fault: dict[Fault, FaultAction] = Field(default_factory=dict)


class Punt(_Model):
    """Ordinary traffic that goes to the controller (`send`), also to it (`copy`), or nowhere (`drop`)."""

    ether_type: Annotated[int, Field(ge=0, le=0xFFFF, strict=True)] | None = None
    protocol: Annotated[int, Field(ge=0, le=0xFF, strict=True)] | None = None
    action: PuntAction


RateField = Annotated[
    int,
    BeforeValidator(parse_rate),
    WithJsonSchema({"type": ["integer", "string"], "description": "bit/s, or text such as 100M or 1.5G"}),
]


def _job_name(value: Any) -> str:
    return str(value)


class Policy(_Model):
    """One policy, whole and checked.

    `packet_bytes` turns packets into bytes and back; `unlimited_rate` is what drain times count on behind ports that
    have no rate.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")]
    description: str = ""
    packet_bytes: Annotated[int, Field(ge=64, le=9216, strict=True)] = 1500
    unlimited_rate: RateField = 1_000_000_000
    classes: Classes = Classes()
    jobs: dict[Annotated[str, BeforeValidator(_job_name)], Job] = Field(default_factory=dict)
    judgement: tuple[Judgement, ...] = ()
    queues: Queues = Queues()
    paths: Paths = Paths()
    parser_faults: Faults = Faults()
    punt: tuple[Punt, ...] = ()
    _source: YamlSource | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _known_jobs(self) -> Policy:
        names: dict[int, str] = {}
        for name, job in self.jobs.items():
            if name == ANY_JOB:
                if job.id is not None:
                    raise misplaced("the job `any` stands for every other job and takes no id", "jobs", name, "id")
                continue
            number = job.id if job.id is not None else int(name) if name.isdecimal() else None
            if number is None or number > 0xFFFF:
                message = f"job {name!r} needs an id (0-65535); a job named by a number has that id"
                raise misplaced(message, "jobs", name)
            if number in names:
                raise misplaced(f"jobs {names[number]!r} and {name!r} both have id {number}", "jobs", name, "id")
            names[number] = name
        return self

    def job_id(self, name: str) -> int:
        """Return the id that packets of a named job carry. Raises UsageError for a name that the policy lacks."""
        job = self.jobs.get(name)
        if job is not None and job.id is not None:
            return job.id
        if job is not None and name.isdecimal():
            return int(name)
        raise self.error(f"policy {self.name} names no job {name!r}", "jobs")

    def error(self, message: str, *path: int | str) -> UsageError:
        """Return an error that names this policy's file, and the line of the field at `path`."""
        if self._source is not None:
            return self._source.error(message, path)
        return UsageError(message, file=f"policy {self.name}", field=field_name(path))


def find(name: str) -> Path:
    """Return the file of a policy: a path, or the name of one that ships with Gradlane.

    Raises UsageError where there is neither.
    """
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or "/" in name:
        return path
    shipped = POLICY_FOLDER / f"{name}.yaml"
    if not shipped.is_file():
        names = ", ".join(sorted(file.stem for file in POLICY_FOLDER.glob("*.yaml")))
        raise UsageError(f"no policy is named {name!r}; there are {names}, or give the path of a YAML file")
    return shipped


def load(name: str | Path) -> Policy:
    """Load and check a policy by path or shipped name. Raises UsageError, naming file, line and field."""
    path = name if isinstance(name, Path) else find(name)
    return loads(read_text(path, "the policy"), path)


def loads(text: str, file: str | Path = "policy") -> Policy:
    """Check a policy given as YAML text; `file` is only its name in errors."""
    source = YamlSource(text, file)
    try:
        policy = Policy.model_validate(source.values)
    except ValidationError as error:
        raise source.first_error(error) from None
    policy._source = source
    return policy


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of a policy file."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Policy.model_json_schema(by_alias=True)}


def schema_text() -> str:
    """Return the JSON schema as the file `policies/policy.schema.json` has it."""
    return json.dumps(json_schema(), indent=1) + "\n"


def dump(policy: Policy) -> dict[str, Any]:
    """Return a policy as plain values that `Policy.model_validate` reads back equal."""
    return policy.model_dump(mode="json", by_alias=True, exclude_defaults=True)
