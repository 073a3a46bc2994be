/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * What happens to a packet around the program's controls, in BMv2's order: at the end of ingress clone, resubmit,
 * multicast, drop or unicast (the program has sent its digest itself); at the end of egress clone, drop, deparse,
 * recirculate, transmit. Copies keep no metadata but the preserved list, and are not truncated.
 */
#include "switch.h"

/* A copy's or a next pass's std: all zero, as BMv2 leaves it, but for its kind and length. */
static void fresh_std(struct ss_packet *packet, uint32_t instance_type)
{
    memset(&packet->std, 0, sizeof packet->std);
    packet->std.instance_type = instance_type;
    packet->std.packet_length = packet->length;
}

static void ingress_clone(struct ss_switch *sw, const struct ss_packet *packet)
{
    const struct replicas *session = packet->clone_session < SESSIONS ? sw->sessions[packet->clone_session] : NULL;
    if (!session)
        return;
    struct ss_packet *copy = replication_copy(sw, packet);
    if (!copy)
        return;
    memset(&copy->std, 0, sizeof copy->std);
    copy->std.ingress_port = packet->std.ingress_port;
    copy->std.ingress_global_timestamp = packet->std.ingress_global_timestamp;
    copy->std.packet_length = copy->length;
    sw->program->parse(sw->state, copy);
    fresh_std(copy, SS_INGRESS_CLONE);
    sw->program->copy_list(sw->state, packet->clone_list, copy, packet);
    replication_send(sw, session, copy);
}

static void egress_clone(struct ss_switch *sw, const struct ss_packet *packet)
{
    const struct replicas *session = packet->clone_session < SESSIONS ? sw->sessions[packet->clone_session] : NULL;
    if (!session)
        return;
    struct ss_packet *copy = replication_copy(sw, packet);
    if (!copy)
        return;
    sw->program->copy_phv(sw->state, copy, packet);
    fresh_std(copy, SS_EGRESS_CLONE);
    sw->program->copy_list(sw->state, packet->clone_list, copy, packet);
    replication_send(sw, session, copy);
}

/* The same bytes go through ingress again, under a representation of their own. */
static void pass_again(struct ss_switch *sw, struct ss_packet *packet, uint32_t list, uint32_t instance_type)
{
    if (packet->passes >= PASS_LIMIT) {
        drop(sw, packet, &sw->drops.pass_limit);
        return;
    }
    struct ss_packet *next = pool_wrap(&sw->pool, pool_chunk_of(&sw->pool, packet->buffer));
    next->data = packet->data;
    next->length = packet->length;
    next->arrival_ns = packet->arrival_ns;
    next->passes = packet->passes + 1;
    sw->program->reset(sw->state, next);
    fresh_std(next, instance_type);
    sw->program->copy_list(sw->state, list, next, packet);
    next->prepared = true;
    pool_unwrap(&sw->pool, packet);
    list_push(&sw->again, next);
}

static void end_of_ingress(struct ss_switch *sw, struct ss_packet *packet)
{
    if (packet->clone_list != SS_NO_LIST)
        ingress_clone(sw, packet);
    if (packet->resubmit_list != SS_NO_LIST) {
        pass_again(sw, packet, packet->resubmit_list, SS_RESUBMITTED);
        return;
    }
    if (packet->std.mcast_grp) {
        packet->std.instance_type = SS_REPLICATED;
        replication_send(sw, packet->std.mcast_grp < GROUPS ? sw->groups[packet->std.mcast_grp] : NULL, packet);
        return;
    }
    if (packet->std.egress_spec == sw->drop_port) {
        drop(sw, packet, &sw->drops.ingress_drop);
        return;
    }
    packet->std.instance_type = SS_NORMAL;
    traffic_enqueue(sw, packet->std.egress_spec, packet);
}

void pipeline_ingress(struct ss_switch *sw, struct ss_packet *packet)
{
    if (!sw->program) {
        drop(sw, packet, &sw->drops.no_program);
        return;
    }
    packet->std.packet_length = packet->length;
    packet->std.instance_type = SS_NORMAL;
    packet->std.ingress_global_timestamp = clock_us(&sw->clock);
    pool_warm(&sw->pool, packet);
    sw->program->ingress(sw->state, packet);
    end_of_ingress(sw, packet);
}

void pipeline_resume(struct ss_switch *sw, struct ss_packet *packet)
{
    sw->program->ingress(sw->state, packet);
    end_of_ingress(sw, packet);
}

struct ss_packet *pipeline_egress(struct ss_switch *sw, struct port *port, struct ss_packet *packet)
{
    const struct ss_program *program = sw->program;
    packet->std.egress_port = port->number;
    packet->std.egress_global_timestamp = clock_us(&sw->clock);
    program->egress(sw->state, packet);
    if (packet->clone_list != SS_NO_LIST)
        egress_clone(sw, packet);
    if (packet->std.egress_spec == sw->drop_port) {
        drop(sw, packet, &sw->drops.egress_drop);
        return NULL;
    }
    if (!program->deparse(sw->state, packet)) {
        drop(sw, packet, &sw->drops.oversize);
        return NULL;
    }
    if (packet->recirculate_list != SS_NO_LIST) {
        pass_again(sw, packet, packet->recirculate_list, SS_RECIRCULATED);
        return NULL;
    }
    if (packet->truncate_to < packet->length)
        packet->length = packet->truncate_to;
    pool_warm(&sw->pool, packet);
    return packet;
}
