/* Periodic loops of several kinds that also serve messages, with a log of their own by their own clock, to
 * check what a watch says of them.
 *
 * Arguments: the kind, the number of instants. See watched.c for how it is run. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/io_uring.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "known.h"

#define PERIOD 1000000LL
#define DEADLINE 600000LL
/* One of so many instants takes 2.3 periods of work. */
#define STALL 50

static long cycles, instants, late, stalls;
static long long next;
static int start[2], messages[2];
/* Messages that nobody has read. */
static atomic_int tid, ended, unread;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition;
static int waiting;

static void work(long long ns)
{
	long long until = now() + ns;
	while (now() < until)
		;
}

/* It comes back for an instant; so many before it got no cycle of their own. */
static void serve(long long due, long merged)
{
	late += merged + (now() - due > DEADLINE);
	long before = instants;
	instants += merged + 1;
	if (instants / STALL > before / STALL) {
		stalls++;
		work(2 * PERIOD + 300000);
	} else {
		work(20000);
	}
}

static void take_message(void)
{
	char byte;
	if (read(messages[0], &byte, 1) == 1)
		work(30000);
	unread--;
}

static struct timespec timespec_of(long long ns)
{
	return (struct timespec){ns / 1000000000, ns % 1000000000};
}

/* The clocks run alike: only a suspended machine sets them apart. */
static int timer_fd(clockid_t clock)
{
	struct timespec both[2];
	clock_gettime(CLOCK_MONOTONIC, &both[0]);
	clock_gettime(clock == CLOCK_MONOTONIC ? clock : CLOCK_BOOTTIME, &both[1]);
	long long ahead = (both[1].tv_sec - both[0].tv_sec) * 1000000000LL + both[1].tv_nsec - both[0].tv_nsec;
	struct itimerspec timer = {timespec_of(PERIOD), timespec_of(next + ahead)};
	int fd = timerfd_create(clock, 0);
	if (fd < 0 || timerfd_settime(fd, TFD_TIMER_ABSTIME, &timer, NULL))
		fail("a timerfd");
	return fd;
}

static void take_ticks(int fd)
{
	unsigned long long ticks;
	if (read(fd, &ticks, sizeof(ticks)) != sizeof(ticks))
		fail("reading a timerfd");
	long long due = next + ((long long)ticks - 1) * PERIOD;
	next = due + PERIOD;
	serve(due, (long)ticks - 1);
}

static void by_epoll(void)
{
	struct epoll_event of[2] = {{EPOLLIN, {.fd = timer_fd(CLOCK_MONOTONIC)}}, {EPOLLIN, {.fd = messages[0]}}}, ready[2];
	int epoll = epoll_create1(0);
	for (int at = 0; at < 2; at++)
		if (epoll_ctl(epoll, EPOLL_CTL_ADD, of[at].data.fd, &of[at]))
			fail("epoll_ctl");
	while (instants < cycles) {
		int count = epoll_wait(epoll, ready, 2, -1);
		for (int at = 0; at < count; at++)
			if (ready[at].data.fd == messages[0])
				take_message();
			else
				take_ticks(ready[at].data.fd);
	}
}

/* It works for 2.5 periods before it takes what it was woken for. */
static void read_late(void)
{
	unsigned long long ticks;
	struct pollfd of = {timer_fd(CLOCK_MONOTONIC), POLLIN, 0};
	while (instants < cycles) {
		if (poll(&of, 1, -1) != 1)
			fail("poll");
		late += now() - next > DEADLINE;
		work(2 * PERIOD + PERIOD / 2);
		if (read(of.fd, &ticks, sizeof(ticks)) != sizeof(ticks))
			fail("reading a timerfd");
		late += (long)ticks - 1;
		instants += (long)ticks;
		stalls++;
		next += (long long)ticks * PERIOD;
	}
}

/* A one-shot timer that another thread arms for each instant, in the middle of the period before. */
static int served_fd;
static _Atomic long long armed;

static void *arms(void *nothing)
{
	struct sched_param priority = {.sched_priority = 70};
	struct itimerspec timer = {{0, 0}, {0, 0}};
	pthread_setname_np(pthread_self(), "rt-arms");
	if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority))
		fail("scheduling");
	for (long long instant = next; !ended; instant += PERIOD) {
		struct timespec at = timespec_of(instant - PERIOD / 2);
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
			;
		timer.it_value = timespec_of(instant);
		armed = instant;
		if (timerfd_settime(served_fd, TFD_TIMER_ABSTIME, &timer, NULL))
			fail("timerfd_settime");
	}
	return nothing;
}

static void armed_by_another(void)
{
	unsigned long long ticks;
	pthread_t thread;
	served_fd = timerfd_create(CLOCK_MONOTONIC, 0);
	if (served_fd < 0 || pthread_create(&thread, NULL, arms, NULL))
		fail("a thread that arms");
	while (instants < cycles) {
		if (read(served_fd, &ticks, sizeof(ticks)) != sizeof(ticks))
			fail("reading a timerfd");
		long long due = armed;
		if (due > now())
			due -= PERIOD;
		long merged = (long)((due - next) / PERIOD);
		next = due + PERIOD;
		serve(due, merged);
	}
}

/* Each instant's work takes 1.5 periods. */
static void overloaded(void)
{
	int fd = timer_fd(CLOCK_MONOTONIC);
	while (instants < cycles) {
		take_ticks(fd);
		work(PERIOD + 500000);
	}
}

/* The same since before the watch began: no expiry wakes it. Its only sleep is a short wait for another thread. */
static int early, ask[2], answer[2];

static void overload(void)
{
	char byte = 0;
	take_ticks(early);
	work(PERIOD + 100000);
	if (write(ask[1], &byte, 1) != 1 || read(answer[0], &byte, 1) != 1)
		fail("a pipe");
}

static void *answers(void *nothing)
{
	char byte;
	while (read(ask[0], &byte, 1) == 1) {
		work(100000);
		if (write(answer[1], &byte, 1) != 1)
			fail("a pipe");
	}
	return nothing;
}

static void overloaded_before(void)
{
	/* The instants until now were before it. */
	take_ticks(early);
	instants = late = stalls = 0;
	while (instants < cycles)
		overload();
}

/* A one-shot alarm for each; now and then it passes while the thread works, and what follows takes long. */
static void by_alarm(void)
{
	struct itimerval length = {{0, 0}, {0, PERIOD / 1000}};
	sigset_t none;
	sigemptyset(&none);
	while (instants < cycles) {
		long long due = now() + PERIOD;
		if (setitimer(ITIMER_REAL, &length, NULL))
			fail("setitimer");
		work(instants % STALL == STALL - 1 ? PERIOD + 100000 : 20000);
		sigsuspend(&none);
		serve(due, 0);
	}
}

/* Timeouts from the clock; what passed is left out. */
static void by_ppoll(void)
{
	struct pollfd of = {messages[0], POLLIN, 0};
	while (instants < cycles) {
		long long left = next - now();
		struct timespec timeout = timespec_of(left > 0 ? left : 0);
		if (left > 0 && ppoll(&of, 1, &timeout, NULL) > 0) {
			take_message();
			continue;
		}
		long merged = 0;
		for (; next + PERIOD <= now(); next += PERIOD)
			merged++;
		serve(next, merged);
		next += PERIOD;
	}
}

static void on_message(int number)
{
	(void)number;
	work(30000);
}

static void on_alarm(int number)
{
	(void)number;
}

/* The same instant again after a signal; it catches up. */
static void by_sleep(void)
{
	while (instants < cycles) {
		struct timespec until = timespec_of(next);
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
			;
		serve(next, 0);
		next += PERIOD;
	}
}

/* It goes on as the first thread, which waits longer than a deadline. */
static void by_exec(void)
{
	char count[24];
	by_sleep();
	snprintf(count, sizeof(count), "%ld", instants);
	execl("/proc/self/exe", "loops", "executed", count, NULL);
	fail("exec");
}

/* A length of time after its work: it drifts. */
static void by_length(void)
{
	while (instants < cycles) {
		struct timespec length = timespec_of(PERIOD);
		long long due = now() + PERIOD;
		while (clock_nanosleep(CLOCK_MONOTONIC, 0, &length, &length) == EINTR)
			;
		serve(due, 0);
	}
}

static void by_timer_signal(void)
{
	struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGRTMIN};
	struct itimerspec length = {timespec_of(PERIOD), timespec_of(next)};
	timer_t timer;
	sigset_t both;
	siginfo_t what;
	event._sigev_un._tid = tid;
	sigemptyset(&both);
	sigaddset(&both, SIGRTMIN);
	sigaddset(&both, SIGUSR1);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, TIMER_ABSTIME, &length, NULL))
		fail("a timer");
	while (instants < cycles) {
		int number = sigwaitinfo(&both, &what);
		if (number == SIGUSR1) {
			work(30000);
		} else if (number == SIGRTMIN) {
			next += what.si_overrun * PERIOD;
			serve(next, what.si_overrun);
			next += PERIOD;
		}
	}
}

/* It waits for a message until the instant; it catches up. */
static void by_condition(void)
{
	pthread_mutex_lock(&mutex);
	while (instants < cycles) {
		struct timespec until = timespec_of(next);
		int error = waiting ? 0 : pthread_cond_timedwait(&condition, &mutex, &until);
		if (waiting) {
			waiting = 0;
			pthread_mutex_unlock(&mutex);
			work(30000);
			pthread_mutex_lock(&mutex);
		} else if (error == ETIMEDOUT) {
			pthread_mutex_unlock(&mutex);
			serve(next, 0);
			next += PERIOD;
			pthread_mutex_lock(&mutex);
		}
	}
	pthread_mutex_unlock(&mutex);
}

/* A timeout until the instant, and a wait for the pipe; it catches up. */
static void by_uring(void)
{
	struct io_uring_params of = {0};
	int ring = (int)syscall(SYS_io_uring_setup, 8, &of);
	if (ring < 0) {
		printf("refused %d\n", errno);
		return;
	}
	char *sent = mmap(NULL, of.sq_off.array + of.sq_entries * 4, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE,
			  ring, IORING_OFF_SQ_RING);
	char *done = mmap(NULL, of.cq_off.cqes + of.cq_entries * sizeof(struct io_uring_cqe), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_CQ_RING);
	struct io_uring_sqe *entries = mmap(NULL, of.sq_entries * sizeof(*entries), PROT_READ | PROT_WRITE,
					    MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
	if (sent == MAP_FAILED || done == MAP_FAILED || entries == MAP_FAILED)
		fail("mapping a ring");
	_Atomic unsigned *tail = (_Atomic unsigned *)(sent + of.sq_off.tail);
	_Atomic unsigned *head = (_Atomic unsigned *)(done + of.cq_off.head);
	_Atomic unsigned *end = (_Atomic unsigned *)(done + of.cq_off.tail);
	unsigned *array = (unsigned *)(sent + of.sq_off.array), mask = *(unsigned *)(sent + of.sq_off.ring_mask);
	unsigned done_mask = *(unsigned *)(done + of.cq_off.ring_mask);
	struct io_uring_cqe *all = (struct io_uring_cqe *)(done + of.cq_off.cqes);
	struct __kernel_timespec until;
	int arm = 1, await = 1;
	while (instants < cycles) {
		unsigned count = 0;
		for (int timeout = 0; timeout < 2; timeout++) {
			if (!(timeout ? arm : await))
				continue;
			unsigned at = *tail & mask;
			struct io_uring_sqe *entry = &entries[at];
			memset(entry, 0, sizeof(*entry));
			if (timeout) {
				until = (struct __kernel_timespec){next / 1000000000, next % 1000000000};
				entry->opcode = IORING_OP_TIMEOUT;
				entry->fd = -1;
				entry->addr = (unsigned long)&until;
				entry->len = 1;
				entry->timeout_flags = IORING_TIMEOUT_ABS;
			} else {
				entry->opcode = IORING_OP_POLL_ADD;
				entry->fd = messages[0];
				entry->poll32_events = POLLIN;
			}
			entry->user_data = timeout;
			array[at] = at;
			++*tail;
			count++;
		}
		arm = await = 0;
		if (syscall(SYS_io_uring_enter, ring, count, 1, IORING_ENTER_GETEVENTS, NULL, 0) < 0 && errno != EINTR)
			fail("io_uring_enter");
		for (; *head != *end; ++*head) {
			if (all[*head & done_mask].user_data) {
				serve(next, 0);
				next += PERIOD;
				arm = 1;
			} else {
				take_message();
				await = 1;
			}
		}
	}
}

static const struct {
	const char *name;
	void (*loop)(void);
	enum { BY_PIPE, IN_CROWDS, BY_SIGNAL, BY_CONDITION, SILENT } messages;
	int wakes_the_machine;
} KINDS[] = {
	{"epoll", by_epoll, BY_PIPE, 0},		{"overloaded", overloaded, SILENT, 0},
	{"ppoll", by_ppoll, BY_PIPE, 0},		{"signalled", by_sleep, BY_SIGNAL, 0},
	{"catching-up", by_sleep, SILENT, 0},	{"length", by_length, SILENT, 0},
	{"timer-signal", by_timer_signal, BY_SIGNAL, 0}, {"condition", by_condition, BY_CONDITION, 0},
	{"uring", by_uring, BY_PIPE, 0},		{"alarm", by_alarm, SILENT, 0},
	{"read-late", read_late, SILENT, 0},
	{"armed-by-another", armed_by_another, SILENT, 0},
	{"overloaded-before", overloaded_before, SILENT, 0},
	{"overloaded-before-by-alarm", overloaded_before, SILENT, 1},
	{"exec", by_exec, SILENT, 0},
	{"uring-crowded", by_uring, IN_CROWDS, 0},	{"ppoll-crowded", by_ppoll, IN_CROWDS, 0},
};
static unsigned kind;

static void *run(void *nothing)
{
	char byte;
	struct sched_param priority = {.sched_priority = 60};
	sigset_t blocked;
	pthread_setname_np(pthread_self(), "rt-loop");
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGRTMIN);
	if (KINDS[kind].loop == by_timer_signal)
		sigaddset(&blocked, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &blocked, NULL);
	if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority))
		fail("scheduling");
	next = now() + 2 * PERIOD;
	if (KINDS[kind].loop == overloaded_before) {
		early = timer_fd(KINDS[kind].wakes_the_machine ? CLOCK_BOOTTIME_ALARM : CLOCK_MONOTONIC);
		for (int cycle = 0; cycle < 10; cycle++)
			overload();
	}
	tid = gettid();
	if (read(start[0], &byte, 1) != 1)
		fail("read");
	if (KINDS[kind].loop != overloaded_before)
		next = now() + 2 * PERIOD;
	KINDS[kind].loop();
	ended = 1;
	printf("instants %ld\nlate %ld\nstalls %ld\nDONE\n", instants, late, stalls);
	fflush(stdout);
	for (;;)
		pause();
	return nothing;
}

/* Messages at any time. */
static void send(void)
{
	unsigned long long state = 1;
	while (!ended) {
		state = state * 6364136223846793005ULL + 1442695040888963407ULL;
		if (KINDS[kind].messages == IN_CROWDS)
			usleep(5 + (state >> 40) % 30);
		else
			usleep(100 + (state >> 40) % 200);
		switch (KINDS[kind].messages) {
		case BY_PIPE:
		case IN_CROWDS:
			/* Otherwise they may keep a loop awake for long. */
			if (unread < 2) {
				unread++;
				if (write(messages[1], "m", 1) != 1)
					fail("write");
			}
			break;
		case BY_SIGNAL:
			syscall(SYS_tgkill, getpid(), tid, SIGUSR1);
			break;
		case BY_CONDITION:
			pthread_mutex_lock(&mutex);
			waiting = 1;
			pthread_cond_signal(&condition);
			pthread_mutex_unlock(&mutex);
			break;
		case SILENT:
			break;
		}
	}
}

int main(int count, char **words)
{
	pthread_t thread;
	pthread_condattr_t monotonic;
	sigset_t alarm;
	char line[16];
	if (count != 3)
		return 64;
	if (!strcmp(words[1], "executed")) {
		usleep(300000);
		printf("instants %s\nDONE\n", words[2]);
		fflush(stdout);
		for (;;)
			pause();
	}
	while (kind < sizeof(KINDS) / sizeof(*KINDS) && strcmp(KINDS[kind].name, words[1]))
		kind++;
	if (kind == sizeof(KINDS) / sizeof(*KINDS))
		return 64;
	cycles = strtol(words[2], NULL, 10);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&condition, &monotonic);
	signal(SIGUSR1, on_message);
	signal(SIGALRM, on_alarm);
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm, NULL);
	if (pipe(start) || pipe(messages) || pipe(ask) || pipe(answer))
		fail("pipe");
	if (KINDS[kind].loop == overloaded_before)
		pthread_create(&thread, NULL, answers, NULL);
	pthread_create(&thread, NULL, run, NULL);
	while (!tid)
		usleep(1000);
	usleep(10000);
	printf("READY %d %d\n", getpid(), tid);
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	if (write(start[1], line, 1) != 1)
		fail("write");
	send();
	for (;;)
		pause();
}
