# Man pages are listed as they are written; the rest of docs/ goes into the tarball whole (contrib/local.mk).
dist_man_MANS += \
	%D%/man/shardfuse.1
