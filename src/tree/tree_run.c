#include "config.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "format/run.h"
#include "tree/tree_priv.h"
#include "view/run_text.h"

/* What the root of a run has beside its steps; those may be called so too, and are hidden then. */
enum { RUN_README, RUN_INFO, RUN_LATEST, RUN_CONTROL, RUN_NNAMES };
static const char *const names[RUN_NNAMES] = { "README", "info.json", "latest", ".shardfuse" };

/* 0: it is not there now. */
static sf_node node_of(const struct sf_tree *t, uint32_t i)
{
	uint32_t latest;

	if (i == RUN_LATEST)
		return sf_run_latest(t->run, &latest) < 0
		               ? 0
		               : sf_node_make(SF_T_RUN_LATEST, 0, latest);
	return i == RUN_CONTROL ? sf_node_make(SF_T_CONTROL, 0, 0)
	                        : sf_node_make(SF_T_RUN_FILE, 0, i);
}

static uint32_t name_of(const char *name, size_t len)
{
	uint32_t i = 0;

	while (i < RUN_NNAMES && (strlen(names[i]) != len || memcmp(names[i], name, len) != 0))
		i++;
	return i;
}

int sf_tree_run_lookup(const struct sf_tree *t, const char *name, size_t len, sf_node *ret)
{
	uint32_t i = name_of(name, len), step;
	int r = -ENOENT;

	if (i < RUN_NNAMES) {
		*ret = node_of(t, i);
		r = *ret ? 0 : -ENOENT;
	} else if (sf_run_find(t->run, name, len, &step) >= 0) {
		r = 0;
		*ret = sf_node_make(SF_T_RUN_STEP, 0, step);
	}
	return r;
}

static enum sf_node_type type_of(uint32_t i)
{
	return i == RUN_LATEST ? SF_NODE_LINK : i == RUN_CONTROL ? SF_NODE_DIR : SF_NODE_FILE;
}

/* Cookies: the names, then the steps by their numbers. */
int sf_tree_run_list(const struct sf_tree *t, uint64_t cookie, sf_tree_each *each, void *arg)
{
	const char *name;
	uint32_t step;
	int r = 0;

	for (uint32_t i = (uint32_t)SF_MIN(cookie, (uint64_t)RUN_NNAMES); i < RUN_NNAMES && !r;
	     i++) {
		sf_node n = node_of(t, i);
		if (n)
			r = each(arg, names[i], strlen(names[i]), n, type_of(i), i + 1);
	}
	step = cookie > RUN_NNAMES ? (uint32_t)(cookie - RUN_NNAMES) : 0;
	for (; !r && (name = sf_run_next(t->run, step, &step)); step++)
		if (name_of(name, strlen(name)) == RUN_NNAMES)
			r = each(arg, name, strlen(name), sf_node_make(SF_T_RUN_STEP, 0, step),
			         SF_NODE_DIR, (uint64_t)step + 1 + RUN_NNAMES);
	return r < 0 ? r : 0;
}

/* ---- README, info.json ---- */

static bool is_file(const struct sf_tree *t, sf_node n)
{
	return t->run && sf_node_index(n) < RUN_LATEST;
}

static uint64_t mix_name(const struct sf_tree *t, sf_node n, uint64_t h)
{
	(void)t;
	return sf_fnv1a(h, names[sf_node_index(n)], strlen(names[sf_node_index(n)]));
}

static void put_text(const struct sf_tree *t, sf_node n, struct sf_buf *out)
{
	if (sf_node_index(n) == RUN_README)
		sf_run_readme(out, t->run);
	else
		sf_run_json(out, t->run, NULL);
}

static void describe(const struct sf_tree *t, sf_node n, struct sf_attr *ret)
{
	struct sf_buf text = { .limit = 1 << 30 };

	put_text(t, n, &text);
	ret->mtime_ns = sf_run_mtime(t->run);
	ret->live = true; /* it may be another one when it is opened */
	ret->size = sf_buf_bytes(&text);
	sf_buf_release(&text);
}

int sf_tree_run_text(const struct sf_tree *t, sf_node n, char **ret, size_t *ret_len,
                     struct sf_error *err)
{
	struct sf_buf text = { .limit = 1 << 30 };
	int r;

	if (!is_file(t, n))
		return sf_fail(err, -ENOENT, "not a file of a run directory");
	put_text(t, n, &text);
	sf_buf_cstr(&text);
	r = sf_buf_check(&text);
	if (r < 0) {
		sf_buf_release(&text);
		return sf_fail(err, r, "%s: no memory", names[sf_node_index(n)]);
	}
	*ret = (char *)text.at;
	*ret_len = sf_buf_bytes(&text);
	return 0;
}

const struct sf_kind sf_kind_run_file = { .valid = is_file, .path = mix_name, .attr = describe };

/* ---- a step, from outside, and the link to one ---- */

static bool is_step(const struct sf_tree *t, sf_node n)
{
	return t->run && sf_node_index(n) < sf_run_nsteps(t->run);
}

static uint64_t mix_step(const struct sf_tree *t, sf_node n, uint64_t h)
{
	struct sf_run_step s;

	sf_run_step(t->run, sf_node_index(n), &s);
	return sf_fnv1a(h, s.name, strlen(s.name));
}

static void describe_step(const struct sf_tree *t, sf_node n, struct sf_attr *ret)
{
	struct sf_run_step s;

	sf_run_step(t->run, sf_node_index(n), &s);
	ret->mtime_ns = s.mtime_ns;
}

const struct sf_kind sf_kind_run_step = {
	.dir = true, .valid = is_step, .path = mix_step, .attr = describe_step
};

static void describe_latest(const struct sf_tree *t, sf_node n, struct sf_attr *ret)
{
	struct sf_run_step s;

	sf_run_step(t->run, sf_node_index(n), &s);
	*ret = (struct sf_attr){ .type = SF_NODE_LINK,
		                 .mode = 0777,
		                 .size = strlen(s.name),
		                 .ino = ret->ino,
		                 .mtime_ns = s.mtime_ns,
		                 .nlink = 1,
		                 .listed = SF_NONE };
}

const struct sf_kind sf_kind_run_latest = { .valid = is_step,
	                                    .path = mix_step,
	                                    .attr = describe_latest };

int sf_tree_run_readlink(const struct sf_tree *t, sf_node n, char *buf, size_t size)
{
	struct sf_run_step s;
	size_t len;

	if (sf_node_kind(n) != SF_T_RUN_LATEST || !is_step(t, n))
		return -EINVAL;
	sf_run_step(t->run, sf_node_index(n), &s);
	len = SF_MIN(strlen(s.name), size);
	memcpy(buf, s.name, len);
	return (int)len;
}

bool sf_tree_step(sf_node n, uint32_t *ret)
{
	*ret = sf_node_index(n);
	return sf_node_kind(n) == SF_T_RUN_STEP;
}

sf_node sf_tree_step_node(uint32_t step)
{
	return sf_node_make(SF_T_RUN_STEP, 0, step);
}
