/*
 * What is stuck in one place does not hold up another: threads that receive requests, threads that
 * size views, threads that read headers. Needs what test_mount_waits needs.
 */
#include "config.h"
#include "tests/lib/test_stores.h"
#include "tests/lib/slow_mount.h"

#define DELAY_MS 12000

static char dir[64];

/* A second mount beside the one that slow_mount.h knows of. */
static struct mount {
	struct sf_fault *plan;
	char at[sizeof(mountpoint)];
	pid_t server;
} other;

static void change_mounts(void)
{
	struct mount now = { .plan = plan, .server = server };

	strcpy(now.at, mountpoint);
	plan = other.plan;
	server = other.server;
	strcpy(mountpoint, other.at);
	other = now;
}

/* A copy of a fixture in a directory of its own, where it may be changed. */
static const char *copy_of(const char *fixture, char *ret)
{
	char from[4096], command[9000];

	strcpy(dir, "/tmp/sf-test-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	sf_test_data(from, fixture);
	snprintf(command, sizeof(command), "cp -r '%s' '%s/c'", from, dir);
	ck_assert_int_eq(system(command), 0);
	sprintf(ret, "%s/c", dir);
	return ret;
}

static void remove_copy(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r '%s'", dir);
	ck_assert_int_eq(system(command), 0);
}

struct client {
	char path[512];
	pthread_t id;
	bool reads; /* else only asks for the size */
	int code;
	atomic_ullong got;
	atomic_bool done;
};

static void *client_run(void *arg)
{
	struct client *c = arg;
	char buf[4096];
	struct stat st;
	ssize_t n = 0;

	atomic_store(&c->got, 0);
	if (!c->reads) {
		c->code = stat(c->path, &st) < 0 ? errno : 0;
	} else {
		int fd = open(c->path, O_RDONLY | O_CLOEXEC);
		while (fd >= 0 && (n = read(fd, buf, sizeof(buf))) > 0)
			atomic_fetch_add(&c->got, (unsigned)n);
		c->code = fd < 0 || n < 0 ? errno : 0;
		if (fd >= 0)
			close(fd);
	}
	atomic_store(&c->done, true);
	return NULL;
}

static void begin(struct client *c, bool reads, const char *path)
{
	snprintf(c->path, sizeof(c->path), "%s/%s", mountpoint, path);
	c->reads = reads;
	atomic_store(&c->done, false);
	ck_assert_int_eq(pthread_create(&c->id, NULL, client_run, c), 0);
}

/* An archive whose first header says "compressed": only its directory tells where the payload is. */
static void hide_payloads(const char *at)
{
	DIR *d = opendir(at);

	ck_assert_ptr_nonnull(d);
	for (struct dirent *e; (e = readdir(d));) {
		int fd = e->d_name[0] == '_' ? openat(dirfd(d), e->d_name, O_WRONLY) : -1;
		ck_assert(fd < 0 || pwrite(fd, "\x08", 1, 8) == 1);
		if (fd >= 0)
			close(fd);
	}
	closedir(d);
}

START_TEST(stuck_sizings_do_not_hold_up_headers_that_are_hard_to_read)
{
	static const char *const unsized[] = { "checkpoint.pt", "state/x/value.json",
		                               "state/x/value.pt", "state/y/value.json",
		                               "state/y/value.pt" };
	static struct client size[SF_ARRAY_LEN(unsized)], tensor;
	char source[128];

	hide_payloads(copy_of("dcp/file_per_item/ckpt", source));
	slow_source = source;
	start(60000);
	plan->delay_ms = DELAY_MS;
	for (size_t i = 0; i < SF_ARRAY_LEN(unsized); i++)
		begin(&size[i], false, unsized[i]);
	usleep(500000);
	plan->delay_ms = 0;
	begin(&tensor, true, "state/model/w/tensor.raw");
	pthread_join(tensor.id, NULL);
	ck_assert_int_eq(tensor.code, 0);
	ck_assert_uint_eq(tensor.got, 60);
	for (size_t i = 0; i < SF_ARRAY_LEN(unsized); i++)
		ck_assert_msg(!atomic_load(&size[i].done), "%s was not stuck", unsized[i]);
	for (size_t i = 0; i < SF_ARRAY_LEN(unsized); i++) {
		pthread_join(size[i].id, NULL);
		ck_assert_int_eq(size[i].code, 0);
	}
	stop();
	slow_source = NULL;
	remove_copy();
}
END_TEST

/* One thread receives requests; the file beside the weights is a slow mount's. */
START_TEST(a_large_companion_is_not_read_by_who_receives_requests)
{
	static struct client big, readme;
	char source[128], path[512];

	copy_of("dcp/fsdp4/ckpt", source);
	snprintf(path, sizeof(path), "%s/tokenizer.model", source);
	ck_assert_int_eq(close(open(path, O_CREAT | O_WRONLY, 0644)), 0);
	ck_assert_int_eq(truncate(path, (65 << 20) + 3), 0);
	slow_source = source;
	start(60000);
	snprintf(path, sizeof(path), "%s/shards", mountpoint);
	change_mounts();
	slow_source = NULL;
	slow_threads = 1;
	slow_hf_files = path;
	start(60000);
	slow_threads = 0;
	slow_hf_files = NULL;
	snprintf(path, sizeof(path), "%s/hf/tokenizer.model", mountpoint);
	struct stat st;
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(st.st_size, (65 << 20) + 3);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	close(fd);

	other.plan->delay_ms = DELAY_MS;
	begin(&big, true, "hf/tokenizer.model");
	usleep(500000);
	begin(&readme, true, "README");
	pthread_join(readme.id, NULL);
	ck_assert_int_eq(readme.code, 0);
	ck_assert_uint_gt(readme.got, 0);
	ck_assert_msg(!atomic_load(&big.got),
	              "README waited for the companion, or that was not slow");
	other.plan->delay_ms = 0;
	pthread_join(big.id, NULL);
	ck_assert_int_eq(big.code, 0);
	ck_assert_uint_eq(big.got, (65 << 20) + 3);
	stop();
	change_mounts();
	stop();
	remove_copy();
}
END_TEST

int main(void)
{
	int skip = slow_init();
	if (skip)
		return skip;
	other.plan = mmap(NULL, sizeof(*plan), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
	                  -1, 0);
	Suite *s = suite_create("mount_starves");
	TCase *tc = tcase_create("slow shards");
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, stuck_sizings_do_not_hold_up_headers_that_are_hard_to_read);
	tcase_add_test(tc, a_large_companion_is_not_read_by_who_receives_requests);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
