#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "lib/lib_priv.h"

_Static_assert(SHARDFUSE_DIMS_MAX == SF_DIMS_MAX, "they are the same limit");

unsigned shardfuse_version(void)
{
	return SHARDFUSE_VERSION_MAJOR << 16 | SHARDFUSE_VERSION_MINOR;
}

void shardfuse_free(void *p)
{
	free(p);
}

static void log_line(void *arg, enum sf_log_level level, const char *line)
{
	const struct shardfuse_context *ctx = arg;

	ctx->opt.log(ctx->opt.log_arg, (int)level, line);
}

int shardfuse_context_new(const struct shardfuse_context_options *opt,
                          struct shardfuse_context **ret, struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	struct sf_session_options so;
	SF_FREE struct shardfuse_context *ctx = calloc(1, sizeof(*ctx));
	int r = ctx ? sf_public_take(opt, &ctx->opt, sizeof(ctx->opt), &e)
	            : sf_fail(&e, -ENOMEM, "no memory for a context");

	if (r >= 0) {
		sf_session_options_init(&so);
		if (ctx->opt.memory)
			so.memory = ctx->opt.memory;
		if (ctx->opt.threads)
			so.threads = ctx->opt.threads;
		if (ctx->opt.log)
			ctx->log = (struct sf_log){ .write = log_line,
				                    .arg = ctx,
				                    .level = (enum sf_log_level)SF_MIN(
							    SF_MAX(ctx->opt.log_level, 0),
							    (int)SF_LOG_DEBUG) };
		so.log = ctx->opt.log ? &ctx->log : NULL;
		r = sf_session_io(&ctx->io, &so, &e);
		if (r >= 0 && ctx->opt.open_files)
			r = sf_io_set_open(&ctx->io, SF_MAX(ctx->opt.open_files, 8u), &e);
		if (r < 0)
			sf_io_release(&ctx->io);
	}
	if (r < 0)
		return sf_public_fail(err, &e, r);
	if (ctx->opt.timeout_ms)
		ctx->io.timeout_ms = ctx->opt.timeout_ms;
	*ret = SF_STEAL(ctx);
	return 0;
}

struct sf_store_options sf_lib_store_options(const struct shardfuse_context *ctx)
{
	const struct shardfuse_context_options *o = &ctx->opt;

	return (struct sf_store_options){
		.ca_bundle = o->ca_bundle,
		.endpoint_url = o->endpoint_url,
		.region = o->region,
		.profile = o->profile,
		.addressing = o->addressing,
		.no_sign_request = o->no_sign_request != 0,
		.request_payer = o->request_payer != 0,
		.user_project = o->user_project,
		.cache_dir = o->cache_dir,
		.cache_size = o->cache_size,
		/* a program that asked for no cache gets none; one that said where, but not how
		 * large, gets the usual one */
		.cache_size_given = o->cache_size || !o->cache_dir,
	};
}

void shardfuse_context_free(struct shardfuse_context *ctx)
{
	if (!ctx)
		return;
	sf_io_release(&ctx->io);
	free(ctx);
}

/* What handles share that were opened without a context: there from the first to the last. */
static struct {
	pthread_mutex_t m;
	struct shardfuse_context *ctx;
	unsigned handles;
} common = { .m = PTHREAD_MUTEX_INITIALIZER };

int sf_lib_common_join(struct shardfuse_context **ret, struct sf_error *err)
{
	struct shardfuse_error why;
	int r = 0;

	pthread_mutex_lock(&common.m);
	if (!common.handles)
		r = shardfuse_context_new(NULL, &common.ctx, &why);
	if (r >= 0) {
		common.handles++;
		*ret = common.ctx;
	}
	pthread_mutex_unlock(&common.m);
	return r < 0 ? sf_fail(err, r, "%s", why.msg) : 0;
}

void sf_lib_common_leave(void)
{
	struct shardfuse_context *last = NULL;

	pthread_mutex_lock(&common.m);
	if (--common.handles == 0)
		last = SF_STEAL(common.ctx);
	pthread_mutex_unlock(&common.m);
	shardfuse_context_free(last);
}
