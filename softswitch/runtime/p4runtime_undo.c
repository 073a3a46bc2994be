/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * For batches that must be all or nothing, every update first writes down its inverse, as an Update in the same wire
 * format; undoing is applying the inverses, newest first.
 */
#include "p4runtime_write.h"

size_t p4rt_undo_open(struct p4rt_session *s, int type)
{
    struct p4rt_undo *undo = s->undo;
    if (undo->count == undo->capacity) {
        uint32_t capacity = undo->capacity ? undo->capacity * 2 : 64;
        size_t *starts = realloc(undo->starts, capacity * sizeof *starts);
        if (!starts) {
            undo->failed = true;
            return 0;
        }
        undo->starts = starts;
        undo->capacity = capacity;
    }
    undo->starts[undo->count++] = undo->bytes.length;
    wire_put_uint(&undo->bytes, 1, (uint64_t)type);
    return wire_begin(&undo->bytes, 2);
}

void p4rt_undo_close(struct p4rt_session *s, size_t entity)
{
    wire_end(&s->undo->bytes, entity);
    s->undo->failed |= s->undo->bytes.failed;
}

/* The last `count` inverses belong to an update that did not happen. */
void p4rt_undo_drop(struct p4rt_session *s, uint32_t count)
{
    if (s->undo && count && s->undo->count >= count) {
        s->undo->count -= count;
        s->undo->bytes.length = s->undo->starts[s->undo->count];
    }
}

/* The inverse of an INSERT: a DELETE needs the key only and ignores the rest. */
void p4rt_undo_insert(struct p4rt_session *s, struct wire_span entity)
{
    if (!s->undo)
        return;
    size_t start = p4rt_undo_open(s, P4RT_DELETE);
    wire_put_raw(&s->undo->bytes, entity.data, entity.length);
    p4rt_undo_close(s, start);
}

bool p4rt_undo_ready(struct p4rt_session *s)
{
    return !s->undo || !s->undo->failed;
}
