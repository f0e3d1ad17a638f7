# Unit tests of transport/layout.
foreach(module layout layout_plan layout_rules layout_family)
  baton_test(${module}_test
    SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/unit/${module}_test.c ${CMAKE_CURRENT_SOURCE_DIR}/unit/layout_world.c
    LIBS baton_layout)
endforeach()
