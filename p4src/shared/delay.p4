// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Queueing delay as a bucket: 0 is below 16 us, then four equal steps to each octave, the last one open.
//
// Bucket b >= 1 begins at 2^o * (16 + 4 * q) us with o = (b - 1) / 4, q = (b - 1) mod 4: 16, 20, 24, 28, 32, 40, ...

#ifndef GRADLANE_DELAY_P4
#define GRADLANE_DELAY_P4

#include "sizes.p4"
#include "types.p4"

// `delay` in microseconds.
control DelayBucket(in bit<32> delay, out bucket_t result) {
    action set_bucket(@name("bucket") bucket_t bucket) {
        result = bucket;
    }

    table delay_bucket {
        key = { delay : CONST_PREFIX @name("delay"); }
        actions = { set_bucket; }
        const default_action = set_bucket(63);
        const entries = {
            0x00000000 &&& 0xfffffff0 : set_bucket(0);
            0x00000010 &&& 0xfffffffc : set_bucket(1);
            0x00000014 &&& 0xfffffffc : set_bucket(2);
            0x00000018 &&& 0xfffffffc : set_bucket(3);
            0x0000001c &&& 0xfffffffc : set_bucket(4);
            0x00000020 &&& 0xfffffff8 : set_bucket(5);
            0x00000028 &&& 0xfffffff8 : set_bucket(6);
            0x00000030 &&& 0xfffffff8 : set_bucket(7);
            0x00000038 &&& 0xfffffff8 : set_bucket(8);
            0x00000040 &&& 0xfffffff0 : set_bucket(9);
            0x00000050 &&& 0xfffffff0 : set_bucket(10);
            0x00000060 &&& 0xfffffff0 : set_bucket(11);
            0x00000070 &&& 0xfffffff0 : set_bucket(12);
            0x00000080 &&& 0xffffffe0 : set_bucket(13);
            0x000000a0 &&& 0xffffffe0 : set_bucket(14);
            0x000000c0 &&& 0xffffffe0 : set_bucket(15);
            0x000000e0 &&& 0xffffffe0 : set_bucket(16);
            0x00000100 &&& 0xffffffc0 : set_bucket(17);
            0x00000140 &&& 0xffffffc0 : set_bucket(18);
            0x00000180 &&& 0xffffffc0 : set_bucket(19);
            0x000001c0 &&& 0xffffffc0 : set_bucket(20);
            0x00000200 &&& 0xffffff80 : set_bucket(21);
            0x00000280 &&& 0xffffff80 : set_bucket(22);
            0x00000300 &&& 0xffffff80 : set_bucket(23);
            0x00000380 &&& 0xffffff80 : set_bucket(24);
            0x00000400 &&& 0xffffff00 : set_bucket(25);
            0x00000500 &&& 0xffffff00 : set_bucket(26);
            0x00000600 &&& 0xffffff00 : set_bucket(27);
            0x00000700 &&& 0xffffff00 : set_bucket(28);
            0x00000800 &&& 0xfffffe00 : set_bucket(29);
            0x00000a00 &&& 0xfffffe00 : set_bucket(30);
            0x00000c00 &&& 0xfffffe00 : set_bucket(31);
            0x00000e00 &&& 0xfffffe00 : set_bucket(32);
            0x00001000 &&& 0xfffffc00 : set_bucket(33);
            0x00001400 &&& 0xfffffc00 : set_bucket(34);
            0x00001800 &&& 0xfffffc00 : set_bucket(35);
            0x00001c00 &&& 0xfffffc00 : set_bucket(36);
            0x00002000 &&& 0xfffff800 : set_bucket(37);
            0x00002800 &&& 0xfffff800 : set_bucket(38);
            0x00003000 &&& 0xfffff800 : set_bucket(39);
            0x00003800 &&& 0xfffff800 : set_bucket(40);
            0x00004000 &&& 0xfffff000 : set_bucket(41);
            0x00005000 &&& 0xfffff000 : set_bucket(42);
            0x00006000 &&& 0xfffff000 : set_bucket(43);
            0x00007000 &&& 0xfffff000 : set_bucket(44);
            0x00008000 &&& 0xffffe000 : set_bucket(45);
            0x0000a000 &&& 0xffffe000 : set_bucket(46);
            0x0000c000 &&& 0xffffe000 : set_bucket(47);
            0x0000e000 &&& 0xffffe000 : set_bucket(48);
            0x00010000 &&& 0xffffc000 : set_bucket(49);
            0x00014000 &&& 0xffffc000 : set_bucket(50);
            0x00018000 &&& 0xffffc000 : set_bucket(51);
            0x0001c000 &&& 0xffffc000 : set_bucket(52);
            0x00020000 &&& 0xffff8000 : set_bucket(53);
            0x00028000 &&& 0xffff8000 : set_bucket(54);
            0x00030000 &&& 0xffff8000 : set_bucket(55);
            0x00038000 &&& 0xffff8000 : set_bucket(56);
            0x00040000 &&& 0xffff0000 : set_bucket(57);
            0x00050000 &&& 0xffff0000 : set_bucket(58);
            0x00060000 &&& 0xffff0000 : set_bucket(59);
            0x00070000 &&& 0xffff0000 : set_bucket(60);
            0x00080000 &&& 0xfffe0000 : set_bucket(61);
            0x000a0000 &&& 0xfffe0000 : set_bucket(62);
        }
        SIZE_OF_CONST_ENTRIES(DELAY_BUCKET_ROWS)
    }

    apply {
        delay_bucket.apply();
    }
}

#endif
