/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * The traffic manager: per port eight queues in strict priority behind one shaper.
 *
 * A packet that finds its port idle and unlimited is dequeued at once, before the next one enters: batches of the
 * receive path never show as queue depth. A port is on one of three lists: ready (look now), waiting (for its shaper
 * or for room in the interface), flushing (packets staged for the interface).
 */
#include "switch.h"

static void make_ready(struct ss_switch *sw, struct port *port)
{
    if (port->is_ready)
        return;
    port->is_ready = true;
    port->next_ready = sw->ready;
    sw->ready = port;
}

static void wait_until(struct ss_switch *sw, struct port *port, uint64_t due)
{
    port->due = due;
    if (due < sw->next_due)
        sw->next_due = due;
    if (port->is_waiting)
        return;
    port->is_waiting = true;
    port->next_waiting = sw->waiting;
    sw->waiting = port;
}

static void flush_later(struct ss_switch *sw, struct port *port)
{
    if (port->is_flushing)
        return;
    port->is_flushing = true;
    port->next_flushing = sw->flushing;
    sw->flushing = port;
}

void traffic_wake(struct ss_switch *sw, struct port *port)
{
    flush_later(sw, port);
    if (port->is_waiting)
        wait_until(sw, port, 0);
    else
        make_ready(sw, port);
}

void traffic_enqueue(struct ss_switch *sw, uint32_t number, struct ss_packet *packet)
{
    struct port *port = number < SS_PORTS ? sw->ports[number] : NULL;
    if (!port) {
        drop(sw, packet, &sw->drops.no_port);
        return;
    }
    if (!port->up) {
        drop(sw, packet, &sw->drops.port_down);
        return;
    }
    uint32_t priority = packet->std.priority;
    if (priority >= sw->queue_count) {
        drop(sw, packet, &sw->drops.no_queue);
        return;
    }
    struct queue *queue = &port->queues[priority];
    if (queue->head && sw->pool.chunks_free < POOL_RESERVE) {
        drop(sw, packet, &sw->drops.no_buffer);
        return;
    }
    packet->enqueue_ns = sw->clock.now;
    packet->std.enq_timestamp = (uint32_t)clock_us(&sw->clock);
    packet->std.enq_qdepth = queue->stats.depth_packets;
    if (!queue_push(queue, packet)) {
        drop(sw, packet, &sw->drops.tail_drop);
        return;
    }
    if (!port->backlog)
        shaper_wake(&port->shaper, sw->clock.now);
    port->backlog |= 1u << priority;
    if (!port->is_waiting)
        make_ready(sw, port);
}

static struct ss_packet *dequeue(struct ss_switch *sw, struct port *port, uint32_t priority)
{
    struct queue *queue = &port->queues[priority];
    struct ss_packet *packet = queue_pop(queue);
    if (!queue->head)
        port->backlog &= ~(1u << priority);
    uint64_t delay_us = (sw->clock.now - packet->enqueue_ns) / 1000;
    packet->std.deq_timedelta = delay_us < UINT32_MAX ? (uint32_t)delay_us : UINT32_MAX;
    packet->std.deq_qdepth = queue->stats.depth_packets;
    queue->stats.delay_histogram[queue_delay_bucket(delay_us)]++;
    return packet;
}

static uint32_t pending(const struct port *port)
{
    return port->staged_count + (port->io && port->kind->pending ? port->kind->pending(port->io) : 0);
}

/* false: the interface takes no more for now, and is to be asked again. */
static bool flush(struct port *port)
{
    if (!port->up || !pending(port))
        return true;
    uint32_t count = port->staged_count;
    uint32_t taken = port->kind->send(port, port->staged, count);
    port->staged_count = count - taken;
    memmove(port->staged, port->staged + taken, port->staged_count * sizeof *port->staged);
    return !pending(port);
}

static void stage(struct ss_switch *sw, struct port *port, struct ss_packet *packet)
{
    port->staged[port->staged_count++] = packet;
    flush_later(sw, port);
}

static void drain(struct ss_switch *sw, struct port *port)
{
    while (port->backlog) {
        if (!shaper_open(&port->shaper, sw->clock.now)) {
            wait_until(sw, port, port->shaper.free);
            return;
        }
        if (port->staged_count >= FLUSH_AT && !flush(port) && port->staged_count == BATCH) {
            wait_until(sw, port, sw->clock.now + RETRY_NS);
            return;
        }
        uint32_t priority = 31 - (uint32_t)__builtin_clz(port->backlog);
        struct ss_packet *packet = pipeline_egress(sw, port, dequeue(sw, port, priority));
        if (!packet)
            continue;
        port->queues[priority].stats.sent_packets++;
        port->queues[priority].stats.sent_bytes += packet->length;
        shaper_charge(&port->shaper, packet->length, sw->clock.now);
        stage(sw, port, packet);
    }
}

void traffic_drain(struct ss_switch *sw)
{
    struct port *port;
    while ((port = sw->ready)) {
        sw->ready = port->next_ready;
        port->is_ready = false;
        drain(sw, port);
    }
}

void traffic_due(struct ss_switch *sw)
{
    if (sw->clock.now < sw->next_due)
        return;
    struct port *list = sw->waiting;
    sw->waiting = NULL;
    sw->next_due = NEVER;
    while (list) {
        struct port *port = list;
        list = port->next_waiting;
        port->is_waiting = false;
        if (sw->clock.now < port->due) {
            wait_until(sw, port, port->due);
            continue;
        }
        if (!flush(port))
            wait_until(sw, port, sw->clock.now + RETRY_NS);
        else
            drain(sw, port);
    }
    traffic_drain(sw);                 /* what their egress cloned */
}

void traffic_flush(struct ss_switch *sw)
{
    struct port *port;
    while ((port = sw->flushing)) {
        sw->flushing = port->next_flushing;
        port->is_flushing = false;
        if (!flush(port) && !port->is_waiting)
            wait_until(sw, port, sw->clock.now + RETRY_NS);
    }
}

void traffic_clear(struct port *port, uint64_t *cause)
{
    struct ss_switch *sw = port->sw;
    for (uint32_t i = 0; i < SS_QUEUES; i++)
        while (port->queues[i].head)
            drop(sw, queue_pop(&port->queues[i]), cause);
    port->backlog = 0;
}

void traffic_restamp(struct port *port, uint64_t now)
{
    for (uint32_t i = 0; i < SS_QUEUES; i++)
        for (struct ss_packet *packet = port->queues[i].head; packet; packet = packet->next)
            packet->enqueue_ns = now;
}

uint32_t traffic_depth(const struct ss_switch *sw, uint32_t number, uint32_t priority)
{
    const struct port *port = number < SS_PORTS ? sw->ports[number] : NULL;
    if (!port || priority >= SS_QUEUES)
        return 0;
    const struct ss_queue_stats *stats = &port->queues[priority].stats;
    return sw->depth_shift < 0 ? stats->depth_packets : stats->depth_bytes >> sw->depth_shift;
}

static void forget(struct port **list, struct port *port, struct port **(*next)(struct port *))
{
    while (*list && *list != port)
        list = next(*list);
    if (*list)
        *list = *next(port);
}

static struct port **next_ready(struct port *port) { return &port->next_ready; }
static struct port **next_waiting(struct port *port) { return &port->next_waiting; }
static struct port **next_flushing(struct port *port) { return &port->next_flushing; }

void traffic_forget(struct ss_switch *sw, struct port *port)
{
    forget(&sw->ready, port, next_ready);
    forget(&sw->waiting, port, next_waiting);
    forget(&sw->flushing, port, next_flushing);
    port->is_ready = port->is_waiting = port->is_flushing = false;
}

/* The port, and the lock, for a change of settings. */
static struct port *begin_change(struct ss_switch *sw, uint32_t number)
{
    ss_lock(sw);
    struct port *port = number < SS_PORTS ? sw->ports[number] : NULL;
    if (!port)
        ss_unlock(sw);
    return port;
}

static int end_change(struct ss_switch *sw, struct port *port)
{
    traffic_wake(sw, port);
    ss_unlock(sw);
    engine_wake(sw);
    return 0;
}

int ss_port_set_rate(struct ss_switch *sw, uint32_t number, uint64_t bits_per_second)
{
    struct port *port = begin_change(sw, number);
    if (!port)
        return -1;
    clock_read(&sw->clock);
    shaper_set_rate(&port->shaper, bits_per_second, sw->clock.now);
    return end_change(sw, port);
}

int ss_port_set_overhead(struct ss_switch *sw, uint32_t number, uint32_t bytes)
{
    struct port *port = bytes <= SHAPER_MAX_OVERHEAD ? begin_change(sw, number) : NULL;
    if (!port)
        return -1;
    port->shaper.overhead = bytes;
    return end_change(sw, port);
}

int ss_port_set_queue(struct ss_switch *sw, uint32_t number, uint32_t priority,
                      const struct ss_queue_settings *settings)
{
    struct port *port = priority < SS_QUEUES ? begin_change(sw, number) : NULL;
    if (!port)
        return -1;
    port->queues[priority].limit = *settings;
    return end_change(sw, port);
}

int ss_switch_set_queues(struct ss_switch *sw, uint32_t queues)
{
    if (!queues || queues > SS_QUEUES)
        return -1;
    ss_lock(sw);
    sw->queue_count = queues;
    ss_unlock(sw);
    return 0;
}

int ss_switch_set_depth_unit(struct ss_switch *sw, int32_t shift)
{
    if (shift > 31)
        return -1;
    ss_lock(sw);
    sw->depth_shift = shift;
    ss_unlock(sw);
    return 0;
}
