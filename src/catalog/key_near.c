#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/near.h"
#include "catalog/key_near.h"

#define SHOWN 3        /* names in a hint */
#define NAME_SHOWN 200 /* bytes of one */

struct text {
	const char *s;
	size_t len;
};

/* Names found, each once. */
struct found {
	struct text at[SHOWN];
	uint32_t n; /* also those that are not in at[] */
	struct text *all;
	size_t cap;
	struct sf_map map;
	int failed; /* no memory: the hint is left out */
};

static bool separates(char c)
{
	return c == '.' || c == '/';
}

static bool same(const char *a, const char *b, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (a[i] != b[i] && !(separates(a[i]) && separates(b[i])))
			return false;
	return true;
}

static int same_text(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct text *t = &((const struct found *)arg)->all[value];

	return t->len == len && memcmp(t->s, key, len) == 0;
}

static void add(struct found *f, const char *s, size_t len)
{
	if (f->failed)
		return;
	/* neighbours mostly share what they are below */
	if (f->n && same_text(f, f->n - 1, s, len))
		return;
	if (f->n == f->cap) {
		size_t cap = f->cap ? f->cap * 2 : 64;
		struct text *all = realloc(f->all, cap * sizeof(*all));
		if (!all) {
			f->failed = -ENOMEM;
			return;
		}
		f->all = all;
		f->cap = cap;
	}
	f->all[f->n] = (struct text){ s, len };
	if (sf_map_add(&f->map, s, len, f->n, same_text, f, &f->failed) != SF_MAP_NONE || f->failed)
		return;
	if (f->n < SHOWN)
		f->at[f->n] = f->all[f->n];
	f->n++;
}

static void clear(struct found *f)
{
	free(f->all);
	sf_map_release(&f->map);
	*f = (struct found){ 0 };
}

/* Names, and what they are below, that end in @typed at a component's border. */
static void find_ends(struct found *f, struct text typed, sf_key_name *name, const void *arg,
                      uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		size_t len;
		const char *s = name(arg, i, &len);
		for (size_t at = 0; typed.len && at + typed.len <= len; at++)
			if ((!at || separates(s[at - 1])) &&
			    (at + typed.len == len || separates(s[at + typed.len])) &&
			    same(s + at, typed.s, typed.len)) {
				add(f, s, at + typed.len);
				break;
			}
	}
}

static size_t components(const char *s, size_t len)
{
	size_t n = 1;

	for (size_t i = 0; i < len; i++)
		n += separates(s[i]);
	return n;
}

/* The nearest of the names and what they are below, of about as many components as @typed. */
static void find_near(struct found *f, struct text typed, sf_key_name *name, const void *arg,
                      uint32_t n)
{
	size_t want = components(typed.s, typed.len);
	unsigned best = sf_edits_allowed(typed.len);
	struct text last = { "", 0 };

	for (uint32_t i = 0; i < n; i++) {
		size_t len, parts = 0;
		const char *s = name(arg, i, &len);
		/* a border in what this one shares with the one before was looked at there */
		size_t shared = 0;
		while (shared < len && shared < last.len && s[shared] == last.s[shared])
			shared++;
		last = (struct text){ s, len };
		for (size_t at = 0; at <= len; at++) {
			if (at < len && !separates(s[at]))
				continue;
			parts++;
			if (parts > want + 1)
				break;
			if (parts + 1 < want || at < shared)
				continue;
			unsigned d = sf_edits(typed.s, typed.len, s, at, best);
			if (d > best)
				continue;
			if (d < best)
				clear(f);
			best = d;
			add(f, s, at);
		}
	}
}

static void put_name(struct sf_buf *out, struct text t, struct text behind)
{
	sf_buf_byte(out, '\'');
	sf_buf_add(out, t.s, SF_MIN(t.len, (size_t)NAME_SHOWN));
	sf_buf_str(out, t.len > NAME_SHOWN ? "…" : "");
	sf_buf_add(out, behind.s, behind.len);
	sf_buf_byte(out, '\'');
}

static void put_found(struct sf_buf *out, const struct found *f, struct text typed, bool ends,
                      struct text behind)
{
	if (ends && f->n > 1) {
		sf_buf_printf(out, ": %" PRIu32 " keys end in ", f->n);
		put_name(out, typed, (struct text){ "", 0 });
		sf_buf_str(out, ": ");
	} else {
		sf_buf_str(out, ": did you mean ");
	}
	for (uint32_t i = 0; i < SF_MIN(f->n, (uint32_t)SHOWN); i++) {
		bool last = i + 1 == f->n;
		sf_buf_str(out, !i ? "" : last && !ends ? " or " : ", ");
		put_name(out, f->at[i], behind);
	}
	if (f->n > SHOWN)
		sf_buf_str(out, ", …");
	sf_buf_str(out, ends && f->n > 1 ? "" : "?");
}

static bool starts(struct text t, const char *with)
{
	size_t n = strlen(with);

	return t.len > n && memcmp(t.s, with, n) == 0;
}

static void cut_end(struct text *t, const char *end)
{
	size_t n = strlen(end);

	if (t->len > n && memcmp(t->s + t->len - n, end, n) == 0)
		t->len -= n;
}

/* "state/model/norm/tensor.npy" and "npy/model.norm.npy" are the key model.norm. */
static struct text strip_path(struct text t)
{
	static const char *const views[] = { "npy/", "pt/", "safetensors/" };
	static const char *const ends[] = { ".npy", ".pt", ".safetensors" };
	static const char *const files[] = { "/tensor.npy", "/tensor.safetensors", "/tensor.pt",
		                             "/tensor.raw", "/info.json",          "/value.json",
		                             "/value.pt" };

	if (starts(t, "state/")) {
		t.s += 6;
		t.len -= 6;
		for (size_t i = 0; i < SF_ARRAY_LEN(files); i++)
			cut_end(&t, files[i]);
		return t;
	}
	for (size_t i = 0; i < SF_ARRAY_LEN(views); i++)
		if (starts(t, views[i])) {
			t.s += strlen(views[i]);
			t.len -= strlen(views[i]);
			cut_end(&t, ends[i]);
			return t;
		}
	return t;
}

void sf_key_hint(struct sf_buf *out, const char *typed, size_t len, sf_key_name *name,
                 const void *arg, uint32_t n)
{
	struct text t = { typed, len }, behind = { "", 0 };
	struct found f = { 0 };
	size_t glob = 0;

	while (glob < len && !strchr("*?[", typed[glob]))
		glob++;
	if (glob < len) { /* the components before it, and the rest as it stands */
		while (glob && !separates(typed[glob - 1]))
			glob--;
		if (!glob)
			return;
		t.len = glob - 1;
		behind = (struct text){ typed + glob - 1, len - (glob - 1) };
	} else {
		t = strip_path(t);
		while (t.len && separates(t.s[t.len - 1]))
			t.len--;
		while (t.len && separates(t.s[0])) {
			t.s++;
			t.len--;
		}
	}
	find_ends(&f, t, name, arg, n);
	bool ends = f.n > 0;
	if (!ends)
		find_near(&f, t, name, arg, n);
	/* of a glob what is before the star may be right */
	bool right = f.n && f.at[0].len == t.len && same(f.at[0].s, t.s, t.len);
	if (f.n && !f.failed && !(behind.len && right))
		put_found(out, &f, t, ends, behind);
	clear(&f);
}

static const char *shown_name(const void *arg, uint32_t i, size_t *ret_len)
{
	const struct sf_entry *e = &((const struct sf_catalog *)arg)->entry[i];

	*ret_len = e->len;
	return e->name;
}

int sf_catalog_no_key(const struct sf_catalog *c, const char *typed, size_t len,
                      struct sf_error *err)
{
	struct sf_buf hint = { 0 };

	sf_key_hint(&hint, typed, len, shown_name, c, c->n);
	if (!hint.len)
		sf_buf_str(&hint, " (shardfuse keys lists them)");
	sf_fail(err, -ENOENT, "no key matches '%.*s'%s", (int)SF_MIN(len, (size_t)NAME_SHOWN),
	        typed, sf_buf_cstr(&hint));
	sf_buf_release(&hint);
	return -ENOENT;
}
