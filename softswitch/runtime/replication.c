/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * The replication engine: multicast groups and clone sessions, each a list of (port, instance).
 */
#include "switch.h"

#include <stdlib.h>

struct ss_packet *replication_copy(struct ss_switch *sw, const struct ss_packet *packet)
{
    sw->copied++;
    struct ss_packet *copy = pool_take(&sw->pool);
    if (!copy) {
        sw->drops.no_buffer++;
        return NULL;
    }
    copy->data = copy->buffer + (packet->data - packet->buffer);
    memcpy(copy->data, packet->data, packet->length);
    copy->length = packet->length;
    copy->payload = packet->payload;
    copy->arrival_ns = packet->arrival_ns;
    copy->passes = packet->passes;
    copy->std = packet->std;
    return copy;
}

void replication_send(struct ss_switch *sw, const struct replicas *replicas, struct ss_packet *packet)
{
    if (!replicas || !replicas->count) {
        drop(sw, packet, &sw->drops.multicast_empty);
        return;
    }
    for (uint32_t i = 0; i < replicas->count; i++) {
        struct ss_packet *copy = packet;
        if (i + 1 < replicas->count) {
            copy = replication_copy(sw, packet);
            if (!copy)
                continue;
            sw->program->copy_phv(sw->state, copy, packet);
        }
        copy->truncate_to = replicas->truncate ? replicas->truncate : SS_NO_TRUNCATE;
        copy->std.egress_rid = replicas->list[i].instance;
        traffic_enqueue(sw, replicas->list[i].port, copy);
    }
}

static struct replicas *replicas_create(const struct ss_replica *list, uint32_t count, uint32_t truncate)
{
    struct replicas *replicas = malloc(sizeof *replicas + count * sizeof *list);
    if (!replicas)
        return NULL;
    replicas->list = (struct ss_replica *)(replicas + 1);
    replicas->count = count;
    replicas->truncate = truncate;
    if (count)
        memcpy(replicas->list, list, count * sizeof *list);
    return replicas;
}

static void put(struct ss_switch *sw, struct replicas **place, struct replicas *replicas)
{
    ss_lock(sw);
    struct replicas *former = *place;
    *place = replicas;
    ss_unlock(sw);
    free(former);
}

int ss_multicast_set(struct ss_switch *sw, uint32_t group, const struct ss_replica *list, uint32_t count)
{
    struct replicas *replicas = NULL;
    if (!group || group >= GROUPS || (count && !(replicas = replicas_create(list, count, 0))))
        return -1;
    put(sw, &sw->groups[group], replicas);
    return 0;
}

int ss_clone_set(struct ss_switch *sw, uint32_t session, const struct ss_replica *list, uint32_t count,
                 uint32_t truncate)
{
    struct replicas *replicas;
    if (session >= SESSIONS || !(replicas = replicas_create(list, count, truncate)))
        return -1;
    put(sw, &sw->sessions[session], replicas);
    return 0;
}

int ss_clone_remove(struct ss_switch *sw, uint32_t session)
{
    if (session >= SESSIONS || !sw->sessions[session])
        return -1;
    put(sw, &sw->sessions[session], NULL);
    return 0;
}

void replication_destroy(struct ss_switch *sw)
{
    for (uint32_t i = 0; i < GROUPS; i++)
        free(sw->groups[i]);
    for (uint32_t i = 0; i < SESSIONS; i++)
        free(sw->sessions[i]);
}
