/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * Write: members and groups of action profiles, and what action sets share with them.
 */
#include "p4runtime_write.h"

#include <stdio.h>

enum { MAX_WEIGHT_SUM = 1 << 20 };

struct ss_profile *p4rt_profile_object(struct p4rt_session *s, const struct p4rt_profile *profile)
{
    return s->objects->profiles[profile->index];
}

struct p4rt_selector_use *p4rt_selector_use_of(struct p4rt_session *s, const struct p4rt_profile *profile)
{
    return &s->selectors[profile - s->schema->profiles];
}

/* A port watched for liveness, from either form of watch_kind. */
int p4rt_decode_watch(struct p4rt_session *s, const struct wire_field *field, struct ss_member_ref *ref)
{
    uint64_t port = field->value;
    if (field->key == WIRE_BYTES(4)) {
        if (!field->bytes.length)
            return P4RT_OK;
        uint8_t bytes[4];
        int code = p4rt_decode_value(s, field->bytes, 32, 4, bytes, "watch_port of member", ref->member);
        if (code)
            return code;
        port = (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
    } else if (!port) {
        return P4RT_OK;
    }
    if (port >= SS_PORTS || !ss_port_kind(s->ports, (uint32_t)port))
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "watch_port %llu is no port of this switch", (unsigned long long)port);
    ref->has_watch = true;
    ref->watch_port = (uint32_t)port;
    return P4RT_OK;
}

int p4rt_check_weight(struct p4rt_session *s, const struct p4rt_profile *profile, int32_t *weight)
{
    if (profile->weights_disallowed) {
        if (*weight)
            return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "weights are not allowed here");
        *weight = 1;
    } else if (*weight <= 0) {
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "weight %d is not above 0", *weight);
    } else if (*weight > MAX_WEIGHT_SUM) {
        return p4rt_reject(s, P4RT_RESOURCE_EXHAUSTED, "weight %d is above %d", *weight, MAX_WEIGHT_SUM);
    }
    if (profile->sum_of_members && profile->max_member_weight && (uint32_t)*weight > profile->max_member_weight)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "weight %d is above max_member_weight %u", *weight,
                           profile->max_member_weight);
    return P4RT_OK;
}

int p4rt_check_group_size(struct p4rt_session *s, const struct p4rt_profile *profile, const struct ss_member_ref *members,
                          uint32_t count, uint32_t max_size, int code)
{
    uint64_t sum = count;
    if (!profile->sum_of_members) {
        sum = 0;
        for (uint32_t i = 0; i < count; i++)
            sum += (uint32_t)members[i].weight;
    }
    uint64_t limit = max_size ? max_size : profile->max_group_size ? profile->max_group_size : MAX_WEIGHT_SUM;
    if (sum > limit)
        return p4rt_reject(s, code, "the group's size %llu is above %llu", (unsigned long long)sum, (unsigned long long)limit);
    return P4RT_OK;
}

static int decode_profile(struct p4rt_session *s, uint32_t id, const struct p4rt_profile **profile)
{
    *profile = p4rt_find_profile(s->schema, id);
    return *profile ? P4RT_OK : p4rt_reject(s, P4RT_INVALID_ARGUMENT, "no action profile has id %u", id);
}

int p4rt_write_member(struct p4rt_session *s, int type, struct wire_span message, struct wire_span entity)
{
    struct wire_reader in = wire_open(message);
    struct wire_field field;
    uint32_t profile_id = 0, id = 0;
    struct wire_span action = { 0 };
    bool has_action = false;
    while (wire_next(&in, &field)) {
        switch (field.key) {
        case WIRE_VARINT(1): profile_id = (uint32_t)field.value; break;
        case WIRE_VARINT(2): id = (uint32_t)field.value; break;
        case WIRE_BYTES(3): action = field.bytes; has_action = true; break;
        }
    }
    if (in.malformed)
        return p4rt_malformed(s, "action profile member");
    const struct p4rt_profile *profile;
    int code = decode_profile(s, profile_id, &profile);
    if (code)
        return code;
    if (!id)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "member_id is missing");
    if (p4rt_selector_use_of(s, profile)->action_sets)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "this action selector is programmed with action sets");
    struct ss_profile *object = p4rt_profile_object(s, profile);
    struct ss_action_value old, value;
    bool exists = ss_member_find(object, id, &old) == SS_OK;
    if (type == P4RT_INSERT ? exists : !exists)
        return p4rt_reject(s, exists ? P4RT_ALREADY_EXISTS : P4RT_NOT_FOUND, "member %u %s", id,
                           exists ? "exists already" : "does not exist");
    if (type != P4RT_DELETE) {
        if (!has_action)
            return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the member's action is missing");
        code = p4rt_decode_action(s, action, profile->actions, profile->action_count, false, &value);
        if (code)
            return code;
    }
    if (type != P4RT_INSERT && s->undo) {
        size_t start = p4rt_undo_open(s, type == P4RT_MODIFY ? P4RT_MODIFY : P4RT_INSERT);
        p4rt_encode_member(s, &s->undo->bytes, profile, id, &old);
        p4rt_undo_close(s, start);
    }
    char what[32];
    snprintf(what, sizeof what, "member %u", id);
    code = p4rt_status(s, type == P4RT_INSERT   ? ss_member_insert(object, id, &value)
                          : type == P4RT_MODIFY ? ss_member_modify(object, id, &value)
                                                : ss_member_remove(object, id), what);
    if (!code && type == P4RT_INSERT)
        p4rt_undo_insert(s, entity);
    p4rt_undo_drop(s, code && type != P4RT_INSERT);
    return code;
}

static int decode_group_members(struct p4rt_session *s, struct wire_span message, const struct p4rt_profile *profile,
                                struct ss_member_ref *refs)
{
    struct wire_reader in = wire_open(message);
    struct wire_field field, part;
    uint32_t count = 0;
    while (wire_next(&in, &field)) {
        if (field.key != WIRE_BYTES(3))
            continue;
        struct ss_member_ref *ref = &refs[count];
        struct wire_reader inner = wire_open(field.bytes);
        int code = P4RT_OK;
        while (!code && wire_next(&inner, &part)) {
            switch (part.key) {
            case WIRE_VARINT(1): ref->member = (uint32_t)part.value; break;
            case WIRE_VARINT(2): ref->weight = (int32_t)part.value; break;
            case WIRE_VARINT(3):
            case WIRE_BYTES(4): code = p4rt_decode_watch(s, &part, ref); break;
            }
        }
        if (!code && inner.malformed)
            code = p4rt_malformed(s, "group member");
        if (!code)
            code = p4rt_check_weight(s, profile, &ref->weight);
        if (!code && ss_member_find(p4rt_profile_object(s, profile), ref->member, &(struct ss_action_value){ 0 }) != SS_OK)
            code = p4rt_reject(s, P4RT_NOT_FOUND, "member %u does not exist", ref->member);
        for (uint32_t i = 0; !code && i < count; i++)
            if (refs[i].member == ref->member)
                code = p4rt_reject(s, P4RT_INVALID_ARGUMENT, "member %u is given twice", ref->member);
        if (code)
            return code;
        count++;
    }
    return P4RT_OK;
}

int p4rt_write_group(struct p4rt_session *s, int type, struct wire_span message, struct wire_span entity)
{
    struct wire_reader in = wire_open(message);
    struct wire_field field;
    uint32_t profile_id = 0, id = 0, count = 0;
    int32_t max_size = 0;
    while (wire_next(&in, &field)) {
        switch (field.key) {
        case WIRE_VARINT(1): profile_id = (uint32_t)field.value; break;
        case WIRE_VARINT(2): id = (uint32_t)field.value; break;
        case WIRE_BYTES(3): count++; break;
        case WIRE_VARINT(4): max_size = (int32_t)field.value; break;
        }
    }
    if (in.malformed)
        return p4rt_malformed(s, "action profile group");
    const struct p4rt_profile *profile;
    int code = decode_profile(s, profile_id, &profile);
    if (code)
        return code;
    if (!profile->has_selector)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "the action profile has no selector, so no groups");
    if (!id)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "group_id is missing");
    if (p4rt_selector_use_of(s, profile)->action_sets)
        return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "this action selector is programmed with action sets");
    struct ss_profile *object = p4rt_profile_object(s, profile);
    const struct ss_member_ref *present;
    uint32_t present_count, present_max;
    bool exists = ss_group_find(object, id, &present, &present_count, &present_max) == SS_OK;
    if (type == P4RT_INSERT ? exists : !exists)
        return p4rt_reject(s, exists ? P4RT_ALREADY_EXISTS : P4RT_NOT_FOUND, "group %u %s", id,
                           exists ? "exists already" : "does not exist");
    struct ss_member_ref *refs = NULL;
    if (type != P4RT_DELETE) {
        if (max_size < 0 || (profile->max_group_size && (uint32_t)max_size > profile->max_group_size))
            return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "max_size %d is not in 0..%u", max_size, profile->max_group_size);
        if (type == P4RT_MODIFY && (uint32_t)max_size != present_max)
            return p4rt_reject(s, P4RT_INVALID_ARGUMENT, "max_size was %u and cannot change", present_max);
        if (!(refs = calloc(count ? count : 1, sizeof *refs)))
            return p4rt_reject(s, P4RT_RESOURCE_EXHAUSTED, "out of memory");
        code = decode_group_members(s, message, profile, refs);
        if (!code)
            code = p4rt_check_group_size(s, profile, refs, count, (uint32_t)max_size, P4RT_RESOURCE_EXHAUSTED);
        if (code) {
            free(refs);
            return code;
        }
    }
    if (type != P4RT_INSERT && s->undo) {
        size_t start = p4rt_undo_open(s, type == P4RT_MODIFY ? P4RT_MODIFY : P4RT_INSERT);
        p4rt_encode_group(s, &s->undo->bytes, profile, id);
        p4rt_undo_close(s, start);
    }
    char what[32];
    snprintf(what, sizeof what, "group %u", id);
    code = p4rt_status(s, type == P4RT_INSERT   ? ss_group_insert(object, id, (uint32_t)max_size, refs, count)
                          : type == P4RT_MODIFY ? ss_group_modify(object, id, refs, count)
                                                : ss_group_remove(object, id), what);
    free(refs);
    if (!code && type == P4RT_INSERT)
        p4rt_undo_insert(s, entity);
    p4rt_undo_drop(s, code && type != P4RT_INSERT);
    return code;
}
