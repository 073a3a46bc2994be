/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * The transport's packets through UDP sockets: bursts that the kernel cuts into datagrams (UDP_SEGMENT, else sendmmsg)
 * and datagrams that it has joined (UDP_GRO) or not (recvmmsg). cffi releases the GIL meanwhile.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define GRADIENT_BYTES 32
#define ECT_0 2
#define MAX_BURST 16
#define MAX_MESSAGES 64
#define BUFFER_BYTES 65536
#define CONTROL_BYTES 128
#define LINE_SLACK_NS 2e6
#define COALESCE_NS 100000      /* what a sender that waits waits longer, to send several bursts at once */
#define COALESCED_RATE 2e9      /* if a burst takes less than that */
#define OLDEST_ARRIVAL 1000000000

uint64_t datagrams_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* FNV-1a of port and address: the fields that name a peer, without padding, flow label and scope. */
uint64_t datagrams_source(const uint8_t *address, uint32_t bytes)
{
    struct sockaddr_storage name = {0};
    memcpy(&name, address, bytes < sizeof name ? bytes : sizeof name);
    const uint8_t *part = (const uint8_t *)&((struct sockaddr_in *)&name)->sin_addr;
    uint32_t size = 4;
    uint16_t port = ((struct sockaddr_in *)&name)->sin_port;
    if (name.ss_family == AF_INET6) {
        part = (const uint8_t *)&((struct sockaddr_in6 *)&name)->sin6_addr;
        size = 16;
    }
    uint64_t hash = (UINT64_C(14695981039346656037) ^ port) * UINT64_C(1099511628211);
    for (uint32_t i = 0; i < size; i++)
        hash = (hash ^ part[i]) * UINT64_C(1099511628211);
    return hash ? hash : 1;
}

int datagrams_options(int fd, int ipv6)
{
    int on = 1, tos = ECT_0;
    int level = ipv6 ? IPPROTO_IPV6 : IPPROTO_IP;
    if (setsockopt(fd, level, ipv6 ? IPV6_TCLASS : IP_TOS, &tos, sizeof tos) ||
        setsockopt(fd, level, ipv6 ? IPV6_RECVTCLASS : IP_RECVTOS, &on, sizeof on))
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);    /* without it: when it was taken */
    setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof on);          /* an old kernel: packets come one by one */
    return 0;
}

/* ---- sending ---- */

struct burst {
    struct iovec parts[2 * MAX_BURST];
    uint32_t count;
    uint32_t segment_bytes;
};

static void gather(const struct outbound *message, const uint32_t *indices, uint32_t count, struct burst *burst)
{
    burst->count = count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t index = indices[i];
        uint32_t bytes = index == message->packets - 1 ? message->last_bytes : message->payload_bytes;
        burst->parts[2 * i] = (struct iovec){message->headers + (uint64_t)index * GRADIENT_BYTES, GRADIENT_BYTES};
        burst->parts[2 * i + 1] =
            (struct iovec){(void *)(message->values + (uint64_t)index * message->payload_bytes), bytes};
    }
    burst->segment_bytes = GRADIENT_BYTES + (uint32_t)burst->parts[1].iov_len;
}

static int wait_for_room(int fd)
{
    poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, 1);
    return 0;
}

static int send_segmented(int fd, const struct turn *turn, struct burst *burst)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(uint16_t))];
    } control = {0};
    struct msghdr message = {
        .msg_name = (void *)turn->address,
        .msg_namelen = turn->address_bytes,
        .msg_iov = burst->parts,
        .msg_iovlen = 2 * burst->count,
    };
    if (burst->count > 1) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        *header = (struct cmsghdr){.cmsg_level = IPPROTO_UDP, .cmsg_type = UDP_SEGMENT,
                                   .cmsg_len = CMSG_LEN(sizeof(uint16_t))};
        uint16_t size = (uint16_t)burst->segment_bytes;
        memcpy(CMSG_DATA(header), &size, sizeof size);
    }
    return sendmsg(fd, &message, MSG_DONTWAIT) < 0 ? -errno : (int)burst->count;
}

static int send_singly(int fd, const struct turn *turn, struct burst *burst, uint32_t from)
{
    struct mmsghdr messages[MAX_BURST];
    for (uint32_t i = from; i < burst->count; i++)
        messages[i - from] = (struct mmsghdr){.msg_hdr = {.msg_name = (void *)turn->address,
                                                         .msg_namelen = turn->address_bytes,
                                                         .msg_iov = &burst->parts[2 * i], .msg_iovlen = 2}};
    int accepted = sendmmsg(fd, messages, burst->count - from, MSG_DONTWAIT);
    return accepted < 0 ? -errno : accepted;
}

/* Errors that say something of an earlier packet or of the moment, not of this socket. */
static int passing(int error)
{
    return error == EAGAIN || error == ENOBUFS || error == EINTR || error == ECONNREFUSED;
}

static int send_burst(int fd, const struct turn *turn, struct burst *burst, int *segment)
{
    for (uint32_t sent = 0; sent < burst->count;) {
        int accepted = *segment ? send_segmented(fd, turn, burst) : send_singly(fd, turn, burst, sent);
        if (accepted >= 0) {
            sent += (uint32_t)accepted;
        } else if (*segment && (accepted == -EINVAL || accepted == -EIO || accepted == -EOPNOTSUPP)) {
            *segment = 0;
        } else if (passing(-accepted)) {
            wait_for_room(fd);
        } else if (accepted == -ENETUNREACH || accepted == -EHOSTUNREACH || accepted == -EPERM ||
                   accepted == -EMSGSIZE || accepted == -ENETDOWN) {
            return 0;            /* as good as lost on the way: the protocol's timers see to it */
        } else {
            return accepted;
        }
    }
    return 0;
}

static int is_empty(const struct outbound *message)
{
    return message->again_next >= message->again_count && message->fresh_next >= message->fresh_count;
}

/* Note that a burst leaves: the link is busy for as long as it takes. What was missed in the last 2 ms is made up for. */
static void occupy(struct line *line, const struct pacer *pacer, const struct burst *burst, uint64_t now)
{
    double bits = 0;
    for (uint32_t i = 0; i < burst->count; i++)
        bits += 8.0 * (pacer->overhead + GRADIENT_BYTES + burst->parts[2 * i + 1].iov_len);
    double since = (double)now - LINE_SLACK_NS;
    line->free_ns = (line->free_ns > since ? line->free_ns : since) + bits * 1e9 / line->rate;
}

/* ---- receiving ---- */

static void keep_row(struct rows *rows, const uint8_t *frame, uint32_t length, uint64_t source, uint64_t at,
                     int verdict)
{
    if (rows->count == rows->capacity || length > rows->stride) {
        rows->overflow++;
        return;
    }
    memcpy(rows->frames + (uint64_t)rows->count * rows->stride, frame, length);
    rows->lengths[rows->count] = length;
    rows->sources[rows->count] = source;
    rows->times[rows->count] = at;
    rows->verdicts[rows->count++] = (uint8_t)verdict;
}

/* CLOCK_REALTIME, which the kernel's times of arrival are of, less CLOCK_MONOTONIC. */
static int64_t clock_offset(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec - (int64_t)datagrams_now();
}

static void read_control(struct msghdr *message, uint8_t *ecn, uint32_t *segment_bytes, int64_t *arrival)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level == IPPROTO_UDP && part->cmsg_type == UDP_GRO) {
            int size;
            memcpy(&size, CMSG_DATA(part), sizeof size);
            if (size > 0)
                *segment_bytes = (uint32_t)size;
        } else if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SO_TIMESTAMPNS) {
            struct timespec at;
            memcpy(&at, CMSG_DATA(part), sizeof at);
            *arrival = (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
        } else if (part->cmsg_level == IPPROTO_IP && part->cmsg_type == IP_TOS) {
            *ecn = *CMSG_DATA(part) & 3;
        } else if (part->cmsg_level == IPPROTO_IPV6 && part->cmsg_type == IPV6_TCLASS) {
            int class;
            memcpy(&class, CMSG_DATA(part), sizeof class);
            *ecn = class & 3;
        }
    }
}

/* Take what is there, give it to the core, and copy the rest into rows. Returns how many, or a negative errno. */
static int32_t take(int fd, struct core *core, struct reception *reception, struct rows *rows)
{
    struct mmsghdr messages[MAX_MESSAGES];
    struct iovec buffers[MAX_MESSAGES];
    struct sockaddr_in6 names[MAX_MESSAGES];
    union {
        struct cmsghdr header;
        char bytes[CONTROL_BYTES];
    } controls[MAX_MESSAGES];
    uint32_t wanted = reception->messages < MAX_MESSAGES ? reception->messages : MAX_MESSAGES;
    for (uint32_t i = 0; i < wanted; i++) {
        buffers[i] = (struct iovec){reception->buffers + (uint64_t)i * BUFFER_BYTES, BUFFER_BYTES};
        messages[i] = (struct mmsghdr){.msg_hdr = {.msg_name = &names[i], .msg_namelen = sizeof names[i],
                                                   .msg_iov = &buffers[i], .msg_iovlen = 1,
                                                   .msg_control = &controls[i], .msg_controllen = CONTROL_BYTES}};
    }
    int taken = recvmmsg(fd, messages, wanted, MSG_DONTWAIT, NULL);
    if (taken < 0)
        return passing(errno) ? 0 : -errno;
    uint64_t now = datagrams_now();
    int64_t offset = clock_offset();
    for (int i = 0; i < taken; i++) {
        struct msghdr *message = &messages[i].msg_hdr;
        uint32_t bytes = messages[i].msg_len, segment_bytes = bytes;
        uint8_t ecn = 0;
        if (message->msg_flags & (MSG_TRUNC | MSG_CTRUNC)) {
            reception->truncated++;
            continue;
        }
        int64_t arrival = 0;
        read_control(message, &ecn, &segment_bytes, &arrival);
        uint64_t at = (uint64_t)(arrival - offset);
        if (!arrival || at > now || now - at > OLDEST_ARRIVAL)     /* none, or the clock was set meanwhile */
            at = now;
        uint64_t source = datagrams_source((const uint8_t *)&names[i], message->msg_namelen);
        const uint8_t *frame = buffers[i].iov_base;
        do {
            uint32_t length = bytes < segment_bytes ? bytes : segment_bytes;
            int verdict = core_accept(core, frame, length, ecn, source, at);
            if (verdict == CONTROL || verdict == UNKNOWN)
                keep_row(rows, frame, length, source, at, verdict);
            frame += length;
            bytes -= length;
        } while (bytes);
    }
    return taken;
}

/* ---- both ---- */

/* Whether Python need not hear of more packets to complete a message. */
static int is_enough(const struct core *core)
{
    for (uint32_t i = 0; i < core->touched_count; i++) {
        const struct inbound *message = core->touched[i];
        if (!message->closed && message->arrived_values >= message->enough_values &&
            message->arrived_protected >= message->enough_protected)
            return 1;
    }
    return 0;
}

static struct turn *first_due(struct turn *turns, uint32_t count)
{
    struct turn *first = NULL;
    for (uint32_t i = 0; i < count; i++)
        if (!is_empty(turns[i].message) && (!first || turns[i].pacer->due_ns < first->pacer->due_ns))
            first = &turns[i];
    return first;
}

/* Wait until `until`, or until the wake-up call can be read, or the socket (unless `fd` is -1). Returns which: 1 the
 * call, which it takes, 2 the socket, or a negative errno. */
static int wait_until(int fd, int wake_fd, uint64_t now, uint64_t until)
{
    struct pollfd ready[2] = {{.fd = wake_fd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    uint64_t left = until > now ? until - now : 0;
    struct timespec timeout = {.tv_sec = (time_t)(left / 1000000000), .tv_nsec = (long)(left % 1000000000)};
    if (ppoll(ready, 2, &timeout, NULL) < 0)
        return errno == EINTR ? 0 : -errno;
    uint64_t discarded;
    if (ready[0].revents && read(wake_fd, &discarded, sizeof discarded) < 0 && errno != EAGAIN)
        return -errno;
    return ready[0].revents ? 1 : ready[1].revents ? 2 : 0;
}

int datagrams_run(int fd, int wake_fd, struct core *core, struct reception *reception, struct rows *rows,
                  struct turn *turns, uint32_t count, struct line *line, uint64_t until, int *segment)
{
    uint64_t now = datagrams_now(), looked = 0, news = 0;
    int flowing = 0;
    for (;;) {
        if (now >= looked + reception->look_ns) {
            int32_t taken = take(fd, core, reception, rows);
            if (taken < 0)
                return taken;
            flowing = taken > 0;
            looked = (uint32_t)taken == reception->messages ? 0 : now;
            if (rows->count || is_enough(core))
                return 0;
            if (core->touched_count && !news)
                news = now;
        }
        if (now >= until || (news && now >= news + reception->gather_ns))
            return 0;
        struct turn *first = first_due(turns, count);
        uint64_t next = news && news + reception->gather_ns < until ? news + reception->gather_ns : until;
        if (first) {
            uint64_t due = (uint64_t)(first->pacer->due_ns > line->free_ns ? first->pacer->due_ns : line->free_ns);
            if (due <= now) {
                uint32_t indices[MAX_BURST];
                struct burst burst;
                gather(first->message, indices, outbound_next(first->message, first->pacer, now, indices), &burst);
                occupy(line, first->pacer, &burst, now);
                int error = send_burst(fd, first, &burst, segment);
                if (error || is_empty(first->message))
                    return error;
                now = datagrams_now();
                continue;
            }
            due += first->pacer->rate > COALESCED_RATE ? COALESCE_NS : 0;
            next = due < next ? due : next;
        }
        if (flowing && looked + reception->look_ns < next)
            next = looked + reception->look_ns;
        int woken = wait_until(flowing ? -1 : fd, wake_fd, now, next);
        if (woken < 0 || woken == 1)
            return woken < 0 ? woken : 0;
        if (woken == 2)
            looked = 0;
        now = datagrams_now();
    }
}
