/* What calls with a pool do that are wrong, or odd, and that the header says something about. Each
 * check names itself when it fails. */

#define _POSIX_C_SOURCE 200809L

#include <nodeward.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define MIB ((size_t)1 << 20)

/* Checks how a call ends, and that the words for it have this in them. */
#define REFUSED(call, status, words)                                                               \
    do {                                                                                           \
        CHECK((call) == (status));                                                                 \
        CHECK(strstr(nodeward_last_error(), words) != NULL);                                       \
    } while (0)

/* A pool that only its calls change, of 64 MiB on each node. */
static struct nodeward_pool *opened(void)
{
    struct nodeward_pool_options options = {
        .size = sizeof(options),
        .zone_bytes = 64 * MIB,
        .flags = NODEWARD_POOL_NO_HOUSEKEEPER,
    };
    struct nodeward_pool *pool;

    CHECK(nodeward_pool_open(&options, &pool) == NODEWARD_STATUS_OK);
    return pool;
}

static int allocate(struct nodeward_pool *pool, uint32_t order, void **run)
{
    return nodeward_pool_allocate(pool, order, 0, NODEWARD_ANY_NODE, run);
}

static struct nodeward_pool_stats stats_of(struct nodeward_pool *pool)
{
    struct nodeward_pool_stats stats = {.size = sizeof(stats)};

    CHECK(nodeward_pool_stats(pool, &stats) == NODEWARD_STATUS_OK);
    CHECK(stats.size == sizeof(stats));
    return stats;
}

static void null_is_refused_or_nothing(void)
{
    struct nodeward_pool *pool = opened();
    struct nodeward_pool_stats stats = {.size = sizeof(stats)};
    void *run = pool;

    REFUSED(nodeward_pool_open(NULL, NULL), NODEWARD_STATUS_ARGUMENT, "pool is NULL");
    REFUSED(allocate(NULL, 0, &run), NODEWARD_STATUS_ARGUMENT, "pool is NULL");
    CHECK(run == NULL);
    REFUSED(allocate(pool, 0, NULL), NODEWARD_STATUS_ARGUMENT, "run is NULL");
    REFUSED(nodeward_pool_free(pool, NULL, 0), NODEWARD_STATUS_ARGUMENT, "run is NULL");
    REFUSED(nodeward_pool_free(NULL, pool, 0), NODEWARD_STATUS_ARGUMENT, "pool is NULL");
    REFUSED(nodeward_pool_close(NULL), NODEWARD_STATUS_ARGUMENT, "pool is NULL");
    REFUSED(nodeward_pool_give_back(NULL, NULL), NODEWARD_STATUS_ARGUMENT, "pool is NULL");
    REFUSED(nodeward_pool_tick(NULL), NODEWARD_STATUS_ARGUMENT, "pool is NULL");
    REFUSED(nodeward_pool_stats(NULL, &stats), NODEWARD_STATUS_ARGUMENT, "pool is NULL");
    REFUSED(nodeward_pool_stats(pool, NULL), NODEWARD_STATUS_ARGUMENT, "stats is NULL");
    CHECK(nodeward_pool_page_bytes(NULL) == 0 && nodeward_pool_order_max(NULL) == 0);
    nodeward_pool_release(NULL);
    CHECK(stats_of(pool).allocated_pages == 0);
    nodeward_pool_release(pool);
}

static void numbers_without_a_meaning_are_refused(void)
{
    struct nodeward_pool *pool = opened();
    struct nodeward_pool_stats stats = {0};
    uint32_t order_max = nodeward_pool_order_max(pool);
    void *run = pool;

    REFUSED(nodeward_pool_allocate(pool, 0, 2, NODEWARD_ANY_NODE, &run), NODEWARD_STATUS_ARGUMENT,
            "set only what the header names");
    CHECK(run == NULL);
    REFUSED(nodeward_pool_allocate(pool, 0, 0, 1023, &run), NODEWARD_STATUS_UNKNOWN_NODE, "1023");
    REFUSED(nodeward_pool_allocate(pool, 0, 0, 1024, &run), NODEWARD_STATUS_UNKNOWN_NODE, "1024");
    REFUSED(allocate(pool, order_max + 1, &run), NODEWARD_STATUS_RUN_TOO_LONG, "too large");
    REFUSED(allocate(pool, UINT32_MAX, &run), NODEWARD_STATUS_RUN_TOO_LONG, "too large");
    REFUSED(nodeward_pool_free(pool, &run, UINT32_MAX), NODEWARD_STATUS_RUN_TOO_LONG, "too large");
    REFUSED(nodeward_pool_stats(pool, &stats), NODEWARD_STATUS_ARGUMENT,
            "sizeof(struct nodeward_pool_stats)");
    nodeward_pool_release(pool);
}

/* 2^order_max pages are 2 MiB whatever the page; they are aligned, zero if asked for, and where they
 * should be. */
static void runs_are_what_was_asked_for(void)
{
    struct nodeward_pool *pool = opened();
    uint32_t order_max = nodeward_pool_order_max(pool);
    uint32_t node;
    size_t count;
    unsigned char *bytes;
    void *run;

    CHECK(nodeward_nodes(&node, 1, &count) == NODEWARD_STATUS_OK);
    CHECK(nodeward_pool_page_bytes(pool) << order_max == 2 * MIB);
    for (int turn = 0; turn < 2; turn++) {
        CHECK(nodeward_pool_allocate(pool, order_max, NODEWARD_POOL_ZEROED, node, &run) ==
              NODEWARD_STATUS_OK);
        CHECK((uintptr_t)run % (2 * MIB) == 0);
        bytes = run;
        for (size_t index = 0; index < 2 * MIB; index++)
            CHECK(bytes[index] == 0);
        memset(run, 7, 2 * MIB);
        CHECK(nodeward_pool_free(pool, run, order_max) == NODEWARD_STATUS_OK);
    }
    nodeward_pool_release(pool);
}

/* Each mistake has its name, and after all of them the pool is as it was. */
static void wrong_frees_are_refused(void)
{
    struct nodeward_pool *pool = opened(), *other = opened();
    size_t page = nodeward_pool_page_bytes(pool);
    char *start;
    void *run, *theirs;

    CHECK(allocate(pool, 2, &run) == NODEWARD_STATUS_OK);
    CHECK(allocate(other, 0, &theirs) == NODEWARD_STATUS_OK);
    start = run;
    REFUSED(nodeward_pool_free(pool, run, 1), NODEWARD_STATUS_WRONG_ORDER, "has order 2, not 1");
    REFUSED(nodeward_pool_free(pool, start + page, 0), NODEWARD_STATUS_NOT_A_START, "no run");
    REFUSED(nodeward_pool_free(pool, start + 8, 2), NODEWARD_STATUS_NOT_A_START, "no run");
    REFUSED(nodeward_pool_free(pool, &run, 0), NODEWARD_STATUS_NOT_OURS, "not of this pool");
    REFUSED(nodeward_pool_free(pool, theirs, 0), NODEWARD_STATUS_NOT_OURS, "not of this pool");
    CHECK(stats_of(pool).in_use_pages == 4 && stats_of(pool).freed_pages == 0);

    CHECK(nodeward_pool_free(pool, run, 2) == NODEWARD_STATUS_OK);
    REFUSED(nodeward_pool_free(pool, run, 2), NODEWARD_STATUS_DOUBLE_FREE, "freed before");
    CHECK(nodeward_pool_give_back(pool, NULL) == NODEWARD_STATUS_OK);
    REFUSED(nodeward_pool_free(pool, run, 2), NODEWARD_STATUS_DOUBLE_FREE, "freed before");
    CHECK(stats_of(pool).in_use_pages == 0 && stats_of(pool).freed_pages == 4);
    CHECK(nodeward_pool_free(other, theirs, 0) == NODEWARD_STATUS_OK);
    nodeward_pool_release(pool);
    nodeward_pool_release(other);
}

/* The library that is tested is a debug build. The run comes at once, or, if the scheduler has taken
 * us to another CPU, when all others are gone. */
static void who_writes_after_free_is_found(void)
{
    struct nodeward_pool *pool = opened();
    void *run;
    int status;

    CHECK(allocate(pool, 0, &run) == NODEWARD_STATUS_OK);
    CHECK(nodeward_pool_free(pool, run, 0) == NODEWARD_STATUS_OK);
    ((volatile char *)run)[100] = 1;
    while ((status = allocate(pool, 0, &run)) == NODEWARD_STATUS_OK)
        ;
    REFUSED(status, NODEWARD_STATUS_WRITTEN_AFTER_FREE, "written after");
    CHECK(run == NULL);
    nodeward_pool_release(pool);
}

/* What nobody has goes; 64 MiB on a node are 64 MiB, of which no run is given twice. */
static void a_full_pool_says_so(void)
{
    struct nodeward_pool *pool = opened();
    size_t runs = 0, capacity = 64 * 1024, bytes;
    void **all = calloc(capacity, sizeof(*all));
    uint32_t node;
    size_t count;
    int status;

    CHECK(all != NULL && nodeward_nodes(&node, 1, &count) == NODEWARD_STATUS_OK);
    while ((status = nodeward_pool_allocate(pool, 9, 0, node, &all[runs])) == NODEWARD_STATUS_OK)
        runs++;
    REFUSED(status, NODEWARD_STATUS_NO_ROOM, "no memory for a run of order 9");
    CHECK(all[runs] == NULL);
    CHECK(runs == 64 * MIB / (nodeward_pool_page_bytes(pool) << 9));
    while (runs > 0)
        CHECK(nodeward_pool_free(pool, all[--runs], 9) == NODEWARD_STATUS_OK);
    CHECK(nodeward_pool_tick(pool) == NODEWARD_STATUS_OK);
    CHECK(nodeward_pool_give_back(pool, &bytes) == NODEWARD_STATUS_OK);
    CHECK(bytes <= 64 * MIB && stats_of(pool).held_pages == 0);
    free(all);
    nodeward_pool_release(pool);
}

static void a_closed_pool_takes_back(void)
{
    struct nodeward_pool *pool = opened();
    void *run, *none;

    CHECK(allocate(pool, 0, &run) == NODEWARD_STATUS_OK);
    CHECK(nodeward_pool_close(pool) == NODEWARD_STATUS_OK);
    CHECK(nodeward_pool_close(pool) == NODEWARD_STATUS_OK);
    REFUSED(allocate(pool, 0, &none), NODEWARD_STATUS_POOL_CLOSED, "closed");
    memset(run, 1, nodeward_pool_page_bytes(pool));
    CHECK(nodeward_pool_free(pool, run, 0) == NODEWARD_STATUS_OK);
    CHECK(stats_of(pool).in_use_pages == 0);
    nodeward_pool_release(pool);
}

/* A handle never becomes somebody else's, and memory that somebody has stays where it is. */
static void a_released_pool_refuses_all(void)
{
    struct nodeward_pool *pool = opened(), *later;
    struct nodeward_pool_stats stats = {.size = sizeof(stats)};
    size_t page = nodeward_pool_page_bytes(pool);
    void *run, *none;

    CHECK(allocate(pool, 0, &run) == NODEWARD_STATUS_OK);
    nodeward_pool_release(pool);
    nodeward_pool_release(pool);
    later = opened();
    CHECK(later != pool);
    memset(run, 1, page);
    REFUSED(allocate(pool, 0, &none), NODEWARD_STATUS_POOL_RELEASED, "released");
    CHECK(none == NULL);
    REFUSED(nodeward_pool_free(pool, run, 0), NODEWARD_STATUS_POOL_RELEASED, "released");
    REFUSED(nodeward_pool_free(later, run, 0), NODEWARD_STATUS_NOT_OURS, "not of this pool");
    REFUSED(nodeward_pool_close(pool), NODEWARD_STATUS_POOL_RELEASED, "released");
    REFUSED(nodeward_pool_tick(pool), NODEWARD_STATUS_POOL_RELEASED, "released");
    REFUSED(nodeward_pool_give_back(pool, NULL), NODEWARD_STATUS_POOL_RELEASED, "released");
    REFUSED(nodeward_pool_stats(pool, &stats), NODEWARD_STATUS_POOL_RELEASED, "released");
    CHECK(nodeward_pool_page_bytes(pool) == 0 && nodeward_pool_order_max(pool) == 0);
    nodeward_pool_release(later);
}

/* What migrations keep and what the program allocates comes from one pool, which the pager does not
 * end before the program does. */
static void a_pager_has_a_pool(void)
{
    struct nodeward_pager *pager;
    struct nodeward_pool *pool, *same;
    void *run;

    REFUSED(nodeward_pager_pool(NULL, &pool), NODEWARD_STATUS_ARGUMENT, "pager is NULL");
    CHECK(pool == NULL);
    CHECK(nodeward_pager_open(NULL, &pager) == NODEWARD_STATUS_OK);
    REFUSED(nodeward_pager_pool(pager, NULL), NODEWARD_STATUS_ARGUMENT, "pool is NULL");
    CHECK(nodeward_pager_pool(pager, &pool) == NODEWARD_STATUS_OK);
    CHECK(nodeward_pager_pool(pager, &same) == NODEWARD_STATUS_OK);
    CHECK(allocate(pool, 0, &run) == NODEWARD_STATUS_OK);
    nodeward_pool_release(pool);
    nodeward_pager_close(pager);
    memset(run, 1, nodeward_pool_page_bytes(same));
    CHECK(nodeward_pool_free(same, run, 0) == NODEWARD_STATUS_OK);
    REFUSED(nodeward_pool_free(same, run, 0), NODEWARD_STATUS_DOUBLE_FREE, "freed before");
    nodeward_pool_release(same);
}

/* Takes and gives back without end, so that a fork comes in the middle of it. */
static void *churn(void *argument)
{
    struct nodeward_pool *pool = argument;
    void *run;

    while (allocate(pool, 3, &run) == NODEWARD_STATUS_OK)
        CHECK(nodeward_pool_free(pool, run, 3) == NODEWARD_STATUS_OK);
    return NULL;
}

/* Whatever locks were held when it was made, a child gets an answer, and the parent goes on. */
static void a_child_has_no_pool(void)
{
    struct nodeward_pool *pool = opened();
    pthread_t thread;
    void *run, *none;

    CHECK(allocate(pool, 0, &run) == NODEWARD_STATUS_OK);
    CHECK(pthread_create(&thread, NULL, churn, pool) == 0);
    for (int turn = 0; turn < 50; turn++) {
        int status;
        pid_t child = fork();

        if (child == 0) {
            alarm(60); /* a child that waits for ever ends by a signal */
            REFUSED(allocate(pool, 0, &none), NODEWARD_STATUS_FORKED, "parent");
            REFUSED(nodeward_pool_free(pool, run, 0), NODEWARD_STATUS_FORKED, "parent");
            CHECK(stats_of(pool).held_pages == 0);
            CHECK(nodeward_pool_tick(pool) == NODEWARD_STATUS_OK);
            CHECK(nodeward_pool_give_back(pool, NULL) == NODEWARD_STATUS_OK);
            nodeward_pool_release(pool);
            _exit(0);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    CHECK(nodeward_pool_close(pool) == NODEWARD_STATUS_OK);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(nodeward_pool_free(pool, run, 0) == NODEWARD_STATUS_OK);
    CHECK(stats_of(pool).in_use_pages == 0);
    nodeward_pool_release(pool);
}

/* Of two threads that free the same run one is told that it was freed. */
struct race {
    struct nodeward_pool *pool;
    void *run;
    atomic_int ready;
    atomic_int freed, refused;
};

static void *free_together(void *argument)
{
    struct race *race = argument;

    atomic_fetch_add(&race->ready, 1);
    while (atomic_load(&race->ready) < 2)
        ;
    switch (nodeward_pool_free(race->pool, race->run, 0)) {
    case NODEWARD_STATUS_OK:
        atomic_fetch_add(&race->freed, 1);
        break;
    case NODEWARD_STATUS_DOUBLE_FREE:
        atomic_fetch_add(&race->refused, 1);
        break;
    }
    return NULL;
}

static void one_of_two_frees_wins(void)
{
    struct nodeward_pool *pool = opened();

    for (int turn = 0; turn < 50; turn++) {
        struct race race = {.pool = pool};
        pthread_t threads[2];

        CHECK(allocate(pool, 0, &race.run) == NODEWARD_STATUS_OK);
        for (int index = 0; index < 2; index++)
            CHECK(pthread_create(&threads[index], NULL, free_together, &race) == 0);
        for (int index = 0; index < 2; index++)
            CHECK(pthread_join(threads[index], NULL) == 0);
        CHECK(race.freed == 1 && race.refused == 1);
    }
    CHECK(stats_of(pool).in_use_pages == 0);
    nodeward_pool_release(pool);
}

int main(void)
{
    null_is_refused_or_nothing();
    numbers_without_a_meaning_are_refused();
    runs_are_what_was_asked_for();
    wrong_frees_are_refused();
    who_writes_after_free_is_found();
    a_full_pool_says_so();
    a_closed_pool_takes_back();
    a_released_pool_refuses_all();
    a_pager_has_a_pool();
    a_child_has_no_pool();
    one_of_two_frees_wins();
    return 0;
}
