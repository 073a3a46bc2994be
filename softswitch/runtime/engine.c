/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * The switch: its life, the program it runs, and the thread that moves packets.
 */
#include "switch.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PACKET_IN_RING (4u << 20)
#define DIGEST_RING (1u << 20)
#define EVENT_RING (16u << 10)
#define LOG_RING (256u << 10)
#define MEMORY_MAX_CHUNK 65536
#define MEMORY_MIN_CHUNKS 16
/* The thread sleeps at least this long once nothing is due, so that many slow shapers do not wake it one by one; what
 * they owe meanwhile is caught up. Reception still wakes it at once. */
#define SLEEP_MIN_NS 50000
/* A switch that waits behind its hosts' computing would add to the delays that it is there to measure. */
#define THREAD_NICE -10
#define CLOCK_EVERY 8                  /* packets between two looks at the clock */
/* Packets whose headers are asked for before they are needed. All frames begin in the same two sets of a level 1 cache
 * with 64 sets of 64 bytes, so more would push each other out. */
#define ASK_AHEAD 4

void explain(char *error, uint32_t error_bytes, const char *format, ...)
{
    if (!error_bytes)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error, error_bytes, format, arguments);
    va_end(arguments);
}

/* Services to the program. */

static uint64_t service_now_us(void *engine)
{
    return clock_us(&((struct ss_switch *)engine)->clock);
}

static uint32_t service_random(void *engine)
{
    struct ss_switch *sw = engine;     /* xoroshiro128+, the upper half */
    uint64_t a = sw->random[0], b = sw->random[1], sum = a + b;
    b ^= a;
    sw->random[0] = (a << 24 | a >> 40) ^ b ^ b << 16;
    sw->random[1] = b << 37 | b >> 27;
    return (uint32_t)(sum >> 32);
}

static uint32_t service_queue_depth(void *engine, uint32_t port, uint32_t queue)
{
    return traffic_depth(engine, port, queue);
}

static void service_digest(void *engine, uint32_t list, const uint8_t *bytes, uint32_t length)
{
    struct ss_switch *sw = engine;
    if (!ring_push(&sw->digests, list, bytes, length))
        sw->drops.digest_overflow++;
    engine_event(sw);
}

static bool service_port_up(void *engine, uint32_t port)
{
    const struct ss_switch *sw = engine;
    return port < SS_PORTS && sw->ports[port] && sw->ports[port]->up;
}

static void service_log(void *engine, const char *text)
{
    struct ss_switch *sw = engine;
    if (ring_push(&sw->log, 0, text, (uint32_t)strlen(text)))
        engine_event(sw);
}

/* Life. */

static uint64_t mix(uint64_t *seed)    /* splitmix64 */
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

void ss_switch_seed(struct ss_switch *sw, uint64_t seed)
{
    ss_lock(sw);
    sw->random[0] = mix(&seed);
    sw->random[1] = mix(&seed);
    ss_unlock(sw);
}

static void start_clock(struct clock *clock)
{
    struct timespec wall;
    clock_read(clock);
    clock->start = clock->real_start = clock->now;
    clock_gettime(CLOCK_REALTIME, &wall);
    clock->wall_offset = (uint64_t)wall.tv_sec * NS_PER_SECOND + (uint64_t)wall.tv_nsec - clock->now;
}

struct ss_switch *ss_switch_create(uint64_t device_id, const char *name, char *error, uint32_t error_bytes)
{
    struct ss_switch *sw = calloc(1, sizeof *sw);
    if (!sw) {
        explain(error, error_bytes, "out of memory");
        return NULL;
    }
    lock_create(sw);
    sw->device_id = device_id;
    snprintf(sw->name, sizeof sw->name, "%s", name);
    sw->queue_count = SS_QUEUES;
    sw->cpu_port = NO_PORT;
    sw->drop_port = SS_DROP_PORT;
    sw->depth_shift = -1;
    sw->next_due = NEVER;
    sw->watch_fd = sw->watch_wake_fd = -1;
    sw->services = (struct ss_engine_services){
        .engine = sw, .drop_port = SS_DROP_PORT, .now_us = service_now_us, .random = service_random,
        .queue_depth = service_queue_depth, .digest = service_digest, .port_up = service_port_up, .log = service_log,
    };
    start_clock(&sw->clock);
    uint64_t seed = sw->clock.now;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) < 0)
        seed ^= device_id;
    ss_switch_seed(sw, seed);
    sw->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    sw->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    sw->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = NO_PORT};
    if (sw->event_fd < 0 || sw->wake_fd < 0 || sw->epoll_fd < 0
        || epoll_ctl(sw->epoll_fd, EPOLL_CTL_ADD, sw->wake_fd, &event)
        || !pool_create(&sw->pool, POOL_DEFAULT_CHUNKS, POOL_DEFAULT_CHUNK_BYTES)
        || !ring_create(&sw->packets_in, PACKET_IN_RING) || !ring_create(&sw->digests, DIGEST_RING)
        || !ring_create(&sw->port_events, EVENT_RING) || !ring_create(&sw->log, LOG_RING)) {
        explain(error, error_bytes, "%s: %s", sw->name, strerror(errno));
        ss_switch_destroy(sw);
        return NULL;
    }
    return sw;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        close(fd);
}

void ss_switch_destroy(struct ss_switch *sw)
{
    ss_switch_stop(sw);
    port_watch_stop(sw);
    for (uint32_t i = 0; i < SS_PORTS; i++)
        ss_port_remove(sw, i);
    if (sw->state)
        sw->program->destroy(sw->state);
    if (sw->library)
        dlclose(sw->library);
    replication_destroy(sw);
    pool_destroy(&sw->pool);
    ring_destroy(&sw->packets_in);
    ring_destroy(&sw->digests);
    ring_destroy(&sw->port_events);
    ring_destroy(&sw->log);
    close_fd(sw->event_fd);
    close_fd(sw->wake_fd);
    close_fd(sw->epoll_fd);
    lock_destroy(sw);
    free(sw);
}

int ss_switch_set_memory(struct ss_switch *sw, uint32_t chunks, uint32_t chunk_bytes)
{
    struct pool pool;
    if (chunks < MEMORY_MIN_CHUNKS || chunk_bytes < POOL_DEFAULT_CHUNK_BYTES || chunk_bytes > MEMORY_MAX_CHUNK
        || chunk_bytes & (chunk_bytes - 1) || !pool_create(&pool, chunks, chunk_bytes))
        return -1;
    ss_lock(sw);
    bool is_unused = true;
    for (uint32_t i = 0; i < SS_PORTS; i++)
        is_unused &= !sw->ports[i] || i == sw->cpu_port;
    is_unused &= sw->pool.chunks_free == sw->pool.chunk_count && pool_set_phv(&pool, sw->pool.phv_bytes);
    if (is_unused) {
        struct pool former = sw->pool;
        sw->pool = pool;
        pool = former;
    }
    ss_unlock(sw);
    pool_destroy(&pool);
    return is_unused ? 0 : -1;
}

/* Packets whose representation is the former program's. What is still to be parsed, or has been deparsed, stays. */
static void drop_in_flight(struct ss_switch *sw)
{
    struct ss_packet *packet;
    for (uint32_t i = 0; i < SS_PORTS; i++)
        if (sw->ports[i])
            traffic_clear(sw->ports[i], &sw->drops.program_change);
    while ((packet = list_pop(&sw->again)))
        drop(sw, packet, &sw->drops.program_change);
}

int ss_switch_load(struct ss_switch *sw, const char *path, char *error, uint32_t error_bytes)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        explain(error, error_bytes, "%s", dlerror());
        return -1;
    }
    const struct ss_program *program = dlsym(library, "ss_program");
    struct ss_state *state = NULL;
    /* A process may outlive the sources that it was started from: what is compiled then brings tables of its own. */
    void *tables = dlsym(library, "ss_table_insert");
    if (!program)
        explain(error, error_bytes, "%s is no compiled P4 program", path);
    else if (tables && tables != (void *)ss_table_insert)
        explain(error, error_bytes, "the switch's own sources have changed since this process began: start it anew");
    else if (program->abi != SS_PROGRAM_ABI)
        explain(error, error_bytes, "%s was compiled for another version of the switch", path);
    else if (!(state = program->create(&sw->services)))
        explain(error, error_bytes, "out of memory for the program's tables");
    if (!state) {
        dlclose(library);
        return -1;
    }
    ss_lock(sw);
    drop_in_flight(sw);
    bool fits = pool_set_phv(&sw->pool, program->phv_bytes);
    struct ss_state *former_state = fits ? sw->state : state;
    const struct ss_program *former = fits ? sw->program : program;
    void *former_library = fits ? sw->library : library;
    if (fits) {
        sw->state = state;
        sw->program = program;
        sw->library = library;
        for (uint32_t i = 0; i < SS_PORTS; i++)
            if (sw->ports[i])
                ss_profiles_port_changed(state, i, sw->ports[i]->up);
    }
    ss_unlock(sw);
    if (former_state)
        former->destroy(former_state);
    if (former_library)
        dlclose(former_library);
    if (!fits)
        explain(error, error_bytes, "out of memory for packets");
    return fits ? 0 : -1;
}

struct ss_state *ss_switch_state(struct ss_switch *sw)
{
    return sw->state;
}

const struct ss_program *ss_switch_program(struct ss_switch *sw)
{
    return sw->program;
}

int ss_switch_set_drop_port(struct ss_switch *sw, uint32_t port)
{
    if (port >= 512 || (port < SS_PORTS && sw->ports[port]))
        return -1;
    ss_lock(sw);
    sw->drop_port = sw->services.drop_port = port;
    ss_unlock(sw);
    return 0;
}

/* Moving packets. */

static void process(struct ss_switch *sw, struct ss_packet **packets, uint32_t count)
{
    for (uint32_t i = 0; i < count && i < ASK_AHEAD; i++)
        pool_ask(packets[i]);
    for (uint32_t i = 0; i < count; i++) {
        if (i + ASK_AHEAD < count)
            pool_ask(packets[i + ASK_AHEAD]);
        if (i % CLOCK_EVERY == CLOCK_EVERY - 1)
            clock_read(&sw->clock);
        pipeline_ingress(sw, packets[i]);
        traffic_drain(sw);
    }
}

static bool process_list(struct ss_switch *sw, struct packet_list *list,
                         void (*run)(struct ss_switch *, struct ss_packet *))
{
    struct ss_packet *packet;
    uint32_t count = 0;
    for (; count < BATCH && (packet = list_pop(list)); count++) {
        run(sw, packet);
        traffic_drain(sw);
    }
    return count;
}

/* One round over everything that can have work; false: there was none. */
static bool pass(struct ss_switch *sw)
{
    struct ss_packet *packets[BATCH];
    bool worked = false;
    clock_read(&sw->clock);
    traffic_drain(sw);                 /* ports whose settings changed */
    traffic_due(sw);
    worked |= process_list(sw, &sw->again, pipeline_resume);
    worked |= process_list(sw, &sw->inbound, pipeline_ingress);
    for (uint32_t i = 0; i < sw->receiver_count; i++) {
        struct port *port = sw->receivers[i];
        uint32_t count = port->kind->receive(port, packets, BATCH);
        if (!count)
            continue;
        worked = true;
        process(sw, packets, count);
        lock_offer(sw);                /* the port may be gone afterwards */
        clock_read(&sw->clock);
    }
    traffic_flush(sw);
    capture_flush(sw);
    if (sw->event_pending) {
        sw->event_pending = false;
        eventfd_write(sw->event_fd, 1);
    }
    return worked || sw->again.head;
}

uint64_t ss_run(struct ss_switch *sw)
{
    if (sw->has_thread)
        return NEVER;
    ss_lock(sw);
    while (pass(sw))
        lock_offer(sw);
    uint64_t next = sw->next_due;
    ss_unlock(sw);
    return next;
}

void ss_set_clock(struct ss_switch *sw, uint64_t now_ns)
{
    ss_lock(sw);
    struct clock *clock = &sw->clock;
    uint64_t former = clock->now;
    bool was_virtual = clock->is_virtual;
    clock->is_virtual = now_ns != 0;
    clock->now = now_ns;
    clock->start = clock->is_virtual ? 0 : clock->real_start;
    clock_read(clock);
    if (was_virtual != clock->is_virtual || clock->now < former)
        for (uint32_t i = 0; i < SS_PORTS; i++)
            if (sw->ports[i]) {        /* times taken on the other clock mean nothing on this one */
                shaper_set_rate(&sw->ports[i]->shaper, sw->ports[i]->shaper.rate, clock->now);
                traffic_restamp(sw->ports[i], clock->now);
                traffic_wake(sw, sw->ports[i]);
            }
    ss_unlock(sw);
}

uint64_t ss_now(struct ss_switch *sw)
{
    ss_lock(sw);
    uint64_t now = sw->clock.is_virtual ? sw->clock.now : clock_monotonic();
    ss_unlock(sw);
    return now;
}

/* The data thread. */

void engine_wake(struct ss_switch *sw)
{
    if (sw->has_thread)
        eventfd_write(sw->wake_fd, 1);
}

void engine_event(struct ss_switch *sw)
{
    sw->event_pending = true;
    if (!sw->has_thread || !pthread_equal(pthread_self(), sw->thread)) {
        sw->event_pending = false;
        eventfd_write(sw->event_fd, 1);
    }
}

static int wait_for_events(int epoll_fd, struct epoll_event *events, int count, uint64_t timeout_ns)
{
    const struct timespec timeout = {(time_t)(timeout_ns / NS_PER_SECOND), (long)(timeout_ns % NS_PER_SECOND)};
    const struct timespec *limit = timeout_ns == NEVER ? NULL : &timeout;
#ifdef SYS_epoll_pwait2
    int ready = (int)syscall(SYS_epoll_pwait2, epoll_fd, events, count, limit, NULL, 0);
    if (ready >= 0 || errno != ENOSYS)
        return ready;
#endif
    struct pollfd poll = {.fd = epoll_fd, .events = POLLIN};  /* Linux before 5.11: epoll knows milliseconds only */
    return ppoll(&poll, 1, limit, NULL) > 0 ? epoll_wait(epoll_fd, events, count, 0) : 0;
}

/* A socket in error (its interface went) would end every wait at once: take the error, and if that is no cure, leave
 * the socket to the watcher. */
static void clear_error(struct ss_switch *sw, uint32_t number)
{
    int error;
    socklen_t length = sizeof error;
    ss_lock(sw);
    const struct port *port = number < SS_PORTS ? sw->ports[number] : NULL;
    if (port && port->io && port->io->fd >= 0
        && (getsockopt(port->io->fd, SOL_SOCKET, SO_ERROR, &error, &length) || !error))
        epoll_ctl(sw->epoll_fd, EPOLL_CTL_DEL, port->io->fd, NULL);
    ss_unlock(sw);
}

static uint64_t sleep_time(const struct ss_switch *sw)
{
    uint64_t due = sw->next_due;
    if (sw->captures && sw->capture_due < due)
        due = sw->capture_due;
    if (due == NEVER)
        return NEVER;
    uint64_t now = clock_monotonic();
    return due > now + SLEEP_MIN_NS ? due - now : SLEEP_MIN_NS;
}

static void *run_thread(void *argument)
{
    struct ss_switch *sw = argument;
    struct epoll_event events[16];
    char name[16];
    snprintf(name, sizeof name, "ss:%.12s", sw->name);
    pthread_setname_np(pthread_self(), name);
    prctl(PR_SET_TIMERSLACK, 1ul);
    setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), THREAD_NICE);     /* where it may */
    while (!atomic_load_explicit(&sw->stopping, memory_order_acquire)) {
        ss_lock(sw);
        while (pass(sw) && !atomic_load_explicit(&sw->stopping, memory_order_relaxed))
            lock_offer(sw);
        uint64_t timeout = sleep_time(sw);
        ss_unlock(sw);
        int count = wait_for_events(sw->epoll_fd, events, sizeof events / sizeof *events, timeout);
        for (int i = 0; i < count; i++) {
            eventfd_t value;
            if (events[i].data.u32 == NO_PORT)
                eventfd_read(sw->wake_fd, &value);
            else if (events[i].events & (EPOLLERR | EPOLLHUP))
                clear_error(sw, events[i].data.u32);
        }
    }
    return NULL;
}

int ss_switch_start(struct ss_switch *sw)
{
    if (sw->has_thread)
        return -1;
    ss_set_clock(sw, 0);
    atomic_store(&sw->stopping, false);
    sw->has_thread = true;
    if (pthread_create(&sw->thread, NULL, run_thread, sw)) {
        sw->has_thread = false;
        return -1;
    }
    return 0;
}

void ss_switch_stop(struct ss_switch *sw)
{
    if (!sw->has_thread)
        return;
    atomic_store(&sw->stopping, true);
    engine_wake(sw);
    pthread_join(sw->thread, NULL);
    sw->has_thread = false;
}

/* Control plane. */

int ss_event_fd(struct ss_switch *sw)
{
    return sw->event_fd;
}

int32_t ss_digest_next(struct ss_switch *sw, uint32_t *list, uint8_t *bytes, uint32_t capacity)
{
    ss_lock(sw);
    int32_t length = ring_pop(&sw->digests, list, bytes, capacity);
    ss_unlock(sw);
    return length;
}

int32_t ss_log_next(struct ss_switch *sw, char *text, uint32_t capacity)
{
    ss_lock(sw);
    int32_t length = ring_pop(&sw->log, NULL, text, capacity);
    ss_unlock(sw);
    return length;
}

int ss_drop_stats(struct ss_switch *sw, struct ss_drop_stats *out)
{
    ss_lock(sw);
    *out = sw->drops;
    ss_unlock(sw);
    return 0;
}

int ss_account(struct ss_switch *sw, struct ss_account *out)
{
    ss_lock(sw);
    const struct ss_drop_stats *d = &sw->drops;
    *out = (struct ss_account){
        .received = sw->received, .copied = sw->copied, .sent = sw->sent,
        .dropped = d->ingress_drop + d->egress_drop + d->tail_drop + d->no_port + d->no_queue + d->no_buffer
                   + d->oversize + d->no_program + d->packet_in_overflow + d->multicast_empty + d->port_down
                   + d->tx_failed + d->program_change + d->pass_limit,
        .queued = sw->inbound.count + sw->again.count,
    };
    for (uint32_t i = 0; i < SS_PORTS; i++) {
        const struct port *port = sw->ports[i];
        if (!port)
            continue;
        out->queued += port->staged_count;
        for (uint32_t q = 0; q < SS_QUEUES; q++)
            out->queued += port->queues[q].stats.depth_packets;
    }
    ss_unlock(sw);
    return 0;
}
