#include "config.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/path.h"
#include "store/gs_list.h"
#include "store/gs_put.h"
#include "store/s3_sign.h"

#define ID_NAME "shardfuse-id"
#define BOUNDARY "shardfuse-part-" /* and the object's number, which is random: no body has it */

int sf_gs_begin_writing(struct sf_gs_writing *w, struct sf_store *store, const struct sf_put_to *to,
                        struct sf_error *err)
{
	uint8_t random[SF_GS_ID_BYTES];

	*w = (struct sf_gs_writing){ .s = (struct sf_gs_store *)store, .to = to };
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return sf_fail(err, -EIO, "the system gives no random number");
	for (size_t i = 0; i < SF_GS_ID_BYTES; i++)
		snprintf(w->id + 2 * i, 3, "%02x", random[i]);
	w->key = sf_bucket_key(&w->s->b, to->name);
	return w->key ? 0 : sf_fail(err, -ENOMEM, "no memory for a request");
}

int sf_gs_refused(const struct sf_http_answer *a, int r, struct sf_error *err)
{
	struct sf_gs_error e;

	sf_gs_error_parse(a->body, a->len, &e);
	return sf_fail(err, r, "the server answers %u%s%s%s%s", a->status, *e.reason ? " " : "",
	               e.reason, *e.message ? ": " : "", e.message);
}

/* ---- what is there ---- */

static int take_look(const struct sf_gs_writing *w, const struct sf_http_answer *a,
                     char **ret_generation, struct sf_error *err)
{
	const struct cJSON *meta;
	const char *id = NULL, *generation = NULL;
	struct sf_json *j;
	int r = sf_json_parse_most(a->body, a->len, SF_GS_VALUES_MAX, &j, err);

	if (r < 0)
		return sf_fail_ctx(err, -EBADMSG, "the answer describes no object of GCS");
	if (sf_json_get_obj(sf_json_root(j), "metadata", &meta, NULL) == 0)
		sf_json_get_str(meta, ID_NAME, &id, NULL);
	sf_json_get_str(sf_json_root(j), "generation", &generation, NULL);
	r = id && strcmp(id, w->id) == 0;
	if (r == 1 && generation && ret_generation)
		*ret_generation = strdup(generation);
	sf_json_free(j);
	return r;
}

/* 1: ours; 0: another's; -ENOENT: none. */
static int look(struct sf_gs_writing *w, char **ret_generation, struct sf_error *err)
{
	const struct sf_gs_what what = { .method = "GET",
		                         .key = w->key,
		                         .query = "fields=generation%2Cmetadata",
		                         .limit = SF_GS_ANSWER_MAX,
		                         .stop = w->to->stop };
	struct sf_http_answer a = { 0 };
	int r = sf_gs_do(w->s, &what, &a, err);

	if (r >= 0)
		r = take_look(w, &a, ret_generation, err);
	sf_http_answer_release(&a);
	return r;
}

static int there_is_one(struct sf_error *err)
{
	return sf_fail(err, -EEXIST, "there is an object of that name already");
}

int sf_gs_look_first(struct sf_gs_writing *w, struct sf_error *err)
{
	int r;

	if (w->to->when != SF_UPLOAD_CREATE)
		return 0;
	r = look(w, NULL, err);
	return r == -ENOENT ? 0 : r < 0 ? r : there_is_one(err);
}

int sf_gs_look_up(struct sf_gs_writing *w, int r, bool met, char **ret_generation,
                  struct sf_error *err)
{
	int there;

	if (met && r != -EIO && !sf_http_error_again(r))
		return r;
	there = look(w, ret_generation, met ? NULL : err);
	if (there == 1)
		return 0;
	if (met)
		return r;
	return there == 0 ? there_is_one(err)
	       : there == -ENOENT
	               ? sf_fail(err, -EIO, "the server says that it is there, and that it is not")
	               : there;
}

int sf_gs_take_written(const struct sf_http_answer *a, const char *md5, char **ret_generation,
                       struct sf_error *err)
{
	const char *generation = NULL, *sum = NULL;
	struct sf_json *j;
	int r = sf_json_parse_most(a->body, a->len, SF_GS_VALUES_MAX, &j, NULL);

	if (r >= 0)
		r = sf_json_get_str(sf_json_root(j), "generation", &generation, NULL);
	else
		j = NULL;
	if (j)
		sf_json_get_str(sf_json_root(j), "md5Hash", &sum, NULL);
	if (r < 0)
		r = sf_fail(err, -EBADMSG, "the server took it and did not describe it");
	else if (md5 && *md5 && sum && strcmp(md5, sum) != 0)
		r = sf_fail(err, -EBADMSG, "other bytes arrived: their MD5 is %.40s, not %s", sum,
		            md5);
	else if (!(*ret_generation = strdup(generation)))
		r = sf_fail(err, -ENOMEM, "no memory for a request");
	sf_json_free(j);
	return r;
}

void sf_gs_describe(const struct sf_gs_writing *w, struct sf_buf *to)
{
	const char *type = w->to->type ? w->to->type : "application/octet-stream";

	sf_buf_str(to, "\"contentType\":");
	sf_escape_json(to, type, strlen(type));
	sf_buf_printf(to, ",\"metadata\":{\"" ID_NAME "\":\"%s\"}", w->id);
}

/* ---- an object, whole ---- */

/* Its description and its bytes, in one body: then the server verifies the MD5, and keeps the number. */
static int make_body(const struct sf_gs_writing *w, const struct sf_put_body *body,
                     struct sf_buf *to, struct sf_error *err)
{
	char md5[32];
	int r;

	sf_buf_printf(to,
	              "--" BOUNDARY "%s\r\nContent-Type: application/json; charset=UTF-8\r\n\r\n"
	              "{\"name\":",
	              w->id);
	sf_escape_json(to, w->key, strlen(w->key));
	if (sf_s3_md5(body->at, body->len, md5))
		sf_buf_printf(to, ",\"md5Hash\":\"%s\"", md5);
	sf_buf_byte(to, ',');
	sf_gs_describe(w, to);
	sf_buf_printf(to, "}\r\n--" BOUNDARY "%s\r\nContent-Type: application/octet-stream\r\n\r\n",
	              w->id);
	sf_buf_add(to, body->at, body->len);
	sf_buf_printf(to, "\r\n--" BOUNDARY "%s--\r\n", w->id);
	r = sf_buf_check(to);
	return r < 0 ? sf_fail(err, r, "no memory for %zu bytes", body->len) : 0;
}

int sf_gs_put_whole(struct sf_store *store, const struct sf_put_to *to,
                    const struct sf_put_body *body, char **ret_etag, struct sf_error *err)
{
	static const unsigned also[] = { 412, 0 };
	struct sf_buf all = { 0 };
	struct sf_http_answer a = { 0 };
	struct sf_gs_writing w;
	char type[100];
	int r = sf_gs_begin_writing(&w, store, to, err);

	if (r >= 0)
		r = sf_gs_look_first(&w, err);
	if (r >= 0)
		r = make_body(&w, body, &all, err);
	snprintf(type, sizeof(type), "multipart/related; boundary=" BOUNDARY "%s", w.id);
	const struct sf_gs_what what = {
		.method = "POST",
		.query = to->when == SF_UPLOAD_CREATE ? "uploadType=multipart&ifGenerationMatch=0"
		                                      : "uploadType=multipart",
		.upload = true,
		.writes = true,
		.type = type,
		.body = all.at,
		.body_len = all.len,
		.limit = SF_GS_ANSWER_MAX,
		.also = also,
		.stop = to->stop
	};
	if (r >= 0) {
		r = sf_gs_do(w.s, &what, &a, err);
		if (r < 0 || a.status == 412)
			r = sf_gs_look_up(&w, r, r < 0, ret_etag, err);
		else
			r = sf_gs_take_written(&a, NULL, ret_etag, err);
	}
	sf_http_answer_release(&a);
	sf_buf_release(&all);
	free(w.key);
	return r;
}

int sf_gs_delete(struct sf_gs_store *s, const char *key, const _Atomic bool *stop,
                 struct sf_error *err)
{
	const struct sf_gs_what what = { .method = "DELETE",
		                         .key = key,
		                         .query = "alt=json",
		                         .writes = true,
		                         .limit = SF_GS_ANSWER_MAX,
		                         .stop = stop };
	struct sf_http_answer a = { 0 };
	int r = sf_gs_do(s, &what, &a, err);

	sf_http_answer_release(&a);
	return r;
}

int sf_gs_remove(struct sf_store *store, const struct sf_put_to *to, struct sf_error *err)
{
	struct sf_gs_store *s = (struct sf_gs_store *)store;
	SF_FREE char *key = sf_bucket_key(&s->b, to->name);

	return key ? sf_gs_delete(s, key, to->stop, err)
	           : sf_fail(err, -ENOMEM, "no memory for a request");
}
