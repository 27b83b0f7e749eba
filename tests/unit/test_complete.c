#include "config.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/complete.h"
#include "sf_test.h"

struct mount_opt {
	struct sf_strs words;
	bool foreground;
};
static const struct sf_opt mount_options[] = {
	{ "options", 'o', SF_OPT_STRS, offsetof(struct mount_opt, words), NULL, "NAME[=VALUE],…",
	  "words" },
	{ "foreground", 'f', SF_OPT_FLAG, offsetof(struct mount_opt, foreground), NULL, NULL,
	  "stay" },
	{ 0 },
};
static const struct sf_opt mount_words[] = {
	{ "allow_other", 0, SF_OPT_FLAG, 0, NULL, NULL, "others" },
	{ 0 },
};
static const struct sf_cmd mount = { .name = "mount",
	                             .usage = "SOURCE MOUNTPOINT [-o NAME[=VALUE],…]",
	                             .about = "mount it",
	                             .options = mount_options,
	                             .words = mount_words,
	                             .opt_size = sizeof(struct mount_opt),
	                             .common = true,
	                             .view = true },
			   umount = { .name = "umount", .usage = "[-z] MOUNTPOINT…", .about = "" };
static const struct sf_cmd *const cmds[] = { &mount,         &umount,       &sf_cmd_info,
	                                     &sf_cmd_ls,     &sf_cmd_cat,   &sf_cmd_get,
	                                     &sf_cmd_export, &sf_cmd_verify };

/* "what|behind|word word …" of a line whose words are parted by blanks; a '+' behind beginnings, no
 * abouts. */
static const char *answer(const char *line)
{
	static char out[65536];
	char path[4096], *copy = strdup(line), *argv[32], *text = NULL;
	int argc = 0;
	size_t len = 0, n = 0;

	for (char *w = copy; w; argc++) {
		argv[argc] = w;
		w = strchr(w, ' ');
		if (w)
			*w++ = 0;
		if (strcmp(argv[argc], "CKPT") == 0)
			argv[argc] = (char *)(uintptr_t)sf_test_data(path, "dcp/fsdp4/ckpt");
	}
	FILE *f = open_memstream(&text, &len);
	ck_assert_int_eq(sf_complete(f, argc, argv, cmds, SF_ARRAY_LEN(cmds)), 0);
	fclose(f);
	out[0] = 0;
	for (const char *at = text; at < text + len; at += strlen(at) + 1, n++) {
		if (n >= 2 && (n - 2) % 3 == 1)
			continue;
		if (n >= 2 && (n - 2) % 3 == 0 && n > 2)
			strcat(out, " ");
		ck_assert_uint_lt(strlen(out) + strlen(at) + 3, sizeof(out));
		strcat(out, at);
		strcat(out, n < 2 ? "|" : "");
	}
	ck_assert_uint_eq((n - 2) % 3, 0);
	free(text);
	free(copy);
	return out;
}

START_TEST(the_usage_line_says_what_an_argument_is)
{
	ck_assert_str_eq(answer("u"), "dirs||umount");
	ck_assert_str_eq(answer("info "), "dirs||");
	ck_assert_str_eq(answer("info CKPT train."),
	                 "none||train.flags train.hist train.loss train.name train.step");
	ck_assert_str_eq(answer("info CKPT train.step "), "none||"); /* one KEY, no more */
	ck_assert_str_eq(answer("get CKPT train.step train.l"), "none||train.loss");
	ck_assert_str_eq(answer("cat CKPT checkpoint."),
	                 "none||checkpoint.pt checkpoint.safetensors");
	ck_assert_str_eq(answer("ls CKPT state/tr"), "none||state/train/+");
	ck_assert_str_eq(answer("ls CKPT state/train/step/val"),
	                 "none||state/train/step/value.json state/train/step/value.pt");
	ck_assert_str_eq(answer("ls CKPT nothing/x"), "none||");
	ck_assert_str_eq(answer("ls -l -R CKPT model.p"), "none||model.pt");
	ck_assert_str_eq(answer("export CKPT "), "files||");
	ck_assert_str_eq(answer("CKPT "), "dirs||");
	ck_assert_str_eq(answer("mount CKPT "), "dirs||");
	ck_assert_str_eq(answer("mount CKPT /mnt "), "none||");
	ck_assert_str_eq(answer("info /nonexistent/ckpt "), "none||");
	ck_assert_str_eq(answer("info s3://bucket/ckpt "), "none||");
	ck_assert_str_eq(answer("help inf"), "none||info");
}
END_TEST

START_TEST(options_and_their_values)
{
	ck_assert_str_eq(answer("get CKPT --outp"), "none||--output");
	ck_assert_str_eq(answer("get CKPT --format "), "none||npy pt safetensors raw json");
	ck_assert_str_eq(answer("get CKPT --format=j"), "none|--format=|--format=json");
	ck_assert_str_eq(answer("get CKPT --output "), "dirs||");
	ck_assert_str_eq(answer("get CKPT --output=x"), "dirs|--output=|");
	ck_assert_str_eq(answer("get CKPT -O "), "dirs||");
	ck_assert_str_eq(answer("get --format npy CKPT train.st"), "none||train.step");
	ck_assert_str_eq(answer("get --format=npy CKPT train.st"), "none||train.step");
	ck_assert_str_eq(answer("ls CKPT --key train.st"), "none||train.step");
	ck_assert_str_eq(answer("ls CKPT --views npy,sh"), "none|npy,|npy,shards");
	ck_assert_str_eq(answer("ls CKPT --no-such-option=x"), "none|--no-such-option=|");
	ck_assert_str_eq(answer("verify CKPT --expect "), "files||");
	ck_assert_str_eq(answer("verify CKPT --strict log"), "none||log_unexpected log_all");
	/* what begins with a dash is an option, until -- */
	ck_assert_str_eq(answer("info CKPT --js"), "none||--json");
	ck_assert_str_eq(answer("info CKPT -- --js"), "none||");
	ck_assert_str_eq(answer("info -- CKPT train.st"), "none||train.step");
}
END_TEST

START_TEST(names_are_those_that_the_options_before_make)
{
	ck_assert_str_eq(answer("info CKPT --map train=T tr"), "none||");
	ck_assert_str_eq(answer("info --map train=T CKPT T.st"), "none||T.step");
	ck_assert_str_eq(answer("get CKPT --map train=T --map T=no --format npy T.st"), "none||");
	ck_assert_str_eq(answer("get CKPT --map=train=T T.step T.lo"), "none||T.loss");
	ck_assert_str_eq(answer("ls CKPT --map train=T state/T"), "none||state/T/+");
	ck_assert_str_eq(answer("ls CKPT --views npy np"), "none||npy/+");
	ck_assert_str_eq(answer("ls CKPT --views npy chec"), "none||");
	ck_assert_str_eq(answer("info CKPT --ignore train.step train.st"), "none||");
	/* stored names, also of what is left out or shown under another one */
	ck_assert_str_eq(answer("info CKPT --map train=T --ignore train.step --key train.st"),
	                 "none||train.step");
	/* what the verb would refuse: what came before it counts */
	ck_assert_str_eq(answer("info CKPT --map train=T --no-such-option T.st"), "none||T.step");
	ck_assert_str_eq(answer("info CKPT --source-format nothing train.st"), "none||");
}
END_TEST

START_TEST(words_of_o)
{
	ck_assert_str_eq(answer("CKPT /mnt -o allow"), "none||allow_other");
	ck_assert_str_eq(answer("CKPT /mnt -o allow_other,dt"),
	                 "none|allow_other,|allow_other,dtype=+");
	ck_assert_str_eq(answer("CKPT /mnt -o allow_other,dtype=f"),
	                 "none|allow_other,dtype=|allow_other,dtype=fp16 allow_other,dtype=fp32");
	ck_assert_str_eq(answer("CKPT /mnt -o views=pt:np"), "none|views=pt:|views=pt:npy");
	ck_assert_str_eq(answer("CKPT /mnt -o key=a\\,b,mod"),
	                 "none|key=a\\,b,|key=a\\,b,model_only");
	ck_assert_str_eq(answer("CKPT /mnt -o fore"), "none||"); /* a flag of the command line */
	ck_assert_str_eq(answer("CKPT /mnt -o key=train.st"), "none|key=|key=train.step");
}
END_TEST

START_TEST(a_key_that_looks_like_an_option_comes_behind_two_dashes)
{
	char line[5000], path[4096];

	snprintf(line, sizeof(line), "info %s -rf", sf_test_data(path, "dcp/evil_names/ckpt"));
	ck_assert_str_eq(answer(line), "none||");
	snprintf(line, sizeof(line), "info -- %s -rf", sf_test_data(path, "dcp/evil_names/ckpt"));
	ck_assert_str_eq(answer(line), "none||-rf.o -rf.w");
	snprintf(line, sizeof(line), "info %s ", sf_test_data(path, "dcp/evil_names/ckpt"));
	ck_assert_ptr_nonnull(strstr(answer(line), " a b.o "));
	ck_assert_ptr_null(strstr(answer(line), " -rf"));
}
END_TEST

static void name(struct sf_names *l, const char *s)
{
	l->at = realloc(l->at, (l->n + 1) * sizeof(*l->at));
	l->at[l->n++] = (struct sf_name){ strdup(s), false };
}

static const char *folded(const char *names, const char *prefix, size_t many)
{
	static char out[512];
	SF_FREE char *copy = strdup(names);
	struct sf_names l = { 0 };

	for (char *save, *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		name(&l, w);
	sf_names_fold(&l, prefix, many);
	out[0] = 0;
	for (size_t i = 0; i < l.n; i++)
		snprintf(out + strlen(out), sizeof(out) - strlen(out), "%s%s%s", i ? " " : "",
		         l.at[i].text, l.at[i].more ? "+" : "");
	sf_names_release(&l);
	return out;
}

START_TEST(of_many_the_beginnings)
{
	const char *names = "b.y a.x a.x b.z.1 b.z.2 c c. a.xx";

	ck_assert_str_eq(folded(names, "", 7), "a.x a.xx b.y b.z.1 b.z.2 c c.");
	ck_assert_str_eq(folded(names, "", 6), "a.+ b.+ c c.");
	ck_assert_str_eq(folded("b.y b.z.1 b.z.2", "b.", 2), "b.y b.z.+");
	ck_assert_str_eq(folded("b.y b.z.1 b.z.2", "b", 2), "b.+");
	ck_assert_str_eq(folded("a/x a/y a.z", "", 2), "a.z a/+");
	ck_assert_str_eq(folded("a. a.b", "", 1), "a. a.b"); /* a name that ends there is one */
	ck_assert_str_eq(folded("", "", 0), "");
}
END_TEST

START_TEST(mounts_are_those_of_ours)
{
	static const char text[] =
		"23 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
		"36 23 0:50 / /mnt/a\\040b\\134 ro shared:9 master:1 - fuse.shardfuse /c\\040k ro\n"
		"37 23 0:51 / /mnt/other ro - fuse.sshfs x ro\n"
		"38 23 0:52 / /srv/c ro - fuse.shardfuse /c ro\n"
		"garbage\n"
		"39 23 0:53 / /short ro -\n"
		"40 23 junk / /mnt/junk ro - fuse.shardfuse /c ro\n"
		"41 23 0:54 / /mnt/none ro - fuse.shardfuse\n";
	FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
	struct sf_names l = { 0 };

	sf_names_mounts(&l, f, "/");
	ck_assert_uint_eq(l.n, 2);
	ck_assert_str_eq(l.at[0].text, "/mnt/a b\\");
	ck_assert_str_eq(l.at[1].text, "/srv/c");
	sf_names_release(&l);
	rewind(f);
	sf_names_mounts(&l, f, "/srv");
	ck_assert_uint_eq(l.n, 1);
	sf_names_release(&l);
	fclose(f);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("complete");
	TCase *tc = tcase_create("complete");

	tcase_add_test(tc, the_usage_line_says_what_an_argument_is);
	tcase_add_test(tc, options_and_their_values);
	tcase_add_test(tc, names_are_those_that_the_options_before_make);
	tcase_add_test(tc, words_of_o);
	tcase_add_test(tc, a_key_that_looks_like_an_option_comes_behind_two_dashes);
	tcase_add_test(tc, of_many_the_beginnings);
	tcase_add_test(tc, mounts_are_those_of_ours);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
