/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * A bounded ring of tagged messages of any length: what the data thread leaves for the control plane.
 */
#ifndef SOFTSWITCH_RING_H
#define SOFTSWITCH_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ring {
    uint8_t *bytes;
    size_t capacity;       /* a power of two */
    size_t head, tail;     /* ever growing */
};

bool ring_create(struct ring *, size_t capacity);
void ring_destroy(struct ring *);
bool ring_push(struct ring *, uint32_t tag, const void *bytes, uint32_t length);   /* false: full */
/* Length, -1 when empty. A message longer than `capacity` is cut to it. */
int32_t ring_pop(struct ring *, uint32_t *tag, void *bytes, uint32_t capacity);

#endif
