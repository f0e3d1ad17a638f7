# Unit tests of transport/layout.
pkg_check_modules(JANSSON REQUIRED jansson)
foreach(module layout layout_plan layout_rules layout_rules_random layout_family)
  baton_test(${module}_test
    SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/unit/${module}_test.c ${CMAKE_CURRENT_SOURCE_DIR}/unit/layout_world.c
    LIBS baton_layout)
endforeach()
baton_test(layout_file_test SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/unit/layout_file_test.c LIBS baton_layout_file baton_config ${JANSSON_LINK_LIBRARIES})
if(TARGET layout_file_test)
  target_compile_definitions(layout_file_test PRIVATE BATON_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data"
    BATON_DOCS="${CMAKE_SOURCE_DIR}/deploy/docs")
endif()
baton_fuzz(layout_fuzz SOURCES ${CMAKE_CURRENT_SOURCE_DIR}/fuzz/layout_fuzz.c LIBS baton_layout_file)
