/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * Meters: two rates, three colours (RFC 2698), colour-blind, in the order of BMv2: a packet beyond the peak is red and
 * takes no token, one beyond the committed rate is yellow and has taken a peak token. */
#include "table_impl.h"

#include <stdlib.h>

struct ss_meter_bucket { uint64_t tokens, granted; };        /* two for each cell: committed, peak */

/* Tokens granted since the clock's start: whole ones only, so that nothing is lost between packets. */
static uint64_t granted(uint64_t now_us, uint64_t rate)
{
    return (uint64_t)((ss_u128)now_us * rate / 1000000);
}

static bool take(struct ss_meter_bucket *bucket, uint64_t now_us, uint64_t rate, uint64_t burst, uint64_t amount)
{
    uint64_t total = granted(now_us, rate), fresh = total > bucket->granted ? total - bucket->granted : 0;
    bucket->granted = total;
    bucket->tokens = fresh > burst || bucket->tokens > burst - fresh ? burst : bucket->tokens + fresh;
    if (bucket->tokens < amount)
        return false;
    bucket->tokens -= amount;
    return true;
}

uint32_t ss_meter_run(struct ss_state *state, struct ss_meter *meter, uint32_t index, uint32_t bytes)
{
    const struct ss_engine_services *services = ss_services_of(state);
    const struct ss_meter_rates *rates = &meter->rates[index];
    struct ss_meter_bucket *committed = &meter->buckets[2 * index], *peak = committed + 1;
    uint64_t now = services->now_us(services->engine), amount = meter->in_bytes ? bytes : 1;
    if (!take(peak, now, rates->pir, rates->pburst, amount))
        return 2;
    return take(committed, now, rates->cir, rates->cburst, amount) ? 0 : 1;
}

enum ss_status ss_meter_set(struct ss_state *state, uint32_t number, uint32_t index, const struct ss_meter_rates *rates)
{
    const struct ss_objects *objects = ss_objects_of(state);
    if (number >= objects->meter_count || index >= objects->meters[number].size)
        return SS_INVALID;
    struct ss_meter *meter = &objects->meters[number];
    if (!rates || !rates->configured) {
        meter->rates[index] = (struct ss_meter_rates){0};
        return SS_OK;
    }
    if (rates->pir < rates->cir)
        return SS_INVALID;
    if (!meter->buckets)
        meter->buckets = ss_zeroed(2 * (size_t)meter->size, sizeof *meter->buckets);
    const struct ss_engine_services *services = ss_services_of(state);
    uint64_t now = services->now_us(services->engine);
    meter->rates[index] = *rates;
    meter->buckets[2 * index] = (struct ss_meter_bucket){rates->cburst, granted(now, rates->cir)};
    meter->buckets[2 * index + 1] = (struct ss_meter_bucket){rates->pburst, granted(now, rates->pir)};
    return SS_OK;
}

void ss_meter_forget(struct ss_state *state, uint32_t number, uint32_t index)
{
    ss_meter_set(state, number, index, NULL);
}
