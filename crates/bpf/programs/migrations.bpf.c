/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Counts calls of the kernel's migrate_pages(), by their reason and the task that makes them. The
 * time of a call is from mm_migrate_pages_start to mm_migrate_pages, in one task. */

#include "kernel.h"

struct trace_event_raw_mm_migrate_pages {
    unsigned long large_folio_split;
} CORE;

enum migrate_reason {
    MR_COMPACTION,
    MR_MEMORY_FAILURE,
    MR_MEMORY_HOTPLUG,
    MR_SYSCALL,
    MR_MEMPOLICY_MBIND,
    MR_NUMA_MISPLACED,
    MR_CONTIG_RANGE,
    MR_LONGTERM_PIN,
    MR_DEMOTION,
    MR_DAMON,
};

enum tlb_flush_reason {
    TLB_REMOTE_SEND_IPI = 4,
};

/* Who moves, whatever numbers the kernel has; as MigrationReason in src/migrations.rs. */
enum reason { OTHER, COMPACTION, FAILURE, HOTPLUG, SYSCALL, MBIND, NUMA, RANGE, PIN, DEMOTION, DAMON };

struct mover {
    u32 reason;
    u32 tgid;
    u64 comm[2];
};

/* As MigrationCounts in src/migrations.rs. */
struct counts {
    u64 calls;
    u64 succeeded;
    u64 failed;
    u64 ns;
    u64 ns_max;
    u64 flushes;
    u64 timed;
};

/* A call that is under way, of one task. */
struct call {
    u64 start_ns;
    u64 flushes;
};

struct {
    NUMBER(type, PERCPU_HASH);
    NUMBER(max_entries, 1024);
    NUMBER(map_flags, NO_PREALLOC);
    TYPE(key, struct mover);
    TYPE(value, struct counts);
} movers SEC(".maps");

struct {
    NUMBER(type, HASH);
    NUMBER(max_entries, 4096);
    TYPE(key, u32);
    TYPE(value, struct call);
} calls SEC(".maps");

/* Calls that found no room in `movers`, and in `calls`. */
struct {
    NUMBER(type, PERCPU_ARRAY);
    NUMBER(max_entries, 2);
    TYPE(key, u32);
    TYPE(value, u64);
} lost SEC(".maps");

INLINE void lose(u32 map)
{
    u64 *count = map_lookup(&lost, &map);
    if (count)
        *count += 1;
}

#define IS(name, number) (HAS_VALUE(migrate_reason, name) && number == VALUE(migrate_reason, name))

INLINE u32 reason_of(u64 number)
{
    if (IS(MR_NUMA_MISPLACED, number))
        return NUMA;
    if (IS(MR_SYSCALL, number))
        return SYSCALL;
    if (IS(MR_COMPACTION, number))
        return COMPACTION;
    if (IS(MR_DEMOTION, number))
        return DEMOTION;
    if (IS(MR_MEMPOLICY_MBIND, number))
        return MBIND;
    if (IS(MR_DAMON, number))
        return DAMON;
    if (IS(MR_MEMORY_HOTPLUG, number))
        return HOTPLUG;
    if (IS(MR_CONTIG_RANGE, number))
        return RANGE;
    if (IS(MR_LONGTERM_PIN, number))
        return PIN;
    if (IS(MR_MEMORY_FAILURE, number))
        return FAILURE;
    return OTHER;
}

SEC("raw_tp/mm_migrate_pages_start")
int migrate_start(u64 *args)
{
    u32 task = current_pid_tgid();
    struct call call = {.start_ns = now_ns()};
    if (map_update(&calls, &task, &call, 0))
        lose(1);
    return 0;
}

/* Flushes of other CPUs are a migration's if the task that sends the interrupts is in a call. */
SEC("raw_tp/tlb_flush")
int flush(u64 *args)
{
    if ((u32)args[0] != VALUE(tlb_flush_reason, TLB_REMOTE_SEND_IPI))
        return 0;
    u32 task = current_pid_tgid();
    struct call *call = map_lookup(&calls, &task);
    if (call)
        call->flushes += 1;
    return 0;
}

SEC("raw_tp/mm_migrate_pages")
int migrate_end(u64 *args)
{
    /* succeeded, failed, three of huge pages, in newer kernels one of large folios, mode, reason */
    u64 number;
    if (HAS(struct trace_event_raw_mm_migrate_pages, large_folio_split))
        number = ARGUMENT(args, 7);
    else
        number = ARGUMENT(args, 6);
    u64 task = current_pid_tgid();
    u32 tid = task;
    struct mover mover = {.reason = reason_of((u32)number), .tgid = task >> 32};
    current_comm(mover.comm, sizeof(mover.comm));
    struct counts *counts = map_lookup(&movers, &mover);
    if (!counts) {
        struct counts none = {};
        map_update(&movers, &mover, &none, NOEXIST);
        counts = map_lookup(&movers, &mover);
        if (!counts) {
            lose(0);
            map_delete(&calls, &tid);
            return 0;
        }
    }
    counts->calls += 1;
    counts->succeeded += args[0];
    counts->failed += args[1];
    struct call *call = map_lookup(&calls, &tid);
    if (!call)
        return 0;
    u64 ns = now_ns() - call->start_ns;
    counts->timed += 1;
    counts->ns += ns;
    if (ns > counts->ns_max)
        counts->ns_max = ns;
    counts->flushes += call->flushes;
    map_delete(&calls, &tid);
    return 0;
}
