#include "config.h"
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "tool/common.h"
#include "base/mem.h"
#include "tests/lib/sf_test.h"
#include "tool/write_parts.h"

/* Word i of the file is a hash of i. */
static int make_bytes(struct sf_vfile *f, uint32_t rec, uint64_t off, uint64_t len,
                      struct sf_parts *parts, struct sf_error *err)
{
	SF_FREE uint8_t *at = malloc(len + 8);
	(void)f, (void)rec;

	ck_assert_ptr_nonnull(at);
	for (uint64_t i = 0; i < len + off % 4; i += 4) {
		uint32_t word = (uint32_t)(off / 4 + i / 4) * 2654435761u;
		memcpy(at + i, &word, SF_MIN(len + 8 - i, (uint64_t)4));
	}
	int r = sf_parts_bytes(parts, at + off % 4, len);
	return r < 0 ? sf_fail(err, r, "made bytes") : 0;
}

static int break_behind_4m(struct sf_vfile *f, uint32_t rec, uint64_t off, uint64_t len,
                           struct sf_parts *parts, struct sf_error *err)
{
	return off + len > 4u << 20 ? sf_fail(err, -EBADMSG, "broken behind 4 MiB")
	                            : make_bytes(f, rec, off, len, parts, err);
}

static void no_free(struct sf_vfile *f)
{
	(void)f;
}

struct made {
	struct sf_common common;
	struct sf_session s;
	struct sf_vfile file;
	struct sf_vfile_ops ops;
	uint64_t start[2];
	struct sf_progress progress;
	int fd;
};

static void make(struct made *m, uint64_t size,
                 int (*emit)(struct sf_vfile *, uint32_t, uint64_t, uint64_t, struct sf_parts *,
                             struct sf_error *))
{
	struct sf_error err = SF_ERROR_INIT;
	char path[4096];

	*m = (struct made){ .ops = { .emit = emit, .free = no_free }, .start = { 0, size } };
	sf_common_init(&m->common);
	int r = sf_session_open(&m->s, &m->common.session, sf_test_data(path, "dcp/fsdp4/ckpt"),
	                        &err);
	ck_assert_msg(r == 0, "%s", err.msg);
	sf_vfile_init(&m->file, &m->ops, m->s.reader);
	m->file.start = m->start;
	m->file.nrec = 1;
	m->file.size = size;
	sf_progress_init(&m->progress, true);
	m->fd = memfd_create("parts", MFD_CLOEXEC);
	ck_assert_int_ge(m->fd, 0);
}

static void release(struct made *m)
{
	close(m->fd);
	sf_session_close(&m->s);
	sf_common_release(&m->common);
}

START_TEST(every_byte_is_where_it_belongs)
{
	static const uint64_t sizes[] = { 0,         1,          (512 << 10) - 1,
		                          512 << 10, 1025 << 10, (5 << 20) + 3 };
	struct sf_error err = SF_ERROR_INIT;
	uint64_t size = sizes[_i / 2];
	struct made m;
	struct stat st;

	make(&m, size, make_bytes);
	int r = sf_write_parts(&m.s, &m.file, false, m.fd, "x", _i % 2 ? 4 : 1, &m.progress, &err);
	ck_assert_msg(r == 0, "%s", err.msg);
	ck_assert_int_eq(fstat(m.fd, &st), 0);
	ck_assert_uint_eq((uint64_t)st.st_size, size);
	ck_assert_uint_eq(m.progress.bytes, size);
	for (uint64_t at = 0; at < size;) {
		static uint8_t got[65536];
		ssize_t n = pread(m.fd, got, sizeof(got), (off_t)at);
		ck_assert_int_gt(n, 0);
		/* Check keeps a message of every assertion: one a byte would be half a gigabyte */
		for (ssize_t i = 0; i < n; i++, at++) {
			uint32_t word = (uint32_t)(at / 4) * 2654435761u;
			if (got[i] != ((const uint8_t *)&word)[at % 4])
				ck_abort_msg("byte %" PRIu64 " is 0x%02x", at, got[i]);
		}
	}
	release(&m);
}
END_TEST

/* A file of 2^50 bytes that breaks early: what was claimed is nowhere in memory. */
START_TEST(a_claim_takes_no_memory)
{
	struct rusage use;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct sf_error err = SF_ERROR_INIT;
		struct made m;
		make(&m, UINT64_C(1) << 50, break_behind_4m);
		int r = sf_write_parts(&m.s, &m.file, false, m.fd, "x", 2, &m.progress, &err);
		_exit(r == -EBADMSG && strstr(err.msg, "broken behind 4 MiB") ? 0 : 1);
	}
	ck_assert_int_eq(wait4(pid, &status, 0, &use), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_lt(use.ru_maxrss, 256 << 10); /* KiB */
}
END_TEST

START_TEST(a_limit_on_files_is_named)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct sf_error err = SF_ERROR_INIT;
		struct made m;
		make(&m, 3 << 20, make_bytes);
		signal(SIGXFSZ, SIG_IGN);
		setrlimit(RLIMIT_FSIZE, &(struct rlimit){ 1 << 20, 1 << 20 });
		int r = sf_write_parts(&m.s, &m.file, false, m.fd, "x", 2, &m.progress, &err);
		_exit(r != -EFBIG                                                  ? 1
		      : !strstr(err.msg, "3145728") || !strstr(err.msg, "1048576") ? 2
		                                                                   : 0);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("write_parts");
	TCase *tc = tcase_create("parts");
	tcase_set_timeout(tc, 20);
	tcase_add_loop_test(tc, every_byte_is_where_it_belongs, 0, 12);
	tcase_add_test(tc, a_claim_takes_no_memory);
	tcase_add_test(tc, a_limit_on_files_is_named);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
