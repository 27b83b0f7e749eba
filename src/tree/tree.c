#include "config.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/path.h"
#include "catalog/view_wanted.h"
#include "tree/tree_priv.h"

/* hf/ can fail for itself: two keys to one name, no model in this checkpoint. The rest is there
 * without it. */
static int make_hf(struct sf_tree *t, struct sf_error *err)
{
	struct sf_error why = SF_ERROR_INIT;
	int r;

	if (!sf_view_wanted(t->c->opt, "hf"))
		return 0;
	r = sf_hf_new(t->c, &t->hf, &why);
	/* two names that a rule made one are the rule's mistake, as with --map */
	if (r == -ENOMEM || (r == -EINVAL && t->c->opt->nhf_map))
		return sf_fail(err, r, "%s", why.msg);
	if (r < 0 && t->r)
		sf_log(sf_reader_io(t->r)->log,
		       r == -ENOENT && !t->c->opt->hf_group && !t->c->opt->hf_files ? SF_LOG_INFO
		                                                                    : SF_LOG_WARN,
		       "there is no hf/: %s", why.msg);
	return 0;
}

static int make(struct sf_tree *t, struct sf_error *err)
{
	const struct sf_catalog *c = t->c;
	int r = sf_views_check(c->opt, err);

	if (r < 0)
		return r;
	t->all = sf_arena_calloc(&t->arena, (size_t)c->n + 1, sizeof(*t->all));
	/* on their own, so that pages nobody asks for are never made */
	t->entry_size = calloc(2 * (size_t)c->n + 1, sizeof(*t->entry_size));
	if (!t->all || !t->entry_size)
		return sf_fail(err, -ENOMEM, "no memory for a tree of %" PRIu32 " keys", c->n);
	for (uint32_t i = 0; i < c->n; i++) {
		t->all[i] = i;
		if (c->entry[i].tensor != SF_NONE &&
		    !sf_add(t->bytes, c->ckpt->tensor[c->entry[i].tensor].bytes, &t->bytes))
			t->bytes = UINT64_MAX;
	}
	r = make_hf(t, err);
	if (r >= 0)
		r = sf_hf_make(t, err);
	if (r >= 0)
		r = sf_shards_make(t, err);
	if (r >= 0)
		r = sf_root_make(t, err);
	if (r >= 0)
		r = sf_links_make(t, err);
	return r;
}

int sf_tree_new(const struct sf_catalog *c, struct sf_reader *r, struct sf_tree **ret,
                struct sf_error *err)
{
	struct sf_tree *t = calloc(1, sizeof(*t));
	int res;

	if (!t)
		return sf_fail(err, -ENOMEM, "no memory for a tree");
	t->c = c;
	t->r = r;
	t->hf_same = SF_NONE;
	res = sf_tree_cache_make(t, err);
	if (res >= 0)
		res = make(t, err);
	if (res < 0) {
		sf_tree_free(t);
		return res;
	}
	*ret = t;
	return 0;
}

int sf_tree_new_run(const struct sf_catalog *c, struct sf_reader *r, struct sf_run *run,
                    struct sf_tree **ret, struct sf_error *err)
{
	struct sf_tree *t = calloc(1, sizeof(*t));
	int res;

	if (!t)
		return sf_fail(err, -ENOMEM, "no memory for a tree");
	t->c = c;
	t->r = r;
	t->run = run;
	t->hf_same = SF_NONE;
	res = sf_tree_cache_make(t, err);
	if (res < 0)
		sf_tree_free(t);
	else
		*ret = t;
	return res;
}

void sf_tree_free(struct sf_tree *t)
{
	if (!t)
		return;
	sf_tree_cache_free(t);
	sf_map_release(&t->hf_names);
	sf_hf_free(t->hf);
	free(t->entry_size);
	free(t->hf_size);
	sf_arena_release(&t->arena);
	free(t);
}

bool sf_tree_valid(const struct sf_tree *t, sf_node n)
{
	return sf_kind_of(n)->valid(t, n);
}

uint32_t sf_tree_entry(const struct sf_tree *t, sf_node n)
{
	const struct sf_kind *kind = sf_kind_of(n);

	return kind->entry ? kind->entry(t, n) : SF_NONE;
}

int sf_tree_lookup(struct sf_tree *t, sf_node dir, const char *name, size_t len, sf_node *ret)
{
	const struct sf_kind *kind = sf_kind_of(dir);

	if (!kind->valid(t, dir))
		return -ENOENT;
	return kind->lookup ? kind->lookup(t, dir, name, len, ret) : -ENOTDIR;
}

int sf_tree_readdir(struct sf_tree *t, sf_node dir, uint64_t cookie,
                    int (*each)(void *arg, const char *name, size_t len, sf_node node,
                                enum sf_node_type type, uint64_t next_cookie),
                    void *arg)
{
	const struct sf_kind *kind = sf_kind_of(dir);

	if (!kind->valid(t, dir))
		return -ENOENT;
	return kind->readdir ? kind->readdir(t, dir, cookie, each, arg) : -ENOTDIR;
}

int sf_tree_readlink(struct sf_tree *t, sf_node n, char *buf, size_t size)
{
	const char *target = sf_root_link(t, n);

	if (t->run)
		return sf_tree_run_readlink(t, n, buf, size);
	if (!target)
		return -EINVAL;
	memcpy(buf, target, SF_MIN(size, strlen(target)));
	return (int)SF_MIN(size, strlen(target));
}

static int no_such(const char *path, const char *at, int code, struct sf_error *err)
{
	struct sf_buf text = { .limit = SF_ERROR_MAX };

	sf_escape_text(&text, path, (size_t)(at - path));
	sf_fail(err, code, "'%s': %s", sf_buf_cstr(&text),
	        code == -ENOTDIR ? "not a directory" : "no such file in the virtual tree");
	sf_buf_release(&text);
	return code;
}

int sf_tree_walk(struct sf_tree *t, const char *path, bool follow, sf_node *ret,
                 struct sf_error *err)
{
	sf_node n = SF_NODE_ROOT;

	for (const char *p = path; *p;) {
		size_t len = strcspn(p, "/");
		int r = len == 0 || (len == 1 && *p == '.') ? 0 : sf_tree_lookup(t, n, p, len, &n);
		if (r < 0)
			return no_such(path, p + len, r, err);
		p += len + (p[len] == '/');
	}
	if (follow && sf_root_link(t, n)) {
		const char *target = sf_root_link(t, n);
		int r = sf_tree_lookup(t, SF_NODE_ROOT, target, strlen(target), &n);
		if (r < 0)
			return no_such(target, target + strlen(target), r, err);
	}
	*ret = n;
	return 0;
}

bool sf_tree_is_listed(sf_node n)
{
	return sf_node_kind(n) == SF_T_SHARDS_FILE;
}
