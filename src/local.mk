# All sources but MPI's, by layer (lowest first). A missing optional dependency is another file with the same symbols.

SF_SOURCES_BASE = \
	%D%/base/arena.c \
	%D%/base/atomic_file.c \
	%D%/base/budget.c \
	%D%/base/buf.c \
	%D%/base/columns.c \
	%D%/base/crc32_combine.c \
	%D%/base/denied.c \
	%D%/base/deadline.c \
	%D%/base/error.c \
	%D%/base/escape.c \
	%D%/base/glob.c \
	%D%/base/growing.c \
	%D%/base/hash.c \
	%D%/base/iov.c \
	%D%/base/json.c \
	%D%/base/log.c \
	%D%/base/log_limit.c \
	%D%/base/map.c \
	%D%/base/memory_limit.c \
	%D%/base/mountinfo.c \
	%D%/base/near.c \
	%D%/base/page_pool.c \
	%D%/base/pages.c \
	%D%/base/path.c \
	%D%/base/quote.c \
	%D%/base/sha256.c \
	%D%/base/thread_pool.c \
	%D%/base/vec.c
if HAVE_DEFLATE
SF_SOURCES_BASE += %D%/base/crc32_deflate.c
else
SF_SOURCES_BASE += %D%/base/crc32_zlib.c
endif

SF_SOURCES_STORE = \
	%D%/store/aws_chain.c \
	%D%/store/aws_config.c \
	%D%/store/aws_credentials.c \
	%D%/store/aws_metadata.c \
	%D%/store/aws_process.c \
	%D%/store/aws_reply.c \
	%D%/store/aws_setup.c \
	%D%/store/aws_sts.c \
	%D%/store/bucket_dirs.c \
	%D%/store/bucket_list.c \
	%D%/store/bucket_probe.c \
	%D%/store/bucket_store.c \
	%D%/store/cache.c \
	%D%/store/cache_ahead.c \
	%D%/store/cache_dir.c \
	%D%/store/cache_drop.c \
	%D%/store/cache_file.c \
	%D%/store/cache_held.c \
	%D%/store/cache_keep.c \
	%D%/store/cache_made.c \
	%D%/store/cache_map.c \
	%D%/store/cache_read.c \
	%D%/store/cache_room.c \
	%D%/store/cache_source.c \
	%D%/store/cache_space.c \
	%D%/store/cache_sweep.c \
	%D%/store/cache_tie.c \
	%D%/store/cache_wait.c \
	%D%/store/cloud_env.c \
	%D%/store/fetch_many.c \
	%D%/store/fd_budget.c \
	%D%/store/filter.c \
	%D%/store/gs_call.c \
	%D%/store/gs_chain.c \
	%D%/store/gs_credentials.c \
	%D%/store/gs_error.c \
	%D%/store/gs_external.c \
	%D%/store/gs_jwt.c \
	%D%/store/gs_keys.c \
	%D%/store/gs_list.c \
	%D%/store/gs_place.c \
	%D%/store/gs_probe.c \
	%D%/store/gs_put.c \
	%D%/store/gs_put_parts.c \
	%D%/store/gs_reply.c \
	%D%/store/guard.c \
	%D%/store/hedge.c \
	%D%/store/hedge_times.c \
	%D%/store/http_ask.c \
	%D%/store/http_basic.c \
	%D%/store/http_file.c \
	%D%/store/http_probe.c \
	%D%/store/hub_revision.c \
	%D%/store/hub_token.c \
	%D%/store/http_range.c \
	%D%/store/http_world.c \
	%D%/store/http_retry.c \
	%D%/store/io.c \
	%D%/store/objinfo.c \
	%D%/store/open_files.c \
	%D%/store/probe.c \
	%D%/store/outage.c \
	%D%/store/remote.c \
	%D%/store/remote_ask.c \
	%D%/store/remote_wait.c \
	%D%/store/renew.c \
	%D%/store/s3_call.c \
	%D%/store/s3_error.c \
	%D%/store/s3_list.c \
	%D%/store/s3_place.c \
	%D%/store/s3_probe.c \
	%D%/store/s3_put.c \
	%D%/store/s3_put_xml.c \
	%D%/store/s3_sign.c \
	%D%/store/s3_time.c \
	%D%/store/source.c \
	%D%/store/source_ahead.c \
	%D%/store/source_file.c \
	%D%/store/source_slice.c \
	%D%/store/source_wait.c \
	%D%/store/store.c \
	%D%/store/store_file.c \
	%D%/store/store_gs.c \
	%D%/store/store_http.c \
	%D%/store/store_s3.c \
	%D%/store/upload.c \
	%D%/store/upload_plan.c \
	%D%/store/upload_send.c \
	%D%/store/url.c \
	%D%/store/xml.c
if HAVE_CURL
SF_SOURCES_STORE += %D%/store/http_curl.c
else
SF_SOURCES_STORE += %D%/store/http_none.c
endif

SF_SOURCES_PARSE = \
	%D%/parse/codec.c \
	%D%/parse/dtype.c \
	%D%/parse/dtype_cast.c \
	%D%/parse/dtype_number.c \
	%D%/parse/dtype_text.c \
	%D%/parse/npy.c \
	%D%/parse/npy_read.c \
	%D%/parse/pickle_build.c \
	%D%/parse/pickle_check.c \
	%D%/parse/pickle_container.c \
	%D%/parse/pickle_read.c \
	%D%/parse/pickle_skip.c \
	%D%/parse/pickle_text.c \
	%D%/parse/pickle_value.c \
	%D%/parse/pickle_write.c \
	%D%/parse/pickle_write_tensor.c \
	%D%/parse/pickle_write_value.c \
	%D%/parse/safetensors.c \
	%D%/parse/st_file_plan.c \
	%D%/parse/tar.c \
	%D%/parse/torch_archive.c \
	%D%/parse/torch_file_plan.c \
	%D%/parse/torch_item.c \
	%D%/parse/torch_match.c \
	%D%/parse/torch_open.c \
	%D%/parse/torch_persid.c \
	%D%/parse/torch_stream.c \
	%D%/parse/torch_subclass.c \
	%D%/parse/torch_tar.c \
	%D%/parse/torch_tensor.c \
	%D%/parse/torch_zip.c \
	%D%/parse/unpack.c \
	%D%/parse/unpack_lz4.c \
	%D%/parse/unpack_zstd.c \
	%D%/parse/value_walk.c \
	%D%/parse/weights_only.c \
	%D%/parse/xxh32.c \
	%D%/parse/zarr.c \
	%D%/parse/zip_read.c \
	%D%/parse/zip_write.c
if HAVE_GZIP
SF_SOURCES_PARSE += %D%/parse/unpack_gzip.c
else
SF_SOURCES_PARSE += %D%/parse/unpack_gzip_none.c
endif
if HAVE_BZIP2
SF_SOURCES_PARSE += %D%/parse/unpack_bzip2.c
else
SF_SOURCES_PARSE += %D%/parse/unpack_bzip2_none.c
endif
if HAVE_LZMA
SF_SOURCES_PARSE += %D%/parse/unpack_lzma.c
else
SF_SOURCES_PARSE += %D%/parse/unpack_lzma_none.c
endif
if HAVE_BLOSC
SF_SOURCES_PARSE += %D%/parse/blosc.c
else
SF_SOURCES_PARSE += %D%/parse/blosc_none.c
endif
if HAVE_ZSTD
SF_SOURCES_PARSE += %D%/parse/zstd.c
else
SF_SOURCES_PARSE += %D%/parse/zstd_none.c
endif

SF_SOURCES_CKPT = \
	%D%/ckpt/box.c \
	%D%/ckpt/ckpt.c \
	%D%/ckpt/ckpt_builder.c \
	%D%/ckpt/ckpt_builder_chunks.c \
	%D%/ckpt/ckpt_builder_tie.c \
	%D%/ckpt/ckpt_builder_value.c \
	%D%/ckpt/ckpt_builder_places.c \
	%D%/ckpt/ckpt_check.c \
	%D%/ckpt/ckpt_cover.c \
	%D%/ckpt/ckpt_finish.c \
	%D%/ckpt/ckpt_group.c \
	%D%/ckpt/ckpt_order.c \
	%D%/ckpt/ckpt_pick.c \
	%D%/ckpt/ckpt_shared.c \
	%D%/ckpt/join_rules.c \
	%D%/ckpt/place.c

SF_SOURCES_FORMAT = \
	%D%/format/dcp/dcp_classes.c \
	%D%/format/dcp/dcp_composite.c \
	%D%/format/dcp/dcp_dir.c \
	%D%/format/dcp/dcp_flat.c \
	%D%/format/dcp/dcp_join.c \
	%D%/format/dcp/dcp_lightning.c \
	%D%/format/dcp/dcp_lower.c \
	%D%/format/dcp/dcp_lower_form.c \
	%D%/format/dcp/dcp_lower_names.c \
	%D%/format/dcp/dcp_lower_places.c \
	%D%/format/dcp/dcp_merge.c \
	%D%/format/dcp/dcp_meta.c \
	%D%/format/dcp/dcp_read.c \
	%D%/format/dcp/dcp_remove.c \
	%D%/format/dcp/dcp_scan.c \
	%D%/format/dcp/dcp_scan_build.c \
	%D%/format/dcp/dcp_scan_chunks.c \
	%D%/format/dcp/dcp_scan_class.c \
	%D%/format/dcp/dcp_scan_input.c \
	%D%/format/dcp/dcp_scan_items.c \
	%D%/format/dcp/dcp_scan_mcore.c \
	%D%/format/dcp/dcp_scan_memo.c \
	%D%/format/dcp/dcp_scan_step.c \
	%D%/format/dcp/dcp_subclass.c \
	%D%/format/dcp/dcp_values.c \
	%D%/format/dcp/format_dcp.c \
	%D%/format/deepspeed/ds_flat.c \
	%D%/format/deepspeed/ds_lower.c \
	%D%/format/deepspeed/ds_optim.c \
	%D%/format/deepspeed/ds_others.c \
	%D%/format/deepspeed/ds_places.c \
	%D%/format/deepspeed/ds_plain.c \
	%D%/format/deepspeed/ds_rest.c \
	%D%/format/deepspeed/ds_set.c \
	%D%/format/deepspeed/ds_slice.c \
	%D%/format/deepspeed/ds_table.c \
	%D%/format/deepspeed/ds_universal.c \
	%D%/format/deepspeed/format_deepspeed.c \
	%D%/format/format.c \
	%D%/format/format_beside.c \
	%D%/format/format_dir.c \
	%D%/format/format_unread.c \
	%D%/format/inside/inside.c \
	%D%/format/inside/inside_files.c \
	%D%/format/inside/inside_match.c \
	%D%/format/inside/inside_store.c \
	%D%/format/inside/inside_tar.c \
	%D%/format/inside/inside_unpack.c \
	%D%/format/inside/inside_zip.c \
	%D%/format/megatron/format_megatron.c \
	%D%/format/megatron/megatron_common.c \
	%D%/format/megatron/megatron_dist.c \
	%D%/format/megatron/megatron_find.c \
	%D%/format/megatron/megatron_join.c \
	%D%/format/megatron/megatron_keys.c \
	%D%/format/megatron/megatron_legacy.c \
	%D%/format/megatron/megatron_names.c \
	%D%/format/megatron/megatron_ranks.c \
	%D%/format/megatron/megatron_zarr.c \
	%D%/format/olmo/format_olmo.c \
	%D%/format/olmo/olmo_core.c \
	%D%/format/olmo/olmo_flat.c \
	%D%/format/olmo/olmo_legacy.c \
	%D%/format/olmo/olmo_local.c \
	%D%/format/olmo/olmo_ranks.c \
	%D%/format/olmo/olmo_runs.c \
	%D%/format/rankfiles/format_rankfiles.c \
	%D%/format/rankfiles/rankfiles_join.c \
	%D%/format/rankfiles/rankfiles_lower.c \
	%D%/format/rankfiles/rankfiles_optim.c \
	%D%/format/rankfiles/rankfiles_runs.c \
	%D%/format/rankfiles/rankfiles_set.c \
	%D%/format/rankfiles/rankfiles_split.c \
	%D%/format/run.c \
	%D%/format/run_dir.c \
	%D%/format/run_look.c \
	%D%/format/safetensors/format_safetensors.c \
	%D%/format/safetensors/safetensors_files.c \
	%D%/format/safetensors/safetensors_head.c \
	%D%/format/safetensors/safetensors_lower.c \
	%D%/format/safetensors/safetensors_take.c \
	%D%/format/torch_file.c \
	%D%/format/torch/format_torch.c \
	%D%/format/torch/torch_choose.c \
	%D%/format/torch/torch_facts.c \
	%D%/format/torch/torch_index.c \
	%D%/format/torch/torch_lower.c \
	%D%/format/torch/torch_params.c \
	%D%/format/torch/torch_parts.c

SF_SOURCES_READ = \
	%D%/read/assemble.c \
	%D%/read/async.c \
	%D%/read/batch.c \
	%D%/read/boxes.c \
	%D%/read/buffer.c \
	%D%/read/coalesce.c \
	%D%/read/fetch.c \
	%D%/read/files.c \
	%D%/read/headers.c \
	%D%/read/item_cache.c \
	%D%/read/item_load.c \
	%D%/read/item_turn.c \
	%D%/read/item_decode.c \
	%D%/read/layout.c \
	%D%/read/made.c \
	%D%/read/objects.c \
	%D%/read/op.c \
	%D%/read/op_fail.c \
	%D%/read/parts.c \
	%D%/read/plan.c \
	%D%/read/plan_geometry.c \
	%D%/read/plan_left.c \
	%D%/read/plan_pieces.c \
	%D%/read/region.c \
	%D%/read/read.c \
	%D%/read/read_window.c \
	%D%/read/readahead.c \
	%D%/read/reader.c \
	%D%/read/shared.c \
	%D%/read/slow_headers.c \
	%D%/read/steps.c \
	%D%/read/streams.c \
	%D%/read/whole_items.c

SF_SOURCES_CATALOG = \
	%D%/catalog/catalog.c \
	%D%/catalog/catalog_group.c \
	%D%/catalog/catalog_map.c \
	%D%/catalog/catalog_slice.c \
	%D%/catalog/entry_name.c \
	%D%/catalog/key_index.c \
	%D%/catalog/key_match.c \
	%D%/catalog/key_near.c \
	%D%/catalog/map_file.c \
	%D%/catalog/map_pick.c \
	%D%/catalog/map_shipped.c \
	%D%/catalog/view_options.c

SF_SOURCES_VALUE = \
	%D%/value/object.c \
	%D%/value/value_class.c \
	%D%/value/value_json.c \
	%D%/value/value_numpy.c

SF_SOURCES_VIEW = \
	%D%/view/advice.c \
	%D%/view/ckpt_json.c \
	%D%/view/damage.c \
	%D%/view/damage_text.c \
	%D%/view/entry_json.c \
	%D%/view/facts.c \
	%D%/view/hf/hf_companions.c \
	%D%/view/hf/hf_config.c \
	%D%/view/hf/hf_names.c \
	%D%/view/hf/view_hf.c \
	%D%/view/hf/view_hf_companion.c \
	%D%/view/pt/pt_blocks.c \
	%D%/view/pt/pt_embed.c \
	%D%/view/pt/pt_layout.c \
	%D%/view/pt/pt_left_out.c \
	%D%/view/pt/pt_pickle.c \
	%D%/view/pt/pt_tree.c \
	%D%/view/pt/view_pt.c \
	%D%/view/st/st_embed.c \
	%D%/view/st/st_skipped.c \
	%D%/view/st/view_safetensors.c \
	%D%/view/vfile.c \
	%D%/view/view_json.c \
	%D%/view/view_npy.c \
	%D%/view/view_raw.c \
	%D%/view/run_text.c \
	%D%/view/slices_text.c \
	%D%/view/view_readme.c \
	%D%/view/view_value_json.c

SF_SOURCES_TREE = \
	%D%/tree/counters.c \
	%D%/tree/tree.c \
	%D%/tree/tree_attr.c \
	%D%/tree/tree_cache.c \
	%D%/tree/tree_flat.c \
	%D%/tree/tree_hf.c \
	%D%/tree/tree_kinds.c \
	%D%/tree/tree_leaf.c \
	%D%/tree/tree_links.c \
	%D%/tree/tree_live.c \
	%D%/tree/tree_root.c \
	%D%/tree/tree_run.c \
	%D%/tree/tree_shards.c \
	%D%/tree/tree_slices.c \
	%D%/tree/tree_state.c \
	%D%/tree/tree_totals.c \
	%D%/tree/tree_xattr.c

SF_SOURCES_SAVE = \
	%D%/save/comm_self.c \
	%D%/save/comm_threads.c \
	%D%/save/dcp_meta_put.c \
	%D%/save/dcp_meta_write.c \
	%D%/save/device_caller.c \
	%D%/save/device_host.c \
	%D%/save/save.c \
	%D%/save/save_agree.c \
	%D%/save/save_commit.c \
	%D%/save/save_counters.c \
	%D%/save/save_dcp.c \
	%D%/save/save_failure.c \
	%D%/save/save_format.c \
	%D%/save/save_item.c \
	%D%/save/save_item_bytes.c \
	%D%/save/save_item_object.c \
	%D%/save/save_item_tensor.c \
	%D%/save/save_layout.c \
	%D%/save/save_log.c \
	%D%/save/save_manifest.c \
	%D%/save/save_megatron.c \
	%D%/save/save_olmo.c \
	%D%/save/save_plan.c \
	%D%/save/save_plan_again.c \
	%D%/save/save_plan_assign.c \
	%D%/save/save_plan_boxes.c \
	%D%/save/save_plan_cover.c \
	%D%/save/save_plan_encode.c \
	%D%/save/save_plan_json.c \
	%D%/save/save_plan_keys.c \
	%D%/save/save_plan_paths.c \
	%D%/save/save_plan_text.c \
	%D%/save/save_run.c \
	%D%/save/save_shard_name.c \
	%D%/save/save_shown.c \
	%D%/save/save_stage.c \
	%D%/save/save_stage_fill.c \
	%D%/save/save_target.c \
	%D%/save/save_target_check.c \
	%D%/save/save_target_dir.c \
	%D%/save/save_target_file.c \
	%D%/save/save_target_marker.c \
	%D%/save/save_target_object.c \
	%D%/save/save_target_object_clean.c \
	%D%/save/save_target_object_file.c \
	%D%/save/save_target_object_marker.c \
	%D%/save/save_target_object_names.c \
	%D%/save/save_target_remove.c \
	%D%/save/save_target_store.c \
	%D%/save/save_target_token.c \
	%D%/save/save_template.c \
	%D%/save/save_tree.c \
	%D%/save/save_values.c \
	%D%/save/save_values_json.c \
	%D%/save/save_values_key.c \
	%D%/save/save_write.c \
	%D%/save/save_write_image.c \
	%D%/save/save_write_out.c \
	%D%/save/save_write_zstd.c
if HAVE_CUDA
SF_SOURCES_SAVE += %D%/save/device_cuda.c
else
SF_SOURCES_SAVE += %D%/save/device_cuda_none.c
endif

SF_SOURCES_LIB = \
	%D%/lib/context.c \
	%D%/lib/lib_cut.c \
	%D%/lib/lib_files.c \
	%D%/lib/lib_read.c \
	%D%/lib/library.c \
	%D%/lib/session.c \
	%D%/lib/session_watch.c

SF_SOURCES_TOOL = \
	%D%/tool/apart.c \
	%D%/tool/ask.c \
	%D%/tool/claims.c \
	%D%/tool/common.c \
	%D%/tool/control.c \
	%D%/tool/copy_out.c \
	%D%/tool/disk_room.c \
	%D%/tool/interrupt.c \
	%D%/tool/npy_session.c \
	%D%/tool/numbers.c \
	%D%/tool/options.c \
	%D%/tool/parallel.c \
	%D%/tool/progress.c \
	%D%/tool/reshard.c \
	%D%/tool/reshard_items.c \
	%D%/tool/reshard_plan.c \
	%D%/tool/share.c \
	%D%/tool/stats.c \
	%D%/tool/value_diff.c \
	%D%/tool/warm.c \
	%D%/tool/warm_ranges.c \
	%D%/tool/write_check.c \
	%D%/tool/write_file.c \
	%D%/tool/write_parts.c

SF_SOURCES_CLI = \
	%D%/cli/cli.c \
	%D%/cli/cli_error.c \
	%D%/cli/cmd_cat.c \
	%D%/cli/cmd_diff.c \
	%D%/cli/cmd_doctor.c \
	%D%/cli/cmd_drop.c \
	%D%/cli/cmd_explain.c \
	%D%/cli/cmd_export.c \
	%D%/cli/cmd_find.c \
	%D%/cli/cmd_get.c \
	%D%/cli/cmd_import.c \
	%D%/cli/cmd_info.c \
	%D%/cli/cmd_keys.c \
	%D%/cli/cmd_ls.c \
	%D%/cli/cmd_reshard.c \
	%D%/cli/cmd_rm_keys.c \
	%D%/cli/cmd_stats.c \
	%D%/cli/cmd_verify.c \
	%D%/cli/cmd_warm.c \
	%D%/cli/common_state.c \
	%D%/cli/complete.c \
	%D%/cli/complete_names.c \
	%D%/cli/put_damage.c \
	%D%/cli/doctor_advice.c \
	%D%/cli/doctor_cache.c \
	%D%/cli/doctor_mount.c \
	%D%/cli/doctor_source.c \
	%D%/cli/doctor_system.c \
	%D%/cli/expect.c \
	%D%/cli/export_hf.c \
	%D%/cli/info_key.c \
	%D%/cli/info_whole.c \
	%D%/cli/get_choice.c \
	%D%/cli/key_slice.c \
	%D%/cli/live_mount.c \
	%D%/cli/object_line.c \
	%D%/cli/old_files.c \
	%D%/cli/out_list.c \
	%D%/cli/table.c \
	%D%/cli/target_url.c \
	%D%/cli/terminal.c \
	%D%/cli/text.c \
	%D%/cli/train_state.c \
	%D%/cli/values.c \
	%D%/cli/verify_deep.c \
	%D%/cli/verify_manifest.c \
	%D%/cli/write_anew.c

# libsfcore is what the library is made of; libsf has what the programs have beside it.
noinst_LTLIBRARIES += libsfcore.la libsf.la
libsfcore_la_SOURCES = $(SF_SOURCES_BASE) $(SF_SOURCES_STORE) $(SF_SOURCES_PARSE) $(SF_SOURCES_CKPT) \
	$(SF_SOURCES_FORMAT) $(SF_SOURCES_READ) $(SF_SOURCES_CATALOG) $(SF_SOURCES_VALUE) $(SF_SOURCES_VIEW) \
	$(SF_SOURCES_TREE) $(SF_SOURCES_SAVE) $(SF_SOURCES_LIB)
libsfcore_la_LIBADD = $(SF_LIBS)
libsf_la_SOURCES = $(SF_SOURCES_TOOL) $(SF_SOURCES_CLI)
libsf_la_LIBADD = libsfcore.la

# The library: what shardfuse.h says is exported, under the version it came with.
include_HEADERS += %D%/shardfuse.h %D%/shardfuse_save.h
lib_LTLIBRARIES += libshardfuse.la
libshardfuse_la_SOURCES =
libshardfuse_la_LIBADD = libsfcore.la
libshardfuse_la_LDFLAGS = $(AM_LDFLAGS) -version-info 1:0:0 -no-undefined \
	-Wl,--version-script=$(srcdir)/%D%/lib/libshardfuse.map
EXTRA_libshardfuse_la_DEPENDENCIES = $(srcdir)/%D%/lib/libshardfuse.map
EXTRA_DIST += %D%/lib/libshardfuse.map

# Communicators of MPI: a library of its own, so that no other program needs MPI.
if HAVE_MPI
include_HEADERS += %D%/mpi/shardfuse_mpi.h
noinst_LTLIBRARIES += libsfmpi.la
libsfmpi_la_SOURCES = %D%/mpi/comm_mpi.c
libsfmpi_la_LIBADD = $(MPI_LIBS)
lib_LTLIBRARIES += libshardfuse-mpi.la
libshardfuse_mpi_la_SOURCES =
libshardfuse_mpi_la_LIBADD = libsfmpi.la
libshardfuse_mpi_la_LDFLAGS = $(AM_LDFLAGS) -version-info 1:0:0 -no-undefined \
	-Wl,--version-script=$(srcdir)/%D%/mpi/libshardfuse-mpi.map
EXTRA_libshardfuse_mpi_la_DEPENDENCIES = $(srcdir)/%D%/mpi/libshardfuse-mpi.map

# The program shardfuse-mpi: verbs by the ranks of a job.
bin_PROGRAMS += shardfuse-mpi
shardfuse_mpi_SOURCES = %D%/ranks/main.c
noinst_LTLIBRARIES += libsfranks.la
libsfranks_la_SOURCES = \
	%D%/ranks/ranks.c \
	%D%/ranks/ranks_anew.c \
	%D%/ranks/ranks_export.c \
	%D%/ranks/ranks_verify.c
shardfuse_mpi_LDADD = libsfranks.la libsfmpi.la libsf.la $(SF_LIBS) $(MPI_LIBS)
endif
EXTRA_DIST += %D%/mpi/libshardfuse-mpi.map
