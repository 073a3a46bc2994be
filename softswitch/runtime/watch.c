/* SPDX-FileCopyrightText: 2026 The Gradlane developers
 * SPDX-License-Identifier: Apache-2.0
 *
 * Watches the links of a switch's ports: a thread that sleeps on rtnetlink and, whenever any link changes, looks at
 * its own interfaces. An interface that went is closed, and opened anew when one of its name appears.
 */
#include "switch.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define ETHERNET_BYTES 14
#define TAG_BYTES 4

struct link link_of(const char *interface)
{
    struct link link = {.ifindex = if_nametoindex(interface)};
    struct ifreq request = {0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return link;
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", interface);
    link.up = !ioctl(fd, SIOCGIFFLAGS, &request)
              && (request.ifr_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
    if (!ioctl(fd, SIOCGIFMTU, &request))
        link.frame_limit = (uint32_t)request.ifr_mtu + ETHERNET_BYTES + TAG_BYTES;
    close(fd);
    return link;
}

static void look(struct ss_switch *sw)
{
    for (uint32_t i = 0; i < SS_PORTS; i++) {
        ss_lock(sw);
        if (sw->ports[i] && sw->ports[i]->kind->is_link)
            port_follow_link(sw, sw->ports[i]);
        ss_unlock(sw);
    }
}

static void *watch(void *argument)
{
    struct ss_switch *sw = argument;
    char message[16384];
    struct pollfd poll_fds[] = {{.fd = sw->watch_fd, .events = POLLIN}, {.fd = sw->watch_wake_fd, .events = POLLIN}};
    look(sw);                          /* what changed before the thread began */
    while (!atomic_load(&sw->watch_stopping)) {
        if (poll(poll_fds, 2, -1) <= 0 || !(poll_fds[0].revents))
            continue;
        /* ENOBUFS says that changes were lost: looking at every interface makes up for it. */
        while (recv(sw->watch_fd, message, sizeof message, MSG_DONTWAIT) > 0 || errno == ENOBUFS)
            errno = 0;
        look(sw);
    }
    return NULL;
}

void port_watch_start(struct ss_switch *sw)
{
    ss_lock(sw);
    if (!sw->has_watcher) {
        struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
        sw->watch_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
        sw->watch_wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        atomic_store(&sw->watch_stopping, false);
        sw->has_watcher = sw->watch_fd >= 0 && sw->watch_wake_fd >= 0
                          && !bind(sw->watch_fd, (struct sockaddr *)&address, sizeof address)
                          && !pthread_create(&sw->watcher, NULL, watch, sw);
    }
    ss_unlock(sw);
}

void port_watch_stop(struct ss_switch *sw)
{
    if (sw->has_watcher) {
        atomic_store(&sw->watch_stopping, true);
        eventfd_write(sw->watch_wake_fd, 1);
        pthread_join(sw->watcher, NULL);
        sw->has_watcher = false;
    }
    if (sw->watch_fd >= 0)
        close(sw->watch_fd);
    if (sw->watch_wake_fd >= 0)
        close(sw->watch_wake_fd);
    sw->watch_fd = sw->watch_wake_fd = -1;
}
