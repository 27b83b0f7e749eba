/*
 * A training loop in C whose state is sharded over the ranks, as FSDP does it: each rank keeps some rows
 * of every parameter and of its Adam state. It saves every so many steps while training goes on, and goes on
 * from the newest step of its run directory, with any number of ranks.
 *
 *	mpicc -O2 train_mpi.c -o train_mpi $(pkg-config --cflags --libs shardfuse-mpi) -lm
 *	mpirun -n 3 ./train_mpi runs 40 10    # up to step 40, saves each tenth
 *	mpirun -n 2 ./train_mpi runs 80 10    # two ranks go on from step 40
 *	shardfuse runs/ /mnt                  # all steps, unsharded
 *
 * What it prints as "state" is a sum of all that is saved: equal where the states are.
 */
#include <dirent.h>
#include <math.h>
#include <shardfuse_mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IN 6
#define HIDDEN 37 /* no number of ranks divides it */
#define OUT 2
#define BATCH 48
#define RATE 0.01f

/* A parameter, its gradient, and the rows of it that this rank keeps. */
struct param {
	const char *name;
	unsigned ndim;
	uint64_t shape[2];
	uint64_t offset[2], extent[2]; /* the rows kept */
	float *full, *grad;            /* gathered for a step */
	float *kept[3];                /* the parameter's, exp_avg's, exp_avg_sq's */
	int *count, *start;            /* elements of each rank, for MPI_Allgatherv */
};
static struct param params[] = {
	{ .name = "w1", .ndim = 2, .shape = { HIDDEN, IN } },
	{ .name = "b1", .ndim = 1, .shape = { HIDDEN } },
	{ .name = "w2", .ndim = 2, .shape = { OUT, HIDDEN } },
	{ .name = "b2", .ndim = 1, .shape = { OUT } },
};
enum { W1, B1, W2, B2, NPARAM };
static const char *const part_key[3] = { "model.%s", "optim.state.%s.exp_avg",
	                                 "optim.state.%s.exp_avg_sq" };

static struct shardfuse_comm comm;
static struct shardfuse_save_keep *keep;

static void stop(const char *what, const char *why)
{
	fprintf(stderr, "rank %u: %s: %s\n", comm.rank, what, why);
	MPI_Abort(MPI_COMM_WORLD, 1);
}

static void *alloc(uint64_t n, size_t size)
{
	void *at = calloc(n ? n : 1, size);

	if (!at)
		stop("calloc", "no memory");
	return at;
}

static uint64_t mix(uint64_t z)
{
	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static float random_of(uint64_t n) /* -1 to 1 */
{
	return (float)(mix(n * UINT64_C(0x9e3779b97f4a7c15) + 1) >> 40) / 8388608.0f - 1;
}

/* ---- the state, and where it lies ---- */

static uint64_t cols(const struct param *p)
{
	return p->ndim > 1 ? p->shape[1] : 1;
}

/* Rows of rank r: as even as can be. */
static uint64_t first_row(const struct param *p, uint32_t rank)
{
	return p->shape[0] * rank / comm.size;
}

static void make_params(void)
{
	for (int i = 0; i < NPARAM; i++) {
		struct param *p = &params[i];

		p->offset[0] = first_row(p, comm.rank);
		p->extent[0] = first_row(p, comm.rank + 1) - p->offset[0];
		p->extent[1] = cols(p);
		p->full = alloc(p->shape[0] * cols(p), sizeof(float));
		p->grad = alloc(p->shape[0] * cols(p), sizeof(float));
		p->count = alloc(comm.size, sizeof(int));
		p->start = alloc(comm.size, sizeof(int));
		for (uint32_t r = 0; r < comm.size; r++) {
			p->start[r] = (int)(first_row(p, r) * cols(p));
			p->count[r] = (int)(first_row(p, r + 1) * cols(p)) - p->start[r];
		}
		for (int k = 0; k < 3; k++)
			p->kept[k] = alloc(p->extent[0] * cols(p), sizeof(float));
		for (uint64_t n = 0; n < p->extent[0] * cols(p); n++)
			p->kept[0][n] =
				0.3f * random_of((uint64_t)i << 32 | (p->offset[0] * cols(p) + n));
	}
}

static void free_params(void)
{
	for (int i = 0; i < NPARAM; i++) {
		for (int k = 0; k < 3; k++)
			free(params[i].kept[k]);
		free(params[i].full);
		free(params[i].grad);
		free(params[i].count);
		free(params[i].start);
	}
}

static uint64_t state_sum(void)
{
	uint64_t sum = 0, all = 0;

	for (int i = 0; i < NPARAM; i++)
		for (int k = 0; k < 3; k++)
			for (uint64_t n = 0; n < params[i].extent[0] * cols(&params[i]); n++) {
				uint64_t at = params[i].offset[0] * cols(&params[i]) + n;
				uint32_t bits;

				memcpy(&bits, &params[i].kept[k][n], sizeof(bits));
				sum += mix(bits ^ mix((uint64_t)(3 * i + k) << 32 | at));
			}
	MPI_Allreduce(&sum, &all, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
	return all;
}

/* ---- training ---- */

/* Forward and back for one sample; returns its loss. */
static float one_sample(uint64_t n)
{
	float x[IN], h[HIDDEN], dh[HIDDEN] = { 0 }, loss = 0;

	for (int i = 0; i < IN; i++)
		x[i] = random_of(n * IN + (uint64_t)i);
	for (int k = 0; k < HIDDEN; k++) {
		h[k] = params[B1].full[k];
		for (int i = 0; i < IN; i++)
			h[k] += params[W1].full[k * IN + i] * x[i];
		h[k] = tanhf(h[k]);
	}
	for (int o = 0; o < OUT; o++) {
		float want = o ? x[2] - x[3] * x[4] : x[0] * x[1];
		float y = params[B2].full[o], e;

		for (int k = 0; k < HIDDEN; k++)
			y += params[W2].full[o * HIDDEN + k] * h[k];
		e = 2 * (y - want) / BATCH;
		loss += (y - want) * (y - want) / BATCH;
		params[B2].grad[o] += e;
		for (int k = 0; k < HIDDEN; k++) {
			params[W2].grad[o * HIDDEN + k] += e * h[k];
			dh[k] += e * params[W2].full[o * HIDDEN + k];
		}
	}
	for (int k = 0; k < HIDDEN; k++) {
		float d = dh[k] * (1 - h[k] * h[k]);

		params[B1].grad[k] += d;
		for (int i = 0; i < IN; i++)
			params[W1].grad[k * IN + i] += d * x[i];
	}
	return loss;
}

static void adam(struct param *p, uint64_t step)
{
	const float *grad = p->grad + p->offset[0] * cols(p);
	float c1 = 1 - powf(0.9f, (float)step), c2 = 1 - powf(0.999f, (float)step);

	for (uint64_t n = 0; n < p->extent[0] * cols(p); n++) {
		p->kept[1][n] = 0.9f * p->kept[1][n] + 0.1f * grad[n];
		p->kept[2][n] = 0.999f * p->kept[2][n] + 0.001f * grad[n] * grad[n];
		p->kept[0][n] -= RATE * (p->kept[1][n] / c1) / (sqrtf(p->kept[2][n] / c2) + 1e-8f);
	}
}

/* Gathers the parameters, takes this rank's samples, adds up the gradients, changes the rows kept. */
static float train(uint64_t step)
{
	float loss = 0, sum = 0;

	for (int i = 0; i < NPARAM; i++) {
		struct param *p = &params[i];

		MPI_Allgatherv(p->kept[0], p->count[comm.rank], MPI_FLOAT, p->full, p->count,
		               p->start, MPI_FLOAT, MPI_COMM_WORLD);
		memset(p->grad, 0, p->shape[0] * cols(p) * sizeof(float));
	}
	for (uint64_t n = comm.rank; n < BATCH; n += comm.size)
		loss += one_sample(step * BATCH + n);
	for (int i = 0; i < NPARAM; i++) {
		MPI_Allreduce(MPI_IN_PLACE, params[i].grad,
		              (int)(params[i].shape[0] * cols(&params[i])), MPI_FLOAT, MPI_SUM,
		              MPI_COMM_WORLD);
		adam(&params[i], step);
	}
	MPI_Allreduce(&loss, &sum, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
	return sum;
}

/* ---- saving ---- */

static struct {
	struct shardfuse_save *save;
	struct shardfuse_save_request *request; /* NULL: none is under way */
	uint64_t step;
} saving;

static int add_state(struct shardfuse_save *s, struct shardfuse_error *err)
{
	int r = 0;

	for (int i = 0; i < NPARAM; i++)
		for (int k = 0; k < 3 && r >= 0; k++) {
			struct shardfuse_save_tensor t = SHARDFUSE_INIT(t);
			/* where torch finds it: state_dict["optim"]["state"]["w1"]["exp_avg"] */
			const struct shardfuse_save_step model[2] = { { "model", 0 },
				                                      { params[i].name, 0 } };
			const struct shardfuse_save_step optim[4] = {
				{ "optim", 0 },
				{ "state", 0 },
				{ params[i].name, 0 },
				{ k == 1 ? "exp_avg" : "exp_avg_sq", 0 }
			};

			if (!params[i].extent[0])
				continue; /* more ranks than rows */
			t.path = k ? optim : model;
			t.npath = k ? 4 : 2;
			t.dtype = "float32";
			t.ndim = params[i].ndim;
			t.shape = params[i].shape;
			t.offset = params[i].offset;
			t.extent = params[i].extent;
			t.at = params[i].kept[k];
			r = shardfuse_save_add_tensor(s, &t, err);
		}
	return r;
}

/* Waits for the save that is under way, if there is one. */
static void end_save(void)
{
	struct shardfuse_error err;

	if (!saving.request)
		return;
	if (shardfuse_save_wait(saving.request, &err) < 0)
		stop("save", err.msg); /* or try again: nothing of it is to be seen */
	shardfuse_save_free(saving.save);
	saving.request = NULL;
	if (!comm.rank)
		printf("step %llu is saved\n", (unsigned long long)saving.step);
}

/* Returns when the state was copied; the copy is written while training goes on. */
static void begin_save(const char *run, uint64_t step)
{
	struct shardfuse_save_options opt = SHARDFUSE_INIT(opt);
	struct shardfuse_error err;
	char target[4096], text[32];

	end_save(); /* the one before */
	snprintf(target, sizeof(target), "%s/step%llu", run, (unsigned long long)step);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)step);
	opt.keep = keep; /* staging memory and plan: the same each time */
	opt.overwrite = SHARDFUSE_REPLACE;
	if (shardfuse_save_begin(target, &opt, &comm, &saving.save, &err) < 0 ||
	    add_state(saving.save, &err) < 0 ||
	    shardfuse_save_add_json(saving.save, "step", text, &err) < 0 ||
	    shardfuse_save_commit_async(saving.save, &saving.request, &err) < 0)
		stop("save", err.msg);
	saving.step = step;
}

/* ---- going on ---- */

/* The newest step of @run that is complete; 0: none. */
static uint64_t newest_step(const char *run)
{
	uint64_t newest = 0;
	DIR *d = opendir(run);

	for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
		struct shardfuse *h;
		char path[4096], *end = e->d_name;
		uint64_t step = strncmp(end, "step", 4) ? 0 : strtoull(end + 4, &end, 10);

		if (step <= newest || *end)
			continue;
		snprintf(path, sizeof(path), "%s/%s", run, e->d_name);
		if (shardfuse_open(NULL, path, NULL, &h, NULL) < 0)
			continue; /* not committed, or no checkpoint */
		shardfuse_close(h);
		newest = step;
	}
	if (d)
		closedir(d);
	return newest;
}

/* This rank's rows of everything, in one call: however many ranks wrote them. */
static void resume(const char *run, uint64_t step)
{
	struct shardfuse_read reads[3 * NPARAM];
	struct shardfuse_error err;
	struct shardfuse *h;
	char path[4096];
	size_t n = 0;

	snprintf(path, sizeof(path), "%s/step%llu", run, (unsigned long long)step);
	if (shardfuse_open(NULL, path, NULL, &h, &err) < 0)
		stop(path, err.msg);
	for (int i = 0; i < NPARAM; i++)
		for (int k = 0; k < 3; k++) {
			struct shardfuse_read rd = SHARDFUSE_INIT(rd);
			char key[64];
			int64_t found;

			snprintf(key, sizeof(key), part_key[k], params[i].name);
			found = shardfuse_tensor_find(h, key, strlen(key), &err);
			if (found < 0)
				stop(key, err.msg);
			rd.tensor = (uint64_t)found;
			rd.origin = params[i].offset;
			rd.extent = params[i].extent;
			rd.buf = params[i].kept[k];
			if (params[i].extent[0])
				reads[n++] = rd;
		}
	if (shardfuse_read(h, reads, n, &err) < 0)
		stop(path, err.msg);
	shardfuse_close(h);
}

/* @loss: below 0 at the beginning. */
static void say_where(uint64_t step, float loss)
{
	uint64_t sum = state_sum();

	if (comm.rank)
		return;
	printf("step %llu: state %016llx, ", (unsigned long long)step, (unsigned long long)sum);
	if (loss < 0)
		printf("%u ranks begin\n", comm.size);
	else
		printf("loss %.6f\n", (double)loss);
}

int main(int argc, char **argv)
{
	uint64_t step = 0, steps, every;
	struct shardfuse_error err;
	int level;

	if (argc != 4 || !(steps = strtoull(argv[2], NULL, 10)) ||
	    !(every = strtoull(argv[3], NULL, 10))) {
		fprintf(stderr, "usage: %s RUN-DIRECTORY STEPS SAVE-EVERY\n", argv[0]);
		return 2;
	}
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	if (shardfuse_comm_mpi(MPI_COMM_WORLD, NULL, &comm, &err) < 0 ||
	    shardfuse_save_keep_new(&keep, &err) < 0)
		stop("begin", err.msg);
	make_params();
	if (!comm.rank)
		step = newest_step(argv[1]);
	MPI_Bcast(&step, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
	if (step)
		resume(argv[1], step);

	say_where(step, -1);
	while (step++ < steps) {
		float loss = train(step);

		if (step % every == 0 || step == steps) {
			say_where(step, loss);
			begin_save(argv[1], step);
		} else if (saving.request && shardfuse_save_test(saving.request)) {
			end_save(); /* test moves it on where MPI has no threads */
		}
	}
	end_save();
	free_params();
	shardfuse_save_keep_free(keep);
	shardfuse_comm_free(&comm);
	MPI_Finalize();
	return 0;
}
