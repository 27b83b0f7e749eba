# Completions, the names mount(8) calls, and what goes into the tarball by folder.

dist_bashcompletion_DATA = %D%/completions/shardfuse
dist_zshcompletion_DATA = %D%/completions/_shardfuse
dist_fishcompletion_DATA = %D%/completions/shardfuse.fish

# `mount -t shardfuse` looks for mount.shardfuse; `mount -t fuse.shardfuse` needs only the program in PATH.
# The link is relative (../bin/shardfuse), so that it also holds below a DESTDIR and in an image.
install-exec-hook:
	$(MKDIR_P) '$(DESTDIR)$(sbindir)'
	cd '$(DESTDIR)$(sbindir)' && rm -f mount.shardfuse && to='$(bindir)/shardfuse' above='$(sbindir)' up= && \
	until case $$to in "$$above"/*) :;; *) false;; esac; do above=$${above%/*} up=../$$up; done && \
	$(LN_S) "$$up$${to#"$$above"/}" mount.shardfuse
uninstall-hook:
	rm -f '$(DESTDIR)$(sbindir)/mount.shardfuse'

# Headers, test data, scripts, documentation: whatever git would commit, or, from a tarball, whatever is there.
DIST_FOLDERS = src fuse tests contrib docs m4 .ci
dist-hook:
	cd '$(srcdir)' && here=$$(ls -d $(DIST_FOLDERS) 2>/dev/null); \
	if test -e .git; then git -c core.quotepath=off ls-files -co --exclude-standard $$here; \
	else find $$here ! -type d; fi | \
	while read -r f; do test ! -f "$$f" -a ! -h "$$f" || printf '%s\n' "$$f"; done | \
	tar -cf '$(abs_builddir)/dist-hook.tar' -T -
	cd '$(distdir)' && tar --no-same-permissions -xf '$(abs_builddir)/dist-hook.tar'
	rm -f dist-hook.tar

# What the benchmarks compare with and measure by; contrib/bench/bench.py runs them.
noinst_PROGRAMS += %D%/bench/load_metadata
%C%_bench_load_metadata_SOURCES = %D%/bench/load_metadata.c
%C%_bench_load_metadata_LDADD = libsf.la $(SF_LIBS)
noinst_PROGRAMS += %D%/bench/save_metadata
%C%_bench_save_metadata_SOURCES = %D%/bench/save_metadata.c
%C%_bench_save_metadata_LDADD = libsf.la $(SF_LIBS)
noinst_PROGRAMS += %D%/bench/save_plan
%C%_bench_save_plan_SOURCES = %D%/bench/save_plan.c
%C%_bench_save_plan_LDADD = libsf.la $(SF_LIBS)
noinst_PROGRAMS += %D%/bench/save_ranks
%C%_bench_save_ranks_SOURCES = %D%/bench/save_ranks.c
%C%_bench_save_ranks_LDADD = libsf.la $(SF_LIBS)
noinst_PROGRAMS += %D%/bench/object_server
%C%_bench_object_server_SOURCES = %D%/bench/object_server.c
if HAVE_CURL
noinst_PROGRAMS += %D%/bench/curl_receive
%C%_bench_curl_receive_SOURCES = %D%/bench/curl_receive.c
%C%_bench_curl_receive_CFLAGS = $(CURL_CFLAGS)
%C%_bench_curl_receive_LDADD = $(CURL_LIBS)
endif
if HAVE_FUSE
noinst_PROGRAMS += %D%/bench/onefile_server
%C%_bench_onefile_server_SOURCES = %D%/bench/onefile_server.c
%C%_bench_onefile_server_LDADD = $(FUSE_LIBS)
endif
