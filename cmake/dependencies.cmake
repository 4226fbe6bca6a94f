# SPDX-License-Identifier: MIT
# Everything but PyTorch comes from Debian 12; docs/dependencies.md says why each is here. The installed package config includes this
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

# PyTorch: headers and libraries of the wheel in .venv, or of the one that Torch_DIR (share/cmake/Torch in it) points at. Its own
# package config looks for CUDA, MKL and more that nothing here needs, and takes seconds; so the target is written here.
if(PLIANT_TORCH AND NOT TARGET pliant_torch::cpu)
  if(NOT Torch_DIR AND EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python)
    execute_process(COMMAND ${PROJECT_SOURCE_DIR}/.venv/bin/python -c "import torch; print(torch.utils.cmake_prefix_path)"
      OUTPUT_VARIABLE torch_prefix OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE torch_missing)
    if(NOT torch_missing)
      set(Torch_DIR ${torch_prefix}/Torch CACHE PATH "PyTorch's share/cmake/Torch")
    endif()
  endif()
  get_filename_component(torch_root "${Torch_DIR}/../../.." ABSOLUTE)
  # Wheels before 2.6 have strings of another layout than the rest of this program.
  if(EXISTS "${Torch_DIR}/TorchConfig.cmake")
    file(STRINGS "${Torch_DIR}/TorchConfig.cmake" torch_old_strings REGEX "_GLIBCXX_USE_CXX11_ABI=0")
  endif()
  if(Torch_DIR AND NOT torch_old_strings AND EXISTS ${torch_root}/include/torch/csrc/distributed/c10d/Backend.hpp AND EXISTS ${torch_root}/lib/libtorch_cpu.so)
    message(STATUS "PyTorch: ${torch_root}")
    add_library(pliant_torch::cpu INTERFACE IMPORTED)
    # PyTorch brings a fmt of its own, found before Debian's: used as headers, it needs no library and meets no other.
    set_target_properties(pliant_torch::cpu PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${torch_root}/include;${torch_root}/include/torch/csrc/api/include"
      INTERFACE_COMPILE_DEFINITIONS FMT_HEADER_ONLY=1
      INTERFACE_LINK_LIBRARIES "${torch_root}/lib/libtorch_cpu.so;${torch_root}/lib/libc10.so")
  else()
    message(STATUS "PyTorch 2.6 or newer not found: no comm/c10d (scripts/setup installs it; or give -DTorch_DIR=...)")
    set(PLIANT_TORCH OFF)
  endif()
endif()
