/* libnodeward: memory that moves between NUMA nodes while a program uses it.
 *
 * Written by `cargo xtask header` from crates/capi; do not edit. How to use it, what is guaranteed,
 * and what a program must not do with managed memory stands in docs/reference/library.md.
 *
 * - A function that returns int returns one of enum nodeward_status.
 * - A struct that is handed over begins with its size: set it to zero, then
 *   `size = sizeof(struct ...)`. Zero is the default of every other field, so programs and
 *   libraries of different ages fit together.
 * - Pointers must lead to live values of their type, or be NULL where that is said. No call may
 *   begin with a handle that has been ended. (A pool's is the exception: such calls are refused.)
 * - Handles may be used by all threads at once. No function may be called by a signal handler but
 *   nodeward_cancel_set().
 * - A bug inside the library (a panic) ends the process by abort(3), with words on stderr, because
 *   going on could lose data.
 */

#ifndef NODEWARD_H
#define NODEWARD_H

#include <stddef.h>
#include <stdint.h>

// Of struct nodeward_pager_options: use only what works everywhere, move_pages(2).
#define NODEWARD_PAGER_KERNEL_ONLY 1

// Of struct nodeward_pager_options: where userfaultfd handles faults of user code only, use it
// all the same. The program promises to hand managed memory to no system call while pages move:
// read(2), write(2) and all others would fail with EFAULT.
#define NODEWARD_PAGER_ASSUME_NO_SYSCALLS 2

// Of struct nodeward_pager_options: keep no pages of earlier migrations.
#define NODEWARD_PAGER_NO_POOL 4

// Of struct nodeward_region_options: no device and no direct I/O ever works on this memory while
// it moves. Linux before 6.8 cannot tell; there only such regions move by the road "remap".
#define NODEWARD_REGION_FREE_OF_DMA 1

// Of struct nodeward_migration: move pages, too, that are on the destination already; to measure.
// Not on the road "kernel".
#define NODEWARD_MIGRATION_EVEN_IF_THERE 1

// Of struct nodeward_pool_options: no lists of CPUs; each call takes the lock of its node's zone.
#define NODEWARD_POOL_NO_LISTS 1

// Of struct nodeward_pool_options: no thread looks after the pool. Call nodeward_pool_tick() once
// in a period.
#define NODEWARD_POOL_NO_HOUSEKEEPER 2

// For nodeward_pool_allocate(): all bytes are zero. Without it they are what somebody left there.
#define NODEWARD_POOL_ZEROED 1

// For nodeward_pool_allocate(): the node of the calling thread's CPU, or, if that one has no room,
// the nearest one that has.
#define NODEWARD_ANY_NODE UINT32_MAX

// Places for reasons in struct nodeward_report; more than there are, for later ones.
#define NODEWARD_SKIP_SLOTS 32

// How a function ended. All but NODEWARD_STATUS_OK mean that nothing was done, and that
// nodeward_last_error() tells what was wrong and what to do. More may be added later. What
// happened to single pages is no error: see struct nodeward_report.
enum nodeward_status {
    // It was done.
    NODEWARD_STATUS_OK = 0,
    // A pointer is NULL, or a struct or number has a value that has no meaning.
    NODEWARD_STATUS_ARGUMENT = 1,
    // A range is not made of whole pages.
    NODEWARD_STATUS_UNALIGNED = 2,
    // A range leaves the region.
    NODEWARD_STATUS_OUT_OF_REGION = 3,
    // No such node, or none with memory that this process may use.
    NODEWARD_STATUS_UNKNOWN_NODE = 4,
    // A setting makes no sense here.
    NODEWARD_STATUS_BAD_OPTION = 5,
    // Huge pages were asked for and there are none.
    NODEWARD_STATUS_NO_HUGE_PAGES = 6,
    // It works with userfaultfd only, which cannot be had.
    NODEWARD_STATUS_NEEDS_USERFAULTFD = 7,
    // The pager or pool was opened by the process that this one is a child of.
    NODEWARD_STATUS_FORKED = 8,
    // The region is being released.
    NODEWARD_STATUS_CLOSING = 9,
    // A node had no room for memory to be committed, or no node that a run may be on has any.
    NODEWARD_STATUS_NO_ROOM = 10,
    // No file descriptor is left.
    NODEWARD_STATUS_NO_DESCRIPTOR = 11,
    // A system call failed.
    NODEWARD_STATUS_SYSTEM = 12,
    // The machine could not be looked at.
    NODEWARD_STATUS_MACHINE = 13,
    // A run cannot be so long; see nodeward_pool_order_max().
    NODEWARD_STATUS_RUN_TOO_LONG = 14,
    // The pool has no memory there.
    NODEWARD_STATUS_NOT_OURS = 15,
    // There is memory of the pool, but no run begins there.
    NODEWARD_STATUS_NOT_A_START = 16,
    // The run was allocated with another order.
    NODEWARD_STATUS_WRONG_ORDER = 17,
    // Nobody has the run: it was freed before, or never allocated.
    NODEWARD_STATUS_DOUBLE_FREE = 18,
    // Somebody wrote to memory after it was freed. It is not handed out again. Found by debug
    // builds of the library only.
    NODEWARD_STATUS_WRITTEN_AFTER_FREE = 19,
    // The pool was closed; what was allocated can still be freed.
    NODEWARD_STATUS_POOL_CLOSED = 20,
    // The pool was released; nothing can be done with it any more.
    NODEWARD_STATUS_POOL_RELEASED = 21,
};

// Why a page stayed where it was. nodeward_skip_advice() has a line for each.
enum nodeward_skip {
    // In use by direct I/O or a device, or held by nodeward_region_pin().
    NODEWARD_SKIP_PINNED = 0,
    // Other processes map it too.
    NODEWARD_SKIP_SHARED = 1,
    // A child made by fork(2) still has it.
    NODEWARD_SKIP_SHARED_AFTER_FORK = 2,
    // Not in memory.
    NODEWARD_SKIP_NOT_PRESENT = 3,
    // In swap.
    NODEWARD_SKIP_SWAPPED = 4,
    // The destination has no free memory.
    NODEWARD_SKIP_NO_MEMORY = 5,
    // The destination has no free huge page.
    NODEWARD_SKIP_NO_HUGE_PAGE = 6,
    // The cpuset does not allow the destination.
    NODEWARD_SKIP_NOT_ALLOWED = 7,
    // The kernel never moves it.
    NODEWARD_SKIP_UNMOVABLE = 8,
    // The kernel put it on another node.
    NODEWARD_SKIP_WRONG_NODE = 9,
    // It cannot be moved within the stall budget.
    NODEWARD_SKIP_STALL_BUDGET = 10,
    // The migration ended before its turn.
    NODEWARD_SKIP_INTERRUPTED = 11,
    // The process ended, or its place was unmapped.
    NODEWARD_SKIP_GONE = 12,
    // The kernel refused for another reason.
    NODEWARD_SKIP_REFUSED = 13,
};

// The pages that a region or a pool is made of.
enum nodeward_page {
    // Base pages, 4 KiB on most machines.
    NODEWARD_PAGE_BASE = 0,
    // Transparent huge pages of 2 MiB, as far as the kernel has them.
    NODEWARD_PAGE_HUGE = 1,
};

// What moves the pages of a region.
enum nodeward_mode {
    // The fastest road that works here.
    NODEWARD_MODE_AUTO = 0,
    // The kernel, by move_pages(2): slower, but it sees plain references too.
    NODEWARD_MODE_KERNEL = 1,
};

// What happens to a region in a child of fork(2).
enum nodeward_fork {
    // The child has a copy. fork(2) waits until pages in flight are home.
    NODEWARD_FORK_COPY = 0,
    // The child does not have it (MADV_DONTFORK).
    NODEWARD_FORK_DONT = 1,
};

// Which destination pages are used.
enum nodeward_supply {
    // Kept ones as long as there are some, then fresh ones.
    NODEWARD_SUPPLY_ANY = 0,
    // Only such as earlier migrations emptied.
    NODEWARD_SUPPLY_RECYCLED = 1,
    // Only fresh ones.
    NODEWARD_SUPPLY_ONE_WAY = 2,
};

// What the length of a pool's per-CPU lists follows.
enum nodeward_tuning {
    // The library chooses, now NODEWARD_TUNING_DEPTH.
    NODEWARD_TUNING_DEFAULT = 0,
    // Nothing: it is `high_default`, as in Linux 5.14 to 6.6.
    NODEWARD_TUNING_FIXED = 1,
    // How much is allocated and freed in turn.
    NODEWARD_TUNING_DEPTH = 2,
    // What had to be taken from the zone, as in Linux 6.7.
    NODEWARD_TUNING_EVENTS = 3,
};

// The wish to end migrations. Name it in struct nodeward_migration; it must outlive the call.
struct nodeward_cancel;

// Manages memory of this process: regions whose pages move between nodes while they are in use.
struct nodeward_pager;

// Keeps a range of a region where it is.
struct nodeward_pin;

// Hands out runs of pages and takes them back.
struct nodeward_pool;

// Managed memory. Ranges are an offset in bytes from its start and a length in bytes, both whole
// pages.
struct nodeward_region;

// How a pager is set up. Zero is the default of every field but `size`.
struct nodeward_pager_options {
    // sizeof(struct nodeward_pager_options)
    size_t size;
    // Bytes kept on each node from earlier migrations, as destinations of later ones. 0: 64 MiB.
    uint64_t pool_bytes;
    // Threads that migrate pages. 0: one for each usable physical core, 16 at most.
    uint32_t lanes;
    // NODEWARD_PAGER_KERNEL_ONLY, NODEWARD_PAGER_ASSUME_NO_SYSCALLS, NODEWARD_PAGER_NO_POOL
    uint32_t flags;
};

// How a region is set up. Zero is the default of every field but `size`.
struct nodeward_region_options {
    // sizeof(struct nodeward_region_options)
    size_t size;
    // One of enum nodeward_page.
    uint32_t page;
    // One of enum nodeward_mode.
    uint32_t mode;
    // One of enum nodeward_fork.
    uint32_t fork;
    // NODEWARD_REGION_FREE_OF_DMA
    uint32_t flags;
    // Where memory is placed that is touched for the first time: so many nodes, 2 MiB on each in
    // turn. Without any, on the node of the thread that touches it.
    const uint32_t *nodes;
    // How many.
    size_t node_count;
};

// How a pool is set up. Zero is the default of every field but `size`.
struct nodeward_pool_options {
    // sizeof(struct nodeward_pool_options)
    size_t size;
    // Bytes that the pool has on each node at most. Lists hold an eighth of it at most, and an
    // eighth stays free at most. 0: all memory of the node.
    uint64_t zone_bytes;
    // Free bytes that stay on each node when nobody allocates.
    uint64_t keep_bytes;
    // One of enum nodeward_tuning.
    uint32_t tuning;
    // One of enum nodeward_page.
    uint32_t page;
    // Base pages that go between a list and its zone at a time, at least. 0: 63, the kernel's.
    uint32_t batch;
    // Base pages that a list holds unless more are shown to be of use. 0: four batches.
    uint32_t high_default;
    // The period of tuning in milliseconds. 0: a second.
    uint32_t period_ms;
    // NODEWARD_POOL_NO_LISTS, NODEWARD_POOL_NO_HOUSEKEEPER
    uint32_t flags;
};

// What a pool has and has done, in base pages. Set `size` before the call; all else is written by
// it. They fit each other only while nobody works on the pool, the housekeeper included.
struct nodeward_pool_stats {
    // sizeof(struct nodeward_pool_stats)
    size_t size;
    // In memory.
    uint64_t held_pages;
    // Those that somebody has, or that are on their way to the kernel.
    uint64_t in_use_pages;
    // Those in lists of CPUs.
    uint64_t listed_pages;
    // Those that are free in the zones.
    uint64_t zone_free_pages;
    // The most that were ever in memory.
    uint64_t peak_held_pages;
    // How often the lock of a zone was taken to move pages between it and a list.
    uint64_t zone_visits;
    // Allocated since the pool was opened.
    uint64_t allocated_pages;
    // Freed since.
    uint64_t freed_pages;
};

// Called by a migration on the thread that asked for it, every 50 ms and at the end, with how many
// bytes are done with, moved or not, of how many. It may touch managed memory and call all
// functions of this header; it must return (no longjmp, no exception).
typedef void (*nodeward_progress)(void *user, uint64_t examined_bytes, uint64_t total_bytes);

// How a migration is done. Zero is the default of every field but `size`.
struct nodeward_migration {
    // sizeof(struct nodeward_migration)
    size_t size;
    // At most so many bytes a second. 0: no limit.
    uint64_t bytes_per_s;
    // A thread that touches a page in flight waits for no longer than this, 99 times of 100.
    // 0: no limit.
    uint64_t stall_ns;
    // Bytes in flight per lane, at most 2 MiB. 0: 2 MiB.
    uint64_t batch_bytes;
    // At most so many lanes. 0: as many as pay.
    uint32_t lanes;
    // One of enum nodeward_supply.
    uint32_t supply;
    // NODEWARD_MIGRATION_EVEN_IF_THERE
    uint64_t flags;
    // Called while it runs, or NULL.
    nodeward_progress progress;
    // What `progress` gets as its first argument.
    void *user;
    // Ends the migration early, or NULL.
    const struct nodeward_cancel *cancel;
};

// What came of a migration. Set `size` before the call; all else is written by it. Pages are base
// pages. Each page of the range is in exactly one of `moved_pages`, `already_there_pages` and
// `skipped_pages`.
struct nodeward_report {
    // sizeof(struct nodeward_report)
    size_t size;
    // On the destination now, and were not before.
    uint64_t moved_pages;
    // On the destination from the start.
    uint64_t already_there_pages;
    // Stayed where they were, or are not in memory.
    uint64_t skipped_pages;
    // The same by reason; enum nodeward_skip says which slot is which.
    uint64_t skipped_by_reason[NODEWARD_SKIP_SLOTS];
    // Went to pages kept from earlier migrations.
    uint64_t recycled_pages;
    // Went to fresh pages.
    uint64_t one_way_pages;
    // Left out, to be pulled by the next thread that touches them.
    uint64_t lazy_pages;
    // Batches.
    uint64_t batches;
    // From beginning to end.
    uint64_t took_ns;
    // Taking pages out of sight, summed over lanes as the next three.
    uint64_t unmap_ns;
    // Copying.
    uint64_t copy_ns;
    // Bringing pages into sight.
    uint64_t map_ns;
    // Getting destination pages and giving back emptied ones.
    uint64_t supply_ns;
    // The longest time that pages were out of sight.
    uint64_t longest_hold_ns;
    // Lanes that took part.
    uint32_t lanes;
    // 1 if it was cancelled, or ended by releasing the region.
    uint32_t cancelled;
};

// Pages of a region on one node.
struct nodeward_node_pages {
    // The node.
    uint32_t node;
    // Base pages.
    uint64_t pages;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// A wish that nobody has yet. It ends with nodeward_cancel_free().
struct nodeward_cancel *nodeward_cancel_new(void);

// Says the wish, for good: migrations that name it, now or later, end after the batches in flight.
// Any thread may say it, and a signal handler too. Nothing for NULL.
void nodeward_cancel_set(const struct nodeward_cancel *cancel);

// Ends it; no migration may use it any more. Nothing for NULL.
void nodeward_cancel_free(struct nodeward_cancel *cancel);

// The version of the library, for example "0.1.0".
const char *nodeward_version(void);

// The nodes that have memory which this process may use, in ascending order: at most `capacity`
// of them at `nodes`, and at `count` how many there are. `nodes` may be NULL if `capacity` is 0.
int nodeward_nodes(uint32_t *nodes, size_t capacity, size_t *count);

// Probes what works here and starts the threads. The pager is written to `pager` and ends with
// nodeward_pager_close(). `options` may be NULL. A kernel that offers little is no error: see
// nodeward_pager_road().
int nodeward_pager_open(const struct nodeward_pager_options *options,
                        struct nodeward_pager **pager);

// Ends the handle; the pager itself ends with its last region, and with the last handle of its
// pool. Nothing for NULL.
void nodeward_pager_close(struct nodeward_pager *pager);

// How pages move here: "move" (UFFDIO_MOVE, Linux 6.8), "remap" (only regions with
// NODEWARD_REGION_FREE_OF_DMA) or "kernel" (move_pages(2)), fastest first. Valid as long as the
// pager. NULL for NULL.
const char *nodeward_pager_road(const struct nodeward_pager *pager);

// Why it is not a faster road; NULL on the fastest. Valid as long as the pager.
const char *nodeward_pager_why_not_faster(const struct nodeward_pager *pager);

// What copies pages, for example "memcpy"; NULL if the kernel does. Valid as long as the pager.
const char *nodeward_pager_copier(const struct nodeward_pager *pager);

// The most lanes that a migration gets; 0 for NULL.
uint32_t nodeward_pager_lanes(const struct nodeward_pager *pager);

// Frees the pages that are kept from earlier migrations, and all others that are free in the pool,
// and returns how many bytes; 0 for NULL.
size_t nodeward_pager_trim(const struct nodeward_pager *pager);

// Writes to `pool` the pool that pages go to when migrations empty them, and come from when others
// are moved there. The program may allocate from it, too. The handle ends with
// nodeward_pool_release(), and the pager not before it.
int nodeward_pager_pool(const struct nodeward_pager *pager, struct nodeward_pool **pool);

// Reserves address space for a region of so many bytes, rounded up to 2 MiB. Nothing is in memory
// yet; what is touched first reads as zero. The region is written to `region` and ends with
// nodeward_region_release(). `options` may be NULL.
int nodeward_region_reserve(const struct nodeward_pager *pager,
                            size_t bytes,
                            const struct nodeward_region_options *options,
                            struct nodeward_region **region);

// Opens a pool, which has no memory yet, and writes it to `pool`. It ends with
// nodeward_pool_release(). `options` may be NULL.
int nodeward_pool_open(const struct nodeward_pool_options *options, struct nodeward_pool **pool);

// Lets nobody allocate any more: NODEWARD_STATUS_POOL_CLOSED. What was allocated stays valid and
// can be freed.
int nodeward_pool_close(const struct nodeward_pool *pool);

// Ends a pool: its free memory goes back to the kernel, that of a pager's pool when the pager
// ends. Runs that nobody freed stay valid for as long as the process lives. No other call with the
// pool may be under way; those that begin later are refused with NODEWARD_STATUS_POOL_RELEASED.
// Nothing for NULL, and nothing when it was released before.
void nodeward_pool_release(struct nodeward_pool *pool);

// Writes to `run` the first byte of 2^order base pages, which may be used and freed by any thread.
// They begin at a multiple of their length. `flags`: NODEWARD_POOL_ZEROED or 0. `node`: where they
// must be, or NODEWARD_ANY_NODE.
int nodeward_pool_allocate(const struct nodeward_pool *pool,
                           uint32_t order,
                           uint32_t flags,
                           uint32_t node,
                           void **run);

// Takes a run back that nodeward_pool_allocate() handed out, with its order. Nobody may use it any
// more. What is no run of this order, or was freed before, is refused, and nothing happens.
int nodeward_pool_free(const struct nodeward_pool *pool, void *run, uint32_t order);

// Gives all free memory back to the kernel, and writes to `bytes`, which may be NULL, how much
// that was. Nothing in a child of fork(2).
int nodeward_pool_give_back(const struct nodeward_pool *pool, size_t *bytes);

// Does what is due once in a period, for pools with NODEWARD_POOL_NO_HOUSEKEEPER. Nothing in a
// child of fork(2).
int nodeward_pool_tick(const struct nodeward_pool *pool);

// Writes to `stats` what the pool has and has done; all zero in a child of fork(2). Takes a moment
// on a machine with many CPUs.
int nodeward_pool_stats(const struct nodeward_pool *pool, struct nodeward_pool_stats *stats);

// How many bytes a base page has; 0 for NULL and for a pool that was released.
size_t nodeward_pool_page_bytes(const struct nodeward_pool *pool);

// The largest order: a run of it has 2 MiB. 0 for NULL and for a pool that was released.
uint32_t nodeward_pool_order_max(const struct nodeward_pool *pool);

// Ends a region: its memory is unmapped and nobody may use it any more. Where calls of other
// threads are under way or pins are left, it happens with the last of them; to end a migration
// early, cancel it. Nothing for NULL.
void nodeward_region_release(struct nodeward_region *region);

// The first byte, 2 MiB aligned. The memory may be read and written like any other, by any thread,
// also while it moves. NULL for NULL.
void *nodeward_region_address(const struct nodeward_region *region);

// How many bytes it has, a multiple of 2 MiB; 0 for NULL.
size_t nodeward_region_bytes(const struct nodeward_region *region);

// How many bytes one of its pages has: what ranges must be multiples of. 0 for NULL.
size_t nodeward_region_page_bytes(const struct nodeward_region *region);

// Brings pages into memory that are not: zeros, on `node_count` nodes, 2 MiB on each in turn, or
// without any on the node of the calling thread.
int nodeward_region_commit(const struct nodeward_region *region,
                           size_t offset,
                           size_t bytes,
                           const uint32_t *nodes,
                           size_t node_count);

// Gives the memory of a range back; it reads as zero afterwards. Waits for pages in flight.
int nodeward_region_discard(const struct nodeward_region *region, size_t offset, size_t bytes);

// Moves a range to a node. `how` and `report` may be NULL. Returns when all of it has had its
// turn; what came of it stands in the report.
int nodeward_region_migrate(const struct nodeward_region *region,
                            size_t offset,
                            size_t bytes,
                            uint32_t node,
                            const struct nodeward_migration *how,
                            struct nodeward_report *report);

// Leaves a range out, so that the next thread to touch a granule (256 KiB) pulls it to its own
// node. Returns when all is out. `how` and `report` may be NULL.
int nodeward_region_migrate_lazily(const struct nodeward_region *region,
                                   size_t offset,
                                   size_t bytes,
                                   const struct nodeward_migration *how,
                                   struct nodeward_report *report);

// Exchanges the nodes of two ranges of equal length, in turns, so that neither node needs room for
// more than a few batches. `how` and `report` may be NULL.
int nodeward_region_exchange(const struct nodeward_region *region,
                             size_t one,
                             size_t other,
                             size_t bytes,
                             const struct nodeward_migration *how,
                             struct nodeward_report *report);

// Counts the base pages of a range by node, in ascending order of nodes: at most `capacity` of
// them at `found`, and at `count` how many nodes there are. `found` may be NULL if `capacity` is
// 0. Pages that are out (lazy) are not counted.
int nodeward_region_residency(const struct nodeward_region *region,
                              size_t offset,
                              size_t bytes,
                              struct nodeward_node_pages *found,
                              size_t capacity,
                              size_t *count);

// Keeps a range where it is until nodeward_region_unpin(), because somebody holds plain references
// to its pages (vmsplice(2), MSG_ZEROCOPY, direct I/O of some network file systems). Waits for
// pages in flight and pulls lazy ones back. Pins may overlap.
int nodeward_region_pin(const struct nodeward_region *region,
                        size_t offset,
                        size_t bytes,
                        struct nodeward_pin **pin);

// Ends a pin, on any thread. Nothing for NULL.
void nodeward_region_unpin(struct nodeward_pin *pin);

// Chooses what moves the pages: one of enum nodeward_mode.
int nodeward_region_set_mode(const struct nodeward_region *region, uint32_t mode);

// The name of a reason, for example "pinned", valid for ever; NULL for a slot that has none.
const char *nodeward_skip_name(uint32_t reason);

// One line for people: what a reason means and what to do. NULL for a slot that has none.
const char *nodeward_skip_advice(uint32_t reason);

// What was wrong, and what to do, when a function last failed on the calling thread: a text that
// is valid until the next failure on this thread, or the end of it. "" if none has failed.
const char *nodeward_last_error(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* NODEWARD_H */
