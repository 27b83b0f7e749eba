#include "config.h"

#include <errno.h>
#include <fts.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/text.h"
#include "cli/write_anew.h"
#include "store/url.h"
#include "tool/interrupt.h"
#include "tool/npy_session.h"
#include "tool/reshard.h"

/* Bytes of its files. */
static uint64_t bytes_of(char *dir)
{
	char *dirs[2] = { dir, NULL };
	FTS *walk = fts_open(dirs, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	uint64_t sum = 0;
	FTSENT *e;

	while (walk && (e = fts_read(walk)) != NULL)
		if (e->fts_info == FTS_F)
			sum += (uint64_t)e->fts_statp->st_size;
	if (walk)
		fts_close(walk);
	return sum;
}

static int add_object(void *arg, const struct sf_objinfo *info)
{
	*(uint64_t *)arg += info->size != UINT64_MAX ? info->size : 0; /* that is a directory */
	return 0;
}

/* Of the objects below a prefix. */
static int bytes_below(struct sf_io *io, const struct sf_store_options *opt, const char *url,
                       uint64_t *ret, struct sf_error *err)
{
	struct sf_store *s;
	int r = sf_store_open(io, url, opt, &s, err);

	if (r < 0)
		return r;
	*ret = 0;
	r = s->ops->list(s, "", UINT_MAX, add_object, ret, err);
	sf_store_free(s);
	return r;
}

static int report(struct sf_io *io, const struct sf_store_options *opt, const char *target,
                  const struct sf_progress *progress, bool quiet, struct sf_error *err)
{
	const bool url = sf_url_scheme(target) != 0;
	SF_FREE char *at = url ? sf_url_shown(target) : strdup(target);
	uint64_t bytes;

	if (!at)
		return sf_fail(err, -ENOMEM, "no memory for the target's name");
	if (!quiet) {
		/* it is there: a server that does not list it now makes that no failure */
		if (!url)
			bytes = bytes_of(at);
		else if (bytes_below(io, opt, target, &bytes, NULL) < 0)
			bytes = atomic_load(&progress->total);
		sf_put_name(stdout, at, strlen(at));
		printf("\t%" PRIu64 "\n", bytes);
	}
	sf_progress_summary(progress, "wrote");
	return 0;
}

/* One after another, with what they share in @o's io. */
static int open_all(struct sf_session *s, struct sf_session **at, char *const *source, size_t n,
                    const struct sf_session_options *o, size_t *ret_open, struct sf_error *err)
{
	int r = 0;

	for (*ret_open = 0; *ret_open < n && r >= 0; *ret_open += r >= 0) {
		at[*ret_open] = &s[*ret_open];
		r = sf_is_npy_name(source[*ret_open])
		            ? sf_npy_session_open(at[*ret_open], o, source[*ret_open], err)
		            : sf_session_open(at[*ret_open], o, source[*ret_open], err);
	}
	return r;
}

static int write_all(const struct sf_session_options *given, char *const *source, size_t n,
                     const char *target, const struct sf_reshard_options *o, bool quiet,
                     struct sf_error *err)
{
	struct sf_session_options own = *given;
	SF_FREE struct sf_session *s = sf_alloc_array(n, sizeof(*s));
	SF_FREE struct sf_session **at = sf_alloc_array(n, sizeof(struct sf_session *));
	struct sf_io io = { 0 };
	size_t open = 0;
	int r;

	if (!s || !at) {
		r = sf_fail(err, -ENOMEM, "no memory for %zu sources", n);
		if (o->comm)
			sf_reshard_give_up(target, o, err->msg);
		return r;
	}
	own.memory -= o->memory;
	r = sf_session_io(&io, &own, err);
	own.io = &io;
	if (r >= 0)
		r = open_all(s, at, source, n, &own, &open, err);
	if (r >= 0)
		r = sf_reshard(at, n, target, o, err);
	else if (o->comm)
		sf_reshard_give_up(target, o, err->msg);
	if (r >= 0)
		r = report(&io, &own.store, target, o->progress, quiet, err);
	while (open > 0)
		sf_session_close(&s[--open]);
	sf_io_release(&io);
	return r;
}

/* All ranks have the message. */
static int failed(const struct sf_anew_options *o, int code, const struct sf_error *err)
{
	return o->comm && o->comm->rank != 0 ? code : sf_cli_error(code, err);
}

int sf_write_anew(const struct sf_common *common, char *const *source, size_t n, const char *target,
                  const struct sf_anew_options *o)
{
	const bool quiet = common->quiet || (o->comm && o->comm->rank != 0);
	struct sf_progress progress;
	struct sf_error err = SF_ERROR_INIT;
	const struct sf_reshard_options opt = {
		.format = o->format,
		.ranks = o->ranks,
		.force = o->force,
		.no_optim = o->no_optim,
		.memory = common->session.memory / 2,
		.comm = o->comm,
		.store = &common->session.store,
		.log = common->session.log,
		.progress = &progress,
	};
	int r;

	if (common->session.view.objects == SF_OBJECTS_PLAIN)
		r = sf_fail(&err, -EINVAL,
		            "--objects plain: values are written as they are, or not (none)");
	else
		r = sf_reshard_check(target, &opt, &err);
	if (r < 0)
		return failed(o, SF_EXIT_USAGE, &err);
	sf_interrupt_init();
	sf_progress_init(&progress, quiet);
	r = write_all(&common->session, source, n, target, &opt, quiet, &err);
	return r < 0 ? failed(o, SF_EXIT_FAILED, &err) : SF_EXIT_OK;
}
