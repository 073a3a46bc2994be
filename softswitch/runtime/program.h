/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * The contract between a compiled P4 program and the switch that runs it.
 *
 * The compiler (softswitch/compiler) writes one C file per program; it exports `ss_program`. The engine
 * (engine.c) owns packets, queues, replication and ports, and calls the program. Everything below runs on the
 * switch's one data thread, under the switch's lock.
 */
#ifndef SOFTSWITCH_PROGRAM_H
#define SOFTSWITCH_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SS_DROP_PORT 511
#define SS_NO_LIST UINT32_MAX      /* "not asked for", for the list ids below */
#define SS_NO_TRUNCATE UINT32_MAX

enum ss_instance { /* standard_metadata.instance_type, BMv2's numbers */
    SS_NORMAL = 0, SS_INGRESS_CLONE = 1, SS_EGRESS_CLONE = 2, SS_COALESCED = 3,
    SS_RECIRCULATED = 4, SS_REPLICATED = 5, SS_RESUBMITTED = 6,
};

/* v1model's standard_metadata_t and queueing fields; times in microseconds since the switch started,
 * as BMv2 gives them; deq_timedelta in microseconds. */
struct ss_standard {
    uint32_t ingress_port, egress_spec, egress_port, instance_type, packet_length;
    uint32_t mcast_grp, egress_rid, checksum_error, parser_error, priority;
    uint32_t enq_timestamp, enq_qdepth, deq_timedelta, deq_qdepth;
    uint64_t ingress_global_timestamp, egress_global_timestamp;
};

/* A packet and its parsed representation, one pool slot. `data` points into `buffer`, with headroom before it, so
 * that a deparser can grow the front in place. */
struct ss_packet {
    struct ss_packet *next;        /* for the engine's queues */
    uint8_t *buffer;               /* start of the slot's byte area */
    uint32_t capacity;             /* bytes in `buffer` */
    uint8_t *data;                 /* first byte of the frame */
    uint32_t length;               /* bytes of the frame at `data` */
    uint32_t payload;              /* set by the parser: offset from `data` of the first byte not extracted */
    uint32_t truncate_to;          /* bytes at transmit, SS_NO_TRUNCATE if whole */
    uint64_t arrival_ns, enqueue_ns; /* CLOCK_MONOTONIC */
    uint32_t passes;               /* the engine's: times resubmitted and recirculated */
    struct ss_standard std;
    /* Requests that a control left for the engine; the last request of a kind wins, as on BMv2. */
    uint32_t clone_list, clone_session;   /* clone_list: SS_NO_LIST = no clone asked for */
    uint32_t resubmit_list, recirculate_list;
    uint32_t digest_list;                 /* learn list id; the program sends it itself: SS_NO_LIST after ingress */
    /* Metadata already holds preserved values: the engine called reset, filled std and called copy_list, and the
     * next ingress keeps them (resubmit, recirculate). ingress clears it. Zero in a fresh slot. */
    bool prepared;
    /* Field values preserved over clone/resubmit/recirculate stay inside the PHV: see `copy_list`. */
    void *phv;                     /* program->phv_bytes bytes, 64-byte aligned */
};

/* Program -> engine services. The program keeps the pointer given to create, so it outlives the state; the engine may
 * change drop_port in place. */
struct ss_engine_services {
    void *engine;
    uint32_t drop_port;            /* 0: SS_DROP_PORT */
    uint64_t (*now_us)(void *engine);
    uint32_t (*random)(void *engine);
    /* Live depth of an egress queue in the unit chosen for the depth register (see engine), for registers that the
     * control plane declared to be live. */
    uint32_t (*queue_depth)(void *engine, uint32_t port, uint32_t queue);
    /* A learn message: `bytes` are the fields of the list packed as P4Runtime sends them. */
    void (*digest)(void *engine, uint32_t list, const uint8_t *bytes, uint32_t length);
    bool (*port_up)(void *engine, uint32_t port);
    void (*log)(void *engine, const char *text);
};

struct ss_state;                   /* the program's tables, counters, registers: one per switch */

struct ss_program {
    uint32_t abi;                  /* SS_PROGRAM_ABI */
    const char *source_hash;
    uint32_t phv_bytes;
    uint32_t max_header_growth;    /* bytes by which headers may grow a frame: headroom that keeps the payload still */
    struct ss_state *(*create)(const struct ss_engine_services *);
    void (*destroy)(struct ss_state *);
    /* Zero the PHV and every std field that the engine does not fill, and withdraw all requests. Needed only before
     * copy_list on a packet that goes to ingress again: ingress and parse do it themselves. */
    void (*reset)(struct ss_state *, struct ss_packet *);
    /* Reset PHV, metadata and requests (unless `prepared`), parse `data`, verify checksums, run the ingress control,
     * send the digest. `std` is filled by the engine before the call (ingress_port, packet_length, instance_type,
     * ingress_global_timestamp); afterwards it reads egress_spec, mcast_grp, priority and the requests. */
    void (*ingress)(struct ss_state *, struct ss_packet *);
    /* Withdraw the clone, resubmit and recirculate requests, set packet_length (the frame's, with the headers that
     * ingress added or removed) and egress_spec (no drop), and run the egress control. The engine fills egress_port,
     * egress_rid, instance_type, the queueing fields and egress_global_timestamp before. egress_spec is the drop port
     * afterwards when egress dropped. */
    void (*egress)(struct ss_state *, struct ss_packet *);
    /* Update checksums and write headers in front of the payload: sets data and length, does not truncate. The payload
     * moves when there is no room in front of it; false when the buffer holds no such frame: to be dropped. */
    bool (*deparse)(struct ss_state *, struct ss_packet *);
    /* Parse again (clone of the original bytes), without any control; std as for ingress. */
    void (*parse)(struct ss_state *, struct ss_packet *);
    /* Copy the whole PHV: headers and metadata (multicast, egress clone). The engine copies std. */
    void (*copy_phv)(struct ss_state *, struct ss_packet *to, const struct ss_packet *from);
    /* Zero the user metadata of `to` (its headers stay), then copy the fields of a preserved list, as BMv2 does for
     * clones, resubmit and recirculate. The engine has set `to->std` before. */
    void (*copy_list)(struct ss_state *, uint32_t list, struct ss_packet *to, const struct ss_packet *from);
    /* Control-plane objects, by index; names as in the BMv2 JSON. See table.h. */
    const struct ss_objects *(*objects)(struct ss_state *);
};

#define SS_PROGRAM_ABI 1
extern const struct ss_program ss_program;

#endif
