/* Programs that are each other's children, with known behaviour.
 *
 * family CYCLES...    this many cycles for each generation
 *
 * It prints READY with the number of its only thread, and for each line of input goes through
 * a turn: it has a child, which has the next one, and so on; each goes through its cycles under
 * SCHED_FIFO, and waits for its child to end. Then it prints DONE. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void turn(int generation, int count, char **words)
{
	pid_t child = 0;
	if (generation + 1 < count && !(child = fork())) {
		char name[32];
		snprintf(name, sizeof(name), "rt-gen-%d", generation + 1);
		prctl(PR_SET_NAME, name);
		turn(generation + 1, count, words);
		_exit(0);
	}
	if (child < 0)
		fail("fork");
	/* For a length of time: however late it is, each cycle is a sleep. */
	for (long cycles = strtol(words[generation], NULL, 10); cycles; cycles--) {
		struct timespec length = {0, 1000000};
		while (clock_nanosleep(CLOCK_MONOTONIC, 0, &length, &length) == EINTR)
			;
	}
	while (child && waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
}

int main(int count, char **words)
{
	struct sched_param parameters = {.sched_priority = 40};
	char line[16];
	if (sched_setscheduler(0, SCHED_FIFO, &parameters))
		fail("scheduling");
	printf("READY %d %d\n", getpid(), gettid());
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		turn(0, count - 1, words + 1);
		printf("DONE\n");
		fflush(stdout);
	}
	return 0;
}
