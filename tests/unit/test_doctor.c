#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/doctor_mount.h"
#include "cli/doctor_system.h"
#include "sf_test.h"

/* The program that doctor starts is this one: what it does is in the environment. */
static int be_the_daemon(int argc, char **argv)
{
	const char *how = getenv("SF_TEST_DAEMON");

	if (strcmp(argv[1], "umount") == 0)
		return 1;
	if (argc != 6 || strcmp(argv[2], "-f") != 0 || !how) {
		fprintf(stderr, "called in another way\n");
		return 1;
	}
	if (strcmp(how, "words") == 0) {
		fprintf(stderr, "fusermount3: mount failed: Operation not permitted\n"
		                "shardfuse: cannot mount\n");
		return 1;
	}
	if (strcmp(how, "last") == 0) {
		fprintf(stderr, "a warning\nshardfuse: /dev/fuse: gone\n");
		return 1;
	}
	if (strcmp(how, "silent") == 0)
		return 1;
	/* "hang" and "answer" tell their pid; a file in the mountpoint's place answers */
	FILE *f = fopen(getenv("SF_TEST_PID"), "w");
	fprintf(f, "%d", (int)getpid());
	fclose(f);
	if (strcmp(how, "hang") == 0)
		signal(SIGTERM, SIG_IGN);
	if (strcmp(how, "answer") == 0) {
		if (rmdir(argv[5]) < 0 || symlink(getenv("SF_TEST_TREE"), argv[5]) < 0)
			return 1;
	}
	for (;;)
		pause();
}

static char dir[64], pid_file[128];

/* An empty $TMPDIR, and where the daemon leaves its pid. */
static void begin(const char *how)
{
	char inside[128];

	strcpy(dir, "/tmp/sf-doctor-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(inside, sizeof(inside), "%s/tmp", dir);
	ck_assert_int_eq(mkdir(inside, 0700), 0);
	snprintf(pid_file, sizeof(pid_file), "%s/pid", dir);
	setenv("TMPDIR", inside, 1);
	setenv("SF_TEST_PID", pid_file, 1);
	setenv("SF_TEST_DAEMON", how, 1);
}

static int entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n - 2;
}

static void daemon_is_gone(void)
{
	FILE *f = fopen(pid_file, "r");
	int pid = 0;

	ck_assert_ptr_nonnull(f);
	ck_assert_int_eq(fscanf(f, "%d", &pid), 1);
	fclose(f);
	ck_assert_int_eq(kill(pid, 0), -1);
	ck_assert_int_eq(errno, ESRCH);
	unlink(pid_file);
}

static void end(void)
{
	ck_assert_int_eq(entries(getenv("TMPDIR")), 0); /* all is taken away again */
	rmdir(getenv("TMPDIR"));
	rmdir(dir);
}

START_TEST(what_the_daemon_said_is_the_reason)
{
	static const struct {
		const char *how, *why;
	} t[] = {
		{ "words", "fusermount3: mount failed: Operation not permitted" },
		{ "last", "/dev/fuse: gone" },
		{ "silent", "the daemon ended without a word" },
	};
	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++) {
		struct sf_error err = SF_ERROR_INIT;
		begin(t[i].how);
		ck_assert_int_eq(sf_doctor_mount(SF_DOCTOR_MOUNT_MS, &err), -EIO);
		ck_assert_str_eq(err.msg, t[i].why);
		end();
	}
}
END_TEST

START_TEST(a_daemon_that_hangs_is_ended)
{
	struct sf_error err = SF_ERROR_INIT;

	begin("hang");
	ck_assert_int_eq(sf_doctor_mount(500, &err), -ETIMEDOUT);
	ck_assert_str_eq(err.msg, "a mount did not answer within 0.5 s");
	daemon_is_gone();
	end();
}
END_TEST

START_TEST(a_mount_that_answers_is_taken_away)
{
	struct sf_error err = SF_ERROR_INIT;
	char tree[128], sub[160], file[192];

	begin("answer");
	snprintf(tree, sizeof(tree), "%s/tree", dir);
	snprintf(sub, sizeof(sub), "%s/npy", tree);
	snprintf(file, sizeof(file), "%s/x.npy", sub);
	ck_assert(mkdir(tree, 0700) == 0 && mkdir(sub, 0700) == 0);
	int fd = open(file, O_WRONLY | O_CREAT, 0600);
	ck_assert_int_eq(write(fd, "x", 1), 1);
	close(fd);
	setenv("SF_TEST_TREE", tree, 1);
	ck_assert_msg(sf_doctor_mount(SF_DOCTOR_MOUNT_MS, &err) == 0, "%s", err.msg);
	daemon_is_gone();
	/* the symlink that stood for the mount: a real one is a directory again by now */
	char left[256];
	DIR *d = opendir(getenv("TMPDIR"));
	for (struct dirent *e; (e = readdir(d));)
		if (e->d_name[0] != '.') {
			snprintf(left, sizeof(left), "%s/%.64s/mnt", getenv("TMPDIR"), e->d_name);
			ck_assert_int_eq(unlink(left), 0);
			*strrchr(left, '/') = 0;
			ck_assert_int_eq(rmdir(left), 0);
		}
	closedir(d);
	unlink(file);
	rmdir(sub);
	rmdir(tree);
	end();
}
END_TEST

START_TEST(no_room_for_a_directory_is_said)
{
	struct sf_error err = SF_ERROR_INIT;

	setenv("TMPDIR", "/nonexistent", 1);
	ck_assert_int_eq(sf_doctor_mount(SF_DOCTOR_MOUNT_MS, &err), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.msg, "/nonexistent"));
}
END_TEST

START_TEST(remedies_are_of_this_system)
{
	static const struct {
		const char *text, *name, *install, *again;
	} t[] = {
		{ "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n",
		  "Debian GNU/Linux 12 (bookworm)", "apt-get install a",
		  "apt-get install --reinstall a" },
		{ "ID=linuxmint\nID_LIKE=\"ubuntu debian\"\nPRETTY_NAME='Linux Mint 22'\n",
		  "Linux Mint 22", "apt-get install a", "apt-get install --reinstall a" },
		{ "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n", "unknown (no os-release)",
		  "dnf install b", "dnf reinstall b" },
		{ "ID=fedora\n", "unknown (no os-release)", "dnf install b", "dnf reinstall b" },
		{ "ID=arch\n", "unknown (no os-release)", "pacman -S b", "pacman -S b" },
		{ "ID=other\n", "unknown (no os-release)",
		  "install the package (Debian, Ubuntu: a; Fedora: b)",
		  "install the package (Debian, Ubuntu: a; Fedora: b)" },
	};
	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++) {
		char path[] = "/tmp/sf-os-release-XXXXXX", buf[128];
		struct sf_system s;
		int fd = mkstemp(path);
		ck_assert_int_eq(write(fd, t[i].text, strlen(t[i].text)),
		                 (ssize_t)strlen(t[i].text));
		close(fd);
		sf_system_look(&s, path);
		unlink(path);
		s.root = true;
		ck_assert_str_eq(s.name, t[i].name);
		ck_assert_str_eq(sf_system_install(&s, false, "a", "b", buf, sizeof(buf)),
		                 t[i].install);
		ck_assert_str_eq(sf_system_install(&s, true, "a", "b", buf, sizeof(buf)),
		                 t[i].again);
		s.root = false;
		sf_system_install(&s, false, "a", "b", buf, sizeof(buf));
		ck_assert_int_eq(strncmp(buf, "sudo ", 5) == 0, s.install != NULL);
	}
}
END_TEST

START_TEST(a_container_is_told_how_it_gets_the_device)
{
	struct sf_system s;

	setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1);
	sf_system_look(&s, "/dev/null");
	ck_assert_str_eq(s.container, "kubernetes");
	ck_assert_ptr_nonnull(strstr(sf_system_device(&s), "privileged: true"));
	s.container = "docker";
	ck_assert_ptr_nonnull(strstr(sf_system_device(&s), "docker run --device /dev/fuse"));
	ck_assert_ptr_nonnull(strstr(sf_system_right(&s), "docker run --cap-add SYS_ADMIN"));
	s.container = "podman";
	ck_assert_ptr_nonnull(strstr(sf_system_device(&s), "podman run --device /dev/fuse"));
	s.container = NULL;
	ck_assert_ptr_nonnull(strstr(sf_system_device(&s), "modprobe fuse"));
}
END_TEST

int main(int argc, char **argv)
{
	if (argc > 1)
		return be_the_daemon(argc, argv);
	Suite *s = suite_create("doctor");
	TCase *tc = tcase_create("doctor");

	tcase_set_timeout(tc, 30);
	tcase_add_test(tc, what_the_daemon_said_is_the_reason);
	tcase_add_test(tc, a_daemon_that_hangs_is_ended);
	tcase_add_test(tc, a_mount_that_answers_is_taken_away);
	tcase_add_test(tc, no_room_for_a_directory_is_said);
	tcase_add_test(tc, remedies_are_of_this_system);
	tcase_add_test(tc, a_container_is_told_how_it_gets_the_device);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
