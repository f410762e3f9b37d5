/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the programs here need of the kernel. Types of the kernel are declared where they are used,
 * with only the fields that are used; CORE has their places looked up in the running kernel. */

typedef unsigned char u8;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))

/* Maps are declared by the types of these fields. */
#define NUMBER(name, value) int (*name)[value]
#define TYPE(name, value) typeof(value) *name

/* enum bpf_map_type */
#define HASH 1
#define ARRAY 2
#define PERCPU_HASH 5
#define PERCPU_ARRAY 6
#define RINGBUF 27

/* Entries are allocated as they come. */
#define NO_PREALLOC 1
/* Update only what is not there. */
#define NOEXIST 1

#define CORE __attribute__((preserve_access_index))
/* Reads the field FIELD (an expression with ->) into *TO. */
#define READ(to, field) \
    probe_read_kernel(to, sizeof(*(to)), __builtin_preserve_access_index(&(field)))
/* Tells whether the running kernel has the field; BPF_FIELD_EXISTS is 2. */
#define HAS(type, field) __builtin_preserve_field_info(((type *)0)->field, 2)
/* The running kernel's value of an enumerator; whether it has one. */
#define VALUE(type, name) __builtin_preserve_enum_value(*(typeof(enum type) *)name, 1)
#define HAS_VALUE(type, name) __builtin_preserve_enum_value(*(typeof(enum type) *)name, 0)

/* Argument N of a tracepoint. The verifier wants a constant offset in each access; a compiler that
 * sees two of them makes the offset variable. */
#define ARGUMENT(args, n)                                                                  \
    ({                                                                                     \
        u64 value;                                                                         \
        asm volatile("%0 = *(u64 *)(%1 + %2)" : "=r"(value) : "r"(args), "i"((n) * 8));    \
        value;                                                                             \
    })

/* Helpers, by their numbers in enum bpf_func_id. */
static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static long (*const map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*const map_delete)(void *map, const void *key) = (void *)3;
static u64 (*const now_ns)(void) = (void *)5;
static u32 (*const cpu_number)(void) = (void *)8;
static u64 (*const current_pid_tgid)(void) = (void *)14;
static long (*const current_comm)(void *to, u32 bytes) = (void *)16;
static long (*const probe_read_kernel)(void *to, u32 bytes, const void *from) = (void *)113;
static void *(*const ring_reserve)(void *ring, u64 bytes, u64 flags) = (void *)131;
static void (*const ring_submit)(void *record, u64 flags) = (void *)132;

/* Helpers that read the kernel's memory are for programs with a licence that fits the GPL. */
char licence[] SEC("license") = "Dual MIT/GPL";
