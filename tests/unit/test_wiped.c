/*
 * What is secret is overwritten before its memory is given back: here every block that is freed by our
 * own code, or moved, is looked at (-Wl,--wrap). Of libcurl and the C library only what they were given
 * by us.
 */
#include "config.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "sf_test.h"
#include "store/source.h"
#include "tests/lib/http_server.h"

#define SECRET "c2VjcmV0" /* as it is, and as Basic has it */
#define PLAIN "secret"

void __real_free(void *p);
void *__real_realloc(void *p, size_t size);
void __wrap_free(void *p);
void *__wrap_realloc(void *p, size_t size);

static _Atomic unsigned left, looked_at;

static bool has_secret(void *p)
{
	return p && memmem(p, malloc_usable_size(p), SECRET, sizeof(SECRET) - 1);
}

void __wrap_free(void *p)
{
	looked_at++;
	left += has_secret(p);
	__real_free(p);
}

/* A buffer that grows with a secret in it may leave it behind. */
void *__wrap_realloc(void *p, size_t size)
{
	left += has_secret(p);
	return __real_realloc(p, size);
}

/* @front of the server's address, @behind it. */
static void read_once(const char *front, const char *behind, const char *path)
{
	const struct sf_objinfo want = { .size = 10, .version.etag = "\"v1\"" };
	const struct sf_http_object object = {
		.path = path, .at = "0123456789", .len = 10, .etag = "\"v1\""
	};
	struct sf_http_server server = { .object = &object, .nobjects = 1 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_source *src;
	struct sf_store *store;
	char url[512], got[10];
	struct sf_io io;

	ck_assert_int_eq(sf_http_server_start(&server), 0);
	snprintf(url, sizeof(url), "%s%s%s", front, behind ? server.url + strlen("http://") : "",
	         behind ? behind : "");
	setenv("AWS_ENDPOINT_URL_S3", server.url, 1);
	setenv("HF_ENDPOINT", server.url, 1);
	ck_assert_int_eq(sf_io_init(&io, 1, NULL), 0);
	left = looked_at = 0;
	ck_assert_msg(sf_store_open(&io, url, NULL, &store, &err) == 0, "%s", err.msg);
	ck_assert_int_eq(store->ops->open(store, "a", &want, &src, NULL), 0);
	ck_assert_msg(sf_source_read(src, 0, got, 10, SF_FETCH_TENSOR, &err) == 0, "%s", err.msg);
	ck_assert_mem_eq(got, "0123456789", 10);
	sf_source_unref(src);
	sf_store_free(store);
	sf_io_release(&io);
	ck_assert_uint_gt(looked_at, 20);
	ck_assert_uint_eq(left, 0);
	sf_http_server_stop(&server);
}

START_TEST(keys_of_a_bucket)
{
	setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
	setenv("AWS_CONFIG_FILE", "/nonexistent", 1);
	setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent", 1);
	unsetenv("AWS_PROFILE");
	setenv("AWS_ACCESS_KEY_ID", "K", 1);
	setenv("AWS_SECRET_ACCESS_KEY", SECRET "and more of it", 1);
	setenv("AWS_SESSION_TOKEN", "a token, " SECRET, 1);
	read_once("s3://b/p", NULL, "/b/p/a");
}
END_TEST

START_TEST(keys_of_a_profile)
{
	char path[] = "/tmp/sf-wiped-XXXXXX";
	static const char text[] = "[default]\naws_access_key_id = K\n"
				   "aws_secret_access_key = " SECRET "\n"
				   "aws_session_token = " SECRET SECRET "\n";
	int fd = mkstemp(path);

	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
	setenv("AWS_CONFIG_FILE", "/nonexistent", 1);
	setenv("AWS_SHARED_CREDENTIALS_FILE", path, 1);
	unsetenv("AWS_PROFILE");
	unsetenv("AWS_ACCESS_KEY_ID");
	setenv("AWS_SECRET_ACCESS_KEY", "of nobody, " SECRET, 1); /* looked at, not used */
	read_once("s3://b/p", NULL, "/b/p/a");
	unlink(path);
}
END_TEST

START_TEST(a_password_in_a_url)
{
	read_once("http://abc" PLAIN ":" SECRET "@", "/d", "/d/a");
}
END_TEST

START_TEST(a_hubs_token)
{
	char path[] = "/tmp/sf-wiped-XXXXXX";
	int fd = mkstemp(path);

	ck_assert_int_eq(write(fd, SECRET "\n", strlen(SECRET) + 1), (ssize_t)strlen(SECRET) + 1);
	close(fd);
	if (_i == 0)
		setenv("HF_TOKEN", SECRET, 1);
	else
		unsetenv("HF_TOKEN");
	setenv("HF_TOKEN_PATH", path, 1);
	read_once("http://", "/d", "/d/a");
	unlink(path);
}
END_TEST

/* Nobody is logged in where there is no file; one that cannot be read is told. */
START_TEST(a_hubs_token_that_cannot_be_read_is_told)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_store *store;
	struct sf_io io;

	setenv("HF_ENDPOINT", "http://127.0.0.1:9", 1);
	unsetenv("HF_TOKEN");
	unsetenv("HUGGING_FACE_HUB_TOKEN");
	ck_assert_int_eq(sf_io_init(&io, 1, NULL), 0);
	setenv("HF_TOKEN_PATH", "/nonexistent", 1);
	ck_assert_int_eq(sf_store_open(&io, "http://127.0.0.1:9/x", NULL, &store, &err), 0);
	sf_store_free(store);
	setenv("HF_TOKEN_PATH", "/dev/null/x", 1);
	ck_assert_int_eq(sf_store_open(&io, "http://127.0.0.1:9/x", NULL, &store, &err), -ENOTDIR);
	ck_assert_ptr_nonnull(strstr(err.msg, "'/dev/null/x': Not a directory"));
	ck_assert_ptr_nonnull(strstr(err.msg, "HF_HUB_DISABLE_IMPLICIT_TOKEN=1"));
	setenv("HF_TOKEN_PATH", "/tmp", 1);
	ck_assert_int_eq(sf_store_open(&io, "http://127.0.0.1:9/x", NULL, &store, &err), -EISDIR);
	setenv("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1", 1);
	ck_assert_int_eq(sf_store_open(&io, "http://127.0.0.1:9/x", NULL, &store, &err), 0);
	sf_store_free(store);
	sf_io_release(&io);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("wiped");
	TCase *t = tcase_create("wiped");

	tcase_add_test(t, keys_of_a_bucket);
	tcase_add_test(t, keys_of_a_profile);
	tcase_add_test(t, a_password_in_a_url);
	tcase_add_loop_test(t, a_hubs_token, 0, 2);
	tcase_add_test(t, a_hubs_token_that_cannot_be_read_is_told);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
