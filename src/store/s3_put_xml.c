#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "base/vec.h"
#include "store/s3_put.h"
#include "store/url.h"
#include "store/xml.h"

#define TEXT_MAX 16384 /* of an element: a key is 1024 bytes, coded */

static void add_escaped(struct sf_buf *to, const char *s)
{
	for (; *s; s++)
		switch (*s) {
		case '&':
			sf_buf_str(to, "&amp;");
			break;
		case '<':
			sf_buf_str(to, "&lt;");
			break;
		case '>':
			sf_buf_str(to, "&gt;");
			break;
		default:
			sf_buf_byte(to, (uint8_t)*s);
		}
}

void sf_s3_complete_body(struct sf_buf *to, const char *const *etag, uint32_t n)
{
	sf_buf_str(to, "<CompleteMultipartUpload "
	               "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">");
	for (uint32_t i = 0; i < n; i++) {
		sf_buf_printf(to, "<Part><PartNumber>%u</PartNumber><ETag>", i + 1);
		add_escaped(to, etag[i]);
		sf_buf_str(to, "</ETag></Part>");
	}
	sf_buf_str(to, "</CompleteMultipartUpload>");
}

/* Of servers that send blanks while they work, as Amazon's do. */
static void skip_blanks(const char **doc, size_t *len)
{
	while (*len && memchr(" \t\r\n", **doc, 4)) {
		++*doc;
		--*len;
	}
}

/* To the root, which is to be @root. */
static int open_root(struct sf_xml *x, const char *root, struct sf_error *err)
{
	int r;

	do
		r = sf_xml_next(x, err);
	while (r == SF_XML_TEXT);
	if (r < 0)
		return r;
	return r == SF_XML_OPEN && sf_xml_is(x, root)
	               ? 0
	               : sf_fail(err, -EBADMSG, "the answer is no %s", root);
}

static int text_of(struct sf_xml *x, struct sf_buf *text, char **to, struct sf_error *err)
{
	int r = sf_xml_text(x, text, err);

	if (r < 0)
		return r;
	free(*to);
	*to = text->len && !memchr(text->at, 0, text->len) ? strdup(sf_buf_cstr(text)) : NULL;
	return text->len && !*to ? sf_fail(err, -ENOMEM, "no memory for an answer") : 0;
}

int sf_s3_element(const char *doc, size_t len, const char *root, const char *name, char **ret,
                  struct sf_error *err)
{
	struct sf_buf text = { .limit = TEXT_MAX };
	SF_FREE char *found = NULL;
	struct sf_xml x;
	int r;

	skip_blanks(&doc, &len);
	sf_xml_init(&x, doc, len);
	r = open_root(&x, root, err);
	while (r >= 0 && (r = sf_xml_next(&x, err)) > 0) {
		if (r != SF_XML_OPEN)
			continue;
		r = sf_xml_is(&x, name) ? text_of(&x, &text, &found, err) : sf_xml_skip(&x, err);
	}
	sf_xml_release(&x);
	sf_buf_release(&text);
	if (r < 0)
		return r;
	if (!found)
		return sf_fail(err, -EBADMSG, "the answer has no %s", name);
	*ret = SF_STEAL(found);
	return 0;
}

/* ---- a listing ---- */

struct one {
	char *key, *id;
};
SF_VEC(ones, struct one);

struct page {
	struct ones all;
	char *key_marker, *id_marker, *truncated, *encoding;
	struct sf_buf text;
	struct sf_error *err;
};

static int take_one(struct page *p, struct sf_xml *x)
{
	struct one o = { NULL, NULL };
	int r = 0;

	while (r >= 0 && (r = sf_xml_next(x, p->err)) != SF_XML_CLOSE) {
		if (r == SF_XML_END)
			r = sf_fail(p->err, -EBADMSG, "an upload without an end");
		if (r != SF_XML_OPEN)
			continue;
		if (sf_xml_is(x, "Key"))
			r = text_of(x, &p->text, &o.key, p->err);
		else if (sf_xml_is(x, "UploadId"))
			r = text_of(x, &p->text, &o.id, p->err);
		else
			r = sf_xml_skip(x, p->err);
	}
	if (r >= 0 && (!o.key || !o.id))
		r = sf_fail(p->err, -EBADMSG, "an upload without its %s", o.key ? "id" : "key");
	else if (r >= 0 && ones_push(&p->all, o) < 0)
		r = sf_fail(p->err, -ENOMEM, "no memory for a listing");
	if (r < 0) {
		free(o.key);
		free(o.id);
	}
	return SF_MIN(r, 0);
}

static int take_all(struct page *p, struct sf_xml *x)
{
	const struct {
		const char *name;
		char **to;
	} field[] = { { "NextKeyMarker", &p->key_marker },
		      { "NextUploadIdMarker", &p->id_marker },
		      { "IsTruncated", &p->truncated },
		      { "EncodingType", &p->encoding } };
	int r = open_root(x, "ListMultipartUploadsResult", p->err);

	while (r >= 0 && (r = sf_xml_next(x, p->err)) > 0) {
		size_t i = 0;
		if (r != SF_XML_OPEN)
			continue;
		while (i < SF_ARRAY_LEN(field) && !sf_xml_is(x, field[i].name))
			i++;
		if (sf_xml_is(x, "Upload"))
			r = take_one(p, x);
		else
			r = i < SF_ARRAY_LEN(field) ? text_of(x, &p->text, field[i].to, p->err)
			                            : sf_xml_skip(x, p->err);
	}
	return r;
}

static int decode(char *key, struct sf_error *err)
{
	size_t len = strlen(key);

	if (!sf_url_decode_bytes((uint8_t *)key, &len, true) || memchr(key, 0, len))
		return sf_fail(err, -EBADMSG, "a key is not coded as it should be: '%.100s'", key);
	key[len] = '\0';
	return 0;
}

static int tell_all(struct page *p, struct sf_s3_uploads *ret,
                    int (*each)(void *arg, const char *key, const char *id), void *arg)
{
	const bool coded = p->encoding && strcmp(p->encoding, "url") == 0;
	int r = 0;

	for (size_t i = 0; i < p->all.n && r >= 0; i++) {
		r = coded ? decode(p->all.at[i].key, p->err) : 0;
		if (r >= 0)
			r = each(arg, p->all.at[i].key, p->all.at[i].id);
	}
	if (r < 0 || !p->truncated || strcmp(p->truncated, "true") != 0)
		return r;
	if (!p->key_marker)
		return sf_fail(p->err, -EBADMSG,
		               "a page of unfinished uploads does not say where the next begins");
	r = coded ? decode(p->key_marker, p->err) : 0;
	if (r < 0)
		return r;
	ret->key_marker = SF_STEAL(p->key_marker);
	ret->id_marker = SF_STEAL(p->id_marker);
	return 0;
}

int sf_s3_uploads_take(const char *doc, size_t len, struct sf_s3_uploads *ret,
                       int (*each)(void *arg, const char *key, const char *id), void *arg,
                       struct sf_error *err)
{
	struct page p = { .text = { .limit = TEXT_MAX }, .err = err };
	struct sf_xml x;
	int r;

	*ret = (struct sf_s3_uploads){ NULL, NULL };
	skip_blanks(&doc, &len);
	sf_xml_init(&x, doc, len);
	r = take_all(&p, &x);
	sf_xml_release(&x);
	if (r >= 0)
		r = tell_all(&p, ret, each, arg);
	for (size_t i = 0; i < p.all.n; i++) {
		free(p.all.at[i].key);
		free(p.all.at[i].id);
	}
	ones_release(&p.all);
	free(p.key_marker);
	free(p.id_marker);
	free(p.truncated);
	free(p.encoding);
	sf_buf_release(&p.text);
	return SF_MIN(r, 0);
}
