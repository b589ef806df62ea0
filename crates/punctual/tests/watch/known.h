/* Functions that the programs with known behaviour have in common. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

__attribute__((unused)) static long long now(void)
{
	struct timespec at;
	clock_gettime(CLOCK_MONOTONIC, &at);
	return at.tv_sec * 1000000000LL + at.tv_nsec;
}
