#include "config.h"

#include "base/mem.h"
#include "fuse/fs_ops.h"
#include "tests/lib/sf_test.h"

/* What is wrong with the bytes is EIO; a client's own wish is EINTR; the rest is what it is. */
START_TEST(codes_are_what_a_client_understands)
{
	static const int cases[][2] = {
		{ 0, 0 },
		{ 5, 0 },
		{ -EBADMSG, EIO },
		{ -ENOTSUP, EIO },
		{ -E2BIG, EIO },
		{ -ETIMEDOUT, EIO },
		{ -EFAULT, EIO },
		{ -EIO, EIO },
		{ -ESTALE, ESTALE },
		{ -ENOENT, ENOENT },
		{ -ENOMEM, ENOMEM },
		{ -ECANCELED, EINTR },
		{ -EACCES, EACCES },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++)
		ck_assert_int_eq(sf_fs_errno(cases[i][0]), cases[i][1]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("fs_errno");
	TCase *t = tcase_create("fs_errno");

	tcase_add_test(t, codes_are_what_a_client_understands);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
