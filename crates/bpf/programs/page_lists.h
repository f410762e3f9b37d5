/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* Counts, for each CPU and period, how far allocations of pages that go through the CPU's page lists
 * ran ahead of frees, and frees ahead of allocations: the depths of "[RFC 2/2] mm: alloc/free depth
 * based PCP high auto-tuning" (2023), over the lists of all zones of the CPU together, because the
 * tracepoints do not tell the zone. The caller says when a period ends, by the number in `periods`.
 *
 * With RECORDED each event is kept, too, so that a test can replay it. */

#include "kernel.h"

#define barrier() asm volatile("" ::: "memory")

/* Blocks of 2^0 to 2^largest_order pages go through lists, and those of 2^huge_order; set at load. */
const volatile u32 largest_order = 0;
const volatile u32 huge_order = 0;

enum kind { ALLOC, FREE, FREE_BATCHED, REFILL, DRAIN };

/* As PeriodCounts in src/page_lists.rs. */
struct counts {
    u64 period;
    s64 balance;
    s64 highest;
    s64 lowest;
    s64 alloc_depth;
    s64 free_depth;
    u64 allocated;
    u64 freed;
    u64 refills;
    u64 drains;
};

/* Of two periods that follow one another each has its own counts: what ended stays as it is while
 * it is read. */
struct cpu {
    /* 1 while a program of this CPU counts. An interrupt may begin another one meanwhile, which
     * counts nothing but itself. */
    u64 busy;
    u64 missed;
    u64 unrecorded;
    /* The kind of the last event: consecutive pages in one direction are one visit of a zone. */
    u64 last;
    struct counts counts[2];
};

struct {
    NUMBER(type, PERCPU_ARRAY);
    NUMBER(max_entries, 1);
    TYPE(key, u32);
    TYPE(value, struct cpu);
} cpus SEC(".maps");

struct {
    NUMBER(type, ARRAY);
    NUMBER(max_entries, 1);
    TYPE(key, u32);
    TYPE(value, u64);
} periods SEC(".maps");

#ifdef RECORDED
/* As RecordedEvent in src/page_lists.rs. */
struct event {
    u64 period;
    u32 cpu;
    u32 kind;
    u64 order;
};

struct {
    NUMBER(type, RINGBUF);
    NUMBER(max_entries, 16 << 20);
} events SEC(".maps");

INLINE void record(struct cpu *cpu, u64 period, u32 kind, u64 order)
{
    struct event *event = ring_reserve(&events, sizeof(*event), 0);
    if (!event) {
        cpu->unrecorded += 1;
        return;
    }
    event->period = period;
    event->cpu = cpu_number();
    event->kind = kind;
    event->order = order;
    /* Without a wake-up, which may be refused where pages are allocated: the test looks itself. */
    ring_submit(event, 1);
}
#else
INLINE void record(struct cpu *cpu, u64 period, u32 kind, u64 order) {}
#endif

/* A page that is allocated; `pages` of them. */
INLINE void allocated(struct counts *counts, s64 pages)
{
    counts->allocated += pages;
    counts->balance += pages;
    if (counts->balance > counts->highest)
        counts->highest = counts->balance;
    if (counts->balance - counts->lowest > counts->alloc_depth)
        counts->alloc_depth = counts->balance - counts->lowest;
}

INLINE void freed(struct counts *counts, s64 pages)
{
    counts->freed += pages;
    counts->balance -= pages;
    if (counts->balance < counts->lowest)
        counts->lowest = counts->balance;
    if (counts->highest - counts->balance > counts->free_depth)
        counts->free_depth = counts->highest - counts->balance;
}

INLINE void count(struct cpu *cpu, u32 kind, u64 order)
{
    u32 zero = 0;
    u64 *now = map_lookup(&periods, &zero);
    if (!now)
        return;
    u64 period = *(volatile u64 *)now;
    struct counts *counts = &cpu->counts[period & 1];
    if (counts->period != period) {
        __builtin_memset(counts, 0, sizeof(*counts));
        counts->period = period;
    }
    if (kind == ALLOC)
        allocated(counts, 1ll << (order & 31));
    else if (kind == FREE)
        freed(counts, 1ll << (order & 31));
    else if (kind == REFILL && cpu->last != REFILL)
        counts->refills += 1;
    else if (kind == DRAIN && cpu->last != DRAIN)
        counts->drains += 1;
    cpu->last = kind;
    record(cpu, period, kind, order);
}

INLINE int take(u32 kind, u64 order)
{
    u32 zero = 0;
    if (order > largest_order && order != huge_order)
        return 0;
    struct cpu *cpu = map_lookup(&cpus, &zero);
    if (!cpu)
        return 0;
    if (cpu->busy) {
        cpu->missed += 1;
        return 0;
    }
    cpu->busy = 1;
    barrier();
    count(cpu, kind, order);
    barrier();
    cpu->busy = 0;
    return 0;
}

SEC("raw_tp/mm_page_alloc")
int page_alloc(u64 *args)
{
    /* No page is an allocation that failed. */
    if (!args[0])
        return 0;
    return take(ALLOC, (u32)args[1]);
}

/* Each page that is freed, those that are freed in one call included. */
SEC("raw_tp/mm_page_free")
int page_free(u64 *args)
{
    return take(FREE, (u32)args[1]);
}

/* A page of those is about to go into a list: what the list gave back before was for another. */
SEC("raw_tp/mm_page_free_batched")
int page_free_batched(u64 *args)
{
    return take(FREE_BATCHED, 0);
}

SEC("raw_tp/mm_page_alloc_zone_locked")
int zone_to_list(u64 *args)
{
    return take(REFILL, (u32)args[1]);
}

SEC("raw_tp/mm_page_pcpu_drain")
int list_to_zone(u64 *args)
{
    return take(DRAIN, (u32)args[1]);
}
