# Man pages and documents are listed as they are written. Documents keep their places below docdir, so that links in README.md hold.
dist_man_MANS += \
	%D%/man/mount.shardfuse.8 \
	%D%/man/shardfuse-mpi.1 \
	%D%/man/shardfuse.1 \
	%D%/man/shardfuse.h.3

docsdir = $(docdir)/docs
dist_docs_DATA = \
	%D%/architecture.md \
	%D%/benchmarks.md \
	%D%/faq.md \
	%D%/operations.md \
	%D%/semantics.md
docsformatsdir = $(docdir)/docs/formats
dist_docsformats_DATA = \
	%D%/formats/README.md \
	%D%/formats/dcp.md \
	%D%/formats/deepspeed.md \
	%D%/formats/megatron.md \
	%D%/formats/olmo-core.md \
	%D%/formats/rankfiles.md \
	%D%/formats/unread.md
