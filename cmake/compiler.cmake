# SPDX-License-Identifier: MIT
# Enables C++. Where there is no compiler, one sentence says so instead of CMake's own list of guesses.
if(NOT CMAKE_CXX_COMPILER)
  include(CheckLanguage)
  check_language(CXX)
endif()
if(NOT CMAKE_CXX_COMPILER)
  message(FATAL_ERROR "Pliant needs a C++ compiler, and none was found. Debian or Ubuntu:\n"
    "  sudo apt-get install g++")
endif()
enable_language(CXX)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 11)
  message(FATAL_ERROR "Pliant needs a compiler for C++20 (g++ 12 is tested), and ${CMAKE_CXX_COMPILER} is g++ "
    "${CMAKE_CXX_COMPILER_VERSION}. Debian or Ubuntu, then set CXX=g++-12:\n  sudo apt-get install g++-12")
endif()
