#include "config.h"
#include <inttypes.h>
#include <stdio.h>
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/live_mount.h"
#include "cli/terminal.h"
#include "cli/text.h"
#include "lib/session.h"
#include "store/cache_drop.h"
#include "store/url.h"

struct drop_options {
	bool json;
};

static const struct sf_opt options[] = {
	{ "json", 0, SF_OPT_FLAG, offsetof(struct drop_options, json), NULL, NULL, "print JSON" },
	{ 0 },
};

/* As stores call it, which is how objects are named in the cache. Nothing is asked of a server. */
static int shown_name(const struct sf_common *common, const char *arg, char **ret,
                      struct sf_error *err)
{
	struct sf_live_mount m;
	struct sf_session s;
	int r;

	if (!sf_url_scheme(arg)) {
		r = sf_live_mount_find(arg, &m, err);
		if (r < 0)
			return r;
		if (!r)
			return sf_fail(err, -EINVAL,
			               "'%s': neither a mount nor a URL: of local files nothing is "
			               "kept",
			               arg);
		*ret = SF_STEAL(m.source);
		sf_live_mount_release(&m);
		return 0;
	}
	struct sf_session_options opt = common->session;
	opt.store.cache_size = 0; /* it is opened for its name */
	opt.store.cache_size_given = true;
	r = sf_session_store(&s, &opt, arg, err);
	if (r < 0)
		return r;
	*ret = strdup(s.store->source);
	sf_session_close(&s);
	return *ret ? 0 : sf_fail(err, -ENOMEM, "'%s': no memory", arg);
}

static int drop(const struct sf_common *common, const char *arg, struct sf_cache_dropped *sum,
                struct sf_error *err)
{
	SF_FREE char *source = NULL;
	struct sf_cache_dropped d;
	int r = arg ? shown_name(common, arg, &source, err) : 0;

	if (r >= 0)
		r = sf_cache_drop(common->session.store.cache_dir, source, &d, err);
	if (r >= 0) {
		sum->objects += d.objects;
		sum->bytes += d.bytes;
	}
	return r;
}

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	const struct drop_options *o = opt;
	struct sf_cache_dropped sum = { 0 };
	int code = SF_EXIT_OK;
	char size[32];

	for (int i = 0; i < SF_MAX(argc, 1); i++) {
		struct sf_error err = SF_ERROR_INIT;
		if (drop(common, argc ? argv[i] : NULL, &sum, &err) < 0)
			code = sf_cli_error(SF_EXIT_FAILED, &err);
	}
	if (o->json)
		printf("{\"schema\": 1, \"files\": %" PRIu64 ", \"bytes\": %" PRIu64 "}\n",
		       sum.objects, sum.bytes);
	else
		printf("dropped %" PRIu64 " file%s, %s\n", sum.objects, sf_plural(sum.objects),
		       sf_human_size(sum.bytes, size));
	return code;
}

const struct sf_cmd sf_cmd_drop = {
	.name = "drop",
	.usage = "[SOURCE…] [--json]",
	.about = "remove from disk what is kept of servers' files: of SOURCE, else of all",
	.example = "shardfuse drop s3://bucket/runs/r1\nshardfuse drop",
	.options = options,
	.common = true,
	.min_args = 0,
	.max_args = -1,
	.opt_size = sizeof(struct drop_options),
	.run = run,
};
