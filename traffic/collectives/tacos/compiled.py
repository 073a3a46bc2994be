# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The compiled cores of synthesis and verification, each built by the system's compiler once per content."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import cffi
import numpy as np
import numpy.typing as npt

from traffic.native import build, opened

HERE = Path(__file__).parent

MATCH = "".join(
    f"""
    void *engine_new_{width}(uint32_t npus, uint32_t links, uint32_t chunks, const uint32_t *source,
        const uint32_t *destination, const uint32_t *first_in, const uint32_t *first_out, const uint32_t *out_link,
        const int64_t *duration, const uint32_t *lane_of, uint32_t lanes, const int64_t *lane_duration,
        const uint32_t *chunk_owner, const uint64_t *wanted, const uint32_t *log_capacity, int rule, uint64_t seed,
        const uint32_t *first_port, const uint32_t *port, uint32_t ports, const uint32_t *slots);
    uint32_t engine_step_{width}(void *e, uint32_t *chunk, uint32_t *link, int64_t *now, int *done);
    uint64_t engine_run_{width}(void *e, uint64_t capacity, uint32_t *chunk, uint32_t *link, int64_t *start);
    void engine_free_{width}(void *e);
    """
    for width in ("narrow", "wide")
)
EVEN = "".join(
    f"""
    void *even_new_{width}(uint32_t npus, uint32_t links, uint32_t chunks, const uint32_t *source,
        const uint32_t *first_in, const uint32_t *owner, const uint64_t *wanted, uint64_t seed, uint32_t threads);
    uint32_t even_step_{width}(void *e, uint32_t *chunk, uint32_t *link);
    uint64_t even_run_{width}(void *e, int64_t duration, uint64_t capacity, uint32_t *chunk, uint32_t *link,
        int64_t *start);
    void even_free_{width}(void *e);
    """
    for width in ("narrow", "wide")
)
VERIFY = """
    void *verifier_new(uint32_t npus, uint32_t links, uint32_t chunks, uint32_t ports, const uint32_t *source,
        const uint32_t *destination, const uint32_t *first_in, const uint32_t *in_link, const uint32_t *first_port,
        const uint32_t *port, const uint32_t *first_slot, const int64_t *duration, int sums, uint64_t seed);
    void verifier_free(void *v);
    void verifier_hold(void *v, uint64_t count, const uint32_t *npu, const uint32_t *chunk);
    int verifier_play(void *v, uint64_t count, const uint32_t *chunk, const uint32_t *link, const int64_t *start,
        const int64_t *end, const uint8_t *reduces, uint64_t *at);
    int64_t verifier_end(void *v);
    int verifier_expect(void *v, uint64_t count, const uint32_t *npu, const uint32_t *chunk, const uint32_t *member,
        uint32_t members, uint64_t *at);
    int verifier_expect_all(void *v, const uint32_t *member, uint32_t members, uint64_t *at);
"""
PLAY = """
    uint64_t play(uint64_t jobs, uint32_t links, uint32_t ports, const uint32_t *link, const int64_t *duration,
        const uint64_t *first_next, const uint64_t *next, uint32_t *waits, const int64_t *priority,
        const uint32_t *first_port, const uint32_t *port, const uint32_t *slots, int64_t *start);
"""
ROUTE = """
    int64_t route(uint32_t npus, uint32_t links, const uint32_t *first_out, const uint32_t *out_link,
        const uint32_t *destination, const int64_t *duration, const uint32_t *first_port, const uint32_t *port,
        uint32_t ports, const uint32_t *slots, uint64_t requests, const uint32_t *from, const uint64_t *first_to,
        const uint32_t *to, uint64_t capacity, uint64_t *request, uint32_t *link, int64_t *start);
"""
SYMMETRIC = """
    int64_t symmetric(uint32_t npus, uint32_t parts, uint32_t machines, uint32_t classes, const uint32_t *first_class,
        const uint32_t *neighbour, const int64_t *duration, uint64_t seed, int rule, uint32_t *target,
        uint32_t *class_of, int64_t *start);
"""
CYCLES = """
    uint32_t cycle(uint32_t nodes, const uint32_t *first, const uint32_t *near, uint32_t turns, uint64_t seed,
        uint32_t *next);
"""
TREES = """
    double trees(uint32_t npus, uint32_t links, const uint32_t *source, const uint32_t *destination,
        const uint32_t *first_in, const uint32_t *first_out, const uint32_t *out_link, const double *cost,
        const uint32_t *first_port, const uint32_t *port, uint32_t ports, const double *share,
        const uint8_t *member, uint32_t chunks, uint32_t sweeps, int sides, const uint32_t *roots, uint32_t root_count,
        double depth_cost, uint64_t seed, uint32_t *root, uint32_t *up, uint32_t *down);
"""


@cache
def _load(declarations: str, *names: str) -> tuple[cffi.FFI, Any]:
    ffi = cffi.FFI()
    ffi.cdef(declarations)
    return ffi, opened(ffi, build(*(HERE / name for name in names)))


def match() -> tuple[cffi.FFI, Any]:
    """Return the general All-Gather engine."""
    return _load(MATCH, "match.c", "match_wide.c")


def even() -> tuple[cffi.FFI, Any]:
    """Return the All-Gather engine for links that all take equally long."""
    return _load(EVEN, "even.c", "even_wide.c")


def verifier() -> tuple[cffi.FFI, Any]:
    """Return the verifier."""
    return _load(VERIFY, "verify.c")


def player() -> tuple[cffi.FFI, Any]:
    """Return the list scheduler of dependent sends."""
    return _load(PLAY, "play.c")


def router() -> tuple[cffi.FFI, Any]:
    """Return the earliest-arrival router."""
    return _load(ROUTE, "route.c")


def symmetric() -> tuple[cffi.FFI, Any]:
    """Return the engine for translation-invariant networks."""
    return _load(SYMMETRIC, "symmetric.c")


def cycles() -> tuple[cffi.FFI, Any]:
    """Return the search for a cycle through all nodes."""
    return _load(CYCLES, "cycles.c")


def trees() -> tuple[cffi.FFI, Any]:
    """Return the packer of reduce and broadcast trees."""
    return _load(TREES, "trees.c")


def pointer(ffi: cffi.FFI, array: npt.NDArray[Any]) -> Any:
    """Return a typed pointer to a contiguous array that the caller keeps alive."""
    kinds = {"u4": "uint32_t *", "i8": "int64_t *", "u8": "uint64_t *", "u1": "uint8_t *", "f8": "double *"}
    assert array.flags.c_contiguous
    return ffi.cast(kinds[array.dtype.str[1:]], array.ctypes.data)


def packed(array: npt.ArrayLike, kind: type) -> npt.NDArray[Any]:
    """Return the array contiguous and of this type."""
    return np.ascontiguousarray(array, kind)
