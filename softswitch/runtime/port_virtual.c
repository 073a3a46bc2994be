/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * Ports without a kernel side: virtual ports, whose frames a test or a simulation gives and takes, and the CPU port,
 * whose frames are P4Runtime's packet-out and packet-in.
 */
#include "switch.h"

static uint32_t virtual_send(struct port *port, struct ss_packet **packets, uint32_t count)
{
    struct ss_switch *sw = port->sw;
    uint32_t taken = 0;
    /* Frames nobody takes hold packet memory: beyond half of it they stay in their queues. */
    for (; taken < count && sw->outbound.count < sw->pool.chunk_count / 2; taken++) {
        port_sent(port, packets[taken]);
        list_push(&sw->outbound, packets[taken]);
    }
    return taken;
}

static uint32_t cpu_send(struct port *port, struct ss_packet **packets, uint32_t count)
{
    struct ss_switch *sw = port->sw;
    for (uint32_t i = 0; i < count; i++) {
        if (ring_push(&sw->packets_in, 0, packets[i]->data, packets[i]->length))
            port_sent(port, packets[i]);
        else
            sw->drops.packet_in_overflow++;
        pool_give(&sw->pool, packets[i]);
    }
    engine_event(sw);
    return count;
}

const struct port_kind port_virtual = {.name = "virtual", .send = virtual_send};
const struct port_kind port_cpu = {.name = "cpu", .send = cpu_send};

/* A frame from the process itself, as if received on `number`. */
static int give(struct ss_switch *sw, uint32_t number, const uint8_t *frame, uint32_t length)
{
    ss_lock(sw);
    struct port *port = number < SS_PORTS ? sw->ports[number] : NULL;
    struct ss_packet *packet = NULL;
    clock_read(&sw->clock);
    if (port && length <= pool_frame_limit(&sw->pool))
        packet = pool_take(&sw->pool);
    if (packet) {
        memcpy(packet->data, frame, length);
        packet->length = length;
        port_received(port, packet);
        if (port->up)
            list_push(&sw->inbound, packet);
        else
            drop(sw, packet, &sw->drops.port_down);
    } else if (port) {
        bool fits = length <= pool_frame_limit(&sw->pool);
        port_refused(port, length, fits ? &sw->drops.no_buffer : &sw->drops.oversize);
    }
    ss_unlock(sw);
    engine_wake(sw);
    return packet ? 0 : -1;
}

int ss_inject(struct ss_switch *sw, uint32_t port, const uint8_t *frame, uint32_t length)
{
    return give(sw, port, frame, length);
}

int ss_packet_out(struct ss_switch *sw, const uint8_t *frame, uint32_t length)
{
    return give(sw, sw->cpu_port, frame, length);
}

int32_t ss_take(struct ss_switch *sw, uint32_t *port, uint8_t *frame, uint32_t capacity)
{
    int32_t length = -1;
    ss_lock(sw);
    struct ss_packet *packet = list_pop(&sw->outbound);
    if (packet) {
        length = (int32_t)(packet->length < capacity ? packet->length : capacity);
        memcpy(frame, packet->data, (size_t)length);
        *port = packet->std.egress_port;
        pool_give(&sw->pool, packet);
    }
    ss_unlock(sw);
    return length;
}

int32_t ss_packet_in(struct ss_switch *sw, uint8_t *frame, uint32_t capacity)
{
    ss_lock(sw);
    int32_t length = ring_pop(&sw->packets_in, NULL, frame, capacity);
    ss_unlock(sw);
    return length;
}
