#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "store/gs_list.h"
#include "store/s3_list.h"
#include "store/url.h"

#define PAGE_KEYS 1000 /* Google's own; some emulators know no limit of their own */
#define TOKEN_MAX 8192 /* bytes of a page's token; Google's have about 100 */

static void param(struct sf_buf *to, const char *name, const char *value)
{
	sf_buf_printf(to, "&%s=", name);
	sf_url_encode(to, value, strlen(value), false);
}

void sf_gs_pager_query(const struct sf_bucket_pager *p, struct sf_buf *to)
{
	/* its kind is asked for so that what is no listing can be told from an empty one */
	sf_buf_str(to, "fields=kind%2CnextPageToken%2Cprefixes%2Citems%28name%2Csize%2Cgeneration"
	               "%2Cupdated%29");
	if (*p->prefix)
		param(to, "prefix", p->prefix);
	if (p->delimiter)
		param(to, "delimiter", p->delimiter);
	sf_buf_printf(to, "&maxResults=%u", p->max_keys ? p->max_keys : PAGE_KEYS);
	if (p->token)
		param(to, "pageToken", p->token);
}

/* A number that is sent as a string, so that no reader makes a double of it. */
static int get_number(const struct cJSON *obj, const char *name, uint64_t *ret,
                      struct sf_error *err)
{
	const char *s;
	uint64_t v = 0;
	int r = sf_json_get_str(obj, name, &s, NULL);

	if (r == -ENOENT)
		return sf_fail(err, -EBADMSG, "an object without its %s", name);
	if (r < 0)
		return sf_fail(err, -EBADMSG, "an object's %s is no string", name);
	if (!*s || strlen(s) > 20)
		return sf_fail(err, -EBADMSG, "'%.40s' is no %s", s, name);
	for (const char *c = s; *c; c++)
		if (*c < '0' || *c > '9' || !sf_mul(v, 10, &v) ||
		    !sf_add(v, (uint64_t)(*c - '0'), &v))
			return sf_fail(err, -EBADMSG, "'%.40s' is no %s", s, name);
	*ret = v;
	return 0;
}

static int take_object(const struct cJSON *item, struct sf_gs_object *ret, struct sf_error *err)
{
	uint64_t generation;
	const char *when;
	int r = get_number(item, "size", &ret->size, err);

	if (r == 0 && ret->size > INT64_MAX)
		r = sf_fail(err, -EBADMSG, "an object of %" PRIu64 " bytes", ret->size);
	if (r == 0)
		r = get_number(item, "generation", &generation, err);
	if (r < 0)
		return r;
	snprintf(ret->generation, sizeof(ret->generation), "%" PRIu64, generation);
	if (sf_json_get_str(item, "updated", &when, NULL) < 0 || !sf_s3_time(when, &ret->mtime_ns))
		ret->mtime_ns = 0; /* only shown */
	return 0;
}

int sf_gs_object_parse(const char *doc, size_t len, struct sf_gs_object *ret, struct sf_error *err)
{
	struct sf_gs_object o = { .size = 0 };
	struct sf_json *j;
	int r = sf_json_parse_most(doc, len, SF_GS_VALUES_MAX, &j, err);

	if (r < 0)
		return sf_fail_ctx(err, -EBADMSG, "the answer describes no object of GCS");
	r = take_object(sf_json_root(j), &o, err);
	sf_json_free(j);
	if (r == 0)
		*ret = o;
	return r;
}

/* A page under way. */
struct page {
	struct sf_bucket_pager *pager;
	sf_bucket_each *each;
	void *arg;
	struct sf_error *err;
};

static int take_items(struct page *p, const struct cJSON *items)
{
	bool first = true;
	int r = 0;

	for (const struct cJSON *i = NULL; r >= 0 && (i = sf_json_next(items, i));) {
		struct sf_gs_object o;
		const char *key;

		if (sf_json_get_str(i, "name", &key, NULL) < 0)
			return sf_fail(p->err, -EBADMSG, "listing: an object without its name");
		r = sf_bucket_pager_key(p->pager, key, strlen(key), p->err);
		if (r < 0)
			return r;
		r = take_object(i, &o, p->err);
		if (r < 0)
			return sf_fail_ctx(p->err, r, "listing: '%.200s'", key);
		const struct sf_bucket_entry e = { .key = key,
			                           .key_len = strlen(key),
			                           .size = o.size,
			                           .etag = o.generation,
			                           .mtime_ns = o.mtime_ns };
		if (first)
			r = sf_bucket_pager_not_again(p->pager, "key", key, p->err);
		first = false;
		p->pager->entries++;
		r = r < 0 ? r : p->each(p->arg, &e);
	}
	return SF_MIN(r, 0);
}

static int take_prefixes(struct page *p, const struct cJSON *prefixes)
{
	int r = 0;

	for (const struct cJSON *i = NULL; r >= 0 && (i = sf_json_next(prefixes, i));) {
		const char *key = sf_json_str(i);
		struct sf_bucket_entry e = { .key = key, .is_prefix = true };

		if (!key)
			return sf_fail(p->err, -EBADMSG, "listing: a prefix that is no string");
		e.key_len = strlen(key);
		r = sf_bucket_pager_key(p->pager, key, e.key_len, p->err);
		if (r == 0 && !sf_has_suffix(key, p->pager->delimiter ? p->pager->delimiter : ""))
			r = sf_fail(p->err, -EBADMSG,
			            "listing: prefix '%.200s' does not end in the delimiter", key);
		p->pager->entries++;
		r = r < 0 ? r : p->each(p->arg, &e);
	}
	return SF_MIN(r, 0);
}

/* *ret NULL: that was the last page. */
static int next_token(const struct cJSON *root, const char **ret, struct sf_error *err)
{
	int r = sf_json_get_str(root, "nextPageToken", ret, NULL);

	if (r == -ENOENT || (r == 0 && !**ret)) {
		*ret = NULL;
		return 0;
	}
	if (r < 0 || strlen(*ret) > TOKEN_MAX)
		return sf_fail(err, -EBADMSG,
		               "listing: the next page's token is no string of at most %d bytes",
		               TOKEN_MAX);
	return 0;
}

/* An array that need not be there. */
static int optional(const struct cJSON *root, const char *name, const struct cJSON **ret,
                    struct sf_error *err)
{
	int r;

	*ret = NULL;
	r = sf_json_get_arr(root, name, ret, NULL);
	return r == 0 || r == -ENOENT ? 0
	                              : sf_fail(err, -EBADMSG, "listing: '%s' is no array", name);
}

static int take(struct page *p, const struct cJSON *root)
{
	struct sf_bucket_pager *pager = p->pager;
	const struct cJSON *items, *prefixes;
	const char *kind, *token = NULL;
	SF_FREE char *next = NULL;
	int r;

	if (sf_json_get_str(root, "kind", &kind, NULL) < 0 || strcmp(kind, "storage#objects") != 0)
		return sf_fail(p->err, -EBADMSG, "the answer is no listing of GCS");
	r = next_token(root, &token, p->err);
	if (r == 0)
		r = optional(root, "items", &items, p->err);
	if (r == 0)
		r = optional(root, "prefixes", &prefixes, p->err);
	if (r == 0)
		r = sf_bucket_pager_turn(pager, token, p->err);
	if (r == 0 && token && !(next = strdup(token)))
		r = sf_fail(p->err, -ENOMEM, "listing: no memory");
	if (r == 0 && items)
		r = take_items(p, items);
	if (r == 0 && prefixes)
		r = take_prefixes(p, prefixes);
	if (r < 0)
		return r;
	pager->token = SF_STEAL(next);
	return pager->token != NULL;
}

int sf_gs_pager_take(struct sf_bucket_pager *pager, const char *doc, size_t len,
                     sf_bucket_each *each, void *arg, struct sf_error *err)
{
	struct page p = { .pager = pager, .each = each, .arg = arg, .err = err };
	struct sf_json *j;
	int r = sf_json_parse_most(doc, len, SF_GS_VALUES_MAX, &j, err);

	free(pager->token);
	pager->token = NULL;
	if (r < 0)
		return sf_fail_ctx(err, r, "the answer is no listing of GCS");
	r = take(&p, sf_json_root(j));
	sf_json_free(j);
	return r;
}
