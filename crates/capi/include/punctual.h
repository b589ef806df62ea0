/*
 * punctual.h - what a real-time program on Linux needs
 *
 * Made from the sources of the library; changes belong there.
 *
 * Functions return 0, a count or a pointer; on failure -1, NULL or what they say, and errno.
 * Sizes are in bytes, times in nanoseconds unless they are a timespec, which is then an instant of
 * CLOCK_MONOTONIC. None may be called from a signal handler unless it says so. None is a
 * cancellation point: a thread that is cancelled (pthread_cancel()) inside a function of the
 * library finishes it, and ends at the program's own next cancellation point, pthread_testcancel()
 * for one. With PTHREAD_CANCEL_ASYNCHRONOUS a thread may call none of them.
 */

#ifndef PUNCTUAL_H
#define PUNCTUAL_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct timespec;

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic push
/* Some functions bear the name of the struct that they fill, as stat() does. */
#pragma GCC diagnostic ignored "-Wshadow"
#endif


/* The version of this header. A later minor version adds to it; another major version changes
 * it. */
#define PUNCTUAL_VERSION_MAJOR 0

/* See PUNCTUAL_VERSION_MAJOR. */
#define PUNCTUAL_VERSION_MINOR 1

/* See PUNCTUAL_VERSION_MAJOR. */
#define PUNCTUAL_VERSION_PATCH 0

/* 10000 * major + 100 * minor + patch, to be compared in #if. */
#define PUNCTUAL_VERSION (((PUNCTUAL_VERSION_MAJOR * 10000) + (PUNCTUAL_VERSION_MINOR * 100)) + PUNCTUAL_VERSION_PATCH)

/* SCHED_OTHER: the time-sharing class; the default of a zeroed struct. */
#define PUNCTUAL_OTHER 0

/* SCHED_FIFO at a priority of 1 to 99. */
#define PUNCTUAL_FIFO 1

/* SCHED_RR at a priority of 1 to 99. */
#define PUNCTUAL_RR 2

/* SCHED_DEADLINE: a runtime within a deadline in each period. */
#define PUNCTUAL_DEADLINE 6

/* The thread takes the signals that its creator takes. Without this flag they are blocked in it
 * from its first instruction, so that handlers run in threads that have no deadline. Signals
 * that an instruction causes are never blocked: SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
 * SIGSYS, SIGABRT. */
#define PUNCTUAL_THREAD_SIGNALS 1

/* Missed periods are skipped, and the phase is kept: for control loops. */
#define PUNCTUAL_SKIP 0

/* Late cycles run back to back until the loop has caught up: for work that must be done for each
 * period. */
#define PUNCTUAL_CATCH_UP 1

/* The maximum number of arguments of one record of a log. */
#define PUNCTUAL_LOG_ARGUMENTS 6

/* A send returns EAGAIN at once if the socket accepts nothing. */
#define PUNCTUAL_CHANNEL_REFUSE 0

/* A send waits for room, until the message's deadline at the latest. */
#define PUNCTUAL_CHANNEL_WAIT 1

/* Each end has a clock of its own: ages are counted from the fastest message. */
#define PUNCTUAL_CHANNEL_OWN_CLOCK 0

/* CLOCK_REALTIME is the same at both ends. */
#define PUNCTUAL_CHANNEL_SHARED_CLOCK 1

/* An option was not requested. */
#define PUNCTUAL_CHANNEL_NOT_REQUESTED 0

/* The requested value is in force: it was read back. */
#define PUNCTUAL_CHANNEL_IN_FORCE 1

/* Another value is in force. */
#define PUNCTUAL_CHANNEL_DIFFERS 2

/* The kernel refused it; `error` says why. */
#define PUNCTUAL_CHANNEL_REFUSED 3

/* This kernel does not have the option. */
#define PUNCTUAL_CHANNEL_TOO_OLD 4

/* For punctual_channel_send(): another message follows at once, so no padding is needed. */
#define PUNCTUAL_CHANNEL_MORE 1

/* The message has no stamp: its age is not known. */
#define PUNCTUAL_CHANNEL_AGE_UNKNOWN 0

/* The message is at least so old: how much longer it took than the fastest one. */
#define PUNCTUAL_CHANNEL_AGE_AT_LEAST 1

/* The message is so old, by the clock that both ends share. */
#define PUNCTUAL_CHANNEL_AGE_EXACT 2

/* A connection that carries messages in both directions; opaque. One thread at a time may send,
 * and one at a time may receive. */
struct punctual_channel;

/* The log of one real-time thread. */
struct punctual_log;

/* A ring of records of one size, from one thread to another. */
struct punctual_ring;

/* A thread of punctual_thread_create(). */
struct punctual_thread;

/* A watchpoint; opaque. */
struct punctual_watchpoint;

/* The stacks of one size. Exact while no other thread allocates or frees. */
struct punctual_stack_stats {
    /* sizeof(struct punctual_stack_stats), filled in by the caller. */
    size_t struct_size;
    /* Bytes of one stack, without guards. */
    size_t size;
    /* Stacks in use. */
    size_t used;
    /* Of these, the ones marked by punctual_stack_set_live(). */
    size_t live;
    /* Free stacks that threads keep for themselves. */
    size_t kept;
    /* Free stacks in the depot. */
    size_t stored;
    /* Stacks mapped since the start: each costs kernel time. */
    uint64_t made;
    /* Stacks returned to the kernel since the start. */
    uint64_t unmapped;
    /* Allocations since the start that took a stack from another thread's cache. */
    uint64_t stolen;
    /* 0. */
    uint64_t reserved[7];
};

/* The address range of a stack, without its guards. */
struct punctual_stack_bounds {
    /* The lowest address. */
    void *low;
    /* The first address above it. */
    void *high;
};

/* The part of a stack that contains an address. */
struct punctual_stack_place {
    /* The stack. */
    struct punctual_stack_bounds bounds;
    /* -1 the guard below (an overflow), 0 the stack, 1 the guard above. */
    int part;
    /* 1 if it is in use. */
    int in_use;
};

/* How much of a range is in memory. */
struct punctual_stack_residency {
    /* Pages of the range. */
    size_t pages;
    /* Pages that are in memory now. */
    size_t resident;
};

/* The scheduling policy and parameters of a thread. */
struct punctual_sched {
    /* sizeof(struct punctual_sched), filled in by the caller. */
    size_t struct_size;
    /* PUNCTUAL_OTHER, _FIFO, _RR or _DEADLINE, which are the kernel's numbers. */
    int policy;
    /* 1 to 99 with FIFO and RR, 0 with the others. */
    int priority;
    /* DEADLINE: processor time in each period, ns, at least 1024; 0 with the others. */
    uint64_t runtime_ns;
    /* DEADLINE: from the beginning of the period, ns. */
    uint64_t deadline_ns;
    /* DEADLINE: ns; 0 means the deadline. */
    uint64_t period_ns;
    /* 0. */
    uint64_t reserved[4];
};

/* The settings of a new thread. All 0 except the size means an ordinary thread. */
struct punctual_thread_attr {
    /* sizeof(struct punctual_thread_attr), filled in by the caller. */
    size_t struct_size;
    /* Bytes of stack, at most 2 MB, rounded up to a class; 0 means 256 KB, or more where the
     * program's thread-local storage, which lies on it, leaves less than 192 KB of that. */
    size_t stack_size;
    /* The kernel keeps 15 bytes of it; NULL: its creator's name. */
    const char *name;
    /* The CPUs it may use, as for punctual_affinity_set(); NULL: its creator's. */
    const char *cpus;
    /* PUNCTUAL_OTHER, _FIFO, _RR or _DEADLINE. */
    int policy;
    /* 1 to 99 with FIFO and RR, 0 with the others. */
    int priority;
    /* DEADLINE: ns, as in struct punctual_sched. */
    uint64_t runtime_ns;
    /* DEADLINE: ns. */
    uint64_t deadline_ns;
    /* DEADLINE: ns; 0 means the deadline. */
    uint64_t period_ns;
    /* PUNCTUAL_THREAD_SIGNALS or 0. */
    uint64_t flags;
    /* 0. */
    uint64_t reserved[8];
};

/* Page faults and context switches of a thread since it started. */
struct punctual_faults {
    /* sizeof(struct punctual_faults), filled in by the caller. */
    size_t struct_size;
    /* Page faults without I/O. */
    uint64_t minor;
    /* Page faults with I/O. */
    uint64_t major;
    /* Involuntary context switches. */
    uint64_t preemptions;
    /* 0. */
    uint64_t reserved[4];
};

/* A periodic loop of one thread. Its fields are private to the library. */
struct punctual_loop {
    /* Private. */
    uint64_t storage[16];
};

/* One cycle of a loop. */
struct punctual_cycle {
    /* sizeof(struct punctual_cycle), filled in by the caller. */
    size_t struct_size;
    /* The requested instant, ns of CLOCK_MONOTONIC. */
    uint64_t due_ns;
    /* The instant at which the thread ran again, ns of CLOCK_MONOTONIC. */
    uint64_t woke_ns;
    /* The wake-up latency, ns. */
    uint64_t latency_ns;
    /* Periods skipped before this one because the last cycle ended too late. */
    uint64_t missed;
    /* 0. */
    uint64_t reserved[3];
};

/* One access to the watched bytes. */
struct punctual_watchpoint_hit {
    /* The id of the thread. */
    pid_t tid;
    /* The instruction after the one that accessed it. */
    const void *instruction;
    /* The stack pointer then. */
    const void *stack;
    /* When, in ns of CLOCK_MONOTONIC. */
    uint64_t time_ns;
};

/* Called for each interrupt that was left unchanged, with its number, or -1 for the default of
 * new interrupts, and the reason. The text is valid during the call, which is made on a
 * real-time thread only if that thread steers or restores. It must return: an exception,
 * longjmp() or pthread_exit() out of it ends the program. */
typedef void (*punctual_irq_skipped)(int irq, const char *reason, void *context);

/* Called for each interrupt whose CPUs would change: its number, or -1 for the default of new
 * interrupts, the current CPUs and the new ones, as the kernel formats them: lists, and masks
 * for the default. The texts are valid during the call, which is made on a real-time thread only
 * if that thread requests a preview. It must return, like punctual_irq_skipped(). */
typedef void (*punctual_irq_change)(int irq,
                                    const char *now,
                                    const char *then,
                                    void *context);

/* A condition variable of one mutex, which has the attributes of punctual_mutexattr_init().
 * Zeroed memory is an initialised one; it allocates nothing, and it and its mutex belong to one
 * process. */
struct punctual_condvar {
    /* Private. */
    uint32_t number;
    /* Private. */
    uint32_t waiting;
};

/* How a channel works. punctual_channel_defaults() fills it; 0 leaves the kernel's setting. */
struct punctual_channel_options {
    /* Set it to sizeof(struct punctual_channel_options). */
    size_t struct_size;
    /* The longest message in bytes, at most 16777215; 0 is 65536. */
    uint32_t message_max;
    /* Frames of padding behind a message, 0 to 7. */
    uint32_t pads;
    /* Longer messages have no padding, in bytes. */
    uint32_t pad_below;
    /* PUNCTUAL_CHANNEL_REFUSE or PUNCTUAL_CHANNEL_WAIT. */
    uint32_t when_full;
    /* PUNCTUAL_CHANNEL_OWN_CLOCK or PUNCTUAL_CHANNEL_SHARED_CLOCK. */
    uint32_t clock;
    /* TCP_NODELAY: 1 disables Nagle's algorithm. */
    uint32_t no_delay;
    /* TCP_QUICKACK: 1 at the beginning, 2 after each receive. */
    uint32_t quick_ack;
    /* TCP_RTO_MIN_US: the shortest retransmission time-out, in us. */
    uint32_t rto_min_us;
    /* TCP_DELACK_MAX_US: the longest delay of an acknowledgement, in us. */
    uint32_t delayed_ack_max_us;
    /* TCP_USER_TIMEOUT: how long sent data may stay without acknowledgement, in ms. */
    uint32_t user_timeout_ms;
    /* SO_SNDBUF, in bytes. */
    uint32_t send_buffer;
    /* SO_RCVBUF, in bytes. */
    uint32_t receive_buffer;
    /* SO_PRIORITY; above 6 needs CAP_NET_ADMIN. */
    uint32_t priority;
    /* SO_BUSY_POLL, in us; needs CAP_NET_ADMIN. */
    uint32_t busy_poll_us;
    /* SO_PREFER_BUSY_POLL: 1; needs CAP_NET_ADMIN. */
    uint32_t prefer_busy_poll;
    /* Must be 0. */
    uint32_t reserved;
};

/* What became of an option of the socket. */
struct punctual_channel_setting {
    /* Set it to sizeof(struct punctual_channel_setting). */
    size_t struct_size;
    /* The kernel's name, "TCP_NODELAY" for one; static. */
    const char *name;
    /* What to do if the request is not in force, else ""; static. */
    const char *advice;
    /* The requested value; 0: none. */
    uint32_t requested;
    /* The value in force; 0 if it can't be read. */
    uint32_t actual;
    /* PUNCTUAL_CHANNEL_IN_FORCE or another of these. */
    int outcome;
    /* The errno with PUNCTUAL_CHANNEL_REFUSED, else 0. */
    int error;
};

/* A received message. */
struct punctual_channel_message {
    /* Set it to sizeof(struct punctual_channel_message). */
    size_t struct_size;
    /* Its bytes. */
    const void *data;
    /* How many they are. */
    size_t size;
    /* How old it may be, in ns; 0: no deadline. */
    uint64_t deadline_ns;
    /* How old it is, in ns. */
    uint64_t age_ns;
    /* What is known of its age: PUNCTUAL_CHANNEL_AGE_AT_LEAST or another of these. */
    int age;
    /* 1 if it is older than its deadline. */
    int late;
};

/* Counts of a channel since it was opened. */
struct punctual_channel_counts {
    /* Set it to sizeof(struct punctual_channel_counts). */
    size_t struct_size;
    /* Messages that were sent. */
    uint64_t sent;
    /* Messages of which nothing was sent: the socket accepted none. */
    uint64_t refused;
    /* Frames of padding that were sent. */
    uint64_t padding_sent;
    /* Messages that were received. */
    uint64_t received;
    /* Of these: older than their deadline. */
    uint64_t late;
    /* Of these: with a deadline and without a stamp. */
    uint64_t not_judged;
    /* The age of the oldest message, in ns. */
    uint64_t oldest_ns;
    /* Frames of padding that were received and discarded. */
    uint64_t padding_received;
};

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that the program runs with, in the format of PUNCTUAL_VERSION,
 * which is the version of the header that the program was compiled with.
 *
 * A real-time thread may call it: no system call, no lock. It never fails. */
unsigned int punctual_version(void);

/* Allocates a stack of exactly `size` bytes, which is one of punctual_stack_sizes(). Returns its
 * lowest address; a page without access lies below it and above it, and all its pages are in
 * memory. To start a thread on it, use pthread_attr_setstack() and pthread_create().
 *
 * A real-time thread may call it while a stack of that size is free, see
 * punctual_stack_reserve(): no system call (except for a contended lock, which has priority
 * inheritance) and no page fault. Otherwise it maps memory and waits for other threads that do.
 *
 * NULL with errno: EINVAL a size that is not one of the classes (punctual_stack_class() returns
 * the one that fits); ENOMEM memory, address space or vm.max_map_count exhausted, even after the
 * free stacks of other sizes that weren't reserved were unmapped; EAGAIN the limit of locked
 * memory reached.
 *
 * A fork() makes memory copy-on-write. The library copies its stacks in the parent before fork()
 * returns there (0.3 ms for a megabyte), so that no thread faults on their pages afterwards; a
 * thread that runs meanwhile may fault, and so does every thread on the heap. A real-time
 * program starts others by posix_spawn(), which copies nothing. */
void *punctual_stack_alloc(size_t size);

/* Frees a stack of punctual_stack_alloc() of the same size; (NULL, 0) is allowed and does
 * nothing. No thread may run on it any more.
 *
 * A real-time thread may call it: no system call, except for a contended lock.
 *
 * -1 with errno, and nothing changed: EINVAL not a stack, another size, a stack that is already
 * free, (NULL, not 0); EBUSY the stack that the caller runs on, or one marked by
 * punctual_stack_set_live(). With PUNCTUAL_STACK_DEBUG each except EBUSY is reported on standard
 * error, and another size and a double free abort.
 *
 * # Safety
 * If the free is valid, nothing uses the stack any more. */
int punctual_stack_free(void *stack,
                        size_t size);

/* The sizes of stacks, ascending, terminated by 0. The array belongs to the caller, who may pass
 * it to free().
 *
 * Not for a real-time thread: it calls malloc(). NULL with ENOMEM. */
unsigned int *punctual_stack_sizes(void);

/* The smallest stack size with at least `size` bytes: 32768 to 2097152.
 *
 * A real-time thread may call it: it is arithmetic. 0 with EINVAL above the largest. */
size_t punctual_stack_class(size_t size);

/* Maps stacks of exactly `size` bytes until `count` of them are free, so that as many
 * punctual_stack_alloc(), by any threads, need nothing from the kernel. They are kept when
 * memory runs short for other sizes, until a punctual_stack_trim().
 *
 * Not for a real-time thread: it maps memory and reads files. -1 with errno: EINVAL, ENOMEM,
 * EAGAIN as punctual_stack_alloc(); ENOMEM also if the mapping would trigger the OOM killer of
 * the memory cgroup (memory.max), as far as that can be known in advance. The stacks mapped so
 * far stay free. */
int punctual_stack_reserve(size_t size,
                           size_t count);

/* Returns free stacks of `size` bytes, or of each size if `size` is 0, to the kernel until
 * `keep` are left. Returns how many were unmapped.
 *
 * Not for a real-time thread: it unmaps memory. -1 with errno: EINVAL no such size; ENOMEM
 * vm.max_map_count doesn't allow splitting the mapping. */
ssize_t punctual_stack_trim(size_t size,
                            size_t keep);

/* Declares whether a thread runs on the stack from now on: `live` is 1 before pthread_create(), and
 * 0 after pthread_join(). A live stack can't be freed.
 *
 * A real-time thread may call it: one compare-and-swap. -1 with EINVAL: not a stack in use,
 * `live` is another number, or the stack is already marked so. */
int punctual_stack_set_live(const void *stack,
                            int live);

/* Fills `out` with the state of the stacks of `size` bytes. `out->struct_size` is the size of
 * the struct that the caller knows. Fields beyond it are not written, fields that the library
 * doesn't know stay unchanged, and `struct_size` becomes the size of the part that was filled.
 *
 * A real-time thread may call it with care: no lock, no system call, but a walk over all stacks.
 * -1 with errno: EFAULT `out` is NULL; EINVAL no such size, or an invalid `struct_size`.
 *
 * # Safety
 * `out` is NULL, or `out->struct_size` bytes are writable. */
int punctual_stack_stats(size_t size,
                         struct punctual_stack_stats *out);

/* Writes a line to the descriptor `fd` for each stack in use, with the call stack of its
 * allocation if PUNCTUAL_STACK_DEBUG=audit keeps it. Returns how many there are.
 *
 * Not for a real-time thread: it writes to a file. -1 with EBADF. */
int punctual_stack_debug_leaks(int fd);

/* Writes to the descriptor `fd`, for each free stack that was written to since it was freed, a
 * line and the call stacks of its allocation and its free, whether or not it is used again.
 * Returns how many there are. The same is done on standard error when the process exits.
 *
 * Not for a real-time thread: it reads all free stacks and writes to a file. -1 with errno:
 * EBADF; ENOTSUP without PUNCTUAL_STACK_DEBUG=guards. */
int punctual_stack_debug_check(int fd);

/* Writes to the descriptor `fd` everything known of the stack that contains or guards `address`:
 * its state, the threads that run on it (those that block at the moment, and the caller), how
 * much of it was used, whether it was written to while it was free, and the allocation and free
 * traces, if PUNCTUAL_STACK_DEBUG=audit keeps them. Returns 1; 0 if it is no stack of this
 * library, after a line that describes the address.
 *
 * Not for a real-time thread: it reads files and writes to one. A handler of SIGSEGV may call
 * it. -1 with EBADF. */
int punctual_stack_debug_report(const void *address,
                                int fd);

/* The largest number of bytes that any stack of `size` bytes was seen to use, for choosing
 * sizes: stacks in use now and, with PUNCTUAL_STACK_DEBUG=guards, those that were freed since
 * the start. 0 if there is none.
 *
 * Not for a real-time thread: it reads all stacks of the size. -1 with EINVAL: no such size.
 *
 * # Safety
 * No stack of the size is freed during the call. */
ssize_t punctual_stack_high_water_of_class(size_t size);

/* The bounds of the stack of the thread `tid` of this process; 0 means the stack that the caller
 * runs on, which may be a coroutine's. The primary thread's extends down to its limit
 * (RLIMIT_STACK), present or not.
 *
 * For the caller's own stack, a real-time thread may call it after punctual_stack_setbounds(),
 * on a stack of punctual_stack_alloc(), or on its own after a first call (which may read files)
 * if it has used punctual_stack_alloc() or punctual_stack_free(). In other cases, and for other
 * threads, it may not: it reads /proc.
 *
 * -1 with errno: EFAULT `out` is NULL; ESRCH no such thread; EAGAIN the thread is running and
 * did not block within some 20 ms; EACCES or EPERM /proc can't be read.
 *
 * # Safety
 * `out` is NULL or writable. */
int punctual_stack_bounds(pid_t tid,
                          struct punctual_stack_bounds *out);

/* Sets the bounds of the stack that the caller runs on from now on. A program that switches
 * stacks calls it after each switch. punctual_stack_bounds(0, ...) and punctual_stack_contains()
 * use it while the stack pointer lies within; they know stacks of punctual_stack_alloc() without
 * it. Like Solaris' function of this name, except for the type: stack_t isn't part of C11.
 *
 * A real-time thread may call it: no lock, no system call. -1 with errno: EFAULT `given` is
 * NULL; EINVAL `low` or `high` is not aligned to a word, or they are less than a page apart;
 * ENOMEM the program uses up pthread_key_create().
 *
 * # Safety
 * `given` is NULL or can be read. */
int punctual_stack_setbounds(const struct punctual_stack_bounds *given);

/* 1 if the byte at `address` is part of the stack that the caller runs on, else 0.
 *
 * A real-time thread may call it where it may call punctual_stack_bounds(0, ...), and it costs
 * the same. It never fails: if the bounds are unknown, the result is 0. */
int punctual_stack_contains(const void *address);

/* The bytes without access below a stack of `size` bytes, and above it: one page each. A
 * function with a frame larger than that can reach beyond the guard, unless it is compiled with
 * -fstack-clash-protection, which touches each page of the frame.
 *
 * A real-time thread may call it: it is arithmetic. 0 with EINVAL: no such size. */
size_t punctual_stack_guard_size(size_t size);

/* Finds the stack of this library that contains or guards `address`: returns 1 and fills `out`,
 * or returns 0.
 *
 * A real-time thread may call it, and a signal handler: no lock, no system call, but a walk
 * over all stacks. -1 with EFAULT: `out` is NULL.
 *
 * # Safety
 * `out` is NULL or writable. */
int punctual_stack_locate(const void *address,
                          struct punctual_stack_place *out);

/* How many pages of the `size` bytes at `low`, the start of a page, are in memory.
 *
 * Not for a real-time thread: it waits for threads that map memory. -1 with errno: EFAULT `out`
 * is NULL; EINVAL `low` is not the start of a page; ENOMEM part of it is not mapped (the
 * primary stack below what it has grown to).
 *
 * # Safety
 * `out` is NULL or writable. */
int punctual_stack_residency(const void *low,
                             size_t size,
                             struct punctual_stack_residency *out);

/* Prefaults the calling thread's stack, from the current depth `bytes` down; 0 means all of it,
 * for the primary thread to its limit. Returns the number of bytes that are present now: fewer
 * if a page without access, the program's own guard, lies in between.
 *
 * For threads on other stacks than this library's. Not for a real-time thread in its real-time
 * section: call it before. -1 with errno: ENOMEM; EAGAIN a limit doesn't allow it. */
ssize_t punctual_stack_prefault(size_t bytes);

/* The largest number of bytes of the stack at `stack` that were ever in use, from its top down
 * to the lowest word that was written with anything but 0: since it was created, over all its
 * users; with PUNCTUAL_STACK_DEBUG=guards since it was allocated.
 *
 * Not for a real-time thread: it reads up to the whole stack. -1 with EINVAL: not a stack in
 * use.
 *
 * # Safety
 * The stack is not freed during the call. */
ssize_t punctual_stack_high_water(const void *stack);

#if !defined(PUNCTUAL_NO_STACK_NAMES)
/* punctual_stack_alloc() under its name in Solaris' stack library. Define
 * PUNCTUAL_NO_STACK_NAMES before this header if your program uses the name itself.
 *
 * A real-time thread may call it under the same conditions, and it costs the same. NULL with
 * errno as there. */
void *stack_alloc(size_t size);
#endif

#if !defined(PUNCTUAL_NO_STACK_NAMES)
/* punctual_stack_free() under its name in Solaris' stack library; see stack_alloc().
 *
 * A real-time thread may call it, and it costs the same. -1 with errno as there.
 *
 * # Safety
 * As punctual_stack_free(). */
int stack_free(void *stack, size_t size);
#endif

#if !defined(PUNCTUAL_NO_STACK_NAMES)
/* punctual_stack_sizes() under its name in Solaris' stack library; see stack_alloc(). Its type
 * there, uint_t, is unsigned int.
 *
 * Not for a real-time thread: it calls malloc(). NULL with ENOMEM. */
unsigned int *fetch_stack_sizes(void);
#endif

/* Sets the policy of the thread `tid`; 0 means the caller.
 *
 * For setting up: one system call. -1 with errno, and punctual_last_error() says how to fix it:
 * EFAULT `sched` is NULL; EINVAL a number out of range, with DEADLINE runtime > deadline or
 * deadline > period; EPERM no permission, or DEADLINE for a thread that may not use all CPUs;
 * EBUSY DEADLINE is not admitted: too little bandwidth is left; ESRCH no such thread.
 *
 * # Safety
 * `sched` is NULL, or `sched->struct_size` bytes can be read. */
int punctual_sched_set(pid_t tid,
                       const struct punctual_sched *sched);

/* Returns the policy of the thread `tid`, 0 means the caller. `out->struct_size` is filled in by
 * the caller.
 *
 * A real-time thread may call it: one system call. -1 with errno: EFAULT `out` is NULL;
 * EINVAL its size is too small; ENOTSUP another policy (BATCH, IDLE, an extension); ESRCH no
 * such thread.
 *
 * # Safety
 * `out` is NULL, or `out->struct_size` bytes are writable. */
int punctual_sched_get(pid_t tid,
                       struct punctual_sched *out);

/* Sets policy and priority (OTHER, FIFO or RR) in the attributes for pthread_create(), and
 * PTHREAD_EXPLICIT_SCHED, without which they have no effect. POSIX attributes don't support
 * DEADLINE: use punctual_thread_create(), or punctual_sched_set() in the thread itself.
 *
 * For setting up; no system call. -1 with errno: EFAULT a pointer is NULL; EINVAL a number
 * out of range; ENOTSUP DEADLINE.
 *
 * # Safety
 * `attr` is NULL or initialised; `sched` as for punctual_sched_set(). */
int punctual_pthread_attr_sched(pthread_attr_t *attr,
                                const struct punctual_sched *sched);

/* Sets the CPUs of the thread `tid`, 0 means the caller: "3-5,0", "0-7:2" (every second), "!1-2"
 * (all that it may use now except these), or "all" (that are online).
 *
 * For setting up: it allocates. -1 with errno, and punctual_last_error() says how to fix it:
 * EFAULT `cpus` is NULL; EINVAL an invalid list, or a CPU that is offline or that it may not
 * use; ESRCH no such thread; EPERM another user's thread; EBUSY a DEADLINE thread would have too
 * little bandwidth left; ENOMEM.
 *
 * # Safety
 * `cpus` is NULL or a string. */
int punctual_affinity_set(pid_t tid,
                          const char *cpus);

/* Writes the CPUs that the thread `tid` may use, 0 means the caller, as a list like "0-3,8"
 * into the `size` bytes at `list`. Returns its length.
 *
 * For setting up: it allocates. -1 with errno: EFAULT `list` is NULL; ERANGE it doesn't fit,
 * and nothing is written; ESRCH no such thread; ENOMEM.
 *
 * # Safety
 * `list` is NULL, or `size` bytes are writable. */
ssize_t punctual_affinity_get(pid_t tid,
                              char *list,
                              size_t size);

/* Starts a thread that calls `body(argument)` on a prefaulted guarded stack of
 * punctual_stack_alloc(), with the name, CPUs, policy and priority of `attr` in force; `attr`
 * NULL means the defaults. `body` runs with all requested settings, or not at all. The creator
 * sets the CPUs and the priority of the thread before it runs, so no thread of lower priority
 * can delay its start, and the creator doesn't wait for it. The policy is always explicit: a
 * thread never inherits a real-time priority. The thread must be joined, by
 * punctual_thread_join(), or detached, by punctual_thread_detach(); it may call pthread_exit()
 * and be cancelled.
 *
 * Not for a real-time thread: it allocates. -1 with errno, and punctual_last_error() says how to
 * fix it: EFAULT `out` or `body` is NULL; EINVAL an invalid attr, policy, priority or CPU list,
 * DEADLINE with runtime > deadline or deadline > period, or a stack_size too small for the
 * thread-local storage; EPERM no permission for the policy, or DEADLINE with only some of the
 * CPUs; EBUSY DEADLINE is not admitted; ENOMEM no memory; EAGAIN a limit of locked memory or of
 * threads.
 *
 * # Safety
 * `attr` is NULL, or `attr->struct_size` bytes and its strings are readable; `body` may be
 * called with `argument` on another thread. */
int punctual_thread_create(struct punctual_thread **out,
                           const struct punctual_thread_attr *attr,
                           void *(*body)(void*),
                           void *argument);

/* Waits for the thread to end, stores the return value of its function (or PTHREAD_CANCELED) in
 * `result` unless that is NULL, and frees its stack.
 *
 * Not for a real-time thread: it waits. -1 with errno: EFAULT `thread` is NULL; EDEADLK the
 * thread is the caller; ESRCH in a child of fork(), where its parent's threads don't exist: it
 * can only be detached there.
 *
 * # Safety
 * `thread` comes from punctual_thread_create() and is joined once; `result` is NULL or writable. */
int punctual_thread_join(struct punctual_thread *thread,
                         void **result);

/* The thread's id, as in the kernel and punctual_sched_get().
 *
 * A real-time thread may call it: one load. -1 with EFAULT: `thread` is NULL.
 *
 * # Safety
 * `thread` is NULL or was not joined yet. */
pid_t punctual_thread_tid(const struct punctual_thread *thread);

/* The thread's POSIX handle, for pthread_kill(), pthread_cancel() and others; not for
 * pthread_join() and pthread_detach().
 *
 * A real-time thread may call it: one load. 0 with EFAULT: `thread` is NULL.
 *
 * # Safety
 * `thread` is NULL or was not joined yet. */
pthread_t punctual_thread_pthread(const struct punctual_thread *thread);

/* Joins the thread like punctual_thread_join() if it has ended, without waiting.
 *
 * Not for a real-time thread: it frees memory, and makes system calls. -1 with errno, and the
 * thread must still be joined or detached: EBUSY it has not ended; EFAULT `thread` is NULL;
 * ESRCH as punctual_thread_join().
 *
 * # Safety
 * As punctual_thread_join(). */
int punctual_thread_tryjoin(struct punctual_thread *thread,
                            void **result);

/* Joins the thread like punctual_thread_join(), but waits until the instant `at` of
 * CLOCK_MONOTONIC at most.
 *
 * Not for a real-time thread: it waits. -1 with errno, and the thread must still be joined or
 * detached: ETIMEDOUT it has not ended by then; EFAULT `thread` or `at` is NULL; EINVAL `at` is
 * negative, malformed or beyond 584 years; EDEADLK the thread is the caller; ESRCH as
 * punctual_thread_join().
 *
 * # Safety
 * As punctual_thread_join(); `at` is NULL or can be read. */
int punctual_thread_timedjoin(struct punctual_thread *thread,
                              void **result,
                              const struct timespec *at);

/* Lets the thread run without being joined. `thread` must not be used any more, and the return
 * value of its function is lost. Its stack is freed by the first punctual_thread_create() after
 * its end. A thread may detach itself once it has the pointer: it may run before
 * punctual_thread_create() has written the pointer to `out`, so the creator passes it to the
 * thread and doesn't use it any more. Don't detach it with pthread_detach().
 *
 * A real-time thread may call it: one compare-and-swap, repeated while other threads detach. -1
 * with EFAULT: `thread` is NULL.
 *
 * # Safety
 * `thread` is NULL, or comes from punctual_thread_create() and was neither joined nor detached. */
int punctual_thread_detach(struct punctual_thread *thread);

/* Applies `attr` to the calling thread, for example the primary thread: its signals, name, CPUs and
 * policy, as punctual_thread_create() does for a new one; `attr` NULL means the defaults.
 * `stack_size` has no effect, since the thread has its stack. A refused setting doesn't prevent
 * the others, and settings that were applied stay.
 *
 * Not for a real-time thread: it allocates. -1 with errno of the first refusal: EINVAL an
 * invalid attr, policy, priority or CPU list; EPERM no permission for the policy, or DEADLINE
 * with only some of the CPUs; EBUSY DEADLINE is not admitted.
 *
 * # Safety
 * `attr` is NULL, or `attr->struct_size` bytes and its strings are readable. */
int punctual_thread_apply(const struct punctual_thread_attr *attr);

/* Prepares the program's memory: grows the heap by `heap` bytes, touches each page of it, and
 * configures malloc() to keep it and to create no separate mappings; prefaults the calling
 * thread's stack from the current depth `stack` bytes down (0: to its limit); and locks all
 * memory, including later mappings. Call it first in main(): a thread that started earlier may
 * have a heap of its own. A default stack of 8 MB of a later thread is prefaulted at once, so
 * specify the stack sizes of threads.
 *
 * Not for a real-time thread. -1 with errno, and punctual_last_error() says how to fix it:
 * ENOTSUP malloc isn't glibc's; EPERM no permission to lock; ENOMEM no memory, also if the heap
 * would trigger the memory cgroup's OOM killer, or above the limit of locked memory; EAGAIN the
 * same limit, while the stack was prefaulted. Steps before the failure stay done. */
int punctual_memory_prepare(size_t heap,
                            size_t stack);

/* The malloc part of punctual_memory_prepare(): with 0 bytes it configures malloc() and grows
 * nothing.
 *
 * Not for a real-time thread. -1 with errno: ENOTSUP malloc isn't glibc's; ENOMEM as
 * punctual_memory_prepare(). */
int punctual_heap_keep(size_t bytes);

/* Locks all memory that the process has and, unless `present_only` is 1, what it maps later.
 *
 * Not for a real-time thread: it makes everything present. -1 with errno, and
 * punctual_last_error() says how to fix it: EPERM no permission; ENOMEM above the limit; EINVAL
 * `present_only` is neither 0 nor 1. */
int punctual_memory_lock(int present_only);

/* Undoes punctual_memory_lock(). Pages stay present until memory runs short.
 *
 * Not for a real-time thread: it waits for threads that map memory. It never fails in practice; -1
 * with errno if it does. */
int punctual_memory_unlock(void);

/* Fills `out` with the calling thread's page faults so far: the end of its setup, from which
 * punctual_late_faults() counts. `out->struct_size` is filled in by the caller.
 *
 * A real-time thread may call it: two system calls. -1 with errno: EFAULT `out` is NULL;
 * EINVAL its size is too small.
 *
 * # Safety
 * `out` is NULL, or `out->struct_size` bytes are writable. */
int punctual_faults_mark(struct punctual_faults *out);

/* How many page faults the calling thread has taken since it filled in `mark`. With prepared
 * memory there are none, and a test can assert 0.
 *
 * A real-time thread may call it: one system call. -1 with errno: EFAULT `mark` is NULL;
 * EINVAL it wasn't filled in.
 *
 * # Safety
 * `mark` is NULL or was filled in by punctual_faults_mark() on this thread. */
int64_t punctual_late_faults(const struct punctual_faults *mark);

/* Fills `out` with the disturbances of the calling thread since it filled in `mark`: page faults
 * without and with I/O, and involuntary context switches. `out->struct_size` is filled in by the
 * caller. `out` may be `mark`.
 *
 * A real-time thread may call it: one system call. -1 with errno: EFAULT a pointer is NULL;
 * EINVAL `mark` wasn't filled in, or the size of `out` is too small.
 *
 * # Safety
 * `mark` is NULL or was filled in by punctual_faults_mark() on this thread; `out` is NULL, or
 * `out->struct_size` bytes are writable. */
int punctual_faults_since(const struct punctual_faults *mark,
                          struct punctual_faults *out);

/* The time now on CLOCK_MONOTONIC, in ns.
 *
 * A real-time thread may call it, and a signal handler: no system call where the vDSO
 * answers. It never fails. */
uint64_t punctual_now_ns(void);

/* Converts an instant in ns to a timespec, for clock_nanosleep(), pthread_cond_timedwait() and
 * others.
 *
 * A real-time thread may call it, and a signal handler: it is arithmetic. It never fails. */
struct timespec punctual_timespec(uint64_t ns);

/* Converts a timespec to ns.
 *
 * A real-time thread may call it, and a signal handler: it is arithmetic. UINT64_MAX with
 * errno: EFAULT `at` is NULL; EINVAL it is negative, malformed or beyond 584 years.
 *
 * # Safety
 * `at` is NULL or can be read. */
uint64_t punctual_ns(const struct timespec *at);

/* Sleeps until an instant of CLOCK_MONOTONIC; returns at once when it has passed.
 *
 * A real-time thread may call it: one system call. -1 with errno: EFAULT `at` is NULL; EINVAL
 * it is malformed; EINTR a signal handler ran.
 *
 * # Safety
 * `at` is NULL or can be read. */
int punctual_sleep_until(const struct timespec *at);

/* Initialises a loop whose first cycle is due one period from now. It needs no clean-up.
 *
 * A real-time thread may call it: no system call. -1 with errno: EFAULT `wheel` is NULL; EINVAL
 * a period of 0 or of more than 2^62 ns, or `overrun` is neither PUNCTUAL_SKIP nor
 * PUNCTUAL_CATCH_UP.
 *
 * # Safety
 * `wheel` is NULL or writable. */
int punctual_loop_init(struct punctual_loop *wheel,
                       uint64_t period_ns,
                       int overrun);

/* Waits for the next due instant, and fills `out` unless it is NULL (`out->struct_size` is
 * filled in by the caller).
 *
 * A real-time thread may call it: one system call. -1 with errno: EFAULT `wheel` is NULL; EINVAL
 * it was not initialised, or the size of `out` is too small: there was no wait; EINTR a signal
 * handler ran: the same period is still due.
 *
 * # Safety
 * `wheel` is NULL, zeroed, or a loop that no other thread uses; `out` is NULL, or
 * `out->struct_size` bytes are writable. */
int punctual_loop_wait(struct punctual_loop *wheel,
                       struct punctual_cycle *out);

/* Periods missed since the loop was initialised.
 *
 * A real-time thread may call it: a few loads. UINT64_MAX with errno: EFAULT, EINVAL as
 * punctual_loop_wait().
 *
 * # Safety
 * `wheel` is NULL, zeroed, or a loop. */
uint64_t punctual_loop_missed(const struct punctual_loop *wheel);

/* Cycles run since the loop was initialised.
 *
 * A real-time thread may call it: a few loads. UINT64_MAX with errno: EFAULT, EINVAL as
 * punctual_loop_wait().
 *
 * # Safety
 * `wheel` is NULL, zeroed, or a loop. */
uint64_t punctual_loop_cycles(const struct punctual_loop *wheel);

/* Initialises attributes for pthread_mutex_init(): PTHREAD_PRIO_INHERIT, so that the holder of
 * the mutex inherits the highest priority of its waiters, and PTHREAD_MUTEX_ERRORCHECK, because
 * a normal mutex deadlocks when its holder locks it again. The rest is POSIX: lock it with
 * pthread_mutex_lock(), and destroy the attributes with pthread_mutexattr_destroy().
 *
 * A thread that ends while it holds the mutex leaves it locked for ever, unless the mutex is
 * robust: punctual_mutexattr_init_robust(). When threads wait for each other in a circle, the
 * kernel detects the deadlock, and glibc ends the program (Assertion `e != EDEADLK ...), also in
 * a timed lock: lock several mutexes in the same order everywhere.
 *
 * For setting up; no system call. -1 with errno: EFAULT `attr` is NULL; ENOTSUP no priority
 * inheritance.
 *
 * # Safety
 * `attr` is NULL or writable. */
int punctual_mutexattr_init(pthread_mutexattr_t *attr);

/* Like punctual_mutexattr_init(), with PTHREAD_MUTEX_ROBUST: after a thread ends while it holds
 * the mutex, the next lock returns EOWNERDEAD. The locking thread then holds the mutex, and
 * calls punctual_mutex_make_consistent() once the data that the mutex protects are consistent.
 *
 * For setting up; no system call. -1 with errno: EFAULT `attr` is NULL; ENOTSUP no priority
 * inheritance.
 *
 * # Safety
 * `attr` is NULL or writable. */
int punctual_mutexattr_init_robust(pthread_mutexattr_t *attr);

/* Initialises attributes for pthread_cond_init(): pthread_cond_timedwait() uses CLOCK_MONOTONIC,
 * which is never set. The rest is POSIX; destroy them with pthread_condattr_destroy().
 *
 * For setting up; no system call. -1 with errno: EFAULT `attr` is NULL.
 *
 * # Safety
 * `attr` is NULL or writable. */
int punctual_condattr_init(pthread_condattr_t *attr);

/* Creates a ring for at least `capacity` records (rounded up to a power of two) of `record_size`
 * bytes each, prefaulted.
 *
 * Not for a real-time thread: it allocates, and touches each page. NULL with errno: EINVAL a
 * size or capacity of 0, or more than 1 GB in total; ENOMEM, also if the allocation would
 * trigger the OOM killer of the memory cgroup (memory.max), as far as that can be known in
 * advance. */
struct punctual_ring *punctual_ring_create(size_t record_size,
                                           size_t capacity);

/* Frees the ring's memory; NULL is allowed.
 *
 * Not for a real-time thread: it unmaps memory. It never fails.
 *
 * # Safety
 * `ring` is NULL, or comes from punctual_ring_create() and no thread uses it any more. */
void punctual_ring_destroy(struct punctual_ring *ring);

/* Appends the record at `record`.
 *
 * A real-time thread may call it: wait-free, no system call. -1 with errno: EAGAIN the ring is
 * full: the record is lost, and counted; EFAULT a pointer is NULL.
 *
 * # Safety
 * `ring` is NULL or was not destroyed, and one thread at a time pushes; `record` is NULL or
 * has as many bytes as a record. */
int punctual_ring_push(struct punctual_ring *ring,
                       const void *record);

/* Takes the oldest record into `record`: returns 1, or 0 when there is none.
 *
 * A real-time thread may call it: wait-free, no system call. -1 with EFAULT: a pointer is NULL.
 *
 * # Safety
 * `ring` is NULL or was not destroyed, and one thread at a time pops; `record` is NULL or has
 * room for a record. */
int punctual_ring_pop(struct punctual_ring *ring,
                      void *record);

/* How many records were lost since the ring was created, because it was full.
 *
 * A real-time thread may call it: one load. UINT64_MAX with EFAULT: `ring` is NULL.
 *
 * # Safety
 * `ring` is NULL or was not destroyed. */
uint64_t punctual_ring_lost(const struct punctual_ring *ring);

/* Opens a log for one real-time thread: a ring of at least `capacity` records, prefaulted, and
 * an ordinary thread that writes a line for each record to `fd`: its time in seconds of
 * CLOCK_MONOTONIC, and `formats[id]`. Formats have printf's conversions for 64-bit numbers: %u,
 * %d, %x, %f (see punctual_log_double()), %%; the l of "%" PRIu64 is ignored. The formats are
 * copied, and `fd` is duplicated; with O_NONBLOCK the writing thread waits until it accepts
 * more.
 *
 * Not for a real-time thread: it allocates and starts a thread. NULL with errno, and
 * punctual_last_error(): EFAULT `formats` or one of them is NULL while `count` is not 0; EINVAL
 * a capacity of 0 or above 2^20; EBADF, EMFILE `fd`; ENOMEM; EAGAIN no thread; EPERM the caller
 * is a real-time thread, and the writing one may not become an ordinary one. A pipe without a
 * reader raises no SIGPIPE: punctual_log_close() returns EPIPE.
 *
 * # Safety
 * `formats` is NULL, or has `count` strings. */
struct punctual_log *punctual_log_open(int fd,
                                       const char *const *formats,
                                       size_t count,
                                       size_t capacity);

/* Logs a record for `formats[id]` with `count` numbers at `arguments`: integers unchanged,
 * doubles converted by punctual_log_double().
 *
 * A real-time thread may call it: wait-free, no system call where the vDSO answers for the
 * time. -1 with errno: EAGAIN the log is full: the record is lost, and counted; EINVAL more
 * than PUNCTUAL_LOG_ARGUMENTS; EFAULT `log` is NULL, or `arguments` while `count` is not 0.
 *
 * # Safety
 * `log` is NULL or is open, and one thread at a time logs; `count` numbers can be read. */
int punctual_log_put(struct punctual_log *log,
                     unsigned int id,
                     size_t count,
                     const uint64_t *arguments);

/* Converts a double to an argument of punctual_log_put(), for %f.
 *
 * A real-time thread may call it: no arithmetic, the same bits as another type. It never fails. */
uint64_t punctual_log_double(double value);

/* Writes the remaining records, ends the writing thread and closes the log. Returns how many
 * records were lost.
 *
 * Not for a real-time thread: it waits for the file. -1 with errno: EFAULT `log` is NULL; ESRCH
 * in a child of fork(): the writing thread belongs to the parent, and continues; or the first
 * error of write(), after which nothing was written. The log is closed in that case too.
 *
 * # Safety
 * `log` is NULL, or open and not used any more. */
int64_t punctual_log_close(struct punctual_log *log);

/* Copies the oldest records, at most `room`, into the array at `records`, and returns how many.
 * The producer can reuse their slots when all are copied: a separate pop for each would write
 * the counter that both threads read each time.
 *
 * A real-time thread may call it: wait-free, no system call, a copy for each record. -1 with
 * EFAULT: `ring` is NULL, or `records` while `room` is not 0.
 *
 * # Safety
 * `ring` is NULL or was not destroyed, and one thread at a time pops or drains; `records` has
 * room for `room` records, each of the record's size and without a gap. */
ssize_t punctual_ring_drain(struct punctual_ring *ring,
                            void *records,
                            size_t room);

/* What the last error of this library's functions in the calling thread means, and how to fix
 * it: one line without a newline, "" before the first error. Each function that fails sets it;
 * one that succeeds leaves it unchanged. The string is static: always valid, and must not be
 * freed.
 *
 * A real-time thread may call it: no system call, no lock. It never fails. */
const char *punctual_last_error(void);

/* Watches 1, 2, 4 or 8 bytes at `address`, a multiple of `length`, with the processor's debug
 * registers: each write by a thread of this process is recorded, and with `reads` each read, and
 * the program continues. Use it to find the code that corrupts a stack: watch the corrupted
 * word. Writes that the kernel makes for a thread are not seen. The first call installs a
 * handler for SIGTRAP; a debugger's breakpoints work as before.
 *
 * Not for a real-time thread: it allocates, and makes system calls for each thread of the
 * process. NULL with errno: ENOMEM; EINVAL the length or the alignment; ENOSPC no slot is free
 * (x86-64 has four); ENOTSUP no such hardware, or Linux before 5.13; EACCES or EPERM forbidden,
 * see kernel.perf_event_paranoid. */
struct punctual_watchpoint *punctual_watchpoint_set(const void *address,
                                                    size_t length,
                                                    int reads);

/* The number of hits.
 *
 * A real-time thread may call it, and a signal handler: one load. -1 with EFAULT: NULL.
 *
 * # Safety
 * `watched` is NULL, or was returned by punctual_watchpoint_set() and not cleared. */
ssize_t punctual_watchpoint_count(const struct punctual_watchpoint *watched);

/* Reads hit number `index`, from 0: returns 1 and fills `out`, or returns 0 where
 * there is none. The first 64 are kept.
 *
 * A real-time thread may call it: a few loads. -1 with EFAULT: NULL.
 *
 * # Safety
 * As for punctual_watchpoint_count(); `out` is NULL or writable. */
int punctual_watchpoint_read(const struct punctual_watchpoint *watched,
                             size_t index,
                             struct punctual_watchpoint_hit *out);

/* Stops watching, and frees the watchpoint. NULL is allowed and does nothing.
 *
 * Not for a real-time thread: a system call for each thread of the process. It never fails.
 *
 * # Safety
 * As for punctual_watchpoint_count(); nothing uses it any more. */
void punctual_watchpoint_clear(struct punctual_watchpoint *watched);

/* Restricts the interrupts `irqs`, or all interrupts, including new ones, if `irqs` is NULL, to
 * the CPUs `cpus`. Returns how many were changed; `skipped`, unless NULL, is called for each
 * that could not be changed; those that the kernel manages are no error. The old values are
 * written to the file `journal`, and to disk, before anything is changed; a journal that exists
 * keeps its values.
 *
 * Not for a real-time thread: it reads and writes files. -1 with errno: EFAULT `journal` is
 * NULL; EINVAL no CPU, one that is offline or doesn't exist, or a file that is no journal; or
 * the error of writing the journal; ENOMEM. Then nothing is changed, and no new journal is left
 * behind.
 *
 * # Safety
 * The arrays have the given numbers of elements, and `journal` is a string. */
ssize_t punctual_irq_steer(const unsigned int *irqs,
                           size_t irq_count,
                           const unsigned int *cpus,
                           size_t cpu_count,
                           const char *journal,
                           punctual_irq_skipped skipped,
                           void *context);

/* Restores the values in the file `journal`, and removes it when all are restored. Returns how
 * many interrupts were changed: none without a journal. It may be called again, also by another
 * process than the one that steered.
 *
 * Not for a real-time thread: it reads and writes files. -1 with errno: EFAULT `journal` is
 * NULL; EINVAL it is no journal; ENOMEM; or the error of reading or removing it.
 *
 * # Safety
 * `journal` is NULL or a string. */
ssize_t punctual_irq_restore(const char *journal,
                             punctual_irq_skipped skipped,
                             void *context);

/* What punctual_irq_steer() would change, without changing it: `change`, unless NULL, is called
 * for each interrupt whose CPUs would change, and `skipped`, unless NULL, for each that can't be
 * changed, as far as that is known in advance: before Linux 6.11 only steering shows which
 * interrupts the kernel manages. Returns how many would change.
 *
 * Not for a real-time thread: it reads files. -1 with errno: EINVAL no CPU, or one that is
 * offline or doesn't exist; ENOMEM; or the error of reading /proc/irq.
 *
 * # Safety
 * The arrays have the given numbers of elements. */
ssize_t punctual_irq_preview_steer(const unsigned int *irqs,
                                   size_t irq_count,
                                   const unsigned int *cpus,
                                   size_t cpu_count,
                                   punctual_irq_change change,
                                   punctual_irq_skipped skipped,
                                   void *context);

/* What punctual_irq_restore() would restore, without doing it: `change`, unless NULL, is called
 * for each interrupt whose CPUs differ from those in the file `journal`, and `skipped`, unless
 * NULL, for each that no longer exists or can't be changed. Returns how many would be restored:
 * none without a journal.
 *
 * Not for a real-time thread: it reads files. -1 with errno: EFAULT `journal` is NULL; EINVAL it
 * is no journal; ENOMEM; or the error of reading it.
 *
 * # Safety
 * `journal` is NULL or a string. */
ssize_t punctual_irq_preview(const char *journal,
                             punctual_irq_change change,
                             punctual_irq_skipped skipped,
                             void *context);

/* Creates a processor set with this name: `count` CPUs reserved for it, an isolated partition if
 * cgroup v2 has the cpuset controller, with v1 an exclusive set without load balancing. Its
 * state is read back; if it can't be isolated, it is removed again. If `reason` is not NULL, the
 * text of an error is written there, at most `room` bytes including the 0 at the end.
 *
 * Not for a real-time thread: it reads and writes files. -1 with errno: ENOTSUP no cpuset
 * controller; EBUSY the kernel doesn't isolate it, for the given reason: for example, another
 * set has one of the CPUs; EEXIST the name is taken; EINVAL no name, or one with a slash, no
 * CPU, or one that is offline or doesn't exist; EACCES no permission; ENAMETOOLONG; ENOMEM.
 *
 * # Safety
 * `name` is a string, `cpus` has `count` elements, and `reason` is NULL or has `room` bytes. */
int punctual_cpuset_create(const char *name,
                           const unsigned int *cpus,
                           size_t count,
                           char *reason,
                           size_t room);

/* 0 if the set with this name is isolated now: another set may invalidate it later.
 *
 * Not for a real-time thread: it reads files. -1 with errno, and the reason, as
 * punctual_cpuset_create(); ENOENT no such set.
 *
 * # Safety
 * As punctual_cpuset_create(). */
int punctual_cpuset_state(const char *name, char *reason, size_t room);

/* Moves a process into the set with this name; 0 is the caller's.
 *
 * Not for a real-time thread: it reads and writes files. -1 with errno: ENOENT no such set;
 * ESRCH no such process; ENOTSUP, EINVAL, EACCES as punctual_cpuset_create().
 *
 * # Safety
 * `name` is NULL or a string. */
int punctual_cpuset_move_process(const char *name,
                                 pid_t process);

/* Moves the tasks of the set with this name away and removes it, even if another program created
 * it; 0 also if it no longer exists.
 *
 * Not for a real-time thread: it reads and writes files. -1 with errno: EBUSY tasks can't be
 * moved; ENOTSUP, EINVAL, EACCES as punctual_cpuset_create().
 *
 * # Safety
 * `name` is NULL or a string. */
int punctual_cpuset_remove(const char *name);

/* Writes the CPUs of the tasks in the set with this name, as a list like "0-3,8", into the
 * `size` bytes at `list`. Returns its length.
 *
 * Not for a real-time thread: it reads files. -1 with errno: EFAULT `list` is NULL; ERANGE it
 * doesn't fit, and nothing is written; ENOENT no such set; ENOTSUP, EINVAL as
 * punctual_cpuset_create().
 *
 * # Safety
 * `name` is NULL or a string; `list` is NULL, or `size` bytes are writable. */
ssize_t punctual_cpuset_cpus(const char *name,
                             char *list,
                             size_t size);

/* Locks a mutex like pthread_mutex_lock(), but waits until the instant `at` of CLOCK_MONOTONIC
 * at most: pthread_mutex_timedlock() uses CLOCK_REALTIME, which may be set.
 *
 * A real-time thread may call it: no system call while the mutex is free, else one, and the
 * holder inherits the caller's priority meanwhile. -1 with errno: ETIMEDOUT the instant was
 * reached; EDEADLK the caller already holds it (for threads that wait in a circle see
 * punctual_mutexattr_init()); EOWNERDEAD its holder ended without unlocking it: the caller holds
 * it now, see punctual_mutex_make_consistent(); ENOTRECOVERABLE it was not made consistent;
 * ENOTSUP the mutex is held, and the kernel (before 5.14) or the C library (before glibc 2.35)
 * can't wait on this clock; EFAULT a pointer is NULL; EINVAL `at` is negative, malformed or
 * beyond 584 years.
 *
 * # Safety
 * `mutex` is NULL or was initialised with attributes of the library; `at` is NULL or can be read. */
int punctual_mutex_lock_until(pthread_mutex_t *mutex,
                              const struct timespec *at);

/* Declares the data that a mutex protects consistent, after a lock returned EOWNERDEAD: the
 * mutex has attributes of punctual_mutexattr_init_robust(), and the thread that held it has
 * ended. If it is unlocked without this, every later lock fails with ENOTRECOVERABLE.
 *
 * A real-time thread may call it: no system call, no lock. -1 with errno: EFAULT `mutex` is
 * NULL; EINVAL it is not robust, or no holder of it has ended.
 *
 * # Safety
 * `mutex` is NULL, or initialised and held by the caller. */
int punctual_mutex_make_consistent(pthread_mutex_t *mutex);

/* Unlocks the mutex, waits until notified, and locks the mutex again. It may end without a
 * notification, for example by a signal handler: check the condition again.
 *
 * A real-time thread may call it: one system call, and one more if another thread holds the
 * mutex when it is locked again, or waits for it when it is unlocked. -1 with errno: EFAULT a
 * pointer is NULL; EPERM the caller doesn't hold the mutex; EOWNERDEAD and ENOTRECOVERABLE with
 * a robust mutex, as punctual_mutex_lock_until(): after EOWNERDEAD from a lock, make the mutex
 * consistent before the wait, because a wait unlocks it.
 *
 * # Safety
 * As punctual_condvar_wait_until(). */
int punctual_condvar_wait(struct punctual_condvar *condvar,
                          pthread_mutex_t *mutex);

/* Like punctual_condvar_wait(), but waits until the instant `at` of CLOCK_MONOTONIC at most.
 *
 * A real-time thread may call it: system calls as punctual_condvar_wait(). -1 with errno:
 * ETIMEDOUT the instant was reached, and the mutex is held; EFAULT a pointer is NULL; EINVAL
 * `at` is negative, malformed or beyond 584 years; EPERM the caller doesn't hold the mutex;
 * EOWNERDEAD and ENOTRECOVERABLE with a robust mutex, as punctual_mutex_lock_until().
 *
 * # Safety
 * `condvar` is NULL or began as 0, `mutex` is NULL or was initialised with the attributes of
 * punctual_mutexattr_init(), and both outlive the call; `at` is NULL or can be read. */
int punctual_condvar_wait_until(struct punctual_condvar *condvar,
                                pthread_mutex_t *mutex,
                                const struct timespec *at);

/* Wakes one waiting thread, the one with the highest priority. Change the condition while
 * holding the mutex; it may be unlocked before this call.
 *
 * A real-time thread may call it: no system call where none waits, else one. -1 with EFAULT:
 * `condvar` is NULL.
 *
 * # Safety
 * `condvar` is NULL or was initialised to 0. */
int punctual_condvar_notify_one(struct punctual_condvar *condvar);

/* Wakes all waiting threads, like punctual_condvar_notify_one() for one.
 *
 * A real-time thread may call it: no system call where none waits, else one, bounded by their
 * number. -1 with EFAULT: `condvar` is NULL.
 *
 * # Safety
 * As punctual_condvar_notify_one(). */
int punctual_condvar_notify_all(struct punctual_condvar *condvar);

/* Fills the options that a channel has if it gets none: those that make messages arrive sooner.
 * Set `out->struct_size` first.
 *
 * A real-time thread may call it: no system call. -1 with errno: EFAULT NULL; EINVAL
 * `struct_size`.
 *
 * # Safety
 * `out` is NULL, or `out->struct_size` bytes are writable. */
int punctual_channel_defaults(struct punctual_channel_options *out);

/* Listens at a numeric address, such as "10.0.0.2:7000" or "[::1]:7000"; port 0 is any free one,
 * which getsockname() returns. Connections inherit the buffers of `options` (NULL: the kernel's).
 * Returns the descriptor of the socket, for punctual_channel_accept() and close().
 *
 * Not for a real-time thread: it allocates in the kernel. -1 with errno, and
 * punctual_last_error(): EFAULT `address` is NULL; EINVAL the address or the options; EADDRINUSE;
 * EADDRNOTAVAIL; EACCES a port below 1024.
 *
 * # Safety
 * `address` is NULL or a string; `options` as for punctual_channel_accept(). */
int punctual_channel_listen(const char *address,
                            const struct punctual_channel_options *options);

/* Waits until a peer connects, until an instant of CLOCK_MONOTONIC in ns (UINT64_MAX: no limit).
 * `options` NULL: the defaults. The memory of the channel is prefaulted.
 *
 * Not for a real-time thread: it waits and allocates. NULL with errno, and punctual_last_error():
 * EINVAL the options, or a socket that does not listen; ETIMEDOUT at the instant; EINTR; EBADF;
 * ENOMEM.
 *
 * # Safety
 * `options` is NULL, or `options->struct_size` bytes are readable. */
struct punctual_channel *punctual_channel_accept(int listener,
                                                 uint64_t until_ns,
                                                 const struct punctual_channel_options *options);

/* Connects to a channel that listens at a numeric address, until an instant of CLOCK_MONOTONIC in
 * ns (UINT64_MAX: no limit). `options` NULL: the defaults. The memory of the channel is prefaulted.
 *
 * Not for a real-time thread: it waits and allocates. NULL with errno, and punctual_last_error():
 * EFAULT `address` is NULL; EINVAL the address or the options; ETIMEDOUT at the instant;
 * ECONNREFUSED; ENETUNREACH; EHOSTUNREACH; ENOMEM.
 *
 * # Safety
 * `address` is NULL or a string; `options` as for punctual_channel_accept(). */
struct punctual_channel *punctual_channel_connect(const char *address,
                                                  uint64_t until_ns,
                                                  const struct punctual_channel_options *options);

/* Makes a channel of a connected stream socket. The descriptor is duplicated: close yours.
 * `options` NULL: the defaults. The memory of the channel is prefaulted.
 *
 * Not for a real-time thread: it allocates. NULL with errno, and punctual_last_error(): EINVAL
 * the options; EBADF, ENOTSOCK, EPROTOTYPE no stream socket; EMFILE; ENOMEM.
 *
 * # Safety
 * As for punctual_channel_accept(). */
struct punctual_channel *punctual_channel_open(int fd,
                                               const struct punctual_channel_options *options);

/* Closes the connection and frees its memory; NULL is allowed. Messages that the peer has not
 * acknowledged may be lost if messages or padding of the peer are unread: to avoid that, call
 * punctual_channel_finish(), and receive until EPIPE.
 *
 * Not for a real-time thread: it frees memory, and makes system calls. It never fails.
 *
 * # Safety
 * `channel` is NULL, or was returned by one of these functions and no thread uses it any more. */
void punctual_channel_close(struct punctual_channel *channel);

/* The descriptor of the connection, for poll() and getpeername(); it stays the channel's.
 *
 * A real-time thread may call it: one load. -1 with EFAULT: NULL.
 *
 * # Safety
 * `channel` is NULL or is open. */
int punctual_channel_fd(const struct punctual_channel *channel);

/* What became of option number `index` of the socket, from 0: returns 1 and fills `out`, or
 * returns 0 after the last. Set `out->struct_size` first.
 *
 * A real-time thread may call it: a few loads. -1 with errno: EFAULT NULL; EINVAL `struct_size`.
 *
 * # Safety
 * `channel` is NULL or is open; `out` is NULL, or `out->struct_size` bytes are writable. */
int punctual_channel_setting(const struct punctual_channel *channel,
                             size_t index,
                             struct punctual_channel_setting *out);

/* Sends the `size` bytes at `message`, which may be `deadline_ns` old when they are received (0: no
 * deadline, and no stamp). `flags`: 0 or PUNCTUAL_CHANNEL_MORE. Returns 0, or 1 if the kernel has
 * only the beginning of it: the channel keeps the rest, and sends it first with the next message,
 * or with punctual_channel_flush().
 *
 * A real-time thread may call it: one system call (sendto, or sendmmsg with padding and above 2048
 * bytes) while the socket has room. With PUNCTUAL_CHANNEL_WAIT it waits for room until the
 * deadline, by a ppoll for each wait. -1 with errno, and nothing was sent: EFAULT NULL; EINVAL the
 * flags; EMSGSIZE above message_max; EAGAIN no room; ETIME no room until the deadline; EINTR a
 * signal handler ran; EPIPE, ECONNRESET, ETIMEDOUT the connection has ended.
 *
 * # Safety
 * `channel` is NULL or is open, and one thread at a time sends; `size` bytes at `message` are
 * readable, or it is NULL. */
int punctual_channel_send(struct punctual_channel *channel,
                          const void *message,
                          size_t size,
                          uint64_t deadline_ns,
                          unsigned int flags);

/* Sends the rest of a message that punctual_channel_send() returned 1 for, until an instant of
 * CLOCK_MONOTONIC in ns: 0 does not wait, UINT64_MAX waits without a limit.
 *
 * A real-time thread may call it: no system call without a rest, else one, and two for each wait.
 * -1 with errno: EFAULT NULL; EAGAIN no room; ETIME at the instant; EINTR; EPIPE, ECONNRESET,
 * ETIMEDOUT the connection has ended.
 *
 * # Safety
 * As for punctual_channel_send(). */
int punctual_channel_flush(struct punctual_channel *channel,
                           uint64_t until_ns);

/* States that no message follows: the peer's receive returns EPIPE after the last one.
 *
 * A real-time thread may call it: one system call. -1 with errno: EFAULT NULL; EAGAIN the rest of
 * a message is not sent; ENOTCONN.
 *
 * # Safety
 * As for punctual_channel_send(). */
int punctual_channel_finish(struct punctual_channel *channel);

/* Receives a message into the memory of the channel, until an instant of CLOCK_MONOTONIC in ns: 0
 * does not wait, UINT64_MAX waits without a limit. `out->data` is valid until the next call.
 * Set `out->struct_size` first.
 *
 * A real-time thread may call it: no system call if the message came with an earlier one; one
 * (recvfrom) with 0 or UINT64_MAX; two (ppoll, recvfrom) with an instant. Padding that arrives by
 * itself costs as much, and quick_ack 2 adds one. -1 with errno: EFAULT NULL; EINVAL
 * `struct_size`; EAGAIN no message; ETIME at the instant; EINTR a signal handler ran. The
 * connection has ended, or is of no more use: EPIPE the peer closed it; EBADMSG within a message;
 * EPROTO its bytes are no frame; EMSGSIZE its message is above message_max; ECONNRESET;
 * ETIMEDOUT.
 *
 * # Safety
 * `channel` is NULL or is open, and one thread at a time receives; `out` is NULL, or
 * `out->struct_size` bytes are writable. */
int punctual_channel_receive(struct punctual_channel *channel,
                             uint64_t until_ns,
                             struct punctual_channel_message *out);

/* Receives a message into `buffer`, which has `room` bytes; returns its size. `out` may be NULL.
 * Otherwise like punctual_channel_receive().
 *
 * A real-time thread may call it: the system calls of punctual_channel_receive(). -1 with errno:
 * the same, and ENOBUFS `room` is too little: the message is kept, and the next call returns it.
 *
 * # Safety
 * As for punctual_channel_receive(), and `room` bytes at `buffer` are writable, or it is NULL. */
ssize_t punctual_channel_read(struct punctual_channel *channel,
                              void *buffer,
                              size_t room,
                              uint64_t until_ns,
                              struct punctual_channel_message *out);

/* What was counted. Any thread may call it, also while others send and receive. Set
 * `out->struct_size` first.
 *
 * A real-time thread may call it: a few loads. -1 with errno: EFAULT NULL; EINVAL `struct_size`.
 *
 * # Safety
 * `channel` is NULL or is open; `out` is NULL, or `out->struct_size` bytes are writable. */
int punctual_channel_counts(const struct punctual_channel *channel,
                            struct punctual_channel_counts *out);

#ifdef __cplusplus
}
#endif

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif /* PUNCTUAL_H */
