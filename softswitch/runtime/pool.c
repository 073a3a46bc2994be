/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * Packet memory (pool.h).
 */
#include "pool.h"

#include <stdlib.h>
#include <sys/mman.h>

static void *map(size_t bytes)
{
    void *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return area == MAP_FAILED ? NULL : area;
}

bool pool_create(struct pool *pool, uint32_t chunks, uint32_t chunk_bytes)
{
    memset(pool, 0, sizeof *pool);
    pool->chunk_count = chunks;
    pool->chunk_bytes = chunk_bytes;
    while ((1u << pool->chunk_shift) < chunk_bytes)
        pool->chunk_shift++;
    pool->area_bytes = (size_t)chunks * chunk_bytes;
    pool->area = map(pool->area_bytes);
    pool->chunks = malloc(chunks * sizeof *pool->chunks);
    pool->slot_count = chunks + 1;     /* one more, to pass a chunk from packet to packet */
    pool->slots = calloc(pool->slot_count, sizeof *pool->slots);
    pool->packets = malloc(pool->slot_count * sizeof *pool->packets);
    if (!pool->area || !pool->chunks || !pool->slots || !pool->packets || !pool_set_phv(pool, CACHE_LINE)) {
        pool_destroy(pool);
        return false;
    }
    for (uint32_t i = 0; i < chunks; i++)
        pool->chunks[i] = chunks - 1 - i;
    for (uint32_t i = 0; i < pool->slot_count; i++)
        pool->packets[i] = &pool->slots[pool->slot_count - 1 - i];
    pool->chunks_free = chunks;
    pool->packets_free = pool->slot_count;
    return true;
}

void pool_destroy(struct pool *pool)
{
    if (pool->area)
        munmap(pool->area, pool->area_bytes);
    if (pool->phv_area)
        munmap(pool->phv_area, pool->phv_area_bytes);
    free(pool->chunks);
    free(pool->slots);
    free(pool->packets);
    memset(pool, 0, sizeof *pool);
}

bool pool_set_phv(struct pool *pool, size_t bytes)
{
    bytes = (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
    /* An even number of lines would put the same field of all packets into few cache sets. */
    if (bytes / CACHE_LINE % 2 == 0)
        bytes += CACHE_LINE;
    size_t area_bytes = bytes * (pool->slot_count + 1);
    uint8_t *area = map(area_bytes);
    if (!area)
        return false;
    if (pool->phv_area)
        munmap(pool->phv_area, pool->phv_area_bytes);
    pool->phv_area = area;
    pool->phv_area_bytes = area_bytes;
    pool->phv_bytes = bytes;
    for (uint32_t i = 0; i < pool->slot_count; i++)
        pool->slots[i].phv = area + i * bytes;
    pool->warm_phv = area + pool->slot_count * bytes;
    return true;
}
