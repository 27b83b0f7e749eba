/*
 * How long until a checkpoint is ready to serve, and what it holds then: one line of JSON.
 *
 *     load_metadata SOURCE
 *
 * Loads as the mount does (checkpoint, names, reader, tree). resident is VmRSS afterwards less
 * VmRSS before; peak is the highest VmRSS in between less VmRSS before, the file's own bytes
 * included where they are held.
 */
#include "config.h"
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "tool/common.h"

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A "VmXXX:  N kB" line of /proc/self/status, in bytes. */
static double status(const char *field)
{
	char line[256];
	double kb = 0;
	size_t n = strlen(field);
	FILE *f = fopen("/proc/self/status", "re");

	while (f && fgets(line, sizeof(line), f))
		if (strncmp(line, field, n) == 0 && line[n] == ':')
			kb = strtod(line + n + 1, NULL);
	if (f)
		fclose(f);
	return kb * 1024;
}

/* The peak counts from here. */
static void reset_peak(void)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		ssize_t n = write(fd, "5", 1);
		(void)n;
		close(fd);
	}
}

int main(int argc, char **argv)
{
	struct sf_common common;
	struct sf_session s;
	struct sf_error err = { 0 };

	if (argc != 2) {
		fprintf(stderr, "usage: %s SOURCE\n", argv[0]);
		return 2;
	}
	sf_common_init(&common);
	reset_peak();
	double rss0 = status("VmRSS"), t0 = now();
	int r = sf_session_open(&s, &common.session, argv[1], &err);
	double t1 = now();
	if (r < 0) {
		fprintf(stderr, "%s\n", err.msg);
		return 1;
	}
	double peak = status("VmHWM") - rss0;
	double resident = status("VmRSS") - rss0, n = (double)s.ckpt->nchunks;
	malloc_trim(0);
	double trimmed = status("VmRSS") - rss0;
	printf("{\"seconds\": %.4f, \"chunks\": %.0f, \"tensors\": %u, \"resident_per_chunk\": "
	       "%.1f, \"trimmed_per_chunk\": %.1f, "
	       "\"peak_per_chunk\": %.1f, \"load_bytes\": %.0f}\n",
	       t1 - t0, n, s.ckpt->ntensors, resident / n, trimmed / n, peak / n, resident);
	sf_session_close(&s);
	sf_common_release(&common);
	return 0;
}
