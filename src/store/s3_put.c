#include "config.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/mem.h"
#include "base/path.h"
#include "store/s3_list.h"
#include "store/s3_put.h"
#include "store/s3_store.h"

/*
 * An object that is written has a number of ours, x-amz-meta-shardfuse-id: when an answer was lost, it tells whether
 * the object that is there is the one that was written.
 */

#define ID_HEADER "x-amz-meta-shardfuse-id"
#define ID_BYTES 8
#define ANSWER_MAX \
	(1 << 20)        /* bytes; of Complete there are blanks before it for as long as it takes */
#define FINISH_MS 600000 /* of many parts it takes minutes */
#define PAGE_MAX (8 << 20)
#define PAGES_MAX 10000

struct writing {
	struct sf_s3_store *s;
	const struct sf_put_to *to;
	char *key;
	char id[2 * ID_BYTES + 1];
};

static int begin_writing(struct writing *w, struct sf_store *store, const struct sf_put_to *to,
                         struct sf_error *err)
{
	uint8_t random[ID_BYTES];

	*w = (struct writing){ .s = (struct sf_s3_store *)store, .to = to };
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return sf_fail(err, -EIO, "the system gives no random number");
	for (size_t i = 0; i < ID_BYTES; i++)
		snprintf(w->id + 2 * i, 3, "%02x", random[i]);
	w->key = sf_bucket_key(&w->s->b, to->name);
	return w->key ? 0 : sf_fail(err, -ENOMEM, "no memory for a request");
}

/* ---- what is there ---- */

/* 1: ours; 0: another's; -ENOENT: none. */
static int look(struct writing *w, char **ret_etag, struct sf_error *err)
{
	static const char *const want[] = { ID_HEADER, "etag", NULL };
	const struct sf_s3_what what = { .method = "HEAD",
		                         .key = w->key,
		                         .query = "",
		                         .want = want,
		                         .limit = ANSWER_MAX,
		                         .stop = w->to->stop };
	struct sf_http_answer a;
	int r = sf_s3_do(w->s, &what, &a, err);

	if (r < 0)
		return r;
	const char *id = a.kept[SF_S3_WANT];
	r = id && strcmp(id, w->id) == 0;
	if (r == 1 && ret_etag)
		*ret_etag = SF_STEAL(a.kept[SF_S3_WANT + 1]);
	sf_http_answer_release(&a);
	return r;
}

/* It may have been done, although no good answer came: was it? 0 or @r. */
static int look_up_lost(struct writing *w, int r, char **ret_etag)
{
	if (r != -EIO && !sf_http_error_again(r))
		return r;
	return look(w, ret_etag, NULL) == 1 ? 0 : r;
}

static int there_is_one(struct sf_error *err)
{
	return sf_fail(err, -EEXIST, "there is an object of that name already");
}

/* Before what must not replace anything: servers that ignore conditions do not tell. */
static int look_first(struct writing *w, struct sf_error *err)
{
	int r;

	if (w->to->when != SF_UPLOAD_CREATE)
		return 0;
	r = look(w, NULL, err);
	return r == -ENOENT ? 0 : r < 0 ? r : there_is_one(err);
}

/* A condition was not met: by our own object, whose answer was lost (0); by another's (-EEXIST); or there is no
 * object (1). */
static int not_met(struct writing *w, char **ret_etag, struct sf_error *err)
{
	int r = look(w, ret_etag, err);

	return r == 1 ? 0 : r == -ENOENT ? 1 : r < 0 ? r : there_is_one(err);
}

/* ---- requests ---- */

/* Content-MD5 rather than one of the x-amz-checksum headers: Amazon verifies both, and of the servers that others
 * run nearly all verify this one, and pass over the other without a word. */
static void md5_line(const void *at, size_t len, char line[64])
{
	char sum[32];

	*line = '\0';
	if (sf_s3_md5(at, len, sum))
		snprintf(line, 64, "Content-MD5: %s", sum);
}

/* An answer that refuses: what it says. */
static int refused(const struct sf_http_answer *a, int r, struct sf_error *err)
{
	struct sf_s3_error e;

	sf_s3_error_parse(a->body, a->len, &e);
	return sf_fail(err, r, "the server answers %u%s%s%s%s", a->status, *e.code ? " " : "",
	               e.code, *e.message ? ": " : "", e.message);
}

static const unsigned conditional[] = { 409, 412, 501, 0 };

/* The condition that nothing is there. */
struct condition {
	bool asked;
	unsigned unmet; /* the last try that was refused for it while nothing was there; 0: none */
};

/* What becomes of try @n (from 1), which was answered by one of those: 0 it is done, 1 once more, negative. */
static int conditions(struct writing *w, const struct sf_http_answer *a, unsigned n,
                      struct condition *c, char **ret_etag, struct sf_error *err)
{
	int r;

	if (a->status == 501 && c->asked) {
		c->asked = false;
		return 1;
	}
	if (a->status == 412) {
		r = not_met(w, ret_etag, err);
		if (r != 1)
			return r;
		if (!c->asked)
			return refused(a, -EIO, err);
		/* once, what was there may have gone in between; twice, the server knows no conditions */
		c->asked = !c->unmet || c->unmet + 1 != n;
		c->unmet = n;
		return 1;
	}
	if (a->status == 409 && sf_remote_pause(&w->s->b.r, n, w->to->stop))
		return 1; /* somebody else is writing it */
	return refused(a, -EIO, err);
}

static int s3_put(struct sf_store *store, const struct sf_put_to *to,
                  const struct sf_put_body *body, char **ret_etag, struct sf_error *err)
{
	static const char *const want[] = { "etag", NULL };
	char type[300], id[64], md5[64];
	struct writing w;
	struct condition c = { .asked = to->when == SF_UPLOAD_CREATE };
	int r = begin_writing(&w, store, to, err);

	if (r >= 0)
		r = look_first(&w, err);
	snprintf(type, sizeof(type), "Content-Type: %s",
	         to->type ? to->type : "application/octet-stream");
	snprintf(id, sizeof(id), ID_HEADER ": %s", w.id);
	md5_line(body->at, body->len, md5);
	if (r >= 0)
		r = 1;
	for (unsigned n = 1; r == 1; n++) {
		const char *headers[5] = { type, id };
		size_t nheaders = 2;
		struct sf_http_answer a = { 0 };

		if (*md5)
			headers[nheaders++] = md5;
		if (c.asked)
			headers[nheaders++] = "If-None-Match: *";
		const struct sf_s3_what what = { .method = "PUT",
			                         .key = w.key,
			                         .query = "",
			                         .headers = headers,
			                         .body = body->at ? body->at : "",
			                         .body_len = body->len,
			                         .want = want,
			                         .limit = ANSWER_MAX,
			                         .also = conditional,
			                         .stop = to->stop };
		r = sf_s3_do(w.s, &what, &a, err);
		if (r < 0)
			r = look_up_lost(&w, r, ret_etag);
		else if (a.status / 100 == 2)
			*ret_etag = SF_STEAL(a.kept[SF_S3_WANT]);
		else
			r = conditions(&w, &a, n, &c, ret_etag, err);
		sf_http_answer_release(&a);
	}
	free(w.key);
	return r;
}

/* ---- in parts ---- */

/* An upload's id for those who call: our number (none, of uploads that were found), '/', and all behind that is
 * the server's. */
static const char *server_id(const char *id)
{
	const char *slash = strchr(id, '/');

	return slash ? slash + 1 : id;
}

static int s3_begin(struct sf_store *store, const struct sf_put_to *to, char **ret_id,
                    struct sf_error *err)
{
	char type[300], id[64];
	SF_FREE char *given = NULL;
	struct sf_http_answer a = { 0 };
	struct writing w;
	int r = begin_writing(&w, store, to, err);

	snprintf(type, sizeof(type), "Content-Type: %s",
	         to->type ? to->type : "application/octet-stream");
	snprintf(id, sizeof(id), ID_HEADER ": %s", w.id);
	const char *const headers[] = { type, id, NULL };
	const struct sf_s3_what what = { .method = "POST",
		                         .key = w.key,
		                         .query = "uploads=",
		                         .headers = headers,
		                         .limit = ANSWER_MAX,
		                         .stop = to->stop };
	if (r >= 0)
		r = sf_s3_do(w.s, &what, &a, err);
	if (r >= 0)
		r = sf_s3_element(a.body, a.len, "InitiateMultipartUploadResult", "UploadId",
		                  &given, err);
	if (r >= 0 && asprintf(ret_id, "%s/%s", w.id, given) < 0)
		r = sf_fail(err, -ENOMEM, "no memory for a request");
	sf_http_answer_release(&a);
	free(w.key);
	return SF_MIN(r, 0);
}

static int add_query(struct sf_buf *query, const char *id, uint32_t number, struct sf_error *err)
{
	char text[16];
	const struct sf_s3_param param[] = { { "partNumber", number ? text : NULL },
		                             { "uploadId", server_id(id) } };
	int r;

	snprintf(text, sizeof(text), "%u", number);
	sf_s3_query(query, param, SF_ARRAY_LEN(param));
	r = sf_buf_check(query);
	return r < 0 ? sf_fail(err, r, "no memory for a request") : 0;
}

static int s3_part(struct sf_store *store, const struct sf_put_to *to, const char *id,
                   uint32_t number, const struct sf_put_body *body, char **ret_etag,
                   struct sf_error *err)
{
	static const char *const want[] = { "etag", NULL };
	struct sf_buf query = { .limit = 16384 };
	struct sf_http_answer a = { 0 };
	struct writing w;
	char md5[64];
	int r = begin_writing(&w, store, to, err);

	if (r >= 0)
		r = add_query(&query, id, number + 1, err);
	md5_line(body->at, body->len, md5);
	const char *const headers[] = { *md5 ? md5 : NULL, NULL };
	const struct sf_s3_what what = { .method = "PUT",
		                         .key = w.key,
		                         .query = sf_buf_cstr(&query),
		                         .headers = headers,
		                         .body = body->at,
		                         .body_len = body->len,
		                         .want = want,
		                         .limit = ANSWER_MAX,
		                         .stop = to->stop };
	if (r >= 0)
		r = sf_s3_do(w.s, &what, &a, err);
	if (r >= 0 && !a.kept[SF_S3_WANT])
		r = sf_fail(err, -EBADMSG, "the server took it and gave no ETag");
	else if (r >= 0)
		*ret_etag = SF_STEAL(a.kept[SF_S3_WANT]);
	sf_http_answer_release(&a);
	sf_buf_release(&query);
	free(w.key);
	return r;
}

/* A 200 may hold an error all the same: the server began to answer before it knew. 0: done; 1: once more. */
static int read_200(struct writing *w, const struct sf_http_answer *a, unsigned n, char **ret_etag,
                    struct sf_error *err)
{
	static const char *const passing[] = { "InternalError", "SlowDown", "ServiceUnavailable",
		                               "RequestTimeout", "OperationAborted" };
	struct sf_s3_error e;
	int r;

	if (!sf_s3_error_parse(a->body, a->len, &e)) {
		/* no ETag in it is one of those that are empty at first */
		r = sf_s3_element(a->body, a->len, "CompleteMultipartUploadResult", "ETag",
		                  ret_etag, NULL);
		if (r >= 0)
			return 0;
		if (look(w, ret_etag, NULL) == 1)
			return 0;
		return sf_remote_pause(&w->s->b.r, n, w->to->stop)
		               ? 1
		               : sf_fail(err, -EBADMSG,
		                         "the server's answer to the end of the upload is none");
	}
	if (strcmp(e.code, "PreconditionFailed") == 0)
		return there_is_one(err);
	for (size_t i = 0; i < SF_ARRAY_LEN(passing); i++)
		if (strcmp(e.code, passing[i]) == 0 && sf_remote_pause(&w->s->b.r, n, w->to->stop))
			return 1;
	return refused(a, -EIO, err);
}

static int complete(struct writing *w, const struct sf_s3_what *what, char **ret_etag,
                    struct sf_error *err)
{
	static const char *const bare[] = { NULL }, *const create[] = { "If-None-Match: *", NULL };
	struct condition c = { .asked = w->to->when == SF_UPLOAD_CREATE };
	int r = 1;

	for (unsigned n = 1; r == 1; n++) {
		struct sf_s3_what one = *what;
		struct sf_http_answer a = { 0 };

		one.headers = c.asked ? create : bare;
		r = sf_s3_do(w->s, &one, &a, err);
		if (r < 0)
			r = look_up_lost(w, r, ret_etag);
		else if (a.status / 100 == 2)
			r = read_200(w, &a, n, ret_etag, err);
		else if (a.status == 404) /* no such upload: because it is done? */
			r = look(w, ret_etag, NULL) == 1 ? 0 : refused(&a, -ENOENT, err);
		else
			r = conditions(w, &a, n, &c, ret_etag, err);
		sf_http_answer_release(&a);
	}
	return r;
}

static int s3_finish(struct sf_store *store, const struct sf_put_to *to, const char *id,
                     const char *const *etag, uint32_t n, char **ret_etag, struct sf_error *err)
{
	static const unsigned also[] = { 404, 409, 412, 501, 0 };
	struct sf_buf query = { .limit = 16384 }, body = { .limit = (size_t)64 << 20 };
	struct writing w;
	int r = begin_writing(&w, store, to, err);

	if (r >= 0)
		r = look_first(&w, err);
	if (r >= 0)
		r = add_query(&query, id, 0, err);
	sf_s3_complete_body(&body, etag, n);
	if (r >= 0 && (r = sf_buf_check(&body)) < 0)
		sf_fail(err, r, "no memory for a request of %u parts", n);
	/* the number that the object was begun with */
	snprintf(w.id, sizeof(w.id), "%.*s", (int)strcspn(id, "/"), id);
	const struct sf_s3_what what = { .method = "POST",
		                         .key = w.key,
		                         .query = sf_buf_cstr(&query),
		                         .body = body.at,
		                         .body_len = sf_buf_bytes(&body),
		                         .limit = ANSWER_MAX,
		                         .timeout_ms = FINISH_MS,
		                         .also = also,
		                         .stop = to->stop };
	if (r >= 0)
		r = complete(&w, &what, ret_etag, err);
	sf_buf_release(&query);
	sf_buf_release(&body);
	free(w.key);
	return r;
}

/* ---- what goes ---- */

static int delete_it(struct sf_store *store, const struct sf_put_to *to, const char *id,
                     struct sf_error *err)
{
	static const unsigned also[] = { 404, 0 };
	struct sf_buf query = { .limit = 16384 };
	struct sf_http_answer a = { 0 };
	struct sf_s3_error e;
	struct writing w;
	int r = begin_writing(&w, store, to, err);

	if (r >= 0 && id)
		r = add_query(&query, id, 0, err);
	const struct sf_s3_what what = { .method = "DELETE",
		                         .key = w.key,
		                         .query = id ? sf_buf_cstr(&query) : "",
		                         .limit = ANSWER_MAX,
		                         .also = also,
		                         .stop = to->stop };
	if (r >= 0)
		r = sf_s3_do(w.s, &what, &a, err);
	if (r >= 0 && a.status == 404) {
		sf_s3_error_parse(a.body, a.len, &e);
		r = refused(&a, strcmp(e.code, "NoSuchBucket") == 0 ? -EIO : -ENOENT, err);
	}
	sf_http_answer_release(&a);
	sf_buf_release(&query);
	free(w.key);
	return r;
}

static int s3_abort(struct sf_store *store, const struct sf_put_to *to, const char *id,
                    struct sf_error *err)
{
	return delete_it(store, to, id, err);
}

static int s3_remove(struct sf_store *store, const struct sf_put_to *to, struct sf_error *err)
{
	return delete_it(store, to, NULL, err);
}

/* ---- what others left ---- */

struct finding {
	size_t cut; /* of the store's prefix */
	const char *prefix;
	int (*each)(void *arg, const char *name, const char *id);
	void *arg;
	struct sf_error *err;
};

static int found(void *arg, const char *key, const char *id)
{
	struct finding *f = arg;
	SF_FREE char *whole = NULL;

	/* a server that knows no prefix: what it tells of others is passed over */
	if (strncmp(key, f->prefix, strlen(f->prefix)) != 0 || !key[f->cut])
		return 0;
	if (asprintf(&whole, "/%s", id) < 0) {
		whole = NULL;
		return sf_fail(f->err, -ENOMEM, "no memory for a listing");
	}
	return f->each(f->arg, key + f->cut, whole);
}

static int page(struct writing *w, struct sf_s3_uploads *at, struct finding *f,
                struct sf_error *err)
{
	const struct sf_s3_param param[] = { { "uploads", "" },
		                             { "encoding-type", "url" },
		                             { "key-marker", at->key_marker },
		                             { "max-uploads", "1000" },
		                             { "prefix", w->key },
		                             { "upload-id-marker", at->id_marker } };
	struct sf_buf query = { .limit = 65536 };
	struct sf_s3_uploads next = { NULL, NULL };
	struct sf_http_answer a = { 0 };
	int r;

	sf_s3_query(&query, param, SF_ARRAY_LEN(param));
	const struct sf_s3_what what = { .method = "GET",
		                         .query = sf_buf_cstr(&query),
		                         .limit = PAGE_MAX,
		                         .stop = w->to->stop };
	r = sf_buf_check(&query);
	r = r < 0 ? sf_fail(err, r, "no memory for a request") : sf_s3_do(w->s, &what, &a, err);
	if (r >= 0)
		r = sf_s3_uploads_take(a.body, a.len, &next, found, f, err);
	sf_http_answer_release(&a);
	sf_buf_release(&query);
	free(at->key_marker);
	free(at->id_marker);
	*at = next;
	return r;
}

static int s3_unfinished(struct sf_store *store, const struct sf_put_to *to,
                         int (*each)(void *arg, const char *name, const char *id), void *arg,
                         struct sf_error *err)
{
	struct sf_s3_uploads at = { NULL, NULL };
	struct writing w;
	int r = begin_writing(&w, store, to, err);
	struct finding f = { .prefix = w.key, .each = each, .arg = arg, .err = err };

	if (r >= 0)
		f.cut = strlen(w.s->b.prefix);
	for (unsigned n = 0; r >= 0 && (n == 0 || at.key_marker); n++)
		r = n < PAGES_MAX ? page(&w, &at, &f, err)
		                  : sf_fail(err, -E2BIG, "more than %d pages of unfinished uploads",
		                            PAGES_MAX);
	free(at.key_marker);
	free(at.id_marker);
	free(w.key);
	return r;
}

const struct sf_put_ops sf_s3_put_ops = {
	.part_min = 5 << 20,
	.part_max = UINT64_C(5) << 30,
	.parts_max = 10000,
	.put = s3_put,
	.begin = s3_begin,
	.part = s3_part,
	.finish = s3_finish,
	.abort = s3_abort,
	.remove = s3_remove,
	.unfinished = s3_unfinished,
};
