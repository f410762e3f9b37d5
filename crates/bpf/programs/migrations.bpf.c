/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Counts calls of the kernel's migrate_pages() by reason and by the task that makes them, and the
 * time for which a page table has a migration entry in place of a page, and TLB flushes. All of a
 * call, from mm_migrate_pages_start to mm_migrate_pages, happens in one task.
 *
 * Counts are added atomically: in newer kernels a task can be preempted inside a program. */

#include "kernel.h"

struct trace_event_raw_mm_migrate_pages {
    unsigned long thp_succeeded;
    unsigned long large_folio_split;
} CORE;

/* Of enum tlb_flush_reason: other CPUs are asked for it, all of them at once. */
#define TLB_REMOTE_SEND_IPI 4

/* Numbers of enum migrate_reason; the last stands for all from there on. */
#define REASONS 16

/* Times below 16 ns have a bucket each, longer ones 8 for each power of two; 2^36 ns is a minute.
 * As TimeHistogram in src/time_histogram.rs. */
#define BUCKETS 272
#define EXPONENT_MAX 35

/* As MigrationCounts in src/migrations.rs. */
struct counts {
    u64 calls;
    u64 succeeded;
    u64 failed;
    u64 thp_succeeded;
    u64 thp_failed;
    u64 thp_split;
    u64 large_folio_split;
    u64 call_ns;
    u64 tlb_flushes;
    u64 hold_ns_max;
    u64 holds[BUCKETS];
};

struct caller {
    u32 reason;
    u32 tgid;
    u64 comm[2];
};

/* As CallerCounts in src/migrations.rs. */
struct caller_counts {
    u64 calls;
    u64 succeeded;
    u64 failed;
};

/* A call that is under way, of one task. */
struct call {
    u64 start_ns;
    u32 reason;
    u32 unused;
};

/* A migration entry that a call of a task has set. */
struct hold {
    u32 task;
    /* Page tables of several processes may have the page at one address; 0: it is removed. */
    u32 mappings;
    u64 address;
    u64 since_ns;
    u64 call_start_ns;
};

struct {
    NUMBER(type, PERCPU_ARRAY);
    NUMBER(max_entries, REASONS);
    TYPE(key, u32);
    TYPE(value, struct counts);
} reasons SEC(".maps");

struct {
    NUMBER(type, PERCPU_HASH);
    NUMBER(max_entries, 1024);
    NUMBER(map_flags, NO_PREALLOC);
    TYPE(key, struct caller);
    TYPE(value, struct caller_counts);
} callers SEC(".maps");

struct {
    NUMBER(type, HASH);
    NUMBER(max_entries, 4096);
    TYPE(key, u32);
    TYPE(value, struct call);
} calls SEC(".maps");

/* An entry is in one of two slots. Hash maps cost several times as much. What a process unmaps
 * meanwhile is never removed, and only its slot is lost, until another entry takes it. Two tasks
 * that take one slot within the same nanoseconds may mix their times. */
#define HOLDS 65536

struct {
    NUMBER(type, ARRAY);
    NUMBER(max_entries, HOLDS);
    TYPE(key, u32);
    TYPE(value, struct hold);
} held SEC(".maps");

/* Processes whose calls are counted, if not those of all. */
struct {
    NUMBER(type, HASH);
    NUMBER(max_entries, 1024);
    TYPE(key, u32);
    TYPE(value, u32);
} watched SEC(".maps");

const volatile u32 only_watched = 0;

/* What found no room, or no beginning: as LostEvents in src/migrations.rs. */
enum lost_event { LOST_CALLER, LOST_START, LOST_HOLD };

struct {
    NUMBER(type, PERCPU_ARRAY);
    NUMBER(max_entries, 3);
    TYPE(key, u32);
    TYPE(value, u64);
} lost SEC(".maps");

#define ADD(to, number) __sync_fetch_and_add(&(to), number)

INLINE void lose(u32 event)
{
    u64 *count = map_lookup(&lost, &event);
    if (count)
        ADD(*count, 1);
}

INLINE u32 slot_of(u64 reason)
{
    return (u32)reason < REASONS ? (u32)reason : REASONS - 1;
}

INLINE int is_counted(u32 tgid)
{
    return !only_watched || map_lookup(&watched, &tgid);
}

INLINE u32 exponent_of(u64 number)
{
    u32 exponent = 0;
    for (u32 bits = 32; bits > 0; bits /= 2) {
        if (number >> bits) {
            number >>= bits;
            exponent += bits;
        }
    }
    return exponent;
}

INLINE u32 bucket_of(u64 ns)
{
    if (ns < 16)
        return ns;
    u32 exponent = exponent_of(ns);
    if (exponent > EXPONENT_MAX)
        return BUCKETS - 1;
    return (exponent - 2) * 8 + ((ns >> (exponent - 3)) & 7);
}

SEC("raw_tp/mm_migrate_pages_start")
int migrate_start(u64 *args)
{
    u64 task = current_pid_tgid();
    if (!is_counted(task >> 32))
        return 0;
    u32 tid = task;
    struct call call = {.start_ns = now_ns(), .reason = slot_of(ARGUMENT(args, 1))};
    if (map_update(&calls, &tid, &call, 0))
        lose(LOST_START);
    return 0;
}

/* Neighbours in memory have neighbour slots. */
INLINE struct hold *first_slot(u32 task, u64 address)
{
    u32 slot = ((u32)(address >> 12) + task * 2654435761u) % HOLDS;
    return map_lookup(&held, &slot);
}

INLINE struct hold *second_slot(u32 task, u64 address)
{
    u32 slot = (((address >> 12) + task) * 0x9e3779b97f4a7c15ull >> 40) % HOLDS;
    return map_lookup(&held, &slot);
}

INLINE int is_taken(struct hold *hold, u32 task, struct call *call)
{
    return hold->mappings && hold->task == task && hold->call_start_ns == call->start_ns;
}

INLINE int is_of(struct hold *hold, u32 task, struct call *call, u64 address)
{
    return hold->address == address && is_taken(hold, task, call);
}

/* Entries are also set to split a huge page: those outside of calls are not counted. */
INLINE int hold_begins(u64 address)
{
    u32 task = current_pid_tgid();
    struct call *call = map_lookup(&calls, &task);
    struct hold *hold = first_slot(task, address), *second = second_slot(task, address);
    if (!call || !hold || !second)
        return 0;
    if (is_taken(hold, task, call) && hold->address != address)
        hold = second;
    if (is_of(hold, task, call, address)) {
        hold->mappings += 1;
        return 0;
    }
    hold->mappings = 1;
    hold->task = task;
    hold->address = address;
    hold->call_start_ns = call->start_ns;
    hold->since_ns = now_ns();
    return 0;
}

INLINE void count_hold(u32 reason, u64 ns)
{
    struct counts *counts = map_lookup(&reasons, &reason);
    if (!counts)
        return;
    if (ns > counts->hold_ns_max)
        counts->hold_ns_max = ns;
    u32 bucket = bucket_of(ns);
    /* The compiler knows that it is in bounds; the verifier wants to see it. */
    asm volatile("" : "+r"(bucket));
    if (bucket < BUCKETS)
        ADD(counts->holds[bucket], 1);
}

INLINE int hold_ends(u64 address)
{
    u32 task = current_pid_tgid();
    struct call *call = map_lookup(&calls, &task);
    struct hold *first = first_slot(task, address), *second = second_slot(task, address);
    if (!call || !first || !second)
        return 0;
    struct hold *hold = is_of(first, task, call, address) ? first : second;
    if (!is_of(hold, task, call, address)) {
        lose(LOST_HOLD);
        return 0;
    }
    hold->mappings -= 1;
    if (!hold->mappings)
        count_hold(call->reason, now_ns() - hold->since_ns);
    return 0;
}

SEC("raw_tp/set_migration_pte")
int hold_pte(u64 *args)
{
    return hold_begins(args[0]);
}

SEC("raw_tp/remove_migration_pte")
int release_pte(u64 *args)
{
    return hold_ends(args[0]);
}

SEC("raw_tp/set_migration_pmd")
int hold_pmd(u64 *args)
{
    return hold_begins(args[0]);
}

SEC("raw_tp/remove_migration_pmd")
int release_pmd(u64 *args)
{
    return hold_ends(args[0]);
}

/* Most events are switches from one process to another. What other CPUs ask of this one while a
 * call is under way has another reason. */
SEC("raw_tp/tlb_flush")
int tlb_flush(u64 *args)
{
    if (ARGUMENT(args, 0) != TLB_REMOTE_SEND_IPI)
        return 0;
    u32 task = current_pid_tgid();
    struct call *call = map_lookup(&calls, &task);
    if (!call)
        return 0;
    struct counts *counts = map_lookup(&reasons, &call->reason);
    if (counts)
        ADD(counts->tlb_flushes, 1);
    return 0;
}

INLINE void count_caller(u64 *args, u32 reason, u32 tgid)
{
    struct caller caller = {.reason = reason, .tgid = tgid};
    current_comm(caller.comm, sizeof(caller.comm));
    struct caller_counts *counts = map_lookup(&callers, &caller);
    if (!counts) {
        struct caller_counts none = {};
        map_update(&callers, &caller, &none, NOEXIST);
        counts = map_lookup(&callers, &caller);
    }
    if (!counts) {
        lose(LOST_CALLER);
        return;
    }
    ADD(counts->calls, 1);
    ADD(counts->succeeded, args[0]);
    ADD(counts->failed, args[1]);
}

INLINE void count_call(struct counts *counts, u32 tid)
{
    struct call *call = map_lookup(&calls, &tid);
    if (!call)
        return;
    ADD(counts->call_ns, now_ns() - call->start_ns);
    map_delete(&calls, &tid);
}

SEC("raw_tp/mm_migrate_pages")
int migrate_end(u64 *args)
{
    u64 task = current_pid_tgid();
    if (!is_counted(task >> 32))
        return 0;
    /* succeeded, failed, then (since 5.9) three of huge pages, then (since 6.7) one of large
     * folios, then mode and reason */
    u64 number;
    if (HAS(struct trace_event_raw_mm_migrate_pages, large_folio_split))
        number = ARGUMENT(args, 7);
    else if (HAS(struct trace_event_raw_mm_migrate_pages, thp_succeeded))
        number = ARGUMENT(args, 6);
    else
        number = ARGUMENT(args, 3);
    u32 reason = slot_of(number);
    struct counts *counts = map_lookup(&reasons, &reason);
    if (!counts)
        return 0;
    ADD(counts->calls, 1);
    ADD(counts->succeeded, args[0]);
    ADD(counts->failed, args[1]);
    if (HAS(struct trace_event_raw_mm_migrate_pages, thp_succeeded)) {
        ADD(counts->thp_succeeded, ARGUMENT(args, 2));
        ADD(counts->thp_failed, ARGUMENT(args, 3));
        ADD(counts->thp_split, ARGUMENT(args, 4));
    }
    if (HAS(struct trace_event_raw_mm_migrate_pages, large_folio_split))
        ADD(counts->large_folio_split, ARGUMENT(args, 5));
    count_caller(args, reason, task >> 32);
    count_call(counts, task);
    return 0;
}
