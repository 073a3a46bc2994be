/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * A port on an AF_PACKET socket: frames come through a ring that the kernel shares (TPACKET_V2, frame by frame:
 * version 3 delivers by block and would add its timeout to the delay), and leave through sendmmsg, past the qdisc.
 * The kernel takes 802.1Q tags out of frames and gives them beside; they are put back.
 */
#include "switch.h"

#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define RING_FRAMES 1024
#define RING_BLOCK 65536
#define MAC_BYTES 12
#define TAG_BYTES 4
#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

struct packet_io {
    struct io io;
    uint8_t *ring;
    size_t ring_bytes;
    uint32_t frame_bytes, next;
    uint64_t drops;
    struct mmsghdr messages[BATCH];
    struct iovec vectors[BATCH];
};

static void packet_close(struct io *io)
{
    struct packet_io *packet = (struct packet_io *)io;
    if (packet->ring)
        munmap(packet->ring, packet->ring_bytes);
    if (io->fd >= 0)
        close(io->fd);
}

static void packet_release(struct ss_switch *sw, struct io *io)
{
    (void)sw;
    free(io);
}

static bool set_option(int fd, int option, int value)
{
    return !setsockopt(fd, SOL_PACKET, option, &value, sizeof value);
}

static bool map_ring(struct packet_io *io, uint32_t frame_bytes)
{
    struct tpacket_req request = {
        .tp_block_size = frame_bytes > RING_BLOCK ? frame_bytes : RING_BLOCK,
        .tp_frame_size = frame_bytes, .tp_frame_nr = RING_FRAMES,
    };
    request.tp_block_nr = RING_FRAMES / (request.tp_block_size / frame_bytes);
    if (!set_option(io->io.fd, PACKET_VERSION, TPACKET_V2)
        || setsockopt(io->io.fd, SOL_PACKET, PACKET_RX_RING, &request, sizeof request))
        return false;
    io->frame_bytes = frame_bytes;
    io->ring_bytes = (size_t)request.tp_block_size * request.tp_block_nr;
    void *ring = mmap(NULL, io->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, io->io.fd, 0);
    io->ring = ring == MAP_FAILED ? NULL : ring;
    return io->ring;
}

static bool bind_interface(struct packet_io *io)
{
    struct packet_mreq promiscuous = {.mr_ifindex = (int)io->io.ifindex, .mr_type = PACKET_MR_PROMISC};
    struct sockaddr_ll address = {
        .sll_family = AF_PACKET, .sll_protocol = htobe16(ETH_P_ALL), .sll_ifindex = (int)io->io.ifindex,
    };
    return set_option(io->io.fd, PACKET_IGNORE_OUTGOING, 1) && set_option(io->io.fd, PACKET_QDISC_BYPASS, 1)
           && !setsockopt(io->io.fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promiscuous, sizeof promiscuous)
           && !bind(io->io.fd, (struct sockaddr *)&address, sizeof address);
}

static struct io *packet_open(struct ss_switch *sw, const char *interface, const char *asked, char *error,
                              uint32_t error_bytes)
{
    (void)asked;
    struct packet_io *io = calloc(1, sizeof *io);
    if (!io)
        return NULL;
    io->io.ifindex = interface ? if_nametoindex(interface) : 0;
    io->io.fd = -1;
    if (!io->io.ifindex)
        explain(error, error_bytes, "no interface %s", interface ? interface : "");
    else if ((io->io.fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0)
        explain(error, error_bytes, "%s: a packet socket needs root or CAP_NET_RAW (%s)", interface, strerror(errno));
    else if (!map_ring(io, sw->pool.chunk_bytes) || !bind_interface(io))
        explain(error, error_bytes, "%s: %s", interface, strerror(errno));
    else
        return &io->io;
    packet_close(&io->io);
    free(io);
    return NULL;
}

static uint32_t frame_length(const struct tpacket2_hdr *header)
{
    return header->tp_len + (header->tp_status & TP_STATUS_VLAN_VALID ? TAG_BYTES : 0);
}

static void copy_frame(struct ss_packet *packet, const struct tpacket2_hdr *header)
{
    const uint8_t *frame = (const uint8_t *)header + header->tp_mac;
    packet->length = frame_length(header);
    if (!(header->tp_status & TP_STATUS_VLAN_VALID)) {
        memcpy(packet->data, frame, header->tp_len);
        return;
    }
    uint16_t type = header->tp_status & TP_STATUS_VLAN_TPID_VALID ? header->tp_vlan_tpid : ETH_P_8021Q;
    const uint8_t tag[TAG_BYTES] = {type >> 8, type & 0xff, header->tp_vlan_tci >> 8, header->tp_vlan_tci & 0xff};
    memcpy(packet->data, frame, MAC_BYTES);
    memcpy(packet->data + MAC_BYTES, tag, TAG_BYTES);
    memcpy(packet->data + MAC_BYTES + TAG_BYTES, frame + MAC_BYTES, header->tp_len - MAC_BYTES);
}

static struct tpacket2_hdr *ring_frame(const struct packet_io *io, uint32_t index)
{
    return (struct tpacket2_hdr *)(io->ring + (size_t)index * io->frame_bytes);
}

static uint32_t packet_receive(struct port *port, struct ss_packet **packets, uint32_t max)
{
    struct packet_io *io = (struct packet_io *)port->io;
    struct ss_switch *sw = port->sw;
    uint32_t count = 0;
    for (uint32_t seen = 0; seen < max; seen++) {
        struct tpacket2_hdr *header = ring_frame(io, io->next);
        if (!(__atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
            break;
        io->next = (io->next + 1) % RING_FRAMES;
        __builtin_prefetch(ring_frame(io, io->next));
        uint32_t length = frame_length(header);
        bool fits = length <= pool_frame_limit(&sw->pool) && header->tp_snaplen == header->tp_len
                    && header->tp_len >= MAC_BYTES;
        struct ss_packet *packet = fits ? pool_take(&sw->pool) : NULL;
        if (packet) {
            copy_frame(packet, header);
            port_received(port, packet);
            if (port->up)
                packets[count++] = packet;
            else
                drop(sw, packet, &sw->drops.port_down);
        } else {
            port_refused(port, length, fits ? &sw->drops.no_buffer : &sw->drops.oversize);
        }
        __atomic_store_n(&header->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
    }
    return count;
}

/* What to do with a packet that the kernel did not take. */
enum verdict { RETRY, LOST, GONE };

static enum verdict judge(int error)
{
    switch (error) {
    case ENOBUFS: case EAGAIN: case EBUSY: case EINTR:
        return RETRY;                  /* the other end's ring is full: the packet was not sent */
    case ENETDOWN: case ENXIO: case ENODEV: case EBADF:
        return GONE;
    default:
        return LOST;
    }
}

static uint32_t packet_send(struct port *port, struct ss_packet **packets, uint32_t count)
{
    struct packet_io *io = (struct packet_io *)port->io;
    struct pool *pool = &port->sw->pool;
    for (uint32_t i = 0; i < count; i++) {
        io->vectors[i] = (struct iovec){packets[i]->data, packets[i]->length};
        io->messages[i].msg_hdr = (struct msghdr){.msg_iov = &io->vectors[i], .msg_iovlen = 1};
    }
    uint32_t taken = 0;
    while (taken < count) {
        int sent = sendmmsg(io->io.fd, io->messages + taken, count - taken, MSG_DONTWAIT);
        if (sent > 0) {
            for (uint32_t end = taken + (uint32_t)sent; taken < end; taken++) {
                port_sent(port, packets[taken]);
                pool_give(pool, packets[taken]);
            }
            continue;
        }
        enum verdict verdict = judge(errno);
        if (verdict == RETRY)
            break;
        for (uint32_t end = verdict == GONE ? count : taken + 1; taken < end; taken++) {
            port_failed(port, 1);
            pool_give(pool, packets[taken]);
        }
    }
    return taken;
}

static uint64_t packet_kernel_drops(struct io *io)
{
    struct packet_io *packet = (struct packet_io *)io;
    struct tpacket_stats stats = {0};
    socklen_t length = sizeof stats;
    if (!getsockopt(io->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &length))
        packet->drops += stats.tp_drops;       /* reading them sets them to 0 */
    return packet->drops;
}

const struct port_kind port_packet = {
    .name = "packet", .is_link = true, .open = packet_open, .receive = packet_receive, .send = packet_send,
    .kernel_drops = packet_kernel_drops, .close = packet_close, .release = packet_release,
};
