/* A buffer pool whose frames are moved from node to node while threads read and write them.
 *
 * Every word of a frame follows from the frame's number and version. The versions are kept in
 * memory that does not move, so a lost write and a torn read are both found. Ends with 1 if there
 * was one, with 2 if the pool could not be set up or moved.
 *
 *     cc -std=c11 buffer_pool.c $(pkg-config --cflags --libs nodeward) -pthread
 */

#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nodeward.h>

enum {
    FRAMES = 2048,
    FRAME_WORDS = 1024, /* 8 KiB, as a page of a database */
    THREADS = 2,
    ROUNDS = 4,
    NODES_MAX = 64,
};

static const size_t pool_bytes = (size_t)FRAMES * FRAME_WORDS * sizeof(uint64_t);

/* Frames in managed memory, and how often each was written. */
struct pool {
    uint64_t *words;
    uint64_t versions[FRAMES];
    pthread_mutex_t locks[FRAMES];
    atomic_bool stop;
};

/* A thread and what it did. */
struct worker {
    pthread_t thread;
    uint64_t random;
    uint64_t writes;
    uint64_t reads;
    uint64_t wrong_words;
};

static struct pool pool;

/* Ends the program, with what the library says, if a call failed. */
static void must(int status, const char *what)
{
    if (status != NODEWARD_STATUS_OK) {
        fprintf(stderr, "%s: %s\n", what, nodeward_last_error());
        exit(2);
    }
}

static uint64_t content(size_t frame, uint64_t version, size_t index)
{
    return (version << 32) ^ (frame * FRAME_WORDS + index);
}

static void write_frame(size_t frame)
{
    uint64_t *words = pool.words + frame * FRAME_WORDS;

    pthread_mutex_lock(&pool.locks[frame]);
    pool.versions[frame]++;
    for (size_t index = 0; index < FRAME_WORDS; index++)
        words[index] = content(frame, pool.versions[frame], index);
    pthread_mutex_unlock(&pool.locks[frame]);
}

/* How many words of the frame are not what was written last. */
static uint64_t check_frame(size_t frame)
{
    const uint64_t *words = pool.words + frame * FRAME_WORDS;
    uint64_t wrong = 0;

    pthread_mutex_lock(&pool.locks[frame]);
    for (size_t index = 0; index < FRAME_WORDS; index++)
        wrong += words[index] != content(frame, pool.versions[frame], index);
    pthread_mutex_unlock(&pool.locks[frame]);
    return wrong;
}

/* Writes every fourth time, reads otherwise, frames in an order without end (xorshift). */
static void *work(void *argument)
{
    struct worker *self = argument;

    while (!atomic_load(&pool.stop)) {
        self->random ^= self->random << 13;
        self->random ^= self->random >> 7;
        self->random ^= self->random << 17;
        size_t frame = (self->random >> 8) % FRAMES;
        if (self->random % 4 == 0) {
            write_frame(frame);
            self->writes++;
        } else {
            self->wrong_words += check_frame(frame);
            self->reads++;
        }
    }
    return NULL;
}

static void progress(void *user, uint64_t examined_bytes, uint64_t total_bytes)
{
    (void)user;
    fprintf(stderr, "\r%3" PRIu64 " %%", total_bytes ? examined_bytes * 100 / total_bytes : 100);
}

static void print(uint32_t node, const struct nodeward_report *report)
{
    printf("to node %" PRIu32 ": %" PRIu64 " pages moved, %" PRIu64 " already there, %" PRIu64
           " skipped, %" PRIu64 " ms\n",
           node, report->moved_pages, report->already_there_pages, report->skipped_pages,
           report->took_ns / 1000000);
    for (uint32_t reason = 0; reason < NODEWARD_SKIP_SLOTS; reason++) {
        if (report->skipped_by_reason[reason] > 0)
            printf("  %" PRIu64 " %s: %s\n", report->skipped_by_reason[reason],
                   nodeward_skip_name(reason), nodeward_skip_advice(reason));
    }
}

/* Sends the pool to every node in turn. */
static void tour(const struct nodeward_pager *pager, const struct nodeward_region *region)
{
    int by_kernel = strcmp(nodeward_pager_backend(pager), "kernel") == 0;
    uint32_t nodes[NODES_MAX];
    size_t count;
    struct nodeward_migration how = {
        .size = sizeof(how),
        .bytes_per_s = (uint64_t)1 << 30,
        /* So that pages fly on a machine with one node, too; the kernel has no such wish. */
        .flags = by_kernel ? 0 : NODEWARD_MIGRATION_EVEN_IF_THERE,
        .progress = progress,
    };

    must(nodeward_nodes(nodes, NODES_MAX, &count), "looking for nodes");
    if (count > NODES_MAX)
        count = NODES_MAX;
    for (size_t turn = 0; turn < ROUNDS * count; turn++) {
        struct nodeward_report report = {.size = sizeof(report)};
        uint32_t node = nodes[turn % count];
        must(nodeward_region_migrate(region, 0, pool_bytes, node, &how, &report), "moving");
        fputc('\r', stderr);
        print(node, &report);
    }
}

static void print_residency(const struct nodeward_region *region)
{
    struct nodeward_node_pages found[NODES_MAX];
    size_t count;

    must(nodeward_region_residency(region, 0, pool_bytes, found, NODES_MAX, &count), "looking");
    for (size_t index = 0; index < count && index < NODES_MAX; index++)
        printf("node %" PRIu32 " has %" PRIu64 " pages\n", found[index].node, found[index].pages);
}

int main(void)
{
    struct nodeward_pager *pager;
    struct nodeward_region *region;
    struct worker workers[THREADS];
    uint64_t wrong_words = 0;

    must(nodeward_pager_open(NULL, &pager), "opening the pager");
    printf("backend: %s, at most %" PRIu32 " lanes\n", nodeward_pager_backend(pager),
           nodeward_pager_lanes(pager));
    must(nodeward_region_reserve(pager, pool_bytes, NULL, &region), "reserving the pool");

    pool.words = nodeward_region_address(region);
    for (size_t frame = 0; frame < FRAMES; frame++) {
        pthread_mutex_init(&pool.locks[frame], NULL);
        write_frame(frame);
    }
    for (size_t index = 0; index < THREADS; index++) {
        workers[index] = (struct worker){.random = index + 1};
        if (pthread_create(&workers[index].thread, NULL, work, &workers[index]) != 0)
            exit(2);
    }

    tour(pager, region);
    print_residency(region);

    atomic_store(&pool.stop, true);
    for (size_t index = 0; index < THREADS; index++) {
        struct worker *worker = &workers[index];
        pthread_join(worker->thread, NULL);
        printf("%" PRIu64 " writes, %" PRIu64 " reads, %" PRIu64 " wrong words\n", worker->writes,
               worker->reads, worker->wrong_words);
        wrong_words += worker->wrong_words;
    }
    for (size_t frame = 0; frame < FRAMES; frame++)
        wrong_words += check_frame(frame);

    nodeward_region_release(region);
    nodeward_pager_close(pager);
    if (wrong_words > 0)
        fprintf(stderr, "%" PRIu64 " words are not what was written last\n", wrong_words);
    return wrong_words > 0;
}
