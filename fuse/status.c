#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/columns.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/mountinfo.h"
#include "base/path.h"
#include "base/vec.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "tool/ask.h"
#include "fuse/mount.h"
#include "fuse/mountpoint.h"

struct status_options {
	bool json;
};

static const struct sf_opt options[] = {
	{ "json", 0, SF_OPT_FLAG, offsetof(struct status_options, json), NULL, NULL, "print JSON" },
	{ 0 },
};

#define COUNTERS_MAX 65536
#define ANSWER_MS 2000

enum state { ANSWERS, HANGS, DEAD, NOT_YOURS, NSTATES };
static const char *const state_words[NSTATES] = { "answers", "does not answer",
	                                          "its daemon is dead (umount cleans it)",
	                                          "another user's" };
static const char *const state_names[NSTATES] = { "answers", "hangs", "dead", "denied" };

/* One mount, as it was when asked. */
struct mount {
	char *target, *source;
	enum state state;
	char *text; /* its counters.json, NULL: none */
	struct sf_json *json;
	const struct cJSON *counters; /* its root, NULL: none */
};
SF_VEC(mounts, struct mount);

struct status {
	const char *only; /* realpath of the asked mountpoint, or NULL */
	struct mounts mounts;
};

/* The first byte says how it went: the digit of a state. */
static void send_counters(const void *arg, int to)
{
	const char *target = arg;
	char path[4096], buf[4096], state = '0' + ANSWERS;
	ssize_t k;

	snprintf(path, sizeof(path), "%s/.shardfuse/counters.json", target);
	int in = open(path, O_RDONLY | O_CLOEXEC);
	if (in < 0)
		state = errno == ENOTCONN || errno == ECONNABORTED ? '0' + DEAD
		        : errno == EACCES                          ? '0' + NOT_YOURS
		                                                   : '0' + HANGS;
	if (write(to, &state, 1) < 0)
		return;
	while (in >= 0 && (k = read(in, buf, sizeof(buf))) > 0)
		if (write(to, buf, (size_t)k) < 0)
			break;
}

static int ask(struct mount *m)
{
	char *buf = malloc(COUNTERS_MAX + 1);
	bool all;

	if (!buf)
		return -ENOMEM;
	ssize_t n = sf_ask(send_counters, m->target, ANSWER_MS, buf, COUNTERS_MAX, &all);
	m->state = HANGS;
	if (n > 0 && all && buf[0] >= '0' && buf[0] < '0' + NSTATES)
		m->state = (enum state)(buf[0] - '0');
	if (m->state == ANSWERS) {
		buf[n] = 0;
		memmove(buf, buf + 1, (size_t)n);
		m->text = buf;
		if (!sf_terminal_binary(buf, (size_t)n - 1) &&
		    sf_json_parse(buf, (size_t)n - 1, &m->json, NULL) >= 0)
			m->counters = sf_json_root(m->json);
		else
			m->state = HANGS; /* whoever answers so is no daemon of ours: fuse.shardfuse
			                     is anybody's to say */
		return 0;
	}
	free(buf);
	return 0;
}

static int find(void *arg, const struct sf_mountinfo *info)
{
	struct status *st = arg;
	struct mount m = { 0 };

	if (st->only && strcmp(st->only, info->target) != 0)
		return 0;
	m.target = strdup(info->target);
	m.source = strdup(info->source);
	int r = m.target && m.source ? ask(&m) : -ENOMEM;
	if (r < 0 || mounts_push(&st->mounts, m) < 0) {
		free(m.target);
		free(m.source);
		return -ENOMEM;
	}
	return 0;
}

static void release(struct mounts *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->at[i].target);
		free(l->at[i].source);
		free(l->at[i].text);
		sf_json_free(l->at[i].json);
	}
	mounts_release(l);
}

static uint64_t number(const struct mount *m, const char *name)
{
	uint64_t v = 0;

	if (m->counters)
		sf_json_get_u64(m->counters, name, &v, NULL);
	return v;
}

static const char *given(const struct mount *m)
{
	const char *s = "";

	if (m->counters)
		sf_json_get_str(m->counters, "given", &s, NULL);
	return s;
}

/* Reads that were answered without waiting for storage. */
static bool hit_rate(const struct mount *m, double *ret)
{
	uint64_t reads = number(m, "read_requests"), parked = number(m, "parked");

	if (reads)
		*ret = 1 - (double)SF_MIN(parked, reads) / (double)reads;
	return reads > 0;
}

static void print_json(const struct mounts *l)
{
	printf("{\"schema\": 1, \"mounts\": [");
	for (size_t i = 0; i < l->n; i++) {
		const struct mount *m = &l->at[i];
		double rate;
		printf("%s\n  {\"mountpoint\": ", i ? "," : "");
		sf_put_json(stdout, m->target, strlen(m->target));
		printf(", \"source\": ");
		sf_put_json(stdout, m->source, strlen(m->source));
		printf(", \"answers\": %s, \"state\": \"%s\"",
		       m->state == ANSWERS ? "true" : "false", state_names[m->state]);
		if (m->counters) {
			printf(", \"pid\": %" PRIu64 ", \"options\": ", number(m, "pid"));
			sf_put_json(stdout, given(m), strlen(given(m)));
			printf(", \"uptime_s\": %" PRIu64 ", \"hit_rate\": ",
			       number(m, "uptime_s"));
			if (hit_rate(m, &rate))
				printf("%.4f", rate);
			else
				printf("null");
		}
		printf(", \"counters\": %s}", m->counters ? m->text : "null");
	}
	printf("%s]}\n", l->n ? "\n" : "");
}

static void put_uptime(struct sf_buf *out, uint64_t s)
{
	if (s < 60)
		sf_buf_printf(out, "%" PRIu64 " s", s);
	else if (s < 3600)
		sf_buf_printf(out, "%" PRIu64 " min %" PRIu64 " s", s / 60, s % 60);
	else if (s < 86400)
		sf_buf_printf(out, "%" PRIu64 " h %" PRIu64 " min", s / 3600, s / 60 % 60);
	else
		sf_buf_printf(out, "%" PRIu64 " d %" PRIu64 " h", s / 86400, s / 3600 % 24);
}

enum { TARGET, SOURCE, PID, UPTIME, READS, HITS, GIVEN, NCOLUMNS };
static const char *const heads[NCOLUMNS] = { "mountpoint", "source",   "pid",    "uptime",
	                                     "reads",      "hit rate", "options" };

static void cell(struct sf_buf *out, const struct mount *m, int column)
{
	char size[32];
	double rate;

	if (column == TARGET || column == SOURCE) {
		const char *s = column == TARGET ? m->target : m->source;
		sf_escape_text(out, s, strlen(s));
	} else if (!m->counters) {
		sf_buf_str(out, column == PID ? state_words[m->state] : "");
	} else if (column == PID) {
		sf_buf_printf(out, "%" PRIu64, number(m, "pid"));
	} else if (column == UPTIME) {
		put_uptime(out, number(m, "uptime_s"));
	} else if (column == READS) {
		sf_buf_printf(out, "%" PRIu64 ", %s", number(m, "read_requests"),
		              sf_human_size(number(m, "read_bytes"), size));
	} else if (column == HITS) {
		if (hit_rate(m, &rate))
			sf_buf_printf(out, "%.1f %%", rate * 100);
	} else {
		sf_escape_text(out, given(m), strlen(given(m)));
	}
	if (!out->len)
		sf_buf_byte(out, '-');
}

/* A line for each server that it waits for. */
static void print_away(const struct mount *m, const char *name)
{
	const struct cJSON *list, *one = NULL;
	const char *server, *why;
	uint64_t s, waiting;

	if (!m->counters || sf_json_get_arr(m->counters, "away", &list, NULL) < 0)
		return;
	while ((one = sf_json_next(list, one))) {
		struct sf_buf b = { 0 };
		if (sf_json_get_str(one, "server", &server, NULL) < 0 ||
		    sf_json_get_str(one, "error", &why, NULL) < 0 ||
		    sf_json_get_u64(one, "for_s", &s, NULL) < 0 ||
		    sf_json_get_u64(one, "waiting", &waiting, NULL) < 0)
			continue;
		sf_escape_text(&b, server, strlen(server));
		sf_buf_str(&b, " does not answer, for ");
		put_uptime(&b, s);
		sf_buf_printf(&b, "; %" PRIu64 " requests wait: ", waiting);
		sf_escape_text(&b, why, strlen(why));
		printf("%-10s  %s\n", name, sf_buf_cstr(&b));
		sf_buf_release(&b);
	}
}

/* A line each. What a mount that does not answer has instead takes the place of its numbers. */
static void print_table(const struct mounts *l)
{
	size_t width[NCOLUMNS];

	for (int c = 0; c < NCOLUMNS; c++) {
		width[c] = strlen(heads[c]);
		for (size_t i = 0; i < l->n; i++) {
			struct sf_buf b = { 0 };
			cell(&b, &l->at[i], c);
			if (l->at[i].counters || c < PID)
				width[c] = SF_MAX(width[c],
				                  sf_columns(sf_buf_cstr(&b), sf_buf_bytes(&b)));
			sf_buf_release(&b);
		}
	}
	for (int c = 0; c < NCOLUMNS - 1; c++)
		printf("%-*s  ", (int)width[c], heads[c]);
	printf("%s\n", heads[NCOLUMNS - 1]);
	for (size_t i = 0; i < l->n; i++) {
		int last = l->at[i].counters ? NCOLUMNS - 1 : PID;
		for (int c = 0; c <= last; c++) {
			struct sf_buf b = { 0 };
			cell(&b, &l->at[i], c);
			fputs(sf_buf_cstr(&b), stdout);
			if (c < last)
				printf("%*s",
				       (int)(width[c] + 2 -
				             sf_columns(sf_buf_cstr(&b), sf_buf_bytes(&b))),
				       "");
			sf_buf_release(&b);
		}
		putchar('\n');
	}
	for (size_t i = 0; i < l->n; i++) {
		struct sf_buf b = { 0 };
		sf_escape_text(&b, l->at[i].target, strlen(l->at[i].target));
		sf_buf_byte(&b, ':');
		print_away(&l->at[i], sf_buf_cstr(&b));
		sf_buf_release(&b);
	}
}

/* One that was asked for: a line a fact. */
static void print_one(const struct mount *m)
{
	for (int c = 0; c < NCOLUMNS; c++) {
		struct sf_buf b = { 0 };
		cell(&b, m, c);
		if (m->counters || c <= PID)
			printf("%-10s  %s\n", c == PID && !m->counters ? "state" : heads[c],
			       sf_buf_cstr(&b));
		sf_buf_release(&b);
	}
	const struct cJSON *requests, *bytes, *kind = NULL;
	if (!m->counters || sf_json_get_obj(m->counters, "fetched_requests", &requests, NULL) < 0 ||
	    sf_json_get_obj(m->counters, "fetched_bytes", &bytes, NULL) < 0)
		return;
	printf("%-10s", "fetched");
	for (const char *sep = "  "; (kind = sf_json_next(requests, kind)); sep = ", ") {
		uint64_t n = 0, size = 0;
		char text[32];
		sf_json_get_u64(requests, sf_json_name(kind), &n, NULL);
		sf_json_get_u64(bytes, sf_json_name(kind), &size, NULL);
		printf("%s%s %" PRIu64 " (%s)", sep, sf_json_name(kind), n,
		       sf_human_size(size, text));
	}
	printf("\n%-10s  %" PRIu64 ", %" PRIu64 " of them stale; %" PRIu64
	       " requests were made again\n",
	       "errors", number(m, "errors"), number(m, "stale"), number(m, "retried"));
	print_away(m, "waiting");
}

/* Where it is, how full, and whether it takes more. */
static void print_cache_disk(const struct cJSON *c)
{
	const char *dir, *why;
	uint64_t limit = 0, kept = 0;
	char size[2][32];
	struct sf_buf b = { 0 };

	if (sf_json_get_str(c, "dir", &dir, NULL) < 0)
		return;
	sf_json_get_u64(c, "limit", &limit, NULL);
	sf_json_get_u64(c, "kept", &kept, NULL);
	sf_escape_text(&b, dir, strlen(dir));
	printf("%-10s  %s of %s in %s\n", "kept", sf_human_size(kept, size[0]),
	       sf_human_size(limit, size[1]), sf_buf_cstr(&b));
	sf_buf_release(&b);
	if (sf_json_get_str(c, "keeps_nothing", &why, NULL) < 0)
		return;
	sf_escape_text(&b, why, strlen(why));
	printf("%-10s  nothing more is kept there: %s\n", "", sf_buf_cstr(&b));
	sf_buf_release(&b);
}

/* What of far files came from disk. */
static void print_cache(const struct mount *m)
{
	static const char *const names[] = { "asked_bytes", "hit_bytes",        "hits",
		                             "misses",      "fetched_requests", "fetched_bytes" };
	const struct cJSON *c;
	uint64_t v[SF_ARRAY_LEN(names)] = { 0 };
	char size[3][32];

	if (!m->counters || sf_json_get_obj(m->counters, "cache", &c, NULL) < 0)
		return;
	for (size_t i = 0; i < SF_ARRAY_LEN(names); i++)
		sf_json_get_u64(c, names[i], &v[i], NULL);
	printf("%-10s  %s asked, %s of it kept here (%" PRIu64 " hits, %" PRIu64
	       " misses), %s fetched in %" PRIu64 " requests\n",
	       "cache", sf_human_size(v[0], size[0]), sf_human_size(v[1], size[1]), v[2], v[3],
	       sf_human_size(v[5], size[2]), v[4]);
	print_cache_disk(c);
}

static void print_prefetch(const struct mount *m)
{
	const struct cJSON *p;
	uint64_t bytes = 0, total = 0;
	char size[2][32];

	if (!m->counters || sf_json_get_obj(m->counters, "prefetch", &p, NULL) < 0)
		return;
	sf_json_get_u64(p, "bytes", &bytes, NULL);
	sf_json_get_u64(p, "total", &total, NULL);
	printf("%-10s  %s of %s\n", "prefetch", sf_human_size(bytes, size[0]),
	       sf_human_size(total, size[1]));
}

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	const struct status_options *o = opt;
	struct sf_error err = SF_ERROR_INIT;
	SF_FREE char *only = argc ? sf_mountpoint_resolve(argv[0]) : NULL;
	struct status st = { .only = argc ? (only ? only : argv[0]) : NULL };
	(void)common;

	int r = sf_mounts_each(find, &st, &err);
	if (r == -ENOMEM)
		sf_fail(&err, r, "out of memory");
	if (r >= 0 && o->json)
		print_json(&st.mounts);
	else if (r >= 0 && argc && st.mounts.n) {
		print_one(&st.mounts.at[st.mounts.n - 1]);
		print_cache(&st.mounts.at[st.mounts.n - 1]);
		print_prefetch(&st.mounts.at[st.mounts.n - 1]);
	} else if (r >= 0 && st.mounts.n)
		print_table(&st.mounts);
	if (r >= 0 && argc && !st.mounts.n)
		r = sf_fail(&err, -ENOENT, "'%s': no shardfuse mount there", argv[0]);
	release(&st.mounts);
	return r < 0 ? sf_cli_error(SF_EXIT_FAILED, &err) : SF_EXIT_OK;
}

const struct sf_cmd sf_cmd_status = {
	.name = "status",
	.usage = "[MOUNTPOINT] [--json]",
	.about = "list live mounts: pid, source, options, uptime, reads, hit rate",
	.example = "shardfuse status\nshardfuse status /mnt/c",
	.options = options,
	.min_args = 0,
	.max_args = 1,
	.opt_size = sizeof(struct status_options),
	.run = run,
};
