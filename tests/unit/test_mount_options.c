#include "config.h"
#include <string.h>
#include <unistd.h>
#include "base/mem.h"
#include "tests/lib/sf_test.h"
#include "fuse/mount_options.h"

struct set {
	struct sf_mount_options o;
	struct sf_common c;
	const char *word[4];
};

static int apply(struct set *s, const char *words, struct sf_error *err)
{
	bool sloppy = s->o.sloppy;
	*s = (struct set){ .o.sloppy = sloppy };
	sf_common_init(&s->c);
	s->word[0] = words;
	s->o.words.at = s->word;
	s->o.words.n = 1;
	return sf_mount_options_apply(&s->o, &s->c, err);
}

static void drop(struct set *s)
{
	sf_mount_options_release(&s->o);
	sf_common_release(&s->c);
}

START_TEST(what_mount_and_systemd_add_is_ignored)
{
	struct set s = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	int r = apply(&s,
	              "rw,ro,dev,nodev,suid,nosuid,exec,noexec,atime,noatime,diratime,nodiratime,"
	              "relatime,norelatime,strictatime,"
	              "nostrictatime,lazytime,nolazytime,_netdev,nofail,auto,noauto,user,user=joe,"
	              "x-systemd.automount,x-foo=b\\,c,comment=some words,,",
	              &err);
	ck_assert_msg(r == 0, "%s", err.msg);
	drop(&s);
}
END_TEST

START_TEST(options_of_the_views_and_the_common_ones_are_words)
{
	struct set s = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	int r = apply(
		&s,
		"dtype=bf16,views=npy:pt:hf,key=model.a\\,b,key=model.c,ignore=x.*,map=a=b,"
		"hf_name=adapter_model,hf-group=ema,memory=2GB,"
		"timeout=5,max_shard_size=1MiB,role=optim,model_only,quiet,allow_other,umask=022,"
		"st_dtypes=all,complete=no",
		&err);
	ck_assert_msg(r == 0, "%s", err.msg);
	ck_assert_int_eq(s.c.session.view.dtype, SF_BFLOAT16);
	ck_assert_uint_eq(s.c.session.view.views.n, 3);
	ck_assert_str_eq(s.c.session.view.views.at[2], "hf");
	ck_assert_uint_eq(s.c.session.view.key.n, 2);
	ck_assert_str_eq(s.c.session.view.key.at[0], "model.a,b");
	ck_assert_uint_eq(s.c.session.view.nmap, 1);
	ck_assert_str_eq(s.c.session.view.hf_name, "adapter_model");
	ck_assert_str_eq(s.c.session.view.hf_group, "ema");
	ck_assert_uint_eq(s.c.session.memory, 2000000000);
	ck_assert_uint_eq(s.c.session.timeout_s, 5);
	ck_assert_uint_eq(s.c.session.view.max_shard_size, 1 << 20);
	ck_assert_int_eq(s.c.session.view.role, SF_ROLE_OPTIM);
	ck_assert(s.c.session.view.model_only && s.c.quiet && s.o.allow_other &&
	          s.c.session.view.st_all_dtypes && !s.c.session.complete);
	ck_assert_str_eq(s.o.umask, "022");
	drop(&s);
}
END_TEST

START_TEST(refresh_is_a_number_of_seconds)
{
	static const char *const wrong[] = { "refresh=-1", "refresh=x", "refresh=1s",
		                             "refresh=", "refresh=4294968" };
	struct sf_error err = SF_ERROR_INIT;
	struct set s = { 0 };

	ck_assert_int_eq(apply(&s, "ro", &err), 0);
	ck_assert_uint_eq(s.c.session.refresh_s, 10);
	ck_assert(s.c.session.runs);
	drop(&s);
	ck_assert_int_eq(apply(&s, "refresh=0", &err), 0);
	ck_assert_uint_eq(s.c.session.refresh_s, 0);
	drop(&s);
	for (size_t i = 0; i < SF_ARRAY_LEN(wrong); i++) {
		ck_assert_int_eq(apply(&s, wrong[i], &err), -EINVAL);
		drop(&s);
	}
}
END_TEST

START_TEST(unknown_words_are_errors_that_name_the_near_one)
{
	static const struct {
		const char *words, *in_message;
	} cases[] = {
		{ "alow_other", "did you mean allow_other?" },
		{ "ro,dytpe=bf16", "did you mean dtype?" },
		{ "entirely-unknown", "'entirely-unknown'" },
		{ "dtype=int8", "bf16" },
		{ "timeout", "needs =" },
		{ "timeout=soon", "soon" },
		{ "model_only=maybe", "yes or no" },
		{ "role=models", "model, optim, other" },
	};
	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		struct set s = { 0 };
		struct sf_error err = SF_ERROR_INIT;
		ck_assert_int_eq(apply(&s, cases[i].words, &err), -EINVAL);
		ck_assert_msg(strstr(err.msg, cases[i].in_message) != NULL, "%s", err.msg);
		drop(&s);
	}
	struct set s = { .o.sloppy = true };
	ck_assert_int_eq(apply(&s, "entirely-unknown,dtype=fp16", NULL), 0);
	ck_assert_int_eq(s.c.session.view.dtype, SF_FLOAT16);
	drop(&s);
}
END_TEST

static int serve(const char *words, const char *source, struct sf_serve_options *ret,
                 char **ret_options, struct sf_error *err)
{
	struct set s = { 0 };
	int r = apply(&s, words, err);
	if (r >= 0)
		r = sf_mount_options_serve(&s.o, source, ret, ret_options, err);
	drop(&s);
	return r;
}

START_TEST(the_kernel_gets_read_only_and_the_source_escaped_last)
{
	struct sf_serve_options o;
	SF_FREE char *options = NULL;

	ck_assert_int_eq(serve("rw,umask=027", "/c/a,b\\c", &o, &options, NULL), 0);
	ck_assert_int_eq(strncmp(options, "ro,nosuid,nodev,", 16), 0);
	const char *end = ",fsname=/c/a\\,b\\\\c";
	ck_assert_str_eq(options + strlen(options) - strlen(end), end);
	ck_assert_ptr_null(strstr(options, "allow_"));
	ck_assert_uint_eq(o.umask, 027);
	ck_assert_uint_eq(o.uid, getuid());
}
END_TEST

START_TEST(allow_root_does_not_let_everybody_in)
{
	struct sf_serve_options o;
	SF_FREE char *root = NULL;
	SF_FREE char *other = NULL;

	if (geteuid() != 0)
		return; /* needs a line in the system's fuse.conf then */
	ck_assert_int_eq(serve("allow_root", "x", &o, &root, NULL), 0);
	ck_assert_ptr_nonnull(strstr(root, ",allow_root,"));
	ck_assert_ptr_null(strstr(root, "allow_other"));
	ck_assert_int_eq(serve("allow_other", "x", &o, &other, NULL), 0);
	ck_assert_ptr_nonnull(strstr(other, ",allow_other,"));
}
END_TEST

START_TEST(users_are_names_or_numbers_and_umask_is_octal)
{
	struct sf_serve_options o;
	struct sf_error err = SF_ERROR_INIT;
	char *options = NULL;

	ck_assert_int_eq(serve("uid=root,gid=4242", "x", &o, &options, &err), 0);
	ck_assert_uint_eq(o.uid, 0);
	ck_assert_uint_eq(o.gid, 4242);
	free(options);
	static const char *const bad[] = {
		"uid=no-such-user-here", "gid=-1", "umask=9", "umask=1000", "umask=",
		"uid=4294967295"
	};
	for (size_t i = 0; i < SF_ARRAY_LEN(bad); i++) {
		options = NULL;
		ck_assert_int_eq(serve(bad[i], "x", &o, &options, &err), -EINVAL);
		ck_assert_ptr_null(options);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("mount_options");
	TCase *tc = tcase_create("words");
	tcase_add_test(tc, what_mount_and_systemd_add_is_ignored);
	tcase_add_test(tc, options_of_the_views_and_the_common_ones_are_words);
	tcase_add_test(tc, refresh_is_a_number_of_seconds);
	tcase_add_test(tc, unknown_words_are_errors_that_name_the_near_one);
	tcase_add_test(tc, the_kernel_gets_read_only_and_the_source_escaped_last);
	tcase_add_test(tc, allow_root_does_not_let_everybody_in);
	tcase_add_test(tc, users_are_names_or_numbers_and_umask_is_octal);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
