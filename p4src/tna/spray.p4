// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Which member of its group a packet takes. Ingress sees no queue's depth on Tofino, so shallower_of_two draws one
// member at random.

#ifndef GRADLANE_SPRAY_P4
#define GRADLANE_SPRAY_P4

#include "../shared/path.p4"
#include "metadata.p4"

#define PATH_GROUP_MEMBERS 120

control Spray(in headers_t hdr, in ingress_metadata_t meta, in group_t group, in path_mode_t mode,
              inout next_hop_t next_hop, inout drop_reason_t reason) {
    PinnedPath() pinned_path;

    Hash<selector_t>(HashAlgorithm_t.CRC16) hash_ipv4;
    Hash<selector_t>(HashAlgorithm_t.CRC16) hash_ipv6;
    Random<selector_t>() draw;
    Register<selector_t, bit<12>>(ROUND_ROBIN_TURNS, 0) round_robin_turn;
    RegisterAction<selector_t, bit<12>, selector_t>(round_robin_turn) take_turn = {
        void apply(inout selector_t turn, out selector_t taken) {
            taken = turn;
            turn = turn + 1;
        }
    };

    Hash<bit<14>>(HashAlgorithm_t.IDENTITY) identity;
    ActionProfile(PATH_SELECTOR_ROWS) path_members;
    ActionSelector(path_members, identity, SelectorMode_t.FAIR, PATH_GROUP_MEMBERS, PATH_GROUP_ROWS) path_selector;

    selector_t choice = 0;

    // The port is of use to targets whose ingress sees depths.
    action set_path(@name("next_hop") next_hop_t member_next_hop, @noWarn("unused") @name("port") port_t port) {
        next_hop = member_next_hop;
    }

    table path_group {
        key = {
            group : exact @name("group");
            choice : selector;
        }
        actions = { set_path; @defaultonly NoAction; }
        const default_action = NoAction;
        implementation = path_selector;
        size = PATH_GROUP_ROWS;
    }

    apply {
        bool pinned = false;
        if (hdr.bridge.gradient == 1 && hdr.gradient.path != 0) {
            pinned_path.apply(group, hdr.gradient.path, next_hop, pinned);
        }

        if (!pinned) {
            if (mode == path_mode_t.FLOW_HASH) {
                if (hdr.ipv4.isValid()) {
                    choice = hash_ipv4.get({ hdr.ipv4.source, hdr.ipv4.destination, meta.protocol,
                                               meta.source_port, meta.destination_port });
                } else {
                    choice = hash_ipv6.get({ hdr.ipv6.source, hdr.ipv6.destination, meta.protocol,
                                               meta.source_port, meta.destination_port });
                }
            } else if (mode == path_mode_t.ROUND_ROBIN) {
                choice = take_turn.execute(group[8:0] ++ hdr.bridge.class);
            } else {
                choice = draw.get();
            }

            if (!path_group.apply().hit) {
                reason = drop_reason_t.NO_ROUTE;
            }
        }
    }
}

#endif
