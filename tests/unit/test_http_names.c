#include "config.h"

#include <dlfcn.h>
#include <netdb.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

#include "sf_test.h"
#include "store/http.h"
#include "store/store.h"
#include "tests/lib/http_server.h"

#define HUNG 12 /* requests: more than there are threads of HTTP */

/* Names that nobody answers for, until the test lets them end. libcurl calls this one. */
static sem_t answered;

__attribute__((visibility("default"))) int getaddrinfo(const char *name, const char *service,
                                                       const struct addrinfo *hints,
                                                       struct addrinfo **ret)
{
	static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

	if (name && strcmp(name, "hangs.invalid") == 0) {
		sem_wait(&answered);
		return EAI_AGAIN;
	}
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
	return real(name, service, hints, ret);
}

static _Atomic int ended, timed_out;

static void done(struct sf_http_req *req, int r)
{
	(void)req;
	timed_out += r == -ETIMEDOUT;
	ended++;
}

/* A name server that does not answer costs its own requests their deadline, and nobody else's. */
START_TEST(a_name_that_hangs_holds_nobody_up)
{
	static const char text[] = "hello";
	struct sf_http_object object = { .path = "/a", .at = text, .len = sizeof(text) };
	struct sf_http_server server = { .object = &object, .nobjects = 1 };
	struct sf_http_req hung[HUNG] = { 0 };
	struct sf_http_ask ask = { .method = "GET", .limit = 100, .timeout_ms = 20000 };
	struct sf_http_answer a = { 0 };
	struct sf_http *http;
	struct sf_io io;
	char url[128];

	sem_init(&answered, 0, 0);
	ck_assert_int_eq(sf_http_server_start(&server), 0);
	ck_assert_int_eq(sf_io_init(&io, 2, NULL), 0);
	ck_assert_int_eq(sf_http_get(&io, &http, NULL), 0);
	for (int i = 0; i < HUNG; i++) {
		hung[i].method = "GET";
		hung[i].url = "http://hangs.invalid/";
		hung[i].timeout_ms = 200;
		hung[i].done = done;
		sf_http_submit(http, &hung[i]);
	}
	while (ended < HUNG) /* before any name is answered: else this test ends by its own limit */
		usleep(1000);
	ck_assert_int_eq(timed_out, HUNG);
	snprintf(url, sizeof(url), "%s/a", server.url);
	ask.url = url;
	for (int i = 0; i < 4; i++) {
		ck_assert_int_eq(sf_http_ask(&io, &ask, &a, NULL), 0);
		ck_assert_uint_eq(a.status, 200);
		sf_http_answer_release(&a);
	}
	for (int i = 0; i < HUNG; i++)
		sem_post(&answered);
	sf_io_release(&io);
	sf_http_server_stop(&server);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("http_names");
	TCase *c = tcase_create("http_names");

	tcase_set_timeout(c, 30);
	tcase_add_test(c, a_name_that_hangs_holds_nobody_up);
	suite_add_tcase(s, c);
	return sf_test_main(s);
}
