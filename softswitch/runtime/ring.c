/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * A bounded ring of messages (ring.h).
 */
#include "ring.h"

#include <string.h>
#include <sys/mman.h>

struct message { uint32_t tag, length; };

bool ring_create(struct ring *ring, size_t capacity)
{
    memset(ring, 0, sizeof *ring);
    /* Mapped, not touched: memory is used as far as messages really wait. */
    void *bytes = mmap(NULL, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (bytes == MAP_FAILED)
        return false;
    ring->bytes = bytes;
    ring->capacity = capacity;
    return true;
}

void ring_destroy(struct ring *ring)
{
    if (ring->bytes)
        munmap(ring->bytes, ring->capacity);
    memset(ring, 0, sizeof *ring);
}

static void put(struct ring *ring, const void *from, size_t length)
{
    size_t at = ring->tail & (ring->capacity - 1), first = ring->capacity - at;
    if (first > length)
        first = length;
    memcpy(ring->bytes + at, from, first);
    memcpy(ring->bytes, (const uint8_t *)from + first, length - first);
    ring->tail += length;
}

static void get(const struct ring *ring, size_t from, void *to, size_t length)
{
    size_t at = from & (ring->capacity - 1), first = ring->capacity - at;
    if (first > length)
        first = length;
    memcpy(to, ring->bytes + at, first);
    memcpy((uint8_t *)to + first, ring->bytes, length - first);
}

bool ring_push(struct ring *ring, uint32_t tag, const void *bytes, uint32_t length)
{
    struct message message = {tag, length};
    if (ring->capacity - (ring->tail - ring->head) < sizeof message + length)
        return false;
    put(ring, &message, sizeof message);
    if (length)
        put(ring, bytes, length);
    return true;
}

int32_t ring_pop(struct ring *ring, uint32_t *tag, void *bytes, uint32_t capacity)
{
    struct message message;
    if (ring->head == ring->tail)
        return -1;
    get(ring, ring->head, &message, sizeof message);
    uint32_t length = message.length < capacity ? message.length : capacity;
    if (length)
        get(ring, ring->head + sizeof message, bytes, length);
    ring->head += sizeof message + message.length;
    if (tag)
        *tag = message.tag;
    return (int32_t)length;
}
