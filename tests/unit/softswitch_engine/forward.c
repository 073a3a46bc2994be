/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * A hand-made program for the engine's tests. Port 1 forwards to 2, 2 to 1, others to themselves; the class is the
 * upper three bits of the IPv4 DSCP. A frame of EtherType 0x88b5 carries commands instead:
 *
 *     byte 14: opcode (below)   byte 15: argument   byte 16: class   byte 17: passes, counted up by each ingress
 *     bytes 18..33: written at egress (see `report`)
 */
#include <stdlib.h>
#include <string.h>

#include "program.h"
#include "table_impl.h"

struct ss_state { struct ss_state_head head; };

static const struct ss_objects no_objects;

struct phv {
    uint8_t opcode, argument, class, passes;
    uint32_t kept;                     /* user metadata, preserved by list 7 */
    bool is_command, grow;
};

static struct phv *phv_of(struct ss_packet *packet) { return packet->phv; }

static struct ss_state *create(const struct ss_engine_services *services)
{
    struct ss_state *state = calloc(1, sizeof *state);
    if (state)
        state->head = (struct ss_state_head){&no_objects, services};
    return state;
}

static void destroy(struct ss_state *state) { free(state); }

static void reset(struct ss_state *state, struct ss_packet *packet)
{
    (void)state;
    memset(packet->phv, 0, sizeof(struct phv));
    packet->std.egress_spec = packet->std.mcast_grp = packet->std.priority = packet->std.egress_rid = 0;
    packet->truncate_to = SS_NO_TRUNCATE;
    packet->clone_list = packet->resubmit_list = packet->recirculate_list = packet->digest_list = SS_NO_LIST;
}

static void headers(struct ss_packet *packet)
{
    struct phv *phv = phv_of(packet);
    const uint8_t *data = packet->data;
    packet->payload = 0;
    phv->is_command = packet->length >= 34 && data[12] == 0x88 && data[13] == 0xb5;
    if (phv->is_command) {
        phv->opcode = data[14];
        phv->argument = data[15];
        phv->class = data[16];
        phv->passes = data[17];
        packet->payload = 34;
    } else if (packet->length >= 34 && data[12] == 8 && data[13] == 0) {
        phv->class = data[15] >> 5;
    }
}

static void parse(struct ss_state *state, struct ss_packet *packet)
{
    reset(state, packet);
    headers(packet);
}

static void ingress(struct ss_state *state, struct ss_packet *packet)
{
    struct phv *phv = phv_of(packet);
    uint32_t kept = packet->prepared ? phv->kept : 0;
    reset(state, packet);
    packet->prepared = false;
    headers(packet);
    phv->kept = kept;
    uint32_t port = packet->std.ingress_port;
    packet->std.egress_spec = port == 1 ? 2 : port == 2 ? 1 : port;
    packet->std.priority = phv->class;
    if (!phv->is_command)
        return;
    phv->passes++;
    switch (phv->opcode) {
    case 'P': packet->std.egress_spec = phv->argument; break;
    case 'D': packet->std.egress_spec = SS_DROP_PORT; break;
    case 'M': packet->std.mcast_grp = phv->argument; break;
    case 'T': packet->truncate_to = phv->argument; break;
    case 'C':
        phv->kept = 77;
        packet->clone_list = 7;
        packet->clone_session = phv->argument;
        packet->std.egress_spec = 2;
        break;
    case 'R':
        packet->std.egress_spec = 2;
        if (packet->std.instance_type != SS_RESUBMITTED) {
            phv->kept = 88;
            packet->resubmit_list = 7;
        }
        break;
    case 'L': packet->resubmit_list = 7; break;
    case 'X': packet->std.egress_spec = packet->std.instance_type == SS_RECIRCULATED ? 3 : 2; break;
    case 'G': {
        uint8_t message[2] = {phv->argument, phv->class};
        state->head.services->digest(state->head.services->engine, 5, message, sizeof message);
        break;
    }
    case 'J':
        if (state->head.services->queue_depth(state->head.services->engine, 2, phv->class) >= phv->argument)
            packet->std.egress_spec = SS_DROP_PORT;
        break;
    case 'l': state->head.services->log(state->head.services->engine, "hello"); break;
    default: break;
    }
}

static void egress(struct ss_state *state, struct ss_packet *packet)
{
    struct phv *phv = phv_of(packet);
    (void)state;
    packet->clone_list = packet->resubmit_list = packet->recirculate_list = SS_NO_LIST;
    packet->std.egress_spec = SS_DROP_PORT + 1;
    packet->std.packet_length = packet->length;
    if (!phv->is_command)
        return;
    if (phv->opcode == 'd')
        packet->std.egress_spec = SS_DROP_PORT;
    if (phv->opcode == 'E' && packet->std.instance_type == SS_NORMAL) {
        phv->kept = 99;
        packet->clone_list = 7;
        packet->clone_session = phv->argument;
    }
    if (phv->opcode == 'X' && packet->std.egress_port == 2) {
        phv->kept = 66;
        packet->recirculate_list = 7;
    }
    phv->grow = phv->opcode == 'W';
}

/* The frame tells what the program saw. */
static void report(struct ss_packet *packet)
{
    const struct ss_standard *std = &packet->std;
    const struct phv *phv = phv_of(packet);
    uint8_t *out = packet->data + 17;
    *out++ = phv->passes;
    *out++ = (uint8_t)std->instance_type;
    *out++ = (uint8_t)std->egress_rid;
    *out++ = (uint8_t)std->enq_qdepth;
    *out++ = (uint8_t)std->deq_qdepth;
    for (int shift = 24; shift >= 0; shift -= 8)
        *out++ = (uint8_t)(std->deq_timedelta >> shift);
    *out++ = (uint8_t)phv->kept;
    *out++ = (uint8_t)std->ingress_port;
    *out++ = (uint8_t)(std->packet_length >> 8);
    *out++ = (uint8_t)std->packet_length;
}

static bool deparse(struct ss_state *state, struct ss_packet *packet)
{
    const struct phv *phv = phv_of(packet);
    (void)state;
    if (phv->is_command)
        report(packet);
    if (phv->grow) {                   /* 64 bytes more in front */
        packet->data -= 64;
        packet->length += 64;
        memmove(packet->data, packet->data + 64, 34);
        memset(packet->data + 34, 0xee, 64);
    }
    return true;
}

static void copy_phv(struct ss_state *state, struct ss_packet *to, const struct ss_packet *from)
{
    (void)state;
    memcpy(to->phv, from->phv, sizeof(struct phv));
}

static void copy_list(struct ss_state *state, uint32_t list, struct ss_packet *to, const struct ss_packet *from)
{
    (void)state;
    phv_of(to)->kept = list == 7 ? ((const struct phv *)from->phv)->kept : 0;
}

static const struct ss_objects *objects(struct ss_state *state)
{
    return state->head.objects;
}

const struct ss_program ss_program = {
    .abi = SS_PROGRAM_ABI, .source_hash = "forward", .phv_bytes = sizeof(struct phv), .max_header_growth = 64,
    .create = create, .destroy = destroy, .reset = reset, .ingress = ingress, .egress = egress, .deparse = deparse,
    .parse = parse, .copy_phv = copy_phv, .copy_list = copy_list, .objects = objects,
};
