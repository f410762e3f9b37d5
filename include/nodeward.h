/* libnodeward: memory that moves between NUMA nodes while a program uses it.
 *
 * Written by `cargo xtask header` from crates/capi; do not edit. docs/reference/library.md has what
 * is guaranteed and what a program must not do with managed memory; docs/how-to shows how to use it.
 *
 * - A function that returns int returns one of enum nodeward_status. Those of groups return the
 *   negative number of an error instead (errno(3)): nodeward_tbind(), nodeward_mbind(),
 *   nodeward_group_set_home(), nodeward_group_delete().
 * - A struct that a program passes begins with its size: set it to zero, then
 *   `size = sizeof(struct ...)`. Zero is the default of every other field, so programs and
 *   libraries of different versions fit together.
 * - Pointers must point to live values of their type, or be NULL where that is allowed. No call may
 *   begin with a handle that has been ended. (A pool's is the exception: such calls are refused.)
 * - All threads may use a handle at once. A signal handler may call no function but
 *   nodeward_cancel_set().
 * - A bug inside the library (a panic) ends the process by abort(3), with a message on stderr,
 *   because going on could lose data.
 */

#ifndef NODEWARD_H
#define NODEWARD_H

#include <stddef.h>
#include <stdint.h>

// For nodeward_tbind(): make a group.
#define NODEWARD_GROUP_NEW -1

// For nodeward_tbind(): which group is the thread in?
#define NODEWARD_GROUP_QUERY -2

// For nodeward_mbind(): pages move when a thread next touches them, to the node of that thread.
// The value of MPOL_MF_LAZY.
#define NODEWARD_MBIND_LAZY (1 << 3)

// Of struct nodeward_pager_options: use only move_pages(2), which works everywhere.
#define NODEWARD_PAGER_KERNEL_ONLY 1

// Of struct nodeward_pager_options: use userfaultfd also where it handles faults of user code
// only. The program promises to pass managed memory to no system call while pages move: read(2),
// write(2) and all others would fail with EFAULT.
#define NODEWARD_PAGER_ASSUME_NO_SYSCALLS 2

// Of struct nodeward_pager_options: keep no pages from earlier migrations.
#define NODEWARD_PAGER_NO_POOL 4

// Of struct nodeward_region_options: no device and no direct I/O ever uses this memory while it
// moves. Linux before 6.8 cannot detect that; there only such regions use the method "remap".
#define NODEWARD_REGION_FREE_OF_DMA 1

// Of struct nodeward_migration: also move pages that are on the destination already, for
// measurements. Not with the method "kernel".
#define NODEWARD_MIGRATION_EVEN_IF_THERE 1

// Of struct nodeward_pool_options: no lists of CPUs; each call takes the lock of its node's zone.
#define NODEWARD_POOL_NO_LISTS 1

// Of struct nodeward_pool_options: no thread looks after the pool. Call nodeward_pool_tick() once
// in a period.
#define NODEWARD_POOL_NO_HOUSEKEEPER 2

// For nodeward_pool_allocate(): all bytes are zero. Without it they have any content.
#define NODEWARD_POOL_ZEROED 1

// For nodeward_pool_allocate(): the node of the calling thread's CPU, or, if that one has no room,
// the nearest one that has.
#define NODEWARD_ANY_NODE UINT32_MAX

// Slots for reasons in struct nodeward_report; more than there are reasons today.
#define NODEWARD_SKIP_SLOTS 32

// The result of a function. All but NODEWARD_STATUS_OK mean that nothing was done, and that
// nodeward_last_error() returns the cause and what to do. Later versions may add values. What
// happened to single pages is no error: see struct nodeward_report.
enum nodeward_status {
    // Success.
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
    // Huge pages were requested and there are none.
    NODEWARD_STATUS_NO_HUGE_PAGES = 6,
    // The call works only with userfaultfd, which cannot be used.
    NODEWARD_STATUS_NEEDS_USERFAULTFD = 7,
    // The parent process opened the pager or pool.
    NODEWARD_STATUS_FORKED = 8,
    // The region is being released.
    NODEWARD_STATUS_CLOSING = 9,
    // A node has no room for memory to be committed, or no allowed node has room for a run.
    NODEWARD_STATUS_NO_ROOM = 10,
    // No file descriptor is left.
    NODEWARD_STATUS_NO_DESCRIPTOR = 11,
    // A system call failed.
    NODEWARD_STATUS_SYSTEM = 12,
    // /proc or /sys could not be read.
    NODEWARD_STATUS_MACHINE = 13,
    // The order is too large; see nodeward_pool_order_max().
    NODEWARD_STATUS_RUN_TOO_LONG = 14,
    // The address is not memory of the pool.
    NODEWARD_STATUS_NOT_OURS = 15,
    // The address is memory of the pool, but no run begins there.
    NODEWARD_STATUS_NOT_A_START = 16,
    // The run was allocated with another order.
    NODEWARD_STATUS_WRONG_ORDER = 17,
    // The run is not allocated: it was freed before, or never allocated.
    NODEWARD_STATUS_DOUBLE_FREE = 18,
    // Memory was written after it was freed. It is not handed out again. Only debug builds of the
    // library detect this.
    NODEWARD_STATUS_WRITTEN_AFTER_FREE = 19,
    // The pool was closed; allocated runs can still be freed.
    NODEWARD_STATUS_POOL_CLOSED = 20,
    // The pool was released and cannot be used any more.
    NODEWARD_STATUS_POOL_RELEASED = 21,
};

// Reasons for which a page stays where it was. nodeward_skip_advice() has a line for each.
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
    // The process ended, or the address was unmapped.
    NODEWARD_SKIP_GONE = 12,
    // The kernel refused for another reason.
    NODEWARD_SKIP_REFUSED = 13,
    // It is shared memory beyond a limit of `nodeward move`. No function of this library has it.
    NODEWARD_SKIP_SHARED_ABOVE = 14,
    // `nodeward move` did not try it, beside pinned pages. No function of this library has it.
    NODEWARD_SKIP_PINNED_UNTRIED = 15,
};

// The pages that a region or a pool is made of.
enum nodeward_page {
    // Base pages, 4 KiB on most machines.
    NODEWARD_PAGE_BASE = 0,
    // Transparent huge pages of 2 MiB, as far as the kernel has them.
    NODEWARD_PAGE_HUGE = 1,
};

// The mover of the pages of a region.
enum nodeward_mode {
    // The fastest method that works here.
    NODEWARD_MODE_AUTO = 0,
    // The kernel, by move_pages(2): slower, but it detects plain references too.
    NODEWARD_MODE_KERNEL = 1,
};

// The fate of a region in a child of fork(2).
enum nodeward_fork {
    // The child has a copy. fork(2) waits until pages in flight are mapped again.
    NODEWARD_FORK_COPY = 0,
    // The child does not have it (MADV_DONTFORK).
    NODEWARD_FORK_DONT = 1,
};

// The destination pages of a migration.
enum nodeward_supply {
    // Recycled pages (those that earlier migrations emptied) while there are some, then fresh
    // ones.
    NODEWARD_SUPPLY_ANY = 0,
    // Only pages that earlier migrations emptied.
    NODEWARD_SUPPLY_RECYCLED = 1,
    // Only fresh pages.
    NODEWARD_SUPPLY_ONE_WAY = 2,
};

// The rule that sets the length of a pool's per-CPU lists.
enum nodeward_tuning {
    // The library chooses, now NODEWARD_TUNING_DEPTH.
    NODEWARD_TUNING_DEFAULT = 0,
    // It is always `high_default`, as in Linux 5.14 to 6.6.
    NODEWARD_TUNING_FIXED = 1,
    // By how much is allocated and freed in turn.
    NODEWARD_TUNING_DEPTH = 2,
    // By what had to be taken from the zone, as in Linux 6.7.
    NODEWARD_TUNING_EVENTS = 3,
};

// A request to end migrations. Pass it in struct nodeward_migration; it must outlive the call.
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

// Options of a pager. Zero is the default of every field but `size`.
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

// Options of a region. Zero is the default of every field but `size`.
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
    // Nodes of memory that is touched for the first time, 2 MiB on each in turn. Without any: the
    // node of the thread that touches it.
    const uint32_t *nodes;
    // The number of `nodes`.
    size_t node_count;
    // One of enum nodeward_arrive, for migrations that do not say.
    uint64_t arrive;
};

// Options of a pool. Zero is the default of every field but `size`.
struct nodeward_pool_options {
    // sizeof(struct nodeward_pool_options)
    size_t size;
    // The most bytes of the pool on each node. Lists hold an eighth of it at most, and an eighth
    // stays free at most. 0: all memory of the node.
    uint64_t zone_bytes;
    // Free bytes that stay on each node when nobody allocates.
    uint64_t keep_bytes;
    // One of enum nodeward_tuning.
    uint32_t tuning;
    // One of enum nodeward_page.
    uint32_t page;
    // Base pages that go between a list and its zone at a time, at least. 0: 63, the kernel's.
    uint32_t batch;
    // The most base pages of a list until tuning raises it. 0: four batches.
    uint32_t high_default;
    // The period of tuning in milliseconds. 0: a second.
    uint32_t period_ms;
    // NODEWARD_POOL_NO_LISTS, NODEWARD_POOL_NO_HOUSEKEEPER
    uint32_t flags;
};

// Counts of a pool, in base pages. Set `size` before the call; the call writes all other fields.
// They agree with each other only while nobody uses the pool, the housekeeper included.
struct nodeward_pool_stats {
    // sizeof(struct nodeward_pool_stats)
    size_t size;
    // In memory.
    uint64_t held_pages;
    // Allocated, or on their way to the kernel.
    uint64_t in_use_pages;
    // In lists of CPUs.
    uint64_t listed_pages;
    // Free in the zones.
    uint64_t zone_free_pages;
    // The most that were ever in memory.
    uint64_t peak_held_pages;
    // Number of times that the lock of a zone was taken to move pages between it and a list.
    uint64_t zone_visits;
    // Allocated since the pool was opened.
    uint64_t allocated_pages;
    // Freed since the pool was opened.
    uint64_t freed_pages;
};

// Called by a migration on the thread that requested it, every 50 ms and at the end, with the
// bytes that are done (moved or not) and all bytes. It may touch managed memory and call all
// functions of this header. It must return (no longjmp, no exception).
typedef void (*nodeward_progress)(void *user, uint64_t examined_bytes, uint64_t total_bytes);

// Options of a migration. Zero is the default of every field but `size`.
struct nodeward_migration {
    // sizeof(struct nodeward_migration)
    size_t size;
    // The most bytes a second. 0: no limit.
    uint64_t bytes_per_s;
    // 99 of 100 touches of a page in flight wait no longer than this. 0: no limit.
    uint64_t stall_ns;
    // Bytes in flight per lane, at most 2 MiB. 0: 2 MiB.
    uint64_t batch_bytes;
    // The most lanes. 0: as many as pay.
    uint32_t lanes;
    // One of enum nodeward_supply.
    uint32_t supply;
    // NODEWARD_MIGRATION_EVEN_IF_THERE
    uint64_t flags;
    // Called while it runs, or NULL.
    nodeward_progress progress;
    // The first argument of `progress`.
    void *user;
    // Ends the migration early, or NULL.
    const struct nodeward_cancel *cancel;
    // One of enum nodeward_arrive.
    uint64_t arrive;
};

// The account of a migration. Set `size` before the call; the call writes all other fields. Pages
// are base pages. Each page of the range is in exactly one of `moved_pages`, `already_there_pages`
// and `skipped_pages`.
struct nodeward_report {
    // sizeof(struct nodeward_report)
    size_t size;
    // On the destination now, and were not before.
    uint64_t moved_pages;
    // On the destination from the start.
    uint64_t already_there_pages;
    // Stayed where they were, or are not in memory.
    uint64_t skipped_pages;
    // `skipped_pages` by reason; the slots are numbered by enum nodeward_skip.
    uint64_t skipped_by_reason[NODEWARD_SKIP_SLOTS];
    // Went to recycled pages.
    uint64_t recycled_pages;
    // Went to fresh pages.
    uint64_t one_way_pages;
    // Unmapped, until the next thread touches them and brings them to its node.
    uint64_t lazy_pages;
    // Batches.
    uint64_t batches;
    // Duration of the call.
    uint64_t took_ns;
    // Time to unmap pages, summed over lanes as the next three.
    uint64_t unmap_ns;
    // Time to copy.
    uint64_t copy_ns;
    // Time to map pages.
    uint64_t map_ns;
    // Time to get destination pages and to give back emptied ones.
    uint64_t supply_ns;
    // The longest time that pages were unmapped.
    uint64_t longest_hold_ns;
    // Lanes that took part.
    uint32_t lanes;
    // 1 if it was cancelled, or ended by releasing the region.
    uint32_t cancelled;
    // Blocks of 2 MiB that left as base pages and arrived as one huge page.
    uint64_t huge_arrivals;
    // Blocks of 2 MiB of which base pages arrived as base pages, although huge pages were asked
    // for (NODEWARD_ARRIVE_HUGE).
    uint64_t huge_fallbacks;
};

// An entry of a list: a range of a region, and the node that it is to go to.
struct nodeward_range_target {
    // Bytes from the region's start.
    size_t offset;
    // Length in bytes.
    size_t bytes;
    // The destination.
    uint32_t node;
};

// The status of an entry of a list.
struct nodeward_range_status {
    // One of enum nodeward_status: NODEWARD_STATUS_OK, or why the entry is invalid.
    uint32_t status;
    // One of enum nodeward_skip: why the first of the pages stayed that did; 0 if none did.
    uint32_t reason;
    // Base pages that are not on the destination.
    uint64_t stayed_pages;
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

// Makes a request that is not set yet. Free it with nodeward_cancel_free().
struct nodeward_cancel *nodeward_cancel_new(void);

// Sets the request. It stays set: migrations that it is passed to, now or later, end after the
// batches in flight. Any thread and any signal handler may call this. Does nothing for NULL.
void nodeward_cancel_set(const struct nodeward_cancel *cancel);

// Frees it; no migration may use it any more. Does nothing for NULL.
void nodeward_cancel_free(struct nodeward_cancel *cancel);

// Puts a thread into a group of threads and memory, which the agent (`nodeward balance`) places as
// one. `tid` is as gettid(2) returns it, of this process or another; 0 is the calling thread.
// `group` is the number of the group that the thread is to join, or
//
// - NODEWARD_GROUP_NEW: make a group and put the thread into it,
// - NODEWARD_GROUP_QUERY: change nothing.
//
// `flags` must be 0. Returns the number of the group in which the thread is now, above 0, or
//
// - -ESRCH: there is no such thread,
// - -EINVAL: flags are not 0, there is no such group of this user, or a thread that was asked
//   about is in none,
// - -EPERM: the thread's process is not this user's, or has other privileges,
// - -ENOSPC: there are as many groups, or pieces of memory in them, as there may be,
// - -EAGAIN: the agent has been busy for 30 seconds,
// - -ECONNREFUSED: no agent answers, at /run/nodeward/nodeward.sock or where the variable
//   NODEWARD_SOCKET says; -EACCES: its socket may not be used; -ECONNRESET: it ended, or did not
//   answer within 30 seconds; -EPROTO: it is of another version, or failed.
//
// nodeward_last_error() returns the cause and what to do. A group ends when its last thread has
// ended or left and no process runs whose memory is in it, or by nodeward_group_delete(). A child
// of fork(2) is in no group.
int nodeward_tbind(int tid, int group, unsigned int flags);

// Puts memory of this process into a group: `len` bytes from `addr`, which must be the first of a
// page; the last page is all of it. `group` is a number that nodeward_tbind() returned. The
// addresses leave the group in which they were, and stay in this one, whatever is mapped there
// later. Pages are base pages. A huge page of hugetlb is in one group as a whole: in that which
// has the lowest address in it.
//
// Memory that lies in one region of a pager is moved by that pager to where the group is: a thread
// of the library, one for all, asks the agent once a second where that is. That ends with the
// region. All other memory is moved by the agent in its next rounds. `flags` is 0 or
//
// - NODEWARD_MBIND_LAZY: pages of the region move when a thread next touches them, to the node of
//   that thread, after the group has got another home.
//
// Returns 0, also for no bytes, or an error as nodeward_tbind() does, -EINVAL also for an address
// within a page and for lazy memory that is not a region's, -EOPNOTSUPP where pages of the region
// cannot move when they are touched, -ENOMEM if the kernel refuses a thread. In a child of fork(2)
// the agent moves all memory.
int nodeward_mbind(const void *addr, size_t len, int group, unsigned int flags);

// Says where a group is to be, from the next round of the balancer on: "auto", nodes such as
// "0-1", or "spread:" and nodes. Returns 0, or an error as nodeward_tbind() does, -EINVAL also if
// `home` is none.
int nodeward_group_set_home(int group, const char *home);

// Deletes a group before its members end. They belong to their processes again. Returns 0, or an
// error as nodeward_tbind() does.
int nodeward_group_delete(int group);

// The version of the library, for example "0.1.0".
const char *nodeward_version(void);

// Writes the nodes with memory that this process may use to `nodes`, in ascending order and at
// most `capacity` of them, and their number to `count`. `nodes` may be NULL if `capacity` is 0.
int nodeward_nodes(uint32_t *nodes, size_t capacity, size_t *count);

// Probes what works here and starts the threads. The pager is written to `pager` and ends with
// nodeward_pager_close(). `options` may be NULL. A kernel that offers little is no error: see
// nodeward_pager_backend().
int nodeward_pager_open(const struct nodeward_pager_options *options,
                        struct nodeward_pager **pager);

// Ends the handle. The pager itself ends with its last region and the last handle of its pool.
// Does nothing for NULL.
void nodeward_pager_close(struct nodeward_pager *pager);

// Returns how pages move here: "move" (UFFDIO_MOVE, Linux 6.8), "remap" (only regions with
// NODEWARD_REGION_FREE_OF_DMA) or "kernel" (move_pages(2)), fastest first. Valid as long as the
// pager. NULL for NULL.
const char *nodeward_pager_backend(const struct nodeward_pager *pager);

// The old name of nodeward_pager_backend(). Deprecated.
const char *nodeward_pager_road(const struct nodeward_pager *pager);

// Returns why no faster method works and what to do; NULL for the fastest. Valid as long as the
// pager.
const char *nodeward_pager_why_not_faster(const struct nodeward_pager *pager);

// Returns the name of the routine that copies pages, for example "memcpy"; NULL if the kernel
// copies them. Valid as long as the pager.
const char *nodeward_pager_copier(const struct nodeward_pager *pager);

// Returns the most lanes that a migration gets; 0 for NULL.
uint32_t nodeward_pager_lanes(const struct nodeward_pager *pager);

// Frees the recycled pages and all others that are free in the pool.
// Returns how many bytes; 0 for NULL.
size_t nodeward_pager_trim(const struct nodeward_pager *pager);

// Writes the pager's page pool to `pool`. Pages that migrations empty go to it; later migrations
// and the program take pages from it. The handle ends with nodeward_pool_release(); the pager
// lives at least as long.
int nodeward_pager_pool(const struct nodeward_pager *pager, struct nodeward_pool **pool);

// Reserves address space for a region of `bytes`, rounded up to 2 MiB, and writes it to `region`.
// It has no memory yet and reads as zero. It ends with nodeward_region_release(). `options` may be
// NULL.
int nodeward_region_reserve(const struct nodeward_pager *pager,
                            size_t bytes,
                            const struct nodeward_region_options *options,
                            struct nodeward_region **region);

// Opens a pool, which has no memory yet, and writes it to `pool`. It ends with
// nodeward_pool_release(). `options` may be NULL.
int nodeward_pool_open(const struct nodeward_pool_options *options, struct nodeward_pool **pool);

// Refuses further allocations with NODEWARD_STATUS_POOL_CLOSED. Allocated runs stay valid and can
// be freed.
int nodeward_pool_close(const struct nodeward_pool *pool);

// Ends a pool: its free memory goes back to the kernel, that of a pager's pool when the pager
// ends. Runs that were not freed stay valid for as long as the process lives. No other call with
// the pool may be under way; those that begin later are refused with
// NODEWARD_STATUS_POOL_RELEASED. Does nothing for NULL and for a pool that was released before.
void nodeward_pool_release(struct nodeward_pool *pool);

// Allocates a run of 2^order base pages and writes the address of its first byte, a multiple of
// its length, to `run`. Any thread may use and free the run. `flags`: NODEWARD_POOL_ZEROED or 0.
// `node`: the node of the run, or NODEWARD_ANY_NODE.
int nodeward_pool_allocate(const struct nodeward_pool *pool,
                           uint32_t order,
                           uint32_t flags,
                           uint32_t node,
                           void **run);

// Frees a run of nodeward_pool_allocate(), with its order. Nobody may use it any more. An address
// that is no run of this order, or was freed before, is refused without effect.
int nodeward_pool_free(const struct nodeward_pool *pool, void *run, uint32_t order);

// Gives all free memory back to the kernel and writes how much that was to `bytes`, which may be
// NULL. Does nothing in a child of fork(2).
int nodeward_pool_give_back(const struct nodeward_pool *pool, size_t *bytes);

// Does what is due once in a period, for pools with NODEWARD_POOL_NO_HOUSEKEEPER. Does nothing in
// a child of fork(2).
int nodeward_pool_tick(const struct nodeward_pool *pool);

// Writes the counts of the pool to `stats`; all zero in a child of fork(2). Takes a moment on a
// machine with many CPUs.
int nodeward_pool_stats(const struct nodeward_pool *pool, struct nodeward_pool_stats *stats);

// Returns the bytes of a base page; 0 for NULL and for a pool that was released.
size_t nodeward_pool_page_bytes(const struct nodeward_pool *pool);

// Returns the largest order, that of a run of 2 MiB; 0 for NULL and for a pool that was released.
uint32_t nodeward_pool_order_max(const struct nodeward_pool *pool);

// Ends a region: its memory is unmapped and nobody may use it any more. Where calls of other
// threads are under way or pins are left, the region ends with the last of them. To end a
// migration early, cancel it. Does nothing for NULL.
void nodeward_region_release(struct nodeward_region *region);

// Returns the address of the first byte, aligned to 2 MiB. Any thread may read and write the
// memory like any other, also while it moves. NULL for NULL.
void *nodeward_region_address(const struct nodeward_region *region);

// Returns the bytes of a region, a multiple of 2 MiB; 0 for NULL.
size_t nodeward_region_bytes(const struct nodeward_region *region);

// Returns the bytes of a page of the region. Ranges must be multiples of it. 0 for NULL.
size_t nodeward_region_page_bytes(const struct nodeward_region *region);

// Brings pages into memory that are not there, filled with zeros: on `node_count` nodes, 2 MiB on
// each in turn, or, without any, on the node of the calling thread. In mode NODEWARD_MODE_KERNEL
// pages are left out that may not be written, by mprotect(2).
int nodeward_region_commit(const struct nodeward_region *region,
                           size_t offset,
                           size_t bytes,
                           const uint32_t *nodes,
                           size_t node_count);

// Gives the memory of a range back; it reads as zero afterwards. Waits for pages in flight.
int nodeward_region_discard(const struct nodeward_region *region, size_t offset, size_t bytes);

// Moves a range to a node. Returns when each page has had its turn; the report accounts for every
// page. `how` and `report` may be NULL.
int nodeward_region_migrate(const struct nodeward_region *region,
                            size_t offset,
                            size_t bytes,
                            uint32_t node,
                            const struct nodeward_migration *how,
                            struct nodeward_report *report);

// Unmaps a range. The next thread that touches a granule (256 KiB) of it brings the granule to its
// own node. Returns when all pages are unmapped. `how` and `report` may be NULL.
int nodeward_region_migrate_lazily(const struct nodeward_region *region,
                                   size_t offset,
                                   size_t bytes,
                                   const struct nodeward_migration *how,
                                   struct nodeward_report *report);

// Moves `count` ranges, each to its node, in the order of the list as far as they overlap. An
// entry that is invalid has its status in `statuses`, which has room for `count` or is NULL, and
// the others are done. Runs on the calling thread. `how` and `report` may be NULL; of `how`,
// `lanes`, `stall_ns` and `progress` have no effect. The report has the sum of all valid entries.
int nodeward_region_migrate_list(const struct nodeward_region *region,
                                 const struct nodeward_range_target *targets,
                                 size_t count,
                                 const struct nodeward_migration *how,
                                 struct nodeward_range_status *statuses,
                                 struct nodeward_report *report);

// Exchanges the nodes of two ranges of equal length, in turns, so that neither node needs room for
// more than a few batches. `how` and `report` may be NULL.
int nodeward_region_exchange(const struct nodeward_region *region,
                             size_t one,
                             size_t other,
                             size_t bytes,
                             const struct nodeward_migration *how,
                             struct nodeward_report *report);

// Counts the base pages of a range by node. Writes the nodes to `found`, in ascending order and at
// most `capacity` of them, and their number to `count`. `found` may be NULL if `capacity` is 0.
// Lazy pages are not counted.
int nodeward_region_residency(const struct nodeward_region *region,
                              size_t offset,
                              size_t bytes,
                              struct nodeward_node_pages *found,
                              size_t capacity,
                              size_t *count);

// Keeps a range where it is until nodeward_region_unpin(), because somebody holds plain references
// to its pages (vmsplice(2), MSG_ZEROCOPY, direct I/O of some network file systems). Waits for
// pages in flight and brings lazy pages back. Pins may overlap.
int nodeward_region_pin(const struct nodeward_region *region,
                        size_t offset,
                        size_t bytes,
                        struct nodeward_pin **pin);

// Ends a pin, on any thread. Does nothing for NULL.
void nodeward_region_unpin(struct nodeward_pin *pin);

// Chooses what moves the pages: one of enum nodeward_mode.
int nodeward_region_set_mode(const struct nodeward_region *region, uint32_t mode);

// Returns the name of a reason, for example "pinned", valid for ever; NULL for a slot without
// reason.
const char *nodeward_skip_name(uint32_t reason);

// Returns one line about a reason: its meaning and what to do. NULL for a slot without reason.
const char *nodeward_skip_advice(uint32_t reason);

// Returns the cause of the last failure of a function on the calling thread, and what to do. The
// text is valid until the next failure on this thread or the end of the thread. "" if none has
// failed.
const char *nodeward_last_error(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* NODEWARD_H */
