#include "config.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/log.h"
#include "base/mem.h"
#include "base/memory_limit.h"
#include "catalog/map_pick.h"
#include "ckpt/ckpt_builder.h"
#include "format/inside/inside.h"
#include "format/run.h"
#include "lib/session.h"
#include "lib/session_watch.h"
#include "store/url.h"
#include "view/hf/hf_companions.h"

void sf_session_options_init(struct sf_session_options *o)
{
	*o = (struct sf_session_options){ .memory = sf_memory_default(""),
		                          .threads = 16,
		                          .timeout_s = 60,
		                          .trace_fd = -1,
		                          .refresh_s = 10 };
	sf_view_options_init(&o->view);
}

int sf_session_io(struct sf_io *io, const struct sf_session_options *opt, struct sf_error *err)
{
	int r = sf_io_init(io, opt->threads, err);

	if (r < 0) /* a limit of processes or of address space, which fewer threads may fit in */
		return sf_fail_ctx(err, r, "--threads=%u", opt->threads);
	sf_budget_set_limit(io->budget, opt->memory);
	io->timeout_ms = SF_MIN(opt->timeout_s, UINT32_MAX / 1000) * 1000;
	io->log = opt->log;
	io->guard = opt->guard;
	io->trace_fd = opt->trace_fd;
	return 0;
}

static int begin(struct sf_session *s, const struct sf_session_options *opt, struct sf_error *err)
{
	int r = 0;

	*s = (struct sf_session){ .opt = opt, .view = opt->view, .io = opt->io };
	s->view.join_rules = opt->join_rules;
	if (!s->io) {
		r = sf_session_io(&s->own_io, opt, err);
		s->io = &s->own_io; /* it is there for good: sessions are not moved */
	}
	return r;
}

int sf_session_store(struct sf_session *s, const struct sf_session_options *opt, const char *source,
                     struct sf_error *err)
{
	int r = begin(s, opt, err);

	if (r >= 0) {
		SF_FREE char *shown = sf_url_shown(source);
		struct sf_session_watch *watch =
			sf_session_watch_begin(s->io, "opening", shown ? shown : "SOURCE");
		r = sf_inside_open(s->io, source, &opt->store, &s->store, err);
		sf_session_watch_end(watch);
	}
	if (r < 0)
		sf_session_close(s);
	return r;
}

/* hf/ wants config.json and friends: objects of a store of their own. Only a local checkpoint has a
 * neighbourhood to look into. The store holds its directory, so that a daemon may change its own,
 * and a mount may cover this one. What fails here is told when hf/ is made. */
static void find_companions(struct sf_session *s, const char *source)
{
	struct sf_error err = SF_ERROR_INIT;

	if (s->view.hf_files)
		s->view.hf_files_found = s->view.hf_files;
	else if (!sf_url_scheme(source) && sf_hf_find_files(source, &s->hf_found) == 0)
		s->view.hf_files_found = s->hf_found;
	if (!s->view.hf_files_found)
		return;
	if (sf_store_open(s->io, s->view.hf_files_found, &s->opt->store, &s->hf_store, &err) >= 0) {
		s->view.hf_store = s->hf_store;
		return;
	}
	s->hf_why = strdup(err.msg);
	s->view.hf_why = s->hf_why ? s->hf_why : "no memory";
}

/* Messages of files have their names below the source: whoever has many must see of which. Those
 * of the checkpoint as a whole begin with it. */
static int name_source(const char *source, int code, struct sf_error *err)
{
	size_t len = strlen(source);

	if (err && err->msg[0] == '\'' && strncmp(err->msg + 1, source, len) == 0 &&
	    err->msg[len + 1] == '\'')
		return code;
	return sf_fail_ctx(err, code, "'%s'", source);
}

/* A checkpoint without keys: what the tree of a run stands on. */
static int load_run(struct sf_session *s, struct sf_error *err)
{
	struct sf_ckpt_builder *b = NULL;
	int r = sf_run_new(s->store, s->opt->source_format, s->opt->refresh_s * 1000, &s->run, err);

	if (r >= 0)
		r = sf_ckpt_builder_new("run", s->store->source, &b, err);
	if (r >= 0)
		r = sf_ckpt_builder_finish(b, &s->ckpt, err);
	if (r < 0)
		sf_ckpt_builder_free(b);
	sf_view_options_init(&s->run_view);
	return r;
}

int sf_session_load(struct sf_session *s, struct sf_error *err)
{
	bool run = false;
	const struct sf_load_options load = { .source_format = s->opt->source_format,
		                              .complete = s->opt->complete,
		                              .ret_run = s->opt->runs ? &run : NULL,
		                              .join_rules = s->opt->join_rules };
	struct sf_session_watch *watch = sf_session_watch_begin(s->io, "loading", s->store->source);
	int r = sf_ckpt_load(s->store, &load, &s->ckpt, err);

	if (run) {
		if (err)
			*err = (struct sf_error)SF_ERROR_INIT;
		r = load_run(s, err);
	}
	sf_session_watch_end(watch);
	if (r < 0)
		name_source(s->store->source, r, err);
	else if (!run)
		r = sf_map_picks(s->ckpt, &s->view, err);
	if (r >= 0)
		r = sf_catalog_new(s->ckpt, run ? &s->run_view : &s->view, &s->catalog, err);
	if (r >= 0)
		r = sf_reader_new(s->ckpt, s->store, &s->reader, err);
	if (r >= 0)
		r = run ? sf_tree_new_run(s->catalog, s->reader, s->run, &s->tree, err)
		        : sf_tree_new(s->catalog, s->reader, &s->tree, err);
	if (r < 0)
		sf_session_close(s);
	return r;
}

static int open_it(struct sf_session *s, const struct sf_session_options *opt, const char *source,
                   struct sf_error *err)
{
	int r = sf_session_store(s, opt, source, err);
	if (r >= 0) {
		find_companions(s, s->store->source); /* a path: file:// and %XX are taken off */
		r = sf_session_load(s, err);
	}
	return r;
}

/* The run that RUN/latest is in: malloc'ed, NULL: it is not called so. */
static char *run_of_latest(const char *source)
{
	size_t len = strlen(source);

	while (len && source[len - 1] == '/')
		len--;
	if (len < 6 || memcmp(source + len - 6, "latest", 6) != 0 ||
	    (len > 6 && source[len - 7] != '/'))
		return NULL;
	return len == 6 ? strdup(".") : strndup(source, len - 6);
}

static int open_latest(struct sf_session *s, const struct sf_session_options *opt, const char *run,
                       struct sf_error *err)
{
	struct sf_session above;
	struct sf_run *steps = NULL;
	struct sf_run_step step = { 0 };
	uint32_t latest;
	SF_FREE char *source = NULL;
	int r = sf_session_store(&above, opt, run, err);

	if (r < 0)
		return r;
	r = sf_run_new(above.store, opt->source_format, 0, &steps, err);
	if (r >= 0)
		r = sf_run_latest(steps, &latest);
	if (r >= 0) {
		sf_run_step(steps, latest, &step);
		const char *slash = run[strlen(run) - 1] == '/' ? "" : "/";
		if (asprintf(&source, "%s%s%s", run, slash, step.name) < 0)
			r = -ENOMEM;
	}
	sf_run_free(steps);
	sf_session_close(&above);
	return r < 0 ? r : open_it(s, opt, source, err);
}

int sf_session_open(struct sf_session *s, const struct sf_session_options *opt, const char *source,
                    struct sf_error *err)
{
	int r = open_it(s, opt, source, err);
	SF_FREE char *run =
		r == -ENOENT || r == -ENOTDIR || r == -ENOTSUP ? run_of_latest(source) : NULL;
	struct sf_error why = SF_ERROR_INIT;

	if (!run || open_latest(s, opt, run, &why) < 0)
		return r;
	if (err)
		*err = (struct sf_error)SF_ERROR_INIT;
	return 0;
}

int sf_session_open_below(struct sf_session *s, const struct sf_session_options *opt,
                          const struct sf_session *above, const char *dir, struct sf_error *err)
{
	int r = begin(s, opt, err);

	if (r >= 0)
		r = sf_store_below(above->store, dir, &s->store, err);
	if (r < 0) {
		sf_session_close(s);
		return r;
	}
	find_companions(s, s->store->source);
	return sf_session_load(s, err);
}

void sf_session_close(struct sf_session *s)
{
	sf_tree_free(s->tree);
	sf_run_free(s->run);
	sf_reader_free(s->reader);
	sf_catalog_free(s->catalog);
	sf_ckpt_free(s->ckpt);
	sf_store_free(s->hf_store);
	sf_store_free(s->store);
	sf_io_release(&s->own_io); /* nothing where there is none */
	free(s->hf_found);
	free(s->hf_why);
	*s = (struct sf_session){ 0 };
}
