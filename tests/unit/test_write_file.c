#include "config.h"

#include "tests/lib/write_world.h"

/* What the kernel answers to a write is ours to say (--wrap in tests/local.mk). */
static struct {
	size_t most;                     /* bytes that one takes; 0 all */
	_Atomic int interrupted, failed; /* so many end with EINTR first; then one with code */
	int code;
} kernel;

static void kernel_is_itself(void)
{
	kernel.most = 0;
	kernel.code = 0;
	atomic_store(&kernel.interrupted, 0);
	atomic_store(&kernel.failed, 0);
}

ssize_t __real_pwritev(int fd, const struct iovec *iov, int n, off_t off);
ssize_t __wrap_pwritev(int fd, const struct iovec *iov, int n, off_t off);
ssize_t __wrap_pwritev(int fd, const struct iovec *iov, int n, off_t off)
{
	struct iovec part[1024];
	size_t left = kernel.most;
	int k = 0;

	if (atomic_fetch_sub(&kernel.interrupted, 1) > 0) {
		errno = EINTR;
		return -1;
	}
	if (kernel.code && atomic_fetch_add(&kernel.failed, 1) == 1) {
		errno = kernel.code;
		return -1;
	}
	if (!kernel.most)
		return __real_pwritev(fd, iov, n, off);
	for (; k < n && left; left -= part[k++].iov_len)
		part[k] = (struct iovec){ iov[k].iov_base, SF_MIN(iov[k].iov_len, left) };
	return __real_pwritev(fd, part, k, off);
}

START_TEST(files_are_the_virtual_ones_and_directories_are_made)
{
	static const char *const names[] = { "checkpoint.safetensors", "npy/model.norm.weight.npy",
		                             "info.json", "tensors.json" };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_out_file f[SF_ARRAY_LEN(names)];
	struct open o;
	char name[128];

	open_data(&o, "dcp/fsdp4/ckpt");
	for (size_t i = 0; i < SF_ARRAY_LEN(names); i++) {
		snprintf(name, sizeof(name), "a/b%zu/%zu", i, i);
		f[i] = out(&o, names[i], name, false);
	}
	int r = write_all(&o, f, SF_ARRAY_LEN(names), 3, false, &err);
	ck_assert_msg(r == 0, "%s", err.msg);
	ck_assert_uint_eq(o.done, SF_ARRAY_LEN(names));
	for (size_t i = 0; i < SF_ARRAY_LEN(names); i++) {
		struct sf_out_file want = out(&o, names[i], "unused", false);
		size_t len;
		snprintf(name, sizeof(name), "a/b%zu/%zu", i, i);
		SF_FREE uint8_t *got = slurp(&o, name, &len);
		SF_FREE uint8_t *virtual = malloc(len + 1);
		ck_assert_int_eq(sf_vfile_prepare(want.file, NULL), 0);
		ck_assert_int_eq(sf_vfile_pread(want.file, 0, virtual, len + 1, NULL),
		                 (int64_t)len);
		ck_assert_mem_eq(got, virtual, len);
		snprintf(name, sizeof(name), "%s/a/b%zu", o.dir, i);
		ck_assert_uint_eq(count_names(name, "shardfuse"), 0);
		sf_vfile_unref(want.file);
		free(want.path);
	}
	close_data(&o);
}
END_TEST

START_TEST(what_is_there_is_not_replaced_without_force)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_out_file f[2];
	struct open o;
	char path[4096];
	size_t len;

	open_data(&o, "dcp/fsdp4/ckpt");
	snprintf(path, sizeof(path), "%s/there", o.dir);
	FILE *old = fopen(path, "w");
	fputs("old", old);
	fclose(old);
	for (int force = 0; force < 2; force++) {
		f[0] = out(&o, "info.json", force ? "new2" : "new", false);
		f[1] = out(&o, "README", "there", false);
		ck_assert_int_eq(write_all(&o, f, 2, 1, force, &err), force ? 0 : -EEXIST);
		SF_FREE uint8_t *now = slurp(&o, "there", &len);
		ck_assert_int_eq(len == 3 && memcmp(now, "old", 3) == 0, !force);
		/* all are looked at before anything is written */
		ck_assert_uint_eq(count_names(o.dir, "new"), (unsigned)force);
		ck_assert_uint_eq(count_names(o.dir, "shardfuse"), 0);
	}
	ck_assert_ptr_nonnull(strstr(err.msg, "there"));
	close_data(&o);
}
END_TEST

START_TEST(a_name_of_255_bytes_can_be_written)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_out_file f;
	struct open o;
	char name[256];

	memset(name, 'x', 255);
	name[255] = 0;
	open_data(&o, "dcp/fsdp4/ckpt");
	f = out(&o, "README", name, false);
	int r = write_all(&o, &f, 1, 1, false, &err);
	ck_assert_msg(r == 0, "%s", err.msg);
	ck_assert_uint_eq(count_names(o.dir, "xxx"), 1);
	close_data(&o);
}
END_TEST

START_TEST(a_failure_leaves_no_temporary_file)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_out_file f;
	struct open o;
	char below[80];

	open_data(&o, "dcp/fsdp4/ckpt");
	snprintf(below, sizeof(below), "%s/dir", o.dir);
	ck_assert_int_eq(mkdir(below, 0755), 0);
	f = out(&o, "README", "dir", false); /* rename cannot replace a directory by a file */
	ck_assert_int_lt(write_all(&o, &f, 1, 1, true, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.msg, "/dir"));
	ck_assert_uint_eq(o.done, 0);
	ck_assert_uint_eq(count_names(o.dir, "shardfuse"), 0);
	close_data(&o);
}
END_TEST

/* Large ones are written after small ones, by other threads. */
START_TEST(results_come_in_the_order_that_was_asked)
{
	static const char *const names[] = { "e", "a", "d", "c", "b", "f" };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_out_file f[6];
	struct open o;

	open_data(&o, "dcp/fsdp4/ckpt");
	for (unsigned i = 0; i < 6; i++)
		f[i] = out_made(&o, i % 2 ? 10 : 20 << 20, names[i]);
	int r = write_all(&o, f, 6, 3, false, &err);
	ck_assert_msg(r == 0, "%s", err.msg);
	ck_assert_str_eq(o.order, "eadcbf");
	close_data(&o);
}
END_TEST

/* More than get their names at once. */
START_TEST(many_files_come_in_order_too)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_out_file f[600];
	struct open o;

	open_data(&o, "dcp/fsdp4/ckpt");
	for (unsigned i = 0; i < 600; i++) {
		char name[16];
		snprintf(name, sizeof(name), "%c%u", 'a' + i % 26, i);
		f[i] = out_made(&o, 10, name);
	}
	int r = write_all(&o, f, 600, 3, false, &err);
	ck_assert_msg(r == 0, "%s", err.msg);
	ck_assert_uint_eq(o.done, 600);
	ck_assert_uint_eq(count_names(o.dir, ""), 602);
	for (unsigned i = 576; i < 600; i++)
		ck_assert_int_eq(o.order[i % sizeof(o.order)], 'a' + (char)(i % 26));
	close_data(&o);
}
END_TEST

/* _i: the broken one is small, large. */
START_TEST(of_an_error_no_file_has_a_name)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_out_file f[3];
	struct open o;

	open_data(&o, "dcp/fsdp4/ckpt");
	f[0] = out_made(&o, 10, "a");
	f[1] = out_made(&o, 20 << 20, "dir/b");
	f[2] = out_made(&o, _i ? (20 << 20) + 1 : 11, "c");
	ck_assert_int_eq(write_all(&o, f, 3, 2, false, &err), -EBADMSG);
	ck_assert_ptr_nonnull(strstr(err.msg, "broken"));
	ck_assert_uint_eq(count_names(o.dir, ""), 2); /* . and .. */
	ck_assert_uint_eq(o.done, 0);
	close_data(&o);
}
END_TEST

START_TEST(what_does_not_fit_the_disk_is_not_begun)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_out_file f[2];
	struct open o;

	open_data(&o, "dcp/fsdp4/ckpt");
	f[0] = out_made(&o, 10, "a");
	f[1] = out_made(&o, 12, "b");
	f[1].least = UINT64_C(1) << 61;
	ck_assert_int_eq(write_all(&o, f, 2, 1, false, &err), -ENOSPC);
	ck_assert_ptr_nonnull(strstr(err.msg, "free"));
	ck_assert_uint_eq(count_names(o.dir, ""), 2);
	close_data(&o);
}
END_TEST

/* A disk that takes a part of what it is given, quotas and signals make such. */
START_TEST(writes_that_take_a_part_are_gone_on_with)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_out_file f[2];
	struct open o;
	size_t len;

	open_data(&o, "dcp/fsdp4/ckpt");
	f[0] = out(&o, "checkpoint.safetensors", "whole", false);
	ck_assert_int_eq(write_all(&o, f, 1, 1, false, &err), 0);
	SF_FREE uint8_t *whole = slurp(&o, "whole", &len);
	for (int i = 0; i < 2; i++) {
		size_t got_len;
		kernel.most = i ? 333 : 4096;
		atomic_store(&kernel.interrupted, 3);
		f[0] = out(&o, "checkpoint.safetensors", i ? "b" : "a", false);
		int r = write_all(&o, f, 1, 1, false, &err);
		ck_assert_msg(r == 0, "%s", err.msg);
		SF_FREE uint8_t *got = slurp(&o, i ? "b" : "a", &got_len);
		ck_assert_uint_eq(got_len, len);
		ck_assert(memcmp(got, whole, len) == 0);
	}
	kernel_is_itself();
	close_data(&o);
}
END_TEST

/* _i: a shard that is cut under a write from its mapping; a full disk. */
START_TEST(a_write_that_fails_says_why_and_leaves_nothing)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_out_file f;
	struct open o;

	open_data(&o, "dcp/fsdp4/ckpt");
	kernel.code = _i ? ENOSPC : EFAULT;
	kernel.most = 5000;
	f = out(&o, "checkpoint.pt", "c.pt", true);
	ck_assert_int_eq(write_all(&o, &f, 1, 2, false, &err), _i ? -ENOSPC : -ESTALE);
	ck_assert_ptr_nonnull(strstr(err.msg, _i ? "c.pt" : "truncated"));
	ck_assert_uint_eq(o.done, 0);
	ck_assert_uint_eq(count_names(o.dir, "c.pt"), 0);
	ck_assert_uint_eq(count_names(o.dir, "shardfuse"), 0);
	kernel_is_itself();
	close_data(&o);
}
END_TEST

/* _i: which. Types of all sizes, empty tensors, many small ones; each record's CRC is computed
 * again here. */
START_TEST(a_pt_carries_the_crc_of_every_record)
{
	static const char *const which[] = { "dcp/fsdp4/ckpt", "dcp/dtypes/ckpt", "dcp/nested/ckpt",
		                             "dcp/columns/ckpt" };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_arena arena = { 0 };
	struct sf_zip_dir dir = { 0 };
	struct sf_zip_end end;
	struct sf_out_file f;
	struct open o;
	size_t len;

	open_data(&o, which[_i]);
	f = out(&o, "checkpoint.pt", "c.pt", true);
	int r = write_all(&o, &f, 1, 4, false, &err);
	ck_assert_msg(r == 0, "%s", err.msg);
	SF_FREE uint8_t *at = slurp(&o, "c.pt", &len);
	size_t tail = SF_MIN(len, (size_t)SF_ZIP_TAIL);
	ck_assert_int_eq(sf_zip_find_end(at + len - tail, tail, len, &end, &err), 0);
	ck_assert_int_eq(sf_zip_parse_dir(at + end.dir_off, &end, len, &arena, &dir, &err), 0);
	ck_assert_uint_gt(dir.n, 2);
	for (size_t i = 0; i < dir.n; i++) {
		const struct sf_zip_record *rec = &dir.at[i];
		uint64_t data;
		ck_assert_int_eq(
			sf_zip_local_data(at + rec->header_off, rec->header_off, &data, &err), 0);
		uint32_t crc = sf_crc32(0, at + data, rec->comp_size);
		ck_assert_msg(crc == rec->crc, "%.*s: CRC %08x, directory %08x", (int)rec->name_len,
		              rec->name, crc, rec->crc);
		ck_assert_uint_eq(sf_le32(at + rec->header_off + 14), crc);
	}
	sf_arena_release(&arena);
	close_data(&o);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("write_file");
	TCase *tc = tcase_create("files");
	tcase_add_test(tc, files_are_the_virtual_ones_and_directories_are_made);
	tcase_add_test(tc, what_is_there_is_not_replaced_without_force);
	tcase_add_test(tc, a_name_of_255_bytes_can_be_written);
	tcase_add_test(tc, a_failure_leaves_no_temporary_file);
	tcase_add_test(tc, results_come_in_the_order_that_was_asked);
	tcase_add_test(tc, many_files_come_in_order_too);
	tcase_add_loop_test(tc, of_an_error_no_file_has_a_name, 0, 2);
	tcase_add_test(tc, what_does_not_fit_the_disk_is_not_begun);
	tcase_add_test(tc, writes_that_take_a_part_are_gone_on_with);
	tcase_add_loop_test(tc, a_write_that_fails_says_why_and_leaves_nothing, 0, 2);
	tcase_add_loop_test(tc, a_pt_carries_the_crc_of_every_record, 0, 4);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
