/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * The switch's time: CLOCK_MONOTONIC, or a virtual time that a test or a simulation sets.
 */
#ifndef SOFTSWITCH_CLOCK_H
#define SOFTSWITCH_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define NS_PER_SECOND 1000000000ull
#define NEVER UINT64_MAX

struct clock {
    uint64_t now;          /* as read last: a batch shares it */
    uint64_t start;        /* timestamps that programs see count from here; 0 in virtual time */
    bool is_virtual;
    uint64_t real_start;
    uint64_t wall_offset;  /* from CLOCK_MONOTONIC to CLOCK_REALTIME, for captures */
};

static inline uint64_t clock_monotonic(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_SECOND + (uint64_t)t.tv_nsec;
}

static inline void clock_read(struct clock *clock)
{
    if (!clock->is_virtual)
        clock->now = clock_monotonic();
}

static inline uint64_t clock_us(const struct clock *clock)
{
    return (clock->now - clock->start) / 1000;
}

#endif
