/* Shifts the wall clock of a process, and of its children, by CLOCK_SHIFT_SECONDS. Preloaded by tests/on-shifted-dates.

   libfaketime is no help: it lets either the monotonic clock jump, so that timeouts never expire, or every sleep until
   an instant of that clock fail, which is how Python sleeps. Here only the wall clock is shifted, and no wait. */

#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t shift(void)
{
	const char *seconds = getenv("CLOCK_SHIFT_SECONDS");
	return seconds ? atoll(seconds) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int failed = syscall(SYS_clock_gettime, clock, now);
	if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		now->tv_sec += shift();
	return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	int failed = syscall(SYS_gettimeofday, now, zone);
	if (!failed)
		now->tv_sec += shift();
	return failed;
}

time_t time(time_t *now)
{
	struct timespec precise;
	clock_gettime(CLOCK_REALTIME, &precise);
	if (now)
		*now = precise.tv_sec;
	return precise.tv_sec;
}
