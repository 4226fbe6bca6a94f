# SPDX-License-Identifier: MIT
# The only place with compiler flags, but for one of two kernels. No -march: kernels pick their SIMD target at run time. No contraction of a*b+c into
# one rounding: every target must give the same bits.
add_library(pliant_flags INTERFACE)
target_compile_options(pliant_flags INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wno-missing-field-initializers -Wno-dangling-else -ffp-contract=off -fPIC)
# What is installed names no folder of the machine that built it: debug information is relative to the source.
target_compile_options(pliant_flags INTERFACE -ffile-prefix-map=${PROJECT_SOURCE_DIR}=. -ffile-prefix-map=${PROJECT_BINARY_DIR}=./build)
if(PLIANT_SANITIZE)
  target_compile_options(pliant_flags INTERFACE -fsanitize=${PLIANT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(pliant_flags INTERFACE -fsanitize=${PLIANT_SANITIZE})
endif()
