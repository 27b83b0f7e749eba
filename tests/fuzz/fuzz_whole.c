#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "format/format.h"
#include "tool/common.h"
#include "tests/lib/test_stores.h"
#include "tests/fuzz/fz_files.h"
#include "tests/fuzz/fz_malloc.h"
#include "tests/fuzz/whole_visit.h"

#define MEMORY (UINT64_C(64) << 20) /* at most, whatever memory= says */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
 * A directory of files (fz_files.h) as a checkpoint, and words of -o: it is an error, or a catalog
 * and a tree whose files have the bytes their sizes say, in one read and in two, and parse as what
 * they are. Besides the words of -o there are
 *   x-malloc=N     the N-th allocation fails     x-malloc-on=N   it and all after it
 *   x-io=N         the N-th read of a stored file fails
 *   x-busy         no read of a stored file is answered at once
 *   x-malloc-each=N, x-io-each=N   every N-th in turn, as long as there are any
 * With a failure all is done twice: each step then ends as it did without, or in that failure's
 * code.
 */
struct wish {
	struct sf_common common;
	long malloc_nth, malloc_each;
	bool malloc_all, busy;
	int64_t io, io_each;
	uint64_t seed;
};

#define WANTED(v) ((v)->silent ? NULL : &err)

static struct sf_io io;
static struct whole_visit faulty;

static void quiet(void *arg, enum sf_log_level level, const char *line)
{
	(void)arg;
	if (!line[0] || level > SF_LOG_DEBUG)
		whole_broken("log", "an empty line", level, 0);
}

/* Words that would reach for the machine's own files. */
static bool outside(const char *word)
{
	static const char *const words[] = { "config", "log", "hf-files", "hf_files",
		                             "join-rules", "join_rules" };

	for (size_t i = 0; i < SF_ARRAY_LEN(words); i++)
		if (strncmp(word, words[i], strlen(words[i])) == 0)
			return true;
	return strstr(word, "=@") != NULL;
}

/* @text: its lines are cut here and stay as long as the wish. */
static void take_words(struct wish *w, char *text)
{
	const struct sf_opt *const tables[] = { sf_common_options, sf_view_option_table, NULL };
	void *const dests[] = { &w->common, &w->common.session.view };
	char *save = NULL;

	for (char *word = strtok_r(text, "\n", &save); word; word = strtok_r(NULL, "\n", &save)) {
		struct sf_error err = SF_ERROR_INIT;
		const char *eq = strchr(word, '=');
		long n = eq ? strtol(eq + 1, NULL, 10) : 0;
		n = SF_MAX(n, 0L);
		if (strncmp(word, "x-malloc-each", 13) == 0) {
			w->malloc_each = SF_MAX(n, 1L);
		} else if (strncmp(word, "x-io-each", 9) == 0) {
			w->io_each = SF_MAX(n, 1L);
		} else if (strncmp(word, "x-malloc", 8) == 0) {
			w->malloc_nth = n;
			w->malloc_all = strncmp(word, "x-malloc-on", 11) == 0;
		} else if (strncmp(word, "x-io", 4) == 0) {
			w->io = n;
		} else if (strncmp(word, "x-busy", 6) == 0) {
			w->busy = true;
		} else if (!outside(word)) {
			int r = sf_options_word(tables, dests, word, &err);
			whole_result(word, SF_MIN(r, 0), &err);
		}
	}
}

/* What a directory cannot hold, a store cannot: one name twice, a file that is a directory too. */
static size_t as_objects(const struct fz_files *files, struct sf_mem_object *to)
{
	size_t n = 0;

	for (size_t i = 0; i < files->n; i++) {
		const struct fz_file *f = &files->at[i];
		size_t len = strlen(f->name), k = 0;
		if (!len || sf_path_check(f->name, len, NULL) < 0)
			continue;
		for (; k < n; k++) {
			size_t other = strlen(to[k].name), both = SF_MIN(len, other);
			if (memcmp(to[k].name, f->name, both) == 0 &&
			    (len == other || (len > other ? f->name : to[k].name)[both] == '/'))
				break;
		}
		if (k == n)
			to[n++] = (struct sf_mem_object){ f->name, f->at, f->len };
	}
	return n;
}

static void look_at_chunks(const struct sf_ckpt *ckpt)
{
	struct sf_chunk chunk;

	for (uint32_t i = 0; i < ckpt->ntensors; i++)
		for (uint32_t k = 0; k < ckpt->tensor[i].nchunks; k++)
			sf_tensor_chunk(&ckpt->tensor[i], k, &chunk);
}

/* Everything once; @plan may fail a read, the allocations may fail already. */
static void run(struct wish *w, const struct sf_mem_object *objects, size_t n,
                struct sf_fault *plan, struct whole_visit *v)
{
	const struct sf_load_options opt = { w->common.session.source_format,
		                             w->common.session.complete };
	struct sf_store *store = NULL, *inner = NULL;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_catalog *catalog = NULL;
	struct sf_reader *reader = NULL;
	struct sf_tree *tree = NULL;
	struct sf_ckpt *ckpt = NULL;
	int r;

	v->nseen = 0;
	v->seed = w->seed;
	v->silent = w->seed % 16 == 0;
	sf_budget_set_limit(io.budget, SF_MIN(w->common.session.memory, MEMORY));
	io.timeout_ms = 0; /* a read that never ends is to be seen */
	io.log = &w->common.log;
	memset(&io.counters, 0, sizeof(io.counters));
	r = sf_store_mem(&io, objects, n, &inner, WANTED(v));
	if (r >= 0 && plan) {
		r = sf_store_fault(inner, plan, &store, WANTED(v));
		if (r < 0)
			sf_store_free(inner);
	} else {
		store = inner;
	}
	whole_note(v, "store", 0, whole_result("store", r, WANTED(v)), 0);
	if (r >= 0) {
		r = sf_ckpt_load(store, &opt, &ckpt, WANTED(v));
		whole_note(v, "load", 0, whole_result("load", r, WANTED(v)), 0);
	}
	if (r >= 0) {
		look_at_chunks(ckpt);
		r = sf_catalog_new(ckpt, &w->common.session.view, &catalog, WANTED(v));
		whole_note(v, "catalog", 0, whole_result("catalog", r, WANTED(v)), 0);
	}
	if (r >= 0) {
		r = sf_reader_new(ckpt, store, &reader, WANTED(v));
		whole_note(v, "reader", 0, whole_result("reader", r, WANTED(v)), 0);
	}
	if (r >= 0) {
		r = sf_tree_new(catalog, reader, &tree, WANTED(v));
		whole_note(v, "tree", 0, whole_result("tree", r, WANTED(v)), 0);
	}
	if (r >= 0) {
		v->c = catalog;
		v->reader = reader;
		v->tree = tree;
		whole_visit(v);
	}
	sf_tree_free(tree);
	sf_reader_free(reader);
	sf_catalog_free(catalog);
	sf_ckpt_free(ckpt);
	sf_store_free(store);
}

/* Each step ended as it did without the failure, or in its code. What fails both times may differ
 * in why: of several damages the one met first is told, and threads meet them in any order. Both
 * went the same way, so the next one is mostly the next. */
static void compare(const struct whole_visit *clean, const struct whole_visit *v)
{
	unsigned at = 0;

	for (unsigned i = 0; i < v->nseen; i++) {
		const struct whole_seen *s = &v->seen[i];
		unsigned k = 0;
		while (k < clean->nseen && clean->seen[(at + k) % clean->nseen].step != s->step)
			k++;
		if (k == clean->nseen || s->r == v->fault)
			continue;
		at = (at + k) % clean->nseen;
		if (clean->seen[at].r < 0 && s->r < 0)
			continue;
		if (clean->seen[at].r != s->r || clean->seen[at].value != s->value)
			whole_broken(s->path, "another result than without the failure",
			             clean->seen[at].r, s->r);
	}
}

/* Both: all again with one failure; was there one? */
static bool fail_io(struct wish *w, int64_t nth, const struct sf_mem_object *objects, size_t n,
                    const struct whole_visit *clean)
{
	struct sf_fault plan = { .fail_at = nth, .code = -EIO, .busy = w->busy };

	faulty.fault = plan.code;
	run(w, objects, n, &plan, &faulty);
	compare(clean, &faulty);
	return plan.seen > nth;
}

static bool fail_malloc(struct wish *w, long nth, const struct sf_mem_object *objects, size_t n,
                        const struct whole_visit *clean)
{
	struct sf_fault plan = { .fail_at = -1, .busy = true };
	bool failed;

	faulty.fault = -ENOMEM;
	fz_malloc_fails(nth, w->malloc_all);
	run(w, objects, n, w->busy ? &plan : NULL, &faulty);
	failed = fz_malloc_fails(-1, false) > 0;
	compare(clean, &faulty);
	return failed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct whole_visit clean;
	static struct sf_mem_object objects[FZ_FILES];
	static struct fz_files files;
	static char words[4096];
	struct wish w = { .malloc_nth = -1, .io = -1, .seed = whole_hash(0, data, size) };
	struct sf_fault plan = { .fail_at = -1, .busy = true };
	size_t n;

	if (!io.pool && sf_io_init(&io, 2, NULL) < 0)
		abort();
	sf_common_init(&w.common);
	w.common.log = (struct sf_log){ .write = quiet, .level = SF_LOG_DEBUG };
	fz_unpack(data, size, &files);
	for (size_t i = 0; i < files.n; i++)
		if (!files.at[i].name[0]) {
			size_t len = SF_MIN(files.at[i].len, sizeof(words) - 1);
			memcpy(words, files.at[i].at, len);
			words[len] = '\0';
			take_words(&w, words);
			break;
		}
	n = as_objects(&files, objects);
	clean.fault = 0;
	run(&w, objects, n, w.busy ? &plan : NULL, &clean);
	if (w.io >= 0)
		fail_io(&w, w.io, objects, n, &clean);
	for (w.io = 0; w.io_each && fail_io(&w, w.io, objects, n, &clean); w.io += w.io_each)
		;
	if (w.malloc_nth >= 0)
		fail_malloc(&w, w.malloc_nth, objects, n, &clean);
	for (w.malloc_nth = 0; w.malloc_each && fail_malloc(&w, w.malloc_nth, objects, n, &clean);
	     w.malloc_nth += w.malloc_each)
		;
	sf_common_release(&w.common);
	return 0;
}
