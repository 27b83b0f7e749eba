#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "format/torch/torch_priv.h"

/* Source: huggingface/transformers 5.0 utils/__init__.py (WEIGHTS_NAME and others), peft 0.18
 * utils/constants.py, diffusers 0.35 utils/constants.py; NVIDIA NeMo 2.5 core/connectors/
 * save_restore_connector.py; mosaicml/composer 0.32 utils/checkpoint.py. In this order: who has
 * several forms of one thing has an index beside its files. */
static const char *const indexes[] = {
	"pytorch_model.bin.index.json",
	"diffusion_pytorch_model.bin.index.json",
	"adapter_model.bin.index.json",
};
static const char *const whole[] = {
	"pytorch_model.bin",      "diffusion_pytorch_model.bin", "adapter_model.bin",
	"pytorch_model_fsdp.bin", "model_weights.ckpt",          "composer_states.pt",
};
static const char *const ends[] = { ".pt", ".pth", ".ckpt", ".bin" };
/* What lies beside weights, and is none. */
static const char *const beside[] = { "training_args.bin", "optimizer.bin", "optimizer.pt",
	                              "scheduler.pt",      "scheduler.bin", "scaler.pt",
	                              "tokenizer.bin" };

static bool is_one_of(const char *name, const char *const *of, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(name, of[i]) == 0)
			return true;
	return false;
}

static bool may_be_one(const char *name)
{
	if (strchr(name, '/') || is_one_of(name, beside, SF_ARRAY_LEN(beside)) ||
	    strncmp(name, "._", 2) == 0 || /* what macOS puts beside each file of a tar */
	    sf_has_suffix(name, "_model_states.pt") || sf_has_suffix(name, "_optim_states.pt"))
		return false; /* DeepSpeed's, of which one is not all */
	for (size_t i = 0; i < SF_ARRAY_LEN(ends); i++)
		if (sf_has_suffix(name, ends[i]))
			return true;
	return false;
}

/* Two names of one file: what a link leads to. */
static bool is_same(const struct sf_objinfo *a, const struct sf_objinfo *b)
{
	return a->version.ino && a->version.ino == b->version.ino &&
	       a->version.dev == b->version.dev && a->size == b->size && !a->version.etag;
}

/* Parts of a DeepSpeed checkpoint lie beside: what is in one file is not all. */
static bool has_parts(const struct sf_objinfo *files, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (sf_has_suffix(files[i].name, "_model_states.pt") ||
		    sf_has_suffix(files[i].name, "_optim_states.pt"))
			return n > 1;
	return false;
}

struct torch_choice torch_choose(const struct sf_objinfo *files, size_t n)
{
	const struct sf_objinfo *one = NULL, *f;

	for (size_t i = 0; i < SF_ARRAY_LEN(indexes); i++)
		if ((f = sf_format_listed(files, n, indexes[i])))
			return (struct torch_choice){ TORCH_INDEX, f, true };
	for (size_t i = 0; i < SF_ARRAY_LEN(whole); i++)
		if ((f = sf_format_listed(files, n, whole[i])))
			return (struct torch_choice){ TORCH_ONE, f, !has_parts(files, n) };
	if (n == 1)
		return (struct torch_choice){ TORCH_ONE, files, may_be_one(files->name) };
	for (size_t i = 0; i < n; i++) {
		if (!may_be_one(files[i].name) || (one && is_same(one, &files[i])))
			continue;
		if (one)
			return (struct torch_choice){ TORCH_NOTHING, NULL, false };
		one = &files[i];
	}
	return one ? (struct torch_choice){ TORCH_ONE, one, false }
	           : (struct torch_choice){ TORCH_NOTHING, NULL, false };
}
