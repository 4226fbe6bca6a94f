# SPDX-License-Identifier: MIT
# The Python that the binding is for (pip's own when it builds a wheel, else .venv's), and through it the torch.
if(NOT Python_EXECUTABLE AND EXISTS ${PROJECT_SOURCE_DIR}/.venv/bin/python)
  set(Python_EXECUTABLE ${PROJECT_SOURCE_DIR}/.venv/bin/python)
endif()
find_package(Python 3.10 COMPONENTS Interpreter Development.Module)
if(Python_FOUND AND NOT Torch_DIR)
  execute_process(COMMAND ${Python_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/find_torch.py
    OUTPUT_VARIABLE torch_root OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE torch_missing)
  if(NOT torch_missing)
    set(Torch_DIR ${torch_root}/share/cmake/Torch CACHE PATH "PyTorch's share/cmake/Torch")
  endif()
endif()
if(SKBUILD AND NOT Python_FOUND)
  list(APPEND pliant_missing "the headers of Python")
  list(APPEND pliant_missing_debian python3-dev)
elseif(SKBUILD AND NOT Torch_DIR)
  message(FATAL_ERROR "Pliant is built for the torch that is installed, and ${Python_EXECUTABLE} has none. Install it first:\n"
    "  pip install torch\n"
    "If torch is installed where pip's build cannot see it: pip install --no-build-isolation .")
endif()
