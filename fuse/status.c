#include "config.h"
#include <string.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/path.h"
#include "fuse/ask.h"
#include "fuse/mount.h"
#include "fuse/mountpoint.h"

struct status_options {
	bool json;
};

static const struct sf_opt options[] = {
	{ "json", 0, SF_OPT_FLAG, offsetof(struct status_options, json), NULL, NULL,
	  "for machines" },
	{ 0 },
};

struct status {
	const struct status_options *o;
	const char *only; /* realpath of the asked mountpoint, or NULL */
	unsigned n;
};

#define COUNTERS_MAX 65536
#define ANSWER_MS 2000

static void send_counters(const void *arg, int to)
{
	const char *target = arg;
	char path[4096], buf[4096];
	ssize_t k;

	snprintf(path, sizeof(path), "%s/.shardfuse/counters.json", target);
	int in = open(path, O_RDONLY | O_CLOEXEC);
	while (in >= 0 && (k = read(in, buf, sizeof(buf))) > 0)
		if (write(to, buf, (size_t)k) < 0)
			break;
}

/* The daemon's counters. Returns their length, 0 when it did not answer. */
static size_t read_counters(const char *target, char *buf, size_t size)
{
	bool all;
	ssize_t n = sf_ask(send_counters, target, ANSWER_MS, buf, size, &all);

	return n > 0 ? (size_t)n : 0;
}

static void print_escaped(const char *s)
{
	struct sf_buf b = { 0 };
	sf_escape_text(&b, s, strlen(s));
	fputs(sf_buf_cstr(&b), stdout);
	sf_buf_release(&b);
}

static void print_json(const char *s)
{
	struct sf_buf b = { 0 };
	sf_escape_json(&b, s, strlen(s));
	fputs(sf_buf_cstr(&b), stdout);
	sf_buf_release(&b);
}

static int show(void *arg, const struct sf_mountinfo *m)
{
	struct status *st = arg;
	char *counters;

	if (st->only && strcmp(st->only, m->target) != 0)
		return 0;
	counters = malloc(COUNTERS_MAX + 1);
	if (!counters)
		return -ENOMEM;
	size_t n = read_counters(m->target, counters, COUNTERS_MAX);
	counters[n] = 0;
	if (st->o->json) {
		printf("%s\n  {\"mountpoint\": ", st->n ? "," : "");
		print_json(m->target);
		printf(", \"source\": ");
		print_json(m->source);
		printf(", \"answers\": %s, \"counters\": %s}", n ? "true" : "false",
		       n ? counters : "null");
	} else {
		print_escaped(m->target);
		printf("\t");
		print_escaped(m->source);
		printf("\t%s\n", n ? "answers" : "does not answer");
		if (st->only && n)
			printf("%s", counters);
	}
	st->n++;
	free(counters);
	return 0;
}

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	struct sf_error err = SF_ERROR_INIT;
	SF_FREE char *only = argc ? sf_mountpoint_resolve(argv[0]) : NULL;
	struct status st = { .o = opt, .only = argc ? (only ? only : argv[0]) : NULL };
	(void)common;

	if (st.o->json)
		printf("{\"schema\": 1, \"mounts\": [");
	int r = sf_mounts_each(show, &st, &err);
	if (st.o->json)
		printf("%s]}\n", st.n ? "\n" : "");
	if (r < 0)
		return sf_cli_error(SF_EXIT_FAILED, &err);
	if (st.only && !st.n) {
		sf_fail(&err, -ENOENT, "'%s': no shardfuse is mounted there", argv[0]);
		return sf_cli_error(SF_EXIT_FAILED, &err);
	}
	return SF_EXIT_OK;
}

const struct sf_cmd sf_cmd_status = {
	.name = "status",
	.usage = "[MOUNTPOINT] [--json]",
	.about = "live mounts and what they have done",
	.example = "shardfuse status /mnt/c",
	.options = options,
	.min_args = 0,
	.max_args = 1,
	.opt_size = sizeof(struct status_options),
	.run = run,
};
