# SPDX-License-Identifier: MIT
# Everything but PyTorch comes from Debian 12; docs/dependencies.md says why each is here. The installed package config includes this
# file too, so that a consumer finds what the static libraries need.

# pliant_find(package debian-package [argument of find_package ...]): finds it, or adds it to pliant_missing.
macro(pliant_find package debian)
  find_package(${package} QUIET ${ARGN})
  if(NOT ${package}_FOUND)
    list(APPEND pliant_missing ${package})
    list(APPEND pliant_missing_debian ${debian})
  endif()
endmacro()

# One sentence that names all that is missing, and the command that installs it.
function(pliant_missing_text result)
  list(JOIN pliant_missing ", " names)
  list(JOIN pliant_missing_debian " " packages)
  set(${result} "Pliant needs packages that were not found: ${names}. Debian or Ubuntu:\n  sudo apt-get install ${packages}" PARENT_SCOPE)
endfunction()

pliant_find(Threads libc6-dev)
pliant_find(fmt libfmt-dev)
pliant_find(nlohmann_json nlohmann-json3-dev)
pliant_find(hwy libhwy-dev)

if(PLIANT_MPI AND NOT PLIANT_SMPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  pliant_find(MPI "libopenmpi-dev openmpi-bin" COMPONENTS CXX)
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
    message(STATUS "PyTorch 2.6 or newer not found: no pliant::comm_c10d (-DTorch_DIR=... is the folder share/cmake/Torch of a torch)")
    set(PLIANT_TORCH OFF)
  endif()
endif()
