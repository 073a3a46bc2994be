/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * A switch: ports, traffic manager, replication and the data thread that runs a program on them.
 *
 * Python reaches these through cffi (ABI mode); calls that may wait release the GIL. Every call is safe from any
 * thread; calls on tables (table.h) are made between ss_lock and ss_unlock, held for microseconds at a time. The lock
 * is the thread's own: calls of this file may be made under it too. Calls that return int give 0, or -1 when they
 * refuse; `error` then has one line that says why.
 */
#ifndef SOFTSWITCH_ENGINE_H
#define SOFTSWITCH_ENGINE_H

#include "program.h"
#include "table.h"

#define SS_PORTS 512               /* 0..510; 511 drops */
#define SS_QUEUES 8                /* class 7 is served first */

struct ss_switch;
struct ss_switch *ss_switch_create(uint64_t device_id, const char *name, char *error, uint32_t error_bytes);
void ss_switch_destroy(struct ss_switch *);   /* stops the thread, closes ports */
/* Packet memory: `chunks` frames of `chunk_bytes` (a power of two from 2048; AF_XDP takes 2048 and 4096), of which 256
 * are headroom. Only before ports are added. Default: 8192 of 2048, frames up to 1792 bytes. */
int ss_switch_set_memory(struct ss_switch *, uint32_t chunks, uint32_t chunk_bytes);
void ss_switch_seed(struct ss_switch *, uint64_t seed);   /* of the program's random numbers */
/* Load or replace a program from a shared library. Packets in flight under the old program are dropped and counted. */
int ss_switch_load(struct ss_switch *, const char *library, char *error, uint32_t error_bytes);
struct ss_state *ss_switch_state(struct ss_switch *);
const struct ss_program *ss_switch_program(struct ss_switch *);
void ss_lock(struct ss_switch *);
void ss_unlock(struct ss_switch *);
int ss_switch_start(struct ss_switch *);      /* the data thread */
void ss_switch_stop(struct ss_switch *);

/* Ports. kind: "xdp", "packet" (AF_PACKET), "auto" (XDP where it works), "virtual" (in process), "pcap". */
int ss_port_add(struct ss_switch *, uint32_t port, const char *interface, const char *kind, char *error, uint32_t error_bytes);
int ss_port_remove(struct ss_switch *, uint32_t port);
bool ss_port_up(struct ss_switch *, uint32_t port);
const char *ss_port_kind(struct ss_switch *, uint32_t port);      /* what "auto" chose; "cpu"; NULL: no such port */
/* By hand. A port is up when this says so (it does at first) and its interface is up and has a carrier. */
void ss_port_set_up(struct ss_switch *, uint32_t port, bool up);
int ss_port_capture(struct ss_switch *, uint32_t port, const char *pcap_path /* NULL: stop */);

struct ss_queue_settings { uint32_t packets, bytes; };            /* limits; 0: unlimited */
int ss_port_set_rate(struct ss_switch *, uint32_t port, uint64_t bits_per_second /* 0: unlimited */);
/* Bytes charged beside each frame: 0 (default), or 24 to count preamble, FCS and gap as a wire does. */
int ss_port_set_overhead(struct ss_switch *, uint32_t port, uint32_t bytes);
int ss_port_set_queue(struct ss_switch *, uint32_t port, uint32_t queue, const struct ss_queue_settings *);
int ss_switch_set_queues(struct ss_switch *, uint32_t queues);     /* 1..8; a priority >= this is dropped and counted */
int ss_switch_set_cpu_port(struct ss_switch *, uint32_t port);
int ss_switch_set_drop_port(struct ss_switch *, uint32_t port);
/* Unit in which live depth registers read: depth in bytes >> shift, or packets when shift < 0. */
int ss_switch_set_depth_unit(struct ss_switch *, int32_t shift);

/* Replication, as P4Runtime's PRE. */
struct ss_replica { uint32_t port, instance; };
int ss_multicast_set(struct ss_switch *, uint32_t group, const struct ss_replica *, uint32_t count);   /* count 0: remove */
int ss_clone_set(struct ss_switch *, uint32_t session, const struct ss_replica *, uint32_t count, uint32_t truncate /* 0: whole */);
int ss_clone_remove(struct ss_switch *, uint32_t session);

/* Control traffic: packet-in frames and digests wait in bounded rings (overflow counted). */
int ss_packet_out(struct ss_switch *, const uint8_t *frame, uint32_t length);     /* as if received on the CPU port */
int ss_event_fd(struct ss_switch *);                                              /* eventfd: something waits below */
int32_t ss_packet_in(struct ss_switch *, uint8_t *frame, uint32_t capacity);       /* length, or -1: none */
int32_t ss_digest_next(struct ss_switch *, uint32_t *list, uint8_t *bytes, uint32_t capacity);
int32_t ss_port_event(struct ss_switch *, uint32_t *port, bool *up);               /* 0 and a change, or -1: none */
int32_t ss_log_next(struct ss_switch *, char *text, uint32_t capacity);            /* log_msg: length, or -1: none */

/* In-process use, no kernel: give a frame to a virtual port, run to quiescence, take what left. */
int ss_inject(struct ss_switch *, uint32_t port, const uint8_t *frame, uint32_t length);
int32_t ss_take(struct ss_switch *, uint32_t *port, uint8_t *frame, uint32_t capacity);
/* Virtual time for in-process use and simulation: the switch's clock follows this until set to 0. */
void ss_set_clock(struct ss_switch *, uint64_t now_ns);
uint64_t ss_now(struct ss_switch *);    /* that clock, else CLOCK_MONOTONIC, ns */
uint64_t ss_run(struct ss_switch *);    /* process what is due; next due time in ns, UINT64_MAX: idle */

/* Telemetry. */
struct ss_queue_stats {
    uint64_t enqueued_packets, enqueued_bytes, sent_packets, sent_bytes, tail_drops_packets, tail_drops_bytes;
    uint32_t depth_packets, depth_bytes, max_depth_packets, max_depth_bytes;
    uint64_t delay_histogram[64];  /* queueing delay: log2 with 4 steps an octave from 16 us; see docs/softswitch.md */
};
struct ss_port_stats {
    uint64_t rx_packets, rx_bytes, rx_dropped, tx_packets, tx_bytes, tx_failed;
    uint64_t rate; uint32_t up, present;
    struct ss_queue_stats queues[SS_QUEUES];
    uint64_t pending;              /* left their queue and wait for the interface to take them */
};
int ss_port_stats(struct ss_switch *, uint32_t port, struct ss_port_stats *out);
/* Packets that neither left nor wait: by cause. digest_overflow counts messages, all others packets. */
struct ss_drop_stats { uint64_t ingress_drop, egress_drop, tail_drop, no_port, no_queue, no_buffer, oversize, no_program,
                       packet_in_overflow, digest_overflow, multicast_empty,
                       port_down,      /* its port is down, or went while the packet waited */
                       tx_failed,      /* refused by the interface */
                       program_change, /* in flight when the program was replaced */
                       pass_limit;     /* resubmitted or recirculated 4096 times */
};
int ss_drop_stats(struct ss_switch *, struct ss_drop_stats *out);
/* Where every packet went: received + copied = sent + dropped + queued, at every moment that the lock is free.
 * received: on all ports, the CPU port too. copied: made by clone and multicast. queued: in queues, in the interface's
 * ring, on the way to another pass. sent: taken by an interface, by ss_take's list, or by the packet-in ring. */
struct ss_account { uint64_t received, copied, sent, dropped, queued; };
int ss_account(struct ss_switch *, struct ss_account *out);

#endif
