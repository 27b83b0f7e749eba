/* Each allocation of a store and its sources fails once: it is told, and nothing is left over. */
#include "config.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "store/source.h"
#include "tests/fuzz/fz_malloc.h"
#include "tests/lib/sf_test.h"
#include "tests/lib/test_stores.h"

static struct sf_io io;
static const struct sf_mem_object object = { "x", "12345", 5 };

/* No assertion while allocations fail: those take memory too. */
static int list_one(void *arg, const struct sf_objinfo *info)
{
	++*(unsigned *)arg;
	return strcmp(info->name, "x") == 0 ? 0 : -EINVAL;
}

/* A store of memory, one that fails around it, a source of that, another around it. */
static int use(struct sf_fault *plan, char got[5], struct sf_error *err)
{
	struct sf_store *inner = NULL, *store = NULL;
	struct sf_source *src = NULL, *around = NULL;
	unsigned n = 0;
	int r = sf_store_mem(&io, &object, 1, &inner, err);

	if (r < 0)
		return r;
	r = sf_store_fault(inner, plan, &store, err); /* it is the new one's, if there is one */
	if (r < 0) {
		sf_store_free(inner);
		return r;
	}
	r = store->ops->list(store, "", 8, list_one, &n, err);
	if (r >= 0 && n != 1)
		r = -EINVAL;
	if (r >= 0)
		r = store->ops->open(store, "x", NULL, &src, err);
	if (r >= 0)
		r = sf_source_fault(src, plan, &around, err);
	if (r >= 0)
		r = sf_source_read(around, 0, got, 5, SF_FETCH_OBJECT, err);
	sf_source_unref(around);
	sf_source_unref(src);
	sf_store_free(store);
	return r;
}

START_TEST(a_store_without_memory_says_so)
{
	struct sf_fault plan = { .fail_at = -1 };
	long failed = 1, n, refused = 0;

	ck_assert_int_eq(sf_io_init(&io, 1, NULL), 0);
	for (n = 0; failed; n++) {
		struct sf_error err = SF_ERROR_INIT;
		char got[5] = "";
		fz_malloc_fails(n, false);
		int r = use(&plan, got, &err);
		failed = fz_malloc_fails(-1, false);
		/* a read has another way where there is no memory for the first */
		if (r < 0)
			ck_assert_msg(failed && r == -ENOMEM && err.msg[0], "allocation %ld: %d %s",
			              n, r, err.msg);
		else
			ck_assert_int_eq(memcmp(got, "12345", 5), 0);
		refused += r < 0;
	}
	ck_assert_int_ge(refused, 5);
	sf_io_release(&io);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("store_faults");
	TCase *t = tcase_create("store_faults");

	tcase_add_test(t, a_store_without_memory_says_so);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
