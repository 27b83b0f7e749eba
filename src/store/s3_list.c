#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/http_range.h"
#include "store/s3_list.h"
#include "store/s3_sign.h"
#include "store/url.h"
#include "store/xml.h"

#define CODED_MAX (3 * SF_BUCKET_KEY_MAX) /* bytes of a key in a page, coded */
#define TOKEN_MAX 8192                    /* bytes of a token; Amazon's have about 100 */

void sf_s3_pager_query(const struct sf_bucket_pager *p, struct sf_buf *to)
{
	char max[16];
	const struct sf_s3_param param[] = {
		{ "list-type", "2" },
		{ "encoding-type", "url" },
		{ "prefix", p->prefix },
		{ "delimiter", p->delimiter },
		{ "max-keys", p->max_keys ? max : NULL },
		{ "continuation-token", p->token },
	};

	snprintf(max, sizeof(max), "%u", p->max_keys);
	sf_s3_query(to, param, SF_ARRAY_LEN(param));
}

/* A page, which is gone over twice: for what it says of itself (how keys are coded may stand behind
 * them), then for what it lists. */
struct page {
	struct sf_bucket_pager *pager;
	sf_bucket_each *each;
	void *arg;
	struct sf_error *err;
	bool listing; /* the second time */
	bool url_coded, truncated, says_truncated, object_seen;
	uint64_t objects, prefixes; /* that it has */
	uint64_t count;             /* and that it says it has; UINT64_MAX: it does not say */
	char *token;
	char *prefix, *asked; /* what it says that it answers: Prefix, ContinuationToken; NULL */
	struct sf_buf key, text;
};

/* Its text is in p->text: is that a key that was asked for? Into p->key. */
static int take_key(struct page *p)
{
	sf_buf_reset(&p->key);
	sf_buf_add(&p->key, p->text.at, p->text.len);
	if (sf_buf_check(&p->key) < 0)
		return sf_fail(p->err, sf_buf_check(&p->key), "listing: no memory for a key");
	if (p->url_coded && !sf_url_decode_bytes(p->key.at, &p->key.len, true))
		return sf_fail(p->err, -EBADMSG,
		               "listing: a key is not coded as it should be: '%.100s'",
		               sf_buf_cstr(&p->text));
	return sf_bucket_pager_key(p->pager, sf_buf_cstr(&p->key), p->key.len, p->err);
}

static int told(struct page *p, struct sf_bucket_entry *e)
{
	int r = 0;

	e->key = sf_buf_cstr(&p->key);
	e->key_len = p->key.len;
	if (!e->is_prefix && !p->object_seen) {
		p->object_seen = true;
		r = sf_bucket_pager_not_again(p->pager, "key", e->key, p->err);
	}
	p->pager->entries++;
	return r < 0 ? r : p->each(p->arg, e);
}

/* <Contents> */
static int take_object(struct page *p, struct sf_xml *x)
{
	struct sf_bucket_entry e = { .size = UINT64_MAX };
	char etag[256] = "";
	bool has_key = false;
	int r = 0;

	while (r >= 0 && (r = sf_xml_next(x, p->err)) != SF_XML_CLOSE) {
		if (r != SF_XML_OPEN)
			continue;
		bool is_key = sf_xml_is(x, "Key"), is_size = sf_xml_is(x, "Size"),
		     is_etag = sf_xml_is(x, "ETag"), is_time = sf_xml_is(x, "LastModified");
		if (!is_key && !is_size && !is_etag && !is_time) {
			r = sf_xml_skip(x, p->err);
			continue;
		}
		r = sf_xml_text(x, &p->text, p->err);
		if (r < 0)
			break;
		if (is_key) {
			r = take_key(p);
			has_key = true;
		} else if (is_size && !sf_http_number_text(sf_buf_cstr(&p->text), &e.size)) {
			r = sf_fail(p->err, -EBADMSG, "listing: '%.40s' is not a size",
			            sf_buf_cstr(&p->text));
		} else if (is_etag && p->text.len) {
			const char *t = sf_buf_cstr(&p->text);
			const char *quote = strchr(t, '"') ? "" : "\"";
			if ((size_t)snprintf(etag, sizeof(etag), "%s%s%s", quote, t, quote) >=
			    sizeof(etag))
				r = sf_fail(p->err, -EBADMSG, "listing: an ETag of %zu bytes",
				            p->text.len);
			for (const char *c = etag; r == 0 && *c; c++)
				if ((uint8_t)*c <= ' ' || *c == 0x7f)
					r = sf_fail(p->err, -EBADMSG,
					            "listing: an ETag with a blank or control "
					            "character");
		} else if (is_time && !sf_s3_time(sf_buf_cstr(&p->text), &e.mtime_ns)) {
			e.mtime_ns = 0; /* only shown */
		}
	}
	if (r < 0)
		return r;
	if (!has_key || e.size == UINT64_MAX)
		return sf_fail(p->err, -EBADMSG, "listing: an object without its %s",
		               has_key ? "size" : "key");
	e.etag = *etag ? etag : NULL;
	return told(p, &e);
}

/* <CommonPrefixes> */
static int take_prefix(struct page *p, struct sf_xml *x)
{
	int r = 0;

	while (r >= 0 && (r = sf_xml_next(x, p->err)) != SF_XML_CLOSE) {
		if (r != SF_XML_OPEN)
			continue;
		if (!sf_xml_is(x, "Prefix")) {
			r = sf_xml_skip(x, p->err);
			continue;
		}
		struct sf_bucket_entry e = { .is_prefix = true };
		r = sf_xml_text(x, &p->text, p->err);
		r = r < 0 ? r : take_key(p);
		r = r < 0 ? r : told(p, &e);
	}
	return r < 0 ? r : 0;
}

/* Its text is in p->text. */
static int take_text(struct page *p, char **ret)
{
	const char *t = sf_buf_cstr(&p->text);

	if (p->text.len > TOKEN_MAX || strlen(t) != p->text.len)
		return sf_fail(p->err, -EBADMSG, "listing: a token of %zu bytes, or with a NUL",
		               p->text.len);
	free(*ret);
	*ret = *t ? strdup(t) : NULL;
	return *t && !*ret ? sf_fail(p->err, -ENOMEM, "listing: no memory") : 0;
}

/* What a page says of itself. */
static int take_word(struct page *p, struct sf_xml *x)
{
	bool is_truncated = sf_xml_is(x, "IsTruncated"), is_coding = sf_xml_is(x, "EncodingType"),
	     is_count = sf_xml_is(x, "KeyCount");
	char **text = sf_xml_is(x, "NextContinuationToken") ? &p->token
	              : sf_xml_is(x, "ContinuationToken")   ? &p->asked
	              : sf_xml_is(x, "Prefix")              ? &p->prefix
	                                                    : NULL;
	const char *t;
	int r;

	if (p->listing || (!is_truncated && !is_coding && !is_count && !text))
		return sf_xml_skip(x, p->err);
	r = sf_xml_text(x, &p->text, p->err);
	if (r < 0)
		return r;
	if (text)
		return take_text(p, text);
	t = sf_buf_cstr(&p->text);
	if (is_truncated) {
		p->says_truncated = true;
		p->truncated = strcmp(t, "true") == 0;
		if (!p->truncated && strcmp(t, "false") != 0)
			return sf_fail(p->err, -EBADMSG, "listing: IsTruncated is '%.40s'", t);
	} else if (is_coding) {
		p->url_coded = strcmp(t, "url") == 0;
		if (!p->url_coded && *t)
			return sf_fail(p->err, -EBADMSG, "listing: keys are coded as '%.40s'", t);
	} else if (!sf_http_number_text(t, &p->count)) {
		return sf_fail(p->err, -EBADMSG, "listing: KeyCount is '%.40s'", t);
	}
	return 0;
}

static int count_prefixes(struct page *p, struct sf_xml *x)
{
	int r = 0;

	while (r >= 0 && (r = sf_xml_next(x, p->err)) != SF_XML_CLOSE) {
		if (r != SF_XML_OPEN)
			continue;
		p->prefixes += sf_xml_is(x, "Prefix");
		r = sf_xml_skip(x, p->err);
	}
	return SF_MIN(r, 0);
}

/* Is @told, which may be coded, what was asked for? */
static bool is_same(const struct page *p, const char *told, const char *asked)
{
	SF_FREE char *plain = strdup(told);
	size_t len = plain ? strlen(plain) : 0, n = strlen(asked);

	if (strcmp(told, asked) == 0)
		return true;
	if (!plain || !p->url_coded || !sf_url_decode_bytes((uint8_t *)plain, &len, true))
		return false;
	/* some leave out the last '/' */
	return (len == n || len + 1 == n) && memcmp(plain, asked, len) == 0;
}

/* The page has been scanned: does it have what it says, and answer what was asked? */
static int check(struct page *p)
{
	struct sf_bucket_pager *pager = p->pager;
	const bool empty = !p->objects && !p->prefixes;

	/* Ceph counts objects alone */
	if (p->count != UINT64_MAX && p->count != p->objects &&
	    p->count != p->objects + p->prefixes)
		return sf_fail(p->err, -EBADMSG,
		               "listing: page %u says that it has %" PRIu64
		               " keys, and has %" PRIu64 " with %" PRIu64 " prefixes",
		               pager->pages + 1, p->count, p->objects, p->prefixes);
	if (empty && !p->says_truncated)
		return sf_fail(p->err, -EBADMSG,
		               "listing: page %u has no keys and does not say whether it is the "
		               "last",
		               pager->pages + 1);
	if (empty && p->prefix && !is_same(p, p->prefix, pager->prefix))
		return sf_fail(p->err, -EBADMSG,
		               "listing: '%.200s' was asked for, the answer is of '%.200s'",
		               pager->prefix, p->prefix);
	if (p->asked)
		return sf_bucket_pager_asked(pager,
		                             pager->token && is_same(p, p->asked, pager->token)
		                                     ? pager->token
		                                     : p->asked,
		                             p->err);
	return 0;
}

static int no_list(const char *doc, size_t len, struct sf_error *err)
{
	struct sf_s3_error e;

	if (sf_s3_error_parse(doc, len, &e))
		return sf_fail(err, -EIO, "%s: %s%s%s", e.code, e.message,
		               *e.request_id ? ", request " : "", e.request_id);
	return sf_fail(err, -EBADMSG, "the answer is not an S3 listing");
}

/* Once over the document. */
static int pass(struct page *p, const char *doc, size_t len)
{
	struct sf_xml x;
	int r;

	sf_xml_init(&x, doc, len);
	r = sf_xml_next(&x, p->err);
	if (r == SF_XML_OPEN && !sf_xml_is(&x, "ListBucketResult"))
		r = no_list(doc, len, p->err);
	while (r > 0 && (r = sf_xml_next(&x, p->err)) > 0) {
		if (r != SF_XML_OPEN)
			continue;
		bool object = sf_xml_is(&x, "Contents"), prefix = sf_xml_is(&x, "CommonPrefixes");
		p->objects += !p->listing && object;
		if (p->listing && object)
			r = take_object(p, &x);
		else if (prefix)
			r = p->listing ? take_prefix(p, &x) : count_prefixes(p, &x);
		else
			r = take_word(p, &x);
		if (r == 0)
			r = SF_XML_OPEN;
	}
	sf_xml_release(&x);
	return r;
}

int sf_s3_pager_take(struct sf_bucket_pager *pager, const char *doc, size_t len,
                     sf_bucket_each *each, void *arg, struct sf_error *err)
{
	struct page p = {
		.pager = pager,
		.each = each,
		.arg = arg,
		.err = err,
		.count = UINT64_MAX,
		.key.limit = CODED_MAX,
		.text.limit = SF_MAX(CODED_MAX, TOKEN_MAX),
	};
	int r = pass(&p, doc, len);

	if (r == 0)
		r = check(&p);
	if (r == 0)
		r = sf_bucket_pager_turn(pager, p.truncated ? p.token : NULL, err);
	if (r == 0 && p.truncated && !p.token)
		r = sf_fail(err, -EBADMSG,
		            "listing: page %u says that it is not the last and has no token of the "
		            "next",
		            pager->pages);
	p.listing = true;
	if (r == 0)
		r = pass(&p, doc, len);
	free(pager->token);
	pager->token = r < 0 || !p.truncated ? NULL : SF_STEAL(p.token);
	free(p.token);
	free(p.prefix);
	free(p.asked);
	sf_buf_release(&p.key);
	sf_buf_release(&p.text);
	return r < 0 ? r : pager->token != NULL;
}
