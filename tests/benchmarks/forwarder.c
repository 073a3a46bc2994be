/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the switch is measured against: forwarders that move every frame from one interface to the other and do
 * nothing else, by recvmmsg and sendmmsg on packet sockets, and by AF_XDP in copy mode.
 */
#include "tester.h"

#include <errno.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BATCH 64
#define FRAME_BYTES 2048
#define PACKET_IGNORE_OUTGOING_OPTION 23

static int packet_socket(const char *interface)
{
    struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htobe16(ETH_P_ALL)};
    int one = 1, bytes = 4 << 20, fd = socket(AF_PACKET, SOCK_RAW, 0);
    address.sll_ifindex = (int)if_nametoindex(interface);
    setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING_OPTION, &one, sizeof one);
    setsockopt(fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
    return address.sll_ifindex && !bind(fd, (struct sockaddr *)&address, sizeof address) ? fd : -1;
}

int forward_packet(const char *a, const char *b)
{
    static uint8_t frames[BATCH][FRAME_BYTES];
    struct mmsghdr messages[BATCH] = {0};
    struct iovec vectors[BATCH];
    struct pollfd sockets[2] = {{.fd = packet_socket(a), .events = POLLIN}, {.fd = packet_socket(b), .events = POLLIN}};
    if (sockets[0].fd < 0 || sockets[1].fd < 0)
        return -1;
    for (;;) {
        poll(sockets, 2, -1);
        for (int side = 0; side < 2; side++) {
            for (int i = 0; i < BATCH; i++) {
                vectors[i] = (struct iovec){frames[i], FRAME_BYTES};
                messages[i].msg_hdr = (struct msghdr){.msg_iov = &vectors[i], .msg_iovlen = 1};
            }
            int count = recvmmsg(sockets[side].fd, messages, BATCH, MSG_DONTWAIT, NULL);
            for (int i = 0; i < count; i++)
                vectors[i].iov_len = messages[i].msg_len;
            for (int sent = 0; sent < count;) {
                int n = sendmmsg(sockets[!side].fd, messages + sent, (unsigned)(count - sent), 0);
                sent += n > 0 ? n : 1;
            }
        }
    }
}

/* AF_XDP: both sockets register the same memory; the first half of it is lent to one, the second to the other. */

#define CHUNKS 2048
#define ENTRIES 1024

struct ring { uint32_t *producer, *consumer; void *entries; };
struct side { int fd; struct ring rx, tx, fill, done; };

static int bpf(int command, union bpf_attr *attribute)
{
    return (int)syscall(SYS_bpf, command, attribute, sizeof *attribute);
}

static int map_ring(struct ring *ring, int fd, const struct xdp_ring_offset *offset, size_t entry_bytes, off_t place)
{
    uint8_t *map = mmap(NULL, offset->desc + ENTRIES * entry_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, place);
    *ring = (struct ring){(uint32_t *)(map + offset->producer), (uint32_t *)(map + offset->consumer),
                          map + offset->desc};
    return map == MAP_FAILED ? -1 : 0;
}

static int open_side(struct side *side, const char *interface, uint8_t *area, uint32_t first_chunk)
{
    struct xdp_umem_reg memory = {.addr = (uintptr_t)area, .len = CHUNKS * FRAME_BYTES, .chunk_size = FRAME_BYTES};
    struct sockaddr_xdp address = {.sxdp_family = AF_XDP, .sxdp_flags = XDP_COPY | XDP_USE_NEED_WAKEUP};
    struct xdp_mmap_offsets offsets;
    socklen_t length = sizeof offsets;
    uint32_t entries = ENTRIES, queue = 0;
    address.sxdp_ifindex = if_nametoindex(interface);
    int fd = side->fd = socket(AF_XDP, SOCK_RAW, 0);
    if (fd < 0 || setsockopt(fd, SOL_XDP, XDP_UMEM_REG, &memory, sizeof memory)
        || setsockopt(fd, SOL_XDP, XDP_UMEM_FILL_RING, &entries, sizeof entries)
        || setsockopt(fd, SOL_XDP, XDP_UMEM_COMPLETION_RING, &entries, sizeof entries)
        || setsockopt(fd, SOL_XDP, XDP_RX_RING, &entries, sizeof entries)
        || setsockopt(fd, SOL_XDP, XDP_TX_RING, &entries, sizeof entries)
        || getsockopt(fd, SOL_XDP, XDP_MMAP_OFFSETS, &offsets, &length)
        || map_ring(&side->rx, fd, &offsets.rx, sizeof(struct xdp_desc), XDP_PGOFF_RX_RING)
        || map_ring(&side->tx, fd, &offsets.tx, sizeof(struct xdp_desc), XDP_PGOFF_TX_RING)
        || map_ring(&side->fill, fd, &offsets.fr, sizeof(uint64_t), XDP_UMEM_PGOFF_FILL_RING)
        || map_ring(&side->done, fd, &offsets.cr, sizeof(uint64_t), XDP_UMEM_PGOFF_COMPLETION_RING)
        || bind(fd, (struct sockaddr *)&address, sizeof address))
        return -1;
    union bpf_attr map = {.map_type = BPF_MAP_TYPE_XSKMAP, .key_size = 4, .value_size = 4, .max_entries = 1};
    int map_fd = bpf(BPF_MAP_CREATE, &map);
    const struct bpf_insn program[] = {
        {.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 2, .src_reg = 1, .off = offsetof(struct xdp_md, rx_queue_index)},
        {.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = map_fd},
        {0},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 3, .imm = XDP_PASS},
        {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect_map},
        {.code = BPF_JMP | BPF_EXIT},
    };
    union bpf_attr load = {.prog_type = BPF_PROG_TYPE_XDP, .insns = (uintptr_t)program, .insn_cnt = 6,
                           .license = (uintptr_t)"Apache-2.0"};
    union bpf_attr put = {.map_fd = (uint32_t)map_fd, .key = (uintptr_t)&queue, .value = (uintptr_t)&fd};
    union bpf_attr link = {0};
    link.link_create.prog_fd = (uint32_t)bpf(BPF_PROG_LOAD, &load);
    link.link_create.target_ifindex = address.sxdp_ifindex;
    link.link_create.attach_type = BPF_XDP;
    link.link_create.flags = XDP_FLAGS_DRV_MODE;
    if (bpf(BPF_MAP_UPDATE_ELEM, &put) || bpf(BPF_LINK_CREATE, &link) < 0)
        return -1;
    uint64_t *fill = side->fill.entries;
    for (uint32_t i = 0; i < CHUNKS / 2; i++)
        fill[i] = (uint64_t)(first_chunk + i) * FRAME_BYTES;
    __atomic_store_n(side->fill.producer, CHUNKS / 2, __ATOMIC_RELEASE);
    return 0;
}

/* Move what `from` received to `to`, and give `from` the chunks whose frames have left. */
static uint32_t move(struct side *from, struct side *to)
{
    uint32_t have = __atomic_load_n(from->rx.producer, __ATOMIC_ACQUIRE) - *from->rx.consumer;
    uint32_t count = have < BATCH ? have : BATCH;
    const struct xdp_desc *received = from->rx.entries;
    struct xdp_desc *sending = to->tx.entries;
    uint64_t *fill = from->fill.entries;
    const uint64_t *done = to->done.entries;
    for (uint32_t i = 0; i < count; i++)
        sending[(*to->tx.producer + i) % ENTRIES] = received[(*from->rx.consumer + i) % ENTRIES];
    if (!count)
        return 0;
    __atomic_store_n(from->rx.consumer, *from->rx.consumer + count, __ATOMIC_RELEASE);
    __atomic_store_n(to->tx.producer, *to->tx.producer + count, __ATOMIC_RELEASE);
    while (sendto(to->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0 && errno == EAGAIN)
        ;
    uint32_t sent = __atomic_load_n(to->done.producer, __ATOMIC_ACQUIRE) - *to->done.consumer;
    for (uint32_t i = 0; i < sent; i++)
        fill[(*from->fill.producer + i) % ENTRIES] = done[(*to->done.consumer + i) % ENTRIES] & ~(uint64_t)(FRAME_BYTES - 1);
    __atomic_store_n(to->done.consumer, *to->done.consumer + sent, __ATOMIC_RELEASE);
    __atomic_store_n(from->fill.producer, *from->fill.producer + sent, __ATOMIC_RELEASE);
    return count;
}

int forward_xdp(const char *a, const char *b)
{
    struct side sides[2] = {0};
    uint8_t *area = mmap(NULL, CHUNKS * FRAME_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED || open_side(&sides[0], a, area, 0) || open_side(&sides[1], b, area, CHUNKS / 2))
        return -1;
    struct pollfd sockets[2] = {{.fd = sides[0].fd, .events = POLLIN}, {.fd = sides[1].fd, .events = POLLIN}};
    for (;;)
        if (!(move(&sides[0], &sides[1]) + move(&sides[1], &sides[0])))
            poll(sockets, 2, -1);
}
