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


/* The version of this header; a later one has added to it or, with another major number,
 * changed it. */
#define PUNCTUAL_VERSION_MAJOR 0

/* See PUNCTUAL_VERSION_MAJOR. */
#define PUNCTUAL_VERSION_MINOR 1

/* See PUNCTUAL_VERSION_MAJOR. */
#define PUNCTUAL_VERSION_PATCH 0

/* 10000 * major + 100 * minor + patch, to be compared in #if. */
#define PUNCTUAL_VERSION (((PUNCTUAL_VERSION_MAJOR * 10000) + (PUNCTUAL_VERSION_MINOR * 100)) + PUNCTUAL_VERSION_PATCH)

/* SCHED_OTHER: the time-sharing class; also what 0 means. */
#define PUNCTUAL_OTHER 0

/* SCHED_FIFO at a priority of 1 to 99. */
#define PUNCTUAL_FIFO 1

/* SCHED_RR at a priority of 1 to 99. */
#define PUNCTUAL_RR 2

/* SCHED_DEADLINE: a runtime within a deadline in each period. */
#define PUNCTUAL_DEADLINE 6

/* The thread takes signals, those that its creator takes. Without this flag they are blocked in
 * it from its first instruction, so that handlers run in threads that have no deadline. Never
 * blocked are those that an instruction causes: SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
 * SIGSYS, SIGABRT. */
#define PUNCTUAL_THREAD_SIGNALS 1

/* Periods that have passed are skipped, and the phase is kept: for control loops. */
#define PUNCTUAL_SKIP 0

/* Late cycles run back to back until the schedule is caught up: for work that must be done
 * for each period. */
#define PUNCTUAL_CATCH_UP 1

/* Numbers that fit in one record of a log. */
#define PUNCTUAL_LOG_ARGUMENTS 6

/* The log of one real-time thread. */
struct punctual_log;

/* A ring of records of one size, from one thread to one other. */
struct punctual_ring;

/* A thread of punctual_thread_create(). */
struct punctual_thread;

/* A watchpoint; opaque. */
struct punctual_watchpoint;

/* The stacks of one size. Exact when no other thread allocates or frees meanwhile. */
struct punctual_stack_stats {
    /* sizeof(struct punctual_stack_stats), filled in by the caller. */
    size_t struct_size;
    /* Bytes of one stack, guards not counted. */
    size_t size;
    /* Stacks in use. */
    size_t used;
    /* Of these, the ones marked by punctual_stack_set_live(). */
    size_t live;
    /* Free stacks that threads keep for themselves. */
    size_t kept;
    /* Free stacks in the depot. */
    size_t stored;
    /* Stacks made since the start: each took the kernel's time. */
    uint64_t made;
    /* Stacks given back to the kernel since the start. */
    uint64_t unmapped;
    /* Allocations since the start that took a stack which another thread kept. */
    uint64_t stolen;
    /* 0. */
    uint64_t reserved[7];
};

/* The addresses of a stack, guards not counted. */
struct punctual_stack_bounds {
    /* The lowest address. */
    void *low;
    /* The first address above it. */
    void *high;
};

/* Which part of a stack an address is in. */
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
    /* Those in memory now. */
    size_t resident;
};

/* How a thread is scheduled. */
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

/* How a new thread is set up. All 0 except the size is an ordinary thread. */
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

/* What a thread has suffered since it started. */
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

/* A periodic loop of one thread. Its content is the library's. */
struct punctual_loop {
    /* Not for programs. */
    uint64_t storage[16];
};

/* One cycle of a loop. */
struct punctual_cycle {
    /* sizeof(struct punctual_cycle), filled in by the caller. */
    size_t struct_size;
    /* The instant that was asked for, ns of CLOCK_MONOTONIC. */
    uint64_t due_ns;
    /* The instant at which the thread ran again, ns of CLOCK_MONOTONIC. */
    uint64_t woke_ns;
    /* How late that is, ns. */
    uint64_t latency_ns;
    /* Periods skipped before this one because the last cycle ended too late. */
    uint64_t missed;
    /* 0. */
    uint64_t reserved[3];
};

/* One access to what is watched. */
struct punctual_watchpoint_hit {
    /* The thread. */
    pid_t tid;
    /* The instruction after the one that accessed it. */
    const void *instruction;
    /* The stack pointer then. */
    const void *stack;
    /* When, in ns of CLOCK_MONOTONIC. */
    uint64_t time_ns;
};

/* Called for each interrupt that was left as it is, with its number, or -1 for the default of
 * future interrupts, and the reason. The text is valid during the call, which is made on a
 * real-time thread only if that thread steers or restores. It returns: an exception, longjmp() or
 * pthread_exit() that leaves it ends the program. */
typedef void (*punctual_irq_skipped)(int irq, const char *reason, void *context);

/* Called for each interrupt whose CPUs would be others: its number, or -1 for the default of
 * future interrupts, the CPUs that it has now and those that it would have, as the kernel writes
 * them: lists, of the default masks. The texts are valid during the call, which is made on a
 * real-time thread only if that thread asks for a preview. It returns, as punctual_irq_skipped()
 * does. */
typedef void (*punctual_irq_change)(int irq,
                                    const char *now,
                                    const char *then,
                                    void *context);

/* A condition variable of one mutex, which has the attributes of punctual_mutexattr_init(). All
 * 0 is one that nobody waits on; it needs no memory of its own, and its mutex and itself belong
 * to one process. */
struct punctual_condvar {
    /* The library's. */
    uint32_t number;
    /* The library's. */
    uint32_t waiting;
};

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that the program runs with, as PUNCTUAL_VERSION, which is that of
 * the header that it was compiled with.
 *
 * A real-time thread may call it: no system call, no lock. It never fails. */
unsigned int punctual_version(void);

/* A stack of exactly `size` bytes, which is one of punctual_stack_sizes(). Its lowest address
 * is returned; a page without access lies below it and above it, and every page of it is in
 * memory. To start a thread on it: pthread_attr_setstack(), pthread_create().
 *
 * A real-time thread may call it while a stack of that size is free, see punctual_stack_reserve():
 * no system call (but for a contended lock, which lends priority) and no page fault.
 * Otherwise it maps memory and waits for other threads that do.
 *
 * NULL with errno: EINVAL a size that is not one of the classes (punctual_stack_class() gives the one
 * that fits); ENOMEM memory, address space or vm.max_map_count used up, also after the free
 * stacks of other sizes that weren't reserved were given back; EAGAIN the limit of locked
 * memory reached.
 *
 * A fork() makes memory copy-on-write. The library copies its stacks in the parent before
 * fork() returns there (0.3 ms for a megabyte), so that no thread takes a fault for each of
 * their pages afterwards; a thread that runs meanwhile may, and so does everybody on the heap.
 * A real-time program starts others by posix_spawn(), which copies nothing. */
void *punctual_stack_alloc(size_t size);

/* Takes back what punctual_stack_alloc() of the same size returned; (NULL, 0) is allowed and does
 * nothing. No thread runs on it any more.
 *
 * A real-time thread may call it: no system call, but for a contended lock.
 *
 * -1 with errno, and nothing changed: EINVAL not a stack, another size, a stack that is free
 * already, (NULL, not 0); EBUSY the stack the caller runs on, or one marked by
 * punctual_stack_set_live(). With PUNCTUAL_STACK_DEBUG each but EBUSY is reported on standard
 * error, and another size and a double free abort.
 *
 * # Safety
 * If it is a right free, nothing on the stack is used any more. */
int punctual_stack_free(void *stack,
                        size_t size);

/* The sizes that stacks come in, ascending, ended by 0. The array is the caller's and may
 * be given to free().
 *
 * Not for a real-time thread: it calls malloc(). NULL with ENOMEM. */
unsigned int *punctual_stack_sizes(void);

/* The smallest stack size with at least `size` bytes: 32768 to 2097152.
 *
 * A real-time thread may call it: it is arithmetic. 0 with EINVAL above the largest. */
size_t punctual_stack_class(size_t size);

/* Makes stacks of exactly `size` bytes until `count` of them are free, so that as many
 * punctual_stack_alloc(), by whichever threads, need nothing from the kernel. They stay when memory runs
 * short for other sizes, until a punctual_stack_trim().
 *
 * Not for a real-time thread: it maps memory and reads files. -1 with errno: EINVAL, ENOMEM,
 * EAGAIN as punctual_stack_alloc(); ENOMEM also where the memory control group (memory.max) would kill
 * for it rather than refuse, as far as that can be known in advance. The stacks made so far
 * stay free. */
int punctual_stack_reserve(size_t size,
                           size_t count);

/* Gives free stacks of `size` bytes, or of each size if `size` is 0, back to the kernel
 * until `keep` are left. Returns how many were given back.
 *
 * Not for a real-time thread: it unmaps memory. -1 with errno: EINVAL no such size; ENOMEM
 * vm.max_map_count doesn't allow the hole. */
ssize_t punctual_stack_trim(size_t size,
                            size_t keep);

/* Says that a thread runs on the stack from now on (`live` 1: before pthread_create()), or
 * no more (`live` 0: after pthread_join()). A live stack can't be freed.
 *
 * A real-time thread may call it: one compare-and-swap. -1 with EINVAL: not a stack in use,
 * `live` is another number, or it is marked so already. */
int punctual_stack_set_live(const void *stack,
                            int live);

/* Fills `out` with the state of the stacks of `size` bytes. `out->struct_size` says how much
 * of it the caller knows; what the library knows beyond is left out, what it doesn't know is
 * left alone, and `struct_size` is then the part that was filled.
 *
 * A real-time thread may call it with care: no lock, no system call, but a walk over all
 * stacks. -1 with errno: EFAULT `out` is NULL; EINVAL no such size, or a `struct_size` that
 * is none of this struct.
 *
 * # Safety
 * `out` is NULL, or `out->struct_size` bytes are the caller's. */
int punctual_stack_stats(size_t size,
                         struct punctual_stack_stats *out);

/* Writes a line to the descriptor `fd` for each stack in use, with the call stack of its
 * allocation where PUNCTUAL_STACK_DEBUG=audit keeps it. Returns how many there are.
 *
 * Not for a real-time thread: it writes to a file. -1 with EBADF. */
int punctual_stack_debug_leaks(int fd);

/* Writes a line and the call stacks of who allocated and who freed it to the descriptor `fd`,
 * for each free stack that was written to since it was freed, whether or not it is used again.
 * Returns how many there are. The same is done on standard error when the process exits.
 *
 * Not for a real-time thread: it reads all free stacks and writes to a file. -1 with errno:
 * EBADF; ENOTSUP without PUNCTUAL_STACK_DEBUG=guards. */
int punctual_stack_debug_check(int fd);

/* Writes all that is known of the stack that `address` is in, or that it guards, to the
 * descriptor `fd`: its state, the threads that run on it (those that block just now, and the
 * caller), how much of it was used, whether it was written to while it was free, who allocated it
 * and who freed it as far as PUNCTUAL_STACK_DEBUG=audit keeps that.
 * Returns 1; 0 after a line that says what is there instead, where it is no stack of this
 * library.
 *
 * Not for a real-time thread: it reads files and writes to one. A handler of SIGSEGV may call
 * it. -1 with EBADF. */
int punctual_stack_debug_report(const void *address,
                                int fd);

/* The most bytes that any stack of `size` bytes was seen to use, for choosing sizes: those in
 * use now and, with PUNCTUAL_STACK_DEBUG=guards, those that were freed since the start. 0 where
 * there is none.
 *
 * Not for a real-time thread: it reads all stacks of the size. -1 with EINVAL: no such size.
 *
 * # Safety
 * No stack of the size is freed during the call. */
ssize_t punctual_stack_high_water_of_class(size_t size);

/* Where the stack of the thread `tid` of this process lies; 0 means the one that the caller
 * runs on, which is a coroutine's where one runs. The primary thread's goes down to its limit
 * (RLIMIT_STACK), present or not.
 *
 * For the caller itself a real-time thread may call it after punctual_stack_setbounds(), on a stack of
 * punctual_stack_alloc(), or on its own after a first time (which may read files) if it has used
 * punctual_stack_alloc() or punctual_stack_free(). Elsewhere, and for others, it may not: it reads /proc.
 *
 * -1 with errno: EFAULT `out` is NULL; ESRCH no such thread; EAGAIN the thread is running
 * and did not block within some 20 ms; EACCES or EPERM /proc is closed to us.
 *
 * # Safety
 * `out` is NULL or the caller's. */
int punctual_stack_bounds(pid_t tid,
                          struct punctual_stack_bounds *out);

/* Says where the stack lies that the caller runs on from now on. A program that switches stacks
 * calls it after each switch; punctual_stack_bounds(0, ...) and punctual_stack_contains() use it for as long as
 * the stack pointer is within, and know the stacks of punctual_stack_alloc() without it. Solaris' function of
 * this name, but for the type: stack_t is not C11's.
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
 * A real-time thread may call it where it may call punctual_stack_bounds(0, ...), and it costs the same. It
 * never fails: where the bounds can't be told, nothing is within. */
int punctual_stack_contains(const void *address);

/* The bytes without access below a stack of `size` bytes, and as many above it: one page. A
 * function with a frame that is larger than that can reach over the guard, unless it is compiled with
 * -fstack-clash-protection, which touches each page of the frame.
 *
 * A real-time thread may call it: it is arithmetic. 0 with EINVAL: no such size. */
size_t punctual_stack_guard_size(size_t size);

/* Finds the stack of this library that `address` is in, or that it guards: returns 1 and
 * fills `out`, or returns 0.
 *
 * A real-time thread may call it, and a signal handler: no lock, no system call, but a walk
 * over all stacks. -1 with EFAULT: `out` is NULL.
 *
 * # Safety
 * `out` is NULL or the caller's. */
int punctual_stack_locate(const void *address,
                          struct punctual_stack_place *out);

/* How many pages of the `size` bytes at `low`, the start of a page, are in memory.
 *
 * Not for a real-time thread: it waits for threads that map memory. -1 with errno: EFAULT `out`
 * is NULL; EINVAL `low` is not the start of a page; ENOMEM part of it is not mapped (the
 * primary stack below what it has grown to).
 *
 * # Safety
 * `out` is NULL or the caller's. */
int punctual_stack_residency(const void *low,
                             size_t size,
                             struct punctual_stack_residency *out);

/* Makes the calling thread's stack present, from where it stands `bytes` down; 0 means all
 * of it, for the primary thread to its limit. Returns the bytes that are present now: fewer
 * where a page without access, the program's own guard, lies in between.
 *
 * For threads that were not given a stack of this library. Not for a real-time thread in
 * its real-time section: call it before. -1 with errno: ENOMEM; EAGAIN a limit doesn't allow it. */
ssize_t punctual_stack_prefault(size_t bytes);

/* The most bytes of the stack at `stack` that were ever in use, from its top down to the
 * lowest word that was written with anything but 0: since it was made, over all its users;
 * with PUNCTUAL_STACK_DEBUG=guards since it was allocated.
 *
 * Not for a real-time thread: it reads up to the whole stack. -1 with EINVAL: not a stack in
 * use.
 *
 * # Safety
 * The stack is not freed during the call. */
ssize_t punctual_stack_high_water(const void *stack);

#if !defined(PUNCTUAL_NO_STACK_NAMES)
/* punctual_stack_alloc() by its name in Solaris' stack library. Define PUNCTUAL_NO_STACK_NAMES
 * before this header where the name is yours.
 *
 * A real-time thread may call it under the same conditions, and it costs the same. NULL with
 * errno as there. */
void *stack_alloc(size_t size);
#endif

#if !defined(PUNCTUAL_NO_STACK_NAMES)
/* punctual_stack_free() by its name in Solaris' stack library; see stack_alloc().
 *
 * A real-time thread may call it, and it costs the same. -1 with errno as there.
 *
 * # Safety
 * As punctual_stack_free(). */
int stack_free(void *stack, size_t size);
#endif

#if !defined(PUNCTUAL_NO_STACK_NAMES)
/* punctual_stack_sizes() by its name in Solaris' stack library; see stack_alloc(). Its type
 * there, uint_t, is unsigned int.
 *
 * Not for a real-time thread: it calls malloc(). NULL with ENOMEM. */
unsigned int *fetch_stack_sizes(void);
#endif

/* Schedules the thread `tid`; 0 means the caller.
 *
 * For setting up: one system call. -1 with errno, and punctual_last_error() says how to
 * fix it: EFAULT `sched` is NULL; EINVAL a number out of range, with DEADLINE runtime >
 * deadline or deadline > period; EPERM no right to it, or DEADLINE for a thread that may not
 * use all CPUs; EBUSY DEADLINE is not admitted: too little processor time is left; ESRCH no
 * such thread.
 *
 * # Safety
 * `sched` is NULL, or `sched->struct_size` bytes can be read. */
int punctual_sched_set(pid_t tid,
                       const struct punctual_sched *sched);

/* Reads back how the thread `tid` is scheduled, 0 means the caller. `out->struct_size` is
 * filled in by the caller.
 *
 * A real-time thread may call it: one system call. -1 with errno: EFAULT `out` is NULL;
 * EINVAL its size is too small; ENOTSUP another policy (BATCH, IDLE, an extension); ESRCH no
 * such thread.
 *
 * # Safety
 * `out` is NULL, or `out->struct_size` bytes are the caller's. */
int punctual_sched_get(pid_t tid,
                       struct punctual_sched *out);

/* Puts policy and priority (OTHER, FIFO or RR) into the attributes for pthread_create(), and
 * PTHREAD_EXPLICIT_SCHED, without which they count for nothing. DEADLINE is not for POSIX
 * attributes: punctual_thread_create(), or punctual_sched_set() in the thread itself.
 *
 * For setting up; no system call. -1 with errno: EFAULT a pointer is NULL; EINVAL a number
 * out of range; ENOTSUP DEADLINE.
 *
 * # Safety
 * `attr` is NULL or initialised; `sched` as for punctual_sched_set(). */
int punctual_pthread_attr_sched(pthread_attr_t *attr,
                                const struct punctual_sched *sched);

/* Places the thread `tid`, 0 means the caller, on CPUs: "3-5,0", "0-7:2" (every second),
 * "!1-2" (all but these of those it may use now), or "all" (that are online).
 *
 * For setting up: it allocates. -1 with errno, and punctual_last_error() says how to fix it:
 * EFAULT `cpus` is NULL; EINVAL no such list, or a CPU that is offline or that it may not
 * use; ESRCH no such thread; EPERM another user's; EBUSY a DEADLINE thread would have too
 * little left; ENOMEM.
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
 * `list` is NULL, or `size` bytes are the caller's. */
ssize_t punctual_affinity_get(pid_t tid,
                              char *list,
                              size_t size);

/* Starts a thread that calls `body(argument)` on a prefaulted guarded stack of punctual_stack_alloc(),
 * with the name, CPUs, policy and priority of `attr` in force; `attr` NULL means the
 * defaults. `body` runs with all that was asked for, or not at all. The creator gives the
 * thread its CPUs and its priority before it runs, so no thread of lower priority can keep it
 * from its start, and the creator doesn't wait for it. The policy is always explicit: a thread
 * never inherits a real-time priority. The thread must be joined, by
 * punctual_thread_join(), or detached, by punctual_thread_detach(); it may call pthread_exit()
 * and be cancelled.
 *
 * Not for a real-time thread: it allocates. -1 with errno, and punctual_last_error() says
 * how to fix it: EFAULT `out` or `body` is NULL; EINVAL a wrong attr, policy, priority or CPU
 * list, DEADLINE with runtime > deadline or deadline > period, or a stack_size that the
 * thread-local storage leaves nothing of; EPERM no right to the policy,
 * or DEADLINE with some of the CPUs alone; EBUSY DEADLINE is not admitted; ENOMEM no memory;
 * EAGAIN a limit of locked memory or of threads.
 *
 * # Safety
 * `attr` is NULL, or `attr->struct_size` bytes can be read, its strings among them; `body`
 * may be called with `argument` on another thread. */
int punctual_thread_create(struct punctual_thread **out,
                           const struct punctual_thread_attr *attr,
                           void *(*body)(void*),
                           void *argument);

/* Waits for the thread to end, puts what its function returned (or PTHREAD_CANCELED) into
 * `result` unless that is NULL, and takes its stack back.
 *
 * Not for a real-time thread: it waits. -1 with errno: EFAULT `thread` is NULL; EDEADLK the
 * thread is the caller; ESRCH in a child of fork(), where its parent's threads don't run: there
 * it can be detached.
 *
 * # Safety
 * `thread` comes from punctual_thread_create() and is joined once; `result` is NULL or the
 * caller's. */
int punctual_thread_join(struct punctual_thread *thread,
                         void **result);

/* The thread's id, as the kernel and punctual_sched_get() know it.
 *
 * A real-time thread may call it: one load. -1 with EFAULT: `thread` is NULL.
 *
 * # Safety
 * `thread` is NULL or was not joined yet. */
pid_t punctual_thread_tid(const struct punctual_thread *thread);

/* The thread as POSIX functions know it, e.g. for pthread_kill() and pthread_cancel(); not
 * for pthread_join() and pthread_detach().
 *
 * A real-time thread may call it: one load. 0 with EFAULT: `thread` is NULL.
 *
 * # Safety
 * `thread` is NULL or was not joined yet. */
pthread_t punctual_thread_pthread(const struct punctual_thread *thread);

/* Joins the thread as punctual_thread_join() if it has ended, and doesn't wait.
 *
 * Not for a real-time thread: it frees memory, and makes system calls. -1 with errno, and the
 * thread is still to be joined or detached: EBUSY it has not ended; EFAULT `thread` is NULL;
 * ESRCH as punctual_thread_join().
 *
 * # Safety
 * As punctual_thread_join(). */
int punctual_thread_tryjoin(struct punctual_thread *thread,
                            void **result);

/* Joins the thread as punctual_thread_join(), and waits until the instant `at` of
 * CLOCK_MONOTONIC at most.
 *
 * Not for a real-time thread: it waits. -1 with errno, and the thread is still to be joined or
 * detached: ETIMEDOUT it has not ended by then; EFAULT `thread` or `at` is NULL; EINVAL `at` is
 * negative, malformed or beyond 584 years; EDEADLK the thread is the caller; ESRCH as
 * punctual_thread_join().
 *
 * # Safety
 * As punctual_thread_join(); `at` is NULL or can be read. */
int punctual_thread_timedjoin(struct punctual_thread *thread,
                              void **result,
                              const struct timespec *at);

/* Lets the thread run on without anybody who waits for it. `thread` is not used any more. What
 * its function returns is lost. Its stack is taken back by the first punctual_thread_create()
 * after its end. A thread may detach itself once it has the pointer: it may run before
 * punctual_thread_create() has written that to `out`, so its creator hands it over, after which
 * the creator doesn't use it any more. Don't detach it by pthread_detach().
 *
 * A real-time thread may call it: one compare-and-swap, repeated while other threads detach. -1
 * with EFAULT: `thread` is NULL.
 *
 * # Safety
 * `thread` is NULL, or comes from punctual_thread_create() and was neither joined nor detached. */
int punctual_thread_detach(struct punctual_thread *thread);

/* Makes the calling thread what `attr` says, e.g. the primary thread: its signals, name, CPUs
 * and policy, as punctual_thread_create() makes a new one; `attr` NULL is the defaults.
 * `stack_size` has no effect, since the thread has its stack. What was refused doesn't keep the
 * rest from being done, and what was done stays.
 *
 * Not for a real-time thread: it allocates. -1 with errno of the first that was refused: EINVAL a
 * wrong attr, policy, priority or CPU list; EPERM no right to the policy, or DEADLINE with some
 * of the CPUs alone; EBUSY DEADLINE is not admitted.
 *
 * # Safety
 * `attr` is NULL, or `attr->struct_size` bytes can be read, its strings among them. */
int punctual_thread_apply(const struct punctual_thread_attr *attr);

/* Makes the program's memory ready: the heap grown by `heap` bytes, each page of it touched,
 * and malloc() told to keep it and to map nothing by itself; the calling thread's stack
 * present from here `stack` bytes down (0: to its limit); and all memory locked, what is
 * mapped later included. First thing in main(): a thread that came before may have a heap
 * of its own, and a later default stack of 8 MB is then made present at once, so give
 * threads a size.
 *
 * Not for a real-time thread. -1 with errno, and punctual_last_error() says how to fix it:
 * ENOTSUP malloc isn't glibc's; EPERM no right to lock; ENOMEM no memory, also where the memory
 * control group would kill for the heap, or above the limit of locked memory; EAGAIN as that,
 * while the stack was made present. What was done before the failure stays done. */
int punctual_memory_prepare(size_t heap,
                            size_t stack);

/* The part of punctual_memory_prepare() that is about malloc(): 0 bytes set it and grow
 * nothing.
 *
 * Not for a real-time thread. -1 with errno: ENOTSUP malloc isn't glibc's; ENOMEM as
 * punctual_memory_prepare(). */
int punctual_heap_keep(size_t bytes);

/* Locks all memory that the process has and, unless `present_only` is 1, what it maps later.
 *
 * Not for a real-time thread: it makes everything present. -1 with errno, and
 * punctual_last_error() says how to fix it: EPERM no right to; ENOMEM above the limit; EINVAL
 * `present_only` is neither 0 nor 1. */
int punctual_memory_lock(int present_only);

/* Undoes punctual_memory_lock(). Pages stay present until memory runs short.
 *
 * Not for a real-time thread: it waits for threads that map memory. It never fails in practice; -1
 * with errno if it does. */
int punctual_memory_unlock(void);

/* Fills `out` with the calling thread's page faults so far: the end of its preparations, from
 * which punctual_late_faults() counts. `out->struct_size` is filled in by the caller.
 *
 * A real-time thread may call it: two system calls. -1 with errno: EFAULT `out` is NULL;
 * EINVAL its size is too small.
 *
 * # Safety
 * `out` is NULL, or `out->struct_size` bytes are the caller's. */
int punctual_faults_mark(struct punctual_faults *out);

/* How many page faults the calling thread has taken since it filled `mark` in: a thread whose
 * memory was prepared takes none, and a test asserts 0.
 *
 * A real-time thread may call it: one system call. -1 with errno: EFAULT `mark` is NULL;
 * EINVAL it wasn't filled in.
 *
 * # Safety
 * `mark` is NULL or was filled in by punctual_faults_mark() on this thread. */
int64_t punctual_late_faults(const struct punctual_faults *mark);

/* Fills `out` with what the calling thread has suffered since it filled `mark` in: page faults
 * without and with I/O, and involuntary context switches. `out->struct_size` is filled in by the
 * caller. `out` may be `mark`.
 *
 * A real-time thread may call it: one system call. -1 with errno: EFAULT a pointer is NULL;
 * EINVAL `mark` wasn't filled in, or the size of `out` is too small.
 *
 * # Safety
 * `mark` is NULL or was filled in by punctual_faults_mark() on this thread; `out` is NULL, or
 * `out->struct_size` bytes are the caller's. */
int punctual_faults_since(const struct punctual_faults *mark,
                          struct punctual_faults *out);

/* The time now on CLOCK_MONOTONIC, in ns.
 *
 * A real-time thread may call it, and a signal handler: no system call where the vDSO
 * answers. It never fails. */
uint64_t punctual_now_ns(void);

/* An instant in ns as a timespec, for clock_nanosleep(), pthread_cond_timedwait() and the like.
 *
 * A real-time thread may call it, and a signal handler: it is arithmetic. It never fails. */
struct timespec punctual_timespec(uint64_t ns);

/* A timespec in ns.
 *
 * A real-time thread may call it, and a signal handler: it is arithmetic. UINT64_MAX with
 * errno: EFAULT `at` is NULL; EINVAL it is negative, malformed or beyond 584 years.
 *
 * # Safety
 * `at` is NULL or can be read. */
uint64_t punctual_ns(const struct timespec *at);

/* Sleeps until an instant of CLOCK_MONOTONIC; not at all when it has passed.
 *
 * A real-time thread may call it: one system call. -1 with errno: EFAULT `at` is NULL; EINVAL
 * it is malformed; EINTR a signal handler ran.
 *
 * # Safety
 * `at` is NULL or can be read. */
int punctual_sleep_until(const struct timespec *at);

/* Makes a loop whose first cycle is due one period from now. It needs no clean-up.
 *
 * A real-time thread may call it: no system call. -1 with errno: EFAULT `wheel` is NULL; EINVAL
 * a period of 0 or of more than 2^62 ns, or `overrun` is neither PUNCTUAL_SKIP nor
 * PUNCTUAL_CATCH_UP.
 *
 * # Safety
 * `wheel` is NULL or the caller's. */
int punctual_loop_init(struct punctual_loop *wheel,
                       uint64_t period_ns,
                       int overrun);

/* Waits for the next due instant, and fills `out` unless it is NULL (`out->struct_size` is
 * filled in by the caller).
 *
 * A real-time thread may call it: one system call. -1 with errno: EFAULT `wheel` is NULL;
 * EINVAL it was not made, or the size of `out` is too small: nothing was waited for; EINTR a
 * signal handler ran: the same period is still due.
 *
 * # Safety
 * `wheel` is NULL, zeroed, or a loop that no other thread uses; `out` is NULL, or
 * `out->struct_size` bytes are the caller's. */
int punctual_loop_wait(struct punctual_loop *wheel,
                       struct punctual_cycle *out);

/* Periods missed since the loop was made.
 *
 * A real-time thread may call it: a few loads. UINT64_MAX with errno: EFAULT, EINVAL as
 * punctual_loop_wait().
 *
 * # Safety
 * `wheel` is NULL, zeroed, or a loop. */
uint64_t punctual_loop_missed(const struct punctual_loop *wheel);

/* Cycles run since the loop was made.
 *
 * A real-time thread may call it: a few loads. UINT64_MAX with errno: EFAULT, EINVAL as
 * punctual_loop_wait().
 *
 * # Safety
 * `wheel` is NULL, zeroed, or a loop. */
uint64_t punctual_loop_cycles(const struct punctual_loop *wheel);

/* Initialises attributes for pthread_mutex_init(): PTHREAD_PRIO_INHERIT, so that the
 * holder of the mutex runs at the highest priority of its waiters, and PTHREAD_MUTEX_ERRORCHECK,
 * for a normal mutex hangs for ever when its holder locks it again. The rest is POSIX: lock it with
 * pthread_mutex_lock(), and end the attributes with pthread_mutexattr_destroy().
 *
 * A thread that ends while it holds the mutex leaves it locked for ever, unless it is a robust one:
 * punctual_mutexattr_init_robust(). Where threads wait for each other in a circle, the kernel sees
 * it, and glibc ends the program (Assertion `e != EDEADLK ...), in a timed lock too: take several
 * mutexes in the same order everywhere.
 *
 * For setting up; no system call. -1 with errno: EFAULT `attr` is NULL; ENOTSUP no priority
 * inheritance.
 *
 * # Safety
 * `attr` is NULL or the caller's. */
int punctual_mutexattr_init(pthread_mutexattr_t *attr);

/* As punctual_mutexattr_init(), and PTHREAD_MUTEX_ROBUST: a thread that ends while it holds the
 * mutex leaves it to the next one, whose lock answers EOWNERDEAD. That thread holds it then, and
 * calls punctual_mutex_make_consistent() once what the mutex guards is whole.
 *
 * For setting up; no system call. -1 with errno: EFAULT `attr` is NULL; ENOTSUP no priority
 * inheritance.
 *
 * # Safety
 * `attr` is NULL or the caller's. */
int punctual_mutexattr_init_robust(pthread_mutexattr_t *attr);

/* Initialises attributes for pthread_cond_init(): pthread_cond_timedwait() counts on
 * CLOCK_MONOTONIC, which nobody sets. The rest is POSIX; end them with
 * pthread_condattr_destroy().
 *
 * For setting up; no system call. -1 with errno: EFAULT `attr` is NULL.
 *
 * # Safety
 * `attr` is NULL or the caller's. */
int punctual_condattr_init(pthread_condattr_t *attr);

/* Makes a ring for at least `capacity` records (rounded up to a power of two) of
 * `record_size` bytes each, every page of it present.
 *
 * Not for a real-time thread: it allocates, and touches each page. NULL with errno: EINVAL a
 * size or capacity of 0, or more than 1 GB in all; ENOMEM, also where the memory control group
 * (memory.max) would kill for it rather than refuse, as far as that can be known in advance. */
struct punctual_ring *punctual_ring_create(size_t record_size,
                                           size_t capacity);

/* Gives the ring's memory back; NULL is allowed.
 *
 * Not for a real-time thread: it unmaps memory. It never fails.
 *
 * # Safety
 * `ring` is NULL, or comes from punctual_ring_create() and nobody uses it any more. */
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

/* How many records were lost since the ring was made, because it was full.
 *
 * A real-time thread may call it: one load. UINT64_MAX with EFAULT: `ring` is NULL.
 *
 * # Safety
 * `ring` is NULL or was not destroyed. */
uint64_t punctual_ring_lost(const struct punctual_ring *ring);

/* Opens a log for one real-time thread: at least `capacity` records, their memory present, and
 * an ordinary thread that writes a line for each to `fd`: its time in seconds of
 * CLOCK_MONOTONIC, and `formats[id]`. Formats have printf's letters for numbers of 64 bits: %u,
 * %d, %x, %f (see punctual_log_double()), %%; the l of "%" PRIu64 means nothing. They are copied,
 * and so is `fd`; with O_NONBLOCK the writing thread waits until it takes more.
 *
 * Not for a real-time thread: it allocates and starts a thread. NULL with errno, and
 * punctual_last_error(): EFAULT `formats` or one of them is NULL while `count` is not 0; EINVAL
 * a capacity of 0 or above 2^20; EBADF, EMFILE `fd`; ENOMEM; EAGAIN no thread; EPERM the caller is
 * a real-time thread, and the writing one may not become an ordinary one. A pipe that
 * nobody reads any more raises no SIGPIPE: punctual_log_close() answers with EPIPE.
 *
 * # Safety
 * `formats` is NULL, or `count` strings. */
struct punctual_log *punctual_log_open(int fd,
                                       const char *const *formats,
                                       size_t count,
                                       size_t capacity);

/* Logs a record for `formats[id]` with `count` numbers at `arguments`: integers as they are,
 * doubles by punctual_log_double().
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

/* A double as an argument of punctual_log_put(), for %f.
 *
 * A real-time thread may call it: no arithmetic, the same bits as another type. It never fails. */
uint64_t punctual_log_double(double value);

/* Writes what is left, ends the writing thread and closes the log. Returns how many records
 * were lost.
 *
 * Not for a real-time thread: it waits for the file. -1 with errno: EFAULT `log` is NULL; ESRCH in
 * a child of fork(): its parent has the writing thread, and goes on; what write() on the file said
 * first, after which nothing was written. The log is closed then too.
 *
 * # Safety
 * `log` is NULL, or open and not used any more. */
int64_t punctual_log_close(struct punctual_log *log);

/* Takes the oldest records, at most `room` of them, into the array at `records`, and returns how
 * many there were. The producer can use their slots again when all are copied: a pop for each
 * would write the counter that both threads look at each time.
 *
 * A real-time thread may call it: wait-free, no system call, a copy for each record. -1 with
 * EFAULT: `ring` is NULL, or `records` while `room` is not 0.
 *
 * # Safety
 * `ring` is NULL or was not destroyed, and one thread at a time pops or drains; `records` has
 * room for so many records, each of the record's size and without a gap. */
ssize_t punctual_ring_drain(struct punctual_ring *ring,
                            void *records,
                            size_t room);

/* What the last failure of a function of this library meant in the calling thread, and how to
 * fix it: one line without its end, "" before the first failure. Each function that fails sets
 * it; one that succeeds leaves it as it was. It is static: valid for ever, and not to be freed.
 *
 * A real-time thread may call it: no system call, no lock. It never fails. */
const char *punctual_last_error(void);

/* Watches 1, 2, 4 or 8 bytes at `address`, a multiple of `length`, with the processor's
 * debug registers: each write of a thread of this process is noted, and with `reads` each
 * read, and the program goes on. It finds who tramples a stack: watch the word that is found
 * destroyed. What the kernel writes for a thread is not seen. The first call takes SIGTRAP
 * over; a debugger's breakpoints go on as before.
 *
 * Not for a real-time thread: it allocates, and makes system calls for each thread of the
 * process. NULL with errno: ENOMEM; EINVAL the length or the alignment; ENOSPC
 * the slots are used up (x86-64 has four); ENOTSUP no such hardware, or Linux before 5.13;
 * EACCES or EPERM forbidden, see kernel.perf_event_paranoid. */
struct punctual_watchpoint *punctual_watchpoint_set(const void *address,
                                                    size_t length,
                                                    int reads);

/* How often it was hit.
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
 * As punctual_watchpoint_count(); `out` is NULL or the caller's. */
int punctual_watchpoint_read(const struct punctual_watchpoint *watched,
                             size_t index,
                             struct punctual_watchpoint_hit *out);

/* Stops watching, and frees it. NULL is allowed and does nothing.
 *
 * Not for a real-time thread: a system call for each thread of the process. It never fails.
 *
 * # Safety
 * As punctual_watchpoint_count(); nobody uses it any more. */
void punctual_watchpoint_clear(struct punctual_watchpoint *watched);

/* Makes only the `cpus` serve the interrupts `irqs`, or, where `irqs` is NULL, all interrupts,
 * future ones too. Returns how many were changed; `skipped`, unless NULL, is called for
 * each that could not be; those that the kernel manages are no error. What was before is
 * written to the file `journal`, and to disk, before anything is changed; a journal that
 * exists keeps what it has.
 *
 * Not for a real-time thread: it reads and writes files. -1 with errno: EFAULT `journal` is NULL; EINVAL no CPU, one
 * that is offline or not there, or a file that is no journal; or what prevents the journal from
 * being written; ENOMEM. Then nothing is changed, and no journal is left that wasn't there before.
 *
 * # Safety
 * The arrays have as many elements as is said, and `journal` is a string. */
ssize_t punctual_irq_steer(const unsigned int *irqs,
                           size_t irq_count,
                           const unsigned int *cpus,
                           size_t cpu_count,
                           const char *journal,
                           punctual_irq_skipped skipped,
                           void *context);

/* Puts back what the file `journal` holds, and removes it when all is back. Returns how many
 * interrupts were changed; without a journal 0. May be called again, and by another process
 * than the one that steered.
 *
 * Not for a real-time thread: it reads and writes files. -1 with errno: EFAULT `journal` is NULL; EINVAL it is no
 * journal; ENOMEM; or what prevents it from being read or removed.
 *
 * # Safety
 * `journal` is NULL or a string. */
ssize_t punctual_irq_restore(const char *journal,
                             punctual_irq_skipped skipped,
                             void *context);

/* What punctual_irq_steer() would change, without changing it: `change`, unless NULL, is called
 * for each interrupt whose CPUs would be others, and `skipped`, unless NULL, for each that can't be
 * changed, as far as that is known in advance: before Linux 6.11 the kernel tells which it
 * manages only when they are steered. Returns how many would have other CPUs.
 *
 * Not for a real-time thread: it reads files. -1 with errno: EINVAL no CPU, or one that is
 * offline or not there; ENOMEM; or what prevents /proc/irq from being read.
 *
 * # Safety
 * The arrays have as many elements as is said. */
ssize_t punctual_irq_preview_steer(const unsigned int *irqs,
                                   size_t irq_count,
                                   const unsigned int *cpus,
                                   size_t cpu_count,
                                   punctual_irq_change change,
                                   punctual_irq_skipped skipped,
                                   void *context);

/* What punctual_irq_restore() would put back, without doing it: `change`, unless NULL, is called
 * for each interrupt that has other CPUs than the file `journal` says, and `skipped`, unless NULL,
 * for each that is gone or can't be changed. Returns how many would be put back; without a
 * journal 0.
 *
 * Not for a real-time thread: it reads files. -1 with errno: EFAULT `journal` is NULL; EINVAL it
 * is no journal; ENOMEM; or what prevents it from being read.
 *
 * # Safety
 * `journal` is NULL or a string. */
ssize_t punctual_irq_preview(const char *journal,
                             punctual_irq_change change,
                             punctual_irq_skipped skipped,
                             void *context);

/* Makes a processor set of this name: `count` CPUs for itself, an isolated partition where
 * control groups of version 2 have the cpuset controller, and in version 1 an exclusive set
 * without load balancing. Its state is read back; where it can't be isolated, nothing is
 * left behind. With `reason` not NULL, the words for an error are written there, of at most
 * `room` bytes with the 0 at the end.
 *
 * Not for a real-time thread: it reads and writes files. -1 with errno: ENOTSUP no cpuset controller; EBUSY the kernel
 * doesn't isolate it, for the reason told: another set has one of the CPUs, for one; EEXIST the
 * name is taken; EINVAL no name, or one with a slash, no CPU, or one that is offline or
 * not there; EACCES without the right; ENAMETOOLONG; ENOMEM.
 *
 * # Safety
 * `name` is a string, `cpus` has `count` elements, and `reason` is NULL or has `room` bytes. */
int punctual_cpuset_make(const char *name,
                         const unsigned int *cpus,
                         size_t count,
                         char *reason,
                         size_t room);

/* 0 if the set of this name is isolated now: another set may invalidate it later.
 *
 * Not for a real-time thread: it reads files. -1 with errno, and the reason, as
 * punctual_cpuset_make(); ENOENT there is none.
 *
 * # Safety
 * As punctual_cpuset_make(). */
int punctual_cpuset_state(const char *name, char *reason, size_t room);

/* Moves a process into the set of this name; 0 is the caller's.
 *
 * Not for a real-time thread: it reads and writes files. -1 with errno: ENOENT no such set; ESRCH no such process;
 * ENOTSUP, EINVAL, EACCES as punctual_cpuset_make().
 *
 * # Safety
 * `name` is NULL or a string. */
int punctual_cpuset_take(const char *name,
                         pid_t process);

/* Moves the tasks of the set of this name away and removes it, also one of another program; 0
 * also when it is gone already.
 *
 * Not for a real-time thread: it reads and writes files. -1 with errno: EBUSY tasks can't be moved; ENOTSUP, EINVAL,
 * EACCES as punctual_cpuset_make().
 *
 * # Safety
 * `name` is NULL or a string. */
int punctual_cpuset_remove(const char *name);

/* Writes the CPUs that the tasks of the set of this name have now, as a list like "0-3,8", into
 * the `size` bytes at `list`. Returns its length.
 *
 * Not for a real-time thread: it reads files. -1 with errno: EFAULT `list` is NULL; ERANGE it
 * doesn't fit, and nothing is written; ENOENT no such set; ENOTSUP, EINVAL as
 * punctual_cpuset_make().
 *
 * # Safety
 * `name` is NULL or a string; `list` is NULL, or `size` bytes are the caller's. */
ssize_t punctual_cpuset_cpus(const char *name,
                             char *list,
                             size_t size);

/* Locks a mutex as pthread_mutex_lock() does, and waits until the instant `at` of
 * CLOCK_MONOTONIC at most: pthread_mutex_timedlock() counts on CLOCK_REALTIME, which is set.
 *
 * A real-time thread may call it: no system call while the mutex is free, else one, and the
 * holder runs at the caller's priority meanwhile. -1 with errno: ETIMEDOUT the instant has come;
 * EDEADLK the caller holds it already (where threads wait in a circle see
 * punctual_mutexattr_init()); EOWNERDEAD its holder ended with it: the caller holds it
 * now, see punctual_mutex_make_consistent(); ENOTRECOVERABLE it was not made consistent; ENOTSUP
 * the mutex is held, and the kernel (before 5.14) or the C library (before glibc 2.35) can't wait so;
 * EFAULT a pointer is NULL; EINVAL `at` is negative, malformed or beyond 584 years.
 *
 * # Safety
 * `mutex` is NULL or was initialised with attributes of the library; `at` is NULL or can be read. */
int punctual_mutex_lock_until(pthread_mutex_t *mutex,
                              const struct timespec *at);

/* Says that what a mutex guards is whole again, after a lock of it answered EOWNERDEAD: it has
 * attributes of punctual_mutexattr_init_robust(), and the thread that held it has ended. Once it
 * is unlocked without this, each lock of it is refused with ENOTRECOVERABLE.
 *
 * A real-time thread may call it: no system call, no lock. -1 with errno: EFAULT `mutex` is NULL;
 * EINVAL it is not robust, or no holder of it has ended.
 *
 * # Safety
 * `mutex` is NULL, or initialised and held by the caller. */
int punctual_mutex_make_consistent(pthread_mutex_t *mutex);

/* Gives the mutex up, waits until notified, and takes the mutex back. It may end without a
 * notification, by a signal handler for one: look at the condition again.
 *
 * A real-time thread may call it: one system call, and one more where another thread holds the
 * mutex when it is taken back, or waits for it when it is given up. -1 with errno: EFAULT a
 * pointer is NULL; EPERM the caller doesn't hold the mutex; EOWNERDEAD and ENOTRECOVERABLE with a
 * robust mutex, as punctual_mutex_lock_until(): after EOWNERDEAD of a lock make it consistent
 * before you wait, since a wait unlocks it.
 *
 * # Safety
 * As punctual_condvar_wait_until(). */
int punctual_condvar_wait(struct punctual_condvar *condvar,
                          pthread_mutex_t *mutex);

/* As punctual_condvar_wait(), until the instant `at` of CLOCK_MONOTONIC at most.
 *
 * A real-time thread may call it: system calls as punctual_condvar_wait(). -1 with errno:
 * ETIMEDOUT the instant has come, and the mutex is held; EFAULT a pointer is NULL; EINVAL `at` is
 * negative, malformed or beyond 584 years; EPERM the caller doesn't hold the mutex; EOWNERDEAD and
 * ENOTRECOVERABLE with a robust mutex, as punctual_mutex_lock_until().
 *
 * # Safety
 * `condvar` is NULL or began as 0, `mutex` is NULL or was initialised with the attributes of
 * punctual_mutexattr_init(), and both outlive the call; `at` is NULL or can be read. */
int punctual_condvar_wait_until(struct punctual_condvar *condvar,
                                pthread_mutex_t *mutex,
                                const struct timespec *at);

/* Wakes one waiting thread, that of the highest priority. The condition was changed with the
 * mutex held, which may be given up by now.
 *
 * A real-time thread may call it: no system call where none waits, else one. -1 with EFAULT:
 * `condvar` is NULL.
 *
 * # Safety
 * `condvar` is NULL or began as 0. */
int punctual_condvar_notify_one(struct punctual_condvar *condvar);

/* Wakes all waiting threads, as punctual_condvar_notify_one() wakes one.
 *
 * A real-time thread may call it: no system call where none waits, else one, bounded by their
 * number. -1 with EFAULT: `condvar` is NULL.
 *
 * # Safety
 * As punctual_condvar_notify_one(). */
int punctual_condvar_notify_all(struct punctual_condvar *condvar);

#ifdef __cplusplus
}
#endif

#if defined(__cplusplus) && defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif /* PUNCTUAL_H */
