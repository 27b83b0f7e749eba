#include "config.h"

#include "tests/lib/library_world.h"

START_TEST(what_cannot_be_opened_says_why)
{
	struct shardfuse_open_options opt = SHARDFUSE_INIT(opt);
	struct shardfuse_error err = { { 0 } };
	struct shardfuse *h = NULL;
	char path[4096];

	ck_assert_int_eq(shardfuse_open(NULL, "/no/such/place", NULL, &h, &err), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.msg, "/no/such/place"));
	ck_assert_int_lt(shardfuse_open(NULL, "/no/such/place", NULL, &h, NULL), 0);
	sf_test_data(path, "dcp/fsdp4/ckpt");
	opt.cast = "int3";
	ck_assert_int_eq(shardfuse_open(NULL, path, &opt, &h, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.msg, "int3"));
	opt.cast = NULL;
	opt.nkey = 1;
	ck_assert_int_eq(shardfuse_open(NULL, path, &opt, &h, &err), -EINVAL);
	opt.nkey = 0;
	opt.source_format = "sqlite";
	ck_assert_int_lt(shardfuse_open(NULL, path, &opt, &h, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.msg, "sqlite"));
	opt.source_format = NULL;
	opt.struct_size = 3;
	ck_assert_int_eq(shardfuse_open(NULL, path, &opt, &h, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.msg, "struct_size"));
	ck_assert_ptr_null(h);
	shardfuse_close(NULL);
	shardfuse_file_close(NULL);
	shardfuse_context_free(NULL);
	shardfuse_free(NULL);
	ck_assert_int_eq(shardfuse_request_finish(NULL), 0);
	ck_assert_uint_eq(shardfuse_version(),
	                  SHARDFUSE_VERSION_MAJOR << 16 | SHARDFUSE_VERSION_MINOR);
}
END_TEST

START_TEST(tensors_are_found_by_name)
{
	struct shardfuse *h = open_data("dcp/fsdp4/ckpt");
	struct shardfuse_tensor t = SHARDFUSE_INIT(t);
	struct shardfuse_error err = { { 0 } };
	uint64_t n = count_of(h, 0);

	ck_assert_uint_gt(n, 10);
	for (uint64_t i = 0; i < n; i++) {
		ck_assert_int_eq(shardfuse_tensor_info(h, i, &t, NULL), 0);
		ck_assert_int_eq(shardfuse_tensor_find(h, t.key, t.key_len, NULL), (int64_t)i);
		uint64_t elements = 1;
		for (unsigned d = 0; d < t.ndim; d++)
			elements *= t.shape[d];
		ck_assert_uint_eq(elements * t.elem_bytes, t.bytes);
	}
	ck_assert_int_eq(shardfuse_tensor_info(h, n, &t, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.msg, "tensor"));
	ck_assert_int_eq(shardfuse_tensor_find(h, "model", 5, &err), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.msg, "'model'"));
	shardfuse_close(h);
}
END_TEST

/* A caller of an older library, whose structs end sooner, and of a newer one. */
START_TEST(members_past_the_callers_struct_are_left_alone)
{
	struct shardfuse *h = open_data("dcp/fsdp4/ckpt");
	struct {
		struct shardfuse_tensor t;
		char newer[16];
	} s;

	memset(&s, 0x5a, sizeof(s));
	s.t.struct_size = offsetof(struct shardfuse_tensor, shape);
	ck_assert_int_eq(shardfuse_tensor_info(h, 0, &s.t, NULL), 0);
	ck_assert_uint_gt(s.t.key_len, 0);
	ck_assert_uint_eq(s.t.bytes, UINT64_C(0x5a5a5a5a5a5a5a5a));
	s.t.struct_size = sizeof(s);
	ck_assert_int_eq(shardfuse_tensor_info(h, 0, &s.t, NULL), 0);
	ck_assert_uint_ne(s.t.bytes, UINT64_C(0x5a5a5a5a5a5a5a5a));
	for (size_t i = 0; i < sizeof(s.newer); i++)
		ck_assert_int_eq(s.newer[i], 0x5a);
	s.t.struct_size = 0;
	ck_assert_int_eq(shardfuse_tensor_info(h, 0, &s.t, NULL), -EINVAL);
	shardfuse_close(h);
}
END_TEST

START_TEST(groups_chunks_and_the_whole_add_up)
{
	struct shardfuse *h = open_data("dcp/fsdp4/ckpt");
	struct shardfuse_info info = SHARDFUSE_INIT(info);
	struct shardfuse_group g = SHARDFUSE_INIT(g);
	struct shardfuse_tensor t = SHARDFUSE_INIT(t);
	struct shardfuse_chunk c = SHARDFUSE_INIT(c);
	struct shardfuse_warning w = SHARDFUSE_INIT(w);
	struct shardfuse_error err;
	uint64_t tensors = 0, objects = 0, bytes = 0, chunks = 0, roles = 0;

	ck_assert_int_eq(shardfuse_info(h, &info, NULL), 0);
	ck_assert_str_eq(info.format, "dcp");
	ck_assert_uint_eq(info.ranks, 4);
	for (uint64_t i = 0; i < info.groups; i++) {
		ck_assert_int_eq(shardfuse_group_info(h, i, &g, NULL), 0);
		tensors += g.tensors;
		objects += g.objects;
		bytes += g.bytes;
		roles |= 1u << g.role;
	}
	ck_assert_uint_eq(tensors, info.tensors);
	ck_assert_uint_eq(objects, info.objects);
	ck_assert_uint_eq(bytes, info.bytes);
	ck_assert_uint_ne(roles & 1u << SHARDFUSE_MODEL, 0);
	ck_assert_uint_ne(roles & 1u << SHARDFUSE_OPTIM, 0);
	ck_assert_int_eq(shardfuse_group_info(h, info.groups, &g, &err), -EINVAL);
	for (uint64_t i = 0; i < info.tensors; i++) {
		uint64_t held = 0;
		ck_assert_int_eq(shardfuse_tensor_info(h, i, &t, NULL), 0);
		for (uint64_t k = 0; k < t.chunks; k++, chunks++) {
			uint64_t n = 1;
			ck_assert_int_eq(shardfuse_chunk_info(h, i, k, &c, NULL), 0);
			for (unsigned d = 0; d < t.ndim; d++) {
				ck_assert_uint_le(c.origin[d] + c.extent[d], t.shape[d]);
				n *= c.extent[d];
			}
			held += n * t.elem_bytes;
			ck_assert_ptr_nonnull(strstr(c.file, ".distcp"));
			ck_assert_uint_ge(c.len, n * t.elem_bytes);
		}
		ck_assert_uint_eq(held, t.bytes);
		ck_assert_int_eq(shardfuse_chunk_info(h, i, t.chunks, &c, &err), -EINVAL);
	}
	ck_assert_uint_eq(chunks, info.chunks);
	ck_assert_int_eq(shardfuse_warning_info(h, info.warnings, &w, &err), -EINVAL);
	shardfuse_close(h);
}
END_TEST

START_TEST(options_choose_name_and_cast)
{
	const char *key[] = { "model" }, *ignore[] = { "*norm*" }, *map[] = { "model=m" };
	struct shardfuse_open_options opt = SHARDFUSE_INIT(opt);
	struct shardfuse_tensor t = SHARDFUSE_INIT(t), stored = SHARDFUSE_INIT(stored);
	struct shardfuse *all = open_data("dcp/fsdp4/ckpt"), *h;
	struct shardfuse_error err;
	char name[4096], text[8] = "bf16";
	int64_t of;

	opt.key = key;
	opt.ignore = ignore;
	opt.map = map;
	opt.nkey = opt.nignore = opt.nmap = 1;
	opt.cast = text;
	h = open_with(NULL, "dcp/fsdp4/ckpt", &opt);
	memset(text, 'x', sizeof(text)); /* nothing of it is needed any more */
	key[0] = ignore[0] = map[0] = NULL;
	ck_assert_uint_gt(count_of(h, 0), 0);
	ck_assert_uint_lt(count_of(h, 0), count_of(all, 0));
	for (uint64_t i = 0; i < count_of(h, 0); i++) {
		ck_assert_int_eq(shardfuse_tensor_info(h, i, &t, NULL), 0);
		ck_assert_mem_eq(t.key, "m.", 2);
		ck_assert_ptr_null(strstr(t.key, "norm"));
		snprintf(name, sizeof(name), "model%s", t.key + 1);
		of = shardfuse_tensor_find(all, name, strlen(name), &err);
		ck_assert_msg(of >= 0, "%s", err.msg);
		ck_assert_int_eq(shardfuse_tensor_info(all, (uint64_t)of, &stored, NULL), 0);
		if (strcmp(stored.dtype, "float32") != 0)
			continue;
		ck_assert_str_eq(t.dtype, "bfloat16");
		ck_assert_uint_eq(t.bytes * 2, stored.bytes);
		/* the upper halves, rounded: at most one apart */
		uint32_t *from = malloc(stored.bytes + 1);
		uint16_t *to = malloc(t.bytes + 1), one;
		ck_assert_int_eq(
			shardfuse_tensor_read(all, (uint64_t)of, 0, from, stored.bytes, NULL), 0);
		int r = shardfuse_tensor_read(h, i, 0, to, t.bytes, &err);
		ck_assert_msg(r == 0, "%s", err.msg);
		for (uint64_t k = 0; k < t.bytes / 2; k++)
			ck_assert_int_le(abs((int)to[k] - (int)(from[k] >> 16)), 1);
		uint64_t origin[64] = { 0 }, extent[64];
		struct shardfuse_read rd = SHARDFUSE_INIT(rd);
		for (unsigned d = 0; d < t.ndim; d++) {
			origin[d] = t.shape[d] - 1;
			extent[d] = 1;
		}
		rd.tensor = i;
		rd.origin = origin;
		rd.extent = extent;
		rd.buf = &one;
		r = shardfuse_read(h, &rd, 1, &err);
		ck_assert_msg(r == 0, "%s", err.msg);
		ck_assert_uint_eq(one, to[t.bytes / 2 - 1]);
		free(from);
		free(to);
	}
	shardfuse_close(h);
	shardfuse_close(all);
}
END_TEST

START_TEST(ranges_are_checked)
{
	struct shardfuse *h = open_data("dcp/fsdp4/ckpt");
	struct shardfuse_error err = { { 0 } };
	struct shardfuse_tensor t = SHARDFUSE_INIT(t);
	char byte;

	ck_assert_int_eq(shardfuse_tensor_info(h, 0, &t, NULL), 0);
	ck_assert_int_eq(shardfuse_tensor_read(h, 0, t.bytes, &byte, 0, &err), 0);
	ck_assert_int_eq(shardfuse_tensor_read(h, 0, t.bytes + 1, &byte, 0, &err), -EINVAL);
	ck_assert_int_eq(shardfuse_tensor_read(h, 0, t.bytes - 1, &byte, 1, &err), 0);
	ck_assert_int_eq(shardfuse_tensor_read(h, 0, t.bytes, &byte, 1, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.msg, t.key));
	ck_assert_int_eq(shardfuse_tensor_read(h, 0, UINT64_MAX, &byte, 2, NULL), -EINVAL);
	ck_assert_int_eq(shardfuse_tensor_read(h, UINT64_MAX, 0, &byte, 1, NULL), -EINVAL);
	ck_assert_int_eq(shardfuse_tensor_read(h, UINT64_MAX, 1, &byte, 0, &err), -EINVAL);
	ck_assert_ptr_null(strstr(err.msg, "it has"));
	shardfuse_close(h);
}
END_TEST

static unsigned threads_of_this(void)
{
	unsigned n = 0;
	DIR *d = opendir("/proc/self/task");

	ck_assert_ptr_nonnull(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

/* So many are left: a thread that was joined is listed for a moment longer. */
static bool threads_come_to(unsigned n)
{
	for (int tries = 0; threads_of_this() != n; tries++) {
		if (tries == 2000)
			return false;
		usleep(1000);
	}
	return true;
}

static void count_line(void *arg, int level, const char *line)
{
	(void)level;
	(void)line;
	++*(unsigned *)arg;
}

/* What is of the process is the context's: however many handles there are. */
START_TEST(ten_handles_share_the_threads_of_their_context)
{
	struct shardfuse_context_options opt = SHARDFUSE_INIT(opt);
	struct shardfuse_context *ctx;
	struct shardfuse *h[10];
	unsigned lines = 0, before = threads_of_this(), with;
	struct shardfuse_error err;
	char byte;

	opt.threads = 3;
	opt.memory = 1 << 20;
	opt.timeout_ms = 5000;
	opt.open_files = 16;
	opt.log = count_line;
	opt.log_arg = &lines;
	int r = shardfuse_context_new(&opt, &ctx, &err);
	ck_assert_msg(r == 0, "%s", err.msg);
	with = threads_of_this();
	ck_assert_uint_le(with, before + 3 + 9);
	for (unsigned i = 0; i < 10; i++) {
		h[i] = open_with(ctx, i % 2 ? "dcp/fsdp4/ckpt" : "dcp/columns/ckpt", NULL);
		ck_assert_int_eq(shardfuse_tensor_read(h[i], 0, 0, &byte, 1, NULL), 0);
	}
	ck_assert_uint_le(threads_of_this(), before + 3 + 9);
	for (unsigned i = 0; i < 10; i++)
		shardfuse_close(h[i]);
	shardfuse_context_free(ctx);
	ck_assert(threads_come_to(before));
}
END_TEST

START_TEST(handles_without_a_context_share_one)
{
	unsigned before = threads_of_this(), one;
	struct shardfuse *h[10];
	char byte;

	h[0] = open_data("dcp/fsdp4/ckpt");
	one = threads_of_this();
	for (unsigned i = 1; i < 10; i++) {
		h[i] = open_data(i % 2 ? "dcp/fsdp4/ckpt" : "dcp/columns/ckpt");
		ck_assert_int_eq(shardfuse_tensor_read(h[i], 0, 0, &byte, 1, NULL), 0);
	}
	ck_assert_uint_le(threads_of_this(), one);
	for (unsigned i = 0; i < 10; i++)
		shardfuse_close(h[i]);
	ck_assert(threads_come_to(before));
	shardfuse_close(open_data("dcp/columns/ckpt")); /* and once more from the beginning */
	ck_assert(threads_come_to(before));
}
END_TEST

START_TEST(objects_come_as_json_and_pickled)
{
	struct shardfuse *h = open_data("dcp/fsdp4/ckpt");
	struct shardfuse_object o = SHARDFUSE_INIT(o);
	struct shardfuse_error err = { { 0 } };
	uint64_t n = count_of(h, 1);
	size_t len;
	char *json;
	void *pt;

	ck_assert_uint_gt(n, 0);
	for (uint64_t i = 0; i < n; i++) {
		ck_assert_int_eq(shardfuse_object_info(h, i, &o, NULL), 0);
		ck_assert_uint_gt(o.key_len, 0);
		int r = shardfuse_object_json(h, i, &json, &err);
		ck_assert_msg(r == 0, "%s", err.msg);
		ck_assert_uint_gt(strlen(json), 0);
		shardfuse_free(json);
		r = shardfuse_object_pt(h, i, &pt, &len, &err);
		ck_assert_msg(r == 0, "%s", err.msg);
		ck_assert_uint_gt(len, 100);
		ck_assert_mem_eq(pt, "PK\3\4", 4);
		shardfuse_free(pt);
	}
	ck_assert_int_eq(shardfuse_object_json(h, n, &json, &err), -EINVAL);
	ck_assert_int_eq(shardfuse_object_info(h, n, &o, &err), -EINVAL);
	shardfuse_close(h);
}
END_TEST

struct names {
	unsigned n;
	bool model, npy;
};

static int see_name(void *arg, const char *name, int type)
{
	struct names *s = arg;

	s->n++;
	s->model |= strcmp(name, "model.pt") == 0 && type == SHARDFUSE_FILE;
	s->npy |= strcmp(name, "npy") == 0 && type == SHARDFUSE_DIR;
	return 0;
}

static int stop(void *arg, const char *name, int type)
{
	(void)arg;
	(void)name;
	(void)type;
	return 42;
}

START_TEST(directories_are_listed)
{
	struct shardfuse *h = open_data("dcp/fsdp4/ckpt");
	struct shardfuse_error err = { { 0 } };
	struct names s = { 0 };

	ck_assert_int_eq(shardfuse_list(h, "", see_name, &s, &err), 0);
	ck_assert(s.model && s.npy && s.n > 5);
	ck_assert_int_eq(shardfuse_list(h, "", stop, NULL, &err), 42);
	s.n = 0;
	ck_assert_int_eq(shardfuse_list(h, "npy", see_name, &s, &err), 0);
	ck_assert_uint_eq(s.n, count_of(h, 0));
	ck_assert_int_eq(shardfuse_list(h, "nothing", see_name, &s, &err), -ENOENT);
	ck_assert_int_eq(shardfuse_list(h, "README", see_name, &s, &err), -ENOTDIR);
	ck_assert_ptr_nonnull(strstr(err.msg, "README"));
	shardfuse_close(h);
}
END_TEST

/* Also where nothing is asked for: what there is not is not there. */
START_TEST(nothing_is_read_of_what_there_is_only)
{
	struct shardfuse *h = open_data("dcp/fsdp4/ckpt");
	struct shardfuse_error err = { { 0 } };
	struct shardfuse_tensor info = { .struct_size = sizeof(info) };
	uint64_t n = 0;

	while (shardfuse_tensor_info(h, n, &info, NULL) == 0)
		n++;
	ck_assert_int_eq(shardfuse_tensor_info(h, 0, &info, NULL), 0);
	ck_assert_int_eq(shardfuse_tensor_read(h, 0, info.bytes, NULL, 0, &err), 0);
	ck_assert_int_eq(shardfuse_tensor_read(h, 0, info.bytes + 1, NULL, 0, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.msg, ": byte "));
	for (uint64_t i = n; i < n + 3; i++) {
		for (int k = 0; k < 2; k++) {
			memset(&err, 0, sizeof(err));
			ck_assert_int_lt(
				shardfuse_tensor_read(h, i, k ? UINT64_MAX : 0, NULL, 0, &err), 0);
			ck_assert_ptr_null(strstr(err.msg, ": byte "));
		}
	}
	shardfuse_close(h);
}
END_TEST

START_TEST(virtual_files_are_read_by_path)
{
	struct shardfuse *h = open_data("dcp/fsdp4/ckpt");
	struct shardfuse_error err = { { 0 } };
	struct shardfuse_file *f = NULL;
	char buf[16];

	ck_assert_int_eq(shardfuse_file_open(h, "npy/model.norm.weight.npy", &f, &err), 0);
	ck_assert_int_eq(shardfuse_file_pread(f, buf, sizeof(buf), 0, &err), 16);
	ck_assert_mem_eq(buf, "\x93NUMPY", 6);
	ck_assert_int_eq(
		shardfuse_file_pread(f, buf, sizeof(buf), shardfuse_file_size(f) - 3, &err), 3);
	ck_assert_int_eq(shardfuse_file_pread(f, buf, sizeof(buf), shardfuse_file_size(f), &err),
	                 0);
	shardfuse_file_close(f);
	ck_assert_int_eq(shardfuse_file_open(h, "nothing", &f, &err), -ENOENT);
	ck_assert_int_eq(shardfuse_file_open(h, "npy", &f, &err), -EISDIR);
	ck_assert_ptr_nonnull(strstr(err.msg, "npy"));
	shardfuse_close(h);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("library");
	TCase *tc = tcase_create("shardfuse.h");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, what_cannot_be_opened_says_why);
	tcase_add_test(tc, tensors_are_found_by_name);
	tcase_add_test(tc, members_past_the_callers_struct_are_left_alone);
	tcase_add_test(tc, groups_chunks_and_the_whole_add_up);
	tcase_add_test(tc, options_choose_name_and_cast);
	tcase_add_test(tc, ranges_are_checked);
	tcase_add_test(tc, ten_handles_share_the_threads_of_their_context);
	tcase_add_test(tc, handles_without_a_context_share_one);
	tcase_add_test(tc, objects_come_as_json_and_pickled);
	tcase_add_test(tc, directories_are_listed);
	tcase_add_test(tc, nothing_is_read_of_what_there_is_only);
	tcase_add_test(tc, virtual_files_are_read_by_path);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
