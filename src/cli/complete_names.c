#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/mountinfo.h"
#include "cli/complete.h"

#define NAMES_MAX (1u << 20)

static void add(struct sf_names *l, const char *s, size_t len, bool more)
{
	char *text;

	if (l->n >= NAMES_MAX || !len || memchr(s, 0, len)) /* none of these is a word */
		return;
	if (l->n == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 64;
		struct sf_name *at = realloc(l->at, cap * sizeof(*at));
		if (!at)
			return;
		l->at = at;
		l->cap = cap;
	}
	text = strndup(s, len);
	if (text)
		l->at[l->n++] = (struct sf_name){ text, more };
}

static bool begins(const char *s, size_t len, const char *prefix)
{
	size_t n = strlen(prefix);

	return n <= len && memcmp(s, prefix, n) == 0;
}

static int open_local(struct sf_session *s, const struct sf_common *common, const char *source)
{
	if (strstr(source, "://") && !begins(source, strlen(source), "file://"))
		return -ENOTSUP;
	return sf_session_open(s, &common->session, source, NULL);
}

void sf_names_keys(struct sf_names *ret, const struct sf_common *common, const char *source,
                   const char *prefix, bool stored)
{
	struct sf_session s;

	if (open_local(&s, common, source) < 0)
		return;
	for (uint32_t i = 0; i < s.catalog->n; i++) {
		const struct sf_entry *e = &s.catalog->entry[i];
		const struct sf_key *k = &s.ckpt->key[e->key];
		const char *name = stored ? k->name : e->name;
		size_t len = stored ? k->len : e->len;
		if (begins(name, len, prefix))
			add(ret, name, len, false);
	}
	sf_session_close(&s);
}

struct listing {
	struct sf_names *ret;
	const char *dir, *rest; /* "npy/", and how names in it begin */
	int dir_len;
};

static int each_entry(void *arg, const char *name, size_t len, sf_node node, enum sf_node_type type,
                      uint64_t next_cookie)
{
	const struct listing *l = arg;
	SF_CLEANUP(sf_buf_release) struct sf_buf path = { 0 };

	(void)node, (void)next_cookie;
	if (!begins(name, len, l->rest))
		return 0;
	sf_buf_add(&path, l->dir, (size_t)l->dir_len);
	sf_buf_add(&path, name, len);
	if (type == SF_NODE_DIR)
		sf_buf_byte(&path, '/');
	if (sf_buf_check(&path) >= 0)
		add(l->ret, (const char *)path.at, path.len, type == SF_NODE_DIR);
	return 0;
}

void sf_names_paths(struct sf_names *ret, const struct sf_common *common, const char *source,
                    const char *prefix)
{
	const char *slash = strrchr(prefix, '/');
	struct listing l = { .ret = ret, .dir = prefix, .rest = slash ? slash + 1 : prefix };
	struct sf_session s;
	sf_node dir = SF_NODE_ROOT;

	l.dir_len = (int)(l.rest - prefix);
	if (open_local(&s, common, source) < 0)
		return;
	SF_FREE char *path = strndup(prefix, (size_t)l.dir_len);
	if (path && (!*path || sf_tree_walk(s.tree, path, true, &dir, NULL) >= 0))
		sf_tree_readdir(s.tree, dir, 0, each_entry, &l);
	sf_session_close(&s);
}

struct mounts {
	struct sf_names *ret;
	const char *prefix;
};

static int each_mount(void *arg, const struct sf_mountinfo *m)
{
	const struct mounts *l = arg;
	size_t len = strlen(m->target);

	if (begins(m->target, len, l->prefix))
		add(l->ret, m->target, len, false);
	return 0;
}

void sf_names_mounts(struct sf_names *ret, FILE *mountinfo, const char *prefix)
{
	struct mounts l = { ret, prefix };

	if (mountinfo)
		sf_mounts_each_of(mountinfo, each_mount, &l);
	else
		sf_mounts_each(each_mount, &l, NULL);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(((const struct sf_name *)a)->text, ((const struct sf_name *)b)->text);
}

/* Those that are alike up to @len bytes, from @i on. */
static size_t alike(const struct sf_names *l, size_t i, size_t len)
{
	size_t k = i + 1;

	while (k < l->n && strncmp(l->at[i].text, l->at[k].text, len) == 0)
		k++;
	return k - i;
}

void sf_names_fold(struct sf_names *l, const char *prefix, size_t many)
{
	size_t skip = strlen(prefix), n = 0, same;
	bool fold;

	if (l->n)
		qsort(l->at, l->n, sizeof(*l->at), by_text);
	for (size_t i = 0; i < l->n; i++)
		if (i && strcmp(l->at[i].text, l->at[n - 1].text) == 0)
			free(l->at[i].text);
		else
			l->at[n++] = l->at[i];
	l->n = n;
	fold = n > many;
	n = 0;
	for (size_t i = 0; i < l->n && fold; i += same) {
		struct sf_name name = l->at[i];
		size_t len = strlen(name.text), cut = strcspn(name.text + skip, "./") + skip;
		same = cut + 1 < len ? alike(l, i, cut + 1) : 1;
		if (same > 1) {
			name.text[cut + 1] = 0;
			name.more = true;
		}
		for (size_t k = 1; k < same; k++)
			free(l->at[i + k].text);
		l->at[n++] = name;
	}
	l->n = fold ? n : l->n;
}

void sf_names_release(struct sf_names *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->at[i].text);
	free(l->at);
	*l = (struct sf_names){ 0 };
}
