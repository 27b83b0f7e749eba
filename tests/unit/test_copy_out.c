#include "config.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include "tool/common.h"
#include "store/source.h"
#include "tests/lib/sf_test.h"
#include "tool/copy_out.h"

enum { SIZE = 37 << 20 }; /* several windows, and not a multiple of one */

static int make_bytes(struct sf_vfile *f, uint32_t rec, uint64_t off, uint64_t len,
                      struct sf_parts *parts, struct sf_error *err)
{
	(void)f, (void)rec;
	for (uint64_t i = 0; i < len;) {
		uint32_t block[1024];
		uint64_t at = off + i, n = sizeof(block) - at % 4;
		for (uint32_t k = 0; k < 1024; k++)
			block[k] = (uint32_t)(at / 4 + k) * 2654435761u;
		n = n < len - i ? n : len - i;
		int r = sf_parts_bytes(parts, (uint8_t *)block + at % 4, n);
		if (r < 0)
			return sf_fail(err, r, "made bytes");
		i += n;
	}
	return 0;
}

static int break_at_20m(struct sf_vfile *f, uint32_t rec, uint64_t off, uint64_t len,
                        struct sf_parts *parts, struct sf_error *err)
{
	return off + len > 20u << 20 ? sf_fail(err, -EBADMSG, "broken at 20 MiB")
	                             : make_bytes(f, rec, off, len, parts, err);
}

static void no_free(struct sf_vfile *f)
{
	(void)f;
}

struct open {
	struct sf_common common;
	struct sf_session s;
	struct sf_vfile file;
	struct sf_vfile_ops ops;
	uint64_t start[2];
};

static void open_made(struct open *o, int (*emit)(struct sf_vfile *, uint32_t, uint64_t, uint64_t,
                                                  struct sf_parts *, struct sf_error *))
{
	struct sf_error err = SF_ERROR_INIT;
	char path[4096];
	*o = (struct open){ .ops = { .emit = emit, .free = no_free }, .start = { 0, SIZE } };
	sf_common_init(&o->common);
	int r = sf_session_open(&o->s, &o->common.session, sf_test_data(path, "dcp/fsdp4/ckpt"),
	                        &err);
	ck_assert_msg(r == 0, "%s", err.msg);
	sf_vfile_init(&o->file, &o->ops, o->s.reader);
	o->file.start = o->start;
	o->file.nrec = 1;
	o->file.size = SIZE;
}

static void close_made(struct open *o)
{
	sf_session_close(&o->s);
	sf_common_release(&o->common);
}

struct drain {
	int fd;
	uint64_t n;
	bool same;
};

static void *drain(void *arg)
{
	struct drain *d = arg;
	static uint8_t buf[100003];
	ssize_t k;

	d->same = true;
	while ((k = read(d->fd, buf, sizeof(buf))) > 0) {
		for (ssize_t i = 0; i < k; i++) {
			uint32_t word = (uint32_t)((d->n + (uint64_t)i) / 4) * 2654435761u;
			d->same &= buf[i] == ((const uint8_t *)&word)[(d->n + (uint64_t)i) % 4];
		}
		d->n += (uint64_t)k;
	}
	return NULL;
}

/* The pipe's ends are ours; _i = 1 makes ours non-blocking. */
START_TEST(a_pipe_gets_every_byte_in_order)
{
	struct drain d = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	struct open o;
	pthread_t id;
	int fd[2];

	open_made(&o, make_bytes);
	ck_assert_int_eq(pipe2(fd, _i ? O_NONBLOCK : 0), 0);
	ck_assert_int_eq(fcntl(fd[0], F_SETFL, 0), 0);
	d.fd = fd[0];
	ck_assert_int_eq(pthread_create(&id, NULL, drain, &d), 0);
	int r = sf_copy_out(&o.s, &o.file, fd[1], &err);
	close(fd[1]);
	pthread_join(id, NULL);
	ck_assert_msg(r == 0, "%s", err.msg);
	ck_assert_uint_eq(d.n, SIZE);
	ck_assert(d.same);
	close(fd[0]);
	close_made(&o);
}
END_TEST

START_TEST(an_error_in_the_middle_ends_it_and_says_why)
{
	struct sf_error err = SF_ERROR_INIT;
	struct open o;
	int null = open("/dev/null", O_WRONLY);

	open_made(&o, break_at_20m);
	ck_assert_int_eq(sf_copy_out(&o.s, &o.file, null, &err), -EBADMSG);
	ck_assert_ptr_nonnull(strstr(err.msg, "broken at 20 MiB"));
	close(null);
	close_made(&o);
}
END_TEST

START_TEST(a_reader_that_went_away_is_an_error)
{
	struct sf_error err = SF_ERROR_INIT;
	struct open o;
	int fd[2];

	signal(SIGPIPE, SIG_IGN);
	open_made(&o, make_bytes);
	ck_assert_int_eq(pipe(fd), 0);
	close(fd[0]);
	ck_assert_int_eq(sf_copy_out(&o.s, &o.file, fd[1], &err), -EPIPE);
	close(fd[1]);
	close_made(&o);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("copy_out");
	TCase *tc = tcase_create("copies");
	tcase_set_timeout(tc, 20);
	tcase_add_loop_test(tc, a_pipe_gets_every_byte_in_order, 0, 2);
	tcase_add_test(tc, an_error_in_the_middle_ends_it_and_says_why);
	tcase_add_test(tc, a_reader_that_went_away_is_an_error);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
