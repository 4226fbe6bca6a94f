# SPDX-License-Identifier: MIT
# After `cmake --install`, find_package(pliant) gives pliant::<module> for every module that was built.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/pliant)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/pliant/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/pliant FILES_MATCHING PATTERN "*.h")
install(EXPORT pliant NAMESPACE pliant:: FILE pliant-targets.cmake DESTINATION ${package_dir})
if(PLIANT_TORCH)
  install(EXPORT pliant_torch NAMESPACE pliant:: FILE pliant-torch-targets.cmake DESTINATION ${package_dir})
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/pliant-config.cmake.in pliant-config.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(pliant-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/pliant-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/pliant-config-version.cmake
              ${PROJECT_SOURCE_DIR}/cmake/dependencies.cmake DESTINATION ${package_dir})

# The manual, and bash's completion under the name of each command: bash loads it by that name. In a wheel, below its data.
if(PROJECT_IS_TOP_LEVEL)
  set(component "")
  set(share ${CMAKE_INSTALL_DATAROOTDIR})
  if(SKBUILD)
    set(component COMPONENT python)
    set(share ${SKBUILD_DATA_DIR}/share)
  endif()
  file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/man/*.1)
  install(FILES ${pages} DESTINATION ${share}/man/man1 ${component})
  foreach(command pliant pliant-bench pliant-lab pliant-plan)
    install(FILES ${PROJECT_SOURCE_DIR}/man/completion.bash DESTINATION ${share}/bash-completion/completions RENAME ${command} ${component})
  endforeach()
endif()
