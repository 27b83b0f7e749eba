#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/live_mount.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "lib/session.h"
#include "store/cache_drop.h"
#include "store/url.h"
#include "tool/control.h"

#define ANSWER_MS 60000 /* a daemon removes what takes a while */

struct drop_options {
	bool json, all;
};

static const struct sf_opt options[] = {
	{ "all", 0, SF_OPT_FLAG, offsetof(struct drop_options, all), NULL, NULL,
	  "everything in the cache directory" },
	{ "json", 0, SF_OPT_FLAG, offsetof(struct drop_options, json), NULL, NULL, "print JSON" },
	{ 0 },
};

/* What went, and from where. */
struct dropping {
	const struct sf_common *common;
	bool json, quiet;
	uint64_t lines;
	struct sf_cache_dropped sum;
};

static void report(struct dropping *d, const char *arg, const char *dir,
                   const struct sf_cache_dropped *what)
{
	char size[32];

	d->sum.objects += what->objects;
	d->sum.bytes += what->bytes;
	if (d->json) {
		printf("%s\n  {\"source\": ", d->lines++ ? "," : "");
		if (arg)
			sf_put_json(stdout, arg, strlen(arg));
		else
			printf("null");
		printf(", \"cache_dir\": ");
		sf_put_json(stdout, dir, strlen(dir));
		printf(", \"files\": %" PRIu64 ", \"bytes\": %" PRIu64 "}", what->objects,
		       what->bytes);
	} else if (!d->quiet) {
		printf("dropped %" PRIu64 " file%s, %s, from ", what->objects,
		       sf_plural(what->objects), sf_human_size(what->bytes, size));
		sf_put_name(stdout, dir, strlen(dir));
		putchar('\n');
	}
}

/* @source NULL: everything. */
static int drop_named(struct dropping *d, const char *arg, const char *source, struct sf_error *err)
{
	const char *dir = d->common->session.store.cache_dir;
	struct sf_cache_dropped there, gone;
	SF_FREE char *path = NULL;
	int r = sf_cache_drop_look(dir, &there, &path, err);

	if (r >= 0)
		r = sf_cache_drop(path, source, &gone, err);
	if (r >= 0)
		report(d, arg, path, &gone);
	return r;
}

/* Its daemon knows where its cache is, and which server's SOURCE it means. */
static int drop_mounted(struct dropping *d, const char *arg, const struct sf_live_mount *m,
                        struct sf_error *err)
{
	struct sf_cache_dropped gone;
	struct sf_control c;
	int r;

	if (strcmp(m->path, m->target) != 0)
		return sf_fail(err, -EINVAL,
		               "'%s': a part of the mount '%s', which is dropped whole", arg,
		               m->target);
	if (d->common->session.store.cache_dir) /* the daemon need not be asked, nor be alive */
		return drop_named(d, arg, m->source, err);
	r = sf_control_ask(m->target, SF_CONTROL_DROP, ANSWER_MS, &c, err);
	if (r < 0 && r != -EPERM && r != -EACCES)
		return sf_fail_ctx(err, r, "--cache-dir says where to look without it");
	if (r < 0)
		return r;
	if (!(c.flags & SF_CONTROL_FAR))
		return sf_fail(err, -EINVAL, "'%s': of local files nothing is kept", arg);
	if (!(c.flags & SF_CONTROL_CACHED))
		return sf_fail(err, -EINVAL, "'%s': it keeps nothing of what it fetches", arg);
	gone = (struct sf_cache_dropped){ c.objects, c.bytes };
	report(d, arg, c.dir, &gone);
	return 0;
}

/* As stores call it, which is how objects are named in the cache. Nothing is asked of a server. */
static int drop_url(struct dropping *d, const char *arg, struct sf_error *err)
{
	struct sf_session_options opt = d->common->session;
	struct sf_store *store = NULL;
	struct sf_io io;
	int r;

	opt.store.cache_size = 0; /* it is opened for its name, a file too */
	opt.store.cache_size_given = true;
	r = sf_session_io(&io, &opt, err);
	if (r < 0)
		return r;
	r = sf_store_open(&io, arg, &opt.store, &store, err);
	if (r >= 0)
		r = drop_named(d, arg, store->source, err);
	sf_store_free(store);
	sf_io_release(&io);
	return r;
}

static int drop(struct dropping *d, const char *arg, struct sf_error *err)
{
	struct sf_live_mount m;
	int r;

	if (sf_url_scheme(arg))
		return drop_url(d, arg, err);
	r = sf_live_mount_find(arg, &m, err);
	if (r < 0)
		return r;
	if (!r)
		return sf_fail(err, -EINVAL,
		               "'%s': neither a mount nor a URL: of local files nothing is kept",
		               arg);
	r = drop_mounted(d, arg, &m, err);
	sf_live_mount_release(&m);
	return r;
}

/* Nothing was named: what there is, and what to say to be rid of it. */
static int ask_which(const struct sf_common *common)
{
	struct sf_cache_dropped there;
	struct sf_error err = SF_ERROR_INIT;
	SF_FREE char *path = NULL;
	char size[32];

	if (sf_cache_drop_look(common->session.store.cache_dir, &there, &path, &err) < 0)
		return sf_cli_error(SF_EXIT_FAILED, &err);
	sf_fail(&err, -EINVAL,
	        "drop: which SOURCE or mount? The cache '%s' has %" PRIu64
	        " file%s, %s: --all removes everything",
	        path, there.objects, sf_plural(there.objects), sf_human_size(there.bytes, size));
	return sf_cli_error(SF_EXIT_USAGE, &err);
}

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	const struct drop_options *o = opt;
	struct dropping d = { .common = common, .json = o->json, .quiet = common->quiet };
	struct sf_error err = SF_ERROR_INIT;
	int code = SF_EXIT_OK;

	if (o->all && argc) {
		sf_fail(&err, -EINVAL, "drop: --all or a SOURCE, not both");
		return sf_cli_error(SF_EXIT_USAGE, &err);
	}
	if (!o->all && !argc)
		return ask_which(common);
	if (o->json)
		printf("{\"schema\": 1, \"dropped\": [");
	fflush(stdout); /* a child is forked to ask a mount */
	if (o->all && drop_named(&d, NULL, NULL, &err) < 0)
		code = sf_cli_error(SF_EXIT_FAILED, &err);
	for (int i = 0; i < argc; i++) {
		struct sf_error why = SF_ERROR_INIT;
		if (drop(&d, argv[i], &why) < 0)
			code = sf_cli_error(SF_EXIT_FAILED, &why);
	}
	if (o->json)
		printf("%s],\n \"files\": %" PRIu64 ", \"bytes\": %" PRIu64 "}\n",
		       d.lines ? "\n " : "", d.sum.objects, d.sum.bytes);
	return code;
}

const struct sf_cmd sf_cmd_drop = {
	.name = "drop",
	.usage = "SOURCE… | --all [--json]",
	.about = "remove from disk what is kept of servers' files: of SOURCE or a mount, or of all",
	.example = "shardfuse drop s3://bucket/runs/r1\nshardfuse drop /mnt/c",
	.options = options,
	.common = true,
	.min_args = 0,
	.max_args = -1,
	.opt_size = sizeof(struct drop_options),
	.run = run,
};
