# SPDX-License-Identifier: MIT
# Packages that only the build needs; then the end, if any package is missing.
find_path(PLIANT_XXHASH_INCLUDE xxhash.h)
if(NOT PLIANT_XXHASH_INCLUDE)
  list(APPEND pliant_missing xxHash)
  list(APPEND pliant_missing_debian libxxhash-dev)
endif()

if(SKBUILD AND PLIANT_TOOLS)
  find_package(CLI11 QUIET)
  find_package(tomlplusplus QUIET)
  if(NOT CLI11_FOUND OR NOT tomlplusplus_FOUND)
    message(WARNING "CLI11 or toml++ was not found: pliant lab, bench and plan will not be in this wheel. Debian or Ubuntu:\n"
      "  sudo apt-get install libcli11-dev libtomlplusplus-dev")
    set(PLIANT_TOOLS OFF)
  endif()
elseif(PLIANT_TOOLS)
  pliant_find(CLI11 libcli11-dev)
  pliant_find(tomlplusplus libtomlplusplus-dev)
endif()

# toml++ as headers: its shared library would be one more that a wheel must carry, for one file of each tool.
if(tomlplusplus_FOUND)
  add_library(pliant_toml INTERFACE)
  target_include_directories(pliant_toml SYSTEM INTERFACE $<TARGET_PROPERTY:tomlplusplus::tomlplusplus,INTERFACE_INCLUDE_DIRECTORIES>)
  target_compile_definitions(pliant_toml INTERFACE TOML_HEADER_ONLY=1)
endif()

if(PLIANT_TESTS)
  pliant_find(GTest libgtest-dev)
  pliant_find(rapidcheck librapidcheck-dev)
endif()

if(pliant_missing)
  pliant_missing_text(text)
  if("MPI" IN_LIST pliant_missing)
    string(APPEND text "\n(-DPLIANT_MPI=OFF builds without MPI.)")
  endif()
  message(FATAL_ERROR "${text}")
endif()
