#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/http_store.h"
#include "store/hub_revision.h"
#include "store/url.h"

#define PAGE_MAX 65536 /* bytes of an answer's body that we do not want */

char *sf_http_file_url(const struct sf_http_store *h, const char *name)
{
	struct sf_buf b = { 0 };

	sf_buf_str(&b, h->base);
	sf_buf_byte(&b, '/');
	sf_url_encode(&b, name, strlen(name), true);
	sf_buf_str(&b, h->query);
	sf_buf_cstr(&b);
	if (sf_buf_check(&b) >= 0)
		return (char *)b.at;
	sf_buf_release(&b);
	return NULL;
}

static const char *const wanted[] = {
	"etag", "last-modified", "content-length", "content-range", "content-type", SF_HUB_COMMIT,
	NULL
};

int sf_http_file_ask(struct sf_http_store *h, const char *name, enum sf_http_how how,
                     struct sf_http_answer *ret, struct sf_error *err)
{
	SF_FREE char *url = sf_http_file_url(h, name);
	const char *headers[3] = { NULL };
	struct sf_http_ask a = { .method = how == SF_HTTP_FIRST_BYTE ? "GET" : "HEAD",
		                 .url = url,
		                 .headers = headers,
		                 .ca_bundle = sf_remote_ca_bundle(&h->r),
		                 .limit = PAGE_MAX,
		                 .follow = how != SF_HTTP_HEAD_OF_FIRST,
		                 .want_headers = wanted };
	size_t n = 0;
	int r;

	if (!url)
		return sf_fail(err, -ENOMEM, "'%s': no memory for a request", name);
	if (how == SF_HTTP_FIRST_BYTE)
		headers[n++] = "Range: bytes=0-0";
	if (h->authorization)
		headers[n++] = h->authorization;
	r = sf_remote_ask(&h->r, &a, ret, err);
	return r < 0 ? sf_fail_ctx(err, r, "'%s'", name) : 0;
}

int sf_http_file_refused(const struct sf_http_store *h, const char *name, unsigned status,
                         struct sf_error *err)
{
	if (status == 404 || status == 410)
		return sf_fail(err, -ENOENT, "'%s': not below %s (the server answers %u)", name,
		               h->r.s.source, status);
	if (status == 401 || status == 403)
		return sf_fail(err, -EACCES, "'%s': the server of %s refuses the request (%u)",
		               name, h->r.s.source, status);
	return sf_fail(err, -EIO, "'%s': the server of %s answers %u", name, h->r.s.source, status);
}

/* ---- a hub's commit ---- */

/* 1: *ret is the URL of the commit, NULL where the server tells of none. 0: it refuses to say. */
static int find_commit(struct sf_http_store *h, const char *name, char **ret, struct sf_error *err)
{
	/* large files are redirected to others' hosts; the last one is in all repositories */
	const struct {
		const char *name;
		enum sf_http_how how;
	} tries[] = { { name, SF_HTTP_HEAD_OF_FIRST },
		      { name, SF_HTTP_HEAD },
		      { ".gitattributes", SF_HTTP_HEAD_OF_FIRST } };
	int r = 0;

	*ret = NULL;
	for (size_t i = 0; i < SF_ARRAY_LEN(tries) && r == 0; i++) {
		struct sf_http_answer a = { 0 };

		r = sf_http_file_ask(h, tries[i].name, tries[i].how, &a, err);
		if (r < 0)
			return r;
		if (a.kept[SF_HTTP_COMMIT])
			*ret = sf_hub_at_commit(h->base, a.kept[SF_HTTP_COMMIT]);
		if (sf_http_status_again(a.status))
			r = sf_http_file_refused(h, tries[i].name, a.status, err);
		else if (a.status == 401 || a.status == 403)
			r = -EACCES;
		else
			r = *ret || a.status == 200;
		sf_http_answer_release(&a);
	}
	return r == -EACCES ? 0 : r < 0 ? r : 1;
}

/*
 * A branch may move between two requests: before the first, it is asked for its commit, and all requests
 * are of that. Whoever comes meanwhile waits for the answer.
 */
int sf_http_settle(struct sf_http_store *h, const char *name, struct sf_error *err)
{
	struct sf_error why = SF_ERROR_INIT;
	char *at = NULL;
	int r;

	pthread_mutex_lock(&h->hub.m);
	if (h->hub.asking) {
		const unsigned round = h->hub.rounds;
		while (h->hub.rounds == round)
			pthread_cond_wait(&h->hub.c, &h->hub.m);
		r = h->hub.r < 0 ? sf_fail(err, h->hub.r, "%s", h->hub.err.msg) : 0;
		pthread_mutex_unlock(&h->hub.m);
		return r;
	}
	bool settled = h->hub.settled;
	h->hub.asking = !settled;
	pthread_mutex_unlock(&h->hub.m);
	if (settled)
		return 0;
	r = find_commit(h, name, &at, &why);
	pthread_mutex_lock(&h->hub.m);
	if (at) { /* who makes a request just now may have the other in hand */
		h->given = h->base;
		h->base = at;
	}
	h->hub.settled = r == 1;
	h->hub.asking = false;
	h->hub.rounds++;
	h->hub.r = r;
	h->hub.err = why;
	pthread_cond_broadcast(&h->hub.c);
	pthread_mutex_unlock(&h->hub.m);
	return r < 0 ? sf_fail(err, r, "%s", why.msg) : 0;
}
