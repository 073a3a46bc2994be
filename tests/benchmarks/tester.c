/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * Load and its measurement, on one thread: bursts of frames at a given rate out of one interface, and what comes back
 * on another. The two may be in different network namespaces. It spins, on a core of its own.
 */
#include "tester.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* What the sink does with a frame the kernel does in the device's softirq, and charges the device for. So the sink takes
 * no more of a frame than the tester reads, into a ring that stays in the caches. */
#define SINK_FRAMES 4096
#define SINK_FRAME_BYTES 256
#define SINK_SNAP_BYTES 128
#define MARK 0x67726164                /* "grad": ours, behind the frame's own bytes */

struct mark { uint32_t magic, trial; uint64_t sent_ns; };

static uint64_t now(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int socket_in(const char *namespace, const char *interface, uint16_t protocol)
{
    char path[256];
    snprintf(path, sizeof path, "/run/netns/%s", namespace);
    int home = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), away = open(path, O_RDONLY | O_CLOEXEC);
    int fd = -1;
    if (home >= 0 && away >= 0 && !setns(away, CLONE_NEWNET)) {
        struct sockaddr_ll address = {.sll_family = AF_PACKET, .sll_protocol = htobe16(protocol)};
        address.sll_ifindex = (int)if_nametoindex(interface);
        fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
        if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address)) {
            close(fd);
            fd = -1;
        }
        if (setns(home, CLONE_NEWNET))
            abort();
    }
    close(home);
    close(away);
    return fd;
}

struct tester {
    int out, in;
    uint8_t *ring;
    uint32_t next, trial;
};

struct tester *tester_open(const char *out_namespace, const char *out, const char *in_namespace, const char *in)
{
    struct tester *tester = calloc(1, sizeof *tester);
    int one = 1, version = TPACKET_V2;
    struct tpacket_req request = {
        .tp_block_size = 65536, .tp_frame_size = SINK_FRAME_BYTES, .tp_frame_nr = SINK_FRAMES,
        .tp_block_nr = SINK_FRAMES / (65536 / SINK_FRAME_BYTES),
    };
    struct sock_filter first_bytes = {.code = BPF_RET | BPF_K, .k = SINK_SNAP_BYTES};
    struct sock_fprog filter = {.len = 1, .filter = &first_bytes};
    if (!tester)
        return NULL;
    tester->out = socket_in(out_namespace, out, 0);
    tester->in = socket_in(in_namespace, in, ETH_P_ALL);
    if (tester->out < 0 || tester->in < 0 || setsockopt(tester->out, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one)
        || setsockopt(tester->in, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter)
        || setsockopt(tester->in, SOL_PACKET, PACKET_VERSION, &version, sizeof version)
        || setsockopt(tester->in, SOL_PACKET, PACKET_RX_RING, &request, sizeof request)) {
        tester_close(tester);
        return NULL;
    }
    tester->ring = mmap(NULL, (size_t)SINK_FRAMES * SINK_FRAME_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, tester->in, 0);
    if (tester->ring == MAP_FAILED) {
        tester->ring = NULL;
        tester_close(tester);
        return NULL;
    }
    return tester;
}

void tester_close(struct tester *tester)
{
    if (tester->ring)
        munmap(tester->ring, (size_t)SINK_FRAMES * SINK_FRAME_BYTES);
    if (tester->out >= 0)
        close(tester->out);
    if (tester->in >= 0)
        close(tester->in);
    free(tester);
}

/* Count what arrived. Frames of former trials, and what others send, are not ours. */
static void drain(struct tester *tester, uint32_t mark_offset, struct trial *trial)
{
    for (;;) {
        struct tpacket2_hdr *header = (struct tpacket2_hdr *)(tester->ring + (size_t)tester->next * SINK_FRAME_BYTES);
        if (!(__atomic_load_n(&header->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER))
            return;
        struct mark mark;
        if (header->tp_snaplen >= mark_offset + sizeof mark) {
            memcpy(&mark, (uint8_t *)header + header->tp_mac + mark_offset, sizeof mark);
            if (mark.magic == MARK && mark.trial == tester->trial) {
                uint64_t arrived = (uint64_t)header->tp_sec * 1000000000u + header->tp_nsec;
                uint64_t latency = arrived > mark.sent_ns ? (arrived - mark.sent_ns) / 100 : 0;
                trial->latency[latency < TESTER_BUCKETS ? latency : TESTER_BUCKETS - 1]++;
                trial->received++;
            }
        }
        __atomic_store_n(&header->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        tester->next = (tester->next + 1) % SINK_FRAMES;
    }
}

int tester_run(struct tester *tester, const uint8_t *frames, uint32_t frame_count, uint32_t frame_bytes,
               uint32_t mark_offset, double rate, uint32_t burst, double seconds, struct trial *trial)
{
    static uint8_t copies[TESTER_BURST][2048];
    struct mmsghdr messages[TESTER_BURST] = {0};
    struct iovec vectors[TESTER_BURST];
    if (burst > TESTER_BURST || frame_bytes > sizeof copies[0] || mark_offset + sizeof(struct mark) > frame_bytes
        || mark_offset + sizeof(struct mark) > SINK_SNAP_BYTES)
        return -1;
    memset(trial, 0, sizeof *trial);
    tester->trial++;
    for (uint32_t i = 0; i < burst; i++) {
        vectors[i] = (struct iovec){copies[i], frame_bytes};
        messages[i].msg_hdr.msg_iov = &vectors[i];
        messages[i].msg_hdr.msg_iovlen = 1;
    }
    uint64_t begin = now(CLOCK_MONOTONIC), start = begin, last = begin, wanted = (uint64_t)(rate * seconds);
    for (uint64_t n = 0; n < wanted && last - begin < (uint64_t)(seconds * 3e9);) {
        uint64_t due = start + (uint64_t)((double)n * 1e9 / rate);
        while ((last = now(CLOCK_MONOTONIC)) < due)
            drain(tester, mark_offset, trial);
        /* A tester that was held up does not catch up in one flood: the time is lost, and the mean rate tells. */
        if (last > due + 1000000)
            start += last - due;
        struct mark mark = {MARK, tester->trial, now(CLOCK_REALTIME)};
        for (uint32_t i = 0; i < burst; i++) {
            memcpy(copies[i], frames + (size_t)((n + i) % frame_count) * frame_bytes, frame_bytes);
            memcpy(copies[i] + mark_offset, &mark, sizeof mark);
        }
        int sent = sendmmsg(tester->out, messages, burst, 0);
        if (sent > 0)
            trial->sent += (uint64_t)sent;
        else
            trial->refused += burst;
        n += burst;
        drain(tester, mark_offset, trial);
    }
    trial->sending_ns = last - begin + 1;
    uint64_t quiet = now(CLOCK_MONOTONIC) + 100000000u;
    for (uint64_t before = trial->received; now(CLOCK_MONOTONIC) < quiet && trial->received < trial->sent;) {
        drain(tester, mark_offset, trial);
        if (trial->received != before) {
            before = trial->received;
            quiet = now(CLOCK_MONOTONIC) + 20000000u;
        }
    }
    return 0;
}
