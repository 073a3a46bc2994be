/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * A port's shaper: a token bucket with debt, kept as the time at which the debt is paid.
 *
 * A packet may leave once the debt of those before it is paid; then it adds its own. So a port that was idle sends one
 * packet at once and the next one a packet time later: no burst. While packets wait, a late thread catches up the time
 * it lost, at most 10 ms or two packets, whichever is more: the mean over a second stays exact.
 */
#ifndef SOFTSWITCH_SHAPER_H
#define SOFTSWITCH_SHAPER_H

#include <stdbool.h>
#include <stdint.h>

#define SHAPER_CATCH_UP_NS 10000000ull
#define SHAPER_MAX_OVERHEAD 1024
#define SHAPER_FRACTION 20             /* bits of a nanosecond: 1e-5 of the rate at 100 Gbit/s */

struct shaper {
    uint64_t rate;         /* bit/s, 0: unlimited */
    uint64_t ns_per_byte;  /* fixed point */
    uint64_t free;         /* the next packet may leave from here on, ns */
    uint64_t fraction;     /* of `free`, fixed point */
    uint32_t overhead;     /* bytes charged beside each frame: 24 for preamble, gap and FCS, or 0 */
};

static inline void shaper_set_rate(struct shaper *shaper, uint64_t rate, uint64_t now)
{
    shaper->rate = rate;
    shaper->ns_per_byte = rate ? (uint64_t)(((unsigned __int128)8000000000u << SHAPER_FRACTION) / rate) : 0;
    if (shaper->free > now)            /* a debt taken at the former rate is forgiven */
        shaper->free = now;
    shaper->fraction = 0;
}

static inline uint64_t shaper_time(const struct shaper *shaper, uint32_t bytes, uint64_t *fraction)
{
    unsigned __int128 time = (unsigned __int128)shaper->ns_per_byte * (bytes + shaper->overhead) + *fraction;
    *fraction = (uint64_t)time & ((1u << SHAPER_FRACTION) - 1);
    time >>= SHAPER_FRACTION;
    return time > UINT64_MAX / 4 ? UINT64_MAX / 4 : (uint64_t)time;
}

static inline bool shaper_open(const struct shaper *shaper, uint64_t now)
{
    return !shaper->rate || now >= shaper->free;
}

/* A packet found the port without any: time that passed unused is lost. */
static inline void shaper_wake(struct shaper *shaper, uint64_t now)
{
    if (shaper->free < now) {
        shaper->free = now;
        shaper->fraction = 0;
    }
}

static inline void shaper_charge(struct shaper *shaper, uint32_t bytes, uint64_t now)
{
    if (!shaper->rate)
        return;
    uint64_t time = shaper_time(shaper, bytes, &shaper->fraction);
    uint64_t catch_up = 2 * time > SHAPER_CATCH_UP_NS ? 2 * time : SHAPER_CATCH_UP_NS;
    if (now > catch_up && shaper->free < now - catch_up)
        shaper->free = now - catch_up;
    shaper->free += time;
}

#endif
