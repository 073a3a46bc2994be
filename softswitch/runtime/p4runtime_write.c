/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * P4Runtime Write: updates applied one by one, each whole or not at all, and batches of them.
 */
#include "p4runtime_write.h"

#include <stdio.h>

int p4rt_apply(struct p4rt_session *s, int type, uint32_t kind, struct wire_span content, struct wire_span entity)
{
    if (type < P4RT_INSERT || type > P4RT_DELETE)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the update's type is missing");
    switch (kind) {
    case P4RT_TABLE: return p4rt_write_table_entry(s, type, content, entity);
    case P4RT_MEMBER: return p4rt_write_member(s, type, content, entity);
    case P4RT_GROUP: return p4rt_write_group(s, type, content, entity);
    case P4RT_METER: return p4rt_write_meter(s, type, content);
    case P4RT_DIRECT_METER: return p4rt_write_direct(s, type, content, true);
    case P4RT_COUNTER: return p4rt_write_counter(s, type, content);
    case P4RT_DIRECT_COUNTER: return p4rt_write_direct(s, type, content, false);
    case P4RT_VALUE_SET: return p4rt_write_value_set(s, type, content);
    case P4RT_REGISTER: return p4rt_write_register(s, type, content);
    case P4RT_EXTERN: return p4rt_reject(s, P4RT_UNIMPLEMENTED, "no further externs are known");
    default: return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the update has no entity");
    }
}

/* Batches. */

enum { CONTINUE_ON_ERROR = 0, ROLLBACK_ON_ERROR = 1, DATAPLANE_ATOMIC = 2 };

struct p4rt_batch {
    struct p4rt_session *s;
    struct wire_reader in;
    struct p4rt_undo undo;
    struct p4rt_errors errors;
    int32_t atomicity;
    uint32_t index, count;
    bool stopped;
};

bool p4rt_write_head(const uint8_t *request, size_t length, struct p4rt_head *head)
{
    *head = (struct p4rt_head){ 0 };
    struct wire_reader in = wire_open((struct wire_span){ request, length });
    struct wire_field field, part;
    while (wire_next(&in, &field)) {
        switch (field.key) {
        case WIRE_VARINT(1): head->device_id = field.value; break;
        case WIRE_VARINT(2): head->role_id = field.value; break;
        case WIRE_BYTES(3): {
            struct wire_reader inner = wire_open(field.bytes);
            head->has_election = true;
            while (wire_next(&inner, &part)) {
                if (part.key == WIRE_VARINT(1))
                    head->election_high = part.value;
                else if (part.key == WIRE_VARINT(2))
                    head->election_low = part.value;
            }
            if (inner.malformed)
                return false;
            break;
        }
        case WIRE_BYTES(4): head->update_count++; break;
        case WIRE_VARINT(5): head->atomicity = (int32_t)field.value; break;
        case WIRE_BYTES(6): head->role = field.bytes.data; head->role_length = field.bytes.length; break;
        }
    }
    return !in.malformed;
}

struct p4rt_batch *p4rt_write_begin(struct p4rt_session *s, const uint8_t *request, size_t length)
{
    struct p4rt_head head;
    struct p4rt_batch *batch = calloc(1, sizeof *batch);
    if (!batch)
        return NULL;
    p4rt_write_head(request, length, &head);
    batch->s = s;
    batch->in = wire_open((struct wire_span){ request, length });
    batch->atomicity = head.atomicity;
    batch->count = head.update_count;
    return batch;
}

void p4rt_write_fail(struct p4rt_batch *batch, uint32_t index, int32_t code, const char *message)
{
    p4rt_errors_add(&batch->errors, index, code, message);
    batch->stopped = batch->atomicity != CONTINUE_ON_ERROR;
}

/* Read an Update and apply it; true: it is for the caller, described in *item. */
static bool apply_update(struct p4rt_batch *batch, struct wire_span update, struct p4rt_item *item)
{
    struct p4rt_session *s = batch->s;
    struct wire_reader in = wire_open(update);
    struct wire_field field;
    struct wire_span entity = { update.data, 0 }, content = { update.data, 0 };
    int type = 0;
    bool malformed = false;
    while (wire_next(&in, &field)) {
        if (field.key == WIRE_VARINT(1))
            type = (int)field.value;
        else if (field.key == WIRE_BYTES(2))
            entity = field.bytes;
    }
    uint32_t kind = p4rt_entity_kind(entity, &content, &malformed), index = batch->index++;
    int code;
    if (in.malformed || malformed) {
        code = p4rt_malformed(s, "update");
    } else if (kind == P4RT_REPLICATION || kind == P4RT_DIGEST) {
        if (batch->atomicity != DATAPLANE_ATOMIC) {
            *item = (struct p4rt_item){ index, type, kind, entity.data, entity.length };
            return true;
        }
        code = p4rt_reject(s, P4RT_UNIMPLEMENTED, "replication and digests do not take part in a dataplane-atomic batch");
    } else {
        code = p4rt_apply(s, type, kind, content, entity);
    }
    if (code)
        p4rt_write_fail(batch, index, code, s->message);
    else if (!p4rt_undo_ready(s))
        p4rt_write_fail(batch, index, P4RT_RESOURCE_EXHAUSTED, "out of memory to make the batch undoable");
    return false;
}

/* Before the lock is left: the next packet finds all tables ready. */
static void settle(struct p4rt_session *s)
{
    for (uint32_t t = 0; t < s->objects->table_count; t++)
        ss_table_settle(s->objects->tables[t]);
}

static void roll_back(struct p4rt_session *s, struct p4rt_undo *undo, bool slices)
{
    s->undo = NULL;
    for (uint32_t i = undo->count, n = 0; i-- > 0; n++) {
        size_t end = i + 1 < undo->count ? undo->starts[i + 1] : undo->bytes.length;
        struct wire_span update = { undo->bytes.data + undo->starts[i], end - undo->starts[i] };
        struct wire_reader in = wire_open(update);
        struct wire_field field;
        struct wire_span entity = { 0 }, content = { 0 };
        int type = 0;
        bool malformed;
        while (wire_next(&in, &field)) {
            if (field.key == WIRE_VARINT(1))
                type = (int)field.value;
            else
                entity = field.bytes;
        }
        p4rt_apply(s, type, p4rt_entity_kind(entity, &content, &malformed), content, entity);
        if (slices && n % P4RT_SLICE == P4RT_SLICE - 1) {
            settle(s);
            ss_unlock(s->sw);
            ss_lock(s->sw);
        }
    }
    undo->count = 0;
}

int p4rt_write_step(struct p4rt_batch *batch, struct p4rt_item *item)
{
    struct p4rt_session *s = batch->s;
    bool atomic = batch->atomicity == DATAPLANE_ATOMIC, mine = false, more = true;
    struct wire_field field;
    s->undo = batch->atomicity == CONTINUE_ON_ERROR ? NULL : &batch->undo;
    while (more && !mine && !batch->stopped) {
        s->now_ns = ss_now(s->sw);
        ss_lock(s->sw);
        for (uint32_t n = 0; (n < P4RT_SLICE || atomic) && !mine && !batch->stopped; n++) {
            do
                more = wire_next(&batch->in, &field);
            while (more && field.key != WIRE_BYTES(4));
            if (!more)
                break;
            mine = apply_update(batch, field.bytes, item);
        }
        if (atomic && batch->errors.count)
            roll_back(s, &batch->undo, false);
        settle(s);
        ss_unlock(s->sw);
    }
    s->undo = NULL;
    return mine;
}

bool p4rt_write_finish(struct p4rt_batch *batch)
{
    if (batch->atomicity == CONTINUE_ON_ERROR || !batch->errors.count)
        return false;
    ss_lock(batch->s->sw);
    roll_back(batch->s, &batch->undo, true);
    settle(batch->s);
    ss_unlock(batch->s->sw);
    uint32_t culprit = batch->errors.list[0].index;
    char reason[64];
    snprintf(reason, sizeof reason, "not applied: update %u failed", culprit);
    for (uint32_t i = 0; i < batch->count; i++)
        if (i != culprit)
            p4rt_errors_add(&batch->errors, i, P4RT_ABORTED, reason);
    return true;
}

const struct p4rt_error *p4rt_write_errors(const struct p4rt_batch *batch, uint32_t *count)
{
    *count = batch->errors.count;
    return batch->errors.list;
}

void p4rt_write_free(struct p4rt_batch *batch)
{
    if (!batch)
        return;
    wire_free(&batch->undo.bytes);
    free(batch->undo.starts);
    free(batch->errors.list);
    free(batch);
}
