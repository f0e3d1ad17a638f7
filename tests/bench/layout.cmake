# Plans between the layouts of large models.
if(NOT BATON_FUZZ)
  add_executable(layout_bench ${CMAKE_CURRENT_LIST_DIR}/layout_bench.c)
  target_link_libraries(layout_bench PRIVATE baton_layout baton_options)
endif()
