#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/thread_pool.h"
#include "base/vec.h"
#include "store/gs_put.h"
#include "store/s3_sign.h"
#include "store/url.h"

/*
 * Parts are objects of their own: NAME.part-TOKEN-N, with a token of 16 hex digits for each upload. XML's multipart
 * uploads would be parts too, but know no conditions. A compose takes 32 objects at most: more are composed to further
 * parts first, whose numbers go on behind those of the parts.
 */
#define SOURCES_MAX 32
#define SIDE_BY_SIDE 16
#define COMPOSE_MS 600000
#define MARK ".part-"
#define TOKEN_LEN (2 * SF_GS_ID_BYTES)

static char *part_key(const char *key, const char *token, uint32_t number)
{
	char *to;

	return asprintf(&to, "%s" MARK "%s-%u", key, token, number) < 0 ? NULL : to;
}

/* ---- many requests ---- */

struct crowd {
	size_t n;
	_Atomic size_t next;
	_Atomic int failed; /* the first failure; 0 */
	bool all;           /* go on behind a failure */
	int (*one)(void *arg, size_t i, struct sf_error *err);
	void *arg;
	pthread_mutex_t m;
	struct sf_error err;
};

static void *work(void *arg)
{
	struct crowd *c = arg;

	for (size_t i; (c->all || !c->failed) && (i = atomic_fetch_add(&c->next, 1)) < c->n;) {
		struct sf_error err = SF_ERROR_INIT;
		int r = c->one(c->arg, i, &err);

		if (r >= 0)
			continue;
		pthread_mutex_lock(&c->m);
		if (!c->failed)
			c->failed = sf_fail(&c->err, r, "%s", err.msg);
		pthread_mutex_unlock(&c->m);
	}
	return NULL;
}

/* @one of 0 … @n - 1, side by side; the first failure ends it, unless @all are to be tried. */
static int each_of(size_t n, bool all, int (*one)(void *arg, size_t i, struct sf_error *err),
                   void *arg, struct sf_error *err)
{
	struct crowd c = { .n = n, .all = all, .one = one, .arg = arg };
	pthread_t thread[SIDE_BY_SIDE];
	size_t threads = 0;

	pthread_mutex_init(&c.m, NULL);
	while (threads < SIDE_BY_SIDE && threads + 1 < n &&
	       sf_thread_start(&thread[threads], work, &c) == 0)
		threads++;
	work(&c);
	while (threads)
		pthread_join(thread[--threads], NULL);
	pthread_mutex_destroy(&c.m);
	return c.failed ? sf_fail(err, c.failed, "%s", c.err.msg) : 0;
}

/* ---- parts ---- */

static int parts_begin(struct sf_store *store, const struct sf_put_to *to, char **ret_id,
                       struct sf_error *err)
{
	struct sf_gs_writing w;
	int r = sf_gs_begin_writing(&w, store, to, err);

	free(w.key);
	if (r >= 0 && !(*ret_id = strdup(w.id)))
		r = sf_fail(err, -ENOMEM, "no memory for an upload");
	return r;
}

static int parts_part(struct sf_store *store, const struct sf_put_to *to, const char *id,
                      uint32_t number, const struct sf_put_body *body, char **ret_etag,
                      struct sf_error *err)
{
	struct sf_gs_store *s = (struct sf_gs_store *)store;
	SF_FREE char *key = sf_bucket_key(&s->b, to->name);
	SF_FREE char *part = key ? part_key(key, id, number) : NULL;
	struct sf_buf query = { .limit = 16384 };
	struct sf_http_answer a = { 0 };
	char md5[32] = "";
	int r;

	sf_buf_str(&query, "uploadType=media&name=");
	sf_url_encode(&query, part ? part : "", part ? strlen(part) : 0, false);
	r = part ? sf_buf_check(&query) : -ENOMEM;
	const struct sf_gs_what what = { .method = "POST",
		                         .query = sf_buf_cstr(&query),
		                         .upload = true,
		                         .writes = true,
		                         .type = "application/octet-stream",
		                         .body = body->at,
		                         .body_len = body->len,
		                         .limit = SF_GS_ANSWER_MAX,
		                         .stop = to->stop };
	if (r < 0)
		r = sf_fail(err, r, "no memory for a request");
	/* the server tells what it has: compared here, without a copy of the part beside its description.
	 * Nobody else writes that name, so a try whose answer was lost may be made again */
	sf_s3_md5(body->at, body->len, md5);
	for (unsigned n = 1; r >= 0; n++) {
		r = sf_gs_do(s, &what, &a, err);
		if (r >= 0)
			r = sf_gs_take_written(&a, md5, ret_etag, err);
		sf_http_answer_release(&a);
		if (r != -EBADMSG || n == 3)
			break;
		r = 0;
	}
	sf_buf_release(&query);
	return r;
}

struct piece {
	uint32_t number;
	char *generation; /* malloc'ed; NULL: not told */
};

struct composing {
	struct sf_gs_writing w;
	const char *token;
	struct piece *piece; /* of this level */
	uint32_t n;
	struct piece *next; /* what they become */
	uint32_t first;     /* the number of the first of these */
};

static void add_source(const struct composing *c, struct sf_buf *to, uint32_t i)
{
	SF_FREE char *key = part_key(c->w.key, c->token, c->piece[i].number);

	if (!key)
		sf_buf_fail(to, -ENOMEM);
	sf_buf_str(to, "{\"name\":");
	sf_escape_json(to, key ? key : "", key ? strlen(key) : 0);
	if (c->piece[i].generation)
		sf_buf_printf(to, ",\"generation\":\"%s\"", c->piece[i].generation);
	sf_buf_byte(to, '}');
}

/* @n pieces from @from on become the object @key, described by @about (a JSON object). */
static int compose(struct composing *c, const char *key, uint32_t from, uint32_t n,
                   const char *about, bool create, struct sf_http_answer *ret, struct sf_error *err)
{
	static const unsigned also[] = { 412, 0 };
	struct sf_buf body = { .limit = 1 << 20 };
	int r;

	sf_buf_str(&body, "{\"kind\":\"storage#composeRequest\",\"sourceObjects\":[");
	for (uint32_t i = 0; i < n; i++) {
		if (i)
			sf_buf_byte(&body, ',');
		add_source(c, &body, from + i);
	}
	sf_buf_printf(&body, "],\"destination\":%s}", about);
	r = sf_buf_check(&body);
	const struct sf_gs_what what = { .method = "POST",
		                         .key = key,
		                         .verb = "/compose",
		                         .query = create ? "ifGenerationMatch=0" : "alt=json",
		                         .writes = true,
		                         .type = "application/json",
		                         .body = body.at,
		                         .body_len = sf_buf_bytes(&body),
		                         .limit = SF_GS_ANSWER_MAX,
		                         .timeout_ms = COMPOSE_MS,
		                         .also = create ? also : NULL,
		                         .stop = c->w.to->stop };
	r = r < 0 ? sf_fail(err, r, "no memory for a request") : sf_gs_do(c->w.s, &what, ret, err);
	sf_buf_release(&body);
	return r;
}

static int compose_group(void *arg, size_t i, struct sf_error *err)
{
	struct composing *c = arg;
	const uint32_t from = (uint32_t)i * SOURCES_MAX;
	struct piece *to = &c->next[i];
	struct sf_http_answer a = { 0 };

	to->number = c->first + (uint32_t)i;
	SF_FREE char *key = part_key(c->w.key, c->token, to->number);
	int r = key ? compose(c, key, from, SF_MIN((uint32_t)SOURCES_MAX, c->n - from),
	                      "{\"contentType\":\"application/octet-stream\"}", false, &a, err)
	            : sf_fail(err, -ENOMEM, "no memory for a request");

	if (r >= 0)
		r = sf_gs_take_written(&a, NULL, &to->generation, err);
	sf_http_answer_release(&a);
	return r;
}

static void free_pieces(struct piece *p, uint32_t n)
{
	for (uint32_t i = 0; p && i < n; i++)
		free(p[i].generation);
	free(p);
}

/* Until there are few enough for one request. */
static int compose_levels(struct composing *c, struct sf_error *err)
{
	int r = 0;

	while (r >= 0 && c->n > SOURCES_MAX) {
		uint32_t n = (c->n + SOURCES_MAX - 1) / SOURCES_MAX;

		c->next = calloc(n, sizeof(*c->next));
		r = c->next ? each_of(n, false, compose_group, c, err)
		            : sf_fail(err, -ENOMEM, "no memory for %u parts", n);
		free_pieces(c->piece, c->n);
		c->piece = c->next;
		c->n = c->next ? n : 0;
		c->first += n;
	}
	return r;
}

static int compose_last(struct composing *c, char **ret_etag, struct sf_error *err)
{
	const bool create = c->w.to->when == SF_UPLOAD_CREATE;
	struct sf_buf about = { .limit = 65536 };
	struct sf_http_answer a = { 0 };
	int r;

	sf_buf_byte(&about, '{');
	sf_gs_describe(&c->w, &about);
	sf_buf_byte(&about, '}');
	r = sf_buf_check(&about);
	if (r < 0)
		sf_fail(err, r, "no memory for a request");
	else {
		r = compose(c, c->w.key, 0, c->n, sf_buf_cstr(&about), create, &a, err);
		if (r < 0 || a.status == 412)
			r = sf_gs_look_up(&c->w, r, r < 0, ret_etag, err);
		else
			r = sf_gs_take_written(&a, NULL, ret_etag, err);
	}
	sf_http_answer_release(&a);
	sf_buf_release(&about);
	return r;
}

static int delete_number(void *arg, size_t i, struct sf_error *err)
{
	struct composing *c = arg;
	SF_FREE char *key = part_key(c->w.key, c->token, (uint32_t)i);

	return key ? sf_gs_delete(c->w.s, key, c->w.to->stop, err)
	           : sf_fail(err, -ENOMEM, "no memory for a request");
}

static int parts_finish(struct sf_store *store, const struct sf_put_to *to, const char *id,
                        const char *const *etag, uint32_t n, char **ret_etag, struct sf_error *err)
{
	struct composing c = { .token = id, .n = n, .first = n };
	int r = sf_gs_begin_writing(&c.w, store, to, err);

	if (r >= 0)
		r = sf_gs_look_first(&c.w, err);
	c.piece = calloc(n, sizeof(*c.piece));
	if (!c.piece)
		c.n = 0;
	for (uint32_t i = 0; i < c.n; i++)
		c.piece[i] = (struct piece){ i, strdup(etag[i]) };
	if (r >= 0 && !c.piece)
		r = sf_fail(err, -ENOMEM, "no memory for %u parts", n);
	if (r >= 0)
		r = compose_levels(&c, err);
	if (r >= 0)
		r = compose_last(&c, ret_etag, err);
	/* what does not go now goes with the next sweep: the object is there */
	if (r >= 0)
		each_of(c.first, true, delete_number, &c, NULL);
	free_pieces(c.piece, c.n);
	free(c.w.key);
	return r;
}

/* ---- what is left of it ---- */

SF_VEC(keys, char *);

struct deleting {
	struct sf_gs_store *s;
	struct keys all;
	const _Atomic bool *stop;
	struct sf_error *err; /* of the listing */
};

static int note_key(void *arg, const struct sf_bucket_entry *e)
{
	struct deleting *d = arg;
	char *key = e->is_prefix ? NULL : strndup(e->key, e->key_len);

	if (e->is_prefix)
		return 0;
	if (key && keys_push(&d->all, key) == 0)
		return 0;
	free(key);
	return sf_fail(d->err, -ENOMEM, "no memory for %zu parts", d->all.n + 1);
}

static int list(struct sf_gs_store *s, const char *prefix, sf_bucket_each *each, void *arg,
                struct sf_error *err)
{
	struct sf_bucket_pager p = { .prefix = prefix };
	int r;

	while ((r = s->b.pages->page(&s->b.r.s, &p, each, arg, err)) == 1)
		;
	sf_bucket_pager_release(&p);
	return r;
}

static int delete_key(void *arg, size_t i, struct sf_error *err)
{
	struct deleting *d = arg;
	int r = sf_gs_delete(d->s, d->all.at[i], d->stop, err);

	return r == -ENOENT ? 0 : r;
}

static int parts_abort(struct sf_store *store, const struct sf_put_to *to, const char *id,
                       struct sf_error *err)
{
	struct deleting d = { .s = (struct sf_gs_store *)store, .stop = to->stop, .err = err };
	SF_FREE char *key = sf_bucket_key(&d.s->b, to->name);
	SF_FREE char *prefix = NULL;
	int r = 0;

	if (!key || asprintf(&prefix, "%s" MARK "%s-", key, id) < 0) {
		prefix = NULL;
		r = sf_fail(err, -ENOMEM, "no memory for a request");
	}
	if (r >= 0)
		r = list(d.s, prefix, note_key, &d, err);
	if (r >= 0)
		r = each_of(d.all.n, true, delete_key, &d, err);
	for (size_t i = 0; i < d.all.n; i++)
		free(d.all.at[i]);
	keys_release(&d.all);
	return r;
}

struct finding {
	size_t cut; /* of the store's prefix */
	char *last; /* the last upload's key without the part's number */
	int (*each)(void *arg, const char *name, const char *id);
	void *arg;
	struct sf_error *err;
};

/* NAME.part-TOKEN-N: where the mark is; NULL: it is no part. */
static const char *mark_of(const char *key, size_t len)
{
	const char *hex = "0123456789abcdef", *end = key + len, *at = end;

	while (at > key && at[-1] >= '0' && at[-1] <= '9')
		at--;
	if (at == end || (size_t)(at - key) < strlen(MARK) + TOKEN_LEN + 1 || at[-1] != '-')
		return NULL;
	at -= 1 + TOKEN_LEN;
	if (strspn(at, hex) != TOKEN_LEN || memcmp(at - strlen(MARK), MARK, strlen(MARK)) != 0)
		return NULL;
	return at - strlen(MARK);
}

static int find_part(void *arg, const struct sf_bucket_entry *e)
{
	struct finding *f = arg;
	const char *mark = e->is_prefix ? NULL : mark_of(e->key, e->key_len);
	size_t len = mark ? (size_t)(mark - e->key) + strlen(MARK) + TOKEN_LEN : 0;

	if (!mark || (size_t)(mark - e->key) <= f->cut ||
	    (f->last && strncmp(f->last, e->key, len) == 0 && strlen(f->last) == len))
		return 0;
	free(f->last);
	f->last = strndup(e->key, len);
	SF_FREE char *name = strndup(e->key + f->cut, (size_t)(mark - e->key) - f->cut);
	if (!f->last || !name)
		return sf_fail(f->err, -ENOMEM, "no memory for a listing");
	return f->each(f->arg, name, f->last + len - TOKEN_LEN);
}

static int parts_unfinished(struct sf_store *store, const struct sf_put_to *to,
                            int (*each)(void *arg, const char *name, const char *id), void *arg,
                            struct sf_error *err)
{
	struct sf_gs_store *s = (struct sf_gs_store *)store;
	struct finding f = { .cut = strlen(s->b.prefix), .each = each, .arg = arg, .err = err };
	SF_FREE char *prefix = sf_bucket_key(&s->b, to->name);
	int r = prefix ? list(s, prefix, find_part, &f, err)
	               : sf_fail(err, -ENOMEM, "no memory for a request");

	free(f.last);
	return SF_MIN(r, 0);
}

const struct sf_put_ops sf_gs_put_ops = {
	/* parts are objects: they may have any length. As many as S3's, which compose in three levels */
	.part_min = 1,          .part_max = UINT64_C(5) << 30,
	.parts_max = 10000,     .put = sf_gs_put_whole,
	.begin = parts_begin,   .part = parts_part,
	.finish = parts_finish, .abort = parts_abort,
	.remove = sf_gs_remove, .unfinished = parts_unfinished,
};
