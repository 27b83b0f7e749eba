/* The whole tree against a slow reference, and numbers that nobody gave. */
#include "config.h"

#include <string.h>

#include "base/path.h"
#include "tree_world.h"

#define NAMES 400
#define INODES (64 * NAMES)
struct made {
	char *name[NAMES];
	size_t len[NAMES];
	unsigned n;
	struct sf_buf want; /* directories of state/ that there must be, one a line, sorted */
	struct sf_tree *t;
	uint64_t ino[INODES];
	size_t nino;
};

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Lines sorted, each once. */
static char *sort_lines(struct sf_buf *b)
{
	struct sf_buf out = { 0 };
	char **line;
	size_t n = 0, cap = 1;

	sf_buf_byte(b, 0);
	for (size_t i = 0; i < b->len; i++)
		cap += b->at[i] == '\n';
	line = calloc(cap, sizeof(*line));
	for (char *s = strtok((char *)b->at, "\n"); s; s = strtok(NULL, "\n"))
		line[n++] = s;
	qsort(line, n, sizeof(*line), by_text);
	for (size_t i = 0; i < n; i++)
		if (i == 0 || strcmp(line[i], line[i - 1]) != 0)
			sf_buf_printf(&out, "%s\n", line[i]);
	sf_buf_byte(&out, 0);
	free(line);
	return (char *)out.at;
}

/* Every directory on the way to a key, and its own one. */
static void reference(struct made *m)
{
	struct sf_buf path = { 0 };

	for (unsigned k = 0; k < m->n; k++) {
		sf_buf_reset(&path);
		for (size_t from = 0, i = 0; i <= m->len[k]; i++)
			if (i == m->len[k] || m->name[k][i] == '.') {
				sf_name_encode(&path, m->name[k] + from, i - from, m->name[k],
				               m->len[k], 0);
				sf_buf_byte(&path, '/');
				sf_buf_add(&m->want, path.at, path.len);
				sf_buf_byte(&m->want, '\n');
				from = i + 1;
			}
		sf_buf_add(&m->want, path.at, path.len);
		sf_buf_str(&m->want, "tensor.raw\n");
	}
	sf_buf_release(&path);
}

struct walk {
	struct made *m;
	struct sf_buf *out, path;
	sf_node dir;
	uint64_t *rnd;
	unsigned seen, stop; /* entries before a pause */
	uint64_t resume;
};

static int visit(void *arg, const char *name, size_t len, sf_node node, enum sf_node_type type,
                 uint64_t next);

/* A directory in pieces of random size, as the kernel asks for it. */
static void walk_dir(struct walk *w)
{
	uint64_t cookie = 0;
	unsigned before;

	do {
		before = w->seen;
		w->stop = w->seen + 1 + (unsigned)sf_test_below(w->rnd, 4);
		ck_assert_int_eq(sf_tree_readdir(w->m->t, w->dir, cookie, visit, w), 0);
		cookie = w->resume;
	} while (w->seen != before);
}

static int visit(void *arg, const char *name, size_t len, sf_node node, enum sf_node_type type,
                 uint64_t next)
{
	struct walk *w = arg;
	struct sf_attr a;
	sf_node found;

	ck_assert_uint_le(len, 255);
	ck_assert_int_eq(sf_tree_lookup(w->m->t, w->dir, name, len, &found), 0);
	ck_assert_uint_eq(found, node);
	ck_assert_int_eq(sf_tree_attr(w->m->t, node, &a), 0);
	ck_assert_uint_lt(w->m->nino, INODES);
	w->m->ino[w->m->nino++] = a.ino;
	if (type == SF_NODE_DIR) {
		struct walk below = { .m = w->m, .out = w->out, .dir = node, .rnd = w->rnd };
		sf_buf_add(&below.path, w->path.at, w->path.len);
		sf_buf_add(&below.path, name, len);
		sf_buf_byte(&below.path, '/');
		sf_buf_add(w->out, below.path.at, below.path.len);
		sf_buf_byte(w->out, '\n');
		walk_dir(&below);
		sf_buf_release(&below.path);
	} else if (len == 10 && memcmp(name, "tensor.raw", 10) == 0) {
		sf_buf_add(w->out, w->path.at, w->path.len);
		sf_buf_str(w->out, "tensor.raw\n");
	}
	w->resume = next;
	return ++w->seen >= w->stop;
}

static void random_keys(struct vw *w, struct made *m, uint64_t *rnd)
{
	static const char *const part[] = { "a", "b", "",    "-",   "layers",   "0",    "10", "2",
		                            "/", "%", "%2F", "a/b", "\xc3\xa9", "\xff", "~",  "x" };

	for (unsigned k = 0; k < NAMES; k++) {
		char name[2048];
		size_t len = 0, n = 1 + sf_test_below(rnd, 5);
		bool is_tensor;
		for (size_t i = 0; i < n; i++) {
			if (i)
				name[len++] = '.';
			const char *p = part[sf_test_below(rnd, SF_ARRAY_LEN(part))];
			/* long ones too: near the limit, and some that share all but their end */
			size_t times = sf_test_below(rnd, 12) ? 1 : 80 + sf_test_below(rnd, 30) * 7;
			for (size_t c = 0;
			     c < times && len + strlen(p) + 2 < sizeof(name) && c * strlen(p) < 320;
			     c++) {
				memcpy(name + len, p, strlen(p));
				len += strlen(p);
			}
		}
		if (sf_ckpt_builder_find(w->b, name, len, &is_tensor) != SF_NONE)
			continue;
		vw_flat(w, name, len);
		m->name[m->n] = malloc(len + 1);
		memcpy(m->name[m->n], name, len);
		m->len[m->n++] = len;
	}
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

START_TEST(state_is_what_splitting_every_key_gives)
{
	uint64_t rnd = sf_test_seed("state_is_what_splitting_every_key_gives");
	static struct made m;
	struct sf_buf out = { 0 };
	struct walk walk = { .m = &m, .out = &out, .rnd = &rnd };
	struct vw w;

	vw_init(&w);
	random_keys(&w, &m, &rnd);
	m.t = tree_of(&w);
	vw_ok(sf_tree_walk(m.t, "state", true, &walk.dir, &err));
	walk_dir(&walk);
	reference(&m);
	char *want = sort_lines(&m.want), *got = sort_lines(&out);
	ck_assert_str_eq(got, want);
	ck_assert_ptr_nonnull(strchr(want, '~')); /* some were cut */
	qsort(m.ino, m.nino, sizeof(m.ino[0]), by_number);
	for (size_t i = 1; i < m.nino; i++)
		ck_assert_uint_ne(m.ino[i - 1], m.ino[i]);
	free(want);
	free(got);
	sf_buf_release(&out);
	sf_buf_release(&m.want);
	for (unsigned k = 0; k < m.n; k++)
		free(m.name[k]);
	sf_tree_free(m.t);
	vw_close(&w);
}
END_TEST

START_TEST(flat_directories_name_every_tensor)
{
	uint64_t rnd = sf_test_seed("flat_directories_name_every_tensor");
	static const char *const dir[] = { "npy", "pt", "safetensors" };
	static struct made m;
	struct vw w;

	vw_init(&w);
	random_keys(&w, &m, &rnd);
	m.t = tree_of(&w);
	for (int d = 0; d < 3; d++) {
		struct sf_buf want = { 0 };
		unsigned n = 0;
		for (unsigned k = 0; k < m.n; k++) {
			if (d == 2 && !sf_utf8_valid(m.name[k], m.len[k]))
				continue; /* a safetensors header is UTF-8 */
			if (n++)
				sf_buf_byte(&want, '|');
			sf_name_encode(&want, m.name[k], m.len[k], m.name[k], m.len[k],
			               strlen(".safetensors"));
			sf_buf_printf(&want, ".%s", dir[d]);
		}
		ck_list(m.t, dir[d], sf_buf_cstr(&want));
		sf_buf_release(&want);
	}
	for (unsigned k = 0; k < m.n; k++)
		free(m.name[k]);
	sf_tree_free(m.t);
	vw_close(&w);
}
END_TEST

static int ignore(void *arg, const char *name, size_t len, sf_node node, enum sf_node_type type,
                  uint64_t next)
{
	ck_assert_uint_le(len, 255);
	(void)arg, (void)name, (void)node, (void)type, (void)next;
	return 0;
}

/* A kernel may ask for numbers of another life, a process for any place in a directory. */
START_TEST(any_number_and_any_cookie_is_safe)
{
	uint64_t rnd = sf_test_seed("any_number_and_any_cookie_is_safe");
	struct made m = { .n = 0 };
	struct sf_error err;
	struct sf_vfile *f;
	struct sf_attr a;
	char text[64];
	struct vw w;
	sf_node n, found;
	int valid = 0;

	const char *views[] = { "state", "groups" };
	ordinary(&w);
	random_keys(&w, &m, &rnd);
	w.opt.objects = SF_OBJECTS_NONE;
	if (_i) /* numbers of directories that are not there */
		w.opt.views = (struct sf_strs){ views, 2 };
	struct sf_tree *t = tree_of(&w);
	for (int i = 0; i < 50000; i++) {
		unsigned depth =
			(unsigned)(i % 3 ? sf_test_below(&rnd, 5) : sf_test_below(&rnd, 1024));
		n = (sf_node)sf_test_below(&rnd, 26) << 42 | (sf_node)depth << 32 |
		    (uint32_t)(i % 4 ? sf_test_below(&rnd, NAMES + 9) : sf_test_rand(&rnd));
		bool there = sf_tree_attr(t, n, &a) == 0;
		valid += there;
		if (there)
			ck_assert_uint_eq(sf_tree_ino(t, n), a.ino);
		sf_tree_readdir(t, n, i % 5 ? sf_test_below(&rnd, NAMES) : sf_test_rand(&rnd),
		                ignore, NULL);
		unsigned k = (unsigned)sf_test_below(&rnd, m.n);
		sf_tree_lookup(t, n, m.name[k], m.len[k], &found);
		sf_tree_getxattr(t, n, "user.shardfuse.shape", text, sizeof(text));
		sf_tree_listxattr(t, n, text, sizeof(text));
		sf_tree_readlink(t, n, text, sizeof(text));
		if (i % 8 == 0 && sf_tree_open(t, n, &f, &err) == 0)
			sf_vfile_unref(f);
	}
	ck_assert_int_gt(valid, 1000);
	ck_assert_uint_eq(sf_tree_ino(t, (sf_node)25 << 42 | UINT32_MAX), 0);
	/* the cookie that would lead back to the key whose directory it is */
	ck_assert_int_eq(sf_tree_walk(t, "state/model/a", true, &n, &err), 0);
	for (uint64_t cookie = 0; cookie < 20; cookie++)
		ck_assert_int_eq(sf_tree_readdir(t, n, cookie, ignore, NULL), 0);
	for (unsigned k = 0; k < m.n; k++)
		free(m.name[k]);
	sf_tree_free(t);
	vw_close(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tree_random");
	TCase *t = tcase_create("all");

	tcase_add_test(t, state_is_what_splitting_every_key_gives);
	tcase_add_test(t, flat_directories_name_every_tensor);
	tcase_add_loop_test(t, any_number_and_any_cookie_is_safe, 0, 2);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
