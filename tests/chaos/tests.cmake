# What is preloaded into the cluster's daemons.
if(NOT BATON_FUZZ AND NOT BATON_SANITIZE)
  add_library(chaos_faulty MODULE ${CMAKE_CURRENT_LIST_DIR}/faulty.c)
  target_link_libraries(chaos_faulty PRIVATE baton_options)
  set_target_properties(chaos_faulty PROPERTIES PREFIX "" LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
endif()
