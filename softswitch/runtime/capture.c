/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * A port's capture: nanosecond pcap of both directions, since AF_XDP hides what is received from tcpdump.
 */
#include "switch.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#define CAPTURE_BUFFER 262144
#define CAPTURE_FLUSH_NS 100000000ull

struct capture {
    int fd;                            /* -1 after a failed write: the rest is not recorded */
    size_t used;
    uint8_t bytes[CAPTURE_BUFFER];
};

struct pcap_header { uint32_t magic; uint16_t major, minor; int32_t zone; uint32_t precision, snap, link; };
struct pcap_record { uint32_t seconds, nanoseconds, captured, length; };

static void write_out(struct capture *capture)
{
    for (size_t done = 0; capture->fd >= 0 && done < capture->used;) {
        ssize_t n = write(capture->fd, capture->bytes + done, capture->used - done);
        if (n > 0) {
            done += (size_t)n;
        } else {                       /* a full disk costs the capture, not the traffic */
            close(capture->fd);
            capture->fd = -1;
        }
    }
    capture->used = 0;
}

struct capture *capture_open(const char *path)
{
    struct capture *capture = malloc(sizeof *capture);
    if (!capture)
        return NULL;
    capture->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (capture->fd < 0) {
        free(capture);
        return NULL;
    }
    const struct pcap_header header = {.magic = 0xa1b23c4d, .major = 2, .minor = 4, .snap = 262144, .link = 1};
    memcpy(capture->bytes, &header, sizeof header);
    capture->used = sizeof header;
    write_out(capture);
    return capture;
}

void capture_frame(struct ss_switch *sw, struct capture *capture, const struct ss_packet *packet, uint64_t time_ns)
{
    if (capture->used + sizeof(struct pcap_record) + packet->length > CAPTURE_BUFFER)
        write_out(capture);
    if (!sw->clock.is_virtual)
        time_ns += sw->clock.wall_offset;
    const struct pcap_record record = {(uint32_t)(time_ns / NS_PER_SECOND), (uint32_t)(time_ns % NS_PER_SECOND),
                                       packet->length, packet->length};
    memcpy(capture->bytes + capture->used, &record, sizeof record);
    memcpy(capture->bytes + capture->used + sizeof record, packet->data, packet->length);
    capture->used += sizeof record + packet->length;
}

void capture_flush(struct ss_switch *sw)
{
    if (!sw->captures || (sw->clock.now < sw->capture_due && sw->capture_due <= sw->clock.now + CAPTURE_FLUSH_NS))
        return;
    sw->capture_due = sw->clock.now + CAPTURE_FLUSH_NS;
    for (uint32_t i = 0; i < SS_PORTS; i++)
        if (sw->ports[i] && sw->ports[i]->capture && sw->ports[i]->capture->used)
            write_out(sw->ports[i]->capture);
}

void capture_close(struct capture *capture)
{
    write_out(capture);
    if (capture->fd >= 0)
        close(capture->fd);
    free(capture);
}
