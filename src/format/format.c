#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "base/vec.h"
#include "format/format.h"
#include "format/format_beside.h"
#include "format/format_dir.h"
#include "format/format_unread.h"
#include "format/run_dir.h"
#include "store/source.h"

static const struct sf_format *const formats[] = { &sf_format_dcp,         &sf_format_megatron,
	                                           &sf_format_safetensors, &sf_format_rankfiles,
	                                           &sf_format_olmo,        &sf_format_torch,
	                                           &sf_format_deepspeed };

const struct sf_format *sf_format_at(size_t i)
{
	return i < SF_ARRAY_LEN(formats) ? formats[i] : NULL;
}

/* FILES_MAX: entries of one listing; a save with a file per item of 10^4 ranks stays below. */
#define FILES_MAX (1u << 24)
#define LISTING_MAX ((size_t)1 << 30) /* bytes of their names and versions */
/* Of directories that no format knows by name so many are looked into at once, whatever they are; a
 * bucket is not listed as one for them (bucket_dirs.h). */
#define DIRS_AT_ONCE 7

SF_VEC(names, const char *);

struct listing {
	struct sf_arena arena;
	struct sf_objinfos files;
	struct names others; /* directories, sockets … at the top */
	struct names unseen; /* of them, not called as steps of a run are and not looked into */
	unsigned strangers;  /* directories that were, but no format knows */
	bool whole;          /* all are looked into */
	bool skipped;        /* some were not */
	bool full;           /* there were more than are listed */
};

/* What a step of a run is probed with. */
struct step {
	struct sf_io *io;
	const struct sf_store_options *opt;
	const char *name; /* --source-format */
};

/* Does a format look for something in a directory of this name? */
static bool is_known_dir(const char *name)
{
	size_t len = strlen(name);

	for (size_t i = 0; i < SF_ARRAY_LEN(formats); i++)
		for (const char *const *file = formats[i]->names; *file; file++)
			if (strncmp(*file, name, len) == 0 && (*file)[len] == '/')
				return true;
	return false;
}

static int add_file(void *arg, const struct sf_objinfo *info)
{
	struct listing *l = arg;
	const char *name;

	if (l->files.n + l->others.n >= FILES_MAX) {
		l->full = true;
		return -E2BIG;
	}
	if (info->size != UINT64_MAX)
		return sf_objinfos_keep(&l->files, &l->arena, info);
	name = sf_arena_strdup(&l->arena, info->name, strlen(info->name));
	if (!name || names_push(&l->others, name) < 0)
		return -ENOMEM;
	if (l->whole || is_known_dir(name))
		return 0;
	bool step = sf_run_dir_is_step(name) || sf_run_dir_is_alias(name);
	if (!step && l->strangers++ < DIRS_AT_ONCE)
		return 0;
	if (!step && names_push(&l->unseen, name) < 0)
		return -ENOMEM;
	l->skipped = true;
	return SF_LIST_SKIP;
}

/* Of a directory that was skipped: its files. */
static int add_below(void *arg, const struct sf_objinfo *info)
{
	return info->size != UINT64_MAX ? add_file(arg, info) : 0;
}

static int refuse(const struct sf_store *store, const struct sf_unread *u, struct sf_error *err)
{
	return sf_fail(err, -ENOTSUP, "'%s': %s (%s …), not one checkpoint: %s", store->source,
	               u->what, u->file, u->hint);
}

/* A file that makes a checkpoint, but is none: a fifo, say. */
static int check_marker(struct sf_store *store, const struct listing *l, const char *marker,
                        struct sf_error *err)
{
	struct sf_source *src = NULL;
	struct sf_error why = SF_ERROR_INIT;

	for (size_t i = 0; marker && i < l->others.n; i++) {
		if (strcmp(l->others.at[i], marker) != 0)
			continue;
		int r = store->ops->open(store, marker, NULL, &src, &why);
		sf_source_unref(src);
		if (r < 0 && r != -ENOENT)
			return sf_fail(err, r, "'%s': %s", store->source, why.msg);
	}
	return 0;
}

static const char *marker_of(const struct sf_format *f)
{
	return f->marker;
}

static const char *sought_of(const struct sf_format *f)
{
	return f->sought;
}

static const char *name_of(const struct sf_format *f)
{
	return f->name;
}

/* One word of each format, for a message. */
static const char *words(char *buf, size_t size, const char *between,
                         const char *(*word)(const struct sf_format *f))
{
	size_t n = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < SF_ARRAY_LEN(formats) && n < size; i++)
		n += (size_t)snprintf(buf + n, size - n, "%s%s", i ? between : "",
		                      word(formats[i]));
	return buf;
}

/* Nothing knows this: say what was looked for, and what is here instead. */
static int unknown(struct sf_store *store, const struct listing *l, const char *format,
                   struct sf_error *err)
{
	char why[512], markers[1024];
	struct sf_unread unread = { 0 };

	for (size_t i = 0; i < SF_ARRAY_LEN(formats); i++) {
		int r = check_marker(store, l, formats[i]->marker_file, err);
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < SF_ARRAY_LEN(formats); i++)
		if (formats[i]->unfinished &&
		    formats[i]->unfinished(l->files.at, l->files.n, why, sizeof(why)))
			return sf_fail(err, -ENOENT, "'%s': not committed: %s", store->source, why);
	if (l->files.n == 0 && store->ops->look)
		return sf_fail(err, -ENOENT,
		               "'%s' is not a checkpoint: it has no %s (a web server does not "
		               "list: other names are not looked for)",
		               store->source,
		               words(markers, sizeof(markers), " and no ", sought_of));
	if (l->files.n == 0)
		return sf_fail(err, -ENOENT, "'%s' is not a checkpoint: it has no files",
		               store->source);
	sf_unread_find(l->files.at, l->files.n, &unread);
	if (unread.format)
		return refuse(store, &unread, err);
	return sf_fail(err, -ENOENT, "'%s' is not a checkpoint: no %s among its %zu files (%s …)",
	               store->source, words(markers, sizeof(markers), " and no ", marker_of),
	               l->files.n, l->files.at[0].name);
}

static bool wanted(const struct sf_format *f, const char *name)
{
	if (!name || strcmp(f->name, name) == 0)
		return true;
	for (const char *const *also = f->also; also && *also; also++)
		if (strcmp(*also, name) == 0)
			return true;
	return false;
}

/* -o complete: any warning but those that leave every byte readable. */
static int check_complete(const struct sf_ckpt *ckpt, struct sf_error *err)
{
	for (uint32_t i = 0; i < ckpt->nwarnings; i++) {
		const struct sf_warning *w = &ckpt->warning[i];
		if (strcmp(w->code, "overlap") != 0 && strcmp(w->code, "stray-item") != 0 &&
		    !sf_warning_is_note(w->code))
			return sf_fail(err, -EBADMSG,
			               ckpt->nwarnings == 1
			                       ? "'%s' is not complete: %u warning: %s: %s"
			                       : "'%s' is not complete: %u warnings, one is %s: %s",
			               ckpt->source, ckpt->nwarnings, w->code, w->text);
	}
	return 0;
}

static int known_name(const char *name, struct sf_error *err)
{
	char names[256];

	for (size_t i = 0; i < SF_ARRAY_LEN(formats); i++)
		if (wanted(formats[i], name) || sf_unread_format(name))
			return 0;
	return sf_fail(err, -EINVAL, "unknown source format '%s' (%s; %s)", name,
	               words(names, sizeof(names), " or ", name_of), sf_unread_names);
}

/* A few dozen names. */
static bool has_name(const struct names *all, const char *name)
{
	for (size_t i = 0; i < all->n; i++)
		if (strcmp(all->at[i], name) == 0)
			return true;
	return false;
}

/* What may make a checkpoint, of a store that cannot list; the formats look for the rest, by the
 * names that the metadata gives. */
static int look_for_names(struct sf_store *store, struct listing *l, struct sf_error *err)
{
	SF_CLEANUP(names_release) struct names all = { 0 };

	for (size_t i = 0; i < SF_ARRAY_LEN(formats); i++)
		for (const char *const *name = formats[i]->names; *name; name++)
			if (!has_name(&all, *name) && names_push(&all, *name) < 0)
				return sf_fail(err, -ENOMEM, "'%s'", store->source);
	return store->ops->look(store, all.at, all.n, add_file, l, err);
}

/* A server that repeats itself has left out something else. In a directory that changes while it is
 * read, a name may come twice. */
static int check_once(const struct sf_store *store, const struct listing *l, struct sf_error *err)
{
	for (size_t i = 1; i < l->files.n; i++)
		if (strcmp(l->files.at[i - 1].name, l->files.at[i].name) == 0)
			return sf_fail(err, -EBADMSG,
			               "'%s': listing: the server repeats itself: '%s' was sent "
			               "twice",
			               store->source, l->files.at[i].name);
	return 0;
}

/* What a listing came to. */
static int listed(const struct sf_store *store, struct listing *l, int r, struct sf_error *err)
{
	if (l->full)
		sf_fail(err, r, "'%s': %zu files listed: more than are read from one checkpoint",
		        store->source, l->files.n);
	else if (r == -ENOMEM && err && !err->msg[0])
		sf_fail(err, r, "'%s': %zu files listed: no memory for more", store->source,
		        l->files.n);
	if (r >= 0 && l->files.n)
		qsort(l->files.at, l->files.n, sizeof(*l->files.at), sf_objinfo_compare);
	if (r >= 0 && store->far && !store->ops->look)
		r = check_once(store, l, err);
	return r;
}

static int list(struct sf_store *store, struct listing *l, struct sf_error *err)
{
	int r = store->ops->look ? look_for_names(store, l, err)
	                         : store->ops->list(store, "", 1, add_file, l, err);

	return listed(store, l, r, err);
}

/* Nothing there to look into: no directory, gone, another user's. */
static bool is_closed(int code)
{
	return code == -ENOENT || code == -ENOTDIR || code == -ELOOP || code == -EACCES ||
	       code == -EPERM || code == -ENOTCONN;
}

/* What no format knows by name may be one's all the same: the newest of those that were skipped. */
static int list_unseen(struct sf_store *store, struct listing *l, struct sf_error *err)
{
	size_t left = SF_RUN_DIR_LOOKED + 1; /* one more says that there are more */
	int r = 0;

	qsort(l->unseen.at, l->unseen.n, sizeof(*l->unseen.at), sf_run_dir_compare);
	while (l->unseen.n && left-- && r >= 0) {
		struct sf_error why = SF_ERROR_INIT;
		r = store->ops->list(store, l->unseen.at[--l->unseen.n], 0, add_below, l, &why);
		if (is_closed(r))
			r = 0;
		if (r < 0)
			sf_fail(err, r, "%s", why.msg);
	}
	return listed(store, l, r, err);
}

static int probe_step(void *arg, const char *path, struct sf_error *err);

static bool listed_in(const struct sf_objinfo *files, size_t n, const char *dir, const char *file)
{
	char path[4200];

	return file && n &&
	       snprintf(path, sizeof(path), "%.4096s/%s", dir, file) < (int)sizeof(path) &&
	       sf_format_listed(files, n, path);
}

bool sf_format_has_marker(const struct sf_objinfo *files, size_t n, const char *dir)
{
	for (size_t i = 0; i < SF_ARRAY_LEN(formats); i++)
		if (listed_in(files, n, dir, formats[i]->marker_file))
			return true;
	return false;
}

/* Is it called as a run's steps are, or what makes up one, or has it what makes a checkpoint? */
static bool is_of_run(const struct listing *l, const char *dir)
{
	return sf_run_dir_is_step(dir) || sf_run_dir_is_part(dir) ||
	       sf_format_has_marker(l->files.at, l->files.n, dir);
}

/* No checkpoint here, but directories that are, or may be? */
static int check_below(struct sf_store *store, const char *name, bool *ret_run, struct listing *l,
                       struct sf_error *err)
{
	SF_CLEANUP(names_release) struct names below = { 0 };
	int r = 0;

	for (size_t i = 0; i < l->others.n && r >= 0; i++)
		if (is_of_run(l, l->others.at[i]) && names_push(&below, l->others.at[i]) < 0)
			r = sf_fail(err, -ENOMEM, "'%s'", store->source);
	if (r < 0 || !below.n)
		return r;
	if (ret_run) {
		*ret_run = true;
		return sf_fail(err, -ENOENT, "'%s' is a run directory", store->source);
	}
	return sf_run_dir_refuse(store->source, below.at, below.n, probe_step,
	                         &(struct step){ store->io, store->opt, name }, err);
}

static void release(struct listing *l)
{
	sf_objinfos_release(&l->files);
	names_release(&l->others);
	names_release(&l->unseen);
	sf_arena_release(&l->arena);
}

/* From here on a format knows more of a directory than that it has files of torch.save. */
#define SURE 45

/* Does it hold directories that are checkpoints of their own, together one of a run's steps? */
static bool has_parts(const struct listing *l)
{
	for (size_t i = 0; i < l->files.n; i++) {
		const char *name = l->files.at[i].name, *slash = strchr(name, '/');
		char dir[16];
		if (slash && (size_t)(slash - name) < sizeof(dir)) {
			snprintf(dir, sizeof(dir), "%.*s", (int)(slash - name), name);
			if (sf_run_dir_is_part(dir))
				return true;
		}
	}
	return false;
}

/* Is it a save of a format that is told by its files, but under way? What stands there of torch.save's is a
 * part of it then. */
static bool is_unfinished(const struct listing *l)
{
	char why[512];

	for (size_t i = 0; i < SF_ARRAY_LEN(formats); i++)
		if (formats[i]->unfinished &&
		    formats[i]->unfinished(l->files.at, l->files.n, why, sizeof(why)))
			return true;
	return false;
}

/* Asks every format what was listed. */
static int ask(struct sf_store *store, const char *name, const struct listing *l,
               const struct sf_format **ret, struct sf_error *err)
{
	int sure = 0, r = 0;

	*ret = NULL;
	for (size_t i = 0; i < SF_ARRAY_LEN(formats) && r >= 0; i++) {
		int p = wanted(formats[i], name)
		                ? formats[i]->probe(store, l->files.at, l->files.n, err)
		                : 0;
		if (p < 0)
			r = p;
		if (p > sure) {
			sure = p;
			*ret = formats[i];
		}
	}
	if (r >= 0 && *ret && sure < SURE && (has_parts(l) || (!name && is_unfinished(l))))
		*ret = NULL;
	return r;
}

/*
 * What makes a checkpoint stands at the top, or in a directory that a format knows by name. What all
 * others hold is listed only when there is one here, for it shows them all; the newest of them also
 * when there is none, for they may be what makes it. What the steps of a run hold is not listed for the
 * run at all. @step: it lies in a run directory, and is none itself. @ret_run: as of a load's
 * options.
 */
static int look(struct sf_store *store, const char *name, bool step, bool *ret_run,
                struct listing *l, const struct sf_format **ret, struct sf_error *err)
{
	int r = list(store, l, err);

	*ret = NULL;
	if (r >= 0)
		r = ask(store, name, l, ret, err);
	if (r >= 0 && !*ret && l->unseen.n) {
		r = list_unseen(store, l, err);
		if (r >= 0)
			r = ask(store, name, l, ret, err);
	}
	if (r >= 0 && l->skipped && (*ret || step)) {
		release(l);
		*l = (struct listing){ .arena.limit = LISTING_MAX, .whole = true };
		r = list(store, l, err);
		if (r >= 0)
			r = ask(store, name, l, ret, err);
	}
	if (r >= 0 && !*ret && !step)
		r = check_below(store, name, ret_run, l, err);
	return r >= 0 && !*ret ? unknown(store, l, name, err) : r;
}

static int probe_step(void *arg, const char *path, struct sf_error *err)
{
	const struct step *s = arg;
	const struct sf_format *best;
	struct sf_store *store = NULL;
	struct listing l = { .arena.limit = LISTING_MAX };
	int r = sf_store_open(s->io, path, s->opt, &store, err);

	if (r >= 0)
		r = look(store, s->name, true, NULL, &l, &best, err);
	release(&l);
	sf_store_free(store);
	return r;
}

int sf_format_check(struct sf_store *store, const char *name, const struct sf_objinfo *files,
                    size_t n, struct sf_error *err)
{
	const struct listing l = { .files = { (struct sf_objinfo *)files, n, n }, .whole = true };
	const struct sf_format *best;
	char why[512];
	int r = ask(store, name, &l, &best, err);

	if (r >= 0 && !best)
		return unknown(store, &l, name, err);
	if (r >= 0 && best->missing && best->missing(files, n, why, sizeof(why)))
		return sf_fail(err, -ENOENT, "'%s': %s", store->source, why);
	return r;
}

int sf_ckpt_load(struct sf_store *store, const struct sf_load_options *opt, struct sf_ckpt **ret,
                 struct sf_error *err)
{
	static const struct sf_load_options none = { 0 };
	const struct sf_format *best = NULL;
	struct sf_ckpt *ckpt = NULL;
	struct listing l = { .arena.limit = LISTING_MAX };

	if (!opt)
		opt = &none;
	int r = known_name(opt->source_format, err);
	if (r >= 0)
		r = look(store, opt->source_format, false, opt->ret_run, &l, &best, err);
	if (r >= 0)
		r = sf_format_beside(store, l.files.at, l.files.n, err);
	if (r >= 0)
		r = best->load(store, l.files.at, l.files.n, opt, &ckpt, err);
	if (r >= 0 && opt->complete)
		r = check_complete(ckpt, err);
	if (r >= 0)
		*ret = SF_STEAL(ckpt);
	if (r == -ENOMEM && err && !err->msg[0]) /* a warning that could not be kept says nothing */
		sf_fail(err, r, "'%s': no memory to load it", store->source);
	sf_ckpt_free(ckpt);
	release(&l);
	return r;
}
