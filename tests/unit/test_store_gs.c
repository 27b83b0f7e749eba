#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "store/source.h"
#include "tests/lib/http_server.h"
#include "tests/lib/sf_test.h"

#define LIST                                                                                  \
	"/storage/v1/b/bkt/o?fields=kind%2CnextPageToken%2Cprefixes%2Citems%28name%2Csize%2C" \
	"generation%2Cupdated%29&prefix=run%2F&delimiter=%2F&maxResults=1000"
#define MEDIA "/storage/v1/b/bkt/o/run%2Fa%20%2B%25?alt=media"
#define DESCRIPTION "/storage/v1/b/bkt/o/run%2Fa%20%2B%25?fields=size%2Cgeneration%2Cupdated"
#define PIN(g) "&generation=" g "&ifGenerationMatch=" g
#define BYTES 20000u

/* A bucket with one object, "run/a +%", in a generation. */
struct world {
	struct sf_io io;
	struct sf_http_server server;
	struct sf_http_object object[3];
	struct sf_http_fault plan[8]; /* of all requests, one after the other; then nothing */
	unsigned nplan, at;
	struct sf_store_options opt;
	struct sf_store *store;
	char page[512], description[256];
	/* where tokens are given: "tok1", "tok2" ...; which of them is known */
	unsigned given, known;
	char token[64];
	unsigned told_401;
	char last[1024], last_head[8192]; /* that was asked */
	uint8_t bytes[BYTES], got[BYTES];
};

static struct sf_http_fault next_fault(void *arg, const struct sf_http_seen *seen)
{
	struct world *w = arg;

	if (strcmp(seen->path, "/token") == 0) {
		ck_assert_ptr_nonnull(strstr(seen->body, "refresh_token=r"));
		snprintf(w->token, sizeof(w->token),
		         "{\"access_token\":\"tok%u\",\"expires_in\":3600}", ++w->given);
		return (struct sf_http_fault){ SF_HTTP_TELL, 200, w->token };
	}
	snprintf(w->last, sizeof(w->last), "%s", seen->path);
	snprintf(w->last_head, sizeof(w->last_head), "%s", seen->head);
	if (w->known) {
		char want[64];
		snprintf(want, sizeof(want), "\r\nAuthorization: Bearer tok%u\r\n", w->known);
		if (!strstr(seen->head, want)) {
			w->told_401++;
			return (struct sf_http_fault){
				SF_HTTP_TELL, 401,
				"{\"error\":{\"message\":\"Invalid Credentials\",\"errors\":[{"
				"\"reason\":\"authError\"}]}}"
			};
		}
	}
	return w->at == w->nplan ? (struct sf_http_fault){ 0 } : w->plan[w->at++];
}

static struct world *begin(void)
{
	struct world *w = calloc(1, sizeof(*w));
	uint64_t seed = 7;

	ck_assert_ptr_nonnull(w);
	for (size_t i = 0; i < BYTES; i++)
		w->bytes[i] = (uint8_t)sf_test_rand(&seed);
	snprintf(w->page, sizeof(w->page),
	         "{\"kind\":\"storage#objects\",\"items\":[{\"name\":\"run/a +%%\",\"size\":\"%u\","
	         "\"generation\":\"5\"},{\"name\":\"run/\",\"size\":\"0\",\"generation\":\"1\"}]}",
	         BYTES);
	snprintf(w->description, sizeof(w->description),
	         "{\"size\":\"%u\",\"generation\":\"5\",\"updated\":\"2009-10-12T17:50:30Z\"}",
	         BYTES);
	w->object[0] =
		(struct sf_http_object){ .path = LIST, .at = w->page, .len = strlen(w->page) };
	w->object[1] = (struct sf_http_object){ .path = DESCRIPTION,
		                                .at = w->description,
		                                .len = strlen(w->description) };
	w->object[2] = (struct sf_http_object){ .path = MEDIA PIN("5"),
		                                .at = w->bytes,
		                                .len = BYTES,
		                                .headers = "x-goog-generation: 5\r\n" };
	w->server.object = w->object;
	w->server.nobjects = 3;
	w->server.fault = next_fault;
	w->server.arg = w;
	ck_assert_int_eq(sf_http_server_start(&w->server), 0);
	ck_assert_int_eq(sf_io_init(&w->io, 2, NULL), 0);
	w->io.timeout_ms = 4000;
	w->opt.cache_size_given = true; /* none: each request is to be seen */
	setenv("STORAGE_EMULATOR_HOST", strstr(w->server.url, "//") + 2, 1);
	ck_assert_int_eq(sf_store_open(&w->io, "gs://bkt/run/", &w->opt, &w->store, NULL), 0);
	return w;
}

static void finish(struct world *w)
{
	sf_store_free(w->store);
	sf_io_release(&w->io);
	sf_http_server_stop(&w->server);
	unsetenv("STORAGE_EMULATOR_HOST");
	free(w);
}

struct listed {
	struct sf_store *store;
	struct sf_source *src;
	unsigned n;
};

static int each(void *arg, const struct sf_objinfo *info)
{
	struct listed *l = arg;

	l->n++;
	ck_assert_str_eq(info->name, "a +%");
	ck_assert_uint_eq(info->size, BYTES);
	ck_assert_str_eq(info->version.etag, "5");
	return l->store->ops->open(l->store, info->name, info, &l->src, NULL);
}

/* The object as the listing tells it. */
static struct sf_source *listed(struct world *w)
{
	struct listed l = { .store = w->store };
	struct sf_error err = SF_ERROR_INIT;
	int r = w->store->ops->list(w->store, "", 0, each, &l, &err);

	ck_assert_msg(r == 0, "%s", err.msg);
	ck_assert_uint_eq(l.n, 1);
	return l.src;
}

static int list_nothing(struct world *w, struct sf_error *err)
{
	struct listed l = { .store = w->store };
	int r = w->store->ops->list(w->store, "", 0, each, &l, err);

	ck_assert_uint_eq(l.n, 0);
	return r;
}

START_TEST(ranges_are_of_the_generation_that_the_listing_gave)
{
	struct world *w = begin();
	struct sf_source *src = listed(w);
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_uint_eq(w->server.requests,
	                  1); /* nothing is asked of an object before it is read */
	ck_assert_msg(sf_source_read(src, 100, w->got, 5000, SF_FETCH_TENSOR, &err) == 0, "%s",
	              err.msg);
	ck_assert_mem_eq(w->got, w->bytes + 100, 5000);
	ck_assert_str_eq(w->last, MEDIA PIN("5"));
	ck_assert_ptr_nonnull(strstr(w->last_head, "\r\nAccept-Encoding: gzip\r\n"));
	ck_assert_ptr_nonnull(strstr(w->last_head, "\r\nRange: bytes=100-5099\r\n"));
	ck_assert_ptr_null(strstr(w->last_head, "If-Match"));
	ck_assert_ptr_null(strstr(w->last_head, "Authorization"));
	sf_source_unref(src);
	finish(w);
}
END_TEST

START_TEST(an_object_that_no_listing_told_is_asked_for)
{
	struct world *w = begin();
	struct sf_source *src = NULL;
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_int_eq(w->store->ops->open(w->store, "a +%", NULL, &src, &err), 0);
	ck_assert_str_eq(w->last, DESCRIPTION);
	ck_assert_uint_eq(src->size, BYTES);
	ck_assert_int_eq(src->version.mtime_ns, INT64_C(1255369830000000000));
	ck_assert_int_eq(sf_source_read(src, 0, w->got, BYTES, SF_FETCH_TENSOR, &err), 0);
	ck_assert_mem_eq(w->got, w->bytes, BYTES);
	sf_source_unref(src);
	ck_assert_int_eq(w->store->ops->open(w->store, "b", NULL, &src, &err), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.msg, "'b'"));
	finish(w);
}
END_TEST

/* Whatever tells that the generation is not there any more: ESTALE, for all reads from then on. */
START_TEST(an_object_that_changed_is_stale)
{
	static const struct sf_http_fault how[] = {
		{ SF_HTTP_TELL, 404, "No such object: bkt/run/a +%" },
		{ SF_HTTP_TELL, 412, "{\"error\":{\"code\":412,\"message\":\"no\"}}" },
		{ SF_HTTP_FINE, 0, NULL }, /* an emulator that looks at neither: its answer tells */
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(how); i++) {
		struct world *w = begin();
		struct sf_source *src = listed(w);
		struct sf_error err = SF_ERROR_INIT;

		w->plan[w->nplan++] = how[i];
		w->at = 0;
		w->object[2].headers = "x-goog-generation: 6\r\n";
		ck_assert_int_eq(sf_source_read(src, 0, w->got, 10, SF_FETCH_TENSOR, &err),
		                 -ESTALE);
		ck_assert_msg(strstr(err.msg, "'a +%' changed on the server") != NULL, "%s",
		              err.msg);
		uint64_t asked = w->server.requests;
		ck_assert_int_eq(sf_source_read(src, 0, w->got, 10, SF_FETCH_TENSOR, &err),
		                 -ESTALE);
		ck_assert_uint_eq(w->server.requests, asked);
		sf_source_unref(src);
		finish(w);
	}
}
END_TEST

START_TEST(what_is_stored_packed_is_an_error)
{
	static const char *const headers[] = {
		"x-goog-generation: 5\r\nContent-Encoding: gzip\r\n",
		"x-goog-generation: 5\r\nx-goog-stored-content-encoding: gzip\r\n",
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(headers); i++) {
		struct world *w = begin();
		struct sf_source *src = listed(w);
		struct sf_error err = SF_ERROR_INIT;

		w->object[2].headers = headers[i];
		ck_assert_int_eq(sf_source_read(src, 0, w->got, BYTES, SF_FETCH_TENSOR, &err),
		                 -ENOTSUP);
		ck_assert_msg(strstr(err.msg, "encoded (gzip)") != NULL, "%s", err.msg);
		w->plan[w->nplan++] = (struct sf_http_fault){ SF_HTTP_WHOLE, 0, NULL };
		w->at = 0;
		ck_assert_int_eq(sf_source_read(src, 0, w->got, 100, SF_FETCH_TENSOR, &err),
		                 -ENOTSUP);
		ck_assert_msg(strstr(err.msg, "encoded (gzip)") != NULL, "%s", err.msg);
		sf_source_unref(src);
		finish(w);
	}
}
END_TEST

START_TEST(trouble_of_the_server_is_tried_again)
{
	struct world *w = begin();
	struct sf_source *src;
	struct sf_error err = SF_ERROR_INIT;

	w->plan[w->nplan++] = (struct sf_http_fault){ SF_HTTP_STATUS, 503, "Retry-After: 0\r\n" };
	w->plan[w->nplan++] = (struct sf_http_fault){ SF_HTTP_RESET, 0, NULL };
	src = listed(w);
	w->plan[w->nplan++] = (struct sf_http_fault){ SF_HTTP_STATUS, 429, "Retry-After: 0\r\n" };
	w->plan[w->nplan++] = (struct sf_http_fault){ SF_HTTP_CUT, 1000, NULL };
	w->at = 2;
	ck_assert_msg(sf_source_read(src, 0, w->got, BYTES, SF_FETCH_TENSOR, &err) == 0, "%s",
	              err.msg);
	ck_assert_mem_eq(w->got, w->bytes, BYTES);
	ck_assert_uint_eq(w->at, w->nplan);
	sf_source_unref(src);
	finish(w);
}
END_TEST

/* A listing that fails is an error, in the server's own words, and never an empty directory. */
START_TEST(a_listing_that_fails_is_an_error)
{
	static const struct {
		struct sf_http_fault f;
		int r;
		const char *words[3];
	} t[] = {
		{ { SF_HTTP_TELL, 404, "{\"error\":{\"code\":404,\"message\":\"gone\"}}" },
		  -ENOENT,
		  { "there is no bucket 'bkt' at 127.0.0.1" } },
		{ { SF_HTTP_TELL, 403,
		    "{\"error\":{\"message\":\"x does not have storage.objects.list access\","
		    "\"errors\":[{\"reason\":\"forbidden\"}]}}" },
		  -EACCES,
		  { "refuses it: 403 forbidden", "storage.objects.list access",
		    "nobody is signed" } },
		{ { SF_HTTP_TELL, 401, "{\"error\":{\"message\":\"Anonymous caller\"}}" },
		  -EACCES,
		  { "401: Anonymous caller", "nobody is signed" } },
		{ { SF_HTTP_TELL, 400,
		    "{\"error\":{\"message\":\"Bucket is a requester pays bucket but no user "
		    "project provided.\",\"errors\":[{\"reason\":\"required\"}]}}" },
		  -EACCES,
		  { "pays for it", "--user-project" } },
		{ { SF_HTTP_TELL, 400, "<html>hello</html>" },
		  -EIO,
		  { "400", "a web page", "is the endpoint that of GCS?" } },
		{ { SF_HTTP_PAGE, 0, NULL }, -EBADMSG, { "no listing of GCS" } },
		{ { SF_HTTP_TELL, 200, "{}" }, -EBADMSG, { "no listing of GCS" } },
		{ { SF_HTTP_STATUS, 302, "Location: http://127.0.0.1:1/\r\n" }, -EIO, { "302" } },
		{ { SF_HTTP_GARBAGE, 0, NULL }, -EPROTO, { NULL } },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++) {
		struct world *w = begin();
		struct sf_error err = SF_ERROR_INIT;
		int r;

		for (w->nplan = 0; w->nplan < 8;)
			w->plan[w->nplan++] = t[i].f;
		r = list_nothing(w, &err);
		ck_assert_msg(r == t[i].r, "%zu: %d %s", i, r, err.msg);
		for (size_t k = 0; k < 3 && t[i].words[k]; k++)
			ck_assert_msg(strstr(err.msg, t[i].words[k]) != NULL, "%zu: %s", i,
			              err.msg);
		finish(w);
	}
}
END_TEST

START_TEST(an_empty_prefix_is_an_error)
{
	struct world *w = begin();
	struct sf_error err = SF_ERROR_INIT;

	w->plan[w->nplan++] =
		(struct sf_http_fault){ SF_HTTP_TELL, 200, "{\"kind\":\"storage#objects\"}" };
	ck_assert_int_eq(list_nothing(w, &err), -ENOENT);
	ck_assert_str_eq(err.msg, "'gs://bkt/run/': the bucket has no objects below it");
	ck_assert_str_eq(w->last, "/storage/v1/b/bkt/o/run?fields=size%2Cgeneration%2Cupdated");
	finish(w);
}
END_TEST

START_TEST(somebody_may_pay)
{
	struct world *w = begin();
	struct sf_error err = SF_ERROR_INIT;

	w->opt.user_project = "my project";
	sf_store_free(w->store);
	ck_assert_int_eq(sf_store_open(&w->io, "gs://bkt/run", &w->opt, &w->store, &err), 0);
	ck_assert_int_eq(list_nothing(w, &err), -ENOENT); /* the server knows no such URL */
	ck_assert_str_eq(w->last, LIST "&userProject=my%20project");
	finish(w);
}
END_TEST

START_TEST(sources_that_are_none)
{
	static const struct {
		const char *source, *endpoint, *word;
	} t[] = {
		{ "gs://", NULL, "names no bucket" },
		{ "gs:///x", NULL, "names no bucket" },
		{ "gs://k:secret@bkt/x", NULL, "credentials do not go into" },
		{ "gs://bkt:80/x", NULL, "cannot contain ':'" },
		{ "gs://b/x", NULL, "'b' is not the name of a bucket" },
		{ "gs://bkt/x", "ftp://h", "neither http:// nor https://" },
		{ "gs://bkt/x", "http://u:secret@h", "userinfo" },
	};
	struct world *w = begin();

	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++) {
		const struct sf_store_options opt = { .endpoint_url = t[i].endpoint };
		struct sf_error err = SF_ERROR_INIT;
		struct sf_store *s;

		ck_assert_int_eq(sf_store_open(&w->io, t[i].source, &opt, &s, &err), -EINVAL);
		ck_assert_msg(strstr(err.msg, t[i].word) != NULL, "%s", err.msg);
		ck_assert_msg(!strstr(err.msg, "secret"), "%s", err.msg);
	}
	finish(w);
}
END_TEST

/* The same bucket, at an endpoint that wants to know who asks. */
static void sign_in(struct world *w, char *path)
{
	char text[512];
	int fd = mkstemp(path);

	ck_assert_int_ge(fd, 0);
	snprintf(text, sizeof(text),
	         "{\"type\":\"authorized_user\",\"client_id\":\"i\",\"client_secret\":\"s\","
	         "\"refresh_token\":\"r\",\"token_uri\":\"%s/token\"}",
	         w->server.url);
	ck_assert_int_eq(write(fd, text, strlen(text)), (int)strlen(text));
	close(fd);
	sf_store_free(w->store);
	unsetenv("STORAGE_EMULATOR_HOST");
	setenv("GOOGLE_APPLICATION_CREDENTIALS", path, 1);
	w->opt.endpoint_url = w->server.url;
	ck_assert_int_eq(sf_store_open(&w->io, "gs://bkt/run", &w->opt, &w->store, NULL), 0);
}

START_TEST(a_token_is_shown_and_another_one_when_it_is_not_known)
{
	char path[] = "/tmp/sf_gs.XXXXXX";
	struct world *w = begin();
	struct sf_source *src;
	struct sf_error err = SF_ERROR_INIT;

	sign_in(w, path);
	w->known = 1;
	src = listed(w);
	ck_assert_int_eq(sf_source_read(src, 0, w->got, 100, SF_FETCH_TENSOR, &err), 0);
	ck_assert_mem_eq(w->got, w->bytes, 100);
	ck_assert_uint_eq(w->given, 1);
	ck_assert_uint_eq(w->told_401, 0);
	w->known = 2; /* from now on the first one is not known any more */
	ck_assert_msg(sf_source_read(src, 0, w->got, BYTES, SF_FETCH_TENSOR, &err) == 0, "%s",
	              err.msg);
	ck_assert_mem_eq(w->got, w->bytes, BYTES);
	ck_assert_uint_eq(w->given, 2);
	ck_assert_uint_eq(w->told_401, 1);
	sf_source_unref(src);
	unlink(path);
	finish(w);
}
END_TEST

START_TEST(tokens_that_nobody_knows_are_not_fetched_for_ever)
{
	char path[] = "/tmp/sf_gs.XXXXXX";
	struct world *w = begin();
	struct sf_source *src;
	struct sf_error err = SF_ERROR_INIT;

	sign_in(w, path);
	w->known = 1;
	src = listed(w);
	w->known = 1000;
	ck_assert_int_eq(list_nothing(w, &err), -EACCES);
	ck_assert_msg(strstr(err.msg, "401: Invalid Credentials (credentials: /tmp/sf_gs.") != NULL,
	              "%s", err.msg);
	ck_assert_int_eq(sf_source_read(src, 0, w->got, 100, SF_FETCH_TENSOR, &err), -EACCES);
	ck_assert_msg(strstr(err.msg, "'a +%': ") && strstr(err.msg, "Invalid Credentials"), "%s",
	              err.msg);
	ck_assert_msg(!strstr(err.msg, "tok1") && !strstr(err.msg, "tok2"), "%s", err.msg);
	ck_assert_uint_le(w->given, 3);
	sf_source_unref(src);
	unlink(path);
	finish(w);
}
END_TEST

START_TEST(credentials_are_not_sent_for_all_to_hear)
{
	struct world *w = begin();
	const struct sf_store_options opt = { .endpoint_url = "http://gcs.example" };
	struct sf_store_options nobody = { .endpoint_url = "http://gcs.example",
		                           .no_sign_request = true,
		                           .cache_size_given = true };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_store *s;

	ck_assert_int_eq(sf_store_open(&w->io, "gs://bkt/run", &opt, &s, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.msg, "no credentials are sent"));
	ck_assert_int_eq(sf_store_open(&w->io, "gs://bkt/run", &nobody, &s, &err), 0);
	sf_store_free(s);
	finish(w);
}
END_TEST

START_TEST(with_keys_of_hmac_it_is_asked_as_s3)
{
	struct world *w = begin();
	struct sf_error err = SF_ERROR_INIT;
	struct sf_store_options opt = { .endpoint_url = w->server.url,
		                        .profile = "nobody",
		                        .cache_size_given = true };
	struct sf_store *s;

	setenv("GS_ACCESS_KEY_ID", "GOOG1E", 1);
	setenv("AWS_ACCESS_KEY_ID", "AMAZON", 1);
	setenv("AWS_SECRET_ACCESS_KEY", "other", 1);
	ck_assert_int_eq(sf_store_open(&w->io, "gs://bkt/run", &opt, &s, &err), -EBADMSG);
	ck_assert_ptr_nonnull(strstr(err.msg, "GS_SECRET_ACCESS_KEY is not"));
	setenv("GS_SECRET_ACCESS_KEY", "s3cr3t", 1);
	ck_assert_msg(sf_store_open(&w->io, "gs://bkt/run", &opt, &s, &err) == 0, "%s", err.msg);
	ck_assert_str_eq(s->source, "gs://bkt/run");
	struct sf_store *own = w->store;
	w->store = s;
	ck_assert_int_lt(list_nothing(w, &err), 0);
	w->store = own;
	sf_store_free(s);
	ck_assert_ptr_eq(strstr(w->last, "/bkt?delimiter=%2F&encoding-type=url&list-type=2"),
	                 w->last);
	ck_assert_ptr_nonnull(strstr(w->last_head, "AWS4-HMAC-SHA256 Credential=GOOG1E/"));
	ck_assert_ptr_nonnull(strstr(w->last_head, "/auto/s3/aws4_request"));
	opt.user_project = "p";
	ck_assert_int_eq(sf_store_open(&w->io, "gs://bkt/run", &opt, &s, &err), -ENOTSUP);
	/* who is nobody, and who asks an emulator, signs nothing */
	sf_source_unref(listed(w));
	ck_assert_ptr_null(strstr(w->last_head, "AWS4"));
	finish(w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("store_gs");
	TCase *t = tcase_create("store_gs");

	tcase_set_timeout(t, 20);
	tcase_add_test(t, ranges_are_of_the_generation_that_the_listing_gave);
	tcase_add_test(t, an_object_that_no_listing_told_is_asked_for);
	tcase_add_test(t, an_object_that_changed_is_stale);
	tcase_add_test(t, what_is_stored_packed_is_an_error);
	tcase_add_test(t, trouble_of_the_server_is_tried_again);
	tcase_add_test(t, a_listing_that_fails_is_an_error);
	tcase_add_test(t, an_empty_prefix_is_an_error);
	tcase_add_test(t, somebody_may_pay);
	tcase_add_test(t, sources_that_are_none);
	tcase_add_test(t, a_token_is_shown_and_another_one_when_it_is_not_known);
	tcase_add_test(t, tokens_that_nobody_knows_are_not_fetched_for_ever);
	tcase_add_test(t, credentials_are_not_sent_for_all_to_hear);
	tcase_add_test(t, with_keys_of_hmac_it_is_asked_as_s3);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
