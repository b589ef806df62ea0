/*
 * punctual.h - what a real-time program on Linux needs
 *
 * Made from the sources of the library; changes belong there.
 *
 * Functions answer 0, a count or a pointer, or else -1 or NULL with errno. Sizes are in
 * bytes. None may be called from a signal handler unless it says so.
 */

#ifndef PUNCTUAL_H
#define PUNCTUAL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* As Solaris has it. */
typedef unsigned int uint_t;


// A watchpoint; opaque.
struct watchpoint;

// The stacks of one size. Exact when no other thread allocates or frees meanwhile.
struct stack_stats {
    // sizeof(struct stack_stats), filled in by the caller.
    size_t struct_size;
    // Bytes of one stack, guards not counted.
    size_t size;
    // Stacks handed out.
    size_t used;
    // Of these, the ones marked by stack_set_live().
    size_t live;
    // Free stacks that threads keep for themselves.
    size_t kept;
    // Free stacks in the depot.
    size_t stored;
    // Stacks made since the start: each took the kernel's time.
    uint64_t made;
    // Stacks given back to the kernel since the start.
    uint64_t unmapped;
    // Allocations since the start that took a stack which another thread kept.
    uint64_t stolen;
    // 0.
    uint64_t reserved[7];
};

// The addresses of a stack, guards not counted.
struct stack_bounds {
    // The lowest address.
    void *low;
    // The first address above it.
    void *high;
};

// Which part of a stack an address is in.
struct stack_place {
    // The stack.
    struct stack_bounds bounds;
    // -1 the guard below (an overflow), 0 the stack, 1 the guard above.
    int part;
    // 1 if it is handed out.
    int in_use;
};

// How much of a range is in memory.
struct stack_residency {
    // Pages of the range.
    size_t pages;
    // Those in memory now.
    size_t resident;
};

// One access to what is watched.
struct watchpoint_hit {
    // The thread.
    pid_t tid;
    // The instruction after the one that accessed it.
    const void *instruction;
    // The stack pointer then.
    const void *stack;
    // When, in ns of CLOCK_MONOTONIC.
    uint64_t time_ns;
};

// Told of an interrupt that was left as it is: its number, or -1 for the default of those to
// come, and why. The text is valid during the call.
typedef void (*irq_skipped)(int irq, const char *reason, void *context);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// A stack of exactly `size` bytes, which is one of fetch_stack_sizes(). Its lowest address
// is returned; a page without access lies below it and above it, and every page of it is in
// memory. To start a thread on it: pthread_attr_setstack(), pthread_create().
//
// A real-time thread may call it while a stack of that size is free, see stack_reserve():
// no system call (but for a contended lock, which lends priority) and no page fault.
// Otherwise it maps memory and waits for whoever else does.
//
// NULL with errno: EINVAL a size that is not one of the classes (stack_class() gives the one
// that fits); ENOMEM memory, address space or vm.max_map_count used up; EAGAIN the limit of
// locked memory reached.
void *stack_alloc(size_t size);

// Takes back what stack_alloc() of the same size returned; (NULL, 0) is allowed and does
// nothing. No thread runs on it any more.
//
// A real-time thread may call it: no system call, but for a contended lock.
//
// -1 with errno, and nothing changed: EINVAL not a stack, another size, a stack that is free
// already, (NULL, not 0); EBUSY the stack the caller runs on, or one marked by
// stack_set_live(). With PUNCTUAL_STACK_DEBUG another size and a double free abort.
//
// # Safety
// If it is a right free, nothing on the stack is used any more.
int stack_free(void *stack,
               size_t size);

// The sizes that stacks come in, ascending, ended by 0. The array is the caller's and may
// be given to free().
//
// Not for a real-time thread: it calls malloc(). NULL with ENOMEM.
uint_t *fetch_stack_sizes(void);

// The smallest stack size with at least `size` bytes: 32768 to 2097152.
//
// A real-time thread may call it: it is arithmetic. 0 with EINVAL above the largest.
size_t stack_class(size_t size);

// Makes stacks of exactly `size` bytes until `count` of them are free, so that as many
// stack_alloc(), by whichever threads, need nothing from the kernel.
//
// Not for a real-time thread: it maps memory. -1 with errno: EINVAL, ENOMEM, EAGAIN as
// stack_alloc(); the stacks made so far stay free.
int stack_reserve(size_t size, size_t count);

// Gives free stacks of `size` bytes, or of each size if `size` is 0, back to the kernel
// until `keep` are left. Returns how many were given back.
//
// Not for a real-time thread: it unmaps memory. -1 with errno: EINVAL no such size; ENOMEM
// vm.max_map_count doesn't allow the hole.
ssize_t stack_trim(size_t size,
                   size_t keep);

// Says that a thread runs on the stack from now on (`live` 1: before pthread_create()), or
// no more (`live` 0: after pthread_join()). A live stack can't be freed.
//
// A real-time thread may call it: one compare-and-swap. -1 with EINVAL: not a stack in use,
// `live` is another number, or it is marked so already.
int stack_set_live(const void *stack,
                   int live);

// Fills `out` with the state of the stacks of `size` bytes. `out->struct_size` says how much
// of it the caller knows; what the library knows beyond is left out, what it doesn't know is
// left alone, and `struct_size` is then the part that was filled.
//
// A real-time thread may call it with care: no lock, no system call, but a walk over all
// stacks. -1 with errno: EFAULT `out` is NULL; EINVAL no such size, or a `struct_size` that
// is too small for anything.
//
// # Safety
// `out` is NULL, or `out->struct_size` bytes are the caller's.
int stack_stats(size_t size,
                struct stack_stats *out);

// Writes a line to the descriptor `fd` for each stack in use, with the call stack of its
// allocation where PUNCTUAL_STACK_DEBUG=audit keeps it. Returns how many there are.
//
// Not for a real-time thread: it writes to a file. -1 with EBADF.
int stack_debug_leaks(int fd);

// Where the stack of the thread `tid` of this process lies; 0 means the caller. The primary
// thread's goes down to its limit (RLIMIT_STACK), present or not.
//
// For the caller itself a real-time thread may call it after a first time (which may read
// files), if it has used stack_alloc() or stack_free(). For others it is not: it reads /proc.
//
// -1 with errno: EFAULT `out` is NULL; ESRCH no such thread; EAGAIN the thread is running
// and did not block within some 20 ms; EACCES or EPERM /proc is closed to us.
//
// # Safety
// `out` is NULL or the caller's.
int stack_bounds(pid_t tid,
                 struct stack_bounds *out);

// 1 if the byte at `address` is part of the calling thread's stack, else 0.
//
// A real-time thread may call it where it may call stack_bounds(0, ...).
int stack_contains(const void *address);

// Finds the stack of this library that `address` is in, or that it guards: returns 1 and
// fills `out`, or returns 0.
//
// A real-time thread may call it, and a signal handler: no lock, no system call, but a walk
// over all stacks. -1 with EFAULT: `out` is NULL.
//
// # Safety
// `out` is NULL or the caller's.
int stack_locate(const void *address,
                 struct stack_place *out);

// How many pages of the `size` bytes at `low`, the start of a page, are in memory.
//
// Not for a real-time thread: it waits for whoever maps memory. -1 with errno: EFAULT `out`
// is NULL; EINVAL `low` is not the start of a page; ENOMEM part of it is not mapped (the
// primary stack below what it has grown to).
//
// # Safety
// `out` is NULL or the caller's.
int stack_residency(const void *low,
                    size_t size,
                    struct stack_residency *out);

// Makes the calling thread's stack present, from where it stands `bytes` down; 0 means all
// of it, for the primary thread to its limit. Returns the bytes that are present now.
//
// For threads that were not given a stack of this library. Not for a real-time thread on
// duty: call it before. -1 with errno: ENOMEM; EAGAIN a limit doesn't allow it.
ssize_t stack_prefault(size_t bytes);

// The most bytes of the stack at `stack` that were ever in use, from its top down to the
// lowest word that was written with anything but 0: since it was made, over all its users;
// with PUNCTUAL_STACK_DEBUG=guards since it was handed out.
//
// Not for a real-time thread: it reads up to the whole stack. -1 with EINVAL: not a stack in
// use.
//
// # Safety
// The stack is not freed during the call.
ssize_t stack_high_water(const void *stack);

// Watches 1, 2, 4 or 8 bytes at `address`, a multiple of `length`, with the processor's
// debug registers: each write of a thread of this process is noted, and with `reads` each
// read, and the program goes on. It finds who tramples a stack: watch the word that is found
// destroyed. What the kernel writes for a thread is not seen. The first call takes SIGTRAP
// over; a debugger's breakpoints go on as before.
//
// Not for a real-time thread. NULL with errno: EINVAL the length or the alignment; ENOSPC
// the slots are used up (x86-64 has four); ENOTSUP no such hardware, or Linux before 5.13;
// EACCES or EPERM forbidden, see kernel.perf_event_paranoid.
struct watchpoint *watchpoint_set(const void *address,
                                  size_t length,
                                  int reads);

// How often it was hit.
//
// A real-time thread may call it, and a signal handler: one load. -1 with EFAULT: NULL.
//
// # Safety
// `watched` is NULL, or was returned by watchpoint_set() and not cleared.
ssize_t watchpoint_count(const struct watchpoint *watched);

// Tells the hit of the number `index`, from 0: returns 1 and fills `out`, or returns 0 where
// there is none. The first 64 are kept.
//
// A real-time thread may call it: a few loads. -1 with EFAULT: NULL.
//
// # Safety
// As watchpoint_count(); `out` is NULL or the caller's.
int watchpoint_read(const struct watchpoint *watched,
                    size_t index,
                    struct watchpoint_hit *out);

// Watches no more, and frees it. NULL is let be.
//
// Not for a real-time thread.
//
// # Safety
// As watchpoint_count(); nobody uses it any more.
void watchpoint_clear(struct watchpoint *watched);

// Lets the `cpus` alone serve the interrupts `irqs`, or, where `irqs` is NULL, all there are
// and all that come. Returns how many were changed; each that could not be is told to
// `skipped`, unless NULL: those that the kernel manages are no error. What was before is
// written to the file `journal`, and to disk, before anything is changed; a journal that
// exists keeps what it has.
//
// Not for a real-time thread. -1 with errno: EFAULT `journal` is NULL; EINVAL no CPU, one
// that can't be had, or a file that is no journal; EOVERFLOW there is no such CPU; or what
// prevents the journal from being written.
//
// # Safety
// The arrays have as many elements as is said, and `journal` is a string.
ssize_t irq_steer(const unsigned int *irqs,
                  size_t irq_count,
                  const unsigned int *cpus,
                  size_t cpu_count,
                  const char *journal,
                  irq_skipped skipped,
                  void *context);

// Puts back what the file `journal` holds, and removes it when all is back. Returns how many
// interrupts were changed; without a journal 0. May be called again, and by another process
// than the one that steered.
//
// Not for a real-time thread. -1 with errno: EFAULT `journal` is NULL; EINVAL it is no
// journal; or what prevents it from being read or removed.
//
// # Safety
// `journal` is NULL or a string.
ssize_t irq_restore(const char *journal,
                    irq_skipped skipped,
                    void *context);

// Makes a processor set of this name: `count` CPUs for itself, an isolated partition where
// control groups of version 2 have the cpuset controller, and in version 1 an exclusive set
// without load balancing. Its state is read back; where it can't be isolated, nothing is
// left behind. With `reason` not NULL, the words for an error are written there, of at most
// `room` bytes with the 0 at the end.
//
// Not for a real-time thread. -1 with errno: ENOTSUP no cpuset controller; EBUSY the kernel
// doesn't isolate it, for the reason told; EEXIST the name is taken; EINVAL no name, no CPU,
// or one that can't be had; EACCES without the right.
//
// # Safety
// `name` is a string, `cpus` has `count` elements, and `reason` is NULL or has `room` bytes.
int cpuset_make(const char *name,
                const unsigned int *cpus,
                size_t count,
                char *reason,
                size_t room);

// 0 if the set of this name is isolated now: another set may invalidate it later. The rest is
// as with cpuset_make(); ENOENT there is none.
//
// # Safety
// As cpuset_make().
int cpuset_state(const char *name,
                 char *reason,
                 size_t room);

// Moves a process into the set of this name; 0 is the caller's.
//
// Not for a real-time thread. -1 with errno: ENOENT no such set; ESRCH no such process;
// ENOTSUP, EINVAL, EACCES as cpuset_make().
//
// # Safety
// `name` is NULL or a string.
int cpuset_take(const char *name, pid_t process);

// Moves the tasks of the set of this name away and removes it, whoever made it; 0 also when
// it is gone already.
//
// Not for a real-time thread. -1 with errno: EBUSY tasks can't be moved; ENOTSUP, EINVAL,
// EACCES as cpuset_make().
//
// # Safety
// `name` is NULL or a string.
int cpuset_remove(const char *name);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PUNCTUAL_H */
