#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/vec.h"
#include "format/format.h"
#include "format/format_dir.h"
#include "format/run_dir.h"
#include "format/run_look.h"
#include "store/source.h"

#define FILES_MAX (1u << 24) /* of one listing */
#define ALL_AT_ONCE 8        /* steps of a server: all it has in one listing from then on */
#define TRACKER_MAX 4096     /* bytes */

SF_VEC(run_names, const char *);

struct look {
	struct sf_run *run;
	struct sf_store *store;
	const char *format;
	struct sf_arena arena;
	struct run_names dirs;
	struct sf_objinfo tracker; /* name NULL: there is none */
	char *tracked;             /* what it says */
	struct sf_arena part;      /* of the steps that are being judged */
	struct sf_objinfos files;
};

/* Source: NVIDIA/Megatron-LM training/checkpointing.py (get_checkpoint_tracker_filename),
 * deepspeedai/DeepSpeed runtime/engine.py ("latest"). The first one that is there counts. */
static const char *const trackers[] = { "latest_checkpointed_iteration.txt", "latest" };

static int add_top(void *arg, const struct sf_objinfo *info)
{
	struct look *l = arg;
	const char *name;

	if (l->dirs.n >= FILES_MAX)
		return -E2BIG;
	if (info->size != UINT64_MAX) {
		for (size_t i = 0; i < SF_ARRAY_LEN(trackers); i++)
			if (strcmp(info->name, trackers[i]) == 0 && (!l->tracker.name || i == 0)) {
				struct sf_objinfos one = { 0 };
				if (sf_objinfos_keep(&one, &l->arena, info) < 0)
					return -ENOMEM;
				l->tracker = one.at[0];
				sf_objinfos_release(&one);
			}
		return 0;
	}
	if (sf_run_dir_is_alias(info->name))
		return SF_LIST_SKIP;
	name = sf_arena_strdup(&l->arena, info->name, strlen(info->name));
	return !name || run_names_push(&l->dirs, name) < 0 ? -ENOMEM : SF_LIST_SKIP;
}

/* Those called as steps are; where there are none, those that make up one; else all, the newest of them. */
static void choose(struct look *l, bool *ret_named)
{
	bool (*const rule[])(const char *) = { sf_run_dir_is_step, sf_run_dir_is_part };
	size_t n = 0;

	if (l->dirs.n)
		qsort(l->dirs.at, l->dirs.n, sizeof(*l->dirs.at), sf_run_dir_compare);
	for (size_t k = 0; k < SF_ARRAY_LEN(rule) && !n; k++)
		for (size_t i = 0; i < l->dirs.n; i++)
			if (rule[k](l->dirs.at[i])) {
				const char *name = l->dirs.at[i];
				l->dirs.at[i] = l->dirs.at[n];
				l->dirs.at[n++] = name;
			}
	*ret_named = n > 0;
	if (n) {
		l->dirs.n = n;
	} else if (l->dirs.n > SF_RUN_DIR_LOOKED) {
		memmove(l->dirs.at, l->dirs.at + l->dirs.n - SF_RUN_DIR_LOOKED,
		        SF_RUN_DIR_LOOKED * sizeof(*l->dirs.at));
		l->dirs.n = SF_RUN_DIR_LOOKED;
	}
	if (l->dirs.n)
		qsort(l->dirs.at, l->dirs.n, sizeof(*l->dirs.at), sf_run_dir_compare);
}

static int add_file(void *arg, const struct sf_objinfo *info)
{
	struct look *l = arg;

	if (info->size == UINT64_MAX)
		return 0;
	if (l->files.n >= FILES_MAX)
		return -E2BIG;
	return sf_objinfos_keep(&l->files, &l->part, info);
}

/* Of a listing of all: what was not asked for is not looked into. */
static int add_wanted(void *arg, const struct sf_objinfo *info)
{
	struct look *l = arg;

	if (info->size == UINT64_MAX) {
		const char *name = info->name;
		return l->dirs.n &&
		                       bsearch(&name, l->dirs.at, l->dirs.n, sizeof(*l->dirs.at),
		                               sf_run_dir_compare) &&
		                       sf_run_look_wanted(l->run, name)
		               ? 0
		               : SF_LIST_SKIP;
	}
	return strchr(info->name, '/') ? add_file(arg, info) : 0;
}

/* ---- judging ---- */

static void hash_files(const struct sf_objinfo *files, size_t n, struct sf_run_judged *j)
{
	uint64_t h = SF_FNV1A;

	for (size_t i = 0; i < n; i++) {
		const struct sf_version *v = &files[i].version;
		const uint64_t at[] = { files[i].size, v->dev, v->ino, (uint64_t)v->mtime_ns };
		h = sf_fnv1a(h, files[i].name, strlen(files[i].name) + 1);
		h = sf_fnv1a(h, at, sizeof(at));
		if (v->etag)
			h = sf_fnv1a(h, v->etag, strlen(v->etag) + 1);
		j->mtime_ns = SF_MAX(j->mtime_ns, v->mtime_ns);
	}
	j->version = h;
}

/* The files [from, to) lie in one directory below: as its own listing, in *ret. */
static int relative(const struct sf_objinfo *files, size_t from, size_t to, size_t cut,
                    struct sf_objinfo **ret)
{
	*ret = sf_alloc_array(to - from, sizeof(**ret));
	for (size_t i = from; *ret && i < to; i++) {
		(*ret)[i - from] = files[i];
		(*ret)[i - from].name += cut;
	}
	return *ret ? 0 : -ENOMEM;
}

/* Where the files end that lie in the directory of the first @len bytes of files[at]'s name. */
static size_t end_of(const struct sf_objinfo *files, size_t at, size_t n, size_t len)
{
	size_t end = at;

	while (end < n && strncmp(files[end].name, files[at].name, len) == 0)
		end++;
	return end;
}

/* Is one of its directories a checkpoint that makes up the step? @why: why the first that may be one
 * is none. */
static bool has_part(struct look *l, struct sf_store *store, const struct sf_objinfo *files,
                     size_t n, struct sf_error *why)
{
	bool found = false, told = false;

	for (size_t i = 0, end; i < n && !found; i = end) {
		const char *slash = strchr(files[i].name, '/');
		SF_FREE struct sf_objinfo *own = NULL;
		SF_FREE char *dir = NULL;
		struct sf_store *below = NULL;
		end = i + 1;
		if (!slash)
			continue;
		end = end_of(files, i, n, (size_t)(slash - files[i].name) + 1);
		dir = strndup(files[i].name, (size_t)(slash - files[i].name));
		if (!dir || (!sf_run_dir_is_part(dir) && !sf_format_has_marker(files, n, dir)))
			continue;
		found = relative(files, i, end, strlen(dir) + 1, &own) >= 0 &&
		        sf_store_below(store, dir, &below, NULL) >= 0 &&
		        sf_format_check(below, l->format, own, end - i, told ? NULL : why) >= 0;
		told = true;
		sf_store_free(below);
	}
	return found;
}

/*
 * Megatron's legacy checkpoints have nothing that is written last but the run's tracker: of a later
 * step than it says nobody knows whether it is all there.
 */
static int check_tracked(const struct look *l, const char *name, const struct sf_objinfo *files,
                         size_t n, struct sf_error *err)
{
	const int64_t step = sf_run_dir_step(name, strlen(name));
	char *end;
	bool legacy = false;

	if (!l->tracked || *l->tracked < '0' || *l->tracked > '9' || step < 0)
		return 0;
	for (size_t i = 0; i < n && !legacy; i++)
		legacy = sf_has_suffix(files[i].name, "/model_optim_rng.pt");
	long long at = strtoll(l->tracked, &end, 10);
	if (!legacy || *end || step <= at)
		return 0;
	return sf_fail(err, -ENOENT, "not committed: %s says %lld", l->tracker.name, at);
}

/* @files: those of the step, named as in it. */
static int judge(struct look *l, const char *name, const struct sf_objinfo *files, size_t n,
                 struct sf_error *err)
{
	struct sf_run_judged j = { .why = SF_ERROR_INIT };
	struct sf_store *store = NULL;
	const struct sf_objinfo *marks;
	char *full = NULL;

	hash_files(files, n, &j);
	j.code = sf_store_below(l->store, name, &store, &j.why);
	if (j.code >= 0)
		j.code = sf_format_check(store, l->format, files, n, &j.why);
	if ((j.code == -ENOENT || j.code == -ENOTSUP) && store &&
	    has_part(l, store, files, n, &j.why))
		j.code = 0;
	if (j.code >= 0)
		j.code = check_tracked(l, name, files, n, &j.why);
	marks = sf_format_listed(files, n, ".metadata.json");
	if (marks && asprintf(&full, "%s/%s", name, marks->name) >= 0)
		j.marks = full;
	sf_run_look_judged(l->run, name, &j);
	sf_store_free(store);
	free(full);
	return j.code == -ENOMEM ? sf_fail(err, -ENOMEM, "'%s': no memory", name) : 0;
}

static bool is_closed(int code)
{
	return code == -ENOENT || code == -ENOTDIR || code == -ELOOP || code == -EACCES ||
	       code == -EPERM || code == -ENOTCONN;
}

static void forget_part(struct look *l)
{
	sf_objinfos_release(&l->files);
	sf_arena_release(&l->part);
	l->part = (struct sf_arena){ 0 };
}

/* Those of l->files, which are sorted, that lie in @name. */
static int judge_listed(struct look *l, const char *name, size_t from, size_t to,
                        struct sf_error *err)
{
	SF_FREE struct sf_objinfo *own = NULL;
	int r = relative(l->files.at, from, to, strlen(name) + 1, &own);

	return r < 0 ? sf_fail(err, r, "'%s': no memory", name)
	             : judge(l, name, own, to - from, err);
}

static int look_into(struct look *l, const char *name, bool named, struct sf_error *err)
{
	struct sf_error why = SF_ERROR_INIT;
	int r = l->store->ops->list(l->store, name, 1, add_file, l, &why);

	if (is_closed(r)) {
		struct sf_run_judged j = { .code = r, .why = why };
		if (r != -ENOENT && named && sf_run_look_seen(l->run, name) >= 0)
			sf_run_look_judged(l->run, name, &j);
		r = 0;
	} else if (r < 0) {
		r = sf_fail(err, r, "%s", why.msg);
	} else {
		if (l->files.n)
			qsort(l->files.at, l->files.n, sizeof(*l->files.at), sf_objinfo_compare);
		if (named || sf_format_has_marker(l->files.at, l->files.n, name)) {
			r = sf_run_look_seen(l->run, name);
			if (r >= 0)
				r = judge_listed(l, name, 0, l->files.n, err);
		}
	}
	forget_part(l);
	return r;
}

/* All that the wanted ones hold, in one listing. */
static int look_into_all(struct look *l, struct sf_error *err)
{
	int r = l->store->ops->list(l->store, "", 2, add_wanted, l, err);
	size_t at = 0;

	if (r >= 0 && l->files.n)
		qsort(l->files.at, l->files.n, sizeof(*l->files.at), sf_objinfo_compare);
	while (r >= 0 && at < l->files.n) {
		const char *slash = strchr(l->files.at[at].name, '/');
		size_t len = (size_t)(slash - l->files.at[at].name);
		size_t end = end_of(l->files.at, at, l->files.n, len + 1);
		SF_FREE char *name = strndup(l->files.at[at].name, len);
		r = name ? judge_listed(l, name, at, end, err)
		         : sf_fail(err, -ENOMEM, "no memory for a step");
		at = end;
	}
	forget_part(l);
	return r;
}

static int look_at_steps(struct look *l, struct sf_error *err)
{
	size_t wanted = 0;
	bool named;
	int r = 0;

	choose(l, &named);
	for (size_t i = 0; i < l->dirs.n && named && r >= 0; i++) {
		wanted += sf_run_look_wanted(l->run, l->dirs.at[i]);
		r = sf_run_look_seen(l->run, l->dirs.at[i]);
	}
	if (r < 0)
		return sf_fail(err, r, "no memory for %zu steps", l->dirs.n);
	if (named && l->store->far && wanted >= ALL_AT_ONCE)
		return look_into_all(l, err);
	for (size_t i = 0; i < l->dirs.n && r >= 0; i++) {
		if (!sf_run_look_wanted(l->run, l->dirs.at[i]))
			r = sf_run_look_seen(l->run, l->dirs.at[i]);
		else
			r = look_into(l, l->dirs.at[i], named, err);
	}
	return r;
}

/* What it says, without white space at its ends; one that cannot be read says nothing. */
static char *read_tracker(struct look *l)
{
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	SF_FREE uint8_t *text = NULL;
	const char *at, *end;
	uint64_t len;

	if (!l->tracker.name ||
	    l->store->ops->open(l->store, l->tracker.name, &l->tracker, &src, NULL) < 0 ||
	    sf_source_read_all(src, TRACKER_MAX, SF_FETCH_METADATA, &text, &len, NULL) < 0)
		return NULL;
	at = (const char *)text;
	at += strspn(at, " \t\r\n");
	for (end = at + strlen(at); end > at && strchr(" \t\r\n", end[-1]);)
		end--;
	return strndup(at, (size_t)(end - at));
}

int sf_run_look(struct sf_run *run, struct sf_store *store, const char *format, char **ret_tracked,
                struct sf_error *err)
{
	struct look l = { .run = run, .store = store, .format = format };
	int r;

	if (store->ops->look)
		return sf_fail(err, -ENOTSUP,
		               "'%s': a web server does not list: name one of the run's steps",
		               store->source);
	r = store->ops->list(store, "", 0, add_top, &l, err);
	if (r < 0 && err && !err->msg[0])
		sf_fail(err, r, "'%s': %zu entries listed: no memory, or more than are read",
		        store->source, l.dirs.n);
	if (r >= 0) {
		l.tracked = read_tracker(&l);
		r = look_at_steps(&l, err);
	}
	if (r >= 0)
		*ret_tracked = SF_STEAL(l.tracked);
	free(l.tracked);
	forget_part(&l);
	run_names_release(&l.dirs);
	sf_arena_release(&l.arena);
	return r;
}
