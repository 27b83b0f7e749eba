#include "config.h"
#include <string.h>
#include "base/mem.h"
#include "tests/lib/sf_test.h"
#include "fuse/kernel_init.h"

/* Bytes of the kernel's struct fuse_init_out: include/uapi/linux/fuse.h of 6.14. */
enum { LEN = 64, FLAGS = 12, FLAGS2 = 32, STACK_DEPTH = 36, TIMEOUT = 40 };
#define PARALLEL_DIROPS (1u << 18)
#define EXT (1u << 30)
#define PASSTHROUGH (1u << (37 - 32))
#define REQUEST_TIMEOUT (1u << (42 - 32))

static uint8_t out[LEN + 8];

static bool patch(const struct sf_kernel_offer *o, size_t len)
{
	memset(out, 0xee, sizeof(out));
	if (len > FLAGS + 4)
		memset(out, 0, len);
	sf_put_le32(out + FLAGS, 3);
	bool passthrough = sf_kernel_init_patch(o, out, len);
	for (size_t i = len; i < sizeof(out); i++)
		ck_assert_msg(out[i] == 0xee || (i >= FLAGS && i < FLAGS + 4), "byte %zu", i);
	return passthrough;
}

START_TEST(a_new_kernel_gets_all_it_offers)
{
	const struct sf_kernel_offer o = { .flags = PARALLEL_DIROPS | EXT | 1,
		                           .flags2 = PASSTHROUGH | REQUEST_TIMEOUT | 1,
		                           .passthrough = true,
		                           .timeout_s = 1800 };

	ck_assert(patch(&o, LEN));
	ck_assert_uint_eq(sf_le32(out + FLAGS), PARALLEL_DIROPS | EXT | 3);
	ck_assert_uint_eq(sf_le32(out + FLAGS2), PASSTHROUGH | REQUEST_TIMEOUT);
	ck_assert_uint_eq(sf_le32(out + STACK_DEPTH), 1);
	ck_assert_uint_eq(sf_le16(out + TIMEOUT), 1800);
}
END_TEST

START_TEST(what_is_not_offered_or_not_wanted_is_not_asked_for)
{
	struct sf_kernel_offer o = { .flags = EXT, .flags2 = PASSTHROUGH, .timeout_s = 1800 };

	ck_assert(!patch(&o, LEN)); /* not root, a kernel before 6.14 */
	ck_assert_uint_eq(sf_le32(out + FLAGS), 3);
	ck_assert_uint_eq(sf_le32(out + FLAGS2), 0);
	ck_assert_uint_eq(sf_le16(out + TIMEOUT), 0);
	o = (struct sf_kernel_offer){ .flags = EXT, .flags2 = REQUEST_TIMEOUT }; /* --timeout 0 */
	ck_assert(!patch(&o, LEN));
	ck_assert_uint_eq(sf_le32(out + FLAGS2), 0);
	o.timeout_s = 1000000; /* a u16 there */
	ck_assert(!patch(&o, LEN));
	ck_assert_uint_eq(sf_le32(out + FLAGS), EXT | 3);
	ck_assert_uint_eq(sf_le16(out + TIMEOUT), UINT16_MAX);
	o.flags = 0; /* its second word of flags does not count */
	ck_assert(!patch(&o, LEN));
	ck_assert_uint_eq(sf_le32(out + FLAGS2), 0);
}
END_TEST

START_TEST(a_short_reply_is_left_alone)
{
	const struct sf_kernel_offer o = { .flags = PARALLEL_DIROPS | EXT,
		                           .flags2 = PASSTHROUGH | REQUEST_TIMEOUT,
		                           .passthrough = true,
		                           .timeout_s = 1800 };

	ck_assert(!patch(&o, 24));
	ck_assert_uint_eq(sf_le32(out + FLAGS), PARALLEL_DIROPS | 3);
	ck_assert(!patch(&o, 8));
	ck_assert_uint_eq(sf_le32(out + FLAGS), 3);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("kernel_init");
	TCase *tc = tcase_create("the reply to INIT");
	tcase_add_test(tc, a_new_kernel_gets_all_it_offers);
	tcase_add_test(tc, what_is_not_offered_or_not_wanted_is_not_asked_for);
	tcase_add_test(tc, a_short_reply_is_left_alone);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
