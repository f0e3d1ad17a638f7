# Figures of the controller's core.
if(NOT BATON_FUZZ)
  add_executable(core_bench ${CMAKE_CURRENT_LIST_DIR}/core_bench.c ${CMAKE_CURRENT_LIST_DIR}/core_fleet.c)
  target_link_libraries(core_bench PRIVATE controller_core baton_options)
endif()
