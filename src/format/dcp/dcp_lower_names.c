#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "format/dcp/dcp_lower_priv.h"

/*
 * A stored str as a name of ours: the one place where a byte that Python could not decode, and
 * pickled as a lone surrogate, becomes that byte again. What has none is lent as it is stored.
 */
int dcp_lower_str(struct dcp_lowering *l, uint32_t i, struct dcp_text *ret)
{
	const struct dcp_str *s = &l->m->str.at[i];
	char *out;

	*ret = (struct dcp_text){ s->at, s->len };
	if (!sf_surrogates_any(s->at, s->len))
		return 0;
	out = sf_arena_alloc(&l->text, s->len);
	if (!out)
		return sf_fail(l->err, -ENOMEM, "dcp: no memory for a name of %u bytes", s->len);
	*ret = (struct dcp_text){ out, (uint32_t)sf_surrogates_to_bytes(s->at, s->len, out) };
	return 0;
}

/* The key as shown: into l->name. */
int dcp_lower_name(struct dcp_lowering *l, uint32_t s)
{
	struct dcp_text key;
	int r = dcp_lower_str(l, s, &key);

	if (r < 0)
		return r;
	sf_buf_reset(&l->name);
	if (l->src->prefix) {
		sf_buf_str(&l->name, l->src->prefix);
		sf_buf_byte(&l->name, '.');
	}
	sf_buf_add(&l->name, key.at, key.len);
	sf_buf_byte(&l->name, '\0'); /* so that an empty key has a text, too */
	l->name.len -= l->name.failed ? 0 : 1;
	if (sf_buf_check(&l->name) < 0)
		return sf_fail(l->err, sf_buf_check(&l->name), "dcp: a key of %u bytes", key.len);
	return 0;
}

/* The path of a key, whose name stands in l->name; a list's when it is shown as one. @elem has room
 * for one more. */
static int set_path(struct dcp_lowering *l, uint32_t name, struct sf_path_elem *elem, size_t n)
{
	uint32_t tensor = l->m->str.at[name].tensor;
	/* merged metadata has a number for "seen as bytes", too */
	const struct dcp_tensor *t = tensor < l->m->tensor.n ? &l->m->tensor.at[tensor] : NULL;
	size_t len = l->name.len;
	char digits[12];
	int r = 0;

	if (!t || !l->class || !l->class[tensor] || t->nchunks == 1)
		return sf_ckpt_builder_path(l->b, (const char *)l->name.at, len, elem, n, l->err);
	for (uint32_t i = 0; i < t->nchunks && r >= 0; i++) {
		int k = snprintf(digits, sizeof(digits), "%u", i);
		elem[n] = (struct sf_path_elem){ digits, (uint32_t)k, 1 };
		l->name.len = len;
		sf_buf_printf(&l->name, ".%u", i);
		r = sf_buf_check(&l->name);
		if (r >= 0)
			r = sf_ckpt_builder_path(l->b, (const char *)l->name.at, l->name.len, elem,
			                         n + 1, l->err);
	}
	return r;
}

/* Planner paths; with a prefix every key gets one. */
int dcp_lower_paths(struct dcp_lowering *l)
{
	const struct dcp_meta *m = l->m;
	const unsigned front = l->src->prefix ? 1 : 0;
	SF_FREE struct sf_path_elem *elem = NULL;
	size_t cap = 0;
	int r = 0;

	for (size_t i = 0; i < m->path.n; i++)
		cap = SF_MAX(cap, m->path.at[i].n);
	elem = sf_alloc_array(cap + 3, sizeof(*elem));
	if (!elem)
		return sf_fail(l->err, -ENOMEM, "dcp: no memory for %zu path elements", cap);
	if (front)
		elem[0] = (struct sf_path_elem){ l->src->prefix, (uint32_t)strlen(l->src->prefix),
			                         0 };
	for (size_t i = 0; i < m->path.n && r >= 0; i++) {
		const struct dcp_path *path = &m->path.at[i];
		if (!l->is_key[path->key] || !path->n)
			continue; /* planner data is merged over ranks and may know more names than
			             were saved */
		l->is_key[path->key] = 2;
		for (uint32_t k = 0; k < path->n; k++) {
			const struct dcp_elem *e = &m->elem.at[path->elem0 + k];
			struct dcp_text t;
			r = dcp_lower_str(l, e->text, &t);
			if (r < 0)
				return r;
			elem[front + k] =
				(struct sf_path_elem){ t.at, t.len,
				                       e->is_int ? SF_PATH_LIST : SF_PATH_TEXT };
		}
		r = dcp_lower_name(l, path->key);
		if (r >= 0)
			r = set_path(l, path->key, elem, front + path->n);
		sf_arena_release(&l->text); /* the builder has its own */
	}
	for (size_t i = 0; front && i < m->key.n && r >= 0; i++) {
		uint32_t name = m->key.at[i].name;
		if (l->is_key[name] == 2)
			continue;
		struct dcp_text t;
		r = dcp_lower_str(l, name, &t);
		elem[1] = (struct sf_path_elem){ t.at, t.len, 0 };
		if (r >= 0)
			r = dcp_lower_name(l, name);
		if (r >= 0)
			r = set_path(l, name, elem, 2);
	}
	return r;
}
