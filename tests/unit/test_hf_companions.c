#include "config.h"

#include "tests/lib/hf_world.h"

/* Reads of files fail (--wrap in tests/local.mk). */
static atomic_bool disk_fails;

ssize_t __real_preadv(int fd, const struct iovec *iov, int niov, off_t off);
ssize_t __real_preadv2(int fd, const struct iovec *iov, int niov, off_t off, int flags);
ssize_t __wrap_preadv(int fd, const struct iovec *iov, int niov, off_t off);
ssize_t __wrap_preadv2(int fd, const struct iovec *iov, int niov, off_t off, int flags);

ssize_t __wrap_preadv(int fd, const struct iovec *iov, int niov, off_t off)
{
	if (!atomic_load(&disk_fails))
		return __real_preadv(fd, iov, niov, off);
	errno = EIO;
	return -1;
}
ssize_t __wrap_preadv2(int fd, const struct iovec *iov, int niov, off_t off, int flags)
{
	if (!atomic_load(&disk_fails))
		return __real_preadv2(fd, iov, niov, off, flags);
	errno = EIO;
	return -1;
}

static void put_file(const char *dir, const char *name, const char *text)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

/* As a session does. */
static void hf_files(struct vw *w, const char *dir)
{
	struct sf_error why = SF_ERROR_INIT;
	static char text[SF_ERROR_MAX];

	sf_store_free(w->opt.hf_store);
	w->opt.hf_store = NULL;
	w->opt.hf_files_found = dir;
	if (sf_store_open(&w->io, dir, NULL, &w->opt.hf_store, &why) < 0) {
		snprintf(text, sizeof(text), "%s", why.msg);
		w->opt.hf_why = text;
	}
}

static void no_hf_files(struct vw *w)
{
	sf_store_free(w->opt.hf_store);
	w->opt.hf_store = NULL;
}

static char *read_companion(const struct vw *w, const struct sf_hf *hf, const char *name)
{
	struct sf_vfile *f;
	uint64_t len;

	for (uint32_t i = 0; i < hf->ncompanions; i++)
		if (strcmp(hf->companion[i].name, name) == 0) {
			vw_ok(sf_view_hf_companion(hf, w->reader, i, &f, &err));
			return (char *)vw_read(f, &len);
		}
	return NULL;
}

START_TEST(companions_are_plain_files_of_known_names)
{
	char dir[] = "/tmp/sf-hf-XXXXXX", path[512];
	struct sf_hf *hf;
	struct vw w;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	put_file(dir, "config.json", "{\"torch_dtype\": \"float32\"}");
	put_file(dir, "tokenizer.json", "{\"torch_dtype\": \"float32\"}");
	put_file(dir, "spiece.model", "");
	put_file(dir, "model.safetensors", "not this");
	put_file(dir, "notes.txt", "nor this");
	snprintf(path, sizeof(path), "%s/vocab.fifo", dir);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	vw_init(&w);
	vw_tensor(&w, "model.a", SF_FLOAT32, 2, two);
	hf_files(&w, dir);
	w.opt.dtype = SF_BFLOAT16;
	hf = hf_of(&w);
	ck_assert_uint_eq(hf->ncompanions, 3);
	SF_FREE char *config = read_companion(&w, hf, "config.json"),
		     *tokenizer = read_companion(&w, hf, "tokenizer.json");
	SF_FREE char *empty = read_companion(&w, hf, "spiece.model");
	ck_assert_str_eq(config, "{\"torch_dtype\": \"bfloat16\"}");
	ck_assert_str_eq(tokenizer, "{\"torch_dtype\": \"float32\"}");
	ck_assert_str_eq(empty, "");
	sf_hf_free(hf);
	hf_files(&w, path);
	struct sf_error err = SF_ERROR_INIT;
	ck_assert_int_lt(sf_hf_new(w.cat, &hf, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.msg, path));
	unlink(path);
	static const char *const made[] = { "config.json", "tokenizer.json", "spiece.model",
		                            "model.safetensors", "notes.txt" };
	for (size_t i = 0; i < SF_ARRAY_LEN(made); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, made[i]);
		unlink(path);
	}
	rmdir(dir);
	no_hf_files(&w);
	vw_close(&w);
}
END_TEST

/* Of any store, which need not be a directory of this machine; what lies deeper is none. */
START_TEST(companions_are_objects_of_a_store)
{
	const uint64_t big = 100000;
	uint8_t *vocab = calloc(1, big);
	const struct sf_mem_object there[] = { { "config.json", "{\"torch_dtype\": \"float32\"}",
		                                 26 },
		                               { "sub/tokenizer.json", "{}", 2 },
		                               { "vocab.txt", vocab, big },
		                               { "other", "x", 1 } };
	uint64_t len;
	struct sf_vfile *f;
	struct sf_hf *hf;
	struct vw w;

	memcpy(vocab + big - 4, "last", 4);
	vw_init(&w);
	vw_tensor(&w, "model.a", SF_FLOAT32, 2, two);
	w.opt.hf_files_found = "elsewhere";
	vw_ok(sf_store_mem(&w.io, there, 4, &w.opt.hf_store, &err));
	w.opt.dtype = SF_BFLOAT16;
	hf = hf_of(&w);
	ck_assert_uint_eq(hf->ncompanions, 2);
	SF_FREE char *config = read_companion(&w, hf, "config.json");
	ck_assert_str_eq(config, "{\"torch_dtype\": \"bfloat16\"}");
	vw_ok(sf_view_hf_companion(hf, w.reader, 1, &f, &err));
	SF_FREE uint8_t *text = vw_read(f, &len);
	ck_assert_uint_eq(len, big);
	ck_assert_mem_eq(text, vocab, big);
	sf_hf_free(hf);
	no_hf_files(&w);
	vw_close(&w);
	free(vocab);
}
END_TEST

/* Past 64 MiB it is no longer taken into memory: the same bytes, and an error once it changed. */
START_TEST(a_large_companion_is_read_where_it_lies)
{
	char dir[] = "/tmp/sf-hf-XXXXXX", path[512];
	const uint64_t size = (65 << 20) + 7;
	uint8_t got[64], want[64];
	struct sf_error why = SF_ERROR_INIT;
	struct sf_vfile *f;
	struct sf_hf *hf;
	struct vw w;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/spiece.model", dir);
	int fd = open(path, O_CREAT | O_RDWR, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, (off_t)size), 0);
	for (uint64_t at = 0; at < size; at += 1 << 20)
		ck_assert_int_eq(pwrite(fd, &at, 7, (off_t)at), 7);
	vw_init(&w);
	vw_tensor(&w, "model.a", SF_FLOAT32, 2, two);
	hf_files(&w, dir);
	hf = hf_of(&w);
	vw_ok(sf_view_hf_companion(hf, w.reader, 0, &f, &err));
	for (uint64_t at = 0; at + 1 < size; at += (1 << 20) - (at > 0) * 3) {
		int64_t n = sf_vfile_pread(f, at, got, sizeof(got), &why);
		ck_assert_msg(n == (int64_t)SF_MIN(sizeof(got), size - at), "%s", why.msg);
		ck_assert_int_eq(pread(fd, want, sizeof(want), (off_t)at), n);
		ck_assert_mem_eq(got, want, (size_t)n);
	}
	ck_assert_int_eq(pwrite(fd, "changed", 7, 1000), 7);
	ck_assert_int_eq(sf_vfile_pread(f, 5 << 20, got, sizeof(got), &why), -ESTALE);
	ck_assert_ptr_nonnull(strstr(why.msg, "spiece.model"));
	close(fd);
	sf_vfile_unref(f);
	sf_hf_free(hf);
	unlink(path);
	rmdir(dir);
	no_hf_files(&w);
	vw_close(&w);
}
END_TEST

/* A mount's kernel has the size and pages of what was listed: other bytes must not join them. */
START_TEST(a_companion_that_changed_is_stale)
{
	char dir[] = "/tmp/sf-hf-XXXXXX", path[512];
	struct sf_error why = SF_ERROR_INIT;
	struct sf_vfile *f;
	struct sf_hf *hf;
	struct vw w;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	put_file(dir, "tokenizer.json", "{\"a\": 1}");
	vw_init(&w);
	vw_tensor(&w, "model.a", SF_FLOAT32, 2, two);
	hf_files(&w, dir);
	hf = hf_of(&w);
	snprintf(path, sizeof(path), "%s/tokenizer.json", dir);
	for (int i = 0; i < 2; i++) { /* another size; another file of the same size */
		if (i)
			unlink(path);
		put_file(dir, "tokenizer.json", i ? "{\"a\": 2}" : "{\"a\": 22}");
		vw_ok(sf_view_hf_companion(hf, w.reader, 0, &f, &err));
		ck_assert_int_eq(sf_vfile_prepare(f, &why), -ESTALE);
		ck_assert_ptr_nonnull(strstr(why.msg, "tokenizer.json"));
		sf_vfile_unref(f);
	}
	sf_hf_free(hf);
	unlink(path);
	rmdir(dir);
	no_hf_files(&w);
	vw_close(&w);
}
END_TEST

/* _i: another dtype is put into it. */
START_TEST(a_companion_that_cannot_be_read_is_an_error)
{
	char dir[] = "/tmp/sf-hf-XXXXXX", path[512];
	struct sf_error why = SF_ERROR_INIT;
	struct sf_vfile *f;
	struct sf_hf *hf;
	struct vw w;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	put_file(dir, "config.json", "{\"torch_dtype\": \"float32\"}");
	vw_init(&w);
	vw_tensor(&w, "model.a", SF_FLOAT32, 2, two);
	hf_files(&w, dir);
	w.opt.dtype = _i ? SF_BFLOAT16 : SF_DTYPE_NONE;
	hf = hf_of(&w);
	vw_ok(sf_view_hf_companion(hf, w.reader, 0, &f, &err));
	atomic_store(&disk_fails, true);
	ck_assert_int_eq(sf_vfile_prepare(f, &why), -EIO);
	ck_assert_ptr_nonnull(strstr(why.msg, "config.json"));
	atomic_store(&disk_fails, false);
	ck_assert_int_eq(sf_vfile_prepare(f, &why), 0);
	sf_vfile_unref(f);
	sf_hf_free(hf);
	snprintf(path, sizeof(path), "%s/config.json", dir);
	unlink(path);
	rmdir(dir);
	no_hf_files(&w);
	vw_close(&w);
}
END_TEST

START_TEST(config_is_looked_for_near_the_checkpoint)
{
	char dir[] = "/tmp/sf-hf-XXXXXX", step[512], sub[512], url[600], *found = NULL;
	struct stat st, want;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(step, sizeof(step), "%s/step1", dir);
	snprintf(sub, sizeof(sub), "%.400s/hf_assets", step);
	ck_assert_int_eq(mkdir(step, 0700), 0);
	ck_assert_int_eq(mkdir(sub, 0700), 0);
	ck_assert_int_eq(sf_hf_find_files(step, &found), -ENOENT);
	put_file(dir, "config.json", "{}");
	ck_assert_int_eq(sf_hf_find_files(step, &found), 0);
	ck_assert_int_eq(stat(found, &st), 0);
	ck_assert_int_eq(stat(dir, &want), 0);
	ck_assert_uint_eq(st.st_ino, want.st_ino);
	free(found);
	put_file(sub, "config.json", "{}");
	snprintf(url, sizeof(url), "file://%s", step);
	ck_assert_int_eq(sf_hf_find_files(url, &found), 0);
	ck_assert_str_eq(found, sub);
	free(found);
	put_file(step, "config.json", "{}");
	ck_assert_int_eq(sf_hf_find_files(step, &found), 0);
	ck_assert_str_eq(found, step);
	free(found);
	snprintf(url, sizeof(url), "%s/model.pt", step); /* a file: where it lies */
	ck_assert_int_eq(sf_hf_find_files(url, &found), 0);
	ck_assert_str_eq(found, step);
	free(found);
	ck_assert_int_eq(sf_hf_find_files("s3://bucket/x", &found), -ENOENT);
	snprintf(url, sizeof(url), "rm -r %s", dir);
	ck_assert_int_eq(system(url), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("hf_companions");
	TCase *t = tcase_create("all");

	tcase_add_test(t, companions_are_plain_files_of_known_names);
	tcase_add_test(t, companions_are_objects_of_a_store);
	tcase_add_test(t, a_large_companion_is_read_where_it_lies);
	tcase_add_test(t, a_companion_that_changed_is_stale);
	tcase_add_loop_test(t, a_companion_that_cannot_be_read_is_an_error, 0, 2);
	tcase_add_test(t, config_is_looked_for_near_the_checkpoint);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
