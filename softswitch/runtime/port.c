/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * Ports: adding and removing them, their state, their statistics.
 */
#include "switch.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

static struct port *find(const struct ss_switch *sw, uint32_t number)
{
    return number < SS_PORTS ? sw->ports[number] : NULL;
}

void port_received(struct port *port, struct ss_packet *packet)
{
    port->sw->received++;
    port->rx_packets++;
    port->rx_bytes += packet->length;
    packet->std.ingress_port = port->number;
    packet->arrival_ns = port->sw->clock.now;
    if (port->capture)
        capture_frame(port->sw, port->capture, packet, packet->arrival_ns);
}

void port_refused(struct port *port, uint32_t length, uint64_t *cause)
{
    port->sw->received++;
    port->rx_packets++;
    port->rx_bytes += length;
    (*cause)++;
}

void port_sent(struct port *port, const struct ss_packet *packet)
{
    port->sw->sent++;
    port->tx_packets++;
    port->tx_bytes += packet->length;
    if (port->capture)
        capture_frame(port->sw, port->capture, packet, port->sw->clock.now);
}

void port_failed(struct port *port, uint32_t count)
{
    port->tx_failed += count;
    port->sw->drops.tx_failed += count;
}

static void drop_staged(struct port *port)
{
    for (uint32_t i = 0; i < port->staged_count; i++)
        drop(port->sw, port->staged[i], &port->sw->drops.port_down);
    port->staged_count = 0;
}

void port_settle(struct ss_switch *sw, struct port *port)
{
    bool up = port->admin_up && port->carrier;
    if (up == port->up)
        return;
    port->up = up;
    if (!up) {
        traffic_clear(port, &sw->drops.port_down);
        drop_staged(port);
    }
    traffic_wake(sw, port);
    uint8_t state = up;
    uint32_t tag;
    uint8_t oldest;
    while (!ring_push(&sw->port_events, port->number, &state, 1))
        ring_pop(&sw->port_events, &tag, &oldest, 1);   /* the newest state is the one that counts */
    if (sw->state)
        ss_profiles_port_changed(sw->state, port->number, up);
    engine_event(sw);
}

static void add_receiver(struct ss_switch *sw, struct port *port)
{
    if (port->kind->receive)
        sw->receivers[sw->receiver_count++] = port;
    if (port->io->fd >= 0) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = port->number};
        epoll_ctl(sw->epoll_fd, EPOLL_CTL_ADD, port->io->fd, &event);
    }
}

static void remove_receiver(struct ss_switch *sw, struct port *port)
{
    for (uint32_t i = 0; i < sw->receiver_count; i++)
        if (sw->receivers[i] == port) {
            sw->receivers[i] = sw->receivers[--sw->receiver_count];
            break;
        }
    if (port->io->fd >= 0)
        epoll_ctl(sw->epoll_fd, EPOLL_CTL_DEL, port->io->fd, NULL);
}

/* Take the port's io off the data path, then end it without the lock: closing may wait for the kernel. */
static void end_io(struct ss_switch *sw, struct port *port)
{
    struct io *io = port->io;
    const struct port_kind *kind = port->kind;
    if (!io)
        return;
    remove_receiver(sw, port);
    if (kind->kernel_drops)
        port->kernel_drops_before += kind->kernel_drops(io);
    port->io = NULL;
    ss_unlock(sw);
    kind->close(io);
    ss_lock(sw);
    kind->release(sw, io);
}

static void begin_io(struct ss_switch *sw, struct port *port, struct io *io)
{
    port->io = io;
    add_receiver(sw, port);
}

static const struct port_kind *const kinds[] = {&port_xdp, &port_packet, &port_virtual, &port_pcap};

/* Open an interface as the kind named, or for "auto" as the first that works on it. */
static struct io *open_kind(struct ss_switch *sw, const char *interface, const char *name,
                            const struct port_kind **kind, char *error, uint32_t error_bytes)
{
    bool is_auto = !strcmp(name, "auto");
    struct io *io = NULL;
    *kind = NULL;
    if (error_bytes)
        error[0] = 0;
    for (size_t i = 0; !io && i < sizeof kinds / sizeof *kinds; i++)
        if (is_auto ? kinds[i] == &port_xdp || kinds[i] == &port_packet : !strcmp(name, kinds[i]->name)) {
            *kind = kinds[i];
            if (!kinds[i]->open)
                return NULL;
            io = kinds[i]->open(sw, interface, is_auto ? "auto" : name, error, error_bytes);
        }
    if (!*kind)
        explain(error, error_bytes, "no such kind of port: %s (xdp, packet, auto, virtual, pcap)", name);
    else if (!io)
        *kind = NULL;
    return io;
}

static struct port *port_create(struct ss_switch *sw, uint32_t number, const char *interface,
                                const struct port_kind *kind)
{
    struct port *port = calloc(1, sizeof *port);
    if (!port)
        return NULL;
    port->sw = sw;
    port->number = number;
    port->kind = kind;
    snprintf(port->interface, sizeof port->interface, "%s", interface ? interface : "");
    port->admin_up = true;
    for (uint32_t i = 0; i < SS_QUEUES; i++)
        port->queues[i].limit.packets = QUEUE_DEFAULT_PACKETS;
    return port;
}

static void take_link(struct port *port, struct link link)
{
    port->carrier = link.up;
    port->frame_limit = link.frame_limit;
}

int ss_port_add(struct ss_switch *sw, uint32_t number, const char *interface, const char *kind_name, char *error,
                uint32_t error_bytes)
{
    if (number >= SS_PORTS || number == sw->drop_port) {
        explain(error, error_bytes, "port %u: ports are 0 to %u and not the drop port", number, SS_PORTS - 2);
        return -1;
    }
    ss_lock(sw);
    bool is_used = find(sw, number);
    ss_unlock(sw);
    if (is_used) {
        explain(error, error_bytes, "port %u is in use", number);
        return -1;
    }
    const struct port_kind *kind;
    struct io *io = open_kind(sw, interface, kind_name, &kind, error, error_bytes);
    if (!kind)
        return -1;
    struct port *port = port_create(sw, number, interface, kind);
    ss_lock(sw);
    bool is_free = port && !sw->ports[number];
    if (!is_free || (io && kind->attach && !kind->attach(sw, io))) {
        explain(error, error_bytes, is_free ? "port %u: no packet memory left" : "port %u is in use", number);
        if (io) {
            kind->close(io);
            kind->release(sw, io);
        }
        ss_unlock(sw);
        free(port);
        return -1;
    }
    sw->ports[number] = port;
    if (io)
        begin_io(sw, port, io);
    port->carrier = true;
    if (kind->is_link)
        take_link(port, link_of(port->interface));
    port_settle(sw, port);
    ss_unlock(sw);
    if (kind->is_link)
        port_watch_start(sw);
    engine_wake(sw);
    return 0;
}

int ss_port_remove(struct ss_switch *sw, uint32_t number)
{
    ss_lock(sw);
    struct port *port = find(sw, number);
    if (!port) {
        ss_unlock(sw);
        return -1;
    }
    port->admin_up = false;
    port_settle(sw, port);
    sw->ports[number] = NULL;
    traffic_forget(sw, port);
    end_io(sw, port);
    if (port->capture) {
        sw->captures--;
        capture_close(port->capture);
    }
    ss_unlock(sw);
    free(port);
    return 0;
}

void port_follow_link(struct ss_switch *sw, struct port *port)
{
    uint32_t number = port->number;
    char interface[sizeof port->interface];
    memcpy(interface, port->interface, sizeof interface);
    struct link link = link_of(interface);
    take_link(port, link);
    if (!port->io || port->io->ifindex != link.ifindex) {
        port->carrier = false;
        port_settle(sw, port);
        end_io(sw, port);              /* lets the lock go: look the port up again */
        port = find(sw, number);
        if (!port || port->io || !link.ifindex)
            return;
        const struct port_kind *kind = port->kind;
        ss_unlock(sw);
        struct io *io = kind->open(sw, interface, kind->name, NULL, 0);
        ss_lock(sw);
        if (!io)
            return;                    /* the next change of the link tries again */
        port = find(sw, number);
        if (!port || port->io || port->kind != kind || strcmp(port->interface, interface) || (kind->attach && !kind->attach(sw, io))) {
            kind->close(io);
            kind->release(sw, io);
            return;
        }
        begin_io(sw, port, io);
        take_link(port, link_of(interface));
    }
    port_settle(sw, port);
}

void ss_port_set_up(struct ss_switch *sw, uint32_t number, bool up)
{
    ss_lock(sw);
    struct port *port = find(sw, number);
    if (port) {
        port->admin_up = up;
        port_settle(sw, port);
    }
    ss_unlock(sw);
}

bool ss_port_up(struct ss_switch *sw, uint32_t number)
{
    ss_lock(sw);
    const struct port *port = find(sw, number);
    bool up = port && port->up;
    ss_unlock(sw);
    return up;
}

const char *ss_port_kind(struct ss_switch *sw, uint32_t number)
{
    ss_lock(sw);
    const struct port *port = find(sw, number);
    const char *name = port ? port->kind->name : NULL;
    ss_unlock(sw);
    return name;
}

int32_t ss_port_event(struct ss_switch *sw, uint32_t *number, bool *up)
{
    uint8_t state;
    ss_lock(sw);
    int32_t length = ring_pop(&sw->port_events, number, &state, 1);
    ss_unlock(sw);
    if (length < 0)
        return -1;
    *up = state;
    return 0;
}

int ss_port_capture(struct ss_switch *sw, uint32_t number, const char *path)
{
    struct capture *capture = NULL;
    if (path && !(capture = capture_open(path)))
        return -1;
    ss_lock(sw);
    struct port *port = find(sw, number);
    if (port) {
        struct capture *former = port->capture;
        port->capture = capture;
        sw->captures += !!capture - !!former;
        capture = former;
    }
    ss_unlock(sw);
    if (capture)
        capture_close(capture);
    engine_wake(sw);
    return port ? 0 : -1;
}

int ss_port_stats(struct ss_switch *sw, uint32_t number, struct ss_port_stats *out)
{
    memset(out, 0, sizeof *out);
    ss_lock(sw);
    const struct port *port = find(sw, number);
    if (port) {
        out->rx_packets = port->rx_packets;
        out->rx_bytes = port->rx_bytes;
        out->rx_dropped = port->kernel_drops_before;
        out->tx_packets = port->tx_packets;
        out->tx_bytes = port->tx_bytes;
        out->tx_failed = port->tx_failed;
        out->rate = port->shaper.rate;
        out->up = port->up;
        out->present = !port->kind->open || port->io;
        out->pending = port->staged_count;
        if (port->io && port->kind->kernel_drops)
            out->rx_dropped += port->kind->kernel_drops(port->io);
        if (port->io && port->kind->pending)
            out->pending += port->kind->pending(port->io);
        for (uint32_t i = 0; i < SS_QUEUES; i++)
            out->queues[i] = port->queues[i].stats;
    }
    ss_unlock(sw);
    return port ? 0 : -1;
}

int ss_switch_set_cpu_port(struct ss_switch *sw, uint32_t number)
{
    if (number >= SS_PORTS || number == sw->drop_port)
        return -1;
    struct port *port = port_create(sw, number, NULL, &port_cpu);
    if (!port)
        return -1;
    ss_lock(sw);
    bool is_free = !sw->ports[number];
    uint32_t former = sw->cpu_port;
    if (is_free) {
        sw->ports[number] = port;
        sw->cpu_port = number;
        port->carrier = true;
        port_settle(sw, port);
    }
    ss_unlock(sw);
    if (is_free && former != NO_PORT)
        ss_port_remove(sw, former);
    if (!is_free)
        free(port);
    return is_free || former == number ? 0 : -1;
}
