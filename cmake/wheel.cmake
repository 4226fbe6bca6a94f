# SPDX-License-Identifier: MIT
# A wheel carries the shared libraries that it links, in pliant/lib: it needs no package but torch where it is installed. Tools lie
# in bin/, and look for the libraries in the folders where pip puts packages.
set(python_folder python${Python_VERSION_MAJOR}.${Python_VERSION_MINOR})
set(PLIANT_WHEEL_RPATH "")
foreach(packages lib/${python_folder}/site-packages lib64/${python_folder}/site-packages lib/${python_folder}/dist-packages)
  list(APPEND PLIANT_WHEEL_RPATH "$ORIGIN/../${packages}/pliant/lib")
endforeach()

foreach(library fmt::fmt hwy::hwy)
  get_target_property(type ${library} TYPE)
  if(type STREQUAL "SHARED_LIBRARY")
    install(FILES $<TARGET_FILE:${library}> DESTINATION pliant/lib RENAME $<TARGET_SONAME_FILE_NAME:${library}> COMPONENT python EXCLUDE_FROM_ALL)
  endif()
endforeach()
# Their licences, where Debian keeps them.
foreach(package libfmt-dev libhwy-dev)
  install(FILES /usr/share/doc/${package}/copyright DESTINATION pliant/lib RENAME ${package}.copyright COMPONENT python EXCLUDE_FROM_ALL OPTIONAL)
endforeach()

# Messages name pages of docs/.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION pliant COMPONENT python EXCLUDE_FROM_ALL FILES_MATCHING PATTERN "*.md"
  PATTERN images EXCLUDE PATTERN results EXCLUDE)
