/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * Paced batched sending and batched receiving of the rows of one frame matrix, on any datagram or packet socket.
 * Called through cffi, which releases the GIL meanwhile. Errors come back as a negative errno.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <sys/socket.h>
#include <time.h>

#define MAX_BURST 16    /* BMv2's receive ring holds about 32 frames */
#define MAX_BATCH 512

/* When packets are due. Rates are in bits of whole frames per second; `overhead` bytes stand before each row's. */
struct pace {
    double due_ns;         /* CLOCK_MONOTONIC: when the next packet is due */
    double rate;           /* the sender's own rate */
    double line_rate;      /* what it never exceeds, even when it catches up: its network card */
    uint32_t overhead;
    uint32_t burst;        /* packets sent at once, at most MAX_BURST */
    uint64_t late_ns;      /* out: the latest that a burst left after it was due */
};

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

static void sleep_until(double ns)
{
    struct timespec until = {.tv_sec = (time_t)(ns / 1e9)};
    until.tv_nsec = (long)(ns - until.tv_sec * 1e9);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

/* Send rows [0, count) in bursts, each when it is due. Returns the number of rows sent. */
int64_t batch_send(int fd, const uint8_t *frames, uint32_t stride, const uint32_t *lengths, uint32_t count,
                   struct pace *pace)
{
    uint32_t burst = pace->burst < MAX_BURST ? pace->burst : MAX_BURST;
    double line_free = 0;
    for (uint32_t sent = 0; sent < count;) {
        struct mmsghdr messages[MAX_BURST];
        struct iovec rows[MAX_BURST];
        uint32_t size = count - sent < burst ? count - sent : burst;
        double bits = 0;
        for (uint32_t i = 0; i < size; i++) {
            rows[i] = (struct iovec){(void *)(frames + (uint64_t)(sent + i) * stride), lengths[sent + i]};
            messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &rows[i], .msg_iovlen = 1}};
            bits += 8.0 * (lengths[sent + i] + pace->overhead);
        }
        sleep_until(pace->due_ns > line_free ? pace->due_ns : line_free);
        double now = now_ns();
        if (now > pace->due_ns + pace->late_ns)
            pace->late_ns = (uint64_t)(now - pace->due_ns);
        for (uint32_t done = 0; done < size;) {
            int accepted = sendmmsg(fd, messages + done, size - done, 0);
            if (accepted > 0)
                done += accepted;
            else if (errno == EAGAIN || errno == ENOBUFS)
                poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, 1);
            else if (errno != EINTR && errno != ECONNREFUSED)   /* refused: an ICMP answer to an earlier packet */
                return -errno;
        }
        line_free = now + bits * 1e9 / pace->line_rate;
        pace->due_ns += bits * 1e9 / pace->rate;
        sent += size;
    }
    return count;
}

/* Wait at most `timeout_ms` for packets, then take what is there, at most `count` rows. Returns how many. A row
 * longer than `stride` has its true length in `lengths`. */
int32_t batch_receive(int fd, uint8_t *frames, uint32_t stride, uint32_t *lengths, uint32_t count, int timeout_ms)
{
    struct mmsghdr messages[MAX_BATCH];
    struct iovec rows[MAX_BATCH];
    if (count > MAX_BATCH)
        count = MAX_BATCH;
    for (uint32_t i = 0; i < count; i++) {
        rows[i] = (struct iovec){frames + (uint64_t)i * stride, stride};
        messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &rows[i], .msg_iovlen = 1}};
    }
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    int woken = poll(&ready, 1, timeout_ms);
    if (woken <= 0)
        return woken == 0 || errno == EINTR ? 0 : -errno;
    int taken = recvmmsg(fd, messages, count, MSG_DONTWAIT | MSG_TRUNC, NULL);
    if (taken < 0)
        return errno == EAGAIN || errno == EINTR || errno == ECONNREFUSED ? 0 : -errno;
    for (int i = 0; i < taken; i++)
        lengths[i] = messages[i].msg_len;
    return taken;
}
