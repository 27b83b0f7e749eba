/*
 * Two checkpoints in one mount, each in a slot of its own, through the operations of every mount.
 * Only the root's look-up is the test's: it knows one more name, "second". Needs root or
 * fusermount3, and /dev/fuse; else it is skipped (77).
 */
#include "config.h"

#include "slots_world.h"

START_TEST(two_checkpoints_are_mounted_side_by_side_and_one_is_replaced)
{
	static uint8_t want[2][4096];
	size_t len = make_copies(want);
	uint8_t got[4096];
	struct old_handle old;
	char root[4096];
	ssize_t n;
	int fd;

	start_slots(sf_test_data(root, "dcp/columns/ckpt"));
	load_second(copies[0]);
	ck_assert_uint_eq(atomic_load(&told->number), 1);
	ck_assert_int_gt(contents(in_mount("", "npy/model.w4.npy"), got, sizeof(got)), 0);
	check_tensor(SECOND, want[0], len);
	fd = open(in_mount(SECOND, TENSOR), O_RDONLY | O_CLOEXEC | O_DIRECT);
	ck_assert_int_ge(fd, 0);
	if (geteuid() == 0) {
		take_handle(in_mount(SECOND, TENSOR), &old);
		ck_assert_int_eq(open_handle(&old, got, sizeof(got), &n), 0);
		ck_assert_int_eq(n, len);
		ck_assert_mem_eq(got, want[0], len);
	}

	/* the file that is open keeps it */
	leave_second();
	ck_assert_int_eq(access(in_mount(SECOND, ""), F_OK), -1);
	ck_assert_int_eq(errno, ENOENT);
	load_second(copies[1]);
	ck_assert_uint_eq(atomic_load(&told->number), 2);
	check_tensor(SECOND, want[1], len);
	ck_assert_int_eq(pread(fd, got, sizeof(got), 0), len);
	ck_assert_mem_eq(got, want[0], len);
	ck_assert_uint_eq(atomic_load(&told->closed), 0);
	close(fd);
	order(FORGET, NULL, 1);
	await(&told->closed, 1); /* the kernel has forgotten all of it */

	leave_second();
	await(&told->closed, 2);
	/* in the place of the first one, with its inode numbers */
	load_second(copies[1]);
	ck_assert_uint_eq(atomic_load(&told->number), 1);
	fd = open(in_mount(SECOND, TENSOR), O_RDONLY | O_CLOEXEC);
	check_tensor(SECOND, want[1], len);
	if (geteuid() == 0)
		ck_assert_int_eq(open_handle(&old, got, sizeof(got), &n), ESTALE);
	close(fd);
	ck_assert_int_gt(contents(in_mount("", "npy/model.w4.npy"), got, sizeof(got)), 0);
	stop_slots();
	drop_copies();
}
END_TEST

START_TEST(checkpoints_come_and_go)
{
	static uint8_t want[2][4096];
	size_t len = make_copies(want);
	char root[4096];

	start_slots(sf_test_data(root, "dcp/columns/ckpt"));
	for (unsigned i = 0; i < 20; i++) {
		load_second(copies[i % 2]);
		ck_assert_uint_eq(atomic_load(&told->number), 1);
		check_tensor(SECOND, want[i % 2], len);
		leave_second();
		await(&told->closed, i + 1);
	}
	load_second(copies[0]); /* there at the end */
	check_tensor(SECOND, want[0], len);
	stop_slots();
	drop_copies();
}
END_TEST

/* Lines of the log for each, though it is the first file of both that fails alike. How many is not
 * told: on a busy machine another file may fail first, which is another cause. */
START_TEST(failures_of_two_checkpoints_are_two)
{
	char cmd[1024], *shard[2] = { copies[0], copies[1] };
	static uint8_t want[2][4096];
	struct reader r;

	make_copies(want);
	start_slots(copies[0]);
	load_second(copies[1]);
	for (int i = 0; i < 2; i++) { /* all is known of them, and then they change */
		snprintf(r.path, sizeof(r.path), "%s",
		         in_mount(i ? SECOND : "", "shards/__0_0.distcp"));
		struct stat st;
		unsigned before = atomic_load(&told->lines);
		ck_assert_int_eq(stat(r.path, &st), 0);
		snprintf(cmd, sizeof(cmd), "for f in '%s'/*.distcp; do : >\"$f\"; done", shard[i]);
		ck_assert_int_eq(system(cmd), 0);
		snprintf(r.path, sizeof(r.path), "%s", in_mount(i ? SECOND : "", TENSOR));
		for (int k = 0; k < 3; k++) {
			read_file(&r);
			ck_assert_int_ne(r.code, 0);
		}
		ck_assert_uint_gt(atomic_load(&told->lines), before);
	}
	stop_slots();
	drop_copies();
}
END_TEST

struct asked {
	unsigned named, absent, attrs; /* requests for what the kernel had been told before */
};

/* All of it once, so that the kernel knows it, and then @again. */
static struct asked asked_again(const char *dir, unsigned again)
{
	struct asked n = { 0 };
	struct stat st;
	char there[4096], absent[4096];
	int fd;

	snprintf(there, sizeof(there), "%s", in_mount(dir, "README"));
	snprintf(absent, sizeof(absent), "%s", in_mount(dir, "absent"));
	ck_assert_int_eq(stat(there, &st), 0);
	ck_assert_int_eq(access(absent, F_OK), -1);
	fd = open(there, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	/* a lookup's answer has attributes too: these come first, each after the answer to another */
	for (unsigned i = 0; i < again; i++) {
		unsigned before = atomic_load(&told->getattrs);
		ck_assert_int_eq(fstat(fd, &st), 0);
		n.attrs += atomic_load(&told->getattrs) - before;
	}
	for (unsigned i = 0; i < again; i++) {
		unsigned before = atomic_load(&told->lookups);
		ck_assert_int_eq(access(there, F_OK), 0);
		n.named += atomic_load(&told->lookups) - before;
		before = atomic_load(&told->lookups);
		ck_assert_int_eq(access(absent, F_OK), -1);
		ck_assert_int_eq(errno, ENOENT);
		n.absent += atomic_load(&told->lookups) - before;
	}
	close(fd);
	return n;
}

/* The second's own directory is a name in the root, and asked for too: hence at least. */
START_TEST(each_slot_has_its_own_timeout)
{
	static uint8_t want[2][4096];
	struct asked n;

	make_copies(want);
	start_slots(copies[0]);
	told->timeout = 0;
	load_second(copies[1]);
	n = asked_again("", 3); /* for ever */
	ck_assert_uint_eq(n.named, 0);
	ck_assert_uint_eq(n.absent, 0);
	ck_assert_uint_eq(n.attrs, 0);
	n = asked_again(SECOND, 3);
	ck_assert_uint_ge(n.named, 2 * 3);
	ck_assert_uint_ge(n.absent, 2 * 3);
	ck_assert_uint_ge(n.attrs, 3);
	leave_second();
	told->timeout = SF_FS_FOREVER;
	load_second(copies[1]);
	n = asked_again(SECOND, 3);
	ck_assert_uint_eq(n.named, 0);
	ck_assert_uint_eq(n.absent, 0);
	ck_assert_uint_eq(n.attrs, 0);
	stop_slots();
	drop_copies();
}
END_TEST

int main(void)
{
	int skip = slow_init();

	if (skip)
		return skip;
	Suite *s = suite_create("mount_slots");
	TCase *tc = tcase_create("slots");
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, two_checkpoints_are_mounted_side_by_side_and_one_is_replaced);
	tcase_add_test(tc, checkpoints_come_and_go);
	tcase_add_test(tc, each_slot_has_its_own_timeout);
	tcase_add_test(tc, failures_of_two_checkpoints_are_two);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
