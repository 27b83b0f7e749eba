#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "save/save_target_object_priv.h"
#include "store/source.h"

/* Then the token, the directory and the last file's name with a newline behind each, and names with a NUL
 * behind each. */
#define HEAD "shardfuse save to a bucket 1\n"
#define MARKER_MAX (UINT64_C(64) << 20)
#define TOKEN_DIGITS 32

void sf_object_marker_release(struct sf_object_marker *m)
{
	sf_buf_release(&m->text);
	free(m->name);
	*m = (struct sf_object_marker){ 0 };
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* @len bytes at @at up to a newline, which becomes a NUL; NULL: there is none. */
static char *line(char **at, const char *end)
{
	char *from = *at, *nl = memchr(from, '\n', (size_t)(end - from));

	if (!nl)
		return NULL;
	*nl = 0;
	*at = nl + 1;
	return memchr(from, 0, (size_t)(nl - from)) ? NULL : from;
}

/* Takes m->text apart, in place. False: it is no marker of this version. -ENOMEM in @failed. */
static bool take_apart(struct sf_object_marker *m, int *failed)
{
	char *at = (char *)m->text.at, *end = at + m->text.len, *token;

	if (m->text.len < strlen(HEAD) || memcmp(at, HEAD, strlen(HEAD)) != 0)
		return false;
	at += strlen(HEAD);
	token = line(&at, end);
	m->dir = token ? line(&at, end) : NULL;
	m->last = m->dir ? line(&at, end) : NULL;
	if (!m->last || strlen(token) != TOKEN_DIGITS ||
	    strspn(token, "0123456789abcdef") != TOKEN_DIGITS || (at < end && end[-1]))
		return false;
	memcpy(m->token, token, sizeof(m->token));
	sf_shard_tag(m->tag, token);
	for (char *p = at; p < end; p += strlen(p) + 1)
		m->nnames++;
	m->name = sf_alloc_array(m->nnames, sizeof(*m->name));
	if (!m->name) {
		*failed = -ENOMEM;
		return false;
	}
	for (size_t i = 0; at < end; at += strlen(at) + 1)
		m->name[i++] = at;
	if (m->nnames)
		qsort(m->name, m->nnames, sizeof(*m->name), by_text);
	return true;
}

static void put_text(struct sf_buf *b, const char *token, const struct sf_target_files *files,
                     const struct sf_object_names *left)
{
	sf_buf_printf(b, HEAD "%s\n%s\n%s\n", token, files->dir, files->last);
	if (files->names_len)
		sf_buf_add(b, files->name, files->names_len);
	for (size_t i = 0; i < left->n; i++)
		sf_buf_add(b, left->at[i], strlen(left->at[i]) + 1);
}

int sf_object_marker_make(struct sf_object_marker *m, const char *token,
                          const struct sf_target_files *files, const struct sf_object_names *left,
                          struct sf_error *err)
{
	int failed = 0;

	sf_object_marker_release(m);
	m->text.limit = MARKER_MAX;
	put_text(&m->text, token, files, left);
	failed = sf_buf_check(&m->text);
	m->ours = failed == 0 && take_apart(m, &failed);
	return m->ours ? 0
	               : sf_fail(err, failed ? failed : -EINVAL, "the marker of a save, %zu bytes",
	                         m->text.len);
}

int sf_object_marker_put(struct sf_target_object *t, struct sf_error *err)
{
	struct sf_buf b = { 0 };
	const struct sf_object_marker *m = &t->mine;
	int r;

	sf_buf_printf(&b, HEAD "%s\n%s\n%s\n", m->token, m->dir, m->last);
	for (size_t i = 0; i < m->nnames; i++)
		sf_buf_add(&b, m->name[i], strlen(m->name[i]) + 1);
	r = sf_buf_check(&b) < 0 ? sf_fail(err, -ENOMEM, "the marker of a save")
	                         : sf_upload_put(t->up, SF_OBJECT_MARKER, b.at, b.len,
	                                         SF_UPLOAD_REPLACE, NULL, err);
	sf_buf_release(&b);
	return r;
}

int sf_object_marker_read(struct sf_target_object *t, struct sf_object_marker *ret,
                          struct sf_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	struct sf_source *src;
	uint8_t *at = NULL;
	uint64_t len;
	int failed = 0, r;

	sf_object_marker_release(ret);
	r = t->up->store->ops->open(t->up->store, SF_OBJECT_MARKER, NULL, &src, &e);
	if (r >= 0) {
		r = sf_source_read_all(src, MARKER_MAX, SF_FETCH_METADATA, &at, &len, &e);
		sf_source_unref(src);
	}
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return sf_fail(err, r, "%s", e.msg);
	ret->there = true;
	ret->text = (struct sf_buf){ .at = at, .len = len, .cap = len };
	ret->ours = take_apart(ret, &failed);
	if (failed < 0)
		sf_object_marker_release(ret);
	return failed < 0 ? sf_fail(err, failed, "the marker of a save") : 0;
}

int sf_object_marker_is_mine(struct sf_target_object *t, struct sf_error *err)
{
	struct sf_object_marker m = { 0 };
	int r = sf_object_marker_read(t, &m, err);

	if (r >= 0)
		r = m.ours && strcmp(m.token, t->token) == 0;
	sf_object_marker_release(&m);
	return r;
}
