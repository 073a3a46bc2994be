/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * A port on an AF_XDP socket in copy mode.
 *
 * Every port registers the switch's whole packet area as its memory, so a chunk that one port received is handed to
 * another port's transmit ring as it is. A chunk is the kernel's from the moment it stands in a fill or transmit ring
 * until it comes back in a receive or completion ring; `held` remembers which. The program that redirects frames to
 * the socket is six instructions, attached by a link: link, map and socket go with the process.
 */
#include "switch.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/ethtool.h>
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RX_ENTRIES 2048                /* at least FILL_MAX */
#define FILL_MAX 1024                  /* chunks lent for reception, if memory allows */
#define FILL_MIN 64
#define TX_ENTRIES 256
#define XDP_MAX_CHUNK 4096             /* a page */
#define BIND_TRIES 100
#define BIND_PAUSE_NS 5000000
#define TAG_BYTES 4
#define ETHERNET_BYTES 14

/* One direction of the four: `produced` and `consumed` are shared with the kernel; `own` is this side's index. */
struct xring {
    void *map;
    size_t map_bytes;
    uint32_t *producer, *consumer;
    void *entries;
    uint32_t mask, own;
};

struct xdp_io {
    struct io io;
    int map_fd, program_fd, link_fd;
    struct xring rx, tx, fill, done;
    uint32_t fill_target, filled;      /* chunks to lend for reception, and lent */
    uint32_t lent;                     /* of kernel_chunks */
    uint32_t sending;                  /* in the transmit ring or not yet completed */
    uint32_t chunk_count;
    uint8_t *held;                     /* by chunk: the kernel's */
};

static int bpf(int command, union bpf_attr *attribute)
{
    return (int)syscall(SYS_bpf, command, attribute, sizeof *attribute);
}

static int create_map(void)
{
    union bpf_attr attribute = {
        .map_type = BPF_MAP_TYPE_XSKMAP, .key_size = 4, .value_size = 4, .max_entries = 1,
    };
    int fd = bpf(BPF_MAP_CREATE, &attribute);
    if (fd < 0 && errno == EPERM) {    /* before Linux 5.11 maps count as locked memory */
        setrlimit(RLIMIT_MEMLOCK, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY});
        fd = bpf(BPF_MAP_CREATE, &attribute);
    }
    return fd;
}

/* return bpf_redirect_map(&map, context->rx_queue_index, XDP_PASS) */
static int load_program(int map_fd)
{
    const struct bpf_insn program[] = {
        {.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = BPF_REG_2, .src_reg = BPF_REG_1,
         .off = offsetof(struct xdp_md, rx_queue_index)},
        {.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = BPF_REG_1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = map_fd},
        {0},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_3, .imm = XDP_PASS},
        {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect_map},
        {.code = BPF_JMP | BPF_EXIT},
    };
    union bpf_attr attribute = {
        .prog_type = BPF_PROG_TYPE_XDP, .insns = (uintptr_t)program, .insn_cnt = sizeof program / sizeof *program,
        .license = (uintptr_t)"Apache-2.0",
    };
    return bpf(BPF_PROG_LOAD, &attribute);
}

static int attach_program(int program_fd, uint32_t ifindex, uint32_t mode)
{
    union bpf_attr attribute = {0};
    attribute.link_create.prog_fd = (uint32_t)program_fd;
    attribute.link_create.target_ifindex = ifindex;
    attribute.link_create.attach_type = BPF_XDP;
    attribute.link_create.flags = mode;
    return bpf(BPF_LINK_CREATE, &attribute);
}

static int put_socket(int map_fd, int socket_fd)
{
    uint32_t queue = 0;
    union bpf_attr attribute = {
        .map_fd = (uint32_t)map_fd, .key = (uintptr_t)&queue, .value = (uintptr_t)&socket_fd, .flags = BPF_ANY,
    };
    return bpf(BPF_MAP_UPDATE_ELEM, &attribute);
}

static bool map_xring(struct xring *ring, int fd, const struct xdp_ring_offset *offset, uint32_t entries,
                      size_t entry_bytes, off_t place)
{
    ring->map_bytes = offset->desc + entries * entry_bytes;
    void *map = mmap(NULL, ring->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, place);
    if (map == MAP_FAILED)
        return false;
    ring->map = map;
    ring->producer = (uint32_t *)((uint8_t *)map + offset->producer);
    ring->consumer = (uint32_t *)((uint8_t *)map + offset->consumer);
    ring->entries = (uint8_t *)map + offset->desc;
    ring->mask = entries - 1;
    return true;
}

static bool set_option(int fd, int option, uint32_t value)
{
    return !setsockopt(fd, SOL_XDP, option, &value, sizeof value);
}

static bool map_rings(struct xdp_io *io)
{
    int fd = io->io.fd;
    struct xdp_mmap_offsets offsets;
    socklen_t length = sizeof offsets;
    return set_option(fd, XDP_UMEM_FILL_RING, FILL_MAX) && set_option(fd, XDP_UMEM_COMPLETION_RING, TX_ENTRIES)
           && set_option(fd, XDP_RX_RING, RX_ENTRIES) && set_option(fd, XDP_TX_RING, TX_ENTRIES)
           && !getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &length)
           && map_xring(&io->fill, fd, &offsets.fr, FILL_MAX, sizeof(uint64_t), XDP_UMEM_PGOFF_FILL_RING)
           && map_xring(&io->done, fd, &offsets.cr, TX_ENTRIES, sizeof(uint64_t), XDP_UMEM_PGOFF_COMPLETION_RING)
           && map_xring(&io->rx, fd, &offsets.rx, RX_ENTRIES, sizeof(struct xdp_desc), XDP_PGOFF_RX_RING)
           && map_xring(&io->tx, fd, &offsets.tx, TX_ENTRIES, sizeof(struct xdp_desc), XDP_PGOFF_TX_RING);
}

/* The kernel releases a closed socket's queue a moment later: a port that returns at once finds it busy. */
static bool bind_socket(int fd, const struct sockaddr_xdp *address)
{
    for (uint32_t tries = 0; bind(fd, (const struct sockaddr *)address, sizeof *address); tries++) {
        if (errno != EBUSY || tries == BIND_TRIES)
            return false;
        nanosleep(&(struct timespec){.tv_nsec = BIND_PAUSE_NS}, NULL);
    }
    return true;
}

static bool open_socket(struct xdp_io *io, const struct pool *pool)
{
    struct xdp_umem_reg memory = {
        .addr = (uintptr_t)pool->area, .len = pool->area_bytes, .chunk_size = pool->chunk_bytes,
    };
    struct sockaddr_xdp address = {
        .sxdp_family = AF_XDP, .sxdp_flags = XDP_COPY | XDP_USE_NEED_WAKEUP, .sxdp_ifindex = io->io.ifindex,
    };
    io->io.fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
    return io->io.fd >= 0 && !setsockopt(io->io.fd, SOL_XDP, XDP_UMEM_REG, &memory, sizeof memory) && map_rings(io)
           && bind_socket(io->io.fd, &address);
}

/* What a socket on one queue, without fragments, would miss of this interface; NULL: nothing. */
static const char *unsuited(const char *interface, const struct pool *pool)
{
    struct ethtool_channels channels = {.cmd = ETHTOOL_GCHANNELS};
    struct ifreq request = {0};
    const char *reason = NULL;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", interface);
    if (!ioctl(fd, SIOCGIFMTU, &request)
        && (uint32_t)request.ifr_mtu + ETHERNET_BYTES + TAG_BYTES > pool_frame_limit(pool))
        reason = "its MTU is greater than the switch's frames";
    request.ifr_data = (void *)&channels;
    if (!reason && !ioctl(fd, SIOCETHTOOL, &request) && channels.rx_count + channels.combined_count > 1)
        reason = "it has more than one receive queue";
    close(fd);
    return reason;
}

static void unmap_xring(struct xring *ring)
{
    if (ring->map)
        munmap(ring->map, ring->map_bytes);
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

static void xdp_close(struct io *base)
{
    struct xdp_io *io = (struct xdp_io *)base;
    close_fd(io->link_fd);
    unmap_xring(&io->rx);
    unmap_xring(&io->tx);
    unmap_xring(&io->fill);
    unmap_xring(&io->done);
    close_fd(io->io.fd);               /* the kernel has let go of the memory when this returns */
    close_fd(io->map_fd);
    close_fd(io->program_fd);
}

static void xdp_release(struct ss_switch *sw, struct io *base)
{
    struct xdp_io *io = (struct xdp_io *)base;
    for (uint32_t i = 0; i < io->chunk_count; i++)
        if (io->held[i])
            pool_give_chunk(&sw->pool, i);
    sw->kernel_chunks -= io->lent;
    free(io->held);
    free(io);
}

static struct io *xdp_open(struct ss_switch *sw, const char *interface, const char *asked, char *error,
                           uint32_t error_bytes)
{
    struct xdp_io *io = calloc(1, sizeof *io);
    const char *reason;
    if (!io)
        return NULL;
    io->io.fd = io->map_fd = io->program_fd = io->link_fd = -1;
    io->io.ifindex = interface ? if_nametoindex(interface) : 0;
    io->chunk_count = sw->pool.chunk_count;
    io->held = calloc(io->chunk_count, 1);
    if (!io->io.ifindex)
        explain(error, error_bytes, "no interface %s", interface ? interface : "");
    else if ((reason = unsuited(interface, &sw->pool)) || (sw->pool.chunk_bytes > XDP_MAX_CHUNK
                                                         && (reason = "the switch's frames are larger than a page")))
        explain(error, error_bytes, "%s: no AF_XDP: %s", interface, reason);
    else if (!io->held || !open_socket(io, &sw->pool) || (io->map_fd = create_map()) < 0
             || (io->program_fd = load_program(io->map_fd)) < 0 || put_socket(io->map_fd, io->io.fd))
        explain(error, error_bytes, "%s: no AF_XDP: %s", interface, strerror(errno));
    else if ((io->link_fd = attach_program(io->program_fd, io->io.ifindex, XDP_FLAGS_DRV_MODE)) < 0
             /* without the driver's help AF_XDP is slower than a packet socket: only where it is asked for by name */
             && (!strcmp(asked, "auto")
                 || (io->link_fd = attach_program(io->program_fd, io->io.ifindex, XDP_FLAGS_SKB_MODE)) < 0))
        explain(error, error_bytes, "%s: no AF_XDP: its driver takes no program (%s)", interface, strerror(errno));
    else
        return &io->io;
    xdp_close(&io->io);
    free(io->held);
    free(io);
    return NULL;
}

/* Lend chunks for reception, as far as there are any. */
static void refill(struct pool *pool, struct xdp_io *io)
{
    struct xring *ring = &io->fill;
    uint64_t *entries = ring->entries;
    uint32_t count = io->fill_target - io->filled;
    if (count > pool->chunks_free)
        count = pool->chunks_free;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t chunk = pool->chunks[--pool->chunks_free];
        io->held[chunk] = 1;
        entries[ring->own++ & ring->mask] = (uint64_t)chunk << pool->chunk_shift;
    }
    io->filled += count;
    __atomic_store_n(ring->producer, ring->own, __ATOMIC_RELEASE);
}

static bool xdp_attach(struct ss_switch *sw, struct io *base)
{
    struct xdp_io *io = (struct xdp_io *)base;
    uint32_t target = FILL_MAX;
    while (target > FILL_MIN && sw->kernel_chunks + target > sw->pool.chunk_count / 2)
        target /= 2;
    if (target + POOL_RESERVE > sw->pool.chunks_free)
        return false;
    io->fill_target = io->lent = target;
    sw->kernel_chunks += target;
    refill(&sw->pool, io);
    return true;
}

static uint32_t xdp_receive(struct port *port, struct ss_packet **packets, uint32_t max)
{
    struct xdp_io *io = (struct xdp_io *)port->io;
    struct ss_switch *sw = port->sw;
    struct xring *ring = &io->rx;
    const struct xdp_desc *entries = ring->entries;
    uint32_t available = __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE) - ring->own, count = 0;
    if (!available)
        return 0;
    if (available > max)
        available = max;
    for (uint32_t i = 0; i < available; i++) {
        const struct xdp_desc *entry = &entries[ring->own++ & ring->mask];
        uint32_t chunk = (uint32_t)(entry->addr >> sw->pool.chunk_shift);
        struct ss_packet *packet = pool_wrap(&sw->pool, chunk);
        io->held[chunk] = 0;
        packet->data = sw->pool.area + entry->addr;
        packet->length = entry->len;
        port_received(port, packet);
        if (port->up)
            packets[count++] = packet;
        else
            drop(sw, packet, &sw->drops.port_down);
    }
    __atomic_store_n(ring->consumer, ring->own, __ATOMIC_RELEASE);
    io->filled -= available;
    refill(&sw->pool, io);
    return count;
}

/* Take back the chunks of what has been sent. */
static void reap(struct pool *pool, struct xdp_io *io)
{
    struct xring *ring = &io->done;
    const uint64_t *entries = ring->entries;
    uint32_t available = __atomic_load_n(ring->producer, __ATOMIC_ACQUIRE) - ring->own;
    for (uint32_t i = 0; i < available; i++) {
        uint32_t chunk = (uint32_t)(entries[ring->own++ & ring->mask] >> pool->chunk_shift);
        io->held[chunk] = 0;
        pool_give_chunk(pool, chunk);
    }
    io->sending -= available;
    __atomic_store_n(ring->consumer, ring->own, __ATOMIC_RELEASE);
}

static uint32_t xdp_pending(const struct io *base)
{
    const struct xdp_io *io = (const struct xdp_io *)base;
    return io->tx.own - __atomic_load_n(io->tx.consumer, __ATOMIC_ACQUIRE);
}

/* The kernel copies at most 32 frames out of the ring per call, and says EAGAIN when more remain. */
static void kick(struct xdp_io *io)
{
    uint32_t before = xdp_pending(&io->io);
    while (before && sendto(io->io.fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 && errno == EAGAIN) {
        uint32_t after = xdp_pending(&io->io);
        if (after == before)
            break;
        before = after;
    }
}

static uint32_t xdp_send(struct port *port, struct ss_packet **packets, uint32_t count)
{
    struct xdp_io *io = (struct xdp_io *)port->io;
    struct pool *pool = &port->sw->pool;
    struct xring *ring = &io->tx;
    struct xdp_desc *entries = ring->entries;
    uint32_t room = TX_ENTRIES - io->sending;
    if (count > room)
        count = room;
    for (uint32_t i = 0; i < count; i++) {
        struct ss_packet *packet = packets[i];
        if (packet->length < ETHERNET_BYTES || packet->length > port->frame_limit) {
            port_failed(port, 1);      /* the kernel would lose it without a word */
            pool_give(pool, packet);
            continue;
        }
        uint32_t chunk = pool_chunk_of(pool, packet->buffer);
        io->held[chunk] = 1;
        entries[ring->own++ & ring->mask] = (struct xdp_desc){
            .addr = (uint64_t)(packet->data - pool->area), .len = packet->length,
        };
        port_sent(port, packet);
        pool_unwrap(pool, packet);
        io->sending++;
    }
    __atomic_store_n(ring->producer, ring->own, __ATOMIC_RELEASE);
    kick(io);
    reap(pool, io);
    return count;
}

static uint64_t xdp_kernel_drops(struct io *io)
{
    struct xdp_statistics stats = {0};
    socklen_t length = sizeof stats;
    getsockopt(io->fd, SOL_XDP, XDP_STATISTICS, &stats, &length);
    return stats.rx_dropped + stats.rx_ring_full;
}

const struct port_kind port_xdp = {
    .name = "xdp", .is_link = true, .open = xdp_open, .attach = xdp_attach, .receive = xdp_receive, .send = xdp_send,
    .kernel_drops = xdp_kernel_drops, .pending = xdp_pending, .close = xdp_close, .release = xdp_release,
};
