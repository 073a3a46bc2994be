/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * What libFuzzer calls: an input is a list of commands to a fresh switch with the program named by FUZZ_PROGRAM:
 * frames, entries in and out, members, groups, replication, registers, time. Every packet must be accounted for.
 */
#include "engine.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORTS 4
#define MOST_KEY 512

struct input { const uint8_t *at; size_t left; };

static uint8_t byte(struct input *in)
{
    if (!in->left)
        return 0;
    in->left--;
    return *in->at++;
}

static void bytes(struct input *in, uint8_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = byte(in);
}

static void die(const char *what)
{
    fprintf(stderr, "fuzz: %s\n", what);
    abort();
}

static void frame(struct ss_switch *sw, struct input *in)
{
    uint32_t port = byte(in) % PORTS + 1, length = byte(in);
    uint8_t buffer[2048];
    if (length > in->left)
        length = (uint32_t)in->left;
    bytes(in, buffer, length);
    ss_inject(sw, port, buffer, length);
    while (ss_take(sw, &port, buffer, sizeof buffer) >= 0) {
    }
}

static struct ss_action_value action_value(const struct ss_objects *objects, uint32_t count, const uint32_t *actions,
                                           struct input *in, uint8_t *parameters)
{
    struct ss_action_value value = {.kind = byte(in) % 8 ? SS_DIRECT : (byte(in) & 1) ? SS_MEMBER : SS_GROUP};
    value.id = byte(in) % 8;
    if (count)
        value.action = actions[byte(in) % count];
    bytes(in, parameters, objects->actions[value.action].parameter_bytes);
    value.parameters = parameters;
    return value;
}

static void entry(const struct ss_objects *objects, struct input *in)
{
    if (!objects->table_count)
        return;
    struct ss_table *table = objects->tables[byte(in) % objects->table_count];
    const struct ss_table_info *info = ss_table_info(table);
    uint8_t value[MOST_KEY] = {0}, mask[MOST_KEY] = {0}, parameters[MOST_KEY];
    if (info->key_bytes > MOST_KEY)
        return;
    uint8_t what = byte(in);
    bytes(in, value, info->key_bytes);
    if (what & 8)
        memset(mask, 0xff, info->key_bytes);
    else
        bytes(in, mask, info->key_bytes);
    struct ss_entry row = {.value = value, .mask = mask, .priority = info->has_priority ? byte(in) + 1 : 0};
    row.action = action_value(objects, info->action_count, info->actions, in, parameters);
    switch (what & 7) {
    case 0: ss_table_remove(table, &row); break;
    case 1: ss_table_modify(table, &row); break;
    case 2: ss_table_set_default(table, what & 16 ? NULL : &row.action); break;
    case 3: ss_table_find(table, &row, &row); break;
    default: ss_table_insert(table, &row, NULL);
    }
    uint64_t cursor = 0;
    uint32_t seen = 0;
    while (ss_table_next(table, &cursor, &row))
        seen++;
    if (seen != ss_table_count(table))
        die("a table counts other entries than it lists");
}

static void profile(const struct ss_objects *objects, struct input *in)
{
    if (!objects->profile_count)
        return;
    struct ss_profile *profile = objects->profiles[byte(in) % objects->profile_count];
    const struct ss_profile_info *info = ss_profile_info(profile);
    uint8_t what = byte(in), parameters[MOST_KEY];
    uint32_t id = byte(in) % 8, count = byte(in) % 5;
    struct ss_member_ref refs[4];
    for (uint32_t i = 0; i < 4; i++)
        refs[i] = (struct ss_member_ref){byte(in) % 8, byte(in) % 4, byte(in) % 6, byte(in) & 1};
    count = count > 4 ? 4 : count;
    struct ss_action_value value = action_value(objects, info->action_count, info->actions, in, parameters);
    switch (what % 6) {
    case 0: ss_member_insert(profile, id, &value); break;
    case 1: ss_member_modify(profile, id, &value); break;
    case 2: ss_member_remove(profile, id); break;
    case 3: ss_group_insert(profile, id, 0, refs, count); break;
    case 4: ss_group_modify(profile, id, refs, count); break;
    default: ss_group_remove(profile, id);
    }
}

static void replication(struct ss_switch *sw, struct input *in)
{
    struct ss_replica list[4];
    uint8_t what = byte(in);
    for (uint32_t i = 0; i < 4; i++)
        list[i] = (struct ss_replica){byte(in) % (PORTS + 2), byte(in)};
    if (what & 1)
        ss_multicast_set(sw, byte(in), list, what / 2 % 5);
    else if (what & 2)
        ss_clone_set(sw, byte(in), list, what / 4 % 5, what & 64 ? byte(in) : 0);
    else
        ss_clone_remove(sw, byte(in));
}

static void registers(struct ss_state *state, const struct ss_objects *objects, struct input *in)
{
    uint8_t value[MOST_KEY];
    if (objects->register_count) {
        uint32_t number = byte(in) % objects->register_count;
        if (objects->registers[number].bytes <= MOST_KEY) {
            bytes(in, value, objects->registers[number].bytes);
            ss_register_write(state, number, byte(in), value);
        }
    }
    if (objects->meter_count) {
        struct ss_meter_rates rates = {byte(in), byte(in), byte(in), byte(in), byte(in) & 1};
        ss_meter_set(state, byte(in) % objects->meter_count, byte(in), &rates);
    }
}

static void traffic(struct ss_switch *sw, struct input *in)
{
    uint32_t port = byte(in) % (PORTS + 1);
    struct ss_queue_settings limits = {byte(in) % 8, 0};
    switch (byte(in) % 5) {
    case 0: ss_port_set_rate(sw, port, (uint64_t)byte(in) * 10000); break;
    case 1: ss_port_set_queue(sw, port, byte(in) % 9, &limits); break;
    case 2: ss_port_set_up(sw, port, byte(in) & 1); break;
    case 3: ss_switch_set_queues(sw, byte(in) % 10); break;
    default: ss_set_clock(sw, ss_now(sw) + 1000u * (1 + byte(in)) * (1 + byte(in)));
    }
    ss_run(sw);
}

static void check(struct ss_switch *sw)
{
    struct ss_account account;
    ss_account(sw, &account);
    if (account.received + account.copied != account.sent + account.dropped + account.queued)
        die("a packet is not accounted for");
}

/* The program stays loaded between inputs: libFuzzer goes on reading its counters. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc; (void)argv;
    if (!getenv("FUZZ_PROGRAM") || !dlopen(getenv("FUZZ_PROGRAM"), RTLD_NOW | RTLD_LOCAL))
        die("FUZZ_PROGRAM names no program");
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    char error[200] = "";
    struct ss_switch *sw = ss_switch_create(1, "fuzz", error, sizeof error);
    if (!sw || ss_switch_set_memory(sw, 256, 2048) || ss_switch_load(sw, getenv("FUZZ_PROGRAM"), error, sizeof error))
        die(error);
    ss_switch_seed(sw, 1);
    ss_set_clock(sw, 1000000000);
    ss_switch_set_cpu_port(sw, 510);
    for (uint32_t port = 1; port <= PORTS; port++)
        ss_port_add(sw, port, NULL, "virtual", error, sizeof error);
    struct ss_state *state = ss_switch_state(sw);
    const struct ss_objects *objects = ss_switch_program(sw)->objects(state);
    while (in.left) {
        switch (byte(&in) % 12) {
        case 0: case 1: case 2: case 3: frame(sw, &in); break;
        case 4: case 5: case 6: ss_lock(sw); entry(objects, &in); ss_unlock(sw); break;
        case 7: ss_lock(sw); profile(objects, &in); ss_unlock(sw); break;
        case 8: replication(sw, &in); break;
        case 9: ss_lock(sw); registers(state, objects, &in); ss_unlock(sw); break;
        default: traffic(sw, &in);
        }
        check(sw);
    }
    ss_switch_destroy(sw);
    return 0;
}
