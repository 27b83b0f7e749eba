/* What a mount asks of the kernel when it begins. */
#include "config.h"
#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>
#include "fuse/fs_ops.h"
#include "tests/lib/sf_test.h"

#define WANTED                                                                                \
	(FUSE_CAP_ASYNC_READ | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_READDIRPLUS |              \
	 FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_CACHE_SYMLINKS | FUSE_CAP_EXPLICIT_INVAL_DATA | \
	 FUSE_CAP_NO_OPENDIR_SUPPORT | FUSE_CAP_ASYNC_DIO | FUSE_CAP_IOCTL_DIR)
#define UNWANTED                                                               \
	(FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE | \
	 FUSE_CAP_AUTO_INVAL_DATA)

static struct fuse_conn_info begin(struct sf_fs *fs, unsigned capable, unsigned want)
{
	struct fuse_conn_info conn = {
		.proto_major = 7, .proto_minor = 31, .capable = capable, .want = want
	};

	sf_fs_ops.init(fs, &conn);
	return conn;
}

START_TEST(each_capability_is_asked_for_where_it_is_offered)
{
	struct sf_fs *fs = calloc(1, sizeof(*fs));

	for (unsigned bit = 0; bit < 32; bit++) {
		const unsigned cap = 1u << bit;
		if (!(cap & (WANTED | UNWANTED)))
			continue;
		/* libfuse has those that it would use set already */
		ck_assert_uint_eq(begin(fs, cap, 0).want & cap, cap & WANTED);
		ck_assert_uint_eq(begin(fs, cap, cap).want & cap, cap & WANTED);
		ck_assert_uint_eq(begin(fs, 0, 0).want & cap, 0);
	}
	free(fs);
}
END_TEST

START_TEST(requests_are_large_and_many)
{
	struct sf_fs *fs = calloc(1, sizeof(*fs));
	struct fuse_conn_info conn = begin(fs, ~0u, 0);

	ck_assert_uint_eq(conn.max_read, 1 << 20);
	ck_assert_uint_eq(conn.max_write, 1 << 20);
	ck_assert_uint_eq(conn.max_readahead, 1 << 20);
	ck_assert_uint_eq(conn.max_background, 256);
	ck_assert_uint_lt(conn.congestion_threshold, conn.max_background);
	ck_assert_uint_gt(conn.congestion_threshold, conn.max_background / 2);
	fs->readahead = 128 << 10;
	ck_assert_uint_eq(begin(fs, ~0u, 0).max_readahead, 128 << 10);
	free(fs);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("fs_init");
	TCase *t = tcase_create("fs_init");

	tcase_add_test(t, each_capability_is_asked_for_where_it_is_offered);
	tcase_add_test(t, requests_are_large_and_many);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
