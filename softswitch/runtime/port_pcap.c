/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * A port that is two pcap files, named "in.pcap:out.pcap", either of which may be empty. Frames are received as fast
 * as the switch takes them; what the port sends is written to the second file.
 */
#include "switch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

struct pcap_io {
    struct io io;
    FILE *in;
    bool is_swapped, is_broken;
    struct capture *out;
};

#define MAGIC_US 0xa1b2c3d4u
#define MAGIC_NS 0xa1b23c4du

static uint32_t order(const struct pcap_io *io, uint32_t value)
{
    return io->is_swapped ? __builtin_bswap32(value) : value;
}

static bool read_header(struct pcap_io *io)
{
    uint32_t header[6];
    if (fread(header, sizeof header, 1, io->in) != 1)
        return false;
    uint32_t swapped = __builtin_bswap32(header[0]);
    io->is_swapped = swapped == MAGIC_US || swapped == MAGIC_NS;
    uint32_t magic = order(io, header[0]);
    return (magic == MAGIC_US || magic == MAGIC_NS) && (order(io, header[5]) & 0xffff) == 1;
}

static bool are_one_file(const char *one, const char *other)
{
    struct stat a, b;
    return !stat(one, &a) && !stat(other, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static void pcap_close(struct io *io)
{
    struct pcap_io *pcap = (struct pcap_io *)io;
    if (pcap->in)
        fclose(pcap->in);
    if (pcap->out)
        capture_close(pcap->out);
}

static void pcap_release(struct ss_switch *sw, struct io *io)
{
    (void)sw;
    free(io);
}

static struct io *pcap_open(struct ss_switch *sw, const char *interface, const char *asked, char *error,
                            uint32_t error_bytes)
{
    (void)sw, (void)asked;
    char in[256];
    const char *colon = interface ? strrchr(interface, ':') : NULL;
    if (!colon || (size_t)(colon - interface) >= sizeof in) {
        explain(error, error_bytes, "a pcap port is named IN.pcap:OUT.pcap, not %s", interface ? interface : "");
        return NULL;
    }
    snprintf(in, sizeof in, "%.*s", (int)(colon - interface), interface);
    const char *out = colon + 1;
    struct pcap_io *io = calloc(1, sizeof *io);
    if (!io)
        return NULL;
    io->io.fd = -1;
    const char *reason = NULL;
    if (*in && !(io->in = fopen(in, "rbe")))
        explain(error, error_bytes, "%s: %s", in, strerror(errno)), reason = in;
    else if (*in && !read_header(io))
        explain(error, error_bytes, "%s is no pcap file of Ethernet frames", in), reason = in;
    else if (*in && *out && are_one_file(in, out))     /* opened for writing, it would be empty before it is read */
        explain(error, error_bytes, "%s is read and written at once", in), reason = out;
    else if (*out && !(io->out = capture_open(out)))
        explain(error, error_bytes, "%s: %s", out, strerror(errno)), reason = out;
    if (reason) {
        pcap_close(&io->io);
        free(io);
        return NULL;
    }
    return &io->io;
}

static uint32_t pcap_receive(struct port *port, struct ss_packet **packets, uint32_t max)
{
    struct pcap_io *io = (struct pcap_io *)port->io;
    struct ss_switch *sw = port->sw;
    uint32_t count = 0, record[4];
    while (io->in && !io->is_broken && count < max && fread(record, sizeof record, 1, io->in) == 1) {
        uint32_t length = order(io, record[2]);
        struct ss_packet *packet = length <= pool_frame_limit(&sw->pool) ? pool_take(&sw->pool) : NULL;
        if (!packet) {
            bool fits = length <= pool_frame_limit(&sw->pool);
            port_refused(port, length, fits ? &sw->drops.no_buffer : &sw->drops.oversize);
            io->is_broken = fseek(io->in, (long)length, SEEK_CUR) != 0;
            continue;
        }
        if (fread(packet->data, 1, length, io->in) != length) {
            io->is_broken = true;      /* cut off in the middle of a frame */
            pool_give(&sw->pool, packet);
            break;
        }
        packet->length = length;
        port_received(port, packet);
        if (port->up)
            packets[count++] = packet;
        else
            drop(sw, packet, &sw->drops.port_down);
    }
    return count;
}

static uint32_t pcap_send(struct port *port, struct ss_packet **packets, uint32_t count)
{
    struct pcap_io *io = (struct pcap_io *)port->io;
    for (uint32_t i = 0; i < count; i++) {
        if (io->out)
            capture_frame(port->sw, io->out, packets[i], port->sw->clock.now);
        port_sent(port, packets[i]);
        pool_give(&port->sw->pool, packets[i]);
    }
    return count;
}

const struct port_kind port_pcap = {
    .name = "pcap", .open = pcap_open, .receive = pcap_receive, .send = pcap_send, .close = pcap_close,
    .release = pcap_release,
};
