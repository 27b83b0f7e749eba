#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/hub_revision.h"
#include "tests/lib/sf_test.h"

#define COMMIT "0123456789abcdef0123456789abcdef01234567"
#define LONG COMMIT "0123456789abcdef01234567"

START_TEST(a_branch_is_found_and_its_commit_put_there)
{
	static const struct {
		const char *url, *revision, *after; /* NULL: nothing moves there */
	} t[] = {
		{ "https://h/o/r/resolve/main", "main", "https://h/o/r/resolve/" COMMIT },
		{ "https://h/o/r/resolve/refs%2Fpr%2F1/sub/dir", "refs%2Fpr%2F1",
		  "https://h/o/r/resolve/" COMMIT "/sub/dir" },
		{ "http://h:80/datasets/o/r/resolve/v1.0/x", "v1.0",
		  "http://h:80/datasets/o/r/resolve/" COMMIT "/x" },
		{ "https://h/resolve/main", "main", "https://h/resolve/" COMMIT },
		{ "https://h/o/r/resolve/" COMMIT "/x", NULL, NULL },
		{ "https://h/o/r/resolve/" LONG, NULL, NULL },
		{ "https://h/o/r/resolve/", NULL, NULL },
		{ "https://h/o/r/tree/main", NULL, NULL },
		{ "https://resolve", NULL, NULL },
		{ "/o/r/resolve/main", NULL, NULL },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++) {
		SF_FREE char *after = sf_hub_at_commit(t[i].url, COMMIT);
		size_t at, len;
		bool is = sf_hub_revision(t[i].url, &at, &len);

		ck_assert_msg(is == (t[i].revision != NULL), "%s", t[i].url);
		ck_assert_msg(!is || (len == strlen(t[i].revision) &&
		                      memcmp(t[i].url + at, t[i].revision, len) == 0),
		              "%s", t[i].url);
		ck_assert_pstr_eq(after, t[i].after);
	}
}
END_TEST

START_TEST(what_a_server_says_may_be_no_commit)
{
	static const char *const bad[] = { "",
		                           "main",
		                           "../../../../other/repo/resolve/0123456789",
		                           COMMIT "0",
		                           "0123456789ABCDEF0123456789abcdef01234567",
		                           "0123456789abcdef0123456789abcdef0123456?" };

	for (size_t i = 0; i < SF_ARRAY_LEN(bad); i++)
		ck_assert_ptr_null(sf_hub_at_commit("https://h/o/r/resolve/main", bad[i]));
	SF_FREE char *good = sf_hub_at_commit("https://h/o/r/resolve/main", LONG);
	ck_assert_pstr_eq(good, "https://h/o/r/resolve/" LONG);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("hub_revision");
	TCase *t = tcase_create("hub_revision");

	tcase_add_test(t, a_branch_is_found_and_its_commit_put_there);
	tcase_add_test(t, what_a_server_says_may_be_no_commit);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
