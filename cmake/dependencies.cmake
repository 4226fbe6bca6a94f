# SPDX-License-Identifier: MIT
# Everything comes from Debian 12; docs/dependencies.md says why each is here. The installed package config includes this
# file too, so that a consumer finds what the static libraries need.
include(CMakeFindDependencyMacro)
find_dependency(Threads)
find_dependency(fmt)
find_dependency(nlohmann_json)
find_dependency(hwy)

if(PLIANT_MPI AND NOT PLIANT_SMPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_dependency(MPI COMPONENTS CXX)
endif()
