/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* For tests: a program whose tracepoint no kernel has, and one that no kernel accepts. */

#include "kernel.h"

SEC("raw_tp/nodeward_nowhere")
int nowhere(u64 *args)
{
    return 0;
}

/* It reads where it may not. */
SEC("raw_tp/mm_migrate_pages")
int outside(u64 *args)
{
    return *(volatile u32 *)0;
}
