# SF_WARN(VARIABLE, FLAGS) - append to VARIABLE each of FLAGS the compiler takes.
# One by one: clang lacks some of gcc's. -Werror in the probe because clang only warns of unknown ones.
AC_DEFUN([SF_WARN], [
  for sf_flag in m4_normalize([$2]); do
    AS_VAR_PUSHDEF([sf_cache], [sf_cv_cc_$sf_flag])
    AC_CACHE_CHECK([whether $CC takes $sf_flag], [sf_cache], [
      sf_save_CFLAGS=$CFLAGS
      CFLAGS="$CFLAGS -Werror $sf_flag"
      AC_COMPILE_IFELSE([AC_LANG_PROGRAM()], [AS_VAR_SET([sf_cache], [yes])],
        [AS_VAR_SET([sf_cache], [no])])
      CFLAGS=$sf_save_CFLAGS])
    AS_VAR_IF([sf_cache], [yes], [AS_VAR_APPEND([$1], [" $sf_flag"])])
    AS_VAR_POPDEF([sf_cache])
  done
])
