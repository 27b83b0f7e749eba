#include "config.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "sf_test.h"
#include "store/upload.h"
#include "tests/lib/http_server.h"
#include "tests/lib/sigv4_check.h"

/* A bucket of which the test says how each request is answered; every one has to be signed right. */

#define SECRET "secret/of+"
#define ERROR(code) \
	"<?xml version=\"1.0\"?><Error><Code>" code "</Code><Message>m</Message></Error>"
#define BEGUN                                           \
	"<InitiateMultipartUploadResult><UploadId>U/1 " \
	"+</UploadId></InitiateMultipartUploadResult>"
#define DONE                                                              \
	"<CompleteMultipartUploadResult><ETag>&quot;all-2&quot;</ETag></" \
	"CompleteMultipartUploadResult>"

struct said { /* the answers in order; method NULL: no more are expected */
	const char *method, *target;
	struct sf_http_fault f;
	/* the answer has the number that the object was begun with; the request has If-None-Match, or has none */
	enum { ANY, OURS, BOUND, FREE } is;
};
struct world {
	struct sf_http_server server;
	struct sf_io io;
	struct sf_uploads u;
	const struct said *said;
	_Atomic unsigned at, wrong;
	char id[64], header[128];
};

static void note_id(struct world *w, const char *head)
{
	const char *id = strcasestr(head, "\nx-amz-meta-shardfuse-id: ");

	if (id)
		sscanf(id + strlen("\nx-amz-meta-shardfuse-id: "), "%63[0-9a-f]", w->id);
}

static struct sf_http_fault answer(void *arg, const struct sf_http_seen *seen)
{
	struct world *w = arg;
	const struct said *s = &w->said[w->at];
	struct sf_sigv4_said said;
	struct sf_http_fault f = s->f;
	const bool bound = strcasestr(seen->head, "\nif-none-match: *\r") != NULL;

	if (!s->method || strcmp(seen->method, s->method) != 0 ||
	    strncmp(seen->path, s->target, strlen(s->target)) != 0 ||
	    s->is == (bound ? FREE : BOUND) ||
	    !sf_sigv4_check(seen->method, seen->path, seen->head, SECRET, &said)) {
		printf("request %u, wanted %s %s\n%s", w->at, s->method ? s->method : "none",
		       s->target ? s->target : "", seen->head);
		w->wrong++;
		return (struct sf_http_fault){ SF_HTTP_STATUS, 400, NULL, ERROR("Unexpected") };
	}
	w->at++;
	note_id(w, seen->head);
	if (s->is == OURS) {
		snprintf(w->header, sizeof(w->header),
		         "ETag: \"mine\"\r\nx-amz-meta-shardfuse-id: %s\r\n", w->id);
		f.text = w->header;
	}
	return f;
}

static void begin(struct world *w, const struct said *said)
{
	struct sf_error err = SF_ERROR_INIT;

	memset(w, 0, sizeof(*w));
	w->said = said;
	w->server.fault = answer;
	w->server.arg = w;
	ck_assert_int_eq(sf_http_server_start(&w->server), 0);
	setenv("HOME", "/nonexistent", 1);
	setenv("AWS_CONFIG_FILE", "/nonexistent", 1);
	setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent", 1);
	setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
	setenv("AWS_ENDPOINT_URL_S3", w->server.url, 1);
	setenv("AWS_REGION", "us-east-1", 1);
	setenv("AWS_ACCESS_KEY_ID", "KEY1", 1);
	setenv("AWS_SECRET_ACCESS_KEY", SECRET "KEY1", 1);
	unsetenv("AWS_SESSION_TOKEN");
	unsetenv("AWS_PROFILE");
	ck_assert_int_eq(sf_io_init(&w->io, 1, NULL), 0);
	w->io.retry_ms = 1;
	ck_assert_msg(sf_store_open(&w->io, "s3://b/p", NULL, &w->u.store, &err) == 0, "%s",
	              err.msg);
	w->u.part_bytes = 1;
	w->u.throttle = 1;
	ck_assert_msg(sf_uploads_init(&w->u, &err) == 0, "%s", err.msg);
}

static void end(struct world *w)
{
	ck_assert_uint_eq(w->wrong, 0);
	ck_assert_ptr_null(w->said[w->at].method); /* all were asked */
	sf_uploads_release(&w->u);
	sf_store_free(w->u.store);
	sf_io_release(&w->io);
	sf_http_server_stop(&w->server);
}

static int put(struct world *w, enum sf_upload_if when, char **ret_etag)
{
	struct sf_error err = SF_ERROR_INIT;
	int r = sf_upload_put(&w->u, "a", "hello", 5, when, ret_etag, &err);

	if (r < 0) {
		ck_assert_msg(strncmp(err.msg, "'s3://b/p/a': ", 14) == 0, "%s", err.msg);
		ck_assert_ptr_null(strstr(err.msg, SECRET));
	}
	return r;
}

#define STATUS(n, headers, body)                 \
	{                                        \
		SF_HTTP_STATUS, n, headers, body \
	}
#define OK STATUS(200, "ETag: \"v1\"\r\n", "")
#define PUT "PUT", "/b/p/a"
#define HEAD "HEAD", "/b/p/a"

static void puts_as(const struct said *said, enum sf_upload_if when, int want)
{
	struct world w;
	char *etag = NULL;

	begin(&w, said);
	ck_assert_int_eq(put(&w, when, &etag), want);
	ck_assert_int_eq(etag != NULL, want == 0);
	free(etag);
	end(&w);
}

START_TEST(trouble_of_the_server_is_tried_again)
{
	puts_as((const struct said[]){ { PUT, STATUS(503, NULL, ERROR("SlowDown")), ANY },
	                               { PUT, STATUS(500, NULL, ERROR("InternalError")), ANY },
	                               { PUT, { SF_HTTP_CLOSE, 0, NULL, NULL }, ANY },
	                               { PUT, STATUS(400, NULL, ERROR("RequestTimeout")), ANY },
	                               { PUT, STATUS(400, NULL, ERROR("BadDigest")), ANY },
	                               { PUT, OK, ANY },
	                               { 0 } },
	        SF_UPLOAD_REPLACE, 0);
	puts_as((const struct said[]){ { PUT, STATUS(403, NULL, ERROR("AccessDenied")), ANY },
	                               { 0 } },
	        SF_UPLOAD_REPLACE, -EACCES);
}
END_TEST

START_TEST(another_region_is_asked_with_the_body_again)
{
	puts_as((const struct said[]){ { PUT,
	                                 STATUS(301, "x-amz-bucket-region: eu-far-2\r\n",
	                                        ERROR("PermanentRedirect")),
	                                 ANY },
	                               { PUT, OK, ANY },
	                               { 0 } },
	        SF_UPLOAD_REPLACE, 0);
}
END_TEST

START_TEST(a_condition_that_is_not_met_by_our_own_object_is_no_failure)
{
	const struct sf_http_fault none = STATUS(404, NULL, ""), exists = STATUS(200, NULL, ""),
				   unmet = STATUS(412, NULL, ERROR("PreconditionFailed"));

	/* it was done, and the answer was lost */
	puts_as((const struct said[]){ { HEAD, none, ANY },
	                               { PUT, { SF_HTTP_RESET, 0, NULL, NULL }, ANY },
	                               { PUT, unmet, ANY },
	                               { HEAD, exists, OURS },
	                               { 0 } },
	        SF_UPLOAD_CREATE, 0);
	/* another was faster */
	puts_as(
		(const struct said[]){
			{ HEAD, none, ANY }, { PUT, unmet, ANY }, { HEAD, exists, ANY }, { 0 } },
		SF_UPLOAD_CREATE, -EEXIST);
	/* it is there before */
	puts_as((const struct said[]){ { HEAD, exists, ANY }, { 0 } }, SF_UPLOAD_CREATE, -EEXIST);
	/* a server that knows no conditions, as Swift */
	puts_as((const struct said[]){ { HEAD, none, ANY },
	                               { PUT, STATUS(501, NULL, ERROR("NotImplemented")), ANY },
	                               { PUT, OK, ANY },
	                               { 0 } },
	        SF_UPLOAD_CREATE, 0);
}
END_TEST

START_TEST(a_condition_is_let_go_only_when_nothing_is_there_twice)
{
	const struct sf_http_fault none = STATUS(404, NULL, ""), exists = STATUS(200, NULL, ""),
				   unmet = STATUS(412, NULL, ERROR("PreconditionFailed")),
				   busy = STATUS(409, NULL, ERROR("ConditionalRequestConflict"));

	/* it was undone in between */
	puts_as((const struct said[]){ { HEAD, none, ANY },
	                               { PUT, unmet, BOUND },
	                               { HEAD, none, ANY },
	                               { PUT, OK, BOUND },
	                               { 0 } },
	        SF_UPLOAD_CREATE, 0);
	/* and then another was faster */
	puts_as((const struct said[]){ { HEAD, none, ANY },
	                               { PUT, unmet, BOUND },
	                               { HEAD, none, ANY },
	                               { PUT, unmet, BOUND },
	                               { HEAD, exists, ANY },
	                               { 0 } },
	        SF_UPLOAD_CREATE, -EEXIST);
	/* not one behind the other */
	puts_as((const struct said[]){ { HEAD, none, ANY },
	                               { PUT, unmet, BOUND },
	                               { HEAD, none, ANY },
	                               { PUT, busy, BOUND },
	                               { PUT, unmet, BOUND },
	                               { HEAD, none, ANY },
	                               { PUT, OK, BOUND },
	                               { 0 } },
	        SF_UPLOAD_CREATE, 0);
	/* a server that takes the condition for another */
	puts_as((const struct said[]){ { HEAD, none, ANY },
	                               { PUT, unmet, BOUND },
	                               { HEAD, none, ANY },
	                               { PUT, unmet, BOUND },
	                               { HEAD, none, ANY },
	                               { PUT, OK, FREE },
	                               { 0 } },
	        SF_UPLOAD_CREATE, 0);
	/* or refuses whatever is asked */
	puts_as((const struct said[]){ { HEAD, none, ANY },
	                               { PUT, unmet, BOUND },
	                               { HEAD, none, ANY },
	                               { PUT, unmet, BOUND },
	                               { HEAD, none, ANY },
	                               { PUT, unmet, FREE },
	                               { HEAD, none, ANY },
	                               { 0 } },
	        SF_UPLOAD_CREATE, -EIO);
}
END_TEST

/* The scripted server takes bodies of 64 KiB: parts are asked for by the store's calls themselves. */
static int in_parts(struct world *w, char **ret_etag)
{
	const struct sf_put_ops *ops = w->u.store->ops->put;
	const struct sf_put_to to = { .name = "a" };
	struct sf_error err = SF_ERROR_INIT;
	char *id = NULL, *etag[2] = { NULL };
	int r = ops->begin(w->u.store, &to, &id, &err);

	for (uint32_t i = 0; i < 2 && r >= 0; i++)
		r = ops->part(w->u.store, &to, id, i, &(struct sf_put_body){ "hello", 5 }, &etag[i],
		              &err);
	if (r >= 0)
		r = ops->finish(w->u.store, &to, id, (const char *const *)etag, 2, ret_etag, &err);
	if (r < 0)
		printf("%s\n", err.msg);
	free(id);
	free(etag[0]);
	free(etag[1]);
	return r;
}

#define BEGIN                                                            \
	{                                                                \
		"POST", "/b/p/a?uploads=", STATUS(200, NULL, BEGUN), ANY \
	}
#define PART(n)                                                                 \
	{                                                                       \
		"PUT", "/b/p/a?partNumber=" #n "&uploadId=U%2F1%20%2B", OK, ANY \
	}
#define FINISH "POST", "/b/p/a?uploadId=U%2F1%20%2B"

static void finishes_as(const struct said *said, int want)
{
	struct world w;
	char *etag = NULL;

	begin(&w, said);
	ck_assert_int_eq(in_parts(&w, &etag), want);
	ck_assert_int_eq(etag != NULL, want == 0);
	free(etag);
	end(&w);
}

START_TEST(an_end_with_200_and_an_error_is_not_done)
{
	finishes_as(
		(const struct said[]){
			BEGIN,
			PART(1),
			PART(2),
			{ FINISH, STATUS(200, NULL, "  \n" ERROR("InternalError")), ANY },
			{ FINISH, STATUS(200, NULL, " \n " DONE), ANY },
			{ 0 } },
		0);
	finishes_as((const struct said[]){ BEGIN,
	                                   PART(1),
	                                   PART(2),
	                                   { FINISH, STATUS(200, NULL, ERROR("InvalidPart")), ANY },
	                                   { 0 } },
	            -EIO);
}
END_TEST

START_TEST(an_end_whose_answer_was_lost_is_looked_up)
{
	const struct sf_http_fault exists = STATUS(200, NULL, "");

	finishes_as(
		(const struct said[]){ BEGIN,
	                               PART(1),
	                               PART(2),
	                               { FINISH, { SF_HTTP_RESET, 0, NULL, NULL }, ANY },
	                               { FINISH, STATUS(404, NULL, ERROR("NoSuchUpload")), ANY },
	                               { HEAD, exists, OURS },
	                               { 0 } },
		0);
	finishes_as(
		(const struct said[]){ BEGIN,
	                               PART(1),
	                               PART(2),
	                               { FINISH, STATUS(404, NULL, ERROR("NoSuchUpload")), ANY },
	                               { HEAD, exists, ANY },
	                               { 0 } },
		-ENOENT);
}
END_TEST

static bool every(void *arg, const char *name)
{
	(void)arg;
	ck_assert_str_eq(name, "a");
	return true;
}

#define FOUND(id)                                                                \
	STATUS(200, NULL,                                                        \
	       "<ListMultipartUploadsResult><Upload><Key>p/a</Key><UploadId>" id \
	       "</UploadId></Upload></ListMultipartUploadsResult>")
#define GONE STATUS(204, NULL, "")

START_TEST(an_upload_that_was_found_is_called_off_by_the_servers_whole_id)
{
	const struct said said[][3] = {
		{ { "GET", "/b?", FOUND("U/1 +"), ANY },
		  { "DELETE", "/b/p/a?uploadId=U%2F1%20%2B", GONE, ANY },
		  { 0 } },
		{ { "GET", "/b?", FOUND("/2"), ANY },
		  { "DELETE", "/b/p/a?uploadId=%2F2", GONE, ANY },
		  { 0 } },
		{ { "GET", "/b?", FOUND("3"), ANY },
		  { "DELETE", "/b/p/a?uploadId=3", GONE, ANY },
		  { 0 } },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(said); i++) {
		struct sf_error err = SF_ERROR_INIT;
		struct world w;

		begin(&w, said[i]);
		ck_assert_msg(sf_upload_sweep(&w.u, "", every, NULL, &err) == 0, "%s", err.msg);
		end(&w);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("s3_put");
	TCase *t = tcase_create("s3_put");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, trouble_of_the_server_is_tried_again);
	tcase_add_test(t, another_region_is_asked_with_the_body_again);
	tcase_add_test(t, a_condition_that_is_not_met_by_our_own_object_is_no_failure);
	tcase_add_test(t, a_condition_is_let_go_only_when_nothing_is_there_twice);
	tcase_add_test(t, an_end_with_200_and_an_error_is_not_done);
	tcase_add_test(t, an_end_whose_answer_was_lost_is_looked_up);
	tcase_add_test(t, an_upload_that_was_found_is_called_off_by_the_servers_whole_id);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
