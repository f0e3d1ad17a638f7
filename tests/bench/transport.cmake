# Figures of transport/, each a ratio to an anchor of the same run.
if(NOT BATON_FUZZ)
  foreach(bench digest values)
    add_executable(${bench}_bench
      ${CMAKE_CURRENT_LIST_DIR}/${bench}_bench.c ${CMAKE_CURRENT_LIST_DIR}/ratio.c)
    target_link_libraries(${bench}_bench PRIVATE baton_transport baton_options)
  endforeach()
  foreach(bench landing p2p)
    add_executable(${bench}_bench
      ${CMAKE_CURRENT_LIST_DIR}/${bench}_bench.c ${CMAKE_CURRENT_LIST_DIR}/version.c ${CMAKE_CURRENT_LIST_DIR}/ratio.c)
  endforeach()
  target_link_libraries(landing_bench PRIVATE baton_transport baton_options)
  target_link_libraries(p2p_bench PRIVATE baton_p2p baton_options)
  pkg_check_modules(DELTA_ZSTD REQUIRED IMPORTED_TARGET libzstd)
  add_executable(delta_bench
    ${CMAKE_CURRENT_LIST_DIR}/delta_bench.c ${CMAKE_CURRENT_LIST_DIR}/ratio.c)
  target_link_libraries(delta_bench PRIVATE baton_transport_delta PkgConfig::DELTA_ZSTD baton_options)
endif()
