# A test program is its name below; its one source is NAME.c. tests/unit/test_FILE.c tests FILE.c.

TESTS_UNIT = \
	%D%/unit/test_atomic_file \
	%D%/unit/test_megatron_names \
	%D%/unit/test_mem \
	%D%/unit/test_arena \
	%D%/unit/test_aws_chain \
	%D%/unit/test_aws_config \
	%D%/unit/test_aws_credentials \
	%D%/unit/test_bucket_dirs \
	%D%/unit/test_budget \
	%D%/unit/test_buf \
	%D%/unit/test_cache \
	%D%/unit/test_cache_at_once \
	%D%/unit/test_cache_counts \
	%D%/unit/test_cache_dir \
	%D%/unit/test_cache_drop \
	%D%/unit/test_cache_lend \
	%D%/unit/test_cache_map \
	%D%/unit/test_cache_no_room \
	%D%/unit/test_cache_on_disk \
	%D%/unit/test_cache_room \
	%D%/unit/test_cache_sweep \
	%D%/unit/test_cache_whole \
	%D%/unit/test_catalog \
	%D%/unit/test_catalog_map \
	%D%/unit/test_ckpt_builder \
	%D%/unit/test_ckpt_version \
	%D%/unit/test_ckpt_check \
	%D%/unit/test_ckpt_cover \
	%D%/unit/test_ckpt_group \
	%D%/unit/test_ckpt_notes \
	%D%/unit/test_common \
	%D%/unit/test_complete \
	%D%/unit/test_copy_out \
	%D%/unit/test_clock \
	%D%/unit/test_coalesce \
	%D%/unit/test_codec \
	%D%/unit/test_columns \
	%D%/unit/test_counters \
	%D%/unit/test_damage \
	%D%/unit/test_doctor \
	%D%/unit/test_disk_room \
	%D%/unit/test_dtype \
	%D%/unit/test_dtype_text \
	%D%/unit/test_error \
	%D%/unit/test_expect \
	%D%/unit/test_gs_credentials \
	%D%/unit/test_gs_list \
	%D%/unit/test_guard \
	%D%/unit/test_hash \
	%D%/unit/test_iov \
	%D%/unit/test_item_cache \
	%D%/unit/test_item_turn \
	%D%/unit/test_join_rules \
	%D%/unit/test_json \
	%D%/unit/test_facts \
	%D%/unit/test_library \
	%D%/unit/test_library_boxes \
	%D%/unit/test_library_store \
	%D%/unit/test_key_index \
	%D%/unit/test_key_match \
	%D%/unit/test_key_near \
	%D%/unit/test_key_slice \
	%D%/unit/test_layout \
	%D%/unit/test_log \
	%D%/unit/test_log_limit \
	%D%/unit/test_lru \
	%D%/unit/test_map \
	%D%/unit/test_map_file \
	%D%/unit/test_map_pick \
	%D%/unit/test_memory_limit \
	%D%/unit/test_mountinfo \
	%D%/unit/test_near \
	%D%/unit/test_npy \
	%D%/unit/test_object \
	%D%/unit/test_object_line \
	%D%/unit/test_open_files \
	%D%/unit/test_fd_budget \
	%D%/unit/test_options \
	%D%/unit/test_out_list \
	%D%/unit/test_page_pool \
	%D%/unit/test_pages \
	%D%/unit/test_parallel \
	%D%/unit/test_path \
	%D%/unit/test_pickle_read \
	%D%/unit/test_pickle_write \
	%D%/unit/test_pickle_write_tensor \
	%D%/unit/test_pt_numbers \
	%D%/unit/test_dcp_meta_write \
	%D%/unit/test_deadline \
	%D%/unit/test_device_caller \
	%D%/unit/test_plan \
	%D%/unit/test_plan_agree \
	%D%/unit/test_read_boxes \
	%D%/unit/test_read_window \
	%D%/unit/test_renew \
	%D%/unit/test_read_budget \
	%D%/unit/test_plan_box \
	%D%/unit/test_batch \
	%D%/unit/test_quote \
	%D%/unit/test_far_counts \
	%D%/unit/test_far_headers \
	%D%/unit/test_far_loads \
	%D%/unit/test_far_placed \
	%D%/unit/test_far_reads \
	%D%/unit/test_far_whole \
	%D%/unit/test_hedge \
	%D%/unit/test_readahead \
	%D%/unit/test_reshard_plan \
	%D%/unit/test_filter \
	%D%/unit/test_reader \
	%D%/unit/test_read_pieces \
	%D%/unit/test_reader_items \
	%D%/unit/test_save_stage \
	%D%/unit/test_save_target \
	%D%/unit/test_save_target_object \
	%D%/unit/test_save_write \
	%D%/unit/test_save_item_bytes \
	%D%/unit/test_save \
	%D%/unit/test_save_counters \
	%D%/unit/test_save_values \
	%D%/unit/test_session \
	%D%/unit/test_sessions \
	%D%/unit/test_save_item \
	%D%/unit/test_save_item_object \
	%D%/unit/test_save_layout \
	%D%/unit/test_save_plan \
	%D%/unit/test_s3_list \
	%D%/unit/test_s3_place \
	%D%/unit/test_s3_sign \
	%D%/unit/test_sha256 \
	%D%/unit/test_share \
	%D%/unit/test_shared \
	%D%/unit/test_turns \
	%D%/unit/test_shared_limits \
	%D%/unit/test_progress \
	%D%/unit/test_run \
	%D%/unit/test_run_dir \
	%D%/unit/test_http_retry \
	%D%/unit/test_hub_revision \
	%D%/unit/test_source_ahead \
	%D%/unit/test_unpack \
	%D%/unit/test_upload \
	%D%/unit/test_url \
	%D%/unit/test_safetensors \
	%D%/unit/test_save_tree \
	%D%/unit/test_st_embed \
	%D%/unit/test_st_skipped \
	%D%/unit/test_st_file_plan \
	%D%/unit/test_source \
	%D%/unit/test_source_wait \
	%D%/unit/test_source_file \
	%D%/unit/test_source_slice \
	%D%/unit/test_stats \
	%D%/unit/test_store_file \
	%D%/unit/test_store_gs \
	%D%/unit/test_table \
	%D%/unit/test_tar \
	%D%/unit/test_thread_pool \
	%D%/unit/test_torch_archive \
	%D%/unit/test_torch_file_plan \
	%D%/unit/test_torch_item \
	%D%/unit/test_tree \
	%D%/unit/test_tree_hf \
	%D%/unit/test_tree_cache \
	%D%/unit/test_tree_links \
	%D%/unit/test_tree_random \
	%D%/unit/test_tree_slices \
	%D%/unit/test_value_class \
	%D%/unit/test_value_diff \
	%D%/unit/test_value_json \
	%D%/unit/test_values \
	%D%/unit/test_vfile \
	%D%/unit/test_view_hf \
	%D%/unit/test_hf_companions \
	%D%/unit/test_view_json \
	%D%/unit/test_view_npy \
	%D%/unit/test_view_pt \
	%D%/unit/test_view_pt_objects \
	%D%/unit/test_view_safetensors \
	%D%/unit/test_warm \
	%D%/unit/test_write_file \
	%D%/unit/test_write_set \
	%D%/unit/test_write_interrupt \
	%D%/unit/test_write_parts \
	%D%/unit/test_xml \
	%D%/unit/test_zarr \
	%D%/unit/test_zip_read \
	%D%/unit/test_zip_write \
	%D%/unit/test_zstd

# what needs a transport
if HAVE_CURL
TESTS_UNIT += %D%/unit/test_credentials_end %D%/unit/test_outage %D%/unit/test_http_names %D%/unit/test_remote %D%/unit/test_s3_park %D%/unit/test_s3_put %D%/unit/test_wiped
endif

TESTS_FORMAT = \
	%D%/format/test_dcp_edges \
	%D%/format/test_dcp_meta \
	%D%/format/test_format_dcp \
	%D%/format/test_dcp_damage \
	%D%/format/test_composite \
	%D%/format/test_deepspeed \
	%D%/format/test_far_looks \
	%D%/format/test_inside \
	%D%/format/test_megatron \
	%D%/format/test_megatron_legacy \
	%D%/format/test_megatron_zarr \
	%D%/format/test_negated \
	%D%/format/test_olmo \
	%D%/format/test_rankfiles \
	%D%/format/test_roles \
	%D%/format/test_seam_cast \
	%D%/format/test_seam_fill \
	%D%/format/test_seam_layouts \
	%D%/format/test_seam_said \
	%D%/format/test_seam_streams \
	%D%/format/test_seams \
	%D%/format/test_seams_values \
	%D%/format/test_subclass \
	%D%/format/test_torch \
	%D%/format/test_torch_lower \
	%D%/format/test_unread \
	%D%/format/test_hf_parts

TESTS_FAULT = \
	%D%/fault/test_cache_faults \
	%D%/fault/test_cache_floor \
	%D%/fault/test_cache_full \
	%D%/fault/test_cache_kill \
	%D%/fault/test_cache_slow \
	%D%/fault/test_builder_faults \
	%D%/fault/test_save_bytes_faults \
	%D%/fault/test_save_plan_faults \
	%D%/fault/test_save_tree_faults \
	%D%/fault/test_save_kill \
	%D%/fault/test_seam_faults \
	%D%/fault/test_store_faults \
	%D%/fault/test_load_faults \
	%D%/fault/test_reader_faults
if HAVE_CURL
TESTS_FAULT += %D%/fault/test_remote_faults %D%/fault/test_s3_faults
endif

# the n-th call that changes what is on disk fails, or is the last
syscall_fault_ldflags = $(AM_LDFLAGS) \
	-Wl,--wrap=mkdir,--wrap=mkdirat,--wrap=fallocate,--wrap=fallocate64,--wrap=pwritev,--wrap=pwritev64 \
	-Wl,--wrap=pwrite,--wrap=pwrite64 \
	-Wl,--wrap=fsync,--wrap=fdatasync,--wrap=renameat,--wrap=renameat2,--wrap=unlinkat,--wrap=flock \
	-Wl,--wrap=close,--wrap=open,--wrap=open64,--wrap=openat,--wrap=openat64
%C%_unit_test_save_target_LDFLAGS = $(syscall_fault_ldflags)
%C%_fault_test_save_kill_LDFLAGS = $(syscall_fault_ldflags)

# the n-th allocation fails
%C%_fault_test_reader_faults_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=posix_memalign

%C%_fault_test_cache_slow_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pwrite -Wl,--wrap=pwrite64
%C%_fault_test_cache_faults_SOURCES = %D%/fault/test_cache_faults.c %D%/fuzz/fz_malloc.c %D%/fuzz/fz_malloc.h
%C%_fault_test_cache_faults_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=posix_memalign,--wrap=strdup,--wrap=strndup
%C%_fault_test_builder_faults_SOURCES = %D%/fault/test_builder_faults.c %D%/fuzz/fz_malloc.c %D%/fuzz/fz_malloc.h
%C%_fault_test_seam_faults_SOURCES = %D%/fault/test_seam_faults.c %D%/fuzz/fz_malloc.c %D%/fuzz/fz_malloc.h
%C%_fault_test_seam_faults_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=posix_memalign,--wrap=strdup,--wrap=strndup
%C%_fault_test_save_tree_faults_SOURCES = %D%/fault/test_save_tree_faults.c %D%/fuzz/fz_malloc.c %D%/fuzz/fz_malloc.h
%C%_fault_test_save_tree_faults_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=clock_gettime \
	-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=posix_memalign,--wrap=strdup,--wrap=strndup
%C%_fault_test_save_bytes_faults_SOURCES = %D%/fault/test_save_bytes_faults.c %D%/fuzz/fz_malloc.c %D%/fuzz/fz_malloc.h
%C%_fault_test_save_bytes_faults_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=posix_memalign,--wrap=strdup,--wrap=strndup
%C%_fault_test_save_plan_faults_SOURCES = %D%/fault/test_save_plan_faults.c %D%/fuzz/fz_malloc.c %D%/fuzz/fz_malloc.h
%C%_fault_test_save_plan_faults_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=posix_memalign,--wrap=strdup,--wrap=strndup
%C%_unit_test_wiped_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=free -Wl,--wrap=realloc
%C%_fault_test_store_faults_SOURCES = %D%/fault/test_store_faults.c %D%/fuzz/fz_malloc.c %D%/fuzz/fz_malloc.h
%C%_fault_test_store_faults_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=posix_memalign,--wrap=strdup,--wrap=strndup
%C%_fault_test_builder_faults_LDFLAGS = $(AM_LDFLAGS) \
	-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=posix_memalign,--wrap=strdup,--wrap=strndup

# a clock that the test moves
%C%_unit_test_save_tree_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=clock_gettime
%C%_unit_test_hf_companions_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=preadv,--wrap=preadv2
# the kernel answers in part, or not at once
%C%_unit_test_source_file_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=preadv,--wrap=preadv2,--wrap=mincore,--wrap=fstatfs
# a file system without O_TMPFILE
%C%_unit_test_atomic_file_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=open,--wrap=open64,--wrap=fsync
%C%_unit_test_write_interrupt_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=open,--wrap=open64
%C%_unit_test_write_file_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pwritev
%C%_unit_test_write_set_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=fsync

# What tests alone need of C: linked where it is used.
noinst_LTLIBRARIES += libsftest.la
libsftest_la_SOURCES = %D%/lib/file_range.c %D%/lib/http_server.c %D%/lib/put_mem.c %D%/lib/sigv4_check.c %D%/lib/source_fault.c %D%/lib/source_stats.c %D%/lib/store_far.c %D%/lib/store_mem.c
LDADD = libsftest.la libsf.la $(CHECK_LIBS)

# Saves from CUDA memory: a runtime without a GPU, found as the real one is.
if HAVE_CHECK
if HAVE_CUDA
check_LTLIBRARIES += %D%/lib/fake_cudart.la
check_PROGRAMS += %D%/unit/test_device_cuda %D%/gpu/test_gpu_save
TESTS += %D%/unit/test_device_cuda %D%/gpu/test_gpu_save
endif
endif
%C%_lib_fake_cudart_la_SOURCES = %D%/lib/fake_cudart.c
%C%_lib_fake_cudart_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere
EXTRA_DIST += %D%/lib/box_world.h %D%/lib/fake_cudart.h

# What a mount answers while storage is slow or fails; these skip themselves where /dev/fuse is missing.
TESTS_FUSE = \
	%D%/fuse/test_mount_answers \
	%D%/fuse/test_mount_slots \
	%D%/fuse/test_mount_starves \
	%D%/fuse/test_mount_waits \
	%D%/unit/test_fs_errno \
	%D%/unit/test_fs_init \
	%D%/unit/test_ask \
	%D%/unit/test_mount_options \
	%D%/unit/test_mountpoint \
	%D%/unit/test_open_table \
	%D%/unit/test_prefetch_rule \
	%D%/unit/test_slot \
	%D%/unit/test_steps
if HAVE_FUSE_CUSTOM_IO
TESTS_FUSE += %D%/unit/test_kernel_init
endif

if HAVE_CHECK
if HAVE_FUSE
check_PROGRAMS += $(TESTS_FUSE)
TESTS += $(TESTS_FUSE)
endif
endif
fuse_test_libs = libsftest.la libsffuse.la libsf.la $(FUSE_LIBS) $(CHECK_LIBS)
%C%_fuse_test_mount_answers_LDADD = $(fuse_test_libs)
# an interrupt comes at the worst moment
%C%_fuse_test_mount_answers_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=fuse_req_interrupt_func
%C%_fuse_test_mount_slots_LDADD = $(fuse_test_libs)
%C%_fuse_test_mount_starves_LDADD = $(fuse_test_libs)
%C%_fuse_test_mount_waits_LDADD = $(fuse_test_libs)
%C%_unit_test_fs_errno_LDADD = $(fuse_test_libs)
%C%_unit_test_fs_init_LDADD = $(fuse_test_libs)
%C%_unit_test_ask_LDADD = $(fuse_test_libs)
%C%_unit_test_kernel_init_LDADD = $(fuse_test_libs)
%C%_unit_test_mount_options_LDADD = $(fuse_test_libs)
%C%_unit_test_mountpoint_LDADD = $(fuse_test_libs)
%C%_unit_test_mountpoint_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=strdup
%C%_unit_test_open_table_LDADD = $(fuse_test_libs)
%C%_unit_test_prefetch_rule_LDADD = $(fuse_test_libs)
%C%_unit_test_slot_LDADD = $(fuse_test_libs)
%C%_unit_test_steps_LDADD = $(fuse_test_libs)
%C%_unit_test_library_LDADD = libshardfuse.la $(CHECK_LIBS)
%C%_unit_test_library_boxes_LDADD = libshardfuse.la $(CHECK_LIBS)

# What runs on several ranks, by mpirun; these skip themselves where it is missing.
if HAVE_MPI
check_PROGRAMS += %D%/mpi/mpi_comm %D%/mpi/mpi_save
TESTS += %D%/mpi/test_comm_mpi.sh %D%/mpi/test_save_mpi.sh %D%/mpi/test_examples.sh %D%/mpi/test_ranks.sh
endif
%C%_mpi_mpi_comm_LDADD = libsfmpi.la libsf.la $(MPI_LIBS)
# the public libraries alone
%C%_mpi_mpi_save_LDADD = libshardfuse-mpi.la libshardfuse.la $(MPI_LIBS)

# Fuzzers: libFuzzer's main with --enable-fuzzing, else one that replays the corpus and damaged copies of it.
TESTS_FUZZ = \
	%D%/fuzz/fuzz_whole \
	%D%/fuzz/fuzz_aws \
	%D%/fuzz/fuzz_cache \
	%D%/fuzz/fuzz_dcp_meta \
	%D%/fuzz/fuzz_gs \
	%D%/fuzz/fuzz_json \
	%D%/fuzz/fuzz_options \
	%D%/fuzz/fuzz_pickle \
	%D%/fuzz/fuzz_s3_list \
	%D%/fuzz/fuzz_safetensors \
	%D%/fuzz/fuzz_save_plan \
	%D%/fuzz/fuzz_tar \
	%D%/fuzz/fuzz_torch_archive \
	%D%/fuzz/fuzz_torch_index \
	%D%/fuzz/fuzz_torch_item \
	%D%/fuzz/fuzz_unpack \
	%D%/fuzz/fuzz_url \
	%D%/fuzz/fuzz_zarr \
	%D%/fuzz/fuzz_zip \
	%D%/fuzz/fuzz_zstd

if FUZZING
fuzz_main =
fuzz_files = %D%/fuzz/fz_files.c %D%/fuzz/fz_files.h
fuzz_ldflags = $(AM_LDFLAGS) -fsanitize=fuzzer
noinst_PROGRAMS += $(TESTS_FUZZ)
else
fuzz_main = %D%/fuzz/replay.c %D%/fuzz/fz_files.c %D%/fuzz/fz_files.h
fuzz_files =
fuzz_ldflags = $(AM_LDFLAGS)
if HAVE_CHECK
check_PROGRAMS += $(TESTS_FUZZ)
TESTS += $(TESTS_FUZZ)
endif
endif

# Behind those that take longest, so that no core waits for one of them at the end.
if HAVE_CHECK
check_PROGRAMS += $(TESTS_UNIT) $(TESTS_FORMAT) $(TESTS_FAULT)
TESTS += $(TESTS_UNIT) $(TESTS_FORMAT) $(TESTS_FAULT)
endif

%C%_fuzz_fuzz_whole_SOURCES = \
	%D%/fuzz/fuzz_whole.c \
	%D%/fuzz/whole_visit.c \
	%D%/fuzz/whole_visit.h \
	%D%/fuzz/whole_parse.c \
	$(fuzz_files) \
	%D%/fuzz/fz_malloc.c \
	%D%/fuzz/fz_malloc.h \
	%D%/fuzz/whole_mutate.c \
	$(fuzz_mutate) \
	$(fuzz_main)
%C%_fuzz_fuzz_whole_LDFLAGS = $(fuzz_ldflags) \
	-Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=posix_memalign,--wrap=strdup,--wrap=strndup
fuzz_mutate = \
	%D%/fuzz/fz_mutate.c \
	%D%/fuzz/fz_mutate_pickle.c \
	%D%/fuzz/fz_mutate.h
%C%_fuzz_fuzz_options_SOURCES = \
	%D%/fuzz/fuzz_options.c \
	%D%/fuzz/whole_visit.c \
	%D%/fuzz/whole_visit.h \
	%D%/fuzz/whole_parse.c \
	$(fuzz_files) \
	$(fuzz_main)
%C%_fuzz_fuzz_options_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_fuzz_options_LDADD = $(fuse_test_libs)
%C%_fuzz_fuzz_dcp_meta_SOURCES = %D%/fuzz/fuzz_dcp_meta.c $(fuzz_mutate) $(fuzz_main)
%C%_fuzz_fuzz_dcp_meta_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_fuzz_zstd_SOURCES = %D%/fuzz/fuzz_zstd.c $(fuzz_main)
%C%_fuzz_fuzz_zstd_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_fuzz_tar_SOURCES = %D%/fuzz/fuzz_tar.c $(fuzz_main)
%C%_fuzz_fuzz_tar_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_fuzz_torch_index_SOURCES = %D%/fuzz/fuzz_torch_index.c $(fuzz_main)
%C%_fuzz_fuzz_torch_index_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_fuzz_unpack_SOURCES = %D%/fuzz/fuzz_unpack.c $(fuzz_main)
%C%_fuzz_fuzz_unpack_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_fuzz_zarr_SOURCES = %D%/fuzz/fuzz_zarr.c $(fuzz_main)
%C%_fuzz_fuzz_zarr_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_fuzz_zip_SOURCES = %D%/fuzz/fuzz_zip.c $(fuzz_main)
%C%_fuzz_fuzz_zip_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_fuzz_torch_archive_SOURCES = %D%/fuzz/fuzz_torch_archive.c $(fuzz_mutate) $(fuzz_main)
%C%_fuzz_fuzz_torch_archive_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_fuzz_torch_item_SOURCES = %D%/fuzz/fuzz_torch_item.c $(fuzz_main)
%C%_fuzz_fuzz_torch_item_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_fuzz_safetensors_SOURCES = %D%/fuzz/fuzz_safetensors.c $(fuzz_main)
%C%_fuzz_fuzz_safetensors_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_fuzz_save_plan_SOURCES = %D%/fuzz/fuzz_save_plan.c $(fuzz_main)
%C%_fuzz_fuzz_save_plan_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_fuzz_pickle_SOURCES = %D%/fuzz/fuzz_pickle.c $(fuzz_mutate) $(fuzz_main)
%C%_fuzz_fuzz_pickle_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_fuzz_s3_list_SOURCES = %D%/fuzz/fuzz_s3_list.c $(fuzz_main)
%C%_fuzz_fuzz_s3_list_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_fuzz_url_SOURCES = %D%/fuzz/fuzz_url.c $(fuzz_main)
%C%_fuzz_fuzz_url_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_fuzz_aws_SOURCES = %D%/fuzz/fuzz_aws.c $(fuzz_main)
%C%_fuzz_fuzz_aws_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_fuzz_cache_SOURCES = %D%/fuzz/fuzz_cache.c $(fuzz_main)
%C%_fuzz_fuzz_cache_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_fuzz_gs_SOURCES = %D%/fuzz/fuzz_gs.c $(fuzz_main)
%C%_fuzz_fuzz_gs_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_fuzz_json_SOURCES = %D%/fuzz/fuzz_json.c $(fuzz_main)
%C%_fuzz_fuzz_json_LDFLAGS = $(fuzz_ldflags)

# A directory as one input of fuzz_whole.
check_PROGRAMS += %D%/tool_fuzz_pack
%C%_tool_fuzz_pack_SOURCES = %D%/tool_fuzz_pack.c %D%/fuzz/fz_files.c %D%/fuzz/fz_files.h

# What interop tests in Python drive: values written again, an archive written by us.
check_PROGRAMS += %D%/tool_aws_credentials %D%/tool_repickle %D%/tool_s3_sign %D%/tool_save %D%/tool_save_bytes %D%/tool_upload %D%/tool_write_pt %D%/tool_write_st

TESTS += contrib/check-layers.sh contrib/check-docs.sh contrib/check-circles.sh contrib/check-headers.sh contrib/check-library.sh
TEST_EXTENSIONS = .sh
SH_LOG_COMPILER = $(SHELL)

# Sanitizers cannot follow a fork for each test; a crowded machine needs more than Check's 4 s.
AM_TESTS_ENVIRONMENT = \
	SF_SRCDIR='$(abs_top_srcdir)'; export SF_SRCDIR; \
	SF_TEST_DATA='$(abs_top_srcdir)/tests/data'; export SF_TEST_DATA; \
	SF_FAKE_CUDART='$(abs_top_builddir)/tests/lib/.libs/fake_cudart.so'; export SF_FAKE_CUDART; \
	SHARDFUSE='$(abs_top_builddir)/shardfuse'; export SHARDFUSE; \
	CC='$(CC)'; export CC; \
	SF_CPPFLAGS='$(AM_CPPFLAGS) $(CPPFLAGS)'; export SF_CPPFLAGS; \
	SF_LINKFLAGS='$(CFLAGS) $(AM_LDFLAGS) $(LDFLAGS)'; export SF_LINKFLAGS; \
	SF_MPI_LIBS='$(MPI_LIBS)'; export SF_MPI_LIBS; \
	CK_TIMEOUT_MULTIPLIER=$${CK_TIMEOUT_MULTIPLIER:-15}; export CK_TIMEOUT_MULTIPLIER;
if !HAVE_FUSE
AM_TESTS_ENVIRONMENT += SF_HAVE_FUSE=no; export SF_HAVE_FUSE;
endif
if !HAVE_MPI
AM_TESTS_ENVIRONMENT += SF_HAVE_MPI=no; export SF_HAVE_MPI;
endif
if SANITIZE
AM_TESTS_ENVIRONMENT += \
	CK_FORK=$${CK_FORK:-no}; export CK_FORK; \
	ASAN_OPTIONS=$${ASAN_OPTIONS:-detect_leaks=1:abort_on_error=0}; export ASAN_OPTIONS; \
	UBSAN_OPTIONS=$${UBSAN_OPTIONS:-print_stacktrace=1}; export UBSAN_OPTIONS;
endif

EXTRA_DIST += %D%/format/megatron_world.h %D%/format/dcp_meta_text.h %D%/format/dcp_pickler.h %D%/format/dcp_world.h %D%/format/seam_torch.h %D%/format/seam_tree.h %D%/format/seam_world.h %D%/lib/builder_world.h %D%/lib/ckpt_find.h %D%/lib/hf_world.h %D%/lib/item_cache_world.h %D%/lib/library_world.h %D%/lib/pt_read_back.h %D%/lib/reader_world.h %D%/lib/st_world.h %D%/lib/write_world.h %D%/lib/no_tmpfile.h %D%/lib/parts_zeros.h %D%/lib/plan_world.h %D%/lib/value_lines.h %D%/lib/pt_world.h %D%/lib/sf_test.h %D%/lib/sf_test_chunks.h %D%/lib/view_world.h

EXTRA_DIST += %D%/unit/value_json_cases.h %D%/fuse/slots_world.h %D%/lib/tree_world.h %D%/lib/http_server.h %D%/lib/put_mem.h %D%/lib/store_far.h %D%/lib/test_stores.h %D%/lib/sf_fake_ckpt.h %D%/lib/load.h %D%/lib/slow_mount.h
EXTRA_DIST += %D%/lib/family_world.h %D%/lib/aws_world.h %D%/lib/far_world.h %D%/lib/list_world.h %D%/lib/sigv4_check.h %D%/lib/fault_campaign.h
EXTRA_DIST += %D%/lib/save_plan_world.h %D%/lib/zstd_items.h
EXTRA_DIST += %D%/lib/cache_asked.h %D%/lib/cache_world.h
