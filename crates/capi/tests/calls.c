/* What calls do that are wrong, or odd, and that the header says something about. Each check names
 * itself when it fails. With the word `kernel`, on the road that every machine has. */

#define _POSIX_C_SOURCE 200809L

#include <nodeward.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define MIB ((size_t)1 << 20)

static struct nodeward_pager *pager;
static struct nodeward_region *region; /* 2 MiB */
static uint32_t node;                  /* the first that there is */

/* A caller who forgot to look at the status of what should have made the handle. */
static void null_is_refused_where_a_handle_is_needed(void)
{
    struct nodeward_region *reserved = region;
    struct nodeward_pin *pin = NULL;
    size_t count;

    CHECK(nodeward_pager_open(NULL, NULL) == NODEWARD_STATUS_ARGUMENT);
    CHECK(nodeward_region_reserve(NULL, 1, NULL, &reserved) == NODEWARD_STATUS_ARGUMENT);
    CHECK(reserved == NULL);
    CHECK(nodeward_region_reserve(pager, 1, NULL, NULL) == NODEWARD_STATUS_ARGUMENT);
    CHECK(nodeward_region_commit(NULL, 0, 0, NULL, 0) == NODEWARD_STATUS_ARGUMENT);
    CHECK(nodeward_region_commit(region, 0, 0, NULL, 1) == NODEWARD_STATUS_ARGUMENT);
    CHECK(nodeward_region_discard(NULL, 0, 0) == NODEWARD_STATUS_ARGUMENT);
    CHECK(nodeward_region_migrate(NULL, 0, 0, 0, NULL, NULL) == NODEWARD_STATUS_ARGUMENT);
    CHECK(nodeward_region_migrate_lazily(NULL, 0, 0, NULL, NULL) == NODEWARD_STATUS_ARGUMENT);
    CHECK(nodeward_region_migrate_list(NULL, NULL, 0, NULL, NULL, NULL) ==
          NODEWARD_STATUS_ARGUMENT);
    CHECK(nodeward_region_migrate_list(region, NULL, 1, NULL, NULL, NULL) ==
          NODEWARD_STATUS_ARGUMENT);
    CHECK(nodeward_region_exchange(NULL, 0, 0, 0, NULL, NULL) == NODEWARD_STATUS_ARGUMENT);
    CHECK(nodeward_region_residency(NULL, 0, 0, NULL, 0, &count) == NODEWARD_STATUS_ARGUMENT);
    CHECK(nodeward_region_residency(region, 0, 0, NULL, 0, NULL) == NODEWARD_STATUS_ARGUMENT);
    CHECK(nodeward_region_pin(NULL, 0, 0, &pin) == NODEWARD_STATUS_ARGUMENT);
    CHECK(nodeward_region_pin(region, 0, 0, NULL) == NODEWARD_STATUS_ARGUMENT);
    CHECK(nodeward_region_set_mode(NULL, 0) == NODEWARD_STATUS_ARGUMENT);
    CHECK(nodeward_nodes(NULL, 0, NULL) == NODEWARD_STATUS_ARGUMENT);
    CHECK(strcmp(nodeward_last_error(), "count is NULL; pass a pointer") == 0);
}

/* Entries that are wrong have their status, and the others are done: of two pages one is there. */
static void each_entry_of_a_list_has_its_status(void)
{
    size_t page = nodeward_region_page_bytes(region);
    struct nodeward_range_target targets[] = {
        {0, page, node},        {1, page, node},     {4 * MIB, page, node}, {0, page, 1 << 30},
        {SIZE_MAX, page, node}, {MIB, 2 * page, node},
    };
    struct nodeward_range_status statuses[6];
    struct nodeward_report report = {.size = sizeof(report)};

    CHECK(nodeward_region_discard(region, MIB, 2 * page) == NODEWARD_STATUS_OK);
    CHECK(nodeward_region_commit(region, 0, page, &node, 1) == NODEWARD_STATUS_OK);
    CHECK(nodeward_region_commit(region, MIB, page, &node, 1) == NODEWARD_STATUS_OK);
    CHECK(nodeward_region_migrate_list(region, targets, 6, NULL, statuses, &report) ==
          NODEWARD_STATUS_OK);
    CHECK(statuses[0].status == NODEWARD_STATUS_OK && statuses[0].stayed_pages == 0);
    CHECK(statuses[1].status == NODEWARD_STATUS_UNALIGNED);
    CHECK(statuses[2].status == NODEWARD_STATUS_OUT_OF_REGION);
    CHECK(statuses[3].status == NODEWARD_STATUS_UNKNOWN_NODE);
    CHECK(statuses[4].status == NODEWARD_STATUS_OUT_OF_REGION);
    CHECK(statuses[5].status == NODEWARD_STATUS_OK && statuses[5].stayed_pages == 1);
    CHECK(statuses[5].reason == NODEWARD_SKIP_NOT_PRESENT);
    CHECK(report.already_there_pages == 2 && report.skipped_pages == 1);
    CHECK(nodeward_region_migrate_list(region, targets, 6, NULL, NULL, NULL) ==
          NODEWARD_STATUS_OK);
    CHECK(nodeward_region_migrate_list(region, NULL, 0, NULL, NULL, NULL) == NODEWARD_STATUS_OK);
}

static void null_passes_where_nothing_is_to_be_done_or_told(void)
{
    nodeward_pager_close(NULL);
    nodeward_region_release(NULL);
    nodeward_region_unpin(NULL);
    nodeward_cancel_set(NULL);
    nodeward_cancel_free(NULL);
    CHECK(nodeward_pager_backend(NULL) == NULL && nodeward_pager_road(NULL) == NULL);
    CHECK(nodeward_pager_why_not_faster(NULL) == NULL);
    CHECK(nodeward_pager_copier(NULL) == NULL);
    CHECK(nodeward_pager_lanes(NULL) == 0);
    CHECK(nodeward_pager_trim(NULL) == 0);
    CHECK(nodeward_region_address(NULL) == NULL);
    CHECK(nodeward_region_bytes(NULL) == 0);
    CHECK(nodeward_region_page_bytes(NULL) == 0);
}

/* An end that has no number leaves the region like any other. */
static void ranges_are_checked(void)
{
    size_t page = nodeward_region_page_bytes(region);
    size_t last = SIZE_MAX - page + 1;

    CHECK(nodeward_region_bytes(region) == 2 * MIB);
    CHECK(nodeward_region_discard(region, last, 2 * page) == NODEWARD_STATUS_OUT_OF_REGION);
    CHECK(nodeward_region_discard(region, page, 2 * MIB) == NODEWARD_STATUS_OUT_OF_REGION);
    CHECK(nodeward_region_discard(region, 1, page) == NODEWARD_STATUS_UNALIGNED);
}

/* 1023 is a number that a node can have, 1024 is none. */
static void nodes_are_checked(void)
{
    uint32_t odd[] = {1023, 1024, UINT32_MAX};

    for (size_t index = 0; index < sizeof(odd) / sizeof(*odd); index++) {
        uint32_t to = odd[index];
        CHECK(nodeward_region_migrate(region, 0, MIB, to, NULL, NULL) ==
              NODEWARD_STATUS_UNKNOWN_NODE);
        CHECK(nodeward_region_commit(region, 0, MIB, &to, 1) == NODEWARD_STATUS_UNKNOWN_NODE);
    }
}

/* A report without its size is refused before anything moves. */
static void a_report_must_say_its_size(void)
{
    struct nodeward_report report = {0};

    CHECK(nodeward_region_migrate(region, 0, MIB, node, NULL, &report) ==
          NODEWARD_STATUS_ARGUMENT);
    CHECK(strstr(nodeward_last_error(), "sizeof(struct nodeward_report)") != NULL);
    CHECK(nodeward_region_set_mode(region, 2) == NODEWARD_STATUS_ARGUMENT);
}

static void every_page_is_counted(void)
{
    struct nodeward_report report = {.size = sizeof(report)};
    struct nodeward_node_pages found = {0};
    uint64_t pages = 2 * MIB / nodeward_region_page_bytes(region);
    size_t count;

    CHECK(nodeward_region_commit(region, 0, 2 * MIB, &node, 1) == NODEWARD_STATUS_OK);
    CHECK(nodeward_region_migrate(region, 0, 2 * MIB, node, NULL, &report) == NODEWARD_STATUS_OK);
    CHECK(report.size == sizeof(report));
    CHECK(report.already_there_pages == pages);
    CHECK(report.moved_pages + report.skipped_pages == 0);
    CHECK(nodeward_region_residency(region, 0, 2 * MIB, &found, 1, &count) == NODEWARD_STATUS_OK);
    CHECK(count == 1 && found.node == node && found.pages == pages);
    CHECK(nodeward_region_residency(region, 0, 2 * MIB, NULL, 0, &count) == NODEWARD_STATUS_OK);
    CHECK(count == 1);
}

/* The kernel does not move a page to the node where it is, and there may be only one. */
static bool nothing_flies(const char *test)
{
    bool by_kernel = strcmp(nodeward_pager_backend(pager), "kernel") == 0;

    if (by_kernel)
        fprintf(stderr, "skipped: %s: the kernel moves nothing in place\n", test);
    return by_kernel;
}

static void raise_flag(void *user, uint64_t examined_bytes, uint64_t total_bytes)
{
    *(int *)user = total_bytes == 2 * MIB && examined_bytes == total_bytes;
}

/* At the end at the latest. */
static void progress_is_told(void)
{
    int told = 0;
    struct nodeward_migration how = {.size = sizeof(how), .progress = raise_flag, .user = &told};

    CHECK(nodeward_region_migrate(region, 0, 2 * MIB, node, &how, NULL) == NODEWARD_STATUS_OK);
    CHECK(told == 1);
}

static void cancel_it(void *cancel, uint64_t examined_bytes, uint64_t total_bytes)
{
    (void)examined_bytes;
    (void)total_bytes;
    nodeward_cancel_set(cancel);
}

/* At a byte a second this ends by the wish or not at all. */
static void a_migration_is_cancelled(void)
{
    struct nodeward_report report = {.size = sizeof(report)};
    struct nodeward_cancel *cancel = nodeward_cancel_new();
    struct nodeward_region *large;
    struct nodeward_migration how = {
        .size = sizeof(how),
        .bytes_per_s = 1,
        .flags = NODEWARD_MIGRATION_EVEN_IF_THERE,
        .progress = cancel_it,
        .user = cancel,
        .cancel = cancel,
    };

    if (nothing_flies(__func__))
        return;
    CHECK(nodeward_region_reserve(pager, 64 * MIB, NULL, &large) == NODEWARD_STATUS_OK);
    CHECK(nodeward_region_commit(large, 0, 64 * MIB, &node, 1) == NODEWARD_STATUS_OK);
    CHECK(nodeward_region_migrate(large, 0, 64 * MIB, node, &how, &report) == NODEWARD_STATUS_OK);
    CHECK(report.cancelled == 1);
    CHECK(report.skipped_by_reason[NODEWARD_SKIP_INTERRUPTED] > 0);
    CHECK(report.moved_pages + report.already_there_pages + report.skipped_pages ==
          64 * MIB / nodeward_region_page_bytes(large));
    nodeward_region_release(large);
    nodeward_cancel_free(cancel);
}

/* A migration that goes on while the handle is ended. */
struct slow {
    struct nodeward_region *region;
    struct nodeward_cancel *cancel;
    struct nodeward_report report;
    atomic_bool began;
    int status;
};

static void tell_begun(void *user, uint64_t examined_bytes, uint64_t total_bytes)
{
    struct slow *slow = user;

    (void)examined_bytes;
    (void)total_bytes;
    atomic_store(&slow->began, true);
}

static void *migrate_slowly(void *user)
{
    struct slow *slow = user;
    struct nodeward_migration how = {
        .size = sizeof(how),
        .bytes_per_s = 1,
        .flags = NODEWARD_MIGRATION_EVEN_IF_THERE,
        .progress = tell_begun,
        .user = slow,
        .cancel = slow->cancel,
    };

    slow->status =
        nodeward_region_migrate(slow->region, 0, 64 * MIB, node, &how, &slow->report);
    return NULL;
}

/* The migration keeps the region until it returns. */
static void a_region_is_released_during_a_migration(void)
{
    struct slow slow = {.cancel = nodeward_cancel_new(), .report = {.size = sizeof(slow.report)}};
    pthread_t thread;

    if (nothing_flies(__func__))
        return;
    CHECK(nodeward_region_reserve(pager, 64 * MIB, NULL, &slow.region) == NODEWARD_STATUS_OK);
    CHECK(nodeward_region_commit(slow.region, 0, 64 * MIB, NULL, 0) == NODEWARD_STATUS_OK);
    CHECK(pthread_create(&thread, NULL, migrate_slowly, &slow) == 0);
    while (!atomic_load(&slow.began))
        sched_yield();
    nodeward_region_release(slow.region);
    nodeward_cancel_set(slow.cancel);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(slow.status == NODEWARD_STATUS_OK && slow.report.cancelled == 1);
    nodeward_cancel_free(slow.cancel);
}

/* A child has a copy of all memory, what was out of sight included, and no pager. */
static void a_child_has_a_copy_and_no_pager(void)
{
    volatile unsigned char *memory = nodeward_region_address(region);
    int status;

    memory[9] = 9;
    memory[2 * MIB - 1] = 10;
    status = nodeward_region_migrate_lazily(region, 0, 2 * MIB, NULL, NULL);
    CHECK(status == NODEWARD_STATUS_OK || status == NODEWARD_STATUS_NEEDS_USERFAULTFD);
    pid_t child = fork();
    if (child == 0) {
        CHECK(memory[9] == 9 && memory[2 * MIB - 1] == 10);
        CHECK(nodeward_region_migrate(region, 0, MIB, node, NULL, NULL) == NODEWARD_STATUS_FORKED);
        nodeward_region_release(region);
        nodeward_pager_close(pager);
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(memory[9] == 9 && memory[2 * MIB - 1] == 10);
}

static void a_pinned_range_stays(void)
{
    struct nodeward_report report = {.size = sizeof(report)};
    struct nodeward_migration how = {.size = sizeof(how)};
    struct nodeward_pin *pin;
    uint64_t pages = MIB / nodeward_region_page_bytes(region);

    if (nothing_flies(__func__))
        return;
    how.flags = NODEWARD_MIGRATION_EVEN_IF_THERE;
    CHECK(nodeward_region_pin(region, 0, MIB, &pin) == NODEWARD_STATUS_OK);
    CHECK(nodeward_region_migrate(region, 0, MIB, node, &how, &report) == NODEWARD_STATUS_OK);
    CHECK(report.skipped_by_reason[NODEWARD_SKIP_PINNED] == pages);
    nodeward_region_unpin(pin);
    CHECK(nodeward_region_migrate(region, 0, MIB, node, &how, &report) == NODEWARD_STATUS_OK);
    CHECK(report.skipped_by_reason[NODEWARD_SKIP_PINNED] == 0);
}

static void what_is_discarded_reads_as_zero(void)
{
    volatile unsigned char *memory = nodeward_region_address(region);

    memory[5] = 5;
    CHECK(nodeward_region_discard(region, 0, MIB) == NODEWARD_STATUS_OK);
    CHECK(memory[5] == 0);
}

static void *fail(void *text)
{
    CHECK(strcmp(nodeward_last_error(), "") == 0);
    nodeward_region_discard(NULL, 0, 0);
    strcpy(text, nodeward_last_error());
    return NULL;
}

static void each_thread_has_its_own_last_error(void)
{
    pthread_t thread;
    char text[256] = "";

    nodeward_region_discard(region, 1, 1);
    CHECK(pthread_create(&thread, NULL, fail, text) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(strcmp(text, "region is NULL; pass a pointer") == 0);
    CHECK(strstr(nodeward_last_error(), "not whole pages") != NULL);
}

/* To unmap what the holder of a pin still uses would crash it. */
static void a_pin_keeps_the_memory_of_a_released_region(void)
{
    struct nodeward_pin *pin;
    volatile unsigned char *memory = nodeward_region_address(region);

    CHECK(nodeward_region_pin(region, 0, MIB, &pin) == NODEWARD_STATUS_OK);
    nodeward_region_release(region);
    memory[7] = 7;
    CHECK(memory[7] == 7);
    nodeward_region_unpin(pin);
}

int main(int argc, char **argv)
{
    struct nodeward_pager_options options = {.size = sizeof(options)};
    size_t count;

    if (argc > 1 && strcmp(argv[1], "kernel") == 0)
        options.flags = NODEWARD_PAGER_KERNEL_ONLY;
    CHECK(nodeward_pager_open(&options, &pager) == NODEWARD_STATUS_OK);
    CHECK(options.flags == 0 || strcmp(nodeward_pager_backend(pager), "kernel") == 0);
    CHECK(nodeward_region_reserve(pager, 1, NULL, &region) == NODEWARD_STATUS_OK);
    CHECK(nodeward_nodes(&node, 1, &count) == NODEWARD_STATUS_OK && count >= 1);

    null_is_refused_where_a_handle_is_needed();
    each_entry_of_a_list_has_its_status();
    null_passes_where_nothing_is_to_be_done_or_told();
    ranges_are_checked();
    nodes_are_checked();
    a_report_must_say_its_size();
    every_page_is_counted();
    progress_is_told();
    a_migration_is_cancelled();
    a_region_is_released_during_a_migration();
    a_pinned_range_stays();
    what_is_discarded_reads_as_zero();
    each_thread_has_its_own_last_error();
    a_child_has_a_copy_and_no_pager();
    a_pin_keeps_the_memory_of_a_released_region();

    nodeward_pager_close(pager);
    return 0;
}
