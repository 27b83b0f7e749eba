#include "config.h"

#include "tests/lib/st_world.h"

/* A random value, and what a file has to have of it, noted as it is made. */
#define STORED 4096
#define WANT 512
struct made {
	uint64_t *seed;
	struct sf_buf pkl;
	uint8_t stored[2][STORED]; /* of floats, of int16 */
	struct want {
		char name[200];
		const uint8_t *at; /* NULL: skipped */
		const char *why;
		size_t len;
	} want[WANT];
	unsigned n, tuples;
};

static void make_tensor(struct made *m, const char *name)
{
	unsigned which = (unsigned)sf_test_below(m->seed, 2), bytes = which ? 2 : 4;
	uint32_t count = STORED / bytes, step = 1;
	struct view v = { which ? "ShortStorage" : "FloatStorage",
		          which ? "b" : "a",
		          count,
		          (uint32_t)sf_test_below(m->seed, 100),
		          (uint32_t)sf_test_below(m->seed, 4),
		          { 0 },
		          { 0 } };
	struct want *want = &m->want[m->n++];
	bool dense = true;

	for (unsigned d = 0; d < v.ndim; d++)
		v.shape[d] = (uint32_t)sf_test_below(m->seed, 6);
	for (unsigned d = v.ndim; d-- > 0; step *= SF_MAX(v.shape[d], 1u))
		v.stride[d] = step;
	size_t len = bytes;
	for (unsigned d = 0; d < v.ndim; d++)
		len *= v.shape[d];
	if (v.ndim > 1 && sf_test_below(m->seed, 3) == 0) { /* two dimensions change places */
		uint32_t stride = v.stride[0], shape = v.shape[0];
		v.stride[0] = v.stride[1];
		v.shape[0] = v.shape[1];
		v.stride[1] = stride;
		v.shape[1] = shape;
		dense = len == 0 || v.shape[0] == 1 || v.shape[1] == 1;
	}
	put_tensor(&m->pkl, &v);
	snprintf(want->name, sizeof(want->name), "%s", name);
	want->at = dense ? m->stored[which] + v.off * bytes : NULL;
	want->len = len;
	want->why = dense ? NULL : "not contiguous";
	if (m->tuples) {
		want->at = NULL;
		want->why = "in a tuple";
	}
}

static void make_value(struct made *m, const char *name, unsigned depth)
{
	static const char *const keys[] = { "a", "b.c", "z", "weight" };
	size_t kind = sf_test_below(m->seed, depth > 4 || m->n > WANT / 2 ? 3 : 7),
	       n = sf_test_below(m->seed, 5);
	char below[200];

	if (kind == 0)
		put_int(&m->pkl, (uint32_t)n);
	else if (kind == 1)
		put_str(&m->pkl, "text");
	else if (kind == 2)
		make_tensor(m, name);
	else if (kind < 5) { /* keys are distinct: texts, numbers, True, a float */
		sf_buf_str(&m->pkl, kind == 3 ? "}" : "ccollections\nOrderedDict\n)R");
		sf_buf_byte(&m->pkl, '(');
		for (size_t i = 0; i < n; i++) {
			size_t number = 3 + i;
			if (i == 3) {
				sf_buf_str(&m->pkl, "G\x3f\xf8");
				sf_buf_add(&m->pkl, "\0\0\0\0\0\0", 6);
				snprintf(below, sizeof(below), "%s.1.5", name);
			} else if (sf_test_below(m->seed, 2)) {
				put_int(&m->pkl, (uint32_t)number);
				snprintf(below, sizeof(below), "%s.%zu", name, number);
			} else {
				put_str(&m->pkl, keys[i]);
				snprintf(below, sizeof(below), "%s.%s", name, keys[i]);
			}
			make_value(m, below, depth + 1);
		}
		sf_buf_byte(&m->pkl, 'u');
	} else {
		m->tuples += kind == 6;
		sf_buf_str(&m->pkl, kind == 5 ? "](" : "(");
		for (size_t i = 0; i < n; i++) {
			snprintf(below, sizeof(below), "%s.%zu", name, i);
			make_value(m, below, depth + 1);
		}
		sf_buf_byte(&m->pkl, kind == 5 ? 'e' : 't');
		m->tuples -= kind == 6;
	}
}

/* Property: names and bytes are those noted while the values were made; the order is checked in
 * read_back. */
START_TEST(tensors_in_objects_stand_under_their_paths_with_their_bytes)
{
	uint64_t seed = sf_test_seed("tensors_in_objects_stand_under_their_paths_with_their_bytes");

	for (unsigned round = 0; round < 60; round++) {
		struct made *m = calloc(4, sizeof(*m));
		struct world w;
		struct read_back rb;
		size_t there = 1;
		world_init(&w);
		world_tensor(&w, "g/m", SF_FLOAT16, 1, (uint64_t[]){ 3 });
		for (unsigned k = 0; k < 4; k++) {
			char path[16], name[16];
			snprintf(path, sizeof(path), "g/o%u", k);
			snprintf(name, sizeof(name), "o%u", k);
			m[k].seed = &seed;
			for (size_t i = 0; i < STORED; i++)
				m[k].stored[0][i] = (uint8_t)sf_test_rand(&seed),
				m[k].stored[1][i] = (uint8_t)(i * 7 + k);
			sf_buf_str(&m[k].pkl, "\x80\x02");
			make_value(&m[k], name, 0);
			sf_buf_byte(&m[k].pkl, '.');
			struct world_storage s[2] = { { "archive/data/a", m[k].stored[0], STORED },
				                      { "archive/data/b", m[k].stored[1],
				                        STORED } };
			world_object(&w, path, m[k].pkl.at, m[k].pkl.len, s, 2);
			sf_buf_release(&m[k].pkl);
		}
		world_open(&w);
		struct sf_vfile *f = make(&w, (struct sf_selection){ .strip = 1 });
		read_back(f, &rb);
		check(&rb, "m", w.data.at + w.key[0].off, w.key[0].len);
		for (unsigned k = 0; k < 4; k++) {
			for (unsigned i = 0; i < m[k].n; i++) {
				const struct want *want = &m[k].want[i];
				if (want->at) {
					check(&rb, want->name, want->at, want->len);
					there++;
				} else if (strlen(rb.skipped) < sizeof(rb.skipped) - 1) {
					check_skipped(&rb, want->name, want->why);
				}
			}
		}
		ck_assert_uint_eq(rb.head.n, there);
		/* any range is what the whole file has there */
		for (unsigned i = 0; i < 100; i++) {
			uint8_t part[300];
			uint64_t off = sf_test_below(&seed, rb.len);
			int64_t n = sf_vfile_pread(f, off, part, sizeof(part), NULL);
			ck_assert_int_eq(n, (int64_t)SF_MIN(sizeof(part), rb.len - off));
			ck_assert_mem_eq(part, rb.at + off, (size_t)n);
		}
		release(&rb);
		sf_vfile_unref(f);
		world_close(&w);
		free(m);
	}
}
END_TEST

static uint64_t fetched(struct world *w)
{
	uint64_t n = 0;

	for (int i = 0; i < SF_FETCH_NKINDS; i++)
		n += atomic_load(&w->io.counters.fetched_requests[i]);
	return n;
}

START_TEST(objects_are_read_once_by_prepare_and_not_before)
{
	struct world w;
	struct sf_error err = SF_ERROR_INIT;
	uint64_t size;

	world_init(&w);
	add_simple(&w, "o");
	world_tensor(&w, "m", SF_FLOAT32, 1, (uint64_t[]){ 3 });
	world_tensor(&w, "n", SF_FLOAT32, 1, (uint64_t[]){ 3 });
	world_open(&w);
	uint64_t none = fetched(&w);
	struct sf_vfile *f = make(&w, (struct sf_selection){ 0 });
	struct sf_vfile *alone = make(&w, (struct sf_selection){ .entry = w.all, .n = 1 });
	struct sf_vfile *plain = make(&w, (struct sf_selection){ .entry = w.all + 1, .n = 2 });
	ck_assert_int_eq(sf_vfile_size(f, &size), -EAGAIN);
	ck_assert_int_eq(sf_vfile_size(alone, &size), -EAGAIN);
	ck_assert_int_eq(sf_vfile_prepare(plain, &err), 0);
	ck_assert_uint_eq(fetched(&w), none);
	ck_assert_int_eq(sf_vfile_prepare(f, &err), 0);
	uint64_t once = fetched(&w);
	ck_assert_uint_gt(once, none);
	ck_assert_int_eq(sf_vfile_prepare(f, &err), 0);
	ck_assert_int_eq(sf_vfile_size(f, &size), 0);
	ck_assert_uint_eq(fetched(&w), once);
	sf_vfile_unref(f);
	sf_vfile_unref(alone);
	sf_vfile_unref(plain);
	world_close(&w);
}
END_TEST

START_TEST(no_object_is_read_for_hf_names_or_with_objects_none)
{
	struct world w;
	struct read_back rb;
	const char *names[] = { "x", "y" };
	const uint32_t lens[] = { 1, 1 };

	world_init(&w);
	world_tensor(&w, "m", SF_FLOAT32, 1, (uint64_t[]){ 3 });
	add_simple(&w, "o");
	w.opt.objects = SF_OBJECTS_KEEP;
	world_open(&w);
	for (unsigned hf = 0; hf < 2; hf++) {
		w.opt.objects = hf ? SF_OBJECTS_KEEP : SF_OBJECTS_NONE;
		struct sf_vfile *f = make(
			&w, (struct sf_selection){ .names = hf ? names : NULL, .name_lens = lens });
		read_back(f, &rb);
		ck_assert_uint_eq(rb.head.n, 1);
		check_skipped(&rb, hf ? "y" : "o", "not a tensor"); /* by the file's names */
		ck_assert_uint_eq(atomic_load(&w.io.counters.fetched_requests[SF_FETCH_OBJECT]), 0);
		release(&rb);
		sf_vfile_unref(f);
	}
	world_close(&w);
}
END_TEST

START_TEST(a_key_keeps_its_name_against_a_tensor_in_an_object)
{
	struct world w;
	struct read_back rb;

	world_init(&w);
	add_simple(&w, "o");
	add_simple(&w, "p");
	world_tensor(&w, "o/t", SF_INT64, 1, (uint64_t[]){ 3 });
	world_open(&w);
	struct sf_vfile *f = make(&w, (struct sf_selection){ 0 });
	read_back(f, &rb);
	ck_assert_uint_eq(rb.head.n, 2);
	check(&rb, "o.t", w.data.at + w.key[2].off, w.key[2].len);
	check(&rb, "p.t", TWO_FLOATS, 8);
	check_skipped(&rb, "o.t", "another tensor has its name in this file");
	release(&rb);
	sf_vfile_unref(f);
	world_close(&w);
}
END_TEST

START_TEST(an_object_that_is_a_tensor_stands_under_its_key)
{
	struct world w;
	struct read_back rb;
	struct sf_buf b = { 0 };

	world_init(&w);
	sf_buf_str(&b, "\x80\x02");
	put_tensor(&b, &ONE);
	sf_buf_byte(&b, '.');
	add_object(&w, "g/o", &b);
	world_open(&w);
	struct sf_vfile *f = make(&w, (struct sf_selection){ .strip = 1 });
	read_back(f, &rb);
	check(&rb, "o", TWO_FLOATS, 8);
	ck_assert_str_eq(rb.skipped, "");
	release(&rb);
	sf_vfile_unref(f);
	world_close(&w);
}
END_TEST

/* The class wraps two tensors, one of them in a wrapper of its own: as torch pickles subclasses. */
START_TEST(tensors_that_a_subclass_is_made_of_stand_below_its_key)
{
	struct world w;
	struct read_back rb;
	struct sf_buf b = { 0 };
	const char *begin =
		"ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_wrapper_"
		"subclass\ncmy\nSub\n(cmy\nSub\nctorch\nfloat32\nK\x02\x85t}(";

	world_init(&w);
	sf_buf_str(&b, "\x80\x02");
	sf_buf_str(&b, begin);
	put_str(&b, "data");
	put_tensor(&b, &ONE);
	put_str(&b, "deep");
	sf_buf_str(&b, begin);
	put_str(&b, "scale");
	put_tensor(&b, &ONE);
	sf_buf_str(&b, "utR"
	               "utR.");
	add_object(&w, "g/o", &b);
	world_open(&w);
	struct sf_vfile *f = make(&w, (struct sf_selection){ .strip = 1 });
	read_back(f, &rb);
	check(&rb, "o.data", TWO_FLOATS, 8);
	check(&rb, "o.deep.scale", TWO_FLOATS, 8);
	check_skipped(&rb, "o", "not a tensor");
	release(&rb);
	sf_vfile_unref(f);
	world_close(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("st_embed");
	TCase *t = tcase_create("objects");

	tcase_add_test(t, tensors_in_objects_stand_under_their_paths_with_their_bytes);
	tcase_add_test(t, objects_are_read_once_by_prepare_and_not_before);
	tcase_add_test(t, no_object_is_read_for_hf_names_or_with_objects_none);
	tcase_add_test(t, a_key_keeps_its_name_against_a_tensor_in_an_object);
	tcase_add_test(t, an_object_that_is_a_tensor_stands_under_its_key);
	tcase_add_test(t, tensors_that_a_subclass_is_made_of_stand_below_its_key);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
