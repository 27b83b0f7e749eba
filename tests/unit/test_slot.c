#include "config.h"
#include <dirent.h>
#include <stdio.h>
#include "fuse/slot.h"
#include "tests/lib/sf_test.h"

static unsigned back; /* sessions that were given back */

static void count_back(void *arg, struct sf_session *s)
{
	ck_assert_ptr_eq(arg, &back);
	ck_assert_ptr_nonnull(s);
	back++;
}

static struct sf_slot *add(struct sf_slots *slots, struct sf_session *s)
{
	struct sf_slot *slot = NULL;

	ck_assert_int_eq(sf_slots_add(slots, s, 1, count_back, &back, &slot), 0);
	return slot;
}

START_TEST(an_inode_number_says_its_slot_and_its_node)
{
	struct sf_session s[3];
	struct sf_slots slots;
	struct sf_slot *slot[3];
	const sf_node node = (UINT64_C(1) << SF_NODE_BITS) - 5;
	sf_node got;

	sf_slots_init(&slots);
	for (unsigned i = 0; i < 3; i++) {
		slot[i] = add(&slots, &s[i]);
		ck_assert_uint_eq(slot[i]->number, i);
	}
	ck_assert_uint_eq(sf_slot_ino(slot[0], SF_NODE_ROOT), 1); /* the kernel's root */
	for (unsigned i = 0; i < 3; i++) {
		ck_assert_ptr_eq(sf_slot_of(&slots, sf_slot_ino(slot[i], node), &got), slot[i]);
		ck_assert_uint_eq(got, node);
		ck_assert_ptr_eq(slot[i]->s, &s[i]);
		sf_slot_unref(&slots, slot[i]);
	}
	ck_assert_ptr_null(sf_slot_of(&slots, UINT64_C(3) << SF_NODE_BITS | 1, &got));
	ck_assert_ptr_null(sf_slot_of(&slots, UINT64_MAX, &got));
	sf_slot_forget(&slots, UINT64_MAX, 7); /* nothing */
	back = 0;
	sf_slots_release(&slots);
	ck_assert_uint_eq(back, 3);
}
END_TEST

START_TEST(a_slot_that_was_left_stays_while_somebody_has_it)
{
	struct sf_session s[2];
	struct sf_slots slots;
	struct sf_slot *slot, *other;
	sf_node node;

	back = 0;
	sf_slots_init(&slots);
	add(&slots, &s[0]);
	slot = add(&slots, &s[1]);
	sf_slot_looked_up(&slots, slot, 3);
	sf_slot_unref(&slots, slot); /* names lead there still */
	ck_assert_ptr_eq(sf_slot_of(&slots, sf_slot_ino(slot, 9), &node), slot);
	sf_slots_leave(&slots, slot);
	ck_assert_uint_eq(back, 0);
	sf_slot_forget(&slots, sf_slot_ino(slot, 9), 3);
	ck_assert_uint_eq(back, 0); /* a request has it */
	ck_assert_uint_eq(add(&slots, &s[0])->number, 2);
	sf_slot_looked_up(&slots, slot, 2);
	sf_slot_unref(&slots, slot);
	ck_assert_uint_eq(back, 0); /* the kernel knows two inodes */
	sf_slot_forget(&slots, sf_slot_ino(slot, 9), 1);
	ck_assert_uint_eq(back, 0);
	sf_slot_forget(&slots, sf_slot_ino(slot, 4), 1);
	ck_assert_uint_eq(back, 1);
	ck_assert_ptr_null(sf_slot_of(&slots, UINT64_C(1) << SF_NODE_BITS | 9, &node));
	other = add(&slots, &s[1]);
	ck_assert_uint_eq(other->number, 1);     /* free again */
	ck_assert_uint_eq(other->generation, 4); /* but not its inodes */
	sf_slots_release(&slots);
	ck_assert_uint_eq(back, 4);
}
END_TEST

static unsigned entries(const char *dir)
{
	DIR *d = opendir(dir);
	unsigned n = 0;

	ck_assert_ptr_nonnull(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static void close_session(void *arg, struct sf_session *s)
{
	(void)arg;
	sf_session_close(s);
	free(s);
	back++;
}

enum { MANY = 200 };

START_TEST(many_checkpoints_of_one_process_share_its_threads_and_are_given_back)
{
	static const char *const names[] = { "dcp/fsdp4/ckpt", "dcp/dtypes/ckpt" };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_session_options opt;
	struct sf_slot *slot[MANY];
	struct sf_slots slots;
	struct sf_io io;
	char path[4096];
	unsigned threads, files = entries("/proc/self/fd");

	back = 0;
	sf_slots_init(&slots);
	sf_session_options_init(&opt);
	ck_assert_int_eq(sf_io_init(&io, 4, &err), 0);
	opt.io = &io;
	threads = entries("/proc/self/task");
	for (unsigned i = 0; i < MANY; i++) {
		struct sf_session *s = calloc(1, sizeof(*s));
		ck_assert_ptr_nonnull(s);
		ck_assert_msg(sf_session_open(s, &opt, sf_test_data(path, names[i % 2]), &err) == 0,
		              "%s", err.msg);
		ck_assert_int_eq(sf_slots_add(&slots, s, 1, close_session, NULL, &slot[i]), 0);
	}
	for (unsigned i = 0; i < MANY; i++) { /* each reads its own bytes */
		const struct sf_ckpt *ckpt = slot[i]->s->ckpt;
		uint8_t byte;
		ck_assert_uint_gt(ckpt->ntensors, 0);
		for (uint32_t k = 0; k < ckpt->ntensors; k++)
			if (ckpt->tensor[k].bytes)
				ck_assert_msg(sf_read_tensor(slot[i]->s->reader, k, 0, &byte, 1,
				                             &err) == 0,
				              "%u: %s", i, err.msg);
	}
	/* one for the deadlines of all */
	ck_assert_uint_le(entries("/proc/self/task"), threads + 1);
	for (unsigned i = 0; i < MANY; i++) {
		sf_slots_leave(&slots, slot[i]);
		sf_slot_unref(&slots, slot[i]);
		ck_assert_uint_eq(back, i + 1);
	}
	ck_assert_uint_eq(entries("/proc/self/fd"), files);
	sf_slots_release(&slots);
	sf_io_release(&io);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("slot");
	TCase *tc = tcase_create("slot");

	tcase_add_test(tc, an_inode_number_says_its_slot_and_its_node);
	tcase_add_test(tc, a_slot_that_was_left_stays_while_somebody_has_it);
	tcase_set_timeout(tc, 30);
	tcase_add_test(tc, many_checkpoints_of_one_process_share_its_threads_and_are_given_back);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
