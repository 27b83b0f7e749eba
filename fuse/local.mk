# The program `shardfuse`: the verbs of src/cli and the mount.
bin_PROGRAMS += shardfuse
shardfuse_SOURCES = %D%/main.c

# What libfuse's versions lack is another file with the same symbols.
if HAVE_FUSE
# A convenience library, so that tests/fuse can serve a mount whose store is slow or fails.
noinst_LTLIBRARIES += libsffuse.la
libsffuse_la_SOURCES = \
	%D%/auto_unmount.c \
	%D%/control.c \
	%D%/fs_dir.c \
	%D%/fs_fail.c \
	%D%/fs_open.c \
	%D%/fs_ops.c \
	%D%/fs_read.c \
	%D%/fs_size.c \
	%D%/fs_wait.c \
	%D%/mount.c \
	%D%/mount_notes.c \
	%D%/mount_options.c \
	%D%/mountpoint.c \
	%D%/open_table.c \
	%D%/prefetch.c \
	%D%/serve.c \
	%D%/slot.c \
	%D%/status.c \
	%D%/steps.c \
	%D%/umount.c
if HAVE_FUSE_CUSTOM_IO
libsffuse_la_SOURCES += %D%/kernel_init.c
else
libsffuse_la_SOURCES += %D%/kernel_init_none.c
endif
shardfuse_LDADD = libsffuse.la libsf.la $(FUSE_LIBS) $(SF_LIBS)
else
noinst_LTLIBRARIES += libsffuse.la
libsffuse_la_SOURCES = %D%/mount_none.c %D%/mount_options.c
shardfuse_LDADD = libsffuse.la libsf.la $(SF_LIBS)
endif
EXTRA_DIST += %D%/auto_unmount.h %D%/control.h %D%/fs_ops.h %D%/kernel_init.h %D%/mount.h %D%/mount_notes.h %D%/mount_options.h %D%/mountpoint.h %D%/open_table.h %D%/prefetch.h \
	%D%/serve.h %D%/slot.h %D%/steps.h %D%/kernel_init.c %D%/kernel_init_none.c %D%/mount_none.c
