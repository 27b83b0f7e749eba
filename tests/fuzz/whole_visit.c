#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "parse/zip_write.h"
#include "tests/fuzz/whole_visit.h"

enum {
	WHOLE = 128 << 10,  /* files up to this are read whole, of others three windows */
	WINDOW = 8 << 10,   /* bytes of one */
	BYTES = 4 << 20,    /* read in one visit */
	NODES = 60,         /* looked at below one directory of the root */
	ENTRIES = 200,      /* of one directory */
	ENOUGH = 4,         /* fewer shown keys: all is read; of more a part, by the seed */
	EXPORTED = 60,      /* keys of what export makes */
	PATH_LEN = 1 << 16, /* deeper paths are not walked */
};

/* What a note is of. */
enum { SIZE = 1, ATTR, XATTRS, LISTED, TOTALS, MADE, READ };

#define WANTED(v) ((v)->silent ? NULL : &err)

static uint8_t whole[WHOLE], parts[WHOLE];

void whole_broken(const char *path, const char *what, long long a, long long b)
{
	fprintf(stderr, "BROKEN: %s: %s (%lld, %lld)\n", path, what, a, b);
	abort();
}

int whole_result(const char *path, int r, const struct sf_error *err)
{
	if (err && (r < 0) != (err->msg[0] != '\0'))
		whole_broken(path, "a message if and only if it failed", r, err->msg[0]);
	return r;
}

/* Not for the fuzzer's eyes: its traces of these comparisons took a tenth of the time. */
#ifdef __clang__
__attribute__((no_sanitize("coverage")))
#endif
uint64_t
whole_hash(uint64_t h, const void *at, size_t len)
{
	const uint8_t *p = at;

	for (; len >= 8; p += 8, len -= 8)
		h = (h ^ sf_le64(p)) * UINT64_C(0x9e3779b97f4a7c15), h ^= h >> 29;
	while (len-- > 0)
		h = (h ^ *p++) * UINT64_C(0x100000001b3);
	return h ^ h >> 32;
}

void whole_note(struct whole_visit *v, const char *path, uint64_t what, int r, uint64_t value)
{
	size_t len = strlen(path), n = SF_MIN(len, sizeof(v->seen->path) - 1);
	struct whole_seen *s = &v->seen[v->nseen];

	if (getenv("FZ_TRACE")) /* what a person wants of an input that was found */
		fprintf(stderr, "%s %s %d %016" PRIx64 "\n", v->fault ? "fault" : "clean", path, r,
		        value);
	if (v->nseen == WHOLE_SEEN)
		return;
	v->nseen++;
	*s = (struct whole_seen){ .step = whole_hash(what, path, len), .r = r, .value = value };
	memcpy(s->path, path + len - n, n);
}

/* [off, off+len) in two parts, the second as the mount reads: into memory of the reader, or lent. */
static int read_parts(struct whole_visit *v, struct sf_vfile *f, const char *path, uint64_t off,
                      uint64_t len)
{
	uint64_t half = len / 2, at = half;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_read rd = {
		.emit = sf_vfile_emit, .arg = f, .off = off + half, .len = len - half
	};
	int64_t got = sf_vfile_pread(f, off, parts, half, WANTED(v));
	int r;

	if (whole_result(path, got < 0 ? (int)got : 0, WANTED(v)) < 0)
		return (int)got;
	if ((uint64_t)got != half)
		whole_broken(path, "short read", got, (long long)half);
	if (len == half)
		return 0;
	r = whole_result(path, sf_read_wait(v->reader, &rd), &rd.err);
	for (int i = 0; r >= 0 && i < rd.niov; i++) {
		if (rd.iov[i].iov_len > len - at)
			whole_broken(path, "more bytes than asked", (long long)rd.iov[i].iov_len,
			             (long long)(len - at));
		memcpy(parts + at, rd.iov[i].iov_base, rd.iov[i].iov_len);
		at += rd.iov[i].iov_len;
	}
	if (r >= 0 && at != len)
		whole_broken(path, "fewer bytes than asked", (long long)at, (long long)len);
	sf_read_release(&rd);
	return r;
}

/* The same bytes in one read and in two, or an error in both. */
static int read_window(struct whole_visit *v, struct sf_vfile *f, const char *path, uint64_t off,
                       uint64_t len)
{
	struct sf_error err = SF_ERROR_INIT;
	int64_t got;
	int r;

	if (len > v->bytes)
		return 0;
	v->bytes -= len;
	got = sf_vfile_pread(f, off, whole, len, WANTED(v));
	whole_result(path, got < 0 ? (int)got : 0, WANTED(v));
	if (got >= 0 && (uint64_t)got != len)
		whole_broken(path, "short read", got, (long long)len);
	r = read_parts(v, f, path, off, len);
	if (!v->fault && (r < 0) != (got < 0))
		whole_broken(path, "whole or in two parts, not both", got, r);
	if (r >= 0 && got >= 0 && memcmp(whole, parts, len) != 0)
		whole_broken(path, "other bytes in two parts", (long long)off, (long long)len);
	whole_note(v, path, READ + off, got < 0 ? (int)got : 0,
	           got < 0 ? off : whole_hash(off, whole, len));
	return got < 0 ? (int)got : 0;
}

struct crcs {
	uint32_t at[WHOLE / 64]; /* a record has 64 bytes at least */
	uint32_t n;
};
static int add_crc(void *arg, uint32_t rec, uint64_t off, uint64_t len)
{
	struct crcs *c = arg;

	(void)rec;
	c->at[c->n++] = sf_crc32(0, whole + off, len);
	return 0;
}

/* As export does: the payloads' CRCs, once they are known, are those of the records. */
static void patch(struct whole_visit *v, struct sf_vfile *f, const char *path, uint64_t size)
{
	static struct crcs c;

	c.n = 0;
	if (v->bytes < size || sf_view_pt_payloads(f, add_crc, &c) < 0 ||
	    sf_view_pt_set_crcs(f, c.at, c.n) < 0)
		return;
	v->bytes -= size;
	if (sf_vfile_pread(f, 0, whole, size, NULL) == (int64_t)size)
		whole_parse(path, whole, size, true);
	else
		whole_broken(path, "cannot be read with its CRCs", (long long)size, 0);
}

static void read_file(struct whole_visit *v, struct sf_vfile *f, const char *path, uint64_t size,
                      bool real_crc)
{
	if (size <= WHOLE) {
		if (v->bytes >= size && read_window(v, f, path, 0, size) == 0 && !v->fault) {
			whole_parse(path, whole, size, false);
			if (real_crc)
				patch(v, f, path, size);
		}
		return;
	}
	read_window(v, f, path, 0, WINDOW);
	read_window(v, f, path, size - WINDOW, WINDOW);
	read_window(v, f, path, whole_hash(v->seed, path, strlen(path)) % (size - WINDOW), WINDOW);
}

static void visit_vfile(struct whole_visit *v, struct sf_vfile *f, const char *path,
                        const uint64_t *want, bool real_crc)
{
	struct sf_error err = SF_ERROR_INIT;
	uint64_t size = 0, again = 0;
	int r = whole_result(path, sf_vfile_prepare(f, WANTED(v)), WANTED(v));

	if (r >= 0) {
		r = sf_vfile_size(f, &size);
		if (r < 0)
			whole_broken(path, "no size after prepare", r, 0);
		if (want && *want != size)
			whole_broken(path, "another size than attr's", (long long)*want,
			             (long long)size);
	}
	whole_note(v, path, SIZE, r, size);
	if (r < 0)
		return;
	read_file(v, f, path, size, real_crc);
	if (sf_vfile_size(f, &again) < 0 || again != size)
		whole_broken(path, "another size after reading", (long long)size, (long long)again);
}

static void visit_live(struct whole_visit *v, sf_node n, const char *path)
{
	struct sf_error err = SF_ERROR_INIT;
	size_t len = 0;
	char *text = NULL;
	int r = sf_tree_live_text(v->tree, n, &sf_reader_io(v->reader)->counters, &text, &len,
	                          WANTED(v));

	if (whole_result(path, r, WANTED(v)) >= 0 && !v->fault)
		whole_parse(path, (const uint8_t *)text, len, false);
	if (r >= 0)
		free(text);
}

static void visit_file(struct whole_visit *v, sf_node n, const char *path)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_vfile *f = NULL;
	struct sf_attr a;
	int r = sf_tree_attr(v->tree, n, &a);

	if (r == -EAGAIN) {
		r = whole_result(path, sf_tree_prepare(v->tree, n, WANTED(v)), WANTED(v));
		if (r >= 0) {
			r = sf_tree_attr(v->tree, n, &a);
			if (r < 0 && !v->fault)
				whole_broken(path, "no attr after prepare", r, 0);
		}
	}
	whole_note(v, path, ATTR, r, r < 0 ? 0 : a.live ? 1 : a.size);
	if (r >= 0 && a.live) {
		visit_live(v, n, path);
		return;
	}
	err.msg[0] = '\0';
	/* a file that has no size may be opened: whoever reads it gets the error then */
	if (whole_result(path, sf_tree_open(v->tree, n, &f, WANTED(v)), WANTED(v)) < 0)
		return;
	visit_vfile(v, f, path, r < 0 ? NULL : &a.size, false);
	sf_vfile_unref(f);
}

static void visit_xattrs(struct whole_visit *v, sf_node n, const char *path)
{
	char names[1024], value[4096];
	int len = sf_tree_listxattr(v->tree, n, names, sizeof(names));

	whole_note(v, path, XATTRS, len, len > 0 ? whole_hash(2, names, (size_t)len) : 0);
	for (int at = 0; at < len; at += (int)strlen(names + at) + 1) {
		int size = sf_tree_getxattr(v->tree, n, names + at, NULL, 0);
		int r = sf_tree_getxattr(v->tree, n, names + at, value, sizeof(value));
		if (!v->fault && (size < 0 || (r != size && r != -ERANGE)))
			whole_broken(path, "a listed xattr without its value", size, r);
		whole_note(v, path, whole_hash(3, names + at, strlen(names + at)), r,
		           r > 0 ? whole_hash(3, value, (size_t)r) : 0);
	}
}

struct entries {
	struct whole_visit *v;
	sf_node dir;
	char *path; /* of the directory, then of each entry */
	size_t len;
	unsigned n;
	bool only; /* count and hash, descend into none */
	uint64_t names, skip, cookie;
	void (*each)(struct whole_visit *v, sf_node n, enum sf_node_type type, char *path,
	             size_t len);
};

static int entry(void *arg, const char *name, size_t len, sf_node node, enum sf_node_type type,
                 uint64_t next)
{
	struct entries *e = arg;
	sf_node found = 0;
	int r;

	e->path[e->len] = '\0';
	if (!len || len > 255 || memchr(name, '/', len) || memchr(name, '\0', len) ||
	    (len == 1 && name[0] == '.') || (len == 2 && memcmp(name, "..", 2) == 0))
		whole_broken(e->path, "a name no directory may have", (long long)len, 0);
	r = sf_tree_lookup(e->v->tree, e->dir, name, len, &found);
	if (r < 0 ? !e->v->fault : found != node)
		whole_broken(e->path, "an entry that is not found by its name", r, (long long)node);
	e->names = whole_hash(e->names, name, len);
	e->cookie = next;
	if (e->n++ < ENTRIES && e->v->nodes > 0 && e->len + len + 2 < PATH_LEN && !e->only) {
		memcpy(e->path + e->len, name, len + 1);
		e->path[e->len + len] = '\0';
		e->v->nodes--;
		e->each(e->v, node, type, e->path, e->len + len);
	}
	e->path[e->len] = '\0';
	return 0;
}

/* From the middle on it lists what it listed the first time. */
static int stop_at(void *arg, const char *name, size_t len, sf_node node, enum sf_node_type type,
                   uint64_t next)
{
	struct entries *e = arg;

	(void)name, (void)len, (void)node, (void)type;
	e->cookie = next;
	return ++e->n >= e->skip;
}

static int count(void *arg, const char *name, size_t len, sf_node node, enum sf_node_type type,
                 uint64_t next)
{
	(void)name, (void)len, (void)node, (void)type, (void)next;
	((struct entries *)arg)->n++;
	return 0;
}

static void visit_node(struct whole_visit *v, sf_node n, enum sf_node_type type, char *path,
                       size_t len);

static void visit_dir(struct whole_visit *v, sf_node n, char *path, size_t len)
{
	struct entries e = { .v = v, .dir = n, .path = path, .len = len, .each = visit_node };
	struct entries half = { .v = v };
	int r;

	if (len + 1 >= PATH_LEN)
		return;
	path[e.len++] = '/';
	path[e.len] = '\0';
	r = sf_tree_readdir(v->tree, n, 0, entry, &e);
	whole_note(v, path, LISTED, r, e.names);
	if (r < 0 && !v->fault)
		whole_broken(path, "readdir failed", r, 0);
	if (r < 0 || v->fault || e.n < 2)
		return;
	half.skip = e.n / 2;
	sf_tree_readdir(v->tree, n, 0, stop_at, &half);
	sf_tree_readdir(v->tree, n, half.cookie, count, &half);
	if (half.n != e.n)
		whole_broken(path, "other entries from the middle on", e.n, half.n);
}

/* Of very many keys a part, the same one every time. */
static bool skipped(const struct whole_visit *v, sf_node n, const char *path)
{
	unsigned part = 1 + v->c->n / ENOUGH;

	(void)n;
	return part > 1 && strchr(path + 1, '/') &&
	       whole_hash(v->seed, path, strlen(path)) % part != 0;
}

static void visit_link(struct whole_visit *v, sf_node n, const char *path)
{
	struct sf_error err = SF_ERROR_INIT;
	char target[4096];
	sf_node found;
	int r = sf_tree_readlink(v->tree, n, target, sizeof(target));

	if (r < 0 && !v->fault)
		whole_broken(path, "readlink", r, 0);
	r = whole_result(path, sf_tree_walk(v->tree, path + 1, true, &found, WANTED(v)), WANTED(v));
	if (r < 0 && !v->fault)
		whole_broken(path, "a link that leads nowhere", r, 0);
}

static void visit_node(struct whole_visit *v, sf_node n, enum sf_node_type type, char *path,
                       size_t len)
{
	struct sf_error err = SF_ERROR_INIT;
	sf_node found = 0;
	struct sf_attr a;
	int r = sf_tree_attr(v->tree, n, &a);

	if (r < 0 && r != -EAGAIN && type != SF_NODE_FILE && !v->fault)
		whole_broken(path, "no attr", r, (long long)n);
	if ((r >= 0 || r == -EAGAIN) &&
	    (a.type != type || !a.ino || a.ino != sf_tree_ino(v->tree, n)))
		whole_broken(path, "attr is of another type or number", a.type, type);
	if (memchr(path, '%', len) == NULL) {
		r = whole_result(path, sf_tree_walk(v->tree, path + 1, false, &found, WANTED(v)),
		                 WANTED(v));
		if (r < 0 ? !v->fault : found != n)
			whole_broken(path, "not found by its path", r, (long long)n);
	}
	if (type == SF_NODE_DIR)
		visit_dir(v, n, path, len);
	else if (type == SF_NODE_LINK)
		visit_link(v, n, path);
	else if (!skipped(v, n, path))
		visit_file(v, n, path);
	else
		return;
	path[len] = '\0';
	visit_xattrs(v, n, path);
}

/* Directly below the root: each gets a fresh allowance, so that one large directory leaves the
 * others theirs. */
static void visit_top(struct whole_visit *v, sf_node n, enum sf_node_type type, char *path,
                      size_t len)
{
	v->nodes = NODES;
	visit_node(v, n, type, path, len);
	v->nodes = NODES;
}

/* What export makes beside the files of the tree. */
static void visit_export(struct whole_visit *v)
{
	static uint32_t all[EXPORTED];
	struct sf_selection sel = { .entry = all, .n = SF_MIN(v->c->n, (uint32_t)EXPORTED) };

	for (uint32_t i = 0; i < sel.n; i++)
		all[i] = i;
	for (unsigned kind = 0; kind < 4; kind++) {
		if (v->c->n > ENOUGH && kind != v->seed % 4)
			continue;
		static const char *const names[] = { "export.pt", "export_flat.pt",
			                             "export_cast.pt", "export.safetensors" };
		struct sf_error err = SF_ERROR_INIT;
		struct sf_vfile *f = NULL;
		int r;
		sel.flat = kind == 1;
		sel.cast = kind == 2;
		r = kind == 3 ? sf_view_safetensors(v->c, v->reader, &sel, &f, WANTED(v))
		              : sf_view_pt(v->c, v->reader, &sel, &f, WANTED(v));
		whole_note(v, names[kind], MADE, whole_result(names[kind], r, WANTED(v)), 0);
		if (r < 0)
			continue;
		visit_vfile(v, f, names[kind], NULL, kind == 0);
		sf_vfile_unref(f);
	}
}

void whole_visit(struct whole_visit *v)
{
	static char path[PATH_LEN];
	struct entries e = {
		.v = v, .dir = SF_NODE_ROOT, .path = path, .len = 1, .each = visit_top
	};
	uint64_t bytes = 0, files = 0;
	int r;

	v->nodes = NODES;
	v->bytes = BYTES;
	path[0] = '/';
	path[1] = '\0';
	sf_tree_totals(v->tree, &bytes, &files);
	whole_note(v, path, TOTALS, 0, whole_hash(bytes, &files, sizeof(files)));
	r = sf_tree_readdir(v->tree, SF_NODE_ROOT, 0, entry, &e);
	whole_note(v, path, LISTED, r, e.names);
	if (r < 0 && !v->fault)
		whole_broken(path, "readdir failed", r, 0);
	visit_export(v);
}
