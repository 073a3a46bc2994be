/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * The bookkeeping of each packet, for sockets and virtual time alike: which packets of a message have arrived and
 * where their values go, which are to be sent and when. Knows no I/O but what datagrams.c adds, and takes no decision
 * that a timer or a control message is part of: those are Python's (sender.py, receiver.py).
 *
 * core.py reads this file for cffi: structures and prototypes only. Times are ns of one clock.
 */
#ifndef GRADLANE_TRANSPORT_CORE_H
#define GRADLANE_TRANSPORT_CORE_H

#include <stdint.h>

/* A message that arrives: one tensor of one round from one rank. Sequence numbers count from `first_sequence`. */
struct inbound {
    uint8_t key[12];             /* job, rank, tensor, layer, round as the header has them */
    uint8_t data_type;
    uint8_t closed;              /* complete: its values belong to the user and are not written any more */
    uint8_t touched;             /* listed in core.touched */
    uint64_t handle;             /* what the user knows it by */
    uint64_t source;             /* who may send it; 0: anybody */
    uint8_t *values;             /* value_count * value_bytes */
    uint64_t *arrived;           /* bitmap of packets */
    uint64_t *lost;              /* bitmap: the fabric said that it trimmed it, and nobody asked for it since */
    uint32_t value_count, value_bytes, per_packet, packets;
    uint32_t first_sequence, sequence_limit;
    uint32_t enough_values, enough_protected;        /* to arrive before Python wants to hear of it at once */

    uint32_t arrived_packets, arrived_values, arrived_protected;
    uint32_t lost_packets, lost_values, lost_protected;
    uint32_t seen;               /* packets with a sequence of ours: data and trimmed, duplicates included */
    uint32_t marked, trimmed, duplicates, late, stale;
    uint32_t spurious;           /* duplicates that a needless resend made */
    uint32_t highest;            /* highest sequence seen, plus 1 */
    uint32_t latest;             /* sequence that arrived last */
    uint32_t reordering;         /* how many later packets had overtaken the most overtaken one */
    uint64_t first_ns, highest_ns, latest_ns;
};

/* All messages that arrive at an endpoint, by key. */
struct core {
    struct inbound **slots;      /* open addressing, linear probing */
    struct inbound **touched;    /* messages with news since core_quiet() */
    uint32_t capacity, size, touched_count;
    uint64_t packets, malformed, foreign;
};

/* What became of a packet. */
enum verdict { TAKEN, IGNORED, CONTROL, UNKNOWN };

struct core *core_new(void);
void core_free(struct core *core);
int core_add(struct core *core, struct inbound *message);       /* 0, or -1: key in use or no memory */
int core_remove(struct core *core, struct inbound *message);
void core_quiet(struct core *core);
/* `ecn` is the IP header's; TAKEN and IGNORED are counted, CONTROL and UNKNOWN (data of no known message) are not. */
int core_accept(struct core *core, const uint8_t *frame, uint32_t length, uint8_t ecn, uint64_t source, uint64_t now);
/* Take packets as arrived, with values of zero: their sender said that they hold nothing else. Bit i of `blank`, least
 * significant first, is packet i; `blank_packets` bits, no more than the message has. */
void inbound_blank(struct inbound *message, const uint8_t *blank, uint32_t blank_packets);

/* A message that leaves. Retransmissions are sent before what was not sent yet. */
struct outbound {
    uint8_t *headers;            /* packets * 32 */
    const uint8_t *values;
    uint32_t packets, payload_bytes, last_bytes;
    const uint32_t *fresh, *again;          /* indices of packets, in the order of sending */
    uint32_t fresh_count, again_count, fresh_next, again_next;
    uint32_t first_sequence, sent;
    uint64_t sent_bytes;
    uint64_t sent_ns[4096];      /* by sequence, modulo */
};

/* When a peer's packets are due. Rates are bits of whole frames per second. */
struct pacer {
    double rate, line_rate;
    double due_ns;               /* when the next burst may leave */
    double behind_ns;            /* when it should have left at `rate`, if that is earlier */
    double catch_up_ns;          /* when it may leave at the rate of catching up */
    uint32_t overhead;           /* bytes of a frame before the gradient header */
    uint32_t burst;              /* packets at once, at most 16 */
    double quantum_ns;           /* a burst takes no longer than this at `line_rate`, but for its first packet */
    uint32_t ahead;              /* nor longer than so many quanta at `rate` */
    double arrears_ns;           /* what a sender makes up for that was kept from the processor */
};

/* Choose, number and stamp the next burst of a message; returns how many indices were written (at most 16), and moves
 * the pacer on. A packet shorter than the others ends its burst. */
uint32_t outbound_next(struct outbound *message, struct pacer *pacer, uint64_t now, uint32_t *indices);
/* Copy packets as they are sent into rows, for drivers without sockets. */
void outbound_copy(const struct outbound *message, const uint32_t *indices, uint32_t count, uint8_t *frames,
                   uint32_t stride, uint32_t *lengths);

/* The host's own link: no burst leaves before the former ones have. What would stand in the network card's queue would
 * delay control messages and whatever is more urgent. */
struct line {
    double rate;                 /* bits of whole frames per second */
    double free_ns;              /* when the bursts until now have left */
};

/* One peer's turn at the socket. */
struct turn {
    struct outbound *message;
    struct pacer *pacer;
    uint8_t address[28];         /* sockaddr_in or sockaddr_in6 */
    uint32_t address_bytes;
};

/* Packets that are not for the core: control messages and data of unknown messages. */
struct rows {
    uint8_t *frames;
    uint32_t stride, capacity, count;
    uint32_t *lengths;
    uint64_t *sources;
    uint64_t *times;             /* of arrival */
    uint8_t *verdicts;
    uint64_t overflow;           /* packets for which there was no row */
};

struct reception {
    uint8_t *buffers;            /* messages * 65536 bytes */
    uint32_t messages;           /* at most 64 */
    uint64_t look_ns;            /* between two looks while packets come: to wake for each would cost more than it */
    uint64_t gather_ns;          /* how long to take packets of known messages before Python hears of them */
    uint64_t truncated;          /* datagrams longer than a buffer or with cut control data */
};

int datagrams_options(int fd, int ipv6);         /* ECT(0), reports of ECN and times, coalescing; negative errno */
/* Send bursts of the messages, the peer that is due first before others, give what comes to the core, and copy the rest
 * into rows. Returns at `until` ns (CLOCK_MONOTONIC), or when Python has something to do: there are rows, a message has
 * enough, one has been sent whole, `wake_fd` can be read, or known messages have had news for a while. `segment` 1:
 * hand a burst to the kernel as one datagram to be cut (UDP_SEGMENT); becomes 0 where it refuses. Returns 0 or a
 * negative errno. */
int datagrams_run(int fd, int wake_fd, struct core *core, struct reception *reception, struct rows *rows,
                  struct turn *turns, uint32_t count, struct line *line, uint64_t until, int *segment);
uint64_t datagrams_source(const uint8_t *address, uint32_t bytes);   /* how core and rows name an address */
uint64_t datagrams_now(void);

#endif
