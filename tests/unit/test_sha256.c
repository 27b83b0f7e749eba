#include "config.h"

#include <string.h>

#include "base/path.h"
#include "tests/lib/sf_test.h"

static void is(const void *p, size_t len, const char *hex)
{
	uint8_t digest[SF_SHA256_BYTES];
	char text[2 * SF_SHA256_BYTES + 1];

	ck_assert_int_eq(sf_sha256(p, len, digest), 0);
	for (size_t i = 0; i < sizeof(digest); i++)
		snprintf(text + 2 * i, 3, "%02x", digest[i]);
	ck_assert_str_eq(text, hex);
}

/* FIPS 180-2, appendix B */
START_TEST(digests_are_those_of_the_standard)
{
	static char a[1000000];
	const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";

	is("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	is("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	is(two, strlen(two), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	memset(a, 'a', sizeof(a));
	is(a, sizeof(a), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("sha256");
	TCase *t = tcase_create("all");

	tcase_add_test(t, digests_are_those_of_the_standard);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
