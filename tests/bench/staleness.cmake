# Figures of the controller's core.
add_executable(staleness_bench ${CMAKE_CURRENT_LIST_DIR}/staleness_bench.c ${CMAKE_CURRENT_LIST_DIR}/ratio.c)
target_link_libraries(staleness_bench PRIVATE controller_core baton_base baton_options)
