#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "tests/lib/sf_test.h"

static uint64_t held(struct sf_budget *b)
{
	struct sf_budget_stat s;

	sf_budget_stat(b, &s);
	return s.held;
}

/* ---- a slow and obvious account to compare with ---- */

#define ASKS 60
#define LIMIT 100

struct ask {
	struct sf_budget_wait w;
	bool told;                               /* granted() was called */
	enum { UNUSED, WAITS, HOLDS } is, model; /* what the budget says; what it should */
	unsigned turn;                           /* of the model: who came first */
};
struct world {
	struct sf_budget *b;
	struct ask ask[ASKS];
	unsigned turn;
};

static void granted(struct sf_budget_wait *w)
{
	struct ask *a = (struct ask *)w;

	ck_assert(!a->told);
	ck_assert_int_eq(a->is, WAITS);
	a->told = true;
	a->is = HOLDS;
}

static uint64_t model_held(const struct world *w, int kind)
{
	uint64_t n = 0;

	for (int k = 0; k < SF_BUDGET_NKINDS; k++) {
		if (kind >= 0 && kind != k)
			continue;
		for (int i = 0; i < ASKS; i++)
			if (w->ask[i].model == HOLDS && w->ask[i].w.kind == (unsigned)k)
				n += w->ask[i].w.bytes;
	}
	return n;
}

static bool model_fits(const struct world *w, enum sf_budget_kind kind, uint64_t bytes)
{
	uint64_t ours = model_held(w, (int)kind);

	if (ours == 0)
		return true;
	if ((kind == SF_BUDGET_BUFFER && ours + bytes > LIMIT / 2) ||
	    (kind == SF_BUDGET_AHEAD && ours + bytes > LIMIT / 4))
		return false;
	return model_held(w, -1) + bytes <= LIMIT;
}

static struct ask *model_first(struct world *w, enum sf_budget_kind kind)
{
	struct ask *first = NULL;

	for (int i = 0; i < ASKS; i++)
		if (w->ask[i].model == WAITS && w->ask[i].w.kind == kind &&
		    (!first || w->ask[i].turn < first->turn))
			first = &w->ask[i];
	return first;
}

static void model_turns(struct world *w)
{
	for (int kind = SF_BUDGET_NKINDS - 1; kind >= 0; kind--)
		for (struct ask *a; (a = model_first(w, (enum sf_budget_kind)kind)) &&
		                    model_fits(w, (enum sf_budget_kind)kind, a->w.bytes);)
			a->model = HOLDS;
}

static struct ask *any(struct world *w, uint64_t *seed, int is)
{
	size_t first = sf_test_below(seed, ASKS);

	for (size_t i = 0; i < ASKS; i++) {
		struct ask *a = &w->ask[(first + i) % ASKS];
		if ((int)a->model == is)
			return a;
	}
	return NULL;
}

static void step(struct world *w, uint64_t *seed)
{
	enum sf_budget_kind kind = (enum sf_budget_kind)sf_test_below(seed, SF_BUDGET_NKINDS);
	uint64_t bytes =
		sf_test_below(seed, 8) ? 1 + sf_test_below(seed, 30) : 90 + sf_test_below(seed, 30);
	struct ask *a;

	switch (sf_test_below(seed, 8)) {
	case 0:
	case 1: /* take */
		a = any(w, seed, UNUSED);
		if (!a)
			break;
		a->w = (struct sf_budget_wait){ .kind = kind, .bytes = bytes };
		bool fits = !model_first(w, kind) && model_fits(w, kind, bytes);
		ck_assert(sf_budget_take(w->b, kind, bytes) == fits);
		a->is = a->model = fits ? HOLDS : UNUSED;
		break;
	case 2:
	case 3: /* queue */
		a = any(w, seed, UNUSED);
		if (!a)
			break;
		a->w = (struct sf_budget_wait){ .kind = kind, .bytes = bytes, .granted = granted };
		a->told = false;
		a->is = a->model = WAITS;
		a->turn = w->turn++;
		model_turns(w);
		sf_budget_queue(w->b, &a->w);
		break;
	case 4: /* cancel */
		a = any(w, seed, WAITS);
		if (!a)
			break;
		a->model = UNUSED;
		model_turns(w);
		ck_assert(sf_budget_cancel(w->b, &a->w));
		a->is = UNUSED;
		ck_assert(!a->told);
		break;
	case 5: /* too late to cancel */
		a = any(w, seed, HOLDS);
		if (a)
			ck_assert(!sf_budget_cancel(w->b, &a->w));
		break;
	default: /* give */
		a = any(w, seed, HOLDS);
		if (!a)
			break;
		a->model = UNUSED;
		model_turns(w);
		a->is = UNUSED;
		sf_budget_give(w->b, a->w.kind, a->w.bytes);
	}
}

/* Property: random takes, waits, cancels and gives come out as in the account above; nobody is ever
 * stuck. */
START_TEST(it_agrees_with_a_slow_account)
{
	uint64_t seed = sf_test_seed("it_agrees_with_a_slow_account");
	struct world w = { .turn = 1 };
	struct ask *a;

	ck_assert_int_eq(sf_budget_new(LIMIT, &w.b, NULL), 0);
	for (int n = 0; n < 5000; n++) {
		step(&w, &seed);
		ck_assert_uint_eq(held(w.b), model_held(&w, -1));
		for (int i = 0; i < ASKS; i++)
			ck_assert_int_eq(w.ask[i].is, w.ask[i].model);
		ck_assert(sf_budget_wanted(w.b) == (any(&w, &seed, WAITS) != NULL));
	}
	while ((a = any(&w, &seed, HOLDS))) {
		a->is = a->model = UNUSED;
		model_turns(&w);
		sf_budget_give(w.b, a->w.kind, a->w.bytes);
	}
	ck_assert_ptr_null(any(&w, &seed, WAITS)); /* each had its turn */
	ck_assert_uint_eq(held(w.b), 0);
	sf_budget_free(w.b);
}
END_TEST

/* ---- the rules one by one ---- */

static void note(struct sf_budget_wait *w)
{
	((struct ask *)w)->told = true;
}

static void queue(struct sf_budget *b, struct ask *a, enum sf_budget_kind kind, uint64_t bytes)
{
	*a = (struct ask){ .w = { .kind = kind, .bytes = bytes, .granted = note } };
	sf_budget_queue(b, &a->w);
}

START_TEST(one_thing_of_a_kind_can_always_be_held)
{
	struct sf_budget *b;
	struct ask item, second;

	ck_assert_int_eq(sf_budget_new(100, &b, NULL), 0);
	ck_assert(sf_budget_take(b, SF_BUDGET_MADE, 100));
	ck_assert(sf_budget_take(b, SF_BUDGET_ITEM, 500)); /* larger than all there is */
	ck_assert(!sf_budget_take(b, SF_BUDGET_ITEM, 1));
	queue(b, &item, SF_BUDGET_ITEM, 700);
	queue(b, &second, SF_BUDGET_ITEM, 1);
	sf_budget_give(b, SF_BUDGET_MADE, 100);
	ck_assert(!item.told && !second.told); /* the small one does not overtake */
	sf_budget_give(b, SF_BUDGET_ITEM, 500);
	ck_assert(item.told && !second.told);
	sf_budget_give(b, SF_BUDGET_ITEM, 700);
	ck_assert(second.told);
	sf_budget_give(b, SF_BUDGET_ITEM, 1);
	ck_assert_uint_eq(held(b), 0);
	sf_budget_free(b);
}
END_TEST

/* What those who wait hold meanwhile keeps nobody from a turn, the first of them least of all. */
START_TEST(who_waits_and_holds_does_not_wait_for_its_own)
{
	struct sf_budget *b;
	struct ask a, c;

	ck_assert_int_eq(sf_budget_new(100, &b, NULL), 0);
	sf_budget_add(b, SF_BUDGET_BUFFER, 40); /* what a will hold, … */
	sf_budget_add(b, SF_BUDGET_BUFFER, 45); /* … and c */
	a = (struct ask){
		.w = { .kind = SF_BUDGET_BUFFER, .bytes = 30, .holds = 40, .granted = note }
	};
	c = (struct ask){
		.w = { .kind = SF_BUDGET_BUFFER, .bytes = 20, .holds = 45, .granted = note }
	};
	ck_assert(!sf_budget_take(b, SF_BUDGET_BUFFER, 30));
	sf_budget_queue(b, &a.w);
	ck_assert(!a.told); /* c's are somebody's yet, who may give them back */
	sf_budget_queue(b, &c.w);
	ck_assert(a.told);
	ck_assert(!c.told);
	sf_budget_give(b, SF_BUDGET_BUFFER, 69);
	ck_assert(!c.told);
	sf_budget_give(b, SF_BUDGET_BUFFER, 1);
	ck_assert(c.told);
	ck_assert_uint_eq(held(b), 65);
	sf_budget_give(b, SF_BUDGET_BUFFER, 65);
	sf_budget_free(b);
}
END_TEST

/* What is kept of a charge may be more than was taken: then that is taken too. */
START_TEST(what_a_charge_keeps_is_counted_whole)
{
	struct sf_charge c;
	struct sf_budget *b;

	ck_assert_int_eq(sf_budget_new(100, &b, NULL), 0);
	sf_charge_begin(&c, b, SF_BUDGET_ITEM, 80);
	sf_charge_end(&c, 30);
	ck_assert_uint_eq(held(b), 30);
	sf_charge_begin(&c, b, SF_BUDGET_MADE, 20);
	sf_charge_end(&c, 50);
	ck_assert_uint_eq(held(b), 80);
	sf_budget_give(b, SF_BUDGET_ITEM, 30);
	sf_budget_give(b, SF_BUDGET_MADE, 50);
	ck_assert_uint_eq(held(b), 0);
	sf_budget_free(b);
}
END_TEST

START_TEST(who_gives_up_lets_the_next_one_through)
{
	struct sf_budget *b;
	struct ask large, small;

	ck_assert_int_eq(sf_budget_new(100, &b, NULL), 0);
	ck_assert(sf_budget_take(b, SF_BUDGET_ITEM, 60));
	queue(b, &large, SF_BUDGET_ITEM, 90);
	queue(b, &small, SF_BUDGET_ITEM, 40);
	ck_assert(!small.told);
	ck_assert(sf_budget_cancel(b, &large.w));
	ck_assert(!large.told && small.told);
	ck_assert(!sf_budget_cancel(b, &large.w));
	ck_assert(!sf_budget_cancel(b, &small.w));
	ck_assert_uint_eq(held(b), 100);
	sf_budget_free(b);
}
END_TEST

START_TEST(what_is_added_makes_others_wait)
{
	struct sf_budget_stat s;
	struct sf_budget *b;
	struct ask item;

	ck_assert_int_eq(sf_budget_new(10, &b, NULL), 0);
	sf_budget_set_limit(b, 100);
	ck_assert(sf_budget_take(b, SF_BUDGET_ITEM, 10));
	sf_budget_add(b, SF_BUDGET_INNER, 200);
	ck_assert(!sf_budget_take(b, SF_BUDGET_ITEM, 10));
	queue(b, &item, SF_BUDGET_ITEM, 10);
	sf_budget_stat(b, &s);
	ck_assert_uint_eq(s.waits, 1);
	ck_assert_uint_eq(s.waiting, 1);
	ck_assert_uint_eq(s.most, 210);
	ck_assert_uint_eq(s.limit, 100);
	sf_budget_set_limit(b, 220);
	ck_assert(item.told);
	sf_budget_free(b);
}
END_TEST

struct keeper {
	struct sf_budget_reclaim r;
	struct sf_budget *b;
	uint64_t kept;
	unsigned calls;
};
static uint64_t let_go(struct sf_budget_reclaim *r, uint64_t bytes)
{
	struct keeper *k = (struct keeper *)r;
	uint64_t n = SF_MIN(bytes, k->kept);

	k->calls++;
	k->kept -= n;
	sf_budget_give(k->b, SF_BUDGET_ITEM, n);
	return n;
}

START_TEST(what_is_kept_is_let_go_for_who_wants_it)
{
	struct keeper k[2] = { { .r.reclaim = let_go, .kept = 30 },
		               { .r.reclaim = let_go, .kept = 30 } };
	struct sf_budget *b;
	struct ask a;

	ck_assert_int_eq(sf_budget_new(100, &b, NULL), 0);
	for (int i = 0; i < 2; i++) {
		k[i].b = b;
		sf_budget_reclaim_add(b, &k[i].r);
		ck_assert(sf_budget_take(b, SF_BUDGET_ITEM, 30));
	}
	ck_assert(sf_budget_take(b, SF_BUDGET_ITEM, 40));
	ck_assert_uint_eq(k[0].calls + k[1].calls, 0); /* it fitted */
	ck_assert(sf_budget_take(b, SF_BUDGET_ITEM, 20));
	ck_assert_uint_eq(k[0].kept + k[1].kept, 40);
	queue(b, &a, SF_BUDGET_ITEM, 35);
	ck_assert(a.told);
	ck_assert_uint_eq(k[0].kept + k[1].kept, 5);
	/* enough for all who wait, though only the first had to */
	ck_assert(sf_budget_take(b, SF_BUDGET_MADE, 1));
	struct ask one, two;
	queue(b, &one, SF_BUDGET_MADE, 3);
	queue(b, &two, SF_BUDGET_MADE, 1);
	ck_assert(one.told && two.told);
	ck_assert_uint_eq(k[0].kept + k[1].kept, 0);
	sf_budget_give(b, SF_BUDGET_MADE, 5);
	ck_assert(!sf_budget_take(b, SF_BUDGET_ITEM, 50));
	sf_budget_reclaim_remove(b, &k[1].r);
	sf_budget_reclaim_remove(b, &k[0].r);
	ck_assert_uint_eq(held(b), 95);
	sf_budget_free(b);
}
END_TEST

START_TEST(a_charge_is_used_up_and_then_begins_anew)
{
	struct sf_budget *b;
	struct sf_charge c;

	ck_assert_int_eq(sf_budget_new(1 << 20, &b, NULL), 0);
	sf_charge_begin(&c, b, SF_BUDGET_MADE, 1000);
	ck_assert_uint_eq(held(b), 1000);
	ck_assert(sf_charge_use(&c, 600) && sf_charge_use(&c, 400));
	ck_assert_uint_eq(held(b), 1000);
	ck_assert(sf_charge_use(&c, 1)); /* there is more */
	ck_assert_uint_gt(held(b), 1000);
	sf_charge_unuse(&c, 1001);
	sf_charge_end(&c, 0);
	ck_assert_uint_eq(held(b), 0);

	/* others have the rest: it is refused, and waits for more than it had */
	ck_assert(sf_budget_take(b, SF_BUDGET_ITEM, 1 << 19));
	sf_charge_begin(&c, b, SF_BUDGET_MADE, 1 << 10);
	ck_assert(!sf_charge_use(&c, 600 << 10));
	sf_charge_end(&c, 0);
	ck_assert_uint_eq(held(b), 1 << 19);
	sf_budget_give(b, SF_BUDGET_ITEM, 1 << 19);
	ck_assert_uint_eq(sf_charge_next(&c), 1 << 20);
	sf_charge_begin(&c, b, SF_BUDGET_MADE, sf_charge_next(&c));
	ck_assert(sf_charge_use(&c, 600 << 10));
	/* more than there will ever be */
	ck_assert(!sf_charge_use(&c, 600 << 10));
	ck_assert_uint_eq(c.refused, 1200 << 10);
	sf_charge_end(&c, 500);
	ck_assert_uint_eq(held(b), 500);
	ck_assert_uint_eq(sf_charge_next(&c), 0);
	ck_assert(sf_charge_use(NULL, UINT64_MAX)); /* nothing is charged */
	sf_budget_give(b, SF_BUDGET_MADE, 500);
	sf_budget_free(b);
}
END_TEST

/* Property: what grows counts what it has, and nothing when it is released or was refused. */
START_TEST(buffers_and_arenas_count_what_they_hold)
{
	uint64_t seed = sf_test_seed("buffers_and_arenas_count");
	struct sf_budget *b;
	struct sf_charge c;

	ck_assert_int_eq(sf_budget_new(8 << 20, &b, NULL), 0);
	for (int i = 0; i < 50; i++) {
		struct sf_buf buf[3] = { 0 };
		struct sf_arena arena = { .charge = &c };
		uint64_t sum = 0;
		sf_charge_begin(&c, b, SF_BUDGET_MADE, 1 + sf_test_below(&seed, 8 << 20));
		for (int k = 0; k < 3; k++)
			buf[k].charge = &c;
		while (!c.refused) {
			size_t n = 1 + sf_test_below(&seed, 1 << sf_test_below(&seed, 21));
			unsigned k = (unsigned)sf_test_below(&seed, 4);
			bool ok = k == 3 ? sf_arena_alloc(&arena, n) != NULL
			                 : sf_buf_extend(&buf[k], n) != NULL;
			ck_assert(ok == !c.refused);
			sum = buf[0].cap + buf[1].cap + buf[2].cap + arena.used;
			ck_assert_uint_eq(c.used, sum);
			ck_assert_uint_le(c.used, c.taken);
			ck_assert_uint_eq(held(b), c.taken);
		}
		ck_assert_uint_gt(c.refused, 8 << 20);
		ck_assert_uint_le(c.taken, 8 << 20);
		for (int k = 0; k < 3; k++)
			sf_buf_release(&buf[k]);
		ck_assert_uint_eq(c.used, arena.used);
		sf_arena_release(&arena);
		ck_assert_uint_eq(c.used, 0);
		ck_assert_ptr_eq(buf[1].charge, &c);
		ck_assert_ptr_eq(arena.charge, &c);
		sf_charge_end(&c, 0);
		ck_assert_uint_eq(held(b), 0);
	}
	sf_budget_free(b);
}
END_TEST

/* ---- threads ---- */

struct holder {
	pthread_t id;
	struct sf_budget *b;
	_Atomic uint64_t *now;
	uint64_t seed;
	unsigned cancelled;
};

static void note_atomic(struct sf_budget_wait *w)
{
	atomic_store((atomic_int *)(w + 1), 1);
}

/* Buffers, then items while holding them, as reads do; some give up while they wait. */
static void *hold(void *arg)
{
	struct holder *h = arg;
	struct {
		struct sf_budget_wait w;
		atomic_int told;
	} ask;

	for (int i = 0; i < 500; i++) {
		uint64_t buffer = 1 + sf_test_below(&h->seed, 20),
			 item = 1 + sf_test_below(&h->seed, 60);
		sf_budget_wait(h->b, SF_BUDGET_BUFFER, buffer);
		ask.w = (struct sf_budget_wait){ .kind = SF_BUDGET_ITEM,
			                         .bytes = item,
			                         .granted = note_atomic };
		atomic_store(&ask.told, 0);
		sf_budget_queue(h->b, &ask.w);
		if ((i == 0 || sf_test_below(&h->seed, 4) == 0) && sf_budget_cancel(h->b, &ask.w)) {
			h->cancelled++;
			sf_budget_give(h->b, SF_BUDGET_BUFFER, buffer);
			continue;
		}
		while (!atomic_load(&ask.told))
			usleep(1);
		/* within the limit and one of each kind */
		ck_assert_uint_le(atomic_fetch_add(h->now, item) + item, LIMIT + 60);
		atomic_fetch_sub(h->now, item);
		sf_budget_give(h->b, SF_BUDGET_ITEM, item);
		sf_budget_give(h->b, SF_BUDGET_BUFFER, buffer);
	}
	return NULL;
}

START_TEST(threads_that_hold_and_wait_all_come_to_an_end)
{
	uint64_t seed = sf_test_seed("threads_that_hold_and_wait");
	_Atomic uint64_t now = 0;
	struct sf_budget_stat s;
	struct holder h[12];
	struct sf_budget *b;
	unsigned cancelled = 0;

	ck_assert_int_eq(sf_budget_new(LIMIT, &b, NULL), 0);
	/* nobody gets an item until all wait, however the threads are run: one has a buffer and has
	 * given up at least once */
	sf_budget_add(b, SF_BUDGET_ITEM, LIMIT);
	for (size_t i = 0; i < SF_ARRAY_LEN(h); i++) {
		h[i] = (struct holder){ .b = b, .now = &now, .seed = sf_test_rand(&seed) };
		ck_assert_int_eq(pthread_create(&h[i].id, NULL, hold, &h[i]), 0);
	}
	for (s.waiting = 0; s.waiting < SF_ARRAY_LEN(h); usleep(100))
		sf_budget_stat(b, &s);
	sf_budget_give(b, SF_BUDGET_ITEM, LIMIT);
	for (size_t i = 0; i < SF_ARRAY_LEN(h); i++) {
		pthread_join(h[i].id, NULL);
		cancelled += h[i].cancelled;
	}
	sf_budget_stat(b, &s);
	ck_assert_uint_eq(s.held, 0);
	ck_assert_uint_eq(s.waiting, 0);
	ck_assert_uint_gt(s.waits, 0);
	ck_assert_uint_le(s.most, LIMIT + 60 + 20);
	ck_assert_uint_gt(cancelled, 0);
	sf_budget_free(b);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("budget");
	TCase *t = tcase_create("budget");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, it_agrees_with_a_slow_account);
	tcase_add_test(t, one_thing_of_a_kind_can_always_be_held);
	tcase_add_test(t, who_waits_and_holds_does_not_wait_for_its_own);
	tcase_add_test(t, what_a_charge_keeps_is_counted_whole);
	tcase_add_test(t, who_gives_up_lets_the_next_one_through);
	tcase_add_test(t, what_is_added_makes_others_wait);
	tcase_add_test(t, what_is_kept_is_let_go_for_who_wants_it);
	tcase_add_test(t, a_charge_is_used_up_and_then_begins_anew);
	tcase_add_test(t, buffers_and_arenas_count_what_they_hold);
	tcase_add_test(t, threads_that_hold_and_wait_all_come_to_an_end);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
