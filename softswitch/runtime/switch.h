/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * What the engine's files share: the switch and its ports.
 *
 *     receive (port_*.c) -> ingress, replication (pipeline.c) -> queue, shaper, egress (traffic.c) -> send (port_*.c)
 *
 * All of it runs under the switch's lock (lock.c), on the data thread or in ss_run (engine.c).
 */
#ifndef SOFTSWITCH_SWITCH_H
#define SOFTSWITCH_SWITCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "engine.h"

#pragma GCC visibility push(hidden)    /* the rest is the engine's own; system headers come before */

#include "clock.h"
#include "pool.h"
#include "queue.h"
#include "ring.h"
#include "shaper.h"

#define BATCH 64                       /* packets received, or sent, at a time */
#define PASS_LIMIT 4096                /* passes through ingress that one packet may make */
#define GROUPS 65536                   /* multicast groups: mcast_grp is 16 bits wide */
#define SESSIONS 32768                 /* clone sessions, as on BMv2 */
#define NO_PORT UINT32_MAX
#define RETRY_NS 200000                /* an interface that takes no more is asked again after this time */
#define FLUSH_AT 32                    /* packets staged before the interface is given them */

struct port;

/* What a kind of port does. `open` and `close` may wait and run without the lock, the rest under it. */
struct io {
    int fd;                            /* for epoll; -1: none */
    uint32_t ifindex;                  /* 0: not a network interface */
};
struct port_kind {
    const char *name;
    bool is_link;                      /* a network interface */
    /* `asked` is the kind asked for: "auto" takes the interface only where this kind serves it well. */
    struct io *(*open)(struct ss_switch *, const char *interface, const char *asked, char *error,
                       uint32_t error_bytes);
    bool (*attach)(struct ss_switch *, struct io *); /* take what packet memory it needs; false: there is too little */
    uint32_t (*receive)(struct port *, struct ss_packet **packets, uint32_t max);
    /* Try to send; takes the packets it returns (a prefix): sent or refused for good, and counted by the kind. */
    uint32_t (*send)(struct port *, struct ss_packet **packets, uint32_t count);
    uint64_t (*kernel_drops)(struct io *);      /* lost in the kernel before they were received */
    uint32_t (*pending)(const struct io *);     /* taken by `send`, but not yet by the interface: send (0) urges it */
    void (*close)(struct io *);                 /* end all use of packet memory */
    void (*release)(struct ss_switch *, struct io *);      /* give chunks back, free */
};
extern const struct port_kind port_virtual, port_cpu, port_pcap, port_packet, port_xdp;

struct port {
    struct ss_switch *sw;
    uint32_t number;
    const struct port_kind *kind;
    struct io *io;                     /* NULL: no kernel side, or the interface is gone */
    char interface[256];
    bool admin_up, carrier, up;
    uint32_t frame_limit;              /* bytes the interface sends at most; 0: any */

    struct queue queues[SS_QUEUES];
    uint32_t backlog;                  /* bit q: queue q holds packets */
    struct shaper shaper;
    bool is_ready, is_waiting, is_flushing;
    struct port *next_ready, *next_waiting, *next_flushing;
    uint64_t due;                      /* while waiting: look again then */
    struct ss_packet *staged[BATCH];   /* deparsed, for the interface */
    uint32_t staged_count;

    uint64_t rx_packets, rx_bytes, tx_packets, tx_bytes, tx_failed, kernel_drops_before;
    struct capture *capture;
};

struct packet_list { struct ss_packet *head, *tail; uint32_t count; };

struct replicas { struct ss_replica *list; uint32_t count, truncate; };

struct ss_switch {
    /* The lock (lock.c). */
    pthread_mutex_t gate, mutex;
    _Atomic(uint64_t) owner;
    _Atomic(uint32_t) waiters;
    uint32_t lock_depth;

    struct clock clock;
    struct pool pool;
    struct ss_engine_services services;
    void *library;
    const struct ss_program *program;
    struct ss_state *state;
    uint64_t random[2];

    struct port *ports[SS_PORTS];
    struct port *receivers[SS_PORTS];  /* ports with a kernel side */
    uint32_t receiver_count;
    uint32_t kernel_chunks;            /* lent to the kernel for reception */
    struct port *ready, *waiting, *flushing;
    uint64_t next_due;                 /* the earliest of those waiting, or sooner */
    struct packet_list inbound;        /* injected, and packets out */
    struct packet_list again;          /* resubmitted and recirculated */
    struct packet_list outbound;       /* left through virtual ports */
    uint32_t queue_count, cpu_port, drop_port;
    int32_t depth_shift;

    struct replicas *groups[GROUPS];
    struct replicas *sessions[SESSIONS];

    struct ss_drop_stats drops;
    uint64_t received, copied, sent;
    struct ring packets_in, digests, port_events, log;
    int event_fd;
    bool event_pending;
    uint32_t captures;
    uint64_t capture_due;

    uint64_t device_id;
    char name[64];
    int epoll_fd, wake_fd;
    pthread_t thread, watcher;
    bool has_thread, has_watcher;
    int watch_fd, watch_wake_fd;
    _Atomic(bool) stopping, watch_stopping;
};

/* lock.c */
void lock_create(struct ss_switch *);
void lock_destroy(struct ss_switch *);
/* Between batches: let a waiting control call in. */
static inline void lock_offer(struct ss_switch *sw)
{
    if (atomic_load_explicit(&sw->waiters, memory_order_relaxed)) {
        ss_unlock(sw);
        ss_lock(sw);
    }
}

/* pipeline.c */
void pipeline_ingress(struct ss_switch *, struct ss_packet *);     /* std.ingress_port and arrival are set */
void pipeline_resume(struct ss_switch *, struct ss_packet *);      /* resubmitted or recirculated */
/* NULL when egress dropped, cloned away or recirculated it; else deparsed and cut, ready to leave. */
struct ss_packet *pipeline_egress(struct ss_switch *, struct port *, struct ss_packet *);

/* replication.c */
void replication_destroy(struct ss_switch *);
struct ss_packet *replication_copy(struct ss_switch *, const struct ss_packet *);  /* bytes and std; NULL: no buffer */
void replication_send(struct ss_switch *, const struct replicas *, struct ss_packet *);  /* takes the packet */

/* traffic.c */
void traffic_enqueue(struct ss_switch *, uint32_t port, struct ss_packet *);
void traffic_drain(struct ss_switch *);          /* ports that became ready */
void traffic_due(struct ss_switch *);            /* ports whose time has come */
void traffic_flush(struct ss_switch *);          /* hand what is staged to the interfaces */
void traffic_wake(struct ss_switch *, struct port *);  /* settings or state changed */
void traffic_clear(struct port *, uint64_t *cause);    /* drop what waits, counted under `cause` */
void traffic_restamp(struct port *, uint64_t now);     /* those waiting were queued now: the clock was changed */
void traffic_forget(struct ss_switch *, struct port *); /* before the port is freed */
uint32_t traffic_depth(const struct ss_switch *, uint32_t port, uint32_t queue);

/* port.c */
void port_settle(struct ss_switch *, struct port *);   /* up or down follows admin_up and carrier */
void port_follow_link(struct ss_switch *, struct port *); /* its interface changed; lets the lock go meanwhile */
void port_received(struct port *, struct ss_packet *); /* count, capture, note arrival */
/* A frame that found no packet: count it as received and, under `cause`, as dropped. */
void port_refused(struct port *, uint32_t length, uint64_t *cause);
void port_sent(struct port *, const struct ss_packet *);
void port_failed(struct port *, uint32_t count);
void port_watch_start(struct ss_switch *);             /* watch.c */
void port_watch_stop(struct ss_switch *);
struct link { uint32_t ifindex, frame_limit; bool up; };
struct link link_of(const char *interface);            /* watch.c: as it is now; ifindex 0: gone */

/* capture.c */
struct capture *capture_open(const char *path);
void capture_frame(struct ss_switch *, struct capture *, const struct ss_packet *, uint64_t time_ns);
void capture_flush(struct ss_switch *);                /* all captures, when due */
void capture_close(struct capture *);

/* engine.c */
void engine_wake(struct ss_switch *);
void engine_event(struct ss_switch *);                 /* something waits for the control plane */

static inline void list_push(struct packet_list *list, struct ss_packet *packet)
{
    packet->next = NULL;
    if (list->tail)
        list->tail->next = packet;
    else
        list->head = packet;
    list->tail = packet;
    list->count++;
}

static inline struct ss_packet *list_pop(struct packet_list *list)
{
    struct ss_packet *packet = list->head;
    if (!packet)
        return NULL;
    list->head = packet->next;
    if (!list->head)
        list->tail = NULL;
    list->count--;
    return packet;
}

/* A packet ends here. */
static inline void drop(struct ss_switch *sw, struct ss_packet *packet, uint64_t *cause)
{
    (*cause)++;
    pool_give(&sw->pool, packet);
}

void explain(char *error, uint32_t error_bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));

#pragma GCC visibility pop

#endif
