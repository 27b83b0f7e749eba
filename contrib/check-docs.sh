#!/bin/sh
# The documents against the program: every option of every verb's --help has its place in shardfuse.1, and every option that
# shardfuse.1 shows with dashes is one; shardfuse.h(3) has the header's functions; links between documents lead somewhere. Run by make check; SHARDFUSE is the program, SF_SRCDIR the tree.
set -u
program=${SHARDFUSE:-./shardfuse}
top=${SF_SRCDIR:-$(dirname "$0")/..}
man=$top/docs/man/shardfuse.1
bad=0
complain() {
	echo "$*"
	bad=1
}

[ -x "$program" ] || {
	echo "SKIP: no program at $program"
	exit 77
}
"$program" mount --help | grep -qi 'not in this build' && {
	echo "SKIP: built without libfuse: the mount's options are not known"
	exit 77
}
# "model-only" stands there as it is, or as the word model_only of -o
in_man() {
	grep -qE -- "(^|[^a-z_-])-?-?($1|$(echo "$1" | tr - _))([^a-z_-]|\$)" "$man"
}

verbs=$("$program" --help | sed -n '/^verbs:/,/^$/s/^  \([a-z][a-z-]*\) .*/\1/p')
[ -n "$verbs" ] || complain "no verbs in --help"
all=
for verb in $verbs; do
	grep -q "^\.It Cm $verb\b" "$man" || complain "$man: no entry for the verb $verb"
	help=$("$program" "$verb" --help-all) || complain "$verb --help-all: exit $?"
	"$program" "$verb" --help | grep -q '^example:' || complain "$verb --help shows no example"
	options=$(echo "$help" | sed -n 's/^  \(-., \|    \)--\([a-z-]*\).*/\2/p')
	words=$(echo "$help" | sed -n '/^only with -o:/,/^$/s/^      \([a-z_]*\).*/\1/p')
	for o in $options $words; do
		in_man "$o" || complain "$man: nothing about '$o' of $verb"
	done
	all="$all $options"
done

for o in $(sed -nE 's/^\.(Fl|It Fl|Op Fl)( .)? ?,? ?-([a-z][a-z-]+).*/\3/p' "$man" | sort -u); do
	echo "$all" | tr ' ' '\n' | grep -qx -- "$o" || [ "$o" = help ] || [ "$o" = help-all ] ||
		complain "$man: --$o is no option of any verb"
done

# the words of views= stand in its entry
views=$("$program" mount --help-all | sed -n 's/^ *--views .*show only these: *//p' | tr -d ,)
[ -n "$views" ] || complain "no names of views in mount --help-all"
entry=$(sed -n '/^\.It Cm views /,/^\.El/p' "$man" | tr -d ,)
for v in $views; do
	echo "$entry" | tr ' ' '\n' | grep -qx -- "$v" || complain "$man: the entry of views lacks '$v'"
done

# shardfuse.h(3) has the functions that shardfuse.h exports, and no others
manual=$top/docs/man/shardfuse.h.3
exported=$(tr '\n' ' ' <"$top/src/shardfuse.h" | grep -oE 'SHARDFUSE_API [a-z0-9_ *]*\(' | grep -oE 'shardfuse_[a-z_]+\(' | tr -d '(' | sort -u)
[ -n "$exported" ] || complain "no functions in src/shardfuse.h"
described=$(sed -nE 's/^\.F[no] (shardfuse_[a-z_]+).*/\1/p' "$manual" | sort -u)
[ "$exported" = "$described" ] ||
	complain "$manual: these functions stand in it or in the header alone:" $(printf '%s\n' "$exported" "$described" | sort | uniq -u)

# links between documents lead to files
for doc in "$top"/*.md "$top"/docs/*.md "$top"/docs/*/*.md; do
	for link in $(grep -oE '\]\([^):# ]+' "$doc" | cut -c3-); do
		[ -e "$(dirname "$doc")/$link" ] || complain "$doc: no file for the link $link"
	done
done

if [ $bad = 0 ]; then
	echo "1 passed, 0 failed, 0 skipped"
else
	echo "0 passed, 1 failed, 0 skipped"
fi
exit $bad
