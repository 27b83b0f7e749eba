#include "config.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/thread_pool.h"
#include "base/vec.h"
#include "base/wipe.h"
#include "store/hub_revision.h"
#include "store/hub_token.h"
#include "store/http_basic.h"
#include "store/http_range.h"
#include "store/http_store.h"
#include "store/store_http.h"
#include "store/url.h"

static int http_call(struct sf_remote_store *s, const char *name, struct sf_remote_call *ret,
                     struct sf_error *err)
{
	struct sf_http_store *h = (struct sf_http_store *)s;
	struct sf_remote_call call = { .url = sf_http_file_url(h, name) };

	if (h->authorization && call.url) {
		call.headers = calloc(2, sizeof(*call.headers));
		if (call.headers)
			call.headers[0] = strdup(h->authorization);
	}
	if (!call.url || (h->authorization && (!call.headers || !call.headers[0]))) {
		sf_remote_call_release(&call);
		return sf_fail(err, -ENOMEM, "'%s': no memory for a request", name);
	}
	*ret = call;
	return 0;
}

static const struct sf_remote_ops remote_ops = { .call = http_call };

/* What an answer says of the object; *ret_size is UINT64_MAX where it does not say how long it is. */
static int take(const struct sf_http_store *h, const char *name, const struct sf_http_answer *a,
                struct sf_http_pinned *ret, struct sf_error *err)
{
	const char *tag = a->kept[SF_HTTP_TAG] ? a->kept[SF_HTTP_TAG] : a->kept[SF_HTTP_MODIFIED];
	uint64_t first, last;
	int64_t modified;

	ret->size = UINT64_MAX;
	if (a->status == 206 || a->status == 416) {
		if (!a->kept[SF_HTTP_RANGE] ||
		    sf_content_range(a->kept[SF_HTTP_RANGE], strlen(a->kept[SF_HTTP_RANGE]), &first,
		                     &last, &ret->size) < 0 ||
		    (a->status == 416 && ret->size))
			return sf_http_file_refused(h, name, a->status, err);
	} else if (a->status != 200) {
		return sf_http_file_refused(h, name, a->status, err);
	} else if (a->kept[SF_HTTP_TYPE] &&
	           strncasecmp(a->kept[SF_HTTP_TYPE], "text/html", 9) == 0 &&
	           !sf_has_suffix(name, ".html")) {
		return sf_fail(err, -EBADMSG,
		               "'%s': the server of %s sends a web page (text/html) instead: is "
		               "the URL that of the files?",
		               name, h->r.s.source);
	} else if (a->kept[SF_HTTP_LENGTH] &&
	           !sf_http_number_text(a->kept[SF_HTTP_LENGTH], &ret->size)) {
		return sf_fail(err, -EBADMSG, "'%s': the server says that its length is '%.40s'",
		               name, a->kept[SF_HTTP_LENGTH]);
	}
	if (ret->size != UINT64_MAX && ret->size > INT64_MAX)
		return sf_fail(err, -EBADMSG, "'%s': the server says that it has %" PRIu64 " bytes",
		               name, ret->size);
	if (tag && strlen(tag) < 1024 && !(ret->etag = strdup(tag)))
		return sf_fail(err, -ENOMEM, "'%s': no memory", name);
	if (a->kept[SF_HTTP_MODIFIED] && sf_http_date(a->kept[SF_HTTP_MODIFIED], &modified))
		ret->mtime_ns = modified * 1000000000;
	return 0;
}

/* @name as it is now. Some servers know no HEAD, or do not say how long a file is. */
static int see(struct sf_http_store *h, const char *name, struct sf_http_pinned *ret,
               struct sf_error *err)
{
	struct sf_http_answer a = { 0 };
	int r = sf_http_file_ask(h, name, SF_HTTP_HEAD, &a, err);

	if (r < 0)
		return r;
	if (a.status == 400 || a.status == 403 || a.status == 405 || a.status == 501 ||
	    (a.status == 200 && !a.kept[SF_HTTP_LENGTH])) {
		sf_http_answer_release(&a);
		r = sf_http_file_ask(h, name, SF_HTTP_FIRST_BYTE, &a, err);
		if (r == -E2BIG)
			r = sf_fail(err, -ENOTSUP,
			            "'%s': the server of %s neither answers HEAD nor gives "
			            "ranges",
			            name, h->r.s.source);
		if (r < 0)
			return r;
	}
	r = take(h, name, &a, ret, err);
	if (r >= 0 && ret->size == UINT64_MAX)
		r = sf_fail(err, -ENOTSUP, "'%s': the server of %s does not say how long it is",
		            name, h->r.s.source);
	sf_http_answer_release(&a);
	if (r < 0) {
		free(ret->etag);
		ret->etag = NULL;
	}
	return r;
}

/* ---- versions ---- */

static int same_name(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct sf_http_store *h = arg;
	const char *name = h->locked.pins.at[value].name;

	return strlen(name) == len && memcmp(name, key, len) == 0;
}

/* Strings of a pin live as long as the store. */
static bool find(struct sf_http_store *h, const char *name, struct sf_http_pinned *ret)
{
	uint32_t at;

	pthread_mutex_lock(&h->locked.m);
	at = sf_map_get(&h->locked.names, name, strlen(name), same_name, h);
	if (at != SF_MAP_NONE)
		*ret = h->locked.pins.at[at];
	pthread_mutex_unlock(&h->locked.m);
	return at != SF_MAP_NONE;
}

/* Takes @p's strings; who came first stays, and is what *@p then is. */
static int pin(struct sf_http_store *h, struct sf_http_pinned *p, struct sf_error *err)
{
	int r = 0, failed = 0;
	uint32_t at;

	pthread_mutex_lock(&h->locked.m);
	at = sf_map_get(&h->locked.names, p->name, strlen(p->name), same_name, h);
	if (at != SF_MAP_NONE) {
		free(p->name);
		free(p->etag);
		*p = h->locked.pins.at[at];
	} else if (sf_http_pins_push(&h->locked.pins, *p) < 0) {
		r = -ENOMEM;
	} else {
		sf_map_add(&h->locked.names, p->name, strlen(p->name),
		           (uint32_t)h->locked.pins.n - 1, same_name, h, &failed);
		if (failed) {
			h->locked.pins.n--;
			r = failed;
		}
	}
	pthread_mutex_unlock(&h->locked.m);
	if (r < 0) {
		sf_fail(err, r, "'%s': no memory", p->name);
		free(p->name);
		free(p->etag);
	}
	return r;
}

/* @want: what is known already; NULL: it is asked for. */
static int get(struct sf_http_store *h, const char *name, const struct sf_objinfo *want,
               struct sf_http_pinned *ret, struct sf_error *err)
{
	struct sf_http_pinned p = { 0 };
	int r;

	if (find(h, name, ret))
		return 0;
	r = sf_http_settle(h, name, err);
	if (r < 0)
		return r;
	if (want && want->size != UINT64_MAX) {
		p.size = want->size;
		p.mtime_ns = want->version.mtime_ns;
		p.etag = want->version.etag ? strdup(want->version.etag) : NULL;
		if (want->version.etag && !p.etag)
			return sf_fail(err, -ENOMEM, "'%s': no memory", name);
	} else {
		r = see(h, name, &p, err);
		if (r < 0)
			return r;
	}
	p.name = strdup(name);
	if (!p.name) {
		free(p.etag);
		return sf_fail(err, -ENOMEM, "'%s': no memory", name);
	}
	r = pin(h, &p, err);
	if (r >= 0)
		*ret = p;
	return r;
}

static struct sf_version version_of(const struct sf_http_pinned *p)
{
	return (struct sf_version){ .mtime_ns = p->mtime_ns, .etag = p->etag };
}

/* ---- the store ---- */

static int http_open(struct sf_store *s, const char *name, const struct sf_objinfo *want,
                     struct sf_source **ret, struct sf_error *err)
{
	struct sf_http_store *h = (struct sf_http_store *)s;
	struct sf_version version;
	struct sf_http_pinned p;
	int r = sf_path_check(name, strlen(name), err);

	if (r >= 0)
		r = get(h, name, want, &p, err);
	if (r < 0)
		return r;
	version = version_of(&p);
	if (want)
		r = sf_version_check(name, want->size, &want->version, p.size, &version, err);
	return r < 0 ? r : sf_remote_source(&h->r, name, p.size, &version, ret, err);
}

static int http_list(struct sf_store *s, const char *dir, unsigned depth,
                     int (*each)(void *arg, const struct sf_objinfo *info), void *arg,
                     struct sf_error *err)
{
	return sf_fail(err, -ENOTSUP, "'%s%s%s': a web server does not list what it has", s->source,
	               *dir ? "/" : "", dir);
}

struct looking {
	struct sf_http_store *h;
	struct look_one {
		struct sf_task task;
		struct looking *all;
		const char *name;
		int r;
		struct sf_http_pinned p;
		struct sf_error err;
	} * at;
	pthread_mutex_t m;
	pthread_cond_t c;
	size_t left;
	const struct look_one
		*failed; /* the first that was not answered: no further one is asked */
};

static void look_task(struct sf_task *task)
{
	struct look_one *o = sf_container_of(task, struct look_one, task);
	struct looking *l = o->all;
	const struct look_one *failed;

	pthread_mutex_lock(&l->m);
	failed = l->failed;
	pthread_mutex_unlock(&l->m);
	o->r = failed ? sf_fail(&o->err, failed->r, "%s", failed->err.msg)
	              : get(l->h, o->name, NULL, &o->p, &o->err);
	pthread_mutex_lock(&l->m);
	if (o->r < 0 && o->r != -ENOENT && o->r != -EACCES && !l->failed)
		l->failed = o;
	if (--l->left == 0)
		pthread_cond_signal(&l->c);
	pthread_mutex_unlock(&l->m);
}

static int http_look(struct sf_store *s, const char *const *names, size_t n,
                     int (*each)(void *arg, const struct sf_objinfo *info), void *arg,
                     struct sf_error *err)
{
	struct looking l = { .h = (struct sf_http_store *)s, .left = n };
	bool there = false;
	int r = 0;

	l.at = calloc(n ? n : 1, sizeof(*l.at));
	if (!l.at)
		return sf_fail(err, -ENOMEM, "no memory to look for %zu files", n);
	pthread_mutex_init(&l.m, NULL);
	pthread_cond_init(&l.c, NULL);
	for (size_t i = 0; i < n; i++) {
		l.at[i].task.run = look_task;
		l.at[i].all = &l;
		l.at[i].name = names[i];
		sf_thread_pool_submit(s->io->pool, &l.at[i].task);
	}
	pthread_mutex_lock(&l.m);
	while (l.left)
		pthread_cond_wait(&l.c, &l.m);
	pthread_mutex_unlock(&l.m);
	for (size_t i = 0; i < n; i++)
		there |= l.at[i].r >= 0;
	for (size_t i = 0; i < n && r >= 0; i++) {
		const struct look_one *o = &l.at[i];
		struct sf_objinfo info = { .name = o->name };
		/* who may not list a bucket is told 403 of what is not there */
		if (o->r == -ENOENT || (o->r == -EACCES && there))
			continue;
		if (o->r < 0) {
			r = sf_fail(err, o->r, "%s", o->err.msg);
			break;
		}
		info.size = o->p.size;
		info.version = version_of(&o->p);
		r = each(arg, &info);
	}
	pthread_cond_destroy(&l.c);
	pthread_mutex_destroy(&l.m);
	free(l.at);
	return SF_MIN(r, 0);
}

static void http_free(struct sf_store *s)
{
	struct sf_http_store *h = (struct sf_http_store *)s;

	for (size_t i = 0; i < h->locked.pins.n; i++) {
		free(h->locked.pins.at[i].name);
		free(h->locked.pins.at[i].etag);
	}
	sf_http_pins_release(&h->locked.pins);
	sf_map_release(&h->locked.names);
	pthread_mutex_destroy(&h->locked.m);
	pthread_mutex_destroy(&h->hub.m);
	pthread_cond_destroy(&h->hub.c);
	free(h->base);
	free(h->given);
	free(h->query);
	sf_wipe_free(h->authorization);
	free(s->source);
	free(s->at);
	free(h);
}

static const struct sf_store_ops ops = {
	.open = http_open,
	.list = http_list,
	.look = http_look,
	.probe = sf_http_probe,
	.free = http_free,
};

/* "Authorization: Bearer …" of a hub's user; a URL's own userinfo goes before. */
static int authorize_hub(struct sf_http_store *h, const struct sf_url *u, struct sf_error *err)
{
	char *token = NULL;
	int r = u->user ? 0 : sf_hub_token(u, &token, err);

	if (r >= 0 && token && asprintf(&h->authorization, "Authorization: Bearer %s", token) < 0) {
		h->authorization = NULL;
		r = sf_fail(err, -ENOMEM, "'%s': no memory", u->shown);
	}
	sf_wipe_free(token);
	return r;
}

/*
 * What tells two places apart, on disk too: what is shown leaves out the query, and what of an
 * unclear URL may be a password. So it is a hash of all that is asked for.
 */
static char *hash_of(const struct sf_url *u, const char *base, const char *query)
{
	uint8_t digest[SF_SHA256_BYTES];
	char text[2 * SF_SHA256_BYTES + 2] = "?", *all = NULL;
	int len = (int)strlen(base), r;

	while (len && base[len - 1] == '/')
		len--;
	/* a server may give each user other bytes under one name; NUL-free, so no two are the same */
	r = asprintf(&all, "%.*s%s%s%s", len, base, query, u->user ? "\n" : "",
	             u->user ? u->user : "");

	if (r < 0)
		return NULL;
	r = sf_sha256(all, (size_t)r, digest);
	sf_wipe_free(all);
	if (r < 0)
		return NULL;
	for (size_t i = 0; i < sizeof(digest); i++)
		snprintf(text + 1 + 2 * i, 3, "%02x", digest[i]);
	return strdup(text);
}

static int fill(struct sf_http_store *h, const struct sf_url *u)
{
	struct sf_buf base = { 0 }, query = { 0 };
	size_t at, len;

	sf_buf_printf(&base, "%s://%s%s%s%s", u->scheme, u->host, u->port ? ":" : "",
	              u->port ? u->port : "", u->path);
	if (u->query)
		sf_buf_printf(&query, "?%s", u->query);
	sf_buf_extend(&query, 0); /* there, if empty */
	sf_buf_cstr(&base);
	sf_buf_cstr(&query);
	h->base = (char *)base.at;
	h->query = (char *)query.at;
	h->r.s.source = strdup(u->shown);
	if (sf_buf_check(&base) < 0 || sf_buf_check(&query) < 0 || !h->r.s.source ||
	    !(h->r.s.at = hash_of(u, h->base, h->query)))
		return -ENOMEM;
	for (size_t n = strlen(h->r.s.source); n && h->r.s.source[n - 1] == '/'; n--)
		h->r.s.source[n - 1] = '\0';
	h->hub.settled = !sf_hub_revision(h->base, &at, &len);
	if (u->user && !(h->authorization = sf_http_basic(u->user, u->password)))
		return -ENOMEM;
	return 0;
}

int sf_store_http(struct sf_io *io, const char *source, const struct sf_store_options *opt,
                  struct sf_store **ret, struct sf_error *err)
{
	SF_CLEANUP(sf_url_release) struct sf_url u = { 0 };
	struct sf_http_store *h;
	struct sf_http *http;
	int r = sf_url_parse(source, &u, err);

	(void)opt;
	if (r >= 0)
		r = sf_http_get(io, &http, err);
	if (r < 0)
		return r;
	h = calloc(1, sizeof(*h));
	if (!h)
		return sf_fail(err, -ENOMEM, "'%s': no memory", u.shown);
	pthread_mutex_init(&h->locked.m, NULL);
	pthread_mutex_init(&h->hub.m, NULL);
	pthread_cond_init(&h->hub.c, NULL);
	h->r.s.ops = &ops;
	h->r.s.far = true;
	h->r.s.io = io;
	h->r.ops = &remote_ops;
	h->r.http = http;
	h->r.follow = true;
	if (fill(h, &u) < 0) {
		http_free(&h->r.s);
		return sf_fail(err, -ENOMEM, "'%s': no memory", u.shown);
	}
	r = authorize_hub(h, &u, err);
	if (r < 0) {
		http_free(&h->r.s);
		return r;
	}
	*ret = &h->r.s;
	return 0;
}
