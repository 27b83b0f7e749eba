#include "config.h"

#include <string.h>

#include "ckpt/place.h"
#include "base/mem.h"
#include "format/format.h"
#include "parse/zstd.h"
#include "tests/lib/test_stores.h"
#include "tests/lib/sf_test.h"

/* Real checkpoints whose requests fail while they are loaded, one after the other. */
static struct sf_io io;
static struct sf_fault plan;
static struct sf_store *store;

static void begin(const char *name)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_store *inner;
	char path[4096];

	ck_assert_int_eq(sf_io_init(&io, 2, NULL), 0);
	plan = (struct sf_fault){ .fail_at = -1 };
	ck_assert_msg(sf_store_open(&io, sf_test_data(path, name), NULL, &inner, &err) == 0, "%s",
	              err.msg);
	ck_assert_int_eq(sf_store_fault(inner, &plan, &store, NULL), 0);
}

static void end(void)
{
	sf_store_free(store);
	sf_io_release(&io);
}

static int load(struct sf_ckpt **ret, struct sf_error *err)
{
	plan.seen = 0;
	*err = (struct sf_error)SF_ERROR_INIT;
	return sf_ckpt_load(store, NULL, ret, err);
}

/* Do both say the same of every item: in which file, where, in which form? */
static bool same_items(const struct sf_ckpt *a, const struct sf_ckpt *b)
{
	if (a->ntensors != b->ntensors || a->nplaces != b->nplaces || a->nchunks != b->nchunks)
		return false;
	for (uint32_t i = 0; i < a->nplaces; i++)
		if (a->place[i].form != b->place[i].form ||
		    a->place[i].codec != b->place[i].codec ||
		    a->place[i].streams != b->place[i].streams ||
		    strcmp(sf_place_file(a, i)->name, sf_place_file(b, i)->name) != 0)
			return false;
	for (uint32_t i = 0; i < a->ntensors; i++)
		for (uint32_t k = 0; k < a->tensor[i].nchunks; k++)
			if (a->tensor[i].place[k] != b->tensor[i].place[k] ||
			    a->tensor[i].off[k] != b->tensor[i].off[k])
				return false;
	return true;
}

static const char *const names[] = {
	"dcp/fsdp4/ckpt",      "dcp/safetensors/ckpt", "dcp/safetensors_zstd/ckpt",
	"dcp/hf_sharded/ckpt", "dcp/ranklocal/ckpt",   "dcp/accelerate/ckpt",
};

/* Those whose load looks at items: it may not do without one of its answers. */
static bool looks_at_items(int i)
{
	return i == 1 || i == 2;
}

START_TEST(whichever_request_fails_load_never_guesses_in_silence)
{
	struct sf_ckpt *whole, *got;
	struct sf_error err;
	int64_t n, failed = 0;

	begin(names[_i]);
	ck_assert_msg(load(&whole, &err) == 0, "%s", err.msg);
	n = plan.seen;
	ck_assert_int_gt(n, 0);
	for (int64_t i = 0; i < n; i++) {
		plan.fail_at = i;
		plan.code = -EIO;
		int r = load(&got, &err);
		failed += plan.seen > i;
		if (r < 0) {
			ck_assert_msg(strstr(err.msg, "injected"), "request %d of %d: %s", (int)i,
			              (int)n, err.msg);
			continue;
		}
		if (plan.seen <= i) { /* none failed: what is resident by now takes one less */
			sf_ckpt_free(got);
			continue;
		}
		ck_assert_msg(!looks_at_items(_i) &&
		                      (same_items(whole, got) || got->nwarnings > whole->nwarnings),
		              "request %d of %d failed, and load took a guess for it", (int)i,
		              (int)n);
		sf_ckpt_free(got);
	}
	ck_assert_int_gt(failed, 0);
	sf_ckpt_free(whole);
	end();
}
END_TEST

/* What a look at the item cannot tell for good is no reason to refuse the rest. */
START_TEST(an_item_that_is_damaged_or_gone_does_not_fail_the_load)
{
	static const int codes[] = { -EBADMSG, -ENOENT };
	struct sf_ckpt *whole, *got;
	struct sf_error err;
	int guessed = 0;

	begin(names[1 + _i]);
	ck_assert_msg(load(&whole, &err) == 0, "%s", err.msg);
	const int64_t n = plan.seen;
	for (size_t c = 0; c < SF_ARRAY_LEN(codes); c++)
		for (int64_t i = 0; i < n; i++) {
			plan.fail_at = i;
			plan.code = codes[c];
			if (load(&got, &err) < 0)
				continue; /* the metadata itself */
			guessed++;
			sf_ckpt_free(got);
		}
	ck_assert_int_gt(guessed, 0);
	sf_ckpt_free(whole);
	end();
}
END_TEST

int main(void)
{
	struct sf_unzstd *z;

	if (sf_unzstd_new(&z, NULL) < 0)
		return sf_test_skip("built without zstd");
	sf_unzstd_free(z);
	Suite *s = suite_create("load_faults");
	TCase *t = tcase_create("load_faults");
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, whichever_request_fails_load_never_guesses_in_silence, 0,
	                    (int)SF_ARRAY_LEN(names));
	tcase_add_loop_test(t, an_item_that_is_damaged_or_gone_does_not_fail_the_load, 0, 2);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
