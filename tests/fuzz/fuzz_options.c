#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "ckpt/ckpt_builder.h"
#include "cli/key_slice.h"
#include "fuse/mount_options.h"
#include "tool/common.h"
#include "tests/lib/test_stores.h"
#include "tests/fuzz/fz_files.h"
#include "tests/fuzz/fz_mutate.h"
#include "tests/fuzz/whole_visit.h"

#define WORDS 64
#define KEYS 48

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
 * What a user types, as files of one input (fz_files.h), a word a line: "argv" the options of a
 * verb, "o" words of mount's -o, "config" a config file, "map" a file for "map=@", "keys" the names
 * that a checkpoint has, "key" what is asked of it (KEY[0:4]). Each is an error with a message, or
 * options with which a catalog and a tree of those names are made or refused.
 */
static struct sf_io io;
static char paths[2][64]; /* of the map and the config file, in memory */

static void quiet(void *arg, enum sf_log_level level, const char *line)
{
	(void)arg, (void)level, (void)line;
}

static int fd_of(unsigned i)
{
	static int fd[2] = { -1, -1 };

	if (fd[i] < 0) {
		fd[i] = memfd_create("fuzz_options", MFD_CLOEXEC);
		if (fd[i] < 0)
			abort();
		snprintf(paths[i], sizeof(paths[i]), "/proc/self/fd/%d", fd[i]);
	}
	return fd[i];
}

static void put_file(unsigned i, const struct fz_file *f)
{
	int fd = fd_of(i);

	if (ftruncate(fd, 0) < 0 ||
	    pwrite(fd, f ? f->at : (const uint8_t *)"", f ? f->len : 0, 0) < 0)
		abort();
}

static const struct fz_file *file(const struct fz_files *files, const char *name)
{
	for (size_t i = 0; i < files->n; i++)
		if (strcmp(files->at[i].name, name) == 0)
			return &files->at[i];
	return NULL;
}

/* The lines of a file, each malloc'ed; "@" and all behind it is the map's path: nothing here opens
 * files of the machine. */
static int lines(const struct fz_file *f, char **to, int max)
{
	const char *at = f ? (const char *)f->at : "", *end = at + (f ? f->len : 0);
	int n = 0;

	while (at < end && n < max) {
		const char *eol = memchr(at, '\n', (size_t)(end - at));
		size_t len = (size_t)((eol ? eol : end) - at);
		const char *file_name = memchr(at, '@', len);
		char *copy = calloc(1, len + sizeof(paths[0]) + 1);
		if (!copy)
			abort();
		memcpy(copy, at, len);
		if (file_name)
			strcpy(copy + (file_name - at) + 1, paths[0]);
		if (strstr(copy, "conf"))
			copy[0] = '\0'; /* its own file is read below */
		to[n++] = copy;
		at += len + 1;
	}
	return n;
}

static void parse_argv(const struct fz_file *f, struct sf_common *o, char **argv, int argc)
{
	const struct sf_opt *const tables[] = { sf_common_options, sf_view_option_table, NULL };
	void *const dests[] = { o, &o->session.view };
	char *given[WORDS];
	struct sf_error err = SF_ERROR_INIT;
	int r;

	(void)f;
	memcpy(given, argv, sizeof(*argv) * (size_t)argc);
	r = sf_options_parse(tables, dests, argc, argv, &err);
	if (whole_result("argv", SF_MIN(r, 0), &err) >= 0 && r > argc)
		whole_broken("argv", "more arguments than there were", r, argc);
	for (int i = 0, k = 0; i < r; i++, k++) { /* in the order they were given */
		while (k < argc && argv[i] != given[k])
			k++;
		if (k == argc)
			whole_broken("argv", "an argument that was not given", i, r);
	}
	memcpy(argv, given, sizeof(*argv) * (size_t)argc); /* all of them, to be freed */
}

static void parse_config(struct sf_common *o)
{
	const struct sf_opt *const tables[] = { sf_common_options, NULL };
	void *const dests[] = { o };
	struct sf_error err = SF_ERROR_INIT;
	char word[128];

	snprintf(word, sizeof(word), "config=%s", paths[1]);
	whole_result("config", SF_MIN(sf_options_word(tables, dests, word, &err), 0), &err);
}

static void parse_mount(struct sf_mount_options *m, struct sf_common *o, char **words, int n)
{
	struct sf_serve_options serve;
	struct sf_error err = SF_ERROR_INIT;
	char *fuse = NULL;
	int r;

	m->words.at = (const char **)(uintptr_t)words;
	m->words.n = (size_t)n;
	r = sf_mount_options_apply(m, o, &err);
	if (whole_result("-o", r, &err) < 0)
		return;
	/* names of users are asked of the machine */
	if ((m->uid && (*m->uid < '0' || *m->uid > '9')) ||
	    (m->gid && (*m->gid < '0' || *m->gid > '9')))
		return;
	r = sf_mount_options_serve(m, "source", &serve, &fuse, &err);
	whole_result("serve", r, &err);
	if (r >= 0)
		free(fuse);
}

static int add_listed(void *arg, const struct sf_objinfo *info)
{
	*(struct sf_objinfo *)arg = *info;
	return 0;
}

/* A checkpoint of tensors with these names, each two floats of one file. */
static int make(struct sf_store *store, char **keys, int n, struct sf_ckpt **ret)
{
	const uint64_t shape[1] = { 2 }, origin[1] = { 0 };
	struct sf_ckpt_builder *b;
	struct sf_objinfo listed;
	uint32_t place, t;
	int r = sf_ckpt_builder_new("test", "mem", &b, NULL);

	if (r < 0 || store->ops->list(store, "", 0, add_listed, &listed, NULL) < 0 ||
	    sf_ckpt_builder_listing(b, &listed, 1, NULL) < 0 ||
	    sf_ckpt_builder_place(b, "data", 4, SF_ITEM_RAW, SF_CODEC_NONE, &place, NULL) < 0)
		abort();
	for (int i = 0; i < n && r >= 0; i++) {
		struct sf_path_elem path[64];
		size_t len = strlen(keys[i]), npath = 0;
		if (sf_ckpt_builder_tensor(b, keys[i], len, SF_FLOAT32, shape, 1, &t, NULL) < 0)
			continue; /* a name twice */
		r = sf_ckpt_builder_chunk(b, origin, shape, NULL);
		sf_ckpt_builder_set_item(b, t, 0, place, 8 * (uint64_t)(i % 8), 8);
		for (size_t from = 0, at = 0; at <= len && npath < 64; at++)
			if (at == len || keys[i][at] == '.') {
				path[npath++] =
					(struct sf_path_elem){ .s = keys[i] + from,
					                       .len = (uint32_t)(at - from) };
				from = at + 1;
			}
		if (r >= 0)
			r = sf_ckpt_builder_path(b, keys[i], len, path, npath, NULL);
	}
	if (r >= 0)
		r = sf_ckpt_builder_finish(b, ret, NULL);
	if (r < 0)
		sf_ckpt_builder_free(b);
	return r;
}

static void choose(const struct sf_catalog *c, char **keys, int n)
{
	for (int i = 0; i < n; i++) {
		struct sf_error err = SF_ERROR_INIT;
		struct sf_key_choice ch;
		struct sf_value_box box;
		if (whole_result(keys[i], sf_key_choose(c, keys[i], &ch, &err), &err) < 0)
			continue;
		for (uint32_t k = 0; k < ch.n; k++) {
			int r = -EINVAL;
			if (ch.entry[k] >= c->n)
				whole_broken(keys[i], "a key that is none", ch.entry[k], c->n);
			r = sf_key_slice_box(&ch.slice, (const uint64_t[]){ 2 }, 1, &box, &err);
			if (whole_result(keys[i], r, &err) >= 0 &&
			    (box.origin[0] > 2 || box.extent[0] > 2 - box.origin[0]))
				whole_broken(keys[i], "a slice outside the tensor",
				             (long long)box.origin[0], (long long)box.extent[0]);
			err.msg[0] = '\0';
		}
		sf_key_choice_release(&ch);
	}
}

static void show(struct sf_common *o, uint64_t seed, char **keys, int nkeys, char **asked,
                 int nasked)
{
	static const uint8_t floats[64] = "0123456789abcdefghijklmnopqrstuvwxyz";
	const struct sf_mem_object data = { "data", floats, sizeof(floats) };
	static struct whole_visit v;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_catalog *catalog = NULL;
	struct sf_reader *reader = NULL;
	struct sf_tree *tree = NULL;
	struct sf_ckpt *ckpt = NULL;
	struct sf_store *store;

	if (sf_store_mem(&io, &data, 1, &store, NULL) < 0)
		abort();
	if (make(store, keys, nkeys, &ckpt) >= 0 &&
	    whole_result("catalog", sf_catalog_new(ckpt, &o->session.view, &catalog, &err), &err) >=
	            0) {
		choose(catalog, asked, nasked);
		if (sf_reader_new(ckpt, store, &reader, NULL) < 0)
			abort();
		if (whole_result("tree", sf_tree_new(catalog, reader, &tree, &err), &err) >= 0) {
			v.c = catalog;
			v.reader = reader;
			v.tree = tree;
			v.seed = seed;
			v.nseen = 0;
			whole_visit(&v);
		}
	}
	sf_tree_free(tree);
	sf_reader_free(reader);
	sf_catalog_free(catalog);
	sf_ckpt_free(ckpt);
	sf_store_free(store);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char *argv[WORDS], *words[WORDS], *keys[KEYS], *asked[WORDS];
	struct sf_mount_options m = { 0 };
	static struct fz_files files;
	struct sf_common o;
	int nargv, nwords, nkeys, nasked;

	if (!io.pool && sf_io_init(&io, 2, NULL) < 0)
		abort();
	fz_unpack(data, size, &files);
	put_file(0, file(&files, "map"));
	put_file(1, file(&files, "config"));
	nargv = lines(file(&files, "argv"), argv, WORDS);
	nwords = lines(file(&files, "o"), words, WORDS);
	nkeys = lines(file(&files, "keys"), keys, KEYS);
	nasked = lines(file(&files, "key"), asked, WORDS);

	sf_common_init(&o);
	o.log = (struct sf_log){ .write = quiet, .level = SF_LOG_DEBUG };
	io.log = &o.log;
	io.timeout_ms = 0;
	parse_argv(file(&files, "argv"), &o, argv, nargv);
	parse_mount(&m, &o, words, nwords);
	if (file(&files, "config"))
		parse_config(&o);
	o.session.view.hf_files = NULL;
	show(&o, whole_hash(0, data, size), keys, nkeys, asked, nasked);
	sf_mount_options_release(&m);
	sf_common_release(&o);
	for (int i = 0; i < nargv; i++)
		free(argv[i]);
	for (int i = 0; i < nwords; i++)
		free(words[i]);
	for (int i = 0; i < nkeys; i++)
		free(keys[i]);
	for (int i = 0; i < nasked; i++)
		free(asked[i]);
	return 0;
}
