# SF_SANITIZE(CFLAGS-VARIABLE, LDFLAGS-VARIABLE) - --enable-sanitizers, --enable-fuzzing, --enable-coverage,
# --enable-werror. The conditional SANITIZE tells the tests not to fork, FUZZING to link libFuzzer's main.
AC_DEFUN([SF_SANITIZE], [
  AC_ARG_ENABLE([sanitizers],
    [AS_HELP_STRING([--enable-sanitizers=LIST], [build all with -fsanitize=LIST (address,undefined)])],
    [], [enable_sanitizers=no])
  AS_IF([test "x$enable_sanitizers" = xyes], [enable_sanitizers=address,undefined])
  AC_ARG_ENABLE([fuzzing],
    [AS_HELP_STRING([--enable-fuzzing], [link tests/fuzz with libFuzzer (needs clang)])],
    [], [enable_fuzzing=no])
  AC_ARG_ENABLE([coverage],
    [AS_HELP_STRING([--enable-coverage], [build for gcov])], [], [enable_coverage=no])
  AC_ARG_ENABLE([werror],
    [AS_HELP_STRING([--enable-werror], [warnings are errors; not together with sanitizers])],
    [], [enable_werror=no])

  AS_IF([test "x$enable_sanitizers" != xno], [
    AS_IF([test "x$enable_werror" = xyes],
      [AC_MSG_ERROR([--enable-werror and --enable-sanitizers exclude each other: gcc warns falsely under sanitizers])])
    sf_san="-fsanitize=$enable_sanitizers -fno-omit-frame-pointer"
    AS_CASE([$enable_sanitizers], [*undefined*], [sf_san="$sf_san -fno-sanitize-recover=undefined"])
    sf_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS $sf_san"
    AC_MSG_CHECKING([whether $CC links with $sf_san])
    AC_LINK_IFELSE([AC_LANG_PROGRAM()], [AC_MSG_RESULT([yes])],
      [AC_MSG_RESULT([no])
       AC_MSG_ERROR([$CC cannot link with -fsanitize=$enable_sanitizers: its runtime library is missing])])
    CFLAGS=$sf_save_CFLAGS
    $1="[$]$1 $sf_san"
    $2="[$]$2 $sf_san"])
  AS_IF([test "x$enable_fuzzing" = xyes], [
    sf_save_CFLAGS=$CFLAGS
    CFLAGS="$CFLAGS -fsanitize=fuzzer-no-link"
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM()], [],
      [AC_MSG_ERROR([--enable-fuzzing: $CC does not know -fsanitize=fuzzer-no-link; configure with CC=clang])])
    CFLAGS=$sf_save_CFLAGS
    $1="[$]$1 -fsanitize=fuzzer-no-link"])
  AS_IF([test "x$enable_coverage" = xyes], [
    $1="[$]$1 --coverage -fprofile-update=atomic"
    $2="[$]$2 --coverage"])
  AS_IF([test "x$enable_werror" = xyes], [$1="[$]$1 -Werror"])
  AM_CONDITIONAL([SANITIZE], [test "x$enable_sanitizers" != xno])
  AM_CONDITIONAL([FUZZING], [test "x$enable_fuzzing" = xyes])
])
