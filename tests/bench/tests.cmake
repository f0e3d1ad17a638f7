# Each part lists its benches in a file of its own.
file(GLOB bench_lists CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.cmake)
list(REMOVE_ITEM bench_lists ${CMAKE_CURRENT_LIST_FILE})
foreach(list ${bench_lists})
  include(${list})
endforeach()
