/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * Action profiles: members by id, groups of weighted members that watch ports. */
#include "table_impl.h"

#include <stdlib.h>

const struct ss_profile_info *ss_profile_info(const struct ss_profile *profile) { return &profile->layout->info; }

static uint32_t id_tag(uint32_t id)
{
    uint64_t key = id;
    return ss_tag(&key, 1, 0);
}

static uint32_t find_member(const struct ss_profile *profile, uint32_t id)
{
    const struct ss_hash *hash = &profile->member_ids;
    uint32_t tag = id_tag(id);
    for (uint32_t i = tag & hash->mask; hash->slots[i].row != SS_NO_ROW; i = (i + 1) & hash->mask)
        if (profile->members[hash->slots[i].row].id == id)
            return hash->slots[i].row;
    return SS_NO_ROW;
}

static uint32_t find_group(const struct ss_profile *profile, uint32_t id)
{
    const struct ss_hash *hash = &profile->group_ids;
    uint32_t tag = id_tag(id);
    for (uint32_t i = tag & hash->mask; hash->slots[i].row != SS_NO_ROW; i = (i + 1) & hash->mask)
        if (profile->groups[hash->slots[i].row].id == id)
            return hash->slots[i].row;
    return SS_NO_ROW;
}

static enum ss_status check_direct(const struct ss_profile *profile, const struct ss_action_value *value)
{
    if (value->kind != SS_DIRECT || value->action == SS_NO_ACTION)
        return SS_INVALID;
    const struct ss_action_info *info = &profile->actions[value->action];
    const uint8_t *bytes = value->parameters;
    for (uint32_t p = 0; p < info->parameter_count; p++) {
        if (info->parameter_bits[p] % 8 && bytes[0] >> (info->parameter_bits[p] % 8))
            return SS_INVALID;
        bytes += (info->parameter_bits[p] + 7) / 8;
    }
    for (uint32_t a = 0; a < profile->layout->info.action_count; a++)
        if (profile->layout->info.actions[a] == value->action)
            return SS_OK;
    return SS_INVALID;
}

static void fill_member(struct ss_profile *profile, uint32_t slot, const struct ss_action_value *value)
{
    struct ss_row *row = ss_member_row(profile, slot);
    const struct ss_action_info *info = &profile->actions[value->action];
    row->kind = SS_DIRECT;
    row->action = value->action;
    ss_encode_action(&profile->natives[value->action], info, row->data, value->parameters);
    if (info->parameter_bytes)
        memmove(profile->blobs + (size_t)slot * profile->blob_stride, value->parameters, info->parameter_bytes);
}

/* The slot to reuse, or the next new one. */
static uint32_t free_member(struct ss_profile *profile)
{
    if (profile->member_count < profile->member_high_water)
        for (uint32_t slot = 0; slot < profile->member_high_water; slot++)
            if (!profile->members[slot].used)
                return slot;
    if (profile->member_high_water == profile->member_capacity) {
        uint32_t capacity = profile->member_capacity ? profile->member_capacity * 2 : 16;
        void *rows = NULL;
        if (posix_memalign(&rows, 64, (size_t)capacity * profile->stride))
            abort();
        memset(rows, 0, (size_t)capacity * profile->stride);
        if (profile->rows)
            memcpy(rows, profile->rows, (size_t)profile->member_capacity * profile->stride);
        free(profile->rows);
        profile->rows = rows;
        profile->members = ss_grow(profile->members, capacity, sizeof *profile->members);
        profile->blobs = ss_grow(profile->blobs, capacity, profile->blob_stride);
        profile->member_capacity = capacity;
    }
    return profile->member_high_water++;
}

enum ss_status ss_member_insert(struct ss_profile *profile, uint32_t id, const struct ss_action_value *value)
{
    enum ss_status status = check_direct(profile, value);
    if (status != SS_OK)
        return status;
    if (find_member(profile, id) != SS_NO_ROW)
        return SS_EXISTS;
    if (profile->member_count >= profile->layout->info.size)
        return SS_FULL;
    uint32_t slot = free_member(profile);
    profile->members[slot] = (struct ss_member){id, 0, true};
    profile->member_count++;
    fill_member(profile, slot, value);
    ss_hash_add(&profile->member_ids, id_tag(id), slot);
    return SS_OK;
}

enum ss_status ss_member_modify(struct ss_profile *profile, uint32_t id, const struct ss_action_value *value)
{
    enum ss_status status = check_direct(profile, value);
    uint32_t slot = find_member(profile, id);
    if (status == SS_OK && slot == SS_NO_ROW)
        status = SS_NOT_FOUND;
    if (status == SS_OK)
        fill_member(profile, slot, value);
    return status;
}

enum ss_status ss_member_remove(struct ss_profile *profile, uint32_t id)
{
    uint32_t slot = find_member(profile, id);
    if (slot == SS_NO_ROW)
        return SS_NOT_FOUND;
    if (profile->members[slot].references)
        return SS_IN_USE;
    ss_hash_delete(&profile->member_ids, id_tag(id), slot);
    profile->members[slot].used = false;
    profile->member_count--;
    return SS_OK;
}

static void describe_member(const struct ss_profile *profile, uint32_t slot, struct ss_action_value *out)
{
    *out = (struct ss_action_value){SS_DIRECT, ss_member_row(profile, slot)->action,
                                    profile->blobs + (size_t)slot * profile->blob_stride, 0};
}

enum ss_status ss_member_find(struct ss_profile *profile, uint32_t id, struct ss_action_value *out)
{
    uint32_t slot = find_member(profile, id);
    if (slot == SS_NO_ROW)
        return SS_NOT_FOUND;
    describe_member(profile, slot, out);
    return SS_OK;
}

/* ---- groups ---- */

static int by_member_id(const void *a, const void *b)
{
    uint32_t left = ((const struct ss_member_ref *)a)->member, right = ((const struct ss_member_ref *)b)->member;
    return left < right ? -1 : left > right;
}

/* The copies of members that a hash chooses among, in BMv2's order: every member once by ascending id, then the further
 * copies of each. `port` is known to be `up` or not; of the others the engine knows. */
static void refresh_live(struct ss_profile *profile, struct ss_group *group, uint32_t port, bool up)
{
    group->live_count = 0;
    for (int further = 0; further < 2; further++)
        for (uint32_t m = 0; m < group->count; m++) {
            const struct ss_member_ref *ref = &group->refs[m];
            if (ref->has_watch
                && !(ref->watch_port == port ? up : profile->services->port_up(profile->services->engine, ref->watch_port)))
                continue;
            for (int32_t copy = 0; copy < (further ? ref->weight - 1 : 1); copy++)
                group->live[group->live_count++] = group->ref_slots[m];
        }
}

static enum ss_status set_members(struct ss_profile *profile, struct ss_group *group, const struct ss_member_ref *refs,
                                  uint32_t count, uint32_t max_size)
{
    uint64_t weight = 0;
    for (uint32_t m = 0; m < count; m++) {
        if (refs[m].weight <= 0)
            return SS_INVALID;
        if (find_member(profile, refs[m].member) == SS_NO_ROW)
            return SS_NOT_FOUND;
        weight += (uint32_t)refs[m].weight;
    }
    uint32_t limit = profile->layout->info.max_group_size;
    if ((max_size && weight > max_size) || (limit && weight > limit))
        return SS_FULL;
    if (weight > 1u << 20)
        return SS_INVALID;
    if (count > group->ref_capacity) {
        group->refs = ss_grow(group->refs, count, sizeof *group->refs);
        group->ref_slots = ss_grow(group->ref_slots, count, sizeof *group->ref_slots);
        group->ref_capacity = count;
    }
    if (weight > group->live_capacity) {
        group->live = ss_grow(group->live, weight, sizeof *group->live);
        group->live_capacity = (uint32_t)weight;
    }
    for (uint32_t m = 0; m < group->count; m++)
        profile->members[group->ref_slots[m]].references--;
    if (count) {
        memmove(group->refs, refs, count * sizeof *refs);
        qsort(group->refs, count, sizeof *group->refs, by_member_id);
    }
    group->count = count;
    group->max_size = max_size;
    for (uint32_t m = 0; m < count; m++) {
        group->ref_slots[m] = find_member(profile, group->refs[m].member);
        profile->members[group->ref_slots[m]].references++;
    }
    refresh_live(profile, group, UINT32_MAX, false);
    return SS_OK;
}

enum ss_status ss_group_insert(struct ss_profile *profile, uint32_t id, uint32_t max_size,
                               const struct ss_member_ref *refs, uint32_t count)
{
    if (!profile->layout->info.has_selector)
        return SS_INVALID;
    if (find_group(profile, id) != SS_NO_ROW)
        return SS_EXISTS;
    uint32_t slot = 0;
    while (slot < profile->group_high_water && profile->groups[slot].used)
        slot++;
    if (slot == profile->group_capacity) {
        uint32_t capacity = profile->group_capacity ? profile->group_capacity * 2 : 16;
        profile->groups = ss_grow(profile->groups, capacity, sizeof *profile->groups);
        memset(profile->groups + profile->group_capacity, 0, (capacity - profile->group_capacity) * sizeof *profile->groups);
        profile->group_capacity = capacity;
    }
    struct ss_group *group = &profile->groups[slot];
    enum ss_status status = set_members(profile, group, refs, count, max_size);
    if (status != SS_OK)
        return status;
    group->id = id;
    group->references = 0;
    group->used = true;
    profile->group_count++;
    if (slot == profile->group_high_water)
        profile->group_high_water++;
    ss_hash_add(&profile->group_ids, id_tag(id), slot);
    return SS_OK;
}

enum ss_status ss_group_modify(struct ss_profile *profile, uint32_t id, const struct ss_member_ref *refs, uint32_t count)
{
    uint32_t slot = find_group(profile, id);
    if (slot == SS_NO_ROW)
        return SS_NOT_FOUND;
    return set_members(profile, &profile->groups[slot], refs, count, profile->groups[slot].max_size);
}

enum ss_status ss_group_remove(struct ss_profile *profile, uint32_t id)
{
    uint32_t slot = find_group(profile, id);
    if (slot == SS_NO_ROW)
        return SS_NOT_FOUND;
    struct ss_group *group = &profile->groups[slot];
    if (group->references)
        return SS_IN_USE;
    ss_hash_delete(&profile->group_ids, id_tag(id), slot);
    for (uint32_t m = 0; m < group->count; m++)
        profile->members[group->ref_slots[m]].references--;
    group->count = group->live_count = 0;
    group->used = false;
    profile->group_count--;
    return SS_OK;
}

enum ss_status ss_group_find(struct ss_profile *profile, uint32_t id, const struct ss_member_ref **refs,
                             uint32_t *count, uint32_t *max_size)
{
    uint32_t slot = find_group(profile, id);
    if (slot == SS_NO_ROW)
        return SS_NOT_FOUND;
    *refs = profile->groups[slot].refs;
    *count = profile->groups[slot].count;
    *max_size = profile->groups[slot].max_size;
    return SS_OK;
}

bool ss_member_next(struct ss_profile *profile, uint64_t *cursor, uint32_t *id, struct ss_action_value *out)
{
    while (*cursor < profile->member_high_water) {
        uint32_t slot = (uint32_t)(*cursor)++;
        if (profile->members[slot].used) {
            *id = profile->members[slot].id;
            describe_member(profile, slot, out);
            return true;
        }
    }
    return false;
}

bool ss_group_next(struct ss_profile *profile, uint64_t *cursor, uint32_t *id)
{
    while (*cursor < profile->group_high_water) {
        uint32_t slot = (uint32_t)(*cursor)++;
        if (profile->groups[slot].used) {
            *id = profile->groups[slot].id;
            return true;
        }
    }
    return false;
}

void ss_profiles_port_changed(struct ss_state *state, uint32_t port, bool up)
{
    const struct ss_objects *objects = ss_objects_of(state);
    for (uint32_t p = 0; p < objects->profile_count; p++) {
        struct ss_profile *profile = objects->profiles[p];
        for (uint32_t g = 0; g < profile->group_high_water; g++) {
            struct ss_group *group = &profile->groups[g];
            bool watches = false;
            for (uint32_t m = 0; m < group->count && group->used; m++)
                watches |= group->refs[m].has_watch && group->refs[m].watch_port == port;
            if (watches)
                refresh_live(profile, group, port, up);
        }
    }
}

/* ---- for tables ---- */

enum ss_status ss_profile_reference(struct ss_profile *profile, struct ss_row *row, const struct ss_action_value *value)
{
    bool member = value->kind == SS_MEMBER;
    uint32_t slot = member ? find_member(profile, value->id) : find_group(profile, value->id);
    if (slot == SS_NO_ROW)
        return SS_NOT_FOUND;
    if (member)
        profile->members[slot].references++;
    else
        profile->groups[slot].references++;
    row->kind = (uint8_t)value->kind;
    row->reference = slot;
    row->action = SS_NO_ACTION;
    return SS_OK;
}

void ss_profile_release(struct ss_profile *profile, const struct ss_row *row)
{
    if (row->kind == SS_MEMBER)
        profile->members[row->reference].references--;
    else if (row->kind == SS_GROUP)
        profile->groups[row->reference].references--;
}

void ss_profile_describe(const struct ss_profile *profile, const struct ss_row *row, struct ss_action_value *out)
{
    uint32_t id = row->kind == SS_MEMBER ? profile->members[row->reference].id : profile->groups[row->reference].id;
    *out = (struct ss_action_value){(enum ss_action_kind)row->kind, SS_NO_ACTION, NULL, id};
}

/* ---- life ---- */

enum ss_status ss_profile_open(struct ss_profile *profile, const struct ss_profile_layout *layout, struct ss_state *state,
                               const struct ss_engine_services *services, const struct ss_action_info *actions,
                               const struct ss_native_action *natives, uint32_t parameter_bytes)
{
    *profile = (struct ss_profile){
        .layout = layout, .state = state, .services = services, .actions = actions, .natives = natives,
        .stride = SS_ROW_STRIDE(layout->data_bytes), .blob_stride = parameter_bytes,
        .member_ids = {ss_hash_nothing, 0, 0}, .group_ids = {ss_hash_nothing, 0, 0},
    };
    return SS_OK;
}

void ss_profile_close(struct ss_profile *profile)
{
    for (uint32_t g = 0; g < profile->group_capacity; g++) {
        free(profile->groups[g].live);
        free(profile->groups[g].refs);
        free(profile->groups[g].ref_slots);
    }
    free(profile->groups);
    free(profile->rows);
    free(profile->members);
    free(profile->blobs);
    ss_hash_clear(&profile->member_ids);
    ss_hash_clear(&profile->group_ids);
}
