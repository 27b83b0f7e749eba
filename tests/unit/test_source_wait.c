#include "config.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "store/source.h"
#include "tests/lib/sf_test.h"

/*
 * A source like a file on a server that does not answer: a request sits on one of the pool's
 * threads until the gate is opened, and nobody can cancel it.
 */
#define BYTES ((5u << 20) + 123)

static struct gate {
	pthread_mutex_t m;
	pthread_cond_t c;
	bool open;
} gate = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false };
static atomic_uint waiting, ended, freed;
static struct sf_io io;
static struct sf_source stuck;

static uint8_t byte_at(uint64_t off)
{
	return (uint8_t)(off * 31 + off / 4096);
}

static void set_gate(bool open)
{
	pthread_mutex_lock(&gate.m);
	gate.open = open;
	pthread_cond_broadcast(&gate.c);
	pthread_mutex_unlock(&gate.m);
}

static void stuck_run(struct sf_task *task)
{
	struct sf_io_req *req = sf_container_of(task, struct sf_io_req, task);
	uint64_t off = req->off;

	pthread_mutex_lock(&gate.m);
	atomic_fetch_add(&waiting, 1);
	while (!gate.open)
		pthread_cond_wait(&gate.c, &gate.m);
	pthread_mutex_unlock(&gate.m);
	for (int i = 0; i < req->niov; i++)
		for (size_t k = 0; k < req->iov[i].iov_len; k++)
			((uint8_t *)req->iov[i].iov_base)[k] = byte_at(off++);
	sf_io_req_end(req, 0);
	atomic_fetch_add(&ended, 1);
}

static void stuck_submit(struct sf_source *src, struct sf_io_req *req)
{
	req->task.run = stuck_run;
	sf_thread_pool_submit(src->io->pool, &req->task);
}

static int stuck_try(struct sf_source *src, uint64_t off, const struct iovec *iov, int niov,
                     uint64_t len, struct sf_error *err)
{
	(void)src, (void)off, (void)iov, (void)niov, (void)len, (void)err;
	return -EAGAIN;
}

static void stuck_free(struct sf_source *src)
{
	(void)src;
	atomic_fetch_add(&freed, 1);
}

static const struct sf_source_ops stuck_ops = { .try_read = stuck_try,
	                                        .submit = stuck_submit,
	                                        .free = stuck_free };

static void begin(unsigned timeout_ms)
{
	set_gate(false);
	waiting = ended = freed = 0;
	ck_assert_int_eq(sf_io_init(&io, 2, NULL), 0);
	io.timeout_ms = timeout_ms;
	stuck = (struct sf_source){
		.ops = &stuck_ops, .refs = 1, .io = &io, .name = "x", .size = BYTES
	};
}

START_TEST(a_read_that_nobody_can_cancel_ends_by_its_deadline)
{
	struct sf_error err = SF_ERROR_INIT;
	uint8_t *b = malloc(64);

	begin(100);
	memset(b, 0x55, 64);
	ck_assert_int_eq(sf_source_read(&stuck, 7, b, 64, SF_FETCH_METADATA, &err), -ETIMEDOUT);
	ck_assert_str_eq(err.msg, "'x': no answer to 64 bytes at 7 within 100 ms");
	ck_assert_uint_eq(atomic_load(&ended), 0);
	set_gate(true);
	sf_thread_pool_free(io.pool); /* it ends now, and writes where nobody is hurt */
	io.pool = NULL;
	ck_assert_uint_eq(atomic_load(&ended), 1);
	for (int i = 0; i < 64; i++)
		ck_assert_uint_eq(b[i], 0x55);
	free(b);
	/* it held the source until then */
	ck_assert_uint_eq(atomic_load(&freed), 0);
	sf_source_unref(&stuck);
	ck_assert_uint_eq(atomic_load(&freed), 1);
	sf_io_release(&io);
}
END_TEST

START_TEST(reads_that_are_answered_in_time_give_the_bytes)
{
	uint64_t seed = sf_test_seed("answered");
	uint8_t *b = malloc(BYTES);

	begin(60000);
	set_gate(true);
	for (int i = 0; i < 12; i++) {
		uint64_t off = i ? sf_test_below(&seed, BYTES) : 0;
		uint64_t len = i > 1 ? sf_test_below(&seed, BYTES - off + 1) : BYTES - off;
		ck_assert_int_eq(sf_source_read(&stuck, off, b, len, SF_FETCH_METADATA, NULL), 0);
		for (uint64_t k = 0; k < len; k++)
			if (b[k] != byte_at(off + k))
				ck_abort_msg("byte %llu of %llu at %llu", (unsigned long long)k,
				             (unsigned long long)len, (unsigned long long)off);
	}
	free(b);
	sf_io_release(&io);
}
END_TEST

static void *read_without_deadline(void *arg)
{
	uint8_t b[8];

	(void)arg;
	ck_assert_int_eq(sf_source_read(&stuck, 0, b, 8, SF_FETCH_METADATA, NULL), 0);
	for (unsigned k = 0; k < 8; k++)
		ck_assert_uint_eq(b[k], byte_at(k));
	return NULL;
}

START_TEST(without_a_deadline_a_read_waits)
{
	pthread_t t;

	begin(0);
	ck_assert_int_eq(pthread_create(&t, NULL, read_without_deadline, NULL), 0);
	while (!atomic_load(&waiting))
		sched_yield();
	set_gate(true);
	pthread_join(t, NULL);
	sf_io_release(&io);
}
END_TEST

/* More of them than there are threads: the end of it all waits for none. */
START_TEST(requests_left_behind_do_not_keep_the_program)
{
	struct sf_error err = SF_ERROR_INIT;
	uint8_t b[16];

	begin(50);
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(sf_source_read(&stuck, 0, b, 16, SF_FETCH_METADATA, &err),
		                 -ETIMEDOUT);
	sf_source_unref(&stuck);
	sf_io_release(&io);
	memset(&io, 0xee, sizeof(io)); /* as the stack frame it is in */
	ck_assert_uint_eq(atomic_load(&ended), 0);
	ck_assert_uint_eq(atomic_load(&freed), 0);
	set_gate(true);
	while (atomic_load(&ended) < 5)
		sched_yield();
	ck_assert_uint_eq(atomic_load(&freed), 1); /* by the last of them */
	usleep(50000);                             /* for the leak checker: the pool goes too */
}
END_TEST

int main(void)
{
	Suite *s = suite_create("source_wait");
	TCase *t = tcase_create("source_wait");
	tcase_add_test(t, a_read_that_nobody_can_cancel_ends_by_its_deadline);
	tcase_add_test(t, reads_that_are_answered_in_time_give_the_bytes);
	tcase_add_test(t, without_a_deadline_a_read_waits);
	tcase_add_test(t, requests_left_behind_do_not_keep_the_program);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
